//! Reports of `doctor`.

use crate::program::{Scratch, assert_parts, emulated, failure_last, isentrope, stdout_of};
use crate::train_ranks::{Launcher, linked};
use std::net::TcpListener;

/// Two ranks: the first alone prints, also the links between them.
#[test]
fn every_part_is_there_or_it_is_said_what_is_missing() {
    let scratch = Scratch::new();
    let mut command = isentrope("doctor --threads 2");
    command.env("XDG_CACHE_HOME", scratch.path("cache"));
    let text = stdout_of(Launcher::tcp().jobs(&[(2, "SOUND=1")], &command));
    let line = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.trim().strip_prefix(name));
        let line = lines.next().unwrap_or_else(|| panic!("no {name}: {text}")).trim();
        assert!(lines.next().is_none(), "{name} twice: {text}");
        line
    };
    let (median, least) = links(line("hosts, rank^1"));
    assert!(median == least && !text.contains("NCCL, rank"), "{text}");
    assert!(line("threads").starts_with("2 on "), "{text}");
    for name in ["linear, training", "linear, decoding", "memory bandwidth"] {
        let speed: f64 = line(name).split(' ').next().unwrap().parse().unwrap();
        assert!((0.05..1e6).contains(&speed), "{text}");
    }
    for name in ["GPU", "NVRTC", "cuBLASLt", "code sandbox", "Python", "MPI"] {
        let why = line(name).strip_prefix("yes: ").or(line(name).strip_prefix("no: "));
        assert!(why.is_some_and(|why| !why.is_empty()), "{name}: {text}");
    }
    // Where there is a sandbox, it holds.
    assert!(!text.contains("a program in the sandbox can"), "{text}");
}

/// The median and the least of a line of links, in GB/s, and which ranks have the least.
fn links(line: &str) -> (f64, f64) {
    let (median, rest) = line.strip_prefix("median ").unwrap().split_once(", least ").unwrap();
    let (least, ranks) = rest.split_once(' ').unwrap();
    assert!(ranks.starts_with("(rank ") && ranks.contains("), rank "), "{line}");
    let (median, least): (f64, f64) = (median.parse().unwrap(), least.parse().unwrap());
    assert!((0.001..=median).contains(&least) && median < 1e4, "{line}");
    (median, least)
}

#[test]
#[ignore = "deep: four emulated GPUs"]
fn links_between_gpus_are_measured() {
    let command = linked(emulated("doctor --threads 1"));
    let text = stdout_of(Launcher::tcp().jobs(&[(4, "SOUND=1")], &command));
    for exchange in ["hosts, rank^1", "hosts, rank^2", "NCCL, rank^1", "NCCL, rank^2"] {
        let lines: Vec<_> =
            text.lines().filter_map(|line| line.trim().strip_prefix(exchange)).collect();
        assert_eq!(lines.len(), 1, "{text}");
        links(lines[0].trim());
    }
}

/// A file that is no library is named with what is wrong with it, and the way to a right one.
#[test]
fn text_names_libraries_that_do_not_load_and_no_secret() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("named")).unwrap();
    scratch.file("named/libnvrtc.so.13", "not a library");
    let mut command = isentrope("doctor");
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.env("HF_TOKEN", "hf_secret").env("XDG_CACHE_HOME", scratch.path("cache"));
    command.env("ISENTROPE_CUDA_LIBRARIES", scratch.path("named")).env("ISENTROPE_THREADS", "1");
    let text = stdout_of(command);
    let speeds = ["instruction set   ", "threads           1 on", "memory", "GFLOP/s"];
    assert_parts(&text, &speeds);
    assert!(text.contains("with a token") && !text.contains("hf_secret"));
    let line = text.lines().find(|line| line.contains("libnvrtc.so.13")).unwrap();
    assert!(line.contains("(ISENTROPE_CUDA_LIBRARIES): not taken, "), "{line}");
    let remedies = ["another NVRTC", "isentrope doctor --install-cuda"];
    assert!(remedies.iter().any(|remedy| line.contains(remedy)), "{line}");
}

/// `crates/compute/cuda` tests what is fetched and how.
#[test]
fn an_index_of_libraries_that_cannot_be_reached_is_named() {
    let scratch = Scratch::new();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = isentrope("doctor --install-cuda");
    command.env_clear().env("XDG_CACHE_HOME", scratch.path("cache"));
    command.env("PIP_INDEX_URL", format!("http://{nobody}/simple"));
    failure_last(command, &[&format!("error: http://{nobody}: "), "ISENTROPE_CUDA_LIBRARIES"]);
}
