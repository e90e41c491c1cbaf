//! Ranks find each other. Rank 0 listens where all know it, and tells everyone where the others
//! listen; then each rank calls those before it.

use super::Meeting;
use super::handshake::{CallError, Caller, IDENTITY, Identity, PATIENCE, Refusal, call, hear};
use crate::error::{Error, Result};
use crate::launch::{LEAST_TIME, NOTICE};
use crate::local::{Children, first_ended};
use crate::pulse::{Message, Tell};
use crate::rank_host::host;
use crate::settings::Settings;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Pauses between two calls, and between two looks for callers.
const CALL_PAUSE: Duration = Duration::from_millis(100);
const LOOK_PAUSE: Duration = Duration::from_millis(2);
/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Least time between two words about callers that are refused: they may be anybody.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);
/// Time after which ranks from 2 on say that they wait.
const LATE_NOTICE: Duration = Duration::from_secs(60);
/// Most callers that are heard at a time, beside the ranks.
const STRANGERS: usize = 32;
/// Bytes of a rank in the table: its address, and how it introduced itself.
const ROW: usize = 16 + IDENTITY;

/// Another rank, connected.
pub(super) struct Connection {
    pub stream: TcpStream,
    pub identity: Identity,
}

/// The connections to all other ranks, `[ranks]`; none at this rank's own place.
pub(super) fn meet(meeting: Meeting, settings: &Settings) -> Result<Vec<Option<Connection>>> {
    let mut wait = Wait::new(&meeting, settings);
    let own = |port| Identity { rank: meeting.rank, size: meeting.size, port, host: host() };
    if meeting.rank == 0 {
        let listener = match meeting.listener {
            Some(listener) => listener,
            None => listen(&meeting.host, meeting.port).map_err(|error| {
                Error::Start(format!(
                    "rank 0 cannot listen at port {}: {error}; name a free port for all ranks \
                     with ISENTROPE_PORT",
                    meeting.port
                ))
            })?,
        };
        let callers = Callers::new(own(0), &meeting.key);
        let mut met = callers.hear(&listener, &mut wait)?;
        let rows: Vec<u8> = met.iter().flat_map(|met| row(met.as_ref())).collect();
        for connection in met.iter_mut().flatten() {
            // A rank that has gone is noticed in the first exchange.
            let _ = connection.stream.write_all(&rows);
        }
        return Ok(met);
    }
    // Ranks after this one call here.
    let listener = listen(&meeting.host, 0)
        .map_err(|error| Error::Start(format!("this rank cannot listen: {error}")))?;
    let port = listener.local_addr().map_or(0, |address| address.port());
    let callers = Callers::new(own(port), &meeting.key);
    let resolve = || (meeting.host.as_str(), meeting.port).to_socket_addrs();
    let mut first = callers.call(0, resolve, &mut wait)?;
    let table = read_table(&mut first, meeting.size, &mut wait)?;
    callers.add(first);
    for (rank, row) in table.iter().enumerate().take(meeting.rank).skip(1) {
        let connection = callers.call(rank, || Ok([*row].into_iter()), &mut wait)?;
        callers.add(connection);
    }
    callers.hear(&listener, &mut wait)
}

/// A socket at this port, any if that is 0. Ranks that meet on this machine alone are not to be
/// reached from others.
fn listen(host: &str, port: u16) -> io::Result<TcpListener> {
    let is_here = |address: IpAddr| address.is_loopback();
    if host == "localhost" || host.parse().is_ok_and(is_here) {
        return TcpListener::bind((host, port));
    }
    let both = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port));
    both.or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
}

/// A rank's line of the table; zeros for rank 0.
fn row(connection: Option<&Connection>) -> [u8; ROW] {
    let mut row = [0; ROW];
    if let Some(Connection { stream, identity }) = connection
        && let Ok(address) = stream.peer_addr()
    {
        let address = match address.ip() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        row[..16].copy_from_slice(&address.octets());
        row[16..].copy_from_slice(&identity.encode());
    }
    row
}

/// Where the ranks listen, `[ranks]`, as rank 0 has heard from all.
fn read_table(first: &mut Connection, size: usize, wait: &mut Wait) -> Result<Vec<SocketAddr>> {
    let name = first.identity.name();
    let mut rows = vec![[0; ROW]; size];
    let told = first.stream.set_read_timeout(wait.left()).and_then(|()| {
        rows.iter_mut().try_for_each(|row| first.stream.read_exact(row))?;
        first.stream.peer_addr()
    });
    let first_address = told.map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => wait.over("other ranks have not come"),
        _ => Error::Engine(format!("{name} has ended before all ranks had begun ({error})")),
    })?;
    let address = |row: &[u8; ROW]| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&row[..16]);
        let ip = Ipv6Addr::from(octets).to_canonical();
        // A rank that reaches rank 0 by the loopback is on its machine.
        let ip = if ip.is_loopback() { first_address.ip() } else { ip };
        let mut identity = [0; IDENTITY];
        identity.copy_from_slice(&row[16..]);
        SocketAddr::new(ip, Identity::decode(&identity).port)
    };
    Ok(rows.iter().map(address).collect())
}

/// This rank among those that it has met.
struct Callers {
    own: Identity,
    key: String,
    /// `[ranks]`.
    met: Arc<Mutex<Vec<Option<Connection>>>>,
    /// When this rank last said that it refuses a caller.
    refused: Arc<Mutex<Option<Instant>>>,
}

impl Callers {
    fn new(own: Identity, key: &str) -> Self {
        let met = (0..own.size).map(|_| None).collect();
        let refused = Arc::default();
        Self { own, key: key.to_owned(), met: Arc::new(Mutex::new(met)), refused }
    }

    fn add(&self, connection: Connection) {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let rank = connection.identity.rank;
        met[rank] = Some(connection);
    }

    /// Calls a rank until it answers.
    fn call<A: Iterator<Item = SocketAddr>>(
        &self,
        rank: usize,
        addresses: impl Fn() -> io::Result<A>,
        wait: &mut Wait,
    ) -> Result<Connection> {
        loop {
            let mut why = "no address is known".to_owned();
            match addresses() {
                Err(error) => why = error.to_string(),
                Ok(addresses) => {
                    for address in addresses {
                        let connected = TcpStream::connect_timeout(&address, CONNECT);
                        let called = connected.map_err(CallError::from).and_then(|stream| {
                            let identity = call(&stream, &self.own, rank, &self.key)?;
                            Ok(Connection { stream, identity })
                        });
                        match called {
                            Ok(connection) => return Ok(connection),
                            Err(CallError::Nobody(cause)) => why = format!("{address}: {cause}"),
                            Err(CallError::Refused(Refusal { why, may_help })) => {
                                let error = if may_help { Error::Engine } else { Error::Start };
                                return Err(error(why));
                            }
                        }
                    }
                }
            }
            let hint = if rank == 0 { ": it has not begun, or has all its ranks" } else { "" };
            wait.check(|| format!("rank {rank} does not answer ({why}){hint}"))?;
            thread::sleep(CALL_PAUSE);
        }
    }

    /// Answers calls until all ranks after this one have come. Others that call are dropped.
    fn hear(&self, listener: &TcpListener, wait: &mut Wait) -> Result<Vec<Option<Connection>>> {
        let unusable = |error| Error::Start(format!("this rank cannot listen: {error}"));
        listener.set_nonblocking(true).map_err(unusable)?;
        loop {
            let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
            let absent = |rank: &usize| met[*rank].is_none();
            let absent: Vec<usize> = (self.own.rank + 1..self.own.size).filter(absent).collect();
            if absent.is_empty() {
                return Ok(std::mem::take(&mut *met));
            }
            drop(met);
            match listener.accept() {
                Ok((stream, _)) => self.answer(stream, &wait.tell),
                // A caller that has hung up already is an error on some systems, too.
                Err(_) => thread::sleep(LOOK_PAUSE),
            }
            wait.check(|| match &absent[..] {
                [rank] => format!("rank {rank} has not come"),
                ranks => {
                    let first: Vec<_> = ranks.iter().take(8).map(ToString::to_string).collect();
                    let more = if ranks.len() > 8 { ", ..." } else { "" };
                    format!("ranks {}{more} have not come", first.join(", "))
                }
            })?;
        }
    }

    /// Hears a caller on a thread of its own, because it may say nothing.
    fn answer(&self, stream: TcpStream, tell: &Tell) {
        if Arc::strong_count(&self.met) > self.own.size + STRANGERS {
            return; // it may call again
        }
        let (own, key, met) = (self.own.clone(), self.key.clone(), Arc::clone(&self.met));
        let (tell, refused) = (Arc::clone(tell), Arc::clone(&self.refused));
        let end = Instant::now() + PATIENCE;
        let answer = move || {
            let Ok(Some(caller)) = hear(stream, &key, end) else { return };
            // One caller at a time is judged. The list is empty once all have come.
            let mut met = met.lock().unwrap_or_else(PoisonError::into_inner);
            match refusal(&caller, &own, &met) {
                Some(refusal) => {
                    let mut told = refused.lock().unwrap_or_else(PoisonError::into_inner);
                    if told.is_none_or(|told| told.elapsed() > REFUSED_PAUSE) {
                        *told = Some(Instant::now());
                        tell(Message::Warning(&refusal.why));
                    }
                    let _ = caller.refuse(&refusal); // it may have gone
                }
                None => {
                    if let Ok((stream, identity)) = caller.welcome(&own, &key) {
                        let rank = identity.rank;
                        met[rank] = Some(Connection { stream, identity });
                    }
                }
            }
        };
        let _ = thread::Builder::new().spawn(answer); // without threads the caller calls again
    }
}

/// Why a caller is not welcome to rank `own`, which has `met` these.
fn refusal(caller: &Caller, own: &Identity, met: &[Option<Connection>]) -> Option<Refusal> {
    let (name, host) = (caller.identity.name(), own.name());
    let Identity { rank, size, .. } = caller.identity;
    let of_this_job = |why| Some(Refusal::of_this_job(why));
    if !caller.knows_key {
        return of_this_job(format!(
            "{name} is of another job than {host}: they have other keys (ISENTROPE_KEY)"
        ));
    }
    if size != own.size {
        return of_this_job(format!(
            "{name} is one of {size} ranks, and {host} one of {}: start all with the same \
             WORLD_SIZE",
            own.size
        ));
    }
    let Some(place) = met.get(rank).filter(|_| rank > own.rank) else {
        return of_this_job(format!(
            "{name} cannot come to {host}: ranks are numbered from 0 to {}",
            own.size - 1
        ));
    };
    let known = place.as_ref().filter(|known| is_open(&known.stream))?;
    let why = format!(
        "{} has come already, and {name} is a second one: give each process a RANK of its own, or \
         a port of its own to each job (ISENTROPE_PORT)",
        known.identity.name()
    );
    // The machine of the first may be lost, unseen yet.
    Some(Refusal { why, may_help: true })
}

/// Whether the other side of a connection may still be there.
fn is_open(stream: &TcpStream) -> bool {
    let peeked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    let _ = stream.set_nonblocking(false); // a connection that is gone has failed already
    matches!(peeked, Ok(1)) || peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// How long ranks wait for each other, and what they say then.
struct Wait {
    begun: Instant,
    limit: Option<Duration>,
    /// When this rank says that it waits, unless it has said so.
    notice: Option<Duration>,
    address: String,
    tell: Tell,
    children: Children,
}

impl Wait {
    fn new(meeting: &Meeting, settings: &Settings) -> Self {
        Self {
            begun: Instant::now(),
            limit: settings.watch.silent.map(|limit| limit.max(LEAST_TIME)),
            // If a rank is missing, rank 0 says so. If that is rank 0 itself, rank 1 does. The
            // others come later, for somebody who sees the words of one rank alone.
            notice: Some(if meeting.rank < 2 { NOTICE } else { LATE_NOTICE }),
            address: meeting.address(),
            tell: Arc::clone(&settings.tell),
            children: Arc::clone(&meeting.children),
        }
    }

    /// The time left; none without a limit.
    fn left(&self) -> Option<Duration> {
        let left = self.limit?.saturating_sub(self.begun.elapsed());
        Some(left.max(Duration::from_millis(1)))
    }

    /// Says after some time that this rank waits, and fails when that is too long.
    fn check(&mut self, why: impl FnOnce() -> String) -> Result<()> {
        if let Some(rank) = first_ended(&self.children) {
            return Err(Error::Engine(format!("rank {rank} has ended before all ranks had begun")));
        }
        let waited = self.begun.elapsed();
        if self.limit.is_some_and(|limit| waited > limit) {
            return Err(self.over(&why()));
        }
        if let Some(notice) = self.notice.take_if(|notice| waited > *notice) {
            (self.tell)(Message::Warning(&format!(
                "this rank has waited {} s for the others to begin (they meet at {}): {}",
                notice.as_secs(),
                self.address,
                why()
            )));
        }
        Ok(())
    }

    fn over(&self, why: &str) -> Error {
        Error::Engine(format!(
            "this rank has not met all others within {} s (ranks.timeout_s, and at least {} s; \
             they meet at {}): {why}; it ends",
            self.limit.unwrap_or_default().as_secs(),
            LEAST_TIME.as_secs(),
            self.address
        ))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::pulse::Watch;
    use rustix::net::{AddressFamily, SocketType, bind, socket};
    use std::net::SocketAddrV4;

    /// A process that comes once rank 0 has all its ranks, as a second one of rank 5.
    #[test]
    fn a_rank_that_finds_nobody_says_what_that_may_mean() {
        // A port that nobody else gets, and where nobody listens.
        let bound = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&bound, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        let bound = TcpListener::from(bound);
        let address = bound.local_addr().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&said);
        let settings = Settings {
            threads: 1,
            program: "a test".into(),
            watch: Watch { silent: Some(Duration::from_secs(100)), ..Watch::default() },
            tell: Arc::new(move |message| heard.lock().unwrap().push(message.text().to_owned())),
        };
        let meeting = |rank| Meeting {
            launcher: "a test",
            rank,
            size: 8,
            host: "127.0.0.1".into(),
            port: address.port(),
            key: String::new(),
            listener: None,
            children: Children::default(),
        };
        let own = Identity { rank: 5, size: 8, port: 1, host: "here".into() };
        let since = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        let mut wait = Wait { begun: since(101), ..Wait::new(&meeting(5), &settings) };
        let callers = Callers::new(own, "");
        let called = callers.call(0, || Ok([address].into_iter()), &mut wait);
        let Err(Error::Engine(error)) = called else { panic!("somebody answers") };
        let why = "nobody listens there): it has not begun, or has all its ranks; it ends";
        assert!(error.starts_with("this rank has not met all others within 100 s"), "{error}");
        assert!(error.ends_with(why) && said.lock().unwrap().is_empty(), "{error}");
        // It says so while it waits, later than the first two ranks.
        for (rank, seconds, words) in [(1, 11, 1), (5, 59, 0), (5, 61, 1)] {
            let mut wait = Wait { begun: since(seconds), ..Wait::new(&meeting(rank), &settings) };
            for _ in 0..2 {
                wait.check(|| "rank 0 does not answer".into()).unwrap();
            }
            assert_eq!(said.lock().unwrap().drain(..).count(), words, "{rank} {seconds}");
        }
    }
}
