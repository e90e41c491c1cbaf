//! Launches that the driver runs as one.

use super::calls::{Calls, DriverError};
use super::device::Gpu;
use super::stream::Stream;
use crate::operation::Operation;
use cudarc::driver::sys::{CUgraph, CUgraphExec, CUstream, CUstream_flags, CUstreamCaptureMode};
use std::ffi::c_int;
use std::mem;
use std::ptr;
use std::sync::Arc;

/// A graph that can be launched.
pub(super) struct GpuGraph {
    stream: Arc<Stream>,
    graph: CUgraphExec,
}

// SAFETY: a graph may be launched from any thread that has the context, as `Stream::call` sees to;
// it is destroyed once.
unsafe impl Send for GpuGraph {}
// SAFETY: launches go into one stream, so that no two run at once; the handle is not changed.
unsafe impl Sync for GpuGraph {}

/// A stream that executes nothing: it captures the calls that go into it. Other threads go on using
/// the GPU's own stream.
struct Capture<'g> {
    gpu: &'g Gpu,
    stream: CUstream,
    is_open: bool,
}

impl GpuGraph {
    /// Captures launches. Each has been made before, so that its kernel is loaded.
    pub(super) fn of(gpu: &Gpu, operations: &[Operation]) -> Result<Self, String> {
        let capture = Capture::begin(gpu).map_err(|failed| failed.to_string())?;
        let mut is_computed = false;
        for operation in operations {
            match operation {
                Operation::Product(product) => {
                    is_computed = gpu.captures_product(capture.stream, product);
                }
                Operation::Launch { function, grid, arguments } => {
                    if !mem::take(&mut is_computed) {
                        let launched = gpu.launch_in(capture.stream, function, *grid, arguments);
                        launched.map_err(|failed| format!("{}: {failed}", function.name))?;
                    }
                }
            }
        }
        let graph = capture.end().map_err(|failed| failed.to_string())?;
        Ok(Self { stream: Arc::clone(gpu.stream()), graph })
    }

    /// Launches it, and returns the driver's code.
    pub(super) fn launch(&self, calls: &Calls, stream: CUstream) -> c_int {
        // SAFETY: the graph was instantiated and is not destroyed before this. The caller promises
        // that the memory it uses is there (`Device::replay`).
        unsafe { (calls.cuGraphLaunch)(self.graph, stream) }
    }
}

impl Drop for GpuGraph {
    fn drop(&mut self) {
        // A graph that still runs is freed by the driver when it has ended.
        // SAFETY: it was instantiated in this context, and is not used again.
        let _ = self.stream.call(|calls| unsafe { (calls.cuGraphExecDestroy)(self.graph) });
    }
}

impl<'g> Capture<'g> {
    fn begin(gpu: &'g Gpu) -> Result<Self, DriverError> {
        let mut stream = ptr::null_mut();
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the driver writes one handle.
        gpu.stream().call(|calls| unsafe { (calls.cuStreamCreate)(&raw mut stream, flags) })?;
        let mut capture = Self { gpu, stream, is_open: false };
        // Only this thread's unsafe calls are refused during capture: other threads allocate and
        // free.
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as u32;
        // SAFETY: only this value uses the stream.
        gpu.stream().call(|calls| unsafe { (calls.cuStreamBeginCapture_v2)(stream, mode) })?;
        capture.is_open = true;
        Ok(capture)
    }

    /// Ends the capture, and makes its graph ready to be launched.
    fn end(mut self) -> Result<CUgraphExec, DriverError> {
        let graph = self.close()?;
        let mut executable = ptr::null_mut();
        let stream = self.gpu.stream();
        let made = stream
            // SAFETY: the graph has just been captured; the driver writes one handle.
            .call(|calls| unsafe {
                (calls.cuGraphInstantiateWithFlags)(&raw mut executable, graph, 0)
            });
        // SAFETY: the instantiated graph does not need it, and it has no other user.
        let _ = stream.call(|calls| unsafe { (calls.cuGraphDestroy)(graph) });
        made.map(|()| executable)
    }

    fn close(&mut self) -> Result<CUgraph, DriverError> {
        self.is_open = false;
        let mut graph = ptr::null_mut();
        let stream = self.stream;
        self.gpu.stream().call(|calls| {
            // SAFETY: the stream captures since `begin`, by this thread; the driver writes one
            // handle, or null.
            unsafe { (calls.cuStreamEndCapture)(stream, &raw mut graph) }
        })?;
        Ok(graph)
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if mem::take(&mut self.is_open)
            && let Ok(graph) = self.close()
            && !graph.is_null()
        {
            // SAFETY: the graph has no other user.
            let _ = self.gpu.stream().call(|calls| unsafe { (calls.cuGraphDestroy)(graph) });
        }
        let stream = self.stream;
        // SAFETY: the stream is this one's own, has executed nothing, and is not used again.
        let _ = self.gpu.stream().call(|calls| unsafe { (calls.cuStreamDestroy_v2)(stream) });
    }
}
