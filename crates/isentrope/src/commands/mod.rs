//! One module per command.

pub mod doctor;
pub mod eval;
pub mod examples;
pub mod generate;
pub mod grade;
pub mod law;
pub mod score;
pub mod sft;
pub mod train;
