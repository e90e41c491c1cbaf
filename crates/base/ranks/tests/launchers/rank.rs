//! The work of a rank that a launcher has started.

use isentrope_ranks::{
    Error, HostFloats, Launch, PartialSums, Settings, Slices, Watch, World, shards_of_rank,
};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs, io, process, thread};

/// The variable with the task.
pub const TASK: &str = "ISENTROPE_RANKS_TEST_TASK";
/// The variable with a directory where ranks say who they are.
pub const DIRECTORY: &str = "ISENTROPE_RANKS_TEST_DIRECTORY";
/// The variable with the seconds after which a silent rank is given up.
pub const TIMEOUT: &str = "ISENTROPE_RANKS_TEST_TIMEOUT";

/// Numbers of the gradient: some pieces, and blocks that are not full.
const LENGTHS: [usize; 3] = [150_000, 4097, 70_001];

pub fn run(task: &str) -> ExitCode {
    // Before ranks have met, only launchers' variables number them.
    let number =
        ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK"].iter().find_map(|name| env::var(name).ok());
    if task == "leave" {
        if number.as_deref() == Some("1") {
            leave_word(&(env::var(DIRECTORY).unwrap() + "/1"));
            return ExitCode::SUCCESS;
        }
        wait_until_gone(&(env::var(DIRECTORY).unwrap() + "/1"));
    }
    let silent =
        env::var(TIMEOUT).ok().and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
    let settings = Settings {
        threads: 1,
        program: "a test".into(),
        watch: Watch { silent, period: Duration::from_millis(100) },
        tell: Arc::new(|message| say(&mut io::stderr(), message.text())),
    };
    let world = match Launch::from_environment().and_then(|launch| World::begin(launch, &settings))
    {
        Ok(world) => world,
        Err(error) => {
            say(&mut io::stderr(), &format!("begin: {error}"));
            return ExitCode::from(2);
        }
    };
    let result = match task.split_once(' ') {
        Some(("sum", shards)) => sum(&world, shards.parse().unwrap()),
        Some(("panic", rank)) => panic(&world, rank.parse().unwrap()),
        None if task == "error" => error(&world),
        None if task == "endless" => endless(&world),
        None if task == "alone" => alone(&world),
        _ => Err(format!("no task {task:?}")),
    };
    if let Err(error) = result {
        // Before the farewell: launchers end all ranks when one ends with an error.
        say(&mut io::stderr(), &format!("ended: {}", world.fail(&error)));
        let _ = world.finish();
        return ExitCode::FAILURE;
    }
    match world.finish() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&mut io::stderr(), &format!("ended: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn say(to: &mut dyn Write, text: &str) {
    // In one piece: several ranks share what a launcher shows.
    to.write_all(format!("{text}\n").as_bytes()).unwrap();
}

fn as_text<T>(result: Result<T, Error>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

/// Numbers of a shard, of wide range.
fn shard(index: usize) -> Vec<f32> {
    let mut state = index as u64 + 1;
    let numbers = (0..LENGTHS.iter().sum()).map(|_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mantissa = (state >> 40) as f32 - 8_388_608.0;
        mantissa * 2f32.powi((state >> 33 & 31) as i32 - 16)
    });
    numbers.collect()
}

fn add(left: &mut [f32], right: Vec<f32>) {
    left.iter_mut().zip(right).for_each(|(left, right)| *left += right);
}

/// Says what the sum of all shards comes to, bit by bit.
fn sum(world: &World, shards: usize) -> Result<(), String> {
    let slices = Slices::new(LENGTHS.chunks(2).map(|group| group.iter().copied()), world.size());
    let mut sums = PartialSums::default();
    for index in as_text(shards_of_rank(shards, world.size(), world.rank()))? {
        sums.push(shard(index), |left, right| add(left, right));
    }
    let mut gradient = sums.finish(|left, right| add(left, right)).unwrap();
    as_text(world.sum(&mut HostFloats::new([&mut gradient[..]]), &slices))?;
    as_text(world.share(&mut HostFloats::new([&mut gradient[..]]), &slices))?;
    let hash = gradient.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, number| {
        (hash ^ u64::from(number.to_bits())).wrapping_mul(0x0100_0000_01b3)
    });
    // More than a piece of an all-gather.
    let record = vec![world.rank() as u8; (5 << 20) + world.rank()];
    let records = as_text(world.gather(&record))?;
    let whole = records.iter().enumerate().all(|(rank, record)| {
        record.len() == (5 << 20) + rank && record.iter().all(|byte| usize::from(*byte) == rank)
    });
    if !whole || as_text(world.broadcast(&record))? != records[0] {
        return Err("a record has not come as it was".into());
    }
    as_text(world.same("sum", &format!("{hash:016x}")))?;
    let speeds = as_text(world.bandwidth())?;
    if speeds.len() != world.size()
        || speeds[0].iter().any(|speed| speed.is_none_or(|speed| speed <= 0.0))
    {
        return Err("rank 0 has no bandwidth".into());
    }
    if world.is_first() {
        let library = world.library();
        let (version, abi, path) = library.map_or(("none", "none", "none"), |library| {
            (library.version.as_str(), library.abi, library.path.as_str())
        });
        say(
            &mut io::stdout(),
            &format!(
                "ranks={} hash={hash:016x} abi={abi} version={version} path={path}",
                world.size()
            ),
        );
    }
    Ok(())
}

/// Works until the last rank has no disk left.
fn error(world: &World) -> Result<(), String> {
    for step in 0.. {
        if step == 3 && world.rank() == world.size() - 1 {
            return Err("metrics.jsonl: no space left on device".into());
        }
        as_text(world.gather(b"record"))?;
    }
    Ok(())
}

/// Works until a rank panics.
fn panic(world: &World, rank: usize) -> Result<(), String> {
    for step in 0.. {
        assert!(step < 3 || world.rank() != rank, "a mistake of ours");
        as_text(world.gather(b"record"))?;
    }
    Ok(())
}

/// Works until it is ended from outside, and leaves its process's number behind.
fn endless(world: &World) -> Result<(), String> {
    let path = env::var(DIRECTORY).unwrap() + &format!("/{}", world.rank());
    for done in 0.. {
        world.report("sampling", done, 1_000_000);
        thread::sleep(Duration::from_millis(5));
        as_text(world.gather(b"record"))?;
        if done == 60 {
            leave_word(&path);
        }
    }
    Ok(())
}

/// Leaves this process's number in a file.
fn leave_word(path: &str) {
    let written = format!("{path}.new");
    fs::write(&written, process::id().to_string())
        .and_then(|()| fs::rename(&written, path))
        .unwrap();
}

/// Waits until the launcher has seen the end of the process that has left its number. Open MPI ends
/// a job by itself if a rank ends without MPI after another has begun with it.
fn wait_until_gone(path: &str) {
    let is_gone = || {
        let process = fs::read_to_string(path).ok();
        process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists())
    };
    while !is_gone() {
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether any MPI is in this process.
fn alone(world: &World) -> Result<(), String> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    if world.size() != 1 || maps.contains("libmpi") {
        return Err("MPI is loaded".into());
    }
    say(&mut io::stdout(), "alone");
    Ok(())
}
