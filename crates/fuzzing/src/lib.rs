//! What reads bytes that nobody vouches for, each as a function of those bytes that must return: a file of a model, rows, a
//! recipe, a response. CONTRIBUTING.md says how they are run.

mod mutate;
mod targets;
mod words;

pub use mutate::Mutator;

/// One reader.
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// Reads the bytes; whatever they are, it returns.
    pub run: fn(&[u8]),
    /// Pieces that its input is made of, for mutations.
    pub words: &'static [&'static str],
    /// Makes the framing of a mutated input right again, where nothing behind a wrong one is looked at.
    pub repair: fn(&mut [u8]),
    /// Inputs for the run that goes with the tests.
    pub executions: u32,
}

/// All readers.
pub const TARGETS: &[Target] = targets::ALL;

/// Runs the target of this name.
///
/// # Panics
/// When there is none.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("the name of a target");
    (target.run)(data);
}
