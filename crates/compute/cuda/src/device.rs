//! The GPU as the backend sees it.

use crate::kernels::{Argument, Function, Grid};
use crate::operation::Operation;
use isentrope_kernels::OutOfMemory;
use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;

/// A GPU: memory on it, and kernels that are launched there.
///
/// # Order
/// This is one stream; there may be a [second](Self::second_stream). Calls take effect in the order
/// in which they are made, though [`launch`](Self::launch), [`copy`](Self::copy),
/// [`clear`](Self::clear), [`fetch`](Self::fetch), [`copy_in`](Self::copy_in) and
/// [`copy_out`](Self::copy_out) may return before they have been carried out. What
/// [`download`](Self::download) and [`fetched`](Self::fetched) give to the host is finished; what
/// [`upload`](Self::upload) is given may be changed once it returns. Memory may be dropped while
/// earlier calls of the stream that allocated it still use it: the device frees it, or hands it out
/// again, behind them.
///
/// # Failures
/// Only [`allocate`](Self::allocate) and [`allocate_host`](Self::allocate_host) may fail.
/// Everything else that goes wrong (a kernel that reads where it must not, a device that is gone)
/// panics with a sentence that names the kernel, at the latest when the host reads something; the
/// device is then of no use any more. Ranges outside of a memory are mistakes of the calling code,
/// and panic at once.
pub trait Device: Send + Sync + 'static {
    /// The device's name and its driver's version, for people.
    fn name(&self) -> String;
    /// Limits of a launch.
    fn limits(&self) -> Limits;
    /// How much memory there is.
    fn memory_info(&self) -> MemoryInfo;
    /// Whether dropped memory should be kept and used again, because the device is slow to hand out
    /// more. If not, each buffer is allocated alone and to the byte, so that an access beyond its
    /// end is noticed.
    fn keeps_memory(&self) -> bool;

    /// Allocates `bytes` bytes (0 are allowed), which hold anything. On a GPU the address is a
    /// multiple of 256; kernels may rely on a multiple of 16.
    ///
    /// # Errors
    /// When there is no such memory.
    fn allocate(&self, bytes: usize) -> Result<Memory, OutOfMemory>;
    /// Copies bytes from the host to `offset ..`.
    fn upload(&self, bytes: &[u8], to: &Memory, offset: usize);
    /// Copies bytes from `offset ..` to the host.
    fn download(&self, from: &Memory, offset: usize, bytes: &mut [u8]);
    /// Begins to copy `bytes` bytes from `offset ..` to the host.
    fn fetch(&self, from: &Memory, offset: usize, bytes: usize) -> Fetch;
    /// Copies the fetched bytes to the host. Waits for the work submitted before the fetch, and for
    /// no later work.
    fn fetched(&self, fetch: Fetch, bytes: &mut [u8]);
    /// Copies `bytes` bytes from `at ..` of one memory to `to_at ..` of another, or of the same
    /// memory if the two ranges do not overlap.
    fn copy(&self, from: &Memory, at: usize, to: &Memory, to_at: usize, bytes: usize);
    /// Sets `bytes` bytes from `offset ..` to 0.
    fn clear(&self, memory: &Memory, offset: usize, bytes: usize);

    /// Allocates `bytes` bytes of the host's memory, all 0.
    ///
    /// # Errors
    /// When there is no such memory.
    fn allocate_host(&self, bytes: usize) -> Result<HostMemory, OutOfMemory>;
    /// Copies `bytes` bytes from `at ..` of the host's memory to `to_at ..` of the device's.
    fn copy_in(&self, from: &HostMemory, at: usize, to: &Memory, to_at: usize, bytes: usize);
    /// Copies `bytes` bytes from `at ..` of the device's memory to `to_at ..` of the host's.
    fn copy_out(&self, from: &Memory, at: usize, to: &HostMemory, to_at: usize, bytes: usize);
    /// Reads bytes from `offset ..` of the host's memory, after all earlier calls have been carried
    /// out.
    fn read_host(&self, from: &HostMemory, offset: usize, bytes: &mut [u8]);
    /// Writes bytes to `offset ..` of the host's memory, after all earlier calls have been carried
    /// out.
    fn write_host(&self, bytes: &[u8], to: &HostMemory, offset: usize);

    /// Launches a kernel: see [`Kernel::launch`](crate::Kernel::launch), which knows the types of
    /// its arguments. A grid without blocks launches nothing.
    ///
    /// # Panics
    /// When the arguments are not those that the kernel takes, or the grid is more than the limits
    /// allow.
    fn launch(&self, function: &Function, grid: Grid, arguments: &[Argument]);
    /// Computes a product by the vendor's library, if it computes such a product to the bits of the
    /// kernels here. Otherwise returns false and does nothing; a kernel must compute it.
    fn product(&self, _product: &Product) -> bool {
        false
    }
    /// The name of the vendor's library of products, such as `cuBLASLt 13.1`.
    fn product_library(&self) -> Option<String> {
        None
    }
    /// Finds out whether that library computes products of this kind to the bits of the kernels
    /// here, for some numbers of tokens; addresses do not matter. [`product`](Self::product) finds
    /// out about other numbers of tokens.
    ///
    /// # Errors
    /// Why they are left to the kernels.
    fn examine(&self, _product: &Product) -> Result<(), String> {
        Err("there is no library of products".into())
    }
    /// Makes one launch of many, without carrying them out. Each of them has been carried out
    /// before. The list holds nothing that a capture refuses: no launch allocates or frees memory,
    /// waits, or reads from the host.
    ///
    /// # Errors
    /// Why it cannot be done.
    fn capture(&self, operations: &[Operation]) -> Result<Graph, String>;
    /// Carries out all launches of a graph, in order. The caller keeps the memory that they use
    /// alive: [`Cuda`](crate::Cuda) replays a graph only in place of the same launches.
    ///
    /// # Errors
    /// Why the graph cannot be launched now, for example too little memory. Nothing has been
    /// launched.
    fn replay(&self, graph: &Graph) -> Result<(), String>;
    /// The stream as other libraries take it, a `CUstream`: their work in it is carried out in the
    /// order of calls. Gives the calling thread the device's context. None if libraries cannot work
    /// on the device.
    fn library_stream(&self) -> Option<*mut c_void> {
        None
    }
    /// A second stream of the device, which uses the same memory. Calls of the two are carried out
    /// beside each other. None if there is one stream.
    fn second_stream(&self) -> Option<Arc<dyn Device>> {
        None
    }
    /// Has a second stream wait: its later calls are carried out behind all earlier calls of the
    /// first stream.
    fn follow(&self) {}
    /// Whether all calls have been carried out, and what libraries have put into the stream. It
    /// does not wait.
    fn is_idle(&self) -> bool {
        self.synchronize();
        true
    }
    /// Waits until all calls have been carried out.
    fn synchronize(&self);
}

/// Memory on a device. When it is dropped, the device gets it back.
pub struct Memory {
    address: u64,
    bytes: usize,
    own: Box<dyn Any + Send + Sync>,
}

impl Memory {
    /// Memory at an address, which is given back when `own` is dropped.
    pub fn new(address: u64, bytes: usize, own: impl Any + Send + Sync) -> Self {
        Self { address, bytes, own: Box::new(own) }
    }

    /// The memory's address, as kernels see it.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The number of requested bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The device's own value for this memory.
    ///
    /// # Panics
    /// When another device has.
    pub fn of<T: Any>(&self) -> &T {
        self.own.downcast_ref().expect("memory goes to the device that has allocated it")
    }
}

/// Declares types whose values only the device looks into.
macro_rules! own {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        pub struct $name(Box<dyn Any + Send + Sync>);

        impl $name {
            /// Wraps the device's own value.
            pub fn new(own: impl Any + Send + Sync) -> Self {
                Self(Box::new(own))
            }

            /// The device's own value.
            ///
            /// # Panics
            /// When it is another device's.
            pub fn of<T: Any>(&self) -> &T {
                self.0.downcast_ref().expect("a value goes to the device that has made it")
            }

            /// Unwraps the device's own value.
            ///
            /// # Panics
            /// When it is another device's.
            pub fn into_own<T: Any>(self) -> T {
                *self.0.downcast().expect("a value goes to the device that has made it")
            }
        }
    )*};
}

own! {
    /// Memory of the host that the device itself copies from and to. When it is dropped, the device
    /// gets it back.
    HostMemory;
    /// Bytes being copied to the host.
    Fetch;
    /// Launches that were captured as one. The graph does not keep the memory alive that they use.
    Graph;
}

/// Limits of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Compute capability, such as `(9, 0)`.
    pub capability: (u32, u32),
    /// Multiprocessors. Each runs one block or more at a time.
    pub processors: usize,
    /// Bytes of shared memory of one block, static and dynamic together.
    pub shared: usize,
}

/// How much memory a device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Bytes that can be allocated.
    pub free: usize,
    /// Bytes that the device has.
    pub total: usize,
}

/// `d[i, j] = sum over k of a[i, k] b[j, k]`. `a` and `b` are bf16, sums f32; every matrix lies row
/// by row, without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Product {
    /// Address of `a: [rows, depth]`, or of `[depth, rows]` if it is transposed.
    pub a: u64,
    /// Whether `a` lies as `[depth, rows]`.
    pub a_transposed: bool,
    /// Address of `b: [columns, depth]`, or of `[depth, columns]` if it is transposed.
    pub b: u64,
    /// Whether `b` lies as `[depth, columns]`.
    pub b_transposed: bool,
    /// Address of `d: [rows, columns]`.
    pub d: u64,
    /// Whether `d` is f32; bf16 otherwise, rounded to nearest even.
    pub d_exact: bool,
    /// Rows of `a` and `d`: tokens, unless `a` is transposed.
    pub rows: usize,
    /// Rows of `b`, columns of `d`.
    pub columns: usize,
    /// Terms of each sum: tokens, if `a` is transposed, as in the gradient of a weight.
    pub depth: usize,
}
