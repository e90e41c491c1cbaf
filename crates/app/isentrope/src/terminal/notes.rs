//! Labels notes with the step in or after which they came. Each text is shown once.

use std::collections::HashSet;

/// Notes of a run so far.
#[derive(Default)]
pub struct Notes {
    /// The last step that is complete.
    after: Option<u64>,
    /// Whether the step after it has begun.
    has_begun: bool,
    told: HashSet<String>,
}

impl Notes {
    /// The step after the last complete one has begun.
    pub fn begin(&mut self) {
        self.has_begun = true;
    }

    /// A step is complete.
    pub fn step(&mut self, step: u64) {
        self.after = Some(step);
        self.has_begun = false;
    }

    /// The label of a note; None if the note was shown before.
    pub fn label(&mut self, text: &str) -> Option<String> {
        self.told.insert(text.to_owned()).then(|| match self.after {
            None => "note".to_owned(),
            Some(step) if self.has_begun => format!("note in step {}", step + 1),
            Some(step) => format!("note after step {step}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_has_its_step_and_is_told_once() {
        let mut notes = Notes::default();
        notes.begin();
        assert_eq!(notes.label("of a run that goes on somewhere").as_deref(), Some("note"));
        notes.step(9);
        assert_eq!(notes.label("its checkpoint").as_deref(), Some("note after step 9"));
        notes.begin();
        assert_eq!(notes.label("10 steps in a row").as_deref(), Some("note in step 10"));
        notes.step(10);
        assert_eq!(notes.label("10 steps in a row"), None);
    }
}
