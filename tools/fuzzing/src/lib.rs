//! Fuzz targets: every reader of untrusted bytes (model files, rows, recipes, responses), as a
//! function that must return for any bytes. CONTRIBUTING.md tells how to run them.

mod mutate;
mod targets;

pub use mutate::Mutator;

/// A reader of untrusted bytes.
pub struct Target {
    /// Name of the target and of its corpus.
    pub name: &'static str,
    /// Reads the bytes, and must return.
    pub run: fn(&[u8]),
    /// Repairs the framing of a changed input, without which the rest would not be read.
    pub repair: Option<fn(&mut [u8])>,
    /// Number of inputs in the deep tests; the others make a tenth of it.
    pub executions: u32,
}

impl Target {
    /// Reads the bytes, and once more with their framing repaired: wrong framing must be refused
    /// too.
    pub fn read(&self, data: &[u8]) {
        (self.run)(data);
        if let Some(repair) = self.repair {
            let mut repaired = data.to_vec();
            repair(&mut repaired);
            if repaired != data {
                (self.run)(&repaired);
            }
        }
    }
}

/// All targets.
pub const TARGETS: &[Target] = targets::ALL;

/// Runs the target of this name.
///
/// # Panics
/// When no target has this name.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("the name of a target");
    target.read(data);
}
