//! A thread that exchanges heartbeats with other ranks, and ends all ranks when one falls silent.
//!
//! Rank 0 exchanges them with all others. It takes a thread, since a pass over a long text may take
//! minutes.
//!
//! Heartbeats also carry a call: if a rank waits in an exchange, rank 0 says so to all, and a rank
//! that is at work and can come early does.

use crate::beat::{Activity, Beat};
use crate::line::Line;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A sentence of a rank to its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// The work goes on.
    Warning(&'a str),
    /// Why all ranks end.
    Error(&'a str),
}

impl<'a> Message<'a> {
    /// The sentence.
    pub fn text(self) -> &'a str {
        let (Self::Warning(text) | Self::Error(text)) = self;
        text
    }
}

/// Shows a message at once, for example on standard error, because the process may be ended next.
pub type Tell = Arc<dyn Fn(Message<'_>) + Send + Sync>;

/// Longest time between two looks of ranks other than 0 whether they are called.
const CALL_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// When silent ranks are given up.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// Time of silence after which a rank is given up as stopped or cut off. None: never.
    pub silent: Option<Duration>,
    /// Time between two heartbeats.
    pub period: Duration,
}

impl Default for Watch {
    fn default() -> Self {
        Self { silent: Some(Duration::from_secs(600)), period: Duration::from_secs(1) }
    }
}

/// The last heartbeat of another rank.
struct PeerHeartbeat {
    rank: usize,
    at: Instant,
    beat: Beat,
}

/// Owns the thread, which ends when this is dropped.
pub(crate) struct Pulse {
    /// Whether the thread is to stop.
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

/// The work of the thread.
pub(crate) struct Listener {
    pub line: Arc<Line>,
    pub activity: Arc<Activity>,
    pub watch: Watch,
    pub tell: Tell,
    /// Name of each rank, `[ranks]`.
    pub names: Vec<String>,
}

impl Pulse {
    pub fn start(listener: Listener) -> std::io::Result<Self> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let heard = Arc::clone(&stop);
        let thread =
            thread::Builder::new().name("pulse".into()).spawn(move || listener.listen(&heard))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        *self.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic in it has been printed
        }
    }
}

impl Listener {
    fn listen(self, (stop, changed): &(Mutex<bool>, Condvar)) {
        let peers = if self.line.rank() == 0 { 1..self.line.size() } else { 0..1 };
        let heard =
            |rank| PeerHeartbeat { rank, at: Instant::now(), beat: Beat::of(&Activity::new()) };
        let mut others: Vec<PeerHeartbeat> = peers.map(heard).collect();
        let mut spoken = Instant::now();
        loop {
            let begun = Instant::now();
            // Rank 0 need not look, because it makes the call. The others look often, so that it
            // waits little for them.
            let pause = if self.line.rank() == 0 {
                self.watch.period
            } else {
                self.watch.period.min(CALL_POLL_INTERVAL)
            };
            let stop = stop.lock().unwrap_or_else(PoisonError::into_inner);
            let (stop, _) = changed
                .wait_timeout_while(stop, pause, |stop| !*stop)
                .unwrap_or_else(PoisonError::into_inner);
            if *stop {
                return;
            }
            drop(stop);
            // This process itself was stopped, so the others' heartbeats have yet to be read.
            if begun.elapsed() > 3 * self.watch.period + Duration::from_secs(1) {
                others.iter_mut().for_each(|other| other.at = Instant::now());
            }
            let speaks = spoken.elapsed() >= self.watch.period;
            if speaks {
                spoken = Instant::now();
            }
            let Some(()) = self.exchange(&mut others, speaks) else { return };
            if let Some(why) = others.iter().find_map(|other| self.loss_of(other)) {
                (self.tell)(Message::Error(&why));
                self.line.engine().abort(&why);
                return;
            }
        }
    }

    /// Receives the beats of others and, if `speaks`, sends this rank's. None if the engine has
    /// failed.
    fn exchange(&self, others: &mut [PeerHeartbeat], speaks: bool) -> Option<()> {
        let limit = self.watch.silent.unwrap_or(Duration::MAX);
        let Some(mut engine) = self.line.engine_within(limit) else {
            let own = &self.names[self.line.rank()];
            let why = format!("{own}: MPI has not returned for {} s", limit.as_secs());
            (self.tell)(Message::Error(&why));
            std::process::abort()
        };
        let exchanged = engine.notes().and_then(|notes| {
            for (rank, note) in notes {
                if let Some(other) = others.iter_mut().find(|other| other.rank == rank) {
                    (other.at, other.beat) = (Instant::now(), Beat::decode(&note));
                }
            }
            self.activity.call(self.call(others));
            let note = Beat::of(&self.activity).encode();
            others.iter().filter(|_| speaks).try_for_each(|other| engine.post(other.rank, &note))
        });
        if let Err(error) = exchanged {
            let own = &self.names[self.line.rank()];
            let why = format!("{own} cannot say any more that it lives: {error}");
            (self.tell)(Message::Error(&why));
            return None;
        }
        Some(())
    }

    /// The number of the exchange that all ranks are called to. Rank 0 takes it from heartbeats:
    /// ranks wait in the latest exchange, so heartbeats about an earlier one are old. The others
    /// get it from rank 0.
    fn call(&self, others: &[PeerHeartbeat]) -> Option<u64> {
        if self.line.rank() > 0 {
            return others.first()?.beat.calls;
        }
        let own = Beat::of(&self.activity).waits;
        others.iter().map(|other| other.beat.waits).chain([own]).flatten().max()
    }

    /// Why a rank is given up.
    fn loss_of(&self, other: &PeerHeartbeat) -> Option<String> {
        let name = &self.names[other.rank];
        let (beat, silent) = (&other.beat, other.at.elapsed());
        // If rank 0 is silent, the ranks report it one after another, so that one message appears.
        let patience = self.watch.period * self.line.rank().min(3) as u32;
        self.watch.silent.is_some_and(|limit| silent > limit + patience).then(|| {
            format!(
                "{name} was last heard of {:.0} s ago ({}): its process is stopped, or its \
                 network is cut; all ranks end",
                silent.as_secs_f64(),
                beat.describe()
            )
        })
    }
}
