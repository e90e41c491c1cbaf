//! TensorBoard's messages (tensorflow/core/util/event.proto) in Protocol Buffers, with the fields
//! in use: the trainer writes them, the laboratory reads them.

pub use prost::Message;

/// A record of an event file.
#[derive(Clone, PartialEq, Message)]
pub struct Event {
    /// Seconds since 1970.
    #[prost(double, tag = "1")]
    pub wall_time: f64,
    /// The step; trainers give hyperparameters a negative one.
    #[prost(int64, tag = "2")]
    pub step: i64,
    /// The file's format, in its first event.
    #[prost(string, optional, tag = "3")]
    pub file_version: Option<String>,
    /// Metrics of the step.
    #[prost(message, optional, tag = "5")]
    pub summary: Option<Summary>,
    /// Start or end of the writer.
    #[prost(message, optional, tag = "7")]
    pub session_log: Option<SessionLog>,
}

/// Metrics (tensorflow/core/framework/summary.proto).
#[derive(Clone, PartialEq, Message)]
pub struct Summary {
    /// One for each metric.
    #[prost(message, repeated, tag = "1")]
    pub value: Vec<SummaryValue>,
}

/// A metric.
#[derive(Clone, PartialEq, Message)]
pub struct SummaryValue {
    /// The metric's name.
    #[prost(string, tag = "1")]
    pub tag: String,
    /// Its number; none where it is a picture or another kind of value.
    #[prost(float, optional, tag = "2")]
    pub simple_value: Option<f32>,
}

/// Start or end of a writer.
#[derive(Clone, PartialEq, Message)]
pub struct SessionLog {
    /// [`Self::START`] or another state.
    #[prost(int32, tag = "1")]
    pub status: i32,
}

impl SessionLog {
    /// The writer starts: earlier numbers from the event's step on are void.
    pub const START: i32 = 1;
}
