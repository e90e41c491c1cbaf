//! Measures how long ranks take to add a gradient and to share the sum, for bench/ranks.py. Rank 0
//! prints a line of JSON.
//!
//! `mpirun -n 4 sum_speed MEBIBYTES ROUNDS`

use isentrope_ranks::{HostFloats, Launch, Settings, Slices, Watch, World};
use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let numbers = |index| std::env::args().nth(index).and_then(|text| text.parse::<usize>().ok());
    let (Some(mebibytes), Some(rounds)) = (numbers(1), numbers(2)) else {
        return Err("give mebibytes and rounds".into());
    };
    let world = World::begin(
        Launch::from_environment()?,
        &Settings {
            threads: 1,
            program: "sum_speed".into(),
            watch: Watch::default(),
            tell: Arc::new(|message| {
                let _ = writeln!(io::stderr(), "{}", message.text()); // the process ends, heard or not
            }),
        },
    )?;
    let mut gradient = vec![1.0f32; mebibytes << 18];
    let slices = Slices::new([[gradient.len()]], world.size());
    let mut seconds = Vec::new();
    for _ in 0..=rounds {
        world.any(false)?; // all begin together
        let begun = Instant::now();
        world.sum(&mut HostFloats::new([&mut gradient[..]]), &slices)?;
        world.share(&mut HostFloats::new([&mut gradient[..]]), &slices)?;
        seconds.push(begun.elapsed().as_secs_f64());
        gradient.fill(1.0);
    }
    if let (true, Some(library)) = (world.is_first(), world.library()) {
        let (path, version, abi) = (&library.path, &library.version, library.abi);
        // The first round warms up.
        writeln!(
            io::stdout(),
            r#"{{"path": {path:?}, "version": {version:?}, "abi": {abi:?}, "seconds": {:?}}}"#,
            &seconds[1..]
        )?;
    }
    Ok(world.finish()?)
}
