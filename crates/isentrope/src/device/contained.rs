//! A GPU that fails, as an error. Operations have no way to return one: they panic with a sentence.

use anyhow::Result;
use std::cell::{Cell, RefCell};
use std::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether a panic of this thread is about to become an error.
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
    /// Where the last one was.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// What was computed on a GPU has ended with a sentence of its own: there is too little memory, or the GPU has failed.
#[derive(Debug)]
pub struct Failed(String);

impl Failed {
    /// Whether an allocation has failed.
    pub fn lacks_memory(&self) -> bool {
        self.0.contains("cannot allocate") // the words of `OutOfMemory`
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

/// The part of a path by which sources of devices are known.
const DEVICES: &str = "crates/cuda";

/// Calls; a panic becomes an error. What the call has worked with is gone then, and so may be the GPU.
pub fn contained<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    static LISTENS: Once = Once::new();
    LISTENS.call_once(|| {
        let report = take_hook();
        set_hook(Box::new(move |panic| {
            if CONTAINED.get() {
                PLACE.set(panic.location().map(ToString::to_string));
            }
            if !CONTAINED.get() || std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0") {
                report(panic);
            }
        }));
    });
    CONTAINED.set(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    CONTAINED.set(false);
    result.unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("something panicked");
        Err(Failed(said(text, PLACE.take().as_deref())).into())
    })
}

/// What is said of a panic: a device's own sentence is enough, anything else is a mistake of this program.
fn said(text: &str, place: Option<&str>) -> String {
    let mut said = text.to_owned();
    if let Some(place) = place.filter(|place| !place.contains(DEVICES)) {
        write!(said, " (at {place}, which is a mistake in isentrope: please report it)")
            .expect("strings take everything");
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn a_panic_is_an_error_and_an_error_stays_one() {
        assert_eq!(contained(|| Ok(3)).unwrap(), 3);
        let failed = |why: &'static str| contained(|| -> Result<()> { Err(anyhow!(why)) }).unwrap_err();
        assert_eq!(failed("no").to_string(), "no");
        let numbers: Vec<usize> = vec![1];
        let error = contained(|| -> Result<usize> { Ok(numbers[numbers[0]]) }).unwrap_err().to_string();
        assert!(error.starts_with("index out of bounds") && error.contains("contained.rs"), "{error}");
        assert!(!CONTAINED.get());
    }

    #[test]
    fn a_devices_sentence_stands_alone() {
        assert_eq!(
            said("the GPU has failed", Some("crates/cuda/src/gpu/device.rs:1:2")),
            "the GPU has failed"
        );
        assert!(said("x", Some("crates/model/src/model.rs:1:2")).contains("please report it"));
    }
}
