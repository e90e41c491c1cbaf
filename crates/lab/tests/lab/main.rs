//! What the laboratory makes of logs, through its public face.

mod run_directory;
mod theory;
