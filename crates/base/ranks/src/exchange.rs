//! Exchanges of bytes in which all ranks agree: each begins with a header of every rank
//! ([`Header`]), so all ranks learn in the same exchange that one has failed, has other data or is
//! in another exchange, and all end with the same error.

use crate::beat::Activity;
use crate::engine::Move;
use crate::error::{Error, Result};
use crate::header::{HEADER_BYTES, Header, Kind, agreement};
use crate::line::Line;
use crate::piece::Piece;
use crate::pulse::{Message, Tell};
use crate::text::beginning;
use sha2::{Digest, Sha256};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Bytes of one piece: of an all-gather, from all ranks together; of a broadcast, from one rank.
const GATHER_PIECE_BYTES: usize = 16 << 20;
const BROADCAST_PIECE_BYTES: usize = 1 << 20;
/// Most bytes of all records of an exchange: more is a mistake, or a damaged length.
const MAX_RECORD_BYTES: u64 = 64 << 30;
/// Most bytes of a failed rank's cause.
const MAX_CAUSE_BYTES: usize = 4096;

/// A rank's contribution to an exchange.
#[derive(Clone, Copy, Default)]
pub(crate) struct Contribution<'a> {
    pub record: &'a [u8],
    pub flag: bool,
    pub shape: u64,
    /// Whether the rank has failed; then the record says why.
    pub failed: bool,
}

pub(crate) struct Exchange {
    line: Arc<Line>,
    activity: Arc<Activity>,
    tell: Tell,
    /// The host of each rank, once that is known.
    hosts: OnceLock<Vec<String>>,
    state: Mutex<State>,
}

/// The state of one rank; locked while it exchanges.
#[derive(Default)]
struct State {
    number: u64,
    digest: Sha256,
    noted: String,
    /// Why exchanges have ended; the same on all ranks.
    failure: Option<Error>,
    /// The error that all ranks got before they went on to vote.
    earlier_failure: Option<Error>,
}

impl Exchange {
    pub fn new(line: Arc<Line>, activity: Arc<Activity>, tell: Tell) -> Self {
        Self { line, activity, tell, hosts: OnceLock::new(), state: Mutex::default() }
    }

    pub fn line(&self) -> &Arc<Line> {
        &self.line
    }

    pub fn name_hosts(&self, hosts: Vec<String>) {
        let _ = self.hosts.set(hosts); // the hosts are gathered once
    }

    fn host(&self, rank: usize) -> String {
        let hosts = self.hosts.get().and_then(|hosts| hosts.get(rank));
        hosts.cloned().unwrap_or_else(|| "host not known yet".into())
    }

    pub fn name(&self, rank: usize) -> String {
        format!("rank {rank} ({})", self.host(rank))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why nothing more is exchanged.
    pub fn failure(&self) -> Option<Error> {
        self.state().failure.clone()
    }

    /// Allows exchanges again, after an error that all ranks know. Returns false when the engine
    /// has failed.
    pub fn go_on(&self) -> bool {
        let mut state = self.state();
        let possible = !matches!(state.failure, Some(Error::Engine(_)));
        if possible && let Some(error) = state.failure.take() {
            state.earlier_failure.get_or_insert(error);
        }
        possible
    }

    /// Whether ranks have gone on after a failure before.
    pub fn has_gone_on(&self) -> bool {
        self.state().earlier_failure.is_some()
    }

    /// Ends exchanges again, with the error before the ranks went on.
    pub fn stop_again(&self) {
        let mut state = self.state();
        if !matches!(state.failure, Some(Error::Engine(_))) {
            state.failure = state.earlier_failure.clone();
        }
    }

    /// Ends exchanges for a reason that all ranks know.
    pub fn conclude(&self, error: Error) -> Error {
        self.state().failure.get_or_insert(error).clone()
    }

    /// Whether rank 0 calls all ranks to this rank's next exchange.
    pub fn is_called(&self) -> bool {
        self.activity.called() == Some(self.state().number)
    }

    /// Notes computed bytes; the next exchange compares them over all ranks.
    pub fn note(&self, what: &str, bytes: &[u8]) {
        let mut state = self.state();
        for part in [what.as_bytes(), bytes] {
            state.digest.update((part.len() as u64).to_le_bytes());
            state.digest.update(part);
        }
        what.clone_into(&mut state.noted);
    }

    /// Takes part in the next exchange only to report why this rank has failed. Returns the error
    /// that all ranks get.
    pub fn fail(&self, cause: &str) -> Error {
        let words = beginning(cause, MAX_CAUSE_BYTES).as_bytes();
        let last = Contribution { record: words, failed: true, ..Contribution::default() };
        match self.run(Kind::Finish, last, |_| Ok(())) {
            Err(error) => error,
            Ok(()) => Error::Engine("the others have not heard why this rank failed".into()),
        }
    }

    /// Every rank's record, in rank order.
    pub fn gather(&self, kind: Kind, record: &[u8]) -> Result<Vec<Vec<u8>>> {
        let own = Contribution { record, ..Contribution::default() };
        self.run(kind, own, |headers| self.records(headers, record))
    }

    /// Makes one exchange: all headers, then `exchange` with them.
    pub fn run<T>(
        &self,
        kind: Kind,
        own: Contribution<'_>,
        exchange: impl FnOnce(&[Header]) -> Result<T>,
    ) -> Result<T> {
        let _span = isentrope_trace::span("exchange with other ranks");
        let mut state = self.state();
        if let Some(error) = &state.failure {
            return Err(error.clone());
        }
        let _waiting = self.activity.wait(state.number);
        let Contribution { record, flag, shape, failed } = own;
        let header = Header {
            kind,
            failed,
            flag,
            number: state.number,
            length: record.len() as u64,
            checksum: crc32c::crc32c(record),
            shape,
            digest: first_half(state.digest.clone().finalize().into()),
        };
        state.number += 1;
        // All ranks have the same headers, so all stop here.
        let headers = self
            .headers(&header)
            .and_then(|headers| self.judge(&headers, record, &state.noted).map(|()| headers))
            .inspect_err(|error| state.failure = Some(error.clone()))?;
        exchange(&headers).inspect_err(|error| {
            // Only one rank sees damage, so it reports it in the next exchange.
            if matches!(error, Error::Engine(_)) {
                state.failure = Some(error.clone());
            }
        })
    }

    /// Whether the exchange may go on.
    fn judge(&self, headers: &[Header], record: &[u8], noted: &str) -> Result<()> {
        let failed: Vec<usize> = (0..headers.len()).filter(|&rank| headers[rank].failed).collect();
        if let Some(&rank) = failed.first() {
            // The other ranks' records were for another exchange, and are dropped.
            let words: Vec<Header> = headers
                .iter()
                .map(|header| if header.failed { *header } else { Header { length: 0, ..*header } })
                .collect();
            let own = if headers[self.line.rank()].failed { record } else { &[] };
            let words = self.records(&words, own)?;
            let mut cause = String::from_utf8_lossy(&words[rank]).into_owned();
            if failed.len() == words.len() && words.iter().all(|other| *other == words[rank]) {
                return Err(Error::All(cause));
            }
            if failed.len() > 1 {
                cause += &format!(" ({} other ranks have failed too)", failed.len() - 1);
            }
            return Err(Error::Rank { rank, host: self.host(rank), cause });
        }
        let total = headers.iter().try_fold(0u64, |total, header| total.checked_add(header.length));
        if total.is_none_or(|total| total > MAX_RECORD_BYTES) {
            let largest = (0..headers.len()).max_by_key(|&rank| headers[rank].length).unwrap_or(0);
            return Err(Error::Disagreement(format!(
                "{} brings a record of {} bytes; all together may have {} GiB in an exchange: \
                 lower rollout.prompts or the number of ranks",
                self.name(largest),
                headers[largest].length,
                MAX_RECORD_BYTES >> 30
            )));
        }
        agreement(headers, noted, |rank| self.name(rank))
    }

    fn headers(&self, own: &Header) -> Result<Vec<Header>> {
        let all = self.gather_piece(&own.encode(), &vec![HEADER_BYTES; self.line.size()])?;
        let headers = all.chunks_exact(HEADER_BYTES).enumerate().map(|(rank, bytes)| {
            // Other ranks may have received the header undamaged and go on, so exchanges would no
            // longer match.
            Header::decode(bytes).ok_or_else(|| {
                self.end(format!(
                    "what came from {} is damaged, or from another version",
                    self.name(rank)
                ))
            })
        });
        headers.collect()
    }

    /// Ends all ranks at once, because they cannot end with the same error.
    fn end(&self, why: String) -> Error {
        (self.tell)(Message::Error(&why));
        self.line.engine().abort(&why);
        Error::Engine(why)
    }

    fn gather_piece(&self, own: &[u8], lengths: &[usize]) -> Result<Vec<u8>> {
        let movement = Move::AllGather {
            own: Piece::unsealed(own.to_vec()),
            all: Piece::zeros(lengths.iter().sum()),
            lengths: lengths.to_vec(),
        };
        let ticket = self.line.start(vec![movement])?;
        let all = self.line.wait(ticket)?.pop();
        Ok(all.map(|all| all.bytes().to_vec()).unwrap_or_default())
    }

    /// Every rank's record, in rank order. Headers have been judged.
    pub fn records(&self, headers: &[Header], own: &[u8]) -> Result<Vec<Vec<u8>>> {
        // Bounded by MAX_RECORD_BYTES.
        let lengths: Vec<usize> = headers.iter().map(|header| header.length as usize).collect();
        let most = (GATHER_PIECE_BYTES / self.line.size()).max(1);
        let mut records: Vec<Vec<u8>> = vec![Vec::new(); lengths.len()];
        while let Some(left) =
            lengths.iter().zip(&records).map(|(all, have)| all - have.len()).max()
            && left > 0
        {
            let now = |rank: usize| most.min(lengths[rank] - records[rank].len());
            let now: Vec<usize> = (0..lengths.len()).map(now).collect();
            let begun = records[self.line.rank()].len();
            let piece = self.gather_piece(&own[begun..begun + now[self.line.rank()]], &now)?;
            let mut rest = &piece[..];
            for (record, bytes) in records.iter_mut().zip(now) {
                let (part, after) = rest.split_at(bytes);
                record.extend_from_slice(part);
                rest = after;
            }
        }
        for (rank, (record, header)) in records.iter().zip(headers).enumerate() {
            self.check(rank, record, header)?;
        }
        Ok(records)
    }

    /// Broadcasts one rank's bytes. Headers have been judged.
    pub fn broadcast(&self, headers: &[Header], from: usize, own: &[u8]) -> Result<Vec<u8>> {
        let length = headers[from].length as usize; // bounded by MAX_RECORD_BYTES
        let mut record = Vec::new();
        while record.len() < length {
            let bytes = BROADCAST_PIECE_BYTES.min(length - record.len());
            let piece = if from == self.line.rank() {
                Piece::unsealed(own[record.len()..][..bytes].to_vec())
            } else {
                Piece::zeros(bytes)
            };
            let ticket = self.line.start(vec![Move::Broadcast { from, piece, bytes }])?;
            for piece in self.line.wait(ticket)? {
                record.extend_from_slice(piece.bytes());
            }
        }
        self.check(from, &record, &headers[from])?;
        Ok(record)
    }

    fn check(&self, rank: usize, record: &[u8], header: &Header) -> Result<()> {
        if crc32c::crc32c(record) == header.checksum || header.length == 0 {
            return Ok(());
        }
        Err(Error::Damage(format!(
            "what came from {} is not what it sent: memory or a network",
            self.name(rank)
        )))
    }
}

fn first_half(digest: [u8; 32]) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&digest[..16]);
    half
}
