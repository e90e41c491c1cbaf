//! Turns a device's failure into an error. Operations cannot return errors, so they panic with a
//! sentence.

use anyhow::Result;
use isentrope_cuda::DeviceFailure;
use isentrope_model::{PanicReport, contain};

/// Work on a GPU has ended with a sentence: there is too little memory, or the GPU has failed.
#[derive(Debug, thiserror::Error)]
#[error("{said}")]
pub struct Failed {
    said: String,
    lacks_memory: bool,
}

impl Failed {
    /// Whether an allocation has failed.
    pub fn lacks_memory(&self) -> bool {
        self.lacks_memory
    }

    /// The sentence of a panic: a device's own is enough, anything else is a mistake of this
    /// program.
    fn new(PanicReport { text, place }: PanicReport) -> Self {
        match DeviceFailure::of_panic(&text) {
            Some(failure) => Self { said: text, lacks_memory: failure.lacks_memory() },
            None => {
                let place = place.unwrap_or_else(|| "an unknown place".into());
                let said = format!(
                    "{text} (at {place}, which is a mistake in isentrope: please report it)"
                );
                Self { said, lacks_memory: false }
            }
        }
    }
}

/// Calls a function and turns a panic into an error. The values that the call worked with must not
/// be used after a panic; the GPU may be lost too.
pub fn contained<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    contain(call, |panicked| Failed::new(panicked).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_devices_sentence_stands_alone_and_a_mistake_has_its_place() {
        let said = |call: fn()| {
            let error = contained(|| {
                call();
                Ok(())
            });
            error.unwrap_err().to_string()
        };
        assert_eq!(
            said(|| DeviceFailure::of_device("the GPU has failed").end()),
            "the GPU has failed"
        );
        let mistake = said(|| panic!("rows beyond the batch"));
        assert!(
            mistake.starts_with("rows beyond the batch (at ") && mistake.contains("contained.rs"),
            "{mistake}"
        );
        assert!(mistake.ends_with("please report it)"), "{mistake}");
    }
}
