//! Panics of the text libraries on odd input, as errors.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether a panic of this thread is about to become an error.
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a call into a library that is known to panic on some untrusted input; a panic becomes the error `panicked()`,
/// and is not reported to the user besides.
///
/// Only for calls on values that are dropped or not written to when they fail, since those may be left
/// half-changed.
pub fn contain<T, E>(call: impl FnOnce() -> Result<T, E>, panicked: impl FnOnce() -> E) -> Result<T, E> {
    static SILENCED: Once = Once::new();
    SILENCED.call_once(|| {
        let report = take_hook();
        set_hook(Box::new(move |panic| {
            if !CONTAINED.get() {
                report(panic);
            }
        }));
    });
    let outer = CONTAINED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    CONTAINED.set(outer);
    result.unwrap_or_else(|_| Err(panicked()))
}
