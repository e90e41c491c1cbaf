//! The isentrope command line.
fn main() {}
