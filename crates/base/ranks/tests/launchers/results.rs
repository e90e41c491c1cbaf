//! The results of ranks.

use crate::launcher::{JobResult, Kind, Launcher};
use crate::rank::TASK;
use std::collections::BTreeSet;
use std::env;
use std::process::Command;

fn field<'a>(ended: &'a JobResult, name: &str) -> &'a str {
    let line = ended
        .stdout
        .lines()
        .find(|line| line.starts_with("ranks="))
        .unwrap_or_else(|| panic!("{}", ended.output()));
    let start = line.find(&format!("{name}=")).unwrap() + name.len() + 1;
    line[start..].split_whitespace().next().unwrap()
}

/// The sums of 8 and of 24 shards on all numbers of ranks that halving gives, one alone included.
pub fn same_bits(launcher: &Launcher) {
    sums(launcher, 8, &[1, 2, 4, 8]);
    sums(launcher, 24, &[1, 3, 6]);
}

/// As [`same_bits`] on fewer ranks, for the fast tier.
pub fn same_bits_soon(launcher: &Launcher) {
    sums(launcher, 4, &[1, 2, 4]);
    sums(launcher, 3, &[1, 3]);
}

fn sums(launcher: &Launcher, shards: usize, ranks: &[usize]) {
    let mut hashes = BTreeSet::new();
    for &ranks in ranks {
        let ended = launcher.run(ranks, &format!("sum {shards}"), &[]);
        ended.check(ended.success);
        assert_eq!(field(&ended, "ranks"), ranks.to_string());
        if ranks > 1 {
            let abi = match launcher.kind {
                Kind::OpenMpi => "Open", // the first word of its name
                Kind::Mpich => "MPICH",
                Kind::Tcp => "TCP",
            };
            assert_eq!(field(&ended, "abi"), abi, "{}", ended.output());
        }
        hashes.insert(field(&ended, "hash").to_owned());
    }
    assert_eq!(hashes.len(), 1, "{shards} shards: {hashes:?}");
}

pub fn one_rank(launcher: &Launcher) {
    let ended = launcher.run(1, "alone", &[]);
    ended.check(ended.success && ended.stdout.contains("alone"));
    let off = launcher.run(2, "alone", &[("ISENTROPE_RANKS", "off")]);
    off.check(off.success && off.stdout.matches("alone").count() == 2);
}

pub fn alone() {
    let output = Command::new(env::current_exe().unwrap()).env(TASK, "alone").output().unwrap();
    assert!(output.status.success() && output.stdout == b"alone\n", "{output:?}");
}
