//! Flags of commands that listen for requests.

use anyhow::{Context, Result};
use clap::Args;
use std::net::TcpListener;

/// The address of a server.
#[derive(Args)]
pub struct ListenFlags {
    /// Address or name to listen at; 0.0.0.0 is all of this machine's addresses
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    host: String,
    /// Port to listen at; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 8000)]
    port: u16,
}

impl ListenFlags {
    /// Listens there. A port that is taken is found before the model is loaded.
    pub fn listen(&self) -> Result<TcpListener> {
        let Self { host, port } = self;
        TcpListener::bind((&**host, *port))
            .with_context(|| format!("--host {host}, --port {port} (0 takes a free one)"))
    }
}
