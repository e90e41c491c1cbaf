//! The host's memory that a plan takes, where the device has memory of its own.

use super::{Plan, human};
use crate::error::{Error, Result};

/// Ranks of a machine for which plans say the host's memory: GPUs of the usual large machine.
const RANKS: usize = 8;

impl Plan {
    /// Bytes of the host's memory that a rank takes; 0 if the device's memory is the host's.
    pub fn host_bytes(&self) -> usize {
        self.host_program.saturating_add(self.host_inputs).saturating_add(self.host_moments)
    }

    /// The host's memory that one of `ranks` ranks takes, and all that a machine may have, as a
    /// line of the plan; none if the device's memory is the host's.
    pub fn on_host(&self, ranks: usize) -> Option<String> {
        let own = self.host_bytes();
        let part = |bytes: usize, what: &str| match bytes {
            0 => String::new(),
            bytes => format!("{what} {}, ", human(bytes)),
        };
        let (inputs, moments) =
            (part(self.host_inputs, "inputs of blocks"), part(self.host_moments, "moments"));
        let here = ranks.min(RANKS);
        let all = match here {
            1 => String::new(),
            _ => format!("; {} for {here} ranks on a machine", human(own.saturating_mul(here))),
        };
        let program = human(self.host_program);
        let line = format!("{} ({inputs}{moments}program {program}){all}", human(own));
        (own > 0).then_some(line)
    }

    /// Checks that the run's part of the host's memory fits into the `free` bytes there, where the
    /// device has memory of its own.
    ///
    /// # Errors
    /// [`Error::Setting`] when moments are offloaded that do not
    /// fit; [`Error::TooLarge`] when the rest does not.
    pub fn check_host(&self, free: usize) -> Result<()> {
        let beside = self.host_program.saturating_add(self.host_inputs);
        if self.host_bytes() <= free {
            return Ok(());
        }
        if self.host_moments == 0 {
            let inputs = match self.host_inputs {
                0 => String::new(),
                bytes => format!("{} for the inputs of blocks until the way back, ", human(bytes)),
            };
            return Err(Error::TooLarge(format!(
                "the run needs {} of the host's memory, {inputs}for weights on their way to the \
                 GPU and to checkpoints, for the loss and for tokens that truncated sampling \
                 keeps, and {} are free there: a smaller model, fewer responses in an update, a \
                 smaller rollout.max_tokens or a smaller rollout.top_k need less",
                human(beside),
                human(free)
            )));
        }
        let what = format!(
            "asks for {} of the host's memory, beside {} for the program, its loss, what is \
             loaded and saved and what waits for the way back, and {} are free there: leave it \
             out, or train with more ranks on several machines, which share the moments",
            human(self.host_moments),
            human(beside),
            human(free)
        );
        Err(Error::Setting { key: "memory.offload_moments", what })
    }
}
