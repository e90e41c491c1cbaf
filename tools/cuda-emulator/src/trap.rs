//! Signals in kernels: an access to a guard page ends the thread's fiber, and the launch with a
//! failure, but not the process.
//!
//! A kernel holds nothing that must be dropped, and its frames are C++ without destructors; so a
//! fiber may be abandoned. Functions of the emulator that kernels call check every address before
//! they use it.

use crate::fiber::FiberTrap;
use std::cell::Cell;
use std::sync::Once;

/// A signal that a kernel has caused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trap {
    /// The signal's number.
    pub(crate) signal: i32,
    /// The address of the access.
    pub(crate) address: usize,
    /// Whether it was a write, if that can be known.
    pub(crate) write: Option<bool>,
}

thread_local! {
    /// How the fiber can be ended that runs on this thread.
    static RUNNING: Cell<Option<FiberTrap>> = const { Cell::new(None) };
}

/// Signals on this fiber's stack end it, until another one is named. It must not be dropped before
/// that.
pub(crate) fn guard(trap: Option<FiberTrap>) {
    RUNNING.set(trap);
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod linux {
    use super::{RUNNING, Trap};
    use corosensei::trap::TrapHandlerRegs;
    use libc::{c_int, c_void, siginfo_t, ucontext_t};
    use std::mem::{MaybeUninit, zeroed};
    use std::ptr::null_mut;
    use std::sync::OnceLock;

    const SIGNALS: [c_int; 5] =
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];

    /// The handlers that were there before.
    static OLD: OnceLock<[libc::sigaction; 5]> = OnceLock::new();

    #[cfg(target_arch = "x86_64")]
    fn stack_pointer(context: &ucontext_t) -> usize {
        context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize
    }

    /// Bit 1 of the page fault's error code is set for writes.
    #[cfg(target_arch = "x86_64")]
    fn is_write(context: &ucontext_t) -> Option<bool> {
        Some(context.uc_mcontext.gregs[libc::REG_ERR as usize] & 2 != 0)
    }

    #[cfg(target_arch = "x86_64")]
    fn set(context: &mut ucontext_t, registers: TrapHandlerRegs) {
        let TrapHandlerRegs { rip, rsp, rbp, rdi, rsi } = registers;
        let to = &mut context.uc_mcontext.gregs;
        to[libc::REG_RIP as usize] = rip.cast_signed();
        to[libc::REG_RSP as usize] = rsp.cast_signed();
        to[libc::REG_RBP as usize] = rbp.cast_signed();
        to[libc::REG_RDI as usize] = rdi.cast_signed();
        to[libc::REG_RSI as usize] = rsi.cast_signed();
    }

    #[cfg(target_arch = "aarch64")]
    fn stack_pointer(context: &ucontext_t) -> usize {
        context.uc_mcontext.sp as usize
    }

    #[cfg(target_arch = "aarch64")]
    fn is_write(_: &ucontext_t) -> Option<bool> {
        None
    }

    #[cfg(target_arch = "aarch64")]
    fn set(context: &mut ucontext_t, registers: TrapHandlerRegs) {
        let TrapHandlerRegs { pc, sp, x0, x1, x29, lr } = registers;
        let to = &mut context.uc_mcontext;
        (to.pc, to.sp) = (pc, sp);
        (to.regs[0], to.regs[1], to.regs[29], to.regs[30]) = (x0, x1, x29, lr);
    }

    unsafe extern "C" fn handler(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
        // SAFETY: the system gives a handler with SA_SIGINFO both, and only the handler uses them
        // meanwhile.
        let (about, registers) = unsafe { (&*info, &mut *context.cast::<ucontext_t>()) };
        if let Some(trap) = RUNNING.get()
            && trap.stack_ptr_in_bounds(stack_pointer(registers))
        {
            // SAFETY: these signals have an address.
            let address = unsafe { about.si_addr() } as usize;
            let write = if signal == libc::SIGSEGV { is_write(registers) } else { None };
            let ended = Trap { signal, address, write };
            // SAFETY: the fiber runs a kernel on its own stack, and a kernel holds nothing that
            // must be dropped. It has written memory of the emulated device, which is read through
            // functions that the compiler cannot see into.
            let new = unsafe { trap.setup_trap_handler(move || ended) };
            set(registers, new);
            return;
        }
        let which = SIGNALS.iter().position(|&other| other == signal);
        if let (Some(old), Some(which)) = (OLD.get(), which) {
            // The handler that was installed before is to see it: the instruction runs once more.
            // SAFETY: the system gave us this handler.
            unsafe { libc::sigaction(signal, &raw const old[which], null_mut()) };
        }
    }

    pub(super) fn install() {
        let old = SIGNALS.map(|signal| {
            // SAFETY: a handler that uses thread-local cells and registers alone, on the alternate
            // stack.
            unsafe {
                let mut new: libc::sigaction = zeroed();
                new.sa_sigaction = handler as *const () as usize;
                new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                let mut old = MaybeUninit::zeroed();
                libc::sigaction(signal, &raw const new, old.as_mut_ptr());
                old.assume_init()
            }
        });
        // This runs once, so the value is not set yet.
        let _ = OLD.set(old);
    }
}

/// From now on, signals of kernels become failures. Other signals still end the process. Rust's
/// threads have an alternate stack for signals.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
        linux::install();
    });
}
