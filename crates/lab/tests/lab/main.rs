//! What the laboratory makes of logs, through its public face.

mod inspect;
mod run_directory;
