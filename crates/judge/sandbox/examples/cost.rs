//! Measures what a jail costs: `cargo run --release -p isentrope-sandbox --example cost`.
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;
use std::time::{Duration, Instant};

use isentrope_sandbox::{Jail, Program, Sandbox, Tier};

const JAILS: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    for tier in [Tier::Namespaces, Tier::Bubblewrap] {
        match Sandbox::of_tier(tier) {
            Ok(sandbox) => measure(&sandbox)?,
            Err(why) => println!("{tier}: {why}"),
        }
    }
    Ok(())
}

fn measure(sandbox: &Sandbox) -> Result<(), Box<dyn Error>> {
    let program = Program {
        program: "/bin/sleep".into(),
        arguments: vec!["100".into()],
        readable: vec!["/bin".into(), "/usr/bin".into()],
        ..Program::default()
    };
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..JAILS {
        let start = Instant::now();
        let mut jail = Jail::start(sandbox, &program)?;
        starts.push(start.elapsed());
        let end = Instant::now();
        jail.end();
        ends.push(end.elapsed());
    }
    println!(
        "{}: {}\n  start {:.1} ms, end {:.1} ms (medians of {JAILS})",
        sandbox.tier(),
        sandbox.describe(),
        median_ms(&mut starts),
        median_ms(&mut ends)
    );
    Ok(())
}

fn median_ms(times: &mut [Duration]) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}
