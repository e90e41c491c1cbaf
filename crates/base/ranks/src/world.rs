//! The ranks that run together.

use crate::beat::Activity;
use crate::error::{Error, Result};
use crate::exchange::{Contribution, Exchange};
use crate::floats::{HostFloats, Parameter};
use crate::header::{Header, Kind};
use crate::line::{Line, Traffic};
use crate::pulse::{Listener, Pulse};
use crate::rank_host::{Node, RankHost};
use crate::settings::{Library, Settings};
use crate::slices::Slices;
use crate::{check, launch, sum};
use std::sync::Arc;
use std::time::Duration;

/// The ranks that run together: this one and all others.
///
/// Every method that exchanges is called by all ranks in the same order. It fails when a rank has
/// failed or differs: on all ranks, at the latest with the exchange after it. A rank that fails
/// elsewhere tells the others with [`fail`](Self::fail). A rank that is alone gets back what it
/// gives.
#[derive(Default)]
pub struct World {
    together: Option<Together>,
}

struct Together {
    // Ends before the rest.
    pulse: Pulse,
    exchange: Exchange,
    activity: Arc<Activity>,
    places: Vec<RankHost>,
    library: Option<Library>,
}

impl World {
    /// One rank: nothing is loaded or started.
    pub fn alone() -> Self {
        Self::default()
    }

    /// The ranks that a launcher has started together, or one alone where none has.
    ///
    /// # Errors
    /// [`Error::Start`] when there are several but they cannot work together: the library is
    /// missing or not the launcher's, or ranks have different programs.
    pub fn begin(settings: &Settings) -> Result<Self> {
        let Some(launch) = launch::from_environment(|name| std::env::var(name).ok())? else {
            return Ok(Self::alone());
        };
        let (mut engine, library) = crate::mpi::begin(&launch, &*settings.tell)?;
        if engine.size() == 1 {
            engine.close()?; // a launcher that does not say how many it starts has started one
            return Ok(Self::alone());
        }
        Self::over(Line::new(engine), Some(library), settings)
    }

    /// The ranks of an engine.
    pub(crate) fn over(line: Line, library: Option<Library>, settings: &Settings) -> Result<Self> {
        let line = Arc::new(line);
        let activity = Arc::new(Activity::new());
        let exchange =
            Exchange::new(Arc::clone(&line), Arc::clone(&activity), Arc::clone(&settings.tell));
        let own = RankHost::here(settings.threads, settings.memory);
        let places = check::introduce(&exchange, &own)?;
        exchange.name_hosts(places.iter().map(|place| place.host.clone()).collect());
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
        let world =
            Self { together: Some(Together { pulse, exchange, activity, places, library }) };
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

    /// Whether this is rank 0, which speaks for all.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// How a rank is called in messages: `rank 3 (node7)`.
    pub fn name(&self, rank: usize) -> String {
        self.together
            .as_ref()
            .map_or_else(|| format!("rank {rank}"), |together| together.exchange.name(rank))
    }

    /// The host of each rank, `[ranks]`; empty for one alone.
    pub fn places(&self) -> &[RankHost] {
        self.together.as_ref().map_or(&[], |together| &together.places)
    }

    /// The machine of this rank with those that share it; none for one alone.
    pub fn node(&self) -> Option<Node> {
        Node::of(self.places()).into_iter().find(|node| node.ranks.contains(&self.rank()))
    }

    /// The library that moves the bytes; none for one alone and for threads.
    pub fn library(&self) -> Option<&Library> {
        self.together.as_ref()?.library.as_ref()
    }

    /// The traffic of exchanges so far.
    pub fn traffic(&self) -> Traffic {
        self.line().map_or_else(Traffic::default, Line::traffic)
    }

    /// Reports what this rank is doing to the others: 41 of 64 done, say, or of 0 if nothing is
    /// counted.
    pub fn report(&self, what: &str, done: u64, of: u64) {
        if let Some(together) = &self.together {
            together.activity.report(what, done, of);
        }
    }

    /// From now on a rank is given up when nothing was heard of it for so long; never, if none. All
    /// ranks say the same.
    pub fn give_up_after(&self, silent: Option<Duration>) {
        if let Some(together) = &self.together {
            together.pulse.give_up_after(silent);
        }
    }

    /// Notes what was computed. All ranks must note the same: the next exchange compares.
    pub fn note(&self, what: &str, bytes: &[u8]) {
        if let Some(together) = &self.together {
            together.exchange.note(what, bytes);
        }
    }

    /// Every rank's record, in rank order.
    pub fn gather(&self, record: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.records(Kind::Gather, record)
    }

    /// Every rank's record, in rank order, as [`gather`](Self::gather): what each has left of work
    /// that is to be shared out anew. Who has nothing left comes here and waits. The others come,
    /// between two pieces of work, when they
    /// [are called](Self::is_called).
    pub fn balance(&self, record: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.records(Kind::Balance, record)
    }

    /// Whether a rank waits in the exchange that this one makes next. It is known about as long
    /// after as there is between two signs of life; what comes of an exchange does not depend on
    /// when.
    pub fn is_called(&self) -> bool {
        self.together.as_ref().is_some_and(|together| together.exchange.is_called())
    }

    /// The record of rank 0; what others bring is ignored.
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

    /// Whether all ranks have the same of something, such as `"model.safetensors"`: a version, or a
    /// digest.
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

    /// Nothing more is exchanged, for a reason that all ranks see alike and that starting again
    /// does not mend.
    pub(crate) fn refuse(&self, why: String) -> Error {
        self.conclude(Error::Start(why))
    }

    /// Nothing more is exchanged, for a reason that all ranks see alike.
    pub(crate) fn conclude(&self, error: Error) -> Error {
        match &self.together {
            Some(together) => together.exchange.conclude(error),
            None => error,
        }
    }

    /// Adds what all ranks have, in the tree of `tree.rs`: a rank then has the sum in its own slice
    /// ([`Slices::of_rank`]), and nothing of use in the rest. `slices` are those of
    /// [`size`](Self::size) ranks.
    pub fn sum<P: Parameter>(&self, floats: &mut HostFloats<P>, slices: &Slices) -> Result<()> {
        self.exchange(Kind::Sum, slices, |line| sum::reduce_scatter(line, floats, slices))
    }

    /// Gives every rank's slice to all.
    pub fn share<P: Parameter>(&self, floats: &mut HostFloats<P>, slices: &Slices) -> Result<()> {
        self.exchange(Kind::Share, slices, |line| sum::all_gather(line, floats, slices))
    }

    /// Bytes per second and direction between each rank and its neighbours, `[ranks][log2 ranks]`:
    /// rank^1, rank^2, rank^4, ...; none where there is no such rank.
    pub fn bandwidth(&self) -> Result<Vec<Vec<Option<f64>>>> {
        let Some(together) = &self.together else { return Ok(vec![Vec::new()]) };
        check::bandwidth(&together.exchange)
    }

    /// Tells all ranks why this one cannot go on, at their next exchange, and returns what they are
    /// told. When the cause was an exchange, they know already.
    pub fn fail(&self, cause: &str) -> Error {
        let Some(together) = &self.together else {
            return Error::Rank { rank: 0, host: "this machine".into(), cause: cause.to_owned() };
        };
        together.exchange.over().unwrap_or_else(|| together.exchange.fail(cause))
    }

    /// After a failure that all ranks were told of: what each of them says, in rank order. All
    /// ranks come here once, with an empty record where they have nothing to say; nothing comes
    /// back the second time, and when the engine has failed. Then they may exchange more, all of
    /// them alike, until they [`stop_again`](Self::stop_again).
    pub fn vote(&self, record: &[u8]) -> Option<Vec<Vec<u8>>> {
        match &self.together {
            None => Some(vec![record.to_vec()]),
            Some(together) if together.exchange.has_gone_on() || !together.exchange.go_on() => None,
            Some(_) => self.gather(record).ok(),
        }
    }

    /// After a [`vote`](Self::vote) and what followed it: the failure that all were told of is
    /// again why nothing is exchanged.
    pub fn stop_again(&self) {
        if let Some(together) = &self.together {
            together.exchange.stop_again();
        }
    }

    /// After a failure that all ranks were told of: they may exchange once more, all of them alike,
    /// to save what came before it. Returns whether they can: not when the engine has failed.
    pub fn go_on(&self) -> bool {
        self.together.as_ref().is_none_or(|together| together.exchange.go_on())
    }

    /// Takes leave of the other ranks, which do so too: after the work, or after
    /// [`fail`](Self::fail). All that is to be said or written is so before: when one rank ends
    /// with an error, launchers end the others. After a failure of the engine it ends all ranks at
    /// once.
    ///
    /// # Errors
    /// As [`gather`](Self::gather), but not again for what was told before.
    pub fn finish(self) -> Result<()> {
        let Some(together) = self.together else { return Ok(()) };
        let met = match together.exchange.over() {
            Some(Error::Engine(why)) => {
                // Nobody can take leave of the others any more, who would wait for this one.
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
