//! How long emulated launches take: `cargo test -p isentrope-cuda-emulator --test speed --
//! --ignored --nocapture`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test, which says how it went")]

use isentrope_cuda::{
    Argument, Device, FUNCTIONS, Function, Grid, Kernel, Memory, Pointer, Source,
};
use isentrope_cuda_emulator::{Emulator, Settings};

/// Nanoseconds that this thread has run: others may use the machine.
fn now() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

static SIMPLE: Source = Source { file: "simple.cu", text: include_str!("simple.cu") };
static SCALE: Kernel<(Pointer, Pointer, u32, f32)> = Kernel::new("scale_f32", &SIMPLE);
static WAIT: Kernel<(u32,)> = Kernel::new("wait", &SIMPLE);
static REVERSE: Kernel<(Pointer, Pointer)> = Kernel::new("reverse", &SIMPLE);

fn function(name: &str) -> &'static Function {
    FUNCTIONS.iter().find(|function| function.name == name).unwrap()
}

#[test]
#[ignore = "measures"]
fn launches() {
    let core = isentrope_cuda_emulator::TensorCore::Hopper;
    let start = now();
    let mut sum = 0.0;
    for i in 0..1_000_000u32 {
        sum = core.dot(sum, [(i & 0xff | 0x3f00) as u16; 16], [0xbf80 ^ (i << 15) as u16; 16]);
    }
    println!("{:.0} ns a dot product ({sum})", (now() - start) / 1e6);
    for races in [false, true] {
        let device = Emulator::new(Settings { races, ..Settings::default() });
        let (x, y) = (device.allocate(4 << 20).unwrap(), device.allocate(4 << 20).unwrap());
        device.clear(&x, 0, 4 << 20);
        let time = |what: &str, count: usize, unit: &str, f: &dyn Fn()| {
            f();
            let start = now();
            f();
            let nanoseconds = (now() - start) / count as f64;
            println!("races {races}: {what}: {nanoseconds:.0} ns a {unit}");
        };
        let arguments = (Pointer::of(&x), Pointer::of(&y));
        time("scale", 1 << 20, "thread", &|| {
            SCALE.launch(
                &device,
                Grid::line(1 << 13, 128),
                (arguments.0, arguments.1, 1 << 20, 2.0),
            );
        });
        time("one block of scale", 1, "launch", &|| {
            SCALE.launch(&device, Grid::line(1, 32), (arguments.0, arguments.1, 32, 2.0));
        });
        for threads in [32, 128, 256] {
            time(
                &format!("a barrier of {threads}"),
                1000 * threads as usize * 10,
                "thread",
                &|| {
                    WAIT.launch(&device, Grid::line(10, threads), (1000,));
                },
            );
        }
        time("reverse", 1 << 20, "thread, 6 stops", &|| {
            REVERSE.launch(&device, Grid::line(1 << 13, 128), arguments);
        });
        let linear = function("linear_bf16_64");
        let (rows, columns, depth) = (64u32, 128u32, 512u32);
        let pointer = |at: u64| Argument::Pointer(at);
        let mut values =
            vec![pointer(x.address()), pointer(x.address()), pointer(0), pointer(y.address())];
        values.extend([rows, columns, depth, depth, depth, columns, 0].map(Argument::U32));
        time("linear_bf16_64", (rows * columns * depth / 2048) as usize, "mma", &|| {
            device.launch(linear, Grid::new([1, 2, 1], 128).with_shared(40 << 10), &values);
        });
        time("allocate", 1000, "allocation of 4 KiB", &|| {
            (0..1000).for_each(|_| drop(device.allocate(4096).unwrap()));
        });
    }
}
