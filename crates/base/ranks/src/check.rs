//! Checks, before any work, that bytes between ranks arrive as they were sent.

use crate::error::{Error, Result};
use crate::exchange::{Contribution, Exchange};
use crate::floats::HostFloats;
use crate::header::Kind;
use crate::line::Line;
use crate::rank_host::RankHost;
use crate::sum::swap;
use std::time::Instant;

/// Numbers of the block that neighbours exchange as a test. It fills more than one piece, so that a
/// second piece is tested too.
const PROBE_NUMBERS: usize = (1 << 18) + 1000;
/// Numbers sent to measure bandwidth: 32 MiB.
const BANDWIDTH_NUMBERS: usize = 8 << 20;
/// Exchanges that are timed, of which the median counts.
const TIMED_SWAPS: usize = 3;

/// Exchanges the hosts of all ranks.
pub(crate) fn introduce(exchange: &Exchange, own: &RankHost) -> Result<Vec<RankHost>> {
    let own = serde_json::to_vec(own)
        .map_err(|error| Error::Start(format!("this rank cannot say where it runs: {error}")))?;
    let records = exchange.gather(Kind::Gather, &own)?;
    let hosts = records.iter().enumerate().map(|(rank, record)| {
        serde_json::from_slice(record).map_err(|_| {
            Error::Start(format!(
                "rank {rank} does not say where it runs: it is of another version; start one on all"
            ))
        })
    });
    hosts.collect()
}

/// The neighbours of a rank, one for each bit of its number; None if there is no such rank.
fn neighbours(rank: usize, ranks: usize) -> impl Iterator<Item = Option<usize>> {
    let bits = ranks.next_power_of_two().trailing_zeros();
    (0..bits).map(move |bit| Some(rank ^ (1 << bit)).filter(|&other| other < ranks))
}

/// A block that only this rank has. All are finite.
fn block(rank: usize) -> impl Iterator<Item = f32> {
    let mut state = rank as u32 ^ 0x9e37_79b9;
    (0..PROBE_NUMBERS).map(move |_| {
        state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        state as f32
    })
}

/// Exchanges a known block with every neighbour. It shows whether constants and calls of the
/// library are what `abi.rs` says.
pub(crate) fn try_neighbours(exchange: &Exchange) -> Result<()> {
    exchange.run(Kind::Check, Contribution::default(), |_| {
        let line = exchange.line();
        for peer in neighbours(line.rank(), line.size()).flatten() {
            let mut numbers: Vec<f32> =
                block(line.rank()).chain((0..PROBE_NUMBERS).map(|_| 0.0)).collect();
            swap_halves(line, peer, &mut numbers)?;
            if !numbers[PROBE_NUMBERS..].iter().copied().eq(block(peer)) {
                return Err(Error::Damage(format!(
                    "{} does not arrive as it was sent: the library does not work as its version \
                     says; name another with \
                     ISENTROPE_MPI=/path/to/libmpi.so",
                    exchange.name(peer)
                )));
            }
        }
        Ok(())
    })
}

/// Sends our first half to a rank, and writes that rank's first half over our second.
fn swap_halves(line: &Line, peer: usize, numbers: &mut [f32]) -> Result<()> {
    let half = numbers.len() / 2;
    swap(line, &mut HostFloats::new([numbers]), peer, 0..half, half..2 * half)
}

/// See [`World::bandwidth`](crate::World::bandwidth).
pub(crate) fn bandwidth(exchange: &Exchange) -> Result<Vec<Vec<Option<f64>>>> {
    let mut numbers = vec![1.0f32; 2 * BANDWIDTH_NUMBERS];
    let swap = |peer| swap_halves(exchange.line(), peer, &mut numbers);
    bandwidth_of(exchange, 4 * BANDWIDTH_NUMBERS, swap)
}

/// Bandwidth by exchanges of `bytes` each way, which `swap` makes with a rank.
pub(crate) fn bandwidth_of(
    exchange: &Exchange,
    bytes: usize,
    mut swap: impl FnMut(usize) -> Result<()>,
) -> Result<Vec<Vec<Option<f64>>>> {
    let line = exchange.line();
    let mut own = Vec::new();
    for peer in neighbours(line.rank(), line.size()) {
        // The headers make all ranks start together; the first swap warms up connections.
        own.push(exchange.run(Kind::Check, Contribution::default(), |_| {
            let Some(peer) = peer else { return Ok(None) };
            swap(peer)?;
            let mut seconds = [0.0; TIMED_SWAPS];
            for seconds in &mut seconds {
                let begun = Instant::now();
                swap(peer)?;
                *seconds = begun.elapsed().as_secs_f64();
            }
            seconds.sort_by(f64::total_cmp);
            Ok(Some(bytes as f64 / seconds[TIMED_SWAPS / 2]))
        })?);
    }
    let record: Vec<u8> = own.iter().flat_map(|speed| speed.unwrap_or(0.0).to_le_bytes()).collect();
    let records = exchange.gather(Kind::Gather, &record)?;
    let speeds = |record: &Vec<u8>| {
        let speed =
            |bytes: &[u8]| bytes.first_chunk().map_or(0.0, |eight| f64::from_le_bytes(*eight));
        record.chunks_exact(8).map(speed).map(|speed| (speed > 0.0).then_some(speed)).collect()
    };
    Ok(records.iter().map(speeds).collect())
}
