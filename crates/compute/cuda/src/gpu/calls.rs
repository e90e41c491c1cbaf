//! The driver's functions and their error codes.
//!
//! cudarc has an enum of the codes that the driver of its own time returns. A newer driver may
//! return a code that no value of the enum can hold. So only cudarc's types and constants are used,
//! and a code is a number here.

use super::symbols::functions;
use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUmodule,
    CUresult, CUstream, CUuuid,
};
use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_ulonglong, c_void};
use std::fmt;
use std::ptr;

functions! {
    /// The driver's functions, which return a code that is 0 where all went well.
    pub(super) struct Calls {
        cuInit(c_uint) -> c_int;
        cuDriverGetVersion(*mut c_int) -> c_int;
        cuGetErrorString(c_int, *mut *const c_char) -> c_int;
        cuDeviceGetCount(*mut c_int) -> c_int;
        cuDeviceGet(*mut CUdevice, c_int) -> c_int;
        cuDeviceGetName(*mut c_char, c_int, CUdevice) -> c_int;
        cuDeviceGetUuid_v2(*mut CUuuid, CUdevice) -> c_int;
        cuDeviceTotalMem_v2(*mut usize, CUdevice) -> c_int;
        cuDeviceGetAttribute(*mut c_int, c_uint, CUdevice) -> c_int;
        cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice) -> c_int;
        cuDevicePrimaryCtxRelease_v2(CUdevice) -> c_int;
        cuCtxSetCurrent(CUcontext) -> c_int;
        cuStreamCreate(*mut CUstream, c_uint) -> c_int;
        cuStreamSynchronize(CUstream) -> c_int;
        cuStreamQuery(CUstream) -> c_int;
        cuStreamWaitEvent(CUstream, CUevent, c_uint) -> c_int;
        cuStreamDestroy_v2(CUstream) -> c_int;
        cuEventCreate(*mut CUevent, c_uint) -> c_int;
        cuEventRecord(CUevent, CUstream) -> c_int;
        cuEventSynchronize(CUevent) -> c_int;
        cuEventElapsedTime(*mut f32, CUevent, CUevent) -> c_int;
        cuEventDestroy_v2(CUevent) -> c_int;
        cuMemGetInfo_v2(*mut usize, *mut usize) -> c_int;
        cuMemAlloc_v2(*mut CUdeviceptr, usize) -> c_int;
        cuMemFree_v2(CUdeviceptr) -> c_int;
        cuMemHostAlloc(*mut *mut c_void, usize, c_uint) -> c_int;
        cuMemFreeHost(*mut c_void) -> c_int;
        cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream) -> c_int;
        cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream) -> c_int;
        cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, usize, CUstream) -> c_int;
        cuMemsetD8Async(CUdeviceptr, c_uchar, usize, CUstream) -> c_int;
        cuModuleLoadData(*mut CUmodule, *const c_void) -> c_int;
        cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char) -> c_int;
        cuFuncGetAttribute(*mut c_int, c_uint, CUfunction) -> c_int;
        cuFuncSetAttribute(CUfunction, c_uint, c_int) -> c_int;
        cuStreamBeginCapture_v2(CUstream, c_uint) -> c_int;
        cuStreamEndCapture(CUstream, *mut CUgraph) -> c_int;
        cuGraphInstantiateWithFlags(*mut CUgraphExec, CUgraph, c_ulonglong) -> c_int;
        cuGraphLaunch(CUgraphExec, CUstream) -> c_int;
        cuGraphExecDestroy(CUgraphExec) -> c_int;
        cuGraphDestroy(CUgraph) -> c_int;
        cuLaunchKernel(
            CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream,
            *mut *mut c_void, *mut *mut c_void
        ) -> c_int;
    }
}

/// A code other than 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DriverError {
    /// The code.
    pub code: c_int,
    /// The driver's own words for it.
    words: String,
}

impl DriverError {
    /// Memory on the GPU, or for the GPU, is used up.
    pub const OUT_OF_MEMORY: c_int = CUresult::CUDA_ERROR_OUT_OF_MEMORY as c_int;
    /// An argument is invalid.
    pub const INVALID_VALUE: c_int = CUresult::CUDA_ERROR_INVALID_VALUE as c_int;
    /// The stream has not carried out everything yet.
    pub const NOT_DONE: c_int = CUresult::CUDA_ERROR_NOT_READY as c_int;
    /// A launch needs more registers or shared memory than there are.
    pub const OUT_OF_RESOURCES: c_int = CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES as c_int;
    /// There is no GPU.
    pub const NO_DEVICE: c_int = CUresult::CUDA_ERROR_NO_DEVICE as c_int;
    /// The library and the kernel's part of the driver are of different versions.
    pub const DRIVER_MISMATCH: c_int = CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH as c_int;
    /// The library for forward compatibility does not support this GPU.
    pub const COMPATIBILITY: c_int = CUresult::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE as c_int;
    /// The library is a stub for linking, without code.
    pub const STUB_LIBRARY: c_int = CUresult::CUDA_ERROR_STUB_LIBRARY as c_int;
    /// A service of the system is not running.
    pub const NOT_READY: c_int = CUresult::CUDA_ERROR_SYSTEM_NOT_READY as c_int;
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl Calls {
    /// An error if the code is not 0.
    ///
    /// # Errors
    /// [`DriverError`], for all but 0.
    pub fn check(&self, code: c_int) -> Result<(), DriverError> {
        if code == 0 { Ok(()) } else { Err(self.failed(code)) }
    }

    /// A code with the driver's words for it.
    pub fn failed(&self, code: c_int) -> DriverError {
        let mut text = ptr::null();
        // SAFETY: the driver takes any code, and writes a pointer to a text that stays, or null.
        let answer = unsafe { (self.cuGetErrorString)(code, &raw mut text) };
        let words = if answer != 0 || text.is_null() {
            format!("error {code}, for which this driver has no words")
        } else {
            // SAFETY: the text ends with a zero byte.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        DriverError { code, words }
    }
}

#[cfg(test)]
mod tests {
    use super::super::symbols;
    use super::*;
    use libloading::Library;
    use std::fs;
    use std::process::Command;

    /// A library with all functions of the driver, which all return 9999, a code in no list.
    fn strange_driver() -> &'static Library {
        let directory = tempfile::tempdir().unwrap();
        let (source, library) =
            (directory.path().join("driver.c"), directory.path().join("driver.so"));
        let functions =
            Calls::NAMES.iter().map(|name| format!("int {name}(void) {{ return 9999; }}\n"));
        fs::write(&source, functions.collect::<String>()).unwrap();
        let mut compiler = Command::new("g++");
        compiler.args(["-x", "c", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
        assert!(compiler.status().expect("the emulator's tests need g++ as well").success());
        symbols::open(&library).unwrap()
    }

    #[test]
    fn a_code_that_nobody_knows_is_an_error_like_others() {
        let calls = Calls::load(strange_driver()).unwrap();
        // SAFETY: the function takes no arguments.
        let code = unsafe { (calls.cuInit)(0) };
        let failed = calls.check(code).unwrap_err();
        assert_eq!(
            (failed.code, failed.to_string().contains("error 9999")),
            (9999, true),
            "{failed}"
        );
        assert_eq!(calls.check(0), Ok(()));
    }
}
