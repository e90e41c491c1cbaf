//! One module per command.

pub mod doctor;
pub mod generate;
pub mod score;
