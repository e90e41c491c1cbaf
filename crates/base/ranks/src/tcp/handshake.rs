//! The first bytes of a connection, by which ranks of one job know each other.
//!
//! The rank that calls and the rank that answers each send a greeting, a mark and random bytes.
//! The caller then says who it is, and proves with the other's random bytes that it knows the key
//! of the job; the answer is a sentence of refusal, with whether starting again may help, or an
//! empty one and the other's proof. All lengths are fixed or bounded.

use crate::error::{Error, Result};
use crate::text::beginning;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The protocol and its version.
const MARK: [u8; 8] = *b"isrank01";
const NONCE: usize = 16;
const PROOF: usize = 32;
/// Most bytes of a host's name.
const HOST: usize = 63;
/// Bytes of [`Identity`]: a rank, a number of ranks, a port, and a name behind its length.
pub(super) const IDENTITY: usize = 4 + 4 + 2 + 1 + HOST;
/// Most bytes of a refusal.
const REFUSAL: usize = 512;
/// Longest time for all bytes of the other side, which may be no rank.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A rank, as it introduces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub rank: usize,
    pub size: usize,
    /// The port where it listens for other ranks.
    pub port: u16,
    /// The name of its host.
    pub host: String,
}

impl Identity {
    pub fn encode(&self) -> [u8; IDENTITY] {
        let mut bytes = [0; IDENTITY];
        let host = beginning(&self.host, HOST).as_bytes();
        // Launchers' variables are bounded.
        bytes[..4].copy_from_slice(&(self.rank as u32).to_le_bytes());
        bytes[4..8].copy_from_slice(&(self.size as u32).to_le_bytes());
        bytes[8..10].copy_from_slice(&self.port.to_le_bytes());
        bytes[10] = host.len() as u8;
        bytes[11..11 + host.len()].copy_from_slice(host);
        bytes
    }

    /// Any bytes are an identity of some sort.
    pub fn decode(bytes: &[u8; IDENTITY]) -> Self {
        let number = |at: usize| bytes[at..].first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
        let host = &bytes[11..][..usize::from(bytes[10]).min(HOST)];
        // It comes into messages.
        let host = String::from_utf8_lossy(host).replace(char::is_control, "?");
        let port = u16::from_le_bytes([bytes[8], bytes[9]]);
        Self { rank: number(0) as usize, size: number(4) as usize, port, host }
    }

    /// `rank 1 (node7)`.
    pub fn name(&self) -> String {
        format!("rank {} ({})", self.rank, self.host)
    }

    /// The proof that this rank knows the key, for the side that sent `nonce`.
    fn proof(&self, key: &str, nonce: &[u8; NONCE]) -> [u8; PROOF] {
        let parts: [&[u8]; 4] = [&MARK, nonce, &self.encode(), key.as_bytes()];
        parts.into_iter().fold(Sha256::new(), Digest::chain_update).finalize().into()
    }
}

/// Why a call has led to no rank.
#[derive(Debug)]
pub(super) enum CallError {
    /// Nothing answers there, or no rank: it may come later.
    Nobody(String),
    /// A rank answers, and refuses this one.
    Refused(Refusal),
}

/// Why a rank is not welcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub why: String,
    /// Whether starting the job again may help.
    pub may_help: bool,
}

impl Refusal {
    /// One that stays.
    pub fn of_this_job(why: String) -> Self {
        Self { why, may_help: false }
    }
}

impl From<io::Error> for CallError {
    fn from(error: io::Error) -> Self {
        Self::Nobody(match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => "nothing is said there".into(),
            ErrorKind::UnexpectedEof => "what listens there hangs up".into(),
            ErrorKind::ConnectionRefused => "nobody listens there".into(),
            _ => error.to_string(),
        })
    }
}

/// Random bytes of the system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| Error::Start(format!("/dev/urandom: {error}")))?;
    Ok(bytes)
}

/// A connection whose bytes must have come by some time, however they trickle.
struct Timely<'a> {
    stream: &'a TcpStream,
    end: Instant,
}

impl Read for Timely<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(into)
    }
}

/// Greets the other side, and returns its random bytes; none if it is no rank.
fn greet(from: &mut Timely<'_>, nonce: &[u8; NONCE]) -> io::Result<Option<[u8; NONCE]>> {
    let mut stream = from.stream;
    stream.set_nonblocking(false)?; // some systems pass on the listener's mode
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&[&MARK[..], nonce].concat())?;
    let mut mark = [0; MARK.len()];
    let mut theirs = [0; NONCE];
    from.read_exact(&mut mark)?;
    if mark != MARK {
        return Ok(None);
    }
    from.read_exact(&mut theirs)?;
    Ok(Some(theirs))
}

fn read_identity(from: &mut Timely<'_>) -> io::Result<([u8; PROOF], Identity)> {
    let (mut proof, mut identity) = ([0; PROOF], [0; IDENTITY]);
    from.read_exact(&mut proof)?;
    from.read_exact(&mut identity)?;
    Ok((proof, Identity::decode(&identity)))
}

/// Introduces this rank to rank `to`, which listens there, and returns that one's identity.
pub(super) fn call(
    mut stream: &TcpStream,
    own: &Identity,
    to: usize,
    key: &str,
) -> Result<Identity, CallError> {
    let refused = |why| CallError::Refused(Refusal::of_this_job(why));
    let nonce = random().map_err(|error| refused(error.to_string()))?;
    let nobody = || CallError::Nobody("something else answers there".into());
    let mut from = Timely { stream, end: Instant::now() + PATIENCE };
    let theirs = greet(&mut from, &nonce)?.ok_or_else(nobody)?;
    stream.write_all(&[&own.proof(key, &theirs)[..], &own.encode()].concat())?;
    let mut length = [0; 2];
    from.read_exact(&mut length)?;
    let mut refusal = vec![0; usize::from(u16::from_le_bytes(length)).min(REFUSAL)];
    from.read_exact(&mut refusal)?;
    if !refusal.is_empty() {
        let mut may_help = [0];
        from.read_exact(&mut may_help)?;
        let why = String::from_utf8_lossy(&refusal).replace(char::is_control, "?");
        return Err(CallError::Refused(Refusal { why, may_help: may_help != [0] }));
    }
    let (proof, other) = read_identity(&mut from)?;
    if proof != other.proof(key, &nonce) || (other.rank, other.size) != (to, own.size) {
        return Err(refused(format!("what answers there is not rank {to} of this job")));
    }
    Ok(other)
}

/// A rank that has called, and waits for an answer.
pub(super) struct Caller {
    stream: TcpStream,
    nonce: [u8; NONCE],
    pub identity: Identity,
    /// Whether it has proved that it knows the key.
    pub knows_key: bool,
}

/// Hears who calls, until `end`; none if it is no rank.
pub(super) fn hear(stream: TcpStream, key: &str, end: Instant) -> Result<Option<Caller>> {
    let own = random()?;
    let mut from = Timely { stream: &stream, end };
    let heard = greet(&mut from, &own).and_then(|theirs| {
        let Some(nonce) = theirs else { return Ok(None) };
        read_identity(&mut from).map(|(proof, identity)| Some((nonce, proof, identity)))
    });
    let Ok(Some((nonce, proof, identity))) = heard else { return Ok(None) };
    let knows_key = proof == identity.proof(key, &own);
    Ok(Some(Caller { stream, nonce, identity, knows_key }))
}

impl Caller {
    /// Tells the caller why it is refused.
    pub fn refuse(mut self, refusal: &Refusal) -> io::Result<()> {
        let why = beginning(&refusal.why, REFUSAL).as_bytes();
        self.stream.write_all(
            &[&(why.len() as u16).to_le_bytes()[..], why, &[refusal.may_help.into()]].concat(),
        )
    }

    /// Tells the caller who this rank is, and returns the connection.
    pub fn welcome(mut self, own: &Identity, key: &str) -> io::Result<(TcpStream, Identity)> {
        let proof = own.proof(key, &self.nonce);
        self.stream.write_all(&[&[0, 0], &proof[..], &own.encode()].concat())?;
        Ok((self.stream, self.identity))
    }
}
