//! A thread that tells rank 0 every second that this rank lives and what it does, and ends all ranks when one is not heard of.
//!
//! Rank 0 hears all others, and all others hear rank 0. Beside the work it must be a thread: a pass over a long text may take
//! minutes.

use crate::engine::{NOTE_BYTES, Note};
use crate::host_piece::HostPiece;
use crate::line::Line;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Takes what must be said at once, before all ranks are ended or a library ends this process: to standard error, say.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// When ranks are given up.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// When nothing was heard of a rank for so long: its process is stopped, or its network cut. None: never.
    pub silent: Option<Duration>,
    /// When a rank lives but has reported no progress for so long, while it works. None: never.
    pub stuck: Option<Duration>,
    /// Between two signs of life.
    pub period: Duration,
}

impl Default for Watch {
    fn default() -> Self {
        Self { silent: Some(Duration::from_secs(600)), stuck: None, period: Duration::from_secs(1) }
    }
}

/// What a rank is doing, as it reports it.
pub(crate) struct Activity(Mutex<Doing>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Doing {
    what: String,
    done: u64,
    of: u64,
    waits: bool,
    since: Instant,
}

/// The rank waits for others while this lives.
pub(crate) struct Waiting<'a>(&'a Activity);

impl Activity {
    pub fn new() -> Self {
        let doing = Doing { what: "starting".into(), done: 0, of: 0, waits: false, since: Instant::now() };
        Self(Mutex::new(doing))
    }

    fn doing(&self) -> MutexGuard<'_, Doing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn report(&self, what: &str, done: u64, of: u64) {
        let mut doing = self.doing();
        what.clone_into(&mut doing.what);
        (doing.done, doing.of, doing.since) = (done, of, Instant::now());
    }

    pub fn wait(&self) -> Waiting<'_> {
        self.doing().waits = true;
        Waiting(self)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut doing = self.0.doing();
        (doing.waits, doing.since) = (false, Instant::now());
    }
}

/// A sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Beat {
    what: String,
    done: u64,
    of: u64,
    /// Whether it waits for others.
    waits: bool,
    /// Since it last reported progress.
    quiet: Duration,
}

const TEXT: usize = NOTE_BYTES - 26;

impl Beat {
    fn of(activity: &Activity) -> Self {
        let Doing { what, done, of, waits, since } = activity.doing().clone();
        Self { what, done, of, waits, quiet: since.elapsed() }
    }

    fn encode(&self) -> Note {
        let mut note = [0; NOTE_BYTES];
        let end = (0..=self.what.len().min(TEXT)).rev().find(|&end| self.what.is_char_boundary(end));
        let text = &self.what.as_bytes()[..end.unwrap_or(0)];
        note[0] = u8::from(self.waits);
        note[1] = text.len() as u8;
        note[2..10].copy_from_slice(&self.done.to_le_bytes());
        note[10..18].copy_from_slice(&self.of.to_le_bytes());
        note[18..26].copy_from_slice(&(self.quiet.as_millis() as u64).to_le_bytes());
        note[26..26 + text.len()].copy_from_slice(text);
        note
    }

    fn decode(note: &Note) -> Self {
        let number = |at: usize| note[at..].first_chunk().map_or(0, |eight| u64::from_le_bytes(*eight));
        let text = &note[26..][..usize::from(note[1]).min(TEXT)];
        Self {
            what: String::from_utf8_lossy(text).into_owned(),
            done: number(2),
            of: number(10),
            waits: note[0] != 0,
            quiet: Duration::from_millis(number(18)),
        }
    }

    /// `sampling, 41 of 64 done`.
    fn told(&self) -> String {
        let waits = if self.waits { " (waiting for others)" } else { "" };
        if self.of == 0 {
            return format!("{}{waits}", self.what);
        }
        format!("{}, {} of {} done{waits}", self.what, self.done, self.of)
    }
}

/// Of one other rank.
struct Heard {
    rank: usize,
    at: Instant,
    beat: Beat,
}

/// The thread; it ends with this.
pub(crate) struct Pulse {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

/// What it needs.
pub(crate) struct Listener {
    pub line: Arc<Line<HostPiece>>,
    pub activity: Arc<Activity>,
    pub watch: Watch,
    pub tell: Tell,
    /// Name of each rank, `[ranks]`.
    pub names: Vec<String>,
}

impl Pulse {
    pub fn start(listener: Listener) -> std::io::Result<Self> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name("pulse".into()).spawn(move || listener.listen(&stopped))?;
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
        let heard = |rank| Heard { rank, at: Instant::now(), beat: Beat::of(&Activity::new()) };
        let mut others: Vec<Heard> = peers.map(heard).collect();
        loop {
            let begun = Instant::now();
            let stopped = stop.lock().unwrap_or_else(PoisonError::into_inner);
            let (stopped, _) = changed
                .wait_timeout_while(stopped, self.watch.period, |stopped| !*stopped)
                .unwrap_or_else(PoisonError::into_inner);
            if *stopped {
                return;
            }
            drop(stopped);
            // This process itself was stopped: what the others sent meanwhile has still to come in.
            if begun.elapsed() > 3 * self.watch.period + Duration::from_secs(1) {
                others.iter_mut().for_each(|other| other.at = Instant::now());
            }
            let Some(()) = self.exchange(&mut others) else { return };
            if let Some(why) = others.iter().find_map(|other| self.lost(other)) {
                (self.tell)(&why);
                self.line.engine().abort(&why);
                return;
            }
        }
    }

    /// Sends this rank's beat and hears those of others; none when the engine has failed.
    fn exchange(&self, others: &mut [Heard]) -> Option<()> {
        let limit = self.watch.silent.unwrap_or(Duration::MAX);
        let Some(mut engine) = self.line.engine_within(limit) else {
            let own = &self.names[self.line.rank()];
            (self.tell)(&format!("{own}: MPI has not returned for {} s", limit.as_secs()));
            std::process::abort()
        };
        let note = Beat::of(&self.activity).encode();
        for other in &*others {
            engine.post(other.rank, &note).ok()?;
        }
        for (rank, note) in engine.notes().ok()? {
            if let Some(other) = others.iter_mut().find(|other| other.rank == rank) {
                (other.at, other.beat) = (Instant::now(), Beat::decode(&note));
            }
        }
        Some(())
    }

    /// Why a rank is given up.
    fn lost(&self, other: &Heard) -> Option<String> {
        let name = &self.names[other.rank];
        let (beat, silent) = (&other.beat, other.at.elapsed());
        // When rank 0 is silent, one rank speaks before the others do.
        let patience = self.watch.period * self.line.rank().min(3) as u32;
        if self.watch.silent.is_some_and(|limit| silent > limit + patience) {
            return Some(format!(
                "{name} was {}, last heard of {:.0} s ago: its process is stopped, or its network is cut; all ranks end",
                beat.told(),
                silent.as_secs_f64()
            ));
        }
        let quiet = beat.quiet + silent;
        let stuck = !beat.waits && self.watch.stuck.is_some_and(|limit| quiet > limit + patience);
        stuck.then(|| {
            let seconds = quiet.as_secs_f64();
            format!("{name} is {}, without progress for {seconds:.0} s; all ranks end", beat.told())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_beat_arrives_as_it_was() {
        let activity = Activity::new();
        activity.report(&"sämpling ".repeat(30), 41, 64);
        let waiting = activity.wait();
        let beat = Beat::of(&activity);
        let arrived = Beat::decode(&beat.encode());
        assert!(arrived.waits && beat.what.starts_with(&arrived.what) && arrived.what.len() > TEXT - 3);
        assert_eq!((arrived.done, arrived.of), (41, 64));
        drop(waiting);
        assert!(!Beat::decode(&Beat::of(&activity).encode()).waits);
    }

    proptest! {
        #[test]
        fn any_note_can_be_read(note in prop::collection::vec(any::<u8>(), NOTE_BYTES)) {
            let beat = Beat::decode(note.as_slice().try_into().unwrap());
            prop_assert!(beat.told().len() < 4 * NOTE_BYTES);
        }
    }
}
