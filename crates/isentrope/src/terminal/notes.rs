//! Notes as lines: after which step, and a note of step after step only now and then.

/// A note that comes in every step is told again when it has come in so many times as many steps in a row as before.
const GROWTH: u64 = 10;

/// Notes of a run so far.
#[derive(Default)]
pub struct Notes {
    /// The last step that is complete.
    after: Option<u64>,
    /// What was noted in this step or the one before.
    rows: Vec<Row>,
}

/// A note of step after step.
struct Row {
    text: String,
    /// After which step it came last.
    after: Option<u64>,
    /// Steps in a row.
    steps: u64,
}

impl Notes {
    /// A step is complete.
    pub fn step(&mut self, step: u64) {
        let before = self.after.replace(step);
        self.rows.retain(|row| row.after == before);
    }

    /// A note as its label and text, unless it has just been told.
    pub fn line(&mut self, text: &str) -> Option<(String, String)> {
        let row = match self.rows.iter_mut().find(|row| row.text == text) {
            Some(row) if row.after == self.after => return None,
            Some(row) => {
                row.steps += 1;
                row.after = self.after;
                row
            }
            None => {
                self.rows.push(Row { text: text.to_owned(), after: self.after, steps: 1 });
                self.rows.last()?
            }
        };
        let label = self.after.map_or("note".to_owned(), |step| format!("note after step {step}"));
        match row.steps {
            1 => Some((label, text.to_owned())),
            steps if is_power(steps) => Some((label, format!("{text} ({steps} steps in a row)"))),
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
    fn notes_have_their_place_and_are_not_repeated_in_every_step() {
        let mut notes = Notes::default();
        let mut told = Vec::new();
        told.extend(notes.line("start"));
        for step in 0..300 {
            told.extend(notes.line("dull"));
            if step % 2 == 0 && step < 5 {
                told.extend(notes.line("now and then"));
            }
            notes.step(step);
        }
        let told: Vec<String> = told.into_iter().map(|(label, text)| format!("{label}: {text}")).collect();
        assert_eq!(
            told,
            [
                "note: start",
                "note: dull",
                "note: now and then",
                "note after step 1: now and then",
                "note after step 3: now and then",
                "note after step 8: dull (10 steps in a row)",
                "note after step 98: dull (100 steps in a row)",
            ]
        );
        // Once it has not come, it is new again.
        notes.step(300);
        assert_eq!(notes.line("dull").unwrap(), ("note after step 300".into(), "dull".into()));
        assert_eq!(notes.line("dull"), None);
    }
}
