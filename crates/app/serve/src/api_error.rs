//! Errors as clients get them: an HTTP status, and OpenAI's JSON.

use hyper::StatusCode;
use serde_json::{Value, json};

/// The reason why a request has no answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// The status of the answer.
    pub status: StatusCode,
    /// A sentence for the client.
    pub message: String,
    /// The field of the request that is at fault.
    pub field: Option<String>,
}

/// The error of a request whose time is over.
pub(crate) fn time_over() -> ApiError {
    ApiError::new(
        StatusCode::GATEWAY_TIMEOUT,
        "the request took longer than this server's --timeout",
    )
}

/// The error of a request whose engine has gone.
pub(crate) fn ending() -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the server is ending")
}

/// Seconds after which a client that found no room may try again.
pub(crate) const RETRY_AFTER: &str = "1";

impl ApiError {
    /// A status and a sentence.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), field: None }
    }

    /// The request is wrong.
    pub fn request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// A field of the request is wrong. `message` goes on after its name.
    pub fn field(name: &str, message: impl std::fmt::Display) -> Self {
        Self { field: Some(name.to_owned()), ..Self::request(format!("{name} {message}")) }
    }

    /// The server is at fault.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// The JSON that a client gets.
    pub fn body(&self) -> Value {
        let (kind, code) = match self.status {
            StatusCode::UNAUTHORIZED => ("authentication_error", json!("invalid_api_key")),
            StatusCode::SERVICE_UNAVAILABLE => ("overloaded_error", Value::Null),
            status if status.is_server_error() => ("server_error", Value::Null),
            StatusCode::NOT_FOUND => ("not_found_error", Value::Null),
            _ => ("invalid_request_error", Value::Null),
        };
        let Self { message, field, .. } = self;
        json!({"error": {"message": message, "type": kind, "param": field, "code": code}})
    }
}
