//! Ranks that meet over TCP, without any library: rank 0 listens at an address that all know, the
//! others come there (`rendezvous.rs`), and every pair keeps one connection (`engine.rs`).
//!
//! The connections are made at the start: the first exchange is a header of every rank for every
//! other. Whoever reaches a port may send anything, so a connection counts only after its
//! `handshake.rs`.

mod engine;
mod handshake;
mod peer;
mod rendezvous;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::local::Children;
use crate::settings::{Library, Settings};
pub(crate) use handshake::random;
use std::net::TcpListener;
use std::sync::Arc;

/// Where the ranks of a job meet, and which of them this one is.
#[derive(Debug)]
pub(crate) struct Meeting {
    /// The program that has started the ranks.
    pub launcher: &'static str,
    /// This rank, from 0.
    pub rank: usize,
    /// How many ranks there are.
    pub size: usize,
    /// The host of rank 0, a name or an address.
    pub host: String,
    /// The port at which rank 0 listens.
    pub port: u16,
    /// A word that all ranks of the job know; empty if there is none.
    pub key: String,
    /// Rank 0's socket, if it listens already.
    pub listener: Option<TcpListener>,
    /// The processes that this one has started as ranks.
    pub children: Children,
}

impl Meeting {
    /// `node7:29500`.
    fn address(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

/// Brings the ranks together.
///
/// # Errors
/// [`Error::Start`] when this rank is refused or cannot listen, [`Error::Engine`] when others do
/// not come in time.
pub(crate) fn begin(meeting: Meeting, settings: &Settings) -> Result<(Box<dyn Engine>, Library)> {
    let library = Library {
        version: "TCP".into(),
        path: meeting.address(),
        abi: "TCP",
        launcher: meeting.launcher.to_owned(),
    };
    let rank = meeting.rank;
    let peers = rendezvous::meet(meeting, settings)?;
    let engine = engine::TcpEngine::new(rank, peers, Arc::clone(&settings.tell))
        .map_err(|error| Error::Engine(format!("a connection cannot be used: {error}")))?;
    Ok((Box::new(engine), library))
}

#[cfg(test)]
mod tests;
