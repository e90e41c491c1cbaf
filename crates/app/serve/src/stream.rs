//! Bodies of answers: whole ones, and streams of server-sent events.

use crate::answer::Answer;
use crate::api_error::{ApiError, ending};
use crate::job::Update;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use serde_json::Value;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::UnboundedReceiver;

/// Bytes after which events are sent and no more of them are joined.
const FRAME: usize = 16 << 10;

/// The body of an answer.
pub enum Reply {
    /// All of it, until it is sent.
    Whole(Option<Bytes>),
    /// Events as they come.
    Stream(Box<EventStream>),
}

/// Chunks of an answer as they come. Dropping it abandons the job.
pub struct EventStream {
    pub(crate) answer: Answer,
    pub(crate) updates: UnboundedReceiver<Update>,
    pub(crate) ended: bool,
}

impl EventStream {
    /// Appends an update's events.
    fn write(&mut self, update: Result<Update, ApiError>, out: &mut String) {
        match update.and_then(|update| self.answer.take(update)) {
            Ok(None) => {}
            Ok(Some(chunk)) => event(out, &chunk),
            Err(error) => {
                event(out, &error.body());
                self.ended = true;
                return;
            }
        }
        if self.answer.is_complete() {
            if let Some(usage) = self.answer.usage_chunk() {
                event(out, &usage);
            }
            out.push_str("data: [DONE]\n\n");
            self.ended = true;
        }
    }
}

fn event(out: &mut String, data: &Value) {
    out.push_str("data: ");
    out.push_str(&data.to_string());
    out.push_str("\n\n");
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let stream = match self.get_mut() {
            Self::Whole(body) => return Poll::Ready(body.take().map(|b| Ok(Frame::data(b)))),
            Self::Stream(stream) => stream,
        };
        let mut out = String::new();
        while !stream.ended && out.len() < FRAME {
            let update = match stream.updates.poll_recv(context) {
                Poll::Ready(Some(update)) => Ok(update),
                Poll::Ready(None) => Err(ending()),
                Poll::Pending if out.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            };
            stream.write(update, &mut out);
        }
        Poll::Ready((!out.is_empty()).then(|| Ok(Frame::data(out.into()))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_none(),
            Self::Stream(stream) => stream.ended,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => SizeHint::with_exact(body.as_ref().map_or(0, |b| b.len() as u64)),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
