//! The ranks that run together.

use crate::beat::Activity;
use crate::error::{Error, Result};
use crate::exchange::{Contribution, Exchange};
use crate::floats::{HostFloats, Parameter};
use crate::header::{Header, Kind};
use crate::launch::{Launch, Way};
use crate::line::{Line, Traffic};
use crate::pulse::{Listener, Pulse};
use crate::rank_host::{Node, RankHost};
use crate::settings::{Library, Settings};
use crate::slices::Slices;
use crate::sum::{Lane, Part, Wanted};
use crate::{check, mpi, sum, tcp};
use isentrope_files::sha256_of_file;
use std::sync::Arc;
use std::time::Instant;

/// The ranks that run together: this one and all others.
///
/// All ranks call the methods that exchange in the same order. When a rank has failed or differs,
/// the exchange or the next one fails on all ranks. A rank that fails elsewhere tells the others
/// with
/// [`fail`](Self::fail). A rank that is alone gets back its own data.
#[derive(Default)]
pub struct World {
    together: Option<Together>,
}

struct Together {
    // The pulse is dropped first, because its thread uses the engine.
    pulse: Pulse,
    exchange: Exchange,
    activity: Arc<Activity>,
    hosts: Vec<RankHost>,
    library: Option<Library>,
}

impl World {
    /// One rank: nothing is loaded or started.
    pub fn alone() -> Self {
        Self::default()
    }

    /// Joins the ranks that were started together; without a launch there is one rank.
    ///
    /// # Errors
    /// [`Error::Start`] when there are several but they cannot work together: the library is
    /// missing or not the launcher's, or ranks have different programs. [`Error::Engine`] when
    /// others do not come in time.
    pub fn begin(launch: Option<Launch>, settings: &Settings) -> Result<Self> {
        let Some(Launch(way)) = launch else { return Ok(Self::alone()) };
        let (mut engine, library) = match way {
            Way::Mpi(launch) => mpi::begin(&launch, settings)?,
            Way::Tcp(meeting) => tcp::begin(meeting, settings)?,
        };
        if engine.size() == 1 {
            engine.close()?; // a launcher that does not say how many it starts has started one
            return Ok(Self::alone());
        }
        let program = format!("{} (build {})", settings.program, build()?);
        Self::connect(Line::new(engine), Some(library), &Settings { program, ..settings.clone() })
    }

    /// The ranks of an engine.
    pub(crate) fn connect(
        line: Line,
        library: Option<Library>,
        settings: &Settings,
    ) -> Result<Self> {
        let line = Arc::new(line);
        let activity = Arc::new(Activity::new());
        let exchange =
            Exchange::new(Arc::clone(&line), Arc::clone(&activity), Arc::clone(&settings.tell));
        let own = RankHost::here(settings.threads);
        let hosts = check::introduce(&exchange, &own)?;
        exchange.name_hosts(hosts.iter().map(|place| place.host.clone()).collect());
        let names = (0..line.size()).map(|rank| exchange.name(rank)).collect();
        let listener = Listener {
            line,
            activity: Arc::clone(&activity),
            watch: settings.watch,
            tell: Arc::clone(&settings.tell),
            names,
        };
        let pulse = Pulse::start(listener).map_err(|error| {
            Error::Engine(format!("no thread can be started to watch over ranks: {error}"))
        })?;
        let world = Self { together: Some(Together { pulse, exchange, activity, hosts, library }) };
        match world.same("program", &settings.program).and_then(|()| world.try_neighbours()) {
            Ok(()) => Ok(world),
            Err(error) => {
                let told = world.fail(&error.to_string());
                world.finish()?;
                Err(told)
            }
        }
    }

    /// This rank, from 0.
    pub fn rank(&self) -> usize {
        self.line().map_or(0, Line::rank)
    }

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.line().map_or(1, Line::size)
    }

    /// Whether this is rank 0, which prints messages for all.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// The name of a rank in messages: `rank 3 (node7)`.
    pub fn name(&self, rank: usize) -> String {
        self.together
            .as_ref()
            .map_or_else(|| format!("rank {rank}"), |together| together.exchange.name(rank))
    }

    /// The host of each rank, `[ranks]`; empty for one alone.
    pub fn hosts(&self) -> &[RankHost] {
        self.together.as_ref().map_or(&[], |together| &together.hosts)
    }

    /// The machine of this rank with those that share it; none for one alone.
    pub fn node(&self) -> Option<Node> {
        Node::of(self.hosts()).into_iter().find(|node| node.ranks.contains(&self.rank()))
    }

    /// The library that moves the bytes; none for one alone and for threads.
    pub fn library(&self) -> Option<&Library> {
        self.together.as_ref()?.library.as_ref()
    }

    /// The traffic of exchanges so far.
    pub fn traffic(&self) -> Traffic {
        self.line().map_or_else(Traffic::default, Line::traffic)
    }

    /// Reports to the others what this rank is doing, with `done` of `of` pieces of work done; `of`
    /// is 0 if nothing is counted.
    pub fn report(&self, what: &str, done: u64, of: u64) {
        if let Some(together) = &self.together {
            together.activity.report(what, done, of);
        }
    }

    /// Notes computed bytes. All ranks must note the same bytes; the next exchange compares them.
    pub fn note(&self, what: &str, bytes: &[u8]) {
        if let Some(together) = &self.together {
            together.exchange.note(what, bytes);
        }
    }

    /// Every rank's record, in rank order.
    pub fn gather(&self, record: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.records(Kind::Gather, record)
    }

    /// Like [`gather`](Self::gather), to share out work anew: a record is its rank's remaining
    /// work. A rank with nothing left comes here and waits. The others come between two pieces of
    /// work, when they [are called](Self::is_called).
    pub fn balance(&self, record: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.records(Kind::Balance, record)
    }

    /// Whether a rank waits in this rank's next exchange. The answer comes about one heartbeat
    /// late; the results of an exchange do not depend on when.
    pub fn is_called(&self) -> bool {
        self.together.as_ref().is_some_and(|together| together.exchange.is_called())
    }

    /// Returns the record of rank 0. The other ranks' records are ignored.
    pub fn broadcast(&self, record: &[u8]) -> Result<Vec<u8>> {
        let Some(together) = &self.together else { return Ok(record.to_vec()) };
        let record = if self.is_first() { record } else { &[] };
        let Together { exchange, .. } = together;
        let own = Contribution { record, ..Contribution::default() };
        exchange.run(Kind::Broadcast, own, |headers| exchange.broadcast(headers, 0, record))
    }

    /// Whether any rank says so.
    pub fn any(&self, flag: bool) -> Result<bool> {
        let Some(together) = &self.together else { return Ok(flag) };
        let own = Contribution { flag, ..Contribution::default() };
        let any = |headers: &[Header]| Ok(headers.iter().any(|header| header.flag));
        together.exchange.run(Kind::Any, own, any)
    }

    /// The least value of any rank.
    pub fn least(&self, value: u64) -> Result<u64> {
        let records = self.gather(&value.to_le_bytes())?;
        let values = records.iter().filter_map(|record| record.first_chunk().copied());
        Ok(values.map(u64::from_le_bytes).min().unwrap_or(value))
    }

    /// Whether all ranks have the same value of `what`, such as the digest of
    /// `"model.safetensors"`.
    ///
    /// # Errors
    /// Names the first rank that has another, on all ranks alike; otherwise as
    /// [`gather`](Self::gather).
    pub fn same(&self, what: &str, value: &str) -> Result<()> {
        let values = self.gather(value.as_bytes())?;
        let Some(odd) = values.iter().position(|other| *other != values[0]) else { return Ok(()) };
        let (name, first) = (self.name(odd), self.name(0));
        let value = |rank: usize| String::from_utf8_lossy(&values[rank]);
        Err(self.refuse(format!(
            "{name} has another {what} than {first}: {name} has {}, {first} has {}; give all ranks \
             the same",
            value(odd),
            value(0)
        )))
    }

    /// Ends exchanges for a reason that all ranks know and that a restart does not mend.
    pub(crate) fn refuse(&self, why: String) -> Error {
        self.conclude(Error::Start(why))
    }

    /// Ends exchanges for a reason that all ranks know.
    pub(crate) fn conclude(&self, error: Error) -> Error {
        match &self.together {
            Some(together) => together.exchange.conclude(error),
            None => error,
        }
    }

    /// Adds the numbers of all ranks, in the tree of `tree.rs`: a rank then has the sum in its own
    /// slice ([`Slices::of_rank`]), and nothing of use in the rest. `slices` divides the numbers
    /// over [`size`](Self::size) ranks. With a [group](Slices::groups)'s slices, `floats` has the
    /// group's parameters alone.
    pub fn sum<P: Parameter<Number = f32>>(
        &self,
        floats: &mut HostFloats<P>,
        slices: &Slices,
    ) -> Result<()> {
        self.exchange(Kind::Sum, slices, |line| {
            let mut lane = Lane::new(line, slices.parts());
            let add = |goes: &[Part], comes: &[Part]| lane.add(floats, goes, comes);
            sum::reduce_scatter(line.rank(), slices, add)?;
            lane.end()
        })
    }

    /// Gives every rank's slice to all.
    pub fn share<P: Parameter>(&self, floats: &mut HostFloats<P>, slices: &Slices) -> Result<()> {
        self.exchange(Kind::Share, slices, |line| {
            let mut lane = Lane::new(line, slices.parts());
            let write = |goes: &[Part], comes: &[Part]| lane.write(floats, goes, comes);
            sum::all_gather(line.rank(), slices, write)?;
            lane.end()
        })
    }

    /// Gives each rank the numbers that it wants out of the slices of the others. `floats` has one
    /// or more sets of numbers, one after another, each cut by `slices`. `wanted` is of each rank,
    /// and the same on all.
    pub fn deliver<P: Parameter>(
        &self,
        floats: &mut HostFloats<P>,
        slices: &Slices,
        wanted: &[Option<Wanted>],
    ) -> Result<()> {
        self.exchange(Kind::Share, slices, |line| {
            let mut lane = Lane::new(line, (line.size() - 1).max(1));
            let [goes, comes] = sum::delivery(line.rank(), slices, wanted);
            lane.write(floats, &goes, &comes)?;
            lane.end()
        })
    }

    /// As [`sum`](Self::sum), of numbers on devices, which another library moves. `add` sends its
    /// first parts, receives its second ones, and replaces this rank's numbers there by sums over
    /// the ranks: numbers of lower ranks, this rank's own, numbers of higher ones, added as
    /// [`PartialSums`](crate::PartialSums) does. All parts that come have the same ranges. It
    /// returns the sentence of a failure.
    ///
    /// # Errors
    /// [`Error::Device`] on the rank where `add` has failed; otherwise as [`gather`](Self::gather).
    pub fn sum_on_devices(
        &self,
        slices: &Slices,
        mut add: impl FnMut(&[Part], &[Part]) -> Result<(), String>,
    ) -> Result<()> {
        self.exchange(Kind::Sum, slices, |line| {
            let add = |goes: &[Part], comes: &[Part]| {
                counted(line, size_of::<f32>(), goes, || add(goes, comes))
            };
            sum::reduce_scatter(line.rank(), slices, add)
        })
    }

    /// As [`share`](Self::share), of numbers of `bytes` bytes on devices, which another library
    /// moves. `write` sends its first parts, and receives its second ones. It fails as
    /// [`sum_on_devices`](Self::sum_on_devices).
    pub fn share_on_devices(
        &self,
        slices: &Slices,
        bytes: usize,
        mut write: impl FnMut(&[Part], &[Part]) -> Result<(), String>,
    ) -> Result<()> {
        self.exchange(Kind::Share, slices, |line| {
            let write =
                |goes: &[Part], comes: &[Part]| counted(line, bytes, goes, || write(goes, comes));
            sum::all_gather(line.rank(), slices, write)
        })
    }

    /// Whether ranks exchange more after a failure ([`vote`](Self::vote)).
    pub fn has_gone_on(&self) -> bool {
        self.together.as_ref().is_some_and(|together| together.exchange.has_gone_on())
    }

    /// Bytes per second and direction between each rank and its neighbours, `[ranks][log2 ranks]`:
    /// rank^1, rank^2, rank^4, ...; none where there is no such rank. All pairs of one of these
    /// exchanges make it at the same time, as in a [`sum`](Self::sum).
    pub fn bandwidth(&self) -> Result<Vec<Vec<Option<f64>>>> {
        let Some(together) = &self.together else { return Ok(vec![Vec::new()]) };
        check::bandwidth(&together.exchange)
    }

    /// As [`bandwidth`](Self::bandwidth), between devices: `swap` sends a rank `bytes` bytes, and
    /// receives as many. It fails as [`sum_on_devices`](Self::sum_on_devices).
    pub fn bandwidth_on_devices(
        &self,
        bytes: usize,
        mut swap: impl FnMut(usize) -> Result<(), String>,
    ) -> Result<Vec<Vec<Option<f64>>>> {
        let Some(together) = &self.together else { return Ok(vec![Vec::new()]) };
        check::bandwidth_of(&together.exchange, bytes, |peer| swap(peer).map_err(Error::Device))
    }

    /// Tells all ranks at their next exchange why this one cannot go on, and returns the error that
    /// they get. When the cause was an exchange, they know already.
    pub fn fail(&self, cause: &str) -> Error {
        let Some(together) = &self.together else {
            return Error::Rank { rank: 0, host: "this machine".into(), cause: cause.to_owned() };
        };
        together.exchange.failure().unwrap_or_else(|| together.exchange.fail(cause))
    }

    /// After a failure that all ranks know: every rank's record, in rank order; an empty record
    /// says nothing. All ranks vote once. None the second time, and when the engine has failed.
    /// Then all may exchange more, in the same order, until they [`stop_again`](Self::stop_again).
    pub fn vote(&self, record: &[u8]) -> Option<Vec<Vec<u8>>> {
        match &self.together {
            None => Some(vec![record.to_vec()]),
            Some(together) if together.exchange.has_gone_on() || !together.exchange.go_on() => None,
            Some(_) => self.gather(record).ok(),
        }
    }

    /// Ends the exchanges after a [`vote`](Self::vote): they fail again with the failure before it.
    pub fn stop_again(&self) {
        if let Some(together) = &self.together {
            together.exchange.stop_again();
        }
    }

    /// After a failure that all ranks know: they may exchange more, in the same order, to save the
    /// work before it. Returns whether they can: not when the engine has failed.
    pub fn go_on(&self) -> bool {
        self.together.as_ref().is_none_or(|together| together.exchange.go_on())
    }

    /// Takes leave of the other ranks, which do so too: after the work, or after
    /// [`fail`](Self::fail). Say and write everything before: when one rank ends with an error,
    /// launchers end the others. After a failure of the engine it ends all ranks at once.
    ///
    /// # Errors
    /// As [`gather`](Self::gather), but not again for a failure that all ranks know.
    pub fn finish(self) -> Result<()> {
        let Some(together) = self.together else { return Ok(()) };
        let met = match together.exchange.failure() {
            Some(Error::Engine(why)) => {
                // This rank can no longer take leave, and the others would wait for it.
                together.exchange.line().engine().abort(&why);
                Ok(())
            }
            Some(_) => Ok(()),
            None => together.exchange.run(Kind::Finish, Contribution::default(), |_| Ok(())),
        };
        let Together { pulse, exchange, .. } = together;
        drop(pulse);
        let closed = exchange.line().engine().close();
        met.and(closed)
    }

    fn line(&self) -> Option<&Line> {
        self.together.as_ref().map(|together| &**together.exchange.line())
    }

    fn exchange(
        &self,
        kind: Kind,
        slices: &Slices,
        act: impl FnOnce(&Line) -> Result<()>,
    ) -> Result<()> {
        let Some(together) = &self.together else { return Ok(()) };
        let own = Contribution { shape: slices.numbers() as u64, ..Contribution::default() };
        together.exchange.run(kind, own, |_| act(together.exchange.line()))
    }

    fn records(&self, kind: Kind, record: &[u8]) -> Result<Vec<Vec<u8>>> {
        match &self.together {
            Some(together) => together.exchange.gather(kind, record),
            None => Ok(vec![record.to_vec()]),
        }
    }

    fn try_neighbours(&self) -> Result<()> {
        let Some(together) = &self.together else { return Ok(()) };
        check::try_neighbours(&together.exchange)
    }
}

/// Counts an exchange between devices.
fn counted(
    line: &Line,
    bytes: usize,
    goes: &[Part],
    exchange: impl FnOnce() -> Result<(), String>,
) -> Result<()> {
    let begun = Instant::now();
    exchange().map_err(Error::Device)?;
    let numbers: usize = goes.iter().map(Part::count).sum();
    line.count((bytes * numbers) as u64, begun.elapsed());
    Ok(())
}

/// The beginning of the SHA-256 of this program's file, because builds of one version may differ.
fn build() -> Result<String> {
    let program = isentrope_files::this_program().and_then(|path| Ok(sha256_of_file(&path)?));
    let hash = program
        .map_err(|error| Error::Start(format!("the running program cannot be read: {error}")))?;
    Ok(hash[..12].to_owned())
}
