//! Turns panics into errors: panics of text libraries on odd input, and of devices, whose
//! operations cannot return errors.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether a panic of this thread is about to become an error.
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
    /// The place of the last panic.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A panic that was caught.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PanicReport {
    /// Its message.
    pub text: String,
    /// File, line and column, if known.
    pub place: Option<String>,
}

impl PanicReport {
    /// Goes on with a panic that another thread has contained. Where this thread does not contain
    /// it, the user sees its report now.
    ///
    /// # Panics
    /// Always.
    pub fn resume(self) -> ! {
        let Self { text, place } = self;
        if !CONTAINED.get() {
            panic!("{text} (at {})", place.as_deref().unwrap_or("an unknown place"));
        }
        PLACE.set(place);
        resume_unwind(Box::new(text))
    }
}

/// Runs a call that may panic for reasons outside this program. `panicked` turns a panic into an
/// error; the user sees no report of it, unless `RUST_BACKTRACE` asks for one.
///
/// A panic may leave values half-changed, so the call may write only to values that are dropped
/// after a panic.
///
/// # Errors
/// The call's, and `panicked`'s.
pub fn contain<T, E>(
    call: impl FnOnce() -> Result<T, E>,
    panicked: impl FnOnce(PanicReport) -> E,
) -> Result<T, E> {
    static LISTENS: Once = Once::new();
    LISTENS.call_once(|| {
        let report = take_hook();
        set_hook(Box::new(move |panic| {
            if CONTAINED.get() {
                PLACE.set(panic.location().map(ToString::to_string));
            }
            if !CONTAINED.get()
                || std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0")
            {
                report(panic);
            }
        }));
    });
    let outer = CONTAINED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    CONTAINED.set(outer);
    result.unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("something panicked");
        Err(panicked(PanicReport { text: text.to_owned(), place: PLACE.take() }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contained<T>(call: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        contain(call, |PanicReport { text, place }| {
            format!("{text} at {}", place.unwrap_or_default())
        })
    }

    #[test]
    fn a_panic_is_an_error_with_its_place_and_an_error_stays_one() {
        assert_eq!(contained(|| Ok(3)), Ok(3));
        assert_eq!(contained::<()>(|| Err("no".into())), Err("no".into()));
        let numbers: Vec<usize> = vec![1];
        let error = contained(|| Ok(numbers[numbers[0]])).unwrap_err();
        assert!(
            error.starts_with("index out of bounds") && error.contains("contain.rs"),
            "{error}"
        );
        assert!(!CONTAINED.get());
        // A contained call within another leaves the outer one contained.
        let error = contained::<()>(|| {
            contained::<()>(|| panic!("inner")).unwrap_err();
            assert!(CONTAINED.get());
            panic!("outer")
        });
        assert!(error.unwrap_err().starts_with("outer at "));
        // A thread's panic goes on where it is waited for.
        let of_thread = || contain::<(), _>(|| panic!("beside"), |report| report);
        let report = std::thread::spawn(of_thread).join().unwrap();
        let error = contained::<()>(|| report.unwrap_err().resume()).unwrap_err();
        assert!(error.starts_with("beside at ") && error.contains("contain.rs"), "{error}");
        let report = PanicReport { text: "beside".into(), place: Some("there".into()) };
        let shown = catch_unwind(|| report.resume()).unwrap_err();
        assert_eq!(shown.downcast_ref::<String>().unwrap(), "beside (at there)");
    }
}
