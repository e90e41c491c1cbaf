//! The functions that kernels call in place of a GPU's instructions; `Calls` in runtime/emulator.h.
//!
//! They are called on a fiber, by C++. Where one suspends the fiber, or leaves it for good, it
//! holds nothing that would have to be dropped; and it looks at every address before it uses it.

use crate::collective::Call;
use crate::copies::Copy;
use crate::failure::Mistake;
use crate::races::Use;
use crate::worker::{Worker, current};
use std::ffi::{CStr, c_char, c_void};

/// See runtime/emulator.h.
#[repr(C)]
pub(crate) struct Calls {
    sync: extern "C" fn(u32),
    warp: extern "C" fn(u32, *mut u8, u32, u32, *const c_void, u32),
    shared: extern "C" fn(*const c_void, u64, *const c_char) -> *mut c_void,
    dynamic_shared: extern "C" fn() -> *mut c_void,
    copy: extern "C" fn(*mut c_void, *const c_void, u32, u32, u32),
    commit: extern "C" fn(),
    wait: extern "C" fn(u32),
    misaligned: extern "C" fn(*const c_void, u32, u32),
    access: Access,
}

/// The compiler's hooks at loads and stores: the address, the bytes, and whether it writes.
pub(crate) type Access = extern "C" fn(*const c_void, u64, u32);

pub(crate) static CALLS: Calls =
    Calls { sync, warp, shared, dynamic_shared, copy, commit, wait, misaligned, access };

fn worker<'a>() -> &'a Worker {
    // SAFETY: these functions are called by kernels alone.
    unsafe { current() }
}

extern "C" fn sync(line: u32) {
    worker().wait_for_block(line);
}

extern "C" fn warp(
    operation: u32,
    value: *mut u8,
    bytes: u32,
    number: u32,
    address: *const c_void,
    line: u32,
) {
    worker().wait_for_warp(Call {
        operation,
        value,
        bytes,
        number,
        address: address as usize,
        line,
    });
}

extern "C" fn shared(site: *const c_void, bytes: u64, name: *const c_char) -> *mut c_void {
    let worker = worker();
    // SAFETY: a literal of the kernel's.
    let name = || unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    match worker.shared.array(site as usize, bytes as usize, name) {
        Ok(start) => start as *mut c_void,
        Err(what) => worker.fail(Mistake::Launch, None, what),
    }
}

extern "C" fn dynamic_shared() -> *mut c_void {
    worker().shared.dynamic() as *mut c_void
}

/// Fails for a thread, after everything that the caller held has been dropped.
fn refuse(line: u32, (mistake, what): (Mistake, String)) -> ! {
    worker().fail(mistake, Some(line), what)
}

extern "C" fn copy(to: *mut c_void, from: *const c_void, bytes: u32, given: u32, line: u32) {
    if let Err(refused) = begin_copy(to as usize, from as usize, bytes as usize, given as usize) {
        refuse(line, refused);
    }
}

fn begin_copy(to: usize, from: usize, bytes: usize, given: usize) -> Result<(), (Mistake, String)> {
    let worker = worker();
    if !to.is_multiple_of(bytes) || !from.is_multiple_of(bytes) {
        let what = format!("an asynchronous copy of {bytes} bytes from {from:#x} to {to:#x}");
        return Err((Mistake::Misaligned, what));
    }
    if given > bytes {
        return Err((
            Mistake::Undefined,
            format!("an asynchronous copy of {given} of {bytes} bytes"),
        ));
    }
    if !worker.shared.contains(to, bytes) {
        let what =
            format!("an asynchronous copy to {}, not within shared memory", worker.describe(to));
        return Err((Mistake::OutOfBounds, what));
    }
    if given > 0 && !worker.is_global(from, given) {
        let what = format!("an asynchronous copy of {given} bytes from {}", worker.describe(from));
        return Err((Mistake::OutOfBounds, what));
    }
    let describe = |(mistake, what): (Mistake, String)| {
        (
            mistake,
            format!(
                "an asynchronous copy from {} to {}: {what}",
                worker.describe(from),
                worker.describe(to)
            ),
        )
    };
    if given > 0 {
        worker.check(Use::Read, from, given).map_err(describe)?;
    }
    worker.check(Use::Write, to, bytes).map_err(describe)?;
    worker.races.set_pending(to, bytes, true);
    // SAFETY: both ranges have been looked at.
    let begun = unsafe { Copy::begin(to, from, bytes, given, &worker.random) };
    worker.copies(|copies| copies.add(begun));
    Ok(())
}

extern "C" fn commit() {
    worker().copies(crate::copies::Copies::commit);
}

extern "C" fn wait(groups: u32) {
    let worker = worker();
    worker.copies(|copies| {
        copies.wait(groups as usize, &worker.random, |copy| {
            worker.races.set_pending(copy.to, copy.bytes, false);
            // The copy writes now. Its conflicts were found when it began.
            let _ = worker.check(Use::Write, copy.to, copy.bytes);
        });
    });
}

extern "C" fn misaligned(address: *const c_void, bytes: u32, line: u32) {
    let worker = worker();
    let what =
        format!("a vector of {bytes} bytes at {address:p}, {}", worker.describe(address as usize));
    worker.fail(Mistake::Misaligned, Some(line), what);
}

extern "C" fn access(address: *const c_void, bytes: u64, writes: u32) {
    let worker = worker();
    if !worker.sees_races() {
        return;
    }
    let usage = if writes == 0 { Use::Read } else { Use::Write };
    if let Err((mistake, what)) = worker.access(usage, address as usize, bytes as usize) {
        let how = if writes == 0 { "reads" } else { "writes" };
        let colon = if what.is_empty() { "" } else { ": " };
        let what = format!("it {how} {}{colon}{what}", worker.describe(address as usize));
        worker.fail(mistake, None, what);
    }
}

impl Calls {
    /// The hooks that the compiler calls at loads and stores.
    pub(crate) fn access(&self) -> Access {
        self.access
    }
}
