//! Exchanges of parameters between the devices of ranks, in the order of the exchanges that go
//! through hosts; and a trial of them before they are relied on.

use super::floats;
use crate::error::{Error, Result};
use isentrope_kernels::{Backend, Buffer, DeviceLinks, Kind, PeerElements, Role};
use isentrope_ranks::{BLOCK, Part, Slices, World};

/// Adds up gradients as [`World::sum`] does.
pub(super) fn sum(
    world: &World,
    links: &dyn DeviceLinks,
    gradients: &mut [Buffer],
    slices: &Slices,
) -> Result<()> {
    let add = |goes: &[Part], comes: &[Part]| {
        links.add(gradients, &elements(slices, goes), &elements(slices, comes))
    };
    Ok(world.sum_on_devices(slices, add)?)
}

/// Gives every rank's slice to all as [`World::share`] does; `rounded` as in
/// [`DeviceLinks::write`].
pub(super) fn share(
    world: &World,
    links: &dyn DeviceLinks,
    buffers: &mut [Buffer],
    rounded: bool,
    slices: &Slices,
) -> Result<()> {
    let write = |goes: &[Part], comes: &[Part]| {
        links.write(buffers, rounded, &elements(slices, goes), &elements(slices, comes))
    };
    let bytes = if rounded { size_of::<u16>() } else { size_of::<f32>() };
    Ok(world.share_on_devices(slices, bytes, write)?)
}

fn elements(slices: &Slices, parts: &[Part]) -> Vec<PeerElements> {
    let of = |part: &Part| PeerElements {
        rank: part.peer,
        elements: slices.by_parameter(&part.numbers).collect(),
    };
    parts.iter().map(of).collect()
}

/// Adds up and shares known numbers between the ranks' devices, and through their hosts, and
/// compares the two. All ranks call it together. Returns why no rank may use the links, on all
/// ranks alike; none if every rank has found the same bits.
///
/// # Errors
/// When ranks cannot go on together.
pub fn try_links(
    world: &World,
    backend: &dyn Backend,
    links: &dyn DeviceLinks,
) -> Result<Option<String>> {
    // Two groups. Every rank has blocks of two parameters, and parameters end within blocks.
    let kinds = [BLOCK * world.size() + 100, 7, BLOCK * (world.size() + 3) - 1].map(Kind::Vector);
    let lengths = kinds.map(|kind| backend.element_count(kind));
    let slices = Slices::new(lengths.chunks(2).map(<[usize]>::to_vec), world.size());
    let buffers = || -> Vec<Buffer> {
        let mut state = world.rank() as u32 ^ 0x9e37_79b9;
        // Numbers of all sizes, so that the order of a sum shows.
        let mut number = || {
            state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
            state as i32 as f32 * 0.5f32.powi((state >> 27) as i32)
        };
        let filled = kinds.map(|kind| {
            let numbers: Vec<f32> = (0..backend.element_count(kind)).map(|_| number()).collect();
            let mut buffer = backend.buffer(Role::Gradient(kind));
            backend.write_elements(&mut buffer, 0, &numbers);
            buffer
        });
        filled.into()
    };
    let (mut linked, mut hosted) = (buffers(), buffers());
    // Gradients may be added beside passes. A rank whose library fails goes on: the others wait for
    // it in each of these exchanges.
    let beside = backend.beside();
    let summed = match beside.device_links() {
        Some(links) => said(sum(world, links, &mut linked, &slices))?,
        None => Some("the devices are not connected any more".to_owned()),
    };
    beside.finish();
    // Without a sum, a rank would wait once more for others that no longer send.
    if let Some(why) = failures(world, summed)? {
        return Ok(Some(why));
    }
    let mut own = said(share(world, links, &mut linked, false, &slices))?;
    let mut floats = floats(backend, &mut hosted, &slices);
    world.sum(&mut floats, &slices)?;
    world.share(&mut floats, &slices)?;
    drop(floats);
    if own.is_none() && bits(backend, &slices, &linked) != bits(backend, &slices, &hosted) {
        own = Some("known numbers have other sums than through the hosts".to_owned());
    }
    failures(world, own)
}

/// Why the library has failed, if it is that.
fn said(result: Result<()>) -> Result<Option<String>> {
    match result {
        Err(Error::Ranks(isentrope_ranks::Error::Device(why))) => Ok(Some(why)),
        result => result.map(|()| None),
    }
}

/// The failed ranks with their reasons; none if there is none. All ranks call it together and learn
/// the same. The lowest rank's reason alone may be that it has waited for the one that has failed.
///
/// # Errors
/// When ranks cannot go on together.
pub fn failures(world: &World, own: Option<String>) -> Result<Option<String>> {
    let all = world.gather(own.unwrap_or_default().as_bytes())?;
    let mut reasons: Vec<(String, &[u8])> = Vec::new();
    for (rank, why) in all.iter().enumerate().filter(|(_, why)| !why.is_empty()) {
        let name = world.name(rank);
        match reasons.iter_mut().find(|(_, other)| other == why) {
            Some((names, _)) => *names = format!("{names}, {name}"),
            None => reasons.push((name, why)),
        }
    }
    let of_ranks =
        |(names, why): &(String, &[u8])| format!("{names}: {}", String::from_utf8_lossy(why));
    let said: Vec<String> = reasons.iter().map(of_ranks).collect();
    Ok((!said.is_empty()).then(|| said.join("; ")))
}

fn bits(backend: &dyn Backend, slices: &Slices, buffers: &[Buffer]) -> Vec<u32> {
    let of = |(count, buffer): (usize, &Buffer)| {
        let mut numbers = vec![0.0; count];
        backend.read_elements(buffer, 0, &mut numbers);
        numbers.into_iter().map(f32::to_bits).collect::<Vec<u32>>()
    };
    slices.lengths().zip(buffers).flat_map(of).collect()
}
