//! Counts of a GPU's decoding steps: launched as one, or one by one.

use super::{Computes, Device};
use isentrope_cuda::Replays;
use serde_json::{Value, json};

impl Device {
    /// The counts so far; None on the CPU, which launches nothing.
    fn steps(&self) -> Option<Replays> {
        match &self.computes {
            Computes::Cpu(_) => None,
            Computes::Gpu { backend, .. } => Some(backend.replays()),
        }
    }

    /// The counts as a manifest has them.
    pub fn steps_manifest(&self) -> Option<Value> {
        let Replays { captured, replayed, launched, refused } = self.steps()?;
        Some(json!({
            "captured": captured, "launched_as_one": replayed, "launched_one_by_one": launched, "refused": refused,
        }))
    }

    /// The note for a GPU that refuses to launch steps as one.
    pub fn steps_refused(&self) -> Option<String> {
        refused(&self.steps()?)
    }
}

fn refused(replays: &Replays) -> Option<String> {
    let why = replays.refused.as_ref()?;
    Some(format!(
        "the GPU's driver does not launch some step of decoding as one ({why}): its kernels are \
         launched one by one, which takes \
         longer and changes no bit"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_captures_nothing_is_told_in_a_sentence() {
        assert_eq!(refused(&Replays::default()), None);
        let said =
            refused(&Replays { refused: Some("not supported".into()), ..Replays::default() })
                .unwrap();
        assert!(said.contains("(not supported): its kernels are launched one by one"), "{said}");
    }
}
