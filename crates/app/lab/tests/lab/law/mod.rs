//! The law on planted runs, and where its points come from.

mod coverage;
mod departure;
mod planted;
mod points;
mod prediction;
mod refusals;
