//! Ranks that are threads of this process: sums, exchanges and faults.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

mod exchanges;
mod faults;
mod sums;

use isentrope_ranks::threads::{Faults, worlds};
use isentrope_ranks::{Settings, Watch, World};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Ranks that give nobody up.
fn patient() -> Settings {
    Settings {
        threads: 1,
        program: "isentrope of a test".into(),
        watch: Watch { silent: None, period: Duration::from_millis(20) },
        tell: Arc::new(|_| {}),
    }
}

/// The result of each rank, in rank order.
fn on_ranks<T: Send>(
    ranks: usize,
    settings: &Settings,
    act: impl Fn(World, &Faults) -> T + Sync,
) -> Vec<T> {
    let (worlds, faults) = worlds(ranks, settings).unwrap();
    thread::scope(|scope| {
        let act = |world| {
            let (act, faults) = (&act, &faults);
            move || act(world, faults)
        };
        let threads: Vec<_> = worlds.into_iter().map(|world| scope.spawn(act(world))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
