//! Connects the GPUs of several ranks by NCCL, if that works on all of them.

use super::{Computes, Device, contained, gpus};
use crate::messages;
use anyhow::{Result, bail};
use isentrope_cuda::Cuda;
use isentrope_cuda::gpu::{Communicator, Nccl, UniqueId};
use isentrope_kernels::{Backend, Kind, PeerElements, Role};
use isentrope_ranks::World;
use isentrope_train::ranks::{failures, try_links};
use isentrope_train::settings::{RanksSettings, Transport};
use std::sync::Arc;
use std::time::Duration;

/// Connects the GPUs of all ranks, and tries the connections, unless `ranks.transport` is host.
/// Rank 0 says what moves bytes from now on. All ranks call it together.
///
/// # Errors
/// When `ranks.transport` is nccl and NCCL cannot be used; when ranks cannot go on together.
pub fn connect(device: &Device, world: &World, settings: &RanksSettings) -> Result<()> {
    if world.size() == 1 && settings.transport == Transport::Nccl {
        messages::note(
            "ranks.transport is nccl, and there is one process, which has nobody to connect with: \
             a launcher such as mpirun starts several (docs/guides/several-machines.md)",
        );
    }
    if world.size() == 1 || settings.transport == Transport::Host {
        return Ok(());
    }
    let said = match (contained(|| try_nccl(device, world, settings))?, settings.transport) {
        (Ok(version), _) => format!("gradients and weights go from GPU to GPU by NCCL {version}"),
        (Err(why), Transport::Nccl) => {
            bail!("ranks.transport is nccl, which cannot be: {why}; auto and host do without")
        }
        // Ranks on CPUs need no word about it.
        (Err(_), _) if !device.is_gpu() => return Ok(()),
        (Err(why), _) => format!(
            "gradients and weights go through the hosts, since NCCL cannot be used: {why}; \
             ranks.transport=host says that this is wanted"
        ),
    };
    if world.is_first() {
        messages::note(&said);
    }
    Ok(())
}

/// Numbers that a GPU sends another to measure their link: 64 MiB, a piece of a sum.
const PROBE_NUMBERS: usize = 16 << 20;

/// Bytes per second and direction between the GPUs of each rank and its neighbours
/// ([`World::bandwidth`]); none if they are not [connected](connect). All ranks call it together.
///
/// # Errors
/// When ranks cannot go on together.
pub fn bandwidth(device: &Device, world: &World) -> Result<Option<Vec<Vec<Option<f64>>>>> {
    device.run(|backend| {
        let Some(links) = backend.device_links() else { return Ok(None) };
        let mut buffers = [backend.buffer(Role::Gradient(Kind::Vector(2 * PROBE_NUMBERS)))];
        let swap = |rank| {
            let halves = [0..PROBE_NUMBERS, PROBE_NUMBERS..2 * PROBE_NUMBERS];
            let [goes, comes] =
                halves.map(|half| [PeerElements { rank, elements: vec![(0, half)] }]);
            links.write(&mut buffers, false, &goes, &comes)
        };
        Ok(Some(world.bandwidth_on_devices(size_of::<f32>() * PROBE_NUMBERS, swap)?))
    })
}

/// The variable that NCCL heeds more than what a program asks for.
const BLOCKING: &str = "NCCL_COMM_BLOCKING";

/// Refuses NCCL whose calls would wait for a lost rank without end.
fn refuse_blocking(set: Option<&str>) -> Result<(), String> {
    match set.map(str::trim) {
        Some("1") => Err(format!(
            "{BLOCKING}=1 in the environment has it wait without end for a rank that is lost: \
             unset it"
        )),
        _ => Ok(()),
    }
}

/// NCCL's version, or why it cannot be used; the same on all ranks.
fn try_nccl(
    device: &Device,
    world: &World,
    settings: &RanksSettings,
) -> Result<Result<String, String>> {
    let found = match &device.computes {
        Computes::Cpu(_) => Err("it computes on the CPU".to_owned()),
        Computes::Gpu { backend, about, .. } => {
            let blocking = std::env::var(BLOCKING).ok();
            let nccl = refuse_blocking(blocking.as_deref()).and_then(|()| gpus().nccl());
            nccl.map(|nccl| (nccl, backend, about.uuid.as_str()))
        }
    };
    let lacks = failures(world, found.as_ref().err().cloned())?;
    let (nccl, backend, uuid) = match (lacks, found) {
        (None, Ok(found)) => found,
        (Some(why), _) | (None, Err(why)) => return Ok(Err(why)),
    };
    let version = nccl.version().to_string();
    let versions = world.gather(version.as_bytes())?;
    if let Some(odd) = versions.iter().position(|version| *version != versions[0]) {
        let (first, other) = (world.name(0), world.name(odd));
        let [own, its] = [0, odd].map(|rank| String::from_utf8_lossy(&versions[rank]));
        return Ok(Err(format!("{first} has {own}, {other} has {its}")));
    }
    let uuids = world.gather(uuid.as_bytes())?;
    for (rank, uuid) in uuids.iter().enumerate() {
        if let Some(earlier) = uuids[..rank].iter().position(|other| other == uuid) {
            let (first, second) = (world.name(earlier), world.name(rank));
            return Ok(Err(format!("{first} and {second} share a GPU")));
        }
    }
    if world.is_first() {
        messages::note("connecting GPUs by NCCL");
    }
    let communicator = match begin(nccl, backend, world, settings.trial_patience())? {
        Ok(communicator) => Arc::new(communicator),
        Err(why) => return Ok(Err(why)),
    };
    backend.link(Some(communicator.clone()));
    let tried = match backend.device_links() {
        Some(links) => try_links(world, &**backend, links)?,
        None => Some("the GPUs are not connected".to_owned()),
    };
    if let Some(why) = tried {
        backend.link(None);
        return Ok(Err(why));
    }
    communicator.set_patience(settings.exchange_patience());
    Ok(Ok(version))
}

/// Makes the communicator of all ranks. The error is the same on all.
fn begin(
    nccl: Nccl,
    backend: &Arc<Cuda>,
    world: &World,
    patience: Duration,
) -> Result<Result<Communicator, String>> {
    let id = if world.is_first() { nccl.unique_id() } else { Err(String::new()) };
    let record = id.as_ref().map_or(Vec::new(), |id| id.bytes().to_vec());
    let Some(shared) = UniqueId::of(&world.broadcast(&record)?) else {
        let why = String::from_utf8(world.broadcast(id.err().unwrap_or_default().as_bytes())?)?;
        return Ok(Err(format!("{}: {why}", world.name(0))));
    };
    let place = (world.rank(), world.size());
    let begun = Communicator::begin(nccl, backend.device().clone(), &shared, place, patience);
    let failed = failures(world, begun.as_ref().err().cloned())?;
    Ok(failed.map_or(begun, Err))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocking_nccl_is_refused() {
        let why = refuse_blocking(Some("1")).unwrap_err();
        assert!(why.contains("NCCL_COMM_BLOCKING=1") && why.contains("unset it"), "{why}");
        assert!(refuse_blocking(Some("0")).is_ok() && refuse_blocking(None).is_ok());
    }
}
