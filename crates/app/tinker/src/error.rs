//! Why a request has no result.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The failure of a request, as the client shows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    /// A sentence.
    pub message: String,
    pub cause: Cause,
}

/// Who can mend a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The request is wrong.
    User,
    /// The request names what is not there.
    Unknown,
    /// There is no room now: the client tries again.
    Busy,
    /// The server is at fault.
    Server,
}

impl Failure {
    /// The request is wrong.
    pub fn user(message: impl ToString) -> Self {
        Self { message: message.to_string(), cause: Cause::User }
    }

    /// The request names what is not there.
    pub fn unknown(message: impl ToString) -> Self {
        Self { message: message.to_string(), cause: Cause::Unknown }
    }

    /// There is no room now.
    pub fn busy(message: impl ToString) -> Self {
        Self { message: message.to_string(), cause: Cause::Busy }
    }

    /// The server is at fault.
    pub fn server(message: impl ToString) -> Self {
        Self { message: message.to_string(), cause: Cause::Server }
    }
}

/// A result, or the sentence for the client.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Does a part of a request. A panic in it fails this request alone: kernels panic where
/// the system has no memory for them. What the work has changed by then stays changed; the caller
/// drops what may be damaged.
pub(crate) fn contain<T>(work: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref().copied()).unwrap_or("no reason told");
        Failure::server(format!("the server could not do it: {text}"))
    })
}
