//! Panics by which a device reports that it has failed, or has no memory left, because operations
//! cannot return an error.

use isentrope_kernels::OutOfMemory;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Failures that are remembered.
const REMEMBERED: usize = 8;
/// The last failures, of all threads: a panic may go on in another thread, which waited for it.
static LAST: Mutex<Vec<DeviceFailure>> = Mutex::new(Vec::new());

fn last() -> MutexGuard<'static, Vec<DeviceFailure>> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a device could not carry out a valid request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFailure {
    sentence: String,
    lacks_memory: bool,
}

impl DeviceFailure {
    /// A failure of the device itself.
    pub fn of_device(sentence: impl fmt::Display) -> Self {
        Self { sentence: sentence.to_string(), lacks_memory: false }
    }

    /// A lack of memory that the device itself reports.
    pub fn of_memory(sentence: impl fmt::Display) -> Self {
        Self { sentence: sentence.to_string(), lacks_memory: true }
    }

    /// Whether there was no memory.
    pub fn lacks_memory(&self) -> bool {
        self.lacks_memory
    }

    /// Ends the operation with a panic.
    ///
    /// # Panics
    /// With the sentence, always.
    #[track_caller]
    pub fn end(self) -> ! {
        let mut last = last();
        if last.len() == REMEMBERED {
            last.remove(0);
        }
        last.push(self.clone());
        drop(last);
        panic!("{self}");
    }

    /// The failure behind a panic with this text. None for other panics, which are mistakes of the
    /// code.
    pub fn of_panic(text: &str) -> Option<Self> {
        let mut last = last();
        let place = last.iter().position(|failure| failure.sentence == text)?;
        Some(last.remove(place))
    }
}

impl From<OutOfMemory> for DeviceFailure {
    fn from(refused: OutOfMemory) -> Self {
        Self::of_memory(refused)
    }
}

/// The sentence.
impl fmt::Display for DeviceFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    fn text(panics: fn()) -> String {
        let payload = catch_unwind(panics).unwrap_err();
        let text = payload.downcast_ref::<String>().cloned();
        text.unwrap_or_else(|| payload.downcast_ref::<&str>().unwrap().to_string())
    }

    #[test]
    fn a_failure_is_told_from_other_panics() {
        let gone = text(|| DeviceFailure::of_device("the GPU has failed").end());
        assert_eq!(gone, "the GPU has failed");
        let failure = DeviceFailure::of_panic(&gone).unwrap();
        assert!(failure.to_string() == gone && !failure.lacks_memory());
        assert_eq!(DeviceFailure::of_panic(&gone), None, "it is told once");
        let of_thread =
            std::thread::spawn(|| text(|| DeviceFailure::of_device("so ends it").end()));
        assert!(DeviceFailure::of_panic(&of_thread.join().unwrap()).is_some());
        let refused = OutOfMemory { asked: 1 << 20, why: "no more".into() };
        assert!(DeviceFailure::from(refused).lacks_memory());
        // A panic by a mistake in the program does not count as the device's failure, even after a
        // caught failure.
        text(|| DeviceFailure::of_device("before").end());
        let mistake = text(|| assert!(std::hint::black_box(false), "rows beyond the batch"));
        assert_eq!(DeviceFailure::of_panic(&mistake), None);
    }
}
