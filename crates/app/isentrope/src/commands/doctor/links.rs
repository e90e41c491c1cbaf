//! The links between the ranks of a job in `isentrope doctor`.

use crate::device::{self, DeviceFlag};
use crate::ranks::Ranks;
use crate::standard_output::print_fitted;
use anyhow::Result;
use isentrope_ranks::World;
use isentrope_train::settings::{DeviceKind, NumberType, RanksSettings};

/// Measures the links between all ranks, who call it together. Rank 0 prints them.
pub(super) fn show(ranks: &Ranks, settings: &RanksSettings) -> Result<()> {
    let world = &ranks.world;
    let request = device::request(&DeviceFlag::default(), DeviceKind::default())?;
    let (threads, rank) = (Some(ranks.threads), ranks.local_rank());
    let device = device::open(request, "device.dtype", NumberType::F32, threads, rank)?;
    device::connect(&device, world, settings)?;
    let hosts = world.bandwidth()?;
    let gpus = device::bandwidth(&device, world)?;
    if !ranks.is_first() {
        return Ok(());
    }
    let mut text = "  links, GB/s each way between ranks, all pairs of a line at once\n".to_owned();
    text += &lines("hosts", world, &hosts);
    text += &gpus.map_or(String::new(), |gpus| lines("NCCL", world, &gpus));
    print_fitted(&text)
}

/// A line for each of the exchanges of a sum, of the bandwidth that [`World::bandwidth`] has found.
fn lines(way: &str, world: &World, bandwidth: &[Vec<Option<f64>>]) -> String {
    let line = |bit: usize| {
        // The slower rank of a pair counts.
        let pair = |rank: usize| {
            let peer = rank | 1 << bit;
            let [one, other] = [rank, peer].map(|rank| bandwidth.get(rank)?[bit]);
            Some((one?.min(other?), rank, peer)).filter(|_| rank < peer)
        };
        let mut pairs: Vec<_> = (0..world.size()).filter_map(pair).collect();
        pairs.sort_by(|(one, ..), (other, ..)| one.total_cmp(other));
        let gb = |speed: f64| speed / 1e9;
        let ((slowest, rank, peer), (median, ..)) = (pairs[0], pairs[pairs.len() / 2]);
        let [rank, peer] = [rank, peer].map(|rank| world.name(rank));
        let name = format!("{way}, rank^{}", 1 << bit);
        format!(
            "    {name:<15} median {:.2}, least {:.2} ({rank}, {peer})\n",
            gb(median),
            gb(slowest)
        )
    };
    (0..bandwidth[0].len()).map(line).collect()
}
