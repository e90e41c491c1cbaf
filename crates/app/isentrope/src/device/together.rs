//! Exchange between ranks about their devices.

use super::{Computes, Device};
use crate::messages;
use anyhow::Result;
use isentrope_ranks::World;
use serde::{Deserialize, Serialize};

/// The device that a rank computes on.
#[derive(Debug, Serialize, Deserialize)]
enum RankDevice {
    /// The GPU with this UUID.
    Gpu(String),
    /// The CPU, and why it is not the GPU that `auto` prefers, where one seems to be there.
    Cpu(Option<String>),
}

/// Finds with which ranks this one shares its GPU, however each of them counts those that it sees:
/// a launcher may show each rank one alone. Warns where `auto` has come to the GPU on some ranks
/// and to the CPU on others, which then are much slower. To be called by all ranks, and heard from
/// the first.
///
/// # Errors
/// When ranks cannot be asked.
pub fn settle(device: &mut Device, world: &World) -> Result<()> {
    let own = match &device.computes {
        Computes::Gpu { about, .. } => RankDevice::Gpu(about.uuid.clone()),
        Computes::Cpu(_) => RankDevice::Cpu(device.fell_back.clone()),
    };
    let all = world.gather(&serde_json::to_vec(&own)?)?;
    let all: Vec<RankDevice> =
        all.iter().map(|on| serde_json::from_slice(on)).collect::<Result<_, _>>()?;
    if let Some(sharers) = sharers(&all, &own) {
        device.sharers = sharers;
    }
    if let Some((rank, why)) = fallen(&all).filter(|_| world.is_first()) {
        messages::warning(&format!(
            "{} computes on the CPU and others on GPUs, since it can use none: {why}; all wait \
             for it",
            world.name(rank)
        ));
    }
    Ok(())
}

/// How many ranks have the GPU of one of them; none where that has none.
fn sharers(all: &[RankDevice], own: &RankDevice) -> Option<usize> {
    let RankDevice::Gpu(own) = own else { return None };
    Some(all.iter().filter(|on| matches!(on, RankDevice::Gpu(uuid) if uuid == own)).count())
}

/// The first rank that computes on the CPU without being asked to, and why, where another has a
/// GPU.
fn fallen(all: &[RankDevice]) -> Option<(usize, &str)> {
    let has_gpu = all.iter().any(|on| matches!(on, RankDevice::Gpu(_)));
    let mut fallen = all.iter().enumerate().filter_map(|(rank, on)| match on {
        RankDevice::Cpu(Some(why)) => Some((rank, why.as_str())),
        _ => None,
    });
    fallen.next().filter(|_| has_gpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(uuid: &str) -> RankDevice {
        RankDevice::Gpu(uuid.into())
    }

    #[test]
    fn a_rank_that_fell_back_is_named_where_others_have_gpus() {
        let old = || RankDevice::Cpu(Some("the driver is old".into()));
        assert_eq!(
            fallen(&[gpu("a"), RankDevice::Cpu(None), old()]),
            Some((2, "the driver is old"))
        );
        assert_eq!(fallen(&[gpu("a"), RankDevice::Cpu(None)]), None, "the CPU was asked for");
        assert_eq!(fallen(&[old(), old()]), None, "all are alike");
    }

    #[test]
    fn ranks_share_a_gpu_that_is_the_same() {
        let all = [
            gpu("a"),
            gpu("b"),
            RankDevice::Cpu(None),
            gpu("a"),
            RankDevice::Cpu(Some("a".into())),
            gpu("c"),
            gpu("a"),
        ];
        let of: Vec<_> = all.iter().map(|own| sharers(&all, own)).collect();
        assert_eq!(of, [Some(3), Some(1), None, Some(3), None, Some(1), Some(3)]);
    }
}
