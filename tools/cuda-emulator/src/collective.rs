//! Collectives: operations of a whole warp, carried out when all 32 lanes have called them.

use crate::failure::Mistake;
use crate::tensor_core::{Fragments, TensorCore};

/// The collective that a waiting lane has called.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    /// `Operation` in runtime/emulator.h.
    pub(crate) operation: u32,
    /// The lane's operands and results, on its stack.
    pub(crate) value: *mut u8,
    pub(crate) bytes: u32,
    /// A lane, a mask, a distance.
    pub(crate) number: u32,
    /// A row in shared memory.
    pub(crate) address: usize,
    pub(crate) line: u32,
}

impl Call {
    /// No call.
    pub(crate) const NONE: Self = Self {
        operation: SYNC,
        value: std::ptr::null_mut(),
        bytes: 0,
        number: 0,
        address: 0,
        line: 0,
    };
}

pub(crate) const SYNC: u32 = 0;
const SHUFFLE: u32 = 1;
const SHUFFLE_XOR: u32 = 2;
const MMA: u32 = 3;
const LOAD_MATRICES: u32 = 4;
const LOAD_MATRICES_TRANSPOSED: u32 = 5;

/// Its name in device.h.
pub(crate) fn name(operation: u32) -> &'static str {
    match operation {
        SYNC => "sync_warp",
        SHUFFLE => "shuffle",
        SHUFFLE_XOR => "shuffle_xor",
        MMA => "mma",
        LOAD_MATRICES => "load_matrices",
        _ => "load_matrices_transposed",
    }
}

/// A mistake, the lane that made it, and its description.
pub(crate) type Misuse = (Mistake, usize, String);

/// Checks a collective's reads of shared memory: may this lane read these bytes?
pub(crate) trait Rows {
    fn check(&self, lane: usize, address: usize, bytes: usize) -> Result<(), (Mistake, String)>;
}

/// Carries out the collective that all lanes of a warp have called.
///
/// # Safety
/// The calls are of lanes that are suspended in them, one operation of one size in all.
pub(crate) unsafe fn carry_out(
    calls: &[Call; 32],
    core: TensorCore,
    rows: &dyn Rows,
) -> Result<(), Misuse> {
    let Call { operation, bytes, .. } = calls[0];
    match operation {
        SYNC => {}
        SHUFFLE | SHUFFLE_XOR => {
            let size = bytes as usize;
            let mut values = [[0u8; 8]; 32];
            for (lane, (value, call)) in values.iter_mut().zip(calls).enumerate() {
                if size > 8 {
                    let what = format!("it shuffles {size} bytes, of 8 at most");
                    return Err((Mistake::Collective, lane, what));
                }
                // SAFETY: a shuffle's value has `bytes` bytes.
                unsafe { call.value.copy_to(value.as_mut_ptr(), size) };
            }
            for (lane, call) in calls.iter().enumerate() {
                let n = call.number as usize;
                if n > 31 && operation != SHUFFLE {
                    let what = format!("{} over {n} lanes of 32", name(operation));
                    return Err((Mistake::Collective, lane, what));
                }
                let from = if operation == SHUFFLE { n % 32 } else { lane ^ n };
                // SAFETY: as above.
                unsafe { values[from].as_ptr().copy_to(call.value, size) };
            }
        }
        MMA => {
            // SAFETY: an mma's value is a lane's fragments.
            let mut lanes =
                std::array::from_fn(|i| unsafe { calls[i].value.cast::<Fragments>().read() });
            core.mma(&mut lanes);
            for (call, lane) in calls.iter().zip(lanes) {
                // SAFETY: as above.
                unsafe { call.value.cast::<Fragments>().write(lane) };
            }
        }
        _ => {
            let matrices = bytes as usize / 4;
            let mut loaded = [[[0u16; 8]; 8]; 4];
            for (lane, call) in calls.iter().enumerate().take(8 * matrices) {
                if call.address % 16 != 0 {
                    let what = format!("the row at {:#x} is at no multiple of 16", call.address);
                    return Err((Mistake::Misaligned, lane, what));
                }
                rows.check(lane, call.address, 16)
                    .map_err(|(mistake, what)| (mistake, lane, what))?;
                // SAFETY: 16 bytes of shared memory, as was checked.
                loaded[lane / 8][lane % 8] = unsafe { (call.address as *const [u16; 8]).read() };
            }
            for (lane, call) in calls.iter().enumerate() {
                let (row, column) = (lane / 4, lane % 4 * 2);
                for (i, matrix) in loaded.iter().enumerate().take(matrices) {
                    let (low, high) = if operation == LOAD_MATRICES_TRANSPOSED {
                        (matrix[column][row], matrix[column + 1][row])
                    } else {
                        (matrix[row][column], matrix[row][column + 1])
                    };
                    // SAFETY: the value is one u32 for each matrix.
                    unsafe {
                        *call.value.cast::<u32>().add(i) = u32::from(low) | u32::from(high) << 16;
                    };
                }
            }
        }
    }
    Ok(())
}
