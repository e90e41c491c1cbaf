//! One module per command.

pub mod doctor;
pub mod generate;
pub mod score;
pub mod sft;
pub mod train;
mod training;
