//! A run's memory and time, known before it starts: [`memory`] is planned, [`time`] is estimated
//! from counted work and the measured speed of the device.

mod error;
pub mod memory;
mod pass_limits;
pub mod time;

pub use error::{Error, Result};
pub use pass_limits::{PassLimits, PassSize, PassTape};

#[cfg(test)]
mod test_support {
    use isentrope_kernels::{Cpu, Isa};
    use isentrope_model::{Layout, ModelConfig};
    use std::path::Path;

    pub fn layout() -> Layout {
        let models = "../../compute/model/tests/fixtures/models";
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(models).join("qwen3");
        Layout::new(&ModelConfig::read(&dir).unwrap())
    }

    pub fn cpu() -> Cpu {
        Cpu::new(Isa::available()[0], 1).unwrap()
    }
}
