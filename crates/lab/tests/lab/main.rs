//! What the laboratory makes of logs, through its public face.

mod law;
mod run_directory;
