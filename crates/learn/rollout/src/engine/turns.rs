//! Responses of several turns. A response that stops keeps its keys and values, until it goes on
//! behind tokens that it is given, or is released.
//!
//! The given tokens are fed as a prompt's are, and sampling goes on behind them: every number has
//! the bits that it would have if the whole sequence were a prompt.

use super::Engine;
use crate::engine::RequestId;
use crate::partial_response::given_token;
use crate::sequence::Sample;
use crate::{Error, Result};

impl Engine<'_> {
    /// Keeps the memory of each response that ends by a stop, for [`go_on`](Self::go_on) or
    /// [`release_stopped`](Self::release_stopped).
    #[must_use]
    pub fn keeping_stopped(mut self) -> Self {
        self.keeps_stopped = true;
        self
    }

    /// Goes on with a response that has stopped, behind these given tokens.
    ///
    /// # Errors
    /// [`Error::Prompt`] when no such response has stopped, or a token could not follow the given
    /// ones; [`Error::Model`] for tokens outside the vocabulary.
    pub fn go_on(&mut self, request: RequestId, sample: usize, given: &[u32]) -> Result<()> {
        self.model.check_tokens(given)?;
        let mut sample = self.take_stopped(request, sample)?;
        let before = sample.drawn.len();
        let after = before + given.len();
        if given.is_empty() || after >= sample.max_tokens {
            let most = sample.max_tokens;
            self.release_ended(sample);
            return Err(Error::Prompt(format!(
                "a response with {before} tokens cannot go on behind {} given ones: at most {most} \
                 are allowed",
                given.len()
            )));
        }
        sample.drawn.extend(given.iter().map(|&token| given_token(token)));
        sample.given.push(before..after);
        sample.masks.iter_mut().for_each(|masks| given.iter().for_each(|_| masks.push(None)));
        sample.text = self.text(&sample.sampling);
        self.resuming.push_back(sample);
        Ok(())
    }

    /// Frees the memory of a response that has stopped and does not go on.
    ///
    /// # Errors
    /// [`Error::Prompt`] when no such response has stopped.
    pub fn release_stopped(&mut self, request: RequestId, sample: usize) -> Result<()> {
        let sample = self.take_stopped(request, sample)?;
        self.release_ended(sample);
        Ok(())
    }

    /// Gives responses that go on their places among the running ones.
    pub(super) fn resume(&mut self) {
        while self.running.len() < self.limits.sequences
            && let Some(sample) = self.resuming.pop_front()
        {
            self.running.push(sample);
        }
    }
}

impl<'a> Engine<'a> {
    fn take_stopped(&mut self, request: RequestId, number: usize) -> Result<Sample<'a>> {
        let is_it = |sample: &Sample<'_>| sample.id == request && sample.sample == number;
        let at = self.stopped.iter().position(is_it).ok_or_else(|| {
            Error::Prompt(format!("response {number} to request {request} has not stopped"))
        })?;
        Ok(self.stopped.swap_remove(at))
    }
}
