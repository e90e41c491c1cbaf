//! Notes as lines: in which step or after which, and a note of many steps only now and then.

/// A note that comes again and again is told when it has come in so many times as many steps as
/// when it was told before.
const GROWTH: u64 = 10;
/// How many notes are remembered: those with numbers in them seldom come again.
const REMEMBERED: usize = 200;

/// Notes of a run so far.
#[derive(Default)]
pub struct Notes {
    /// The last step that is complete.
    after: Option<u64>,
    /// Whether the step after it has begun.
    has_begun: bool,
    /// The notes, the latest last.
    rows: Vec<Row>,
}

/// A note of one step or more.
struct Row {
    text: String,
    /// After which step it came last.
    after: Option<u64>,
    /// Steps that it came in.
    steps: u64,
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

    /// A note as its label and text, unless it has been told often enough.
    pub fn line(&mut self, text: &str) -> Option<(String, String)> {
        let known =
            self.rows.iter().position(|row| row.text == text).map(|place| self.rows.remove(place));
        let is_told = known.as_ref().is_some_and(|row| row.after == self.after);
        let before = known.map_or(0, |row| row.steps);
        let steps = if is_told { before } else { before + 1 };
        if self.rows.len() == REMEMBERED {
            self.rows.remove(0);
        }
        self.rows.push(Row { text: text.to_owned(), after: self.after, steps });
        let label = match self.after {
            None => "note".to_owned(),
            Some(step) if self.has_begun => format!("note in step {}", step + 1),
            Some(step) => format!("note after step {step}"),
        };
        match steps {
            _ if is_told => None,
            1 => Some((label, text.to_owned())),
            _ if is_power(steps) => Some((label, format!("{text} ({steps} steps so far)"))),
            _ => None,
        }
    }
}

/// Whether a number is a power of [`GROWTH`].
fn is_power(number: u64) -> bool {
    number.checked_ilog(GROWTH).is_some_and(|exponent| GROWTH.pow(exponent) == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_have_their_place_and_do_not_drown_a_run() {
        let mut notes = Notes::default();
        let mut told = Vec::new();
        told.extend(notes.line("start"));
        for step in 0..300 {
            told.extend(notes.line("dull"));
            told.extend(notes.line("dull")); // twice in one step
            if step % 2 == 0 {
                told.extend(notes.line("now and then"));
            }
            if step < 3 {
                told.extend(notes.line(&format!("{step} of them")));
            }
            notes.step(step);
        }
        let told: Vec<String> =
            told.into_iter().map(|(label, text)| format!("{label}: {text}")).collect();
        assert_eq!(
            told,
            [
                "note: start",
                "note: dull",
                "note: now and then",
                "note: 0 of them",
                "note after step 0: 1 of them",
                "note after step 1: 2 of them",
                "note after step 8: dull (10 steps so far)",
                "note after step 17: now and then (10 steps so far)",
                "note after step 98: dull (100 steps so far)",
                "note after step 197: now and then (100 steps so far)",
            ]
        );
    }

    #[test]
    fn a_note_from_within_a_step_names_it() {
        let mut notes = Notes::default();
        let label = |notes: &mut Notes, text: &str| notes.line(text).unwrap().0;
        notes.begin();
        assert_eq!(label(&mut notes, "of a run that goes on somewhere"), "note");
        notes.step(9);
        assert_eq!(label(&mut notes, "its checkpoint"), "note after step 9");
        notes.begin();
        assert_eq!(label(&mut notes, "10 steps in a row"), "note in step 10");
        notes.step(10);
        assert_eq!(label(&mut notes, "the next checkpoint"), "note after step 10");
    }

    #[test]
    fn what_is_remembered_has_bounds() {
        let mut notes = Notes::default();
        for number in 0..10 * REMEMBERED {
            assert!(notes.line(&number.to_string()).is_some());
            notes.step(number as u64);
        }
        assert_eq!(notes.rows.len(), REMEMBERED);
    }
}
