//! MPI, found and loaded when ranks begin. MPI is not needed to build this program, or to run a
//! single process.
//!
//! The only code of this crate that is `unsafe`: a library's functions are called by declarations
//! of our own, since its headers are not there. `abi.rs` has these declarations and tells libraries
//! apart, `calls.rs` makes the calls, and `engine.rs` and `notes.rs` keep what travels until it has
//! arrived.
#![allow(unsafe_code, reason = "functions of a library that is loaded at run time")]

mod abi;
mod calls;
mod engine;
mod library;
mod notes;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::launch::{Family, LEAST_TIME, MpiLaunch, NOTICE};
use crate::pulse::Message;
use crate::settings::{Library, Settings};
use abi::{Calls, Handle};
use engine::MpiEngine;
pub(crate) use engine::exit;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

/// Brings together the ranks that a launcher has started. Fails with [`Error::Start`] when the
/// library is missing, not known, or not the launcher's.
pub(crate) fn begin(launch: &MpiLaunch, settings: &Settings) -> Result<(Box<dyn Engine>, Library)> {
    let tell = &settings.tell;
    let (path, loaded) = library::load(launch)?;
    let (family, version) = abi::recognise(loaded, &path)?;
    let abi = match family {
        Family::OpenMpi => "Open MPI",
        Family::Mpich => "MPICH",
    };
    let library = Library { version, path, abi, launcher: launch.launcher.to_owned() };
    // With a foreign launcher some libraries end the process, and others find a single rank in each
    // process.
    if !launch.families.contains(&family) {
        let Library { path, version, launcher, .. } = &library;
        tell(Message::Warning(&format!(
            "{path} ({version}) does not belong to {launcher}: if the ranks do not begin, name \
             another with ISENTROPE_MPI"
        )));
    }
    let engine = match family {
        Family::Mpich => {
            start_engine(Calls::<c_int>::of_mpich(loaded), &library, launch, settings)?
        }
        Family::OpenMpi => {
            start_engine(Calls::<usize>::of_open_mpi(loaded), &library, launch, settings)?
        }
    };
    Ok((engine, library))
}

fn start_engine<H: Handle>(
    calls: Result<Calls<H>, libloading::Error>,
    library: &Library,
    launch: &MpiLaunch,
    settings: &Settings,
) -> Result<Box<dyn Engine>> {
    let Library { path, version, launcher, .. } = library;
    let calls = calls.map_err(|error| {
        Error::Start(format!(
            "{path} ({version}) lacks a function of MPI 3.0: {error}; name another with \
             ISENTROPE_MPI"
        ))
    })?;
    let mut engine = in_time(settings, || MpiEngine::begin(calls))
        .map_err(|why| Error::Start(format!("{path} ({version}) cannot begin: {why}")))?;
    let Some(size) = launch.size.filter(|&size| size != engine.size()) else {
        return Ok(Box::new(engine));
    };
    let found = engine.size();
    engine.close()?;
    Err(Error::Start(format!(
        "{launcher} has started {size} ranks ({}), but {path} ({version}) finds {found}, since it \
         does not belong to {launcher}: \
         name the launcher's own library with ISENTROPE_MPI=/path/to/libmpi.so, start with the \
         library's launcher (srun: with \
         --mpi=pmix for Open MPI, --mpi=pmi2 for MPICH), or set ISENTROPE_RANKS=off to run each \
         rank alone",
        launch.variable
    )))
}

/// Runs `begin`, in which the library waits until all ranks have begun: for ever, if one of them
/// has ended before. A thread says that this rank waits, and ends the process after the time that
/// ranks may be silent, or after [`LEAST_TIME`]: launchers start ranks one after another.
fn in_time<T>(settings: &Settings, begin: impl FnOnce() -> T) -> T {
    let (begun, waits) = mpsc::channel::<()>();
    let limit = settings.watch.silent.map(|limit| limit.max(LEAST_TIME));
    let tell = Arc::clone(&settings.tell);
    let wait = move || {
        let is_late = |time| waits.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
        if !is_late(NOTICE) {
            return;
        }
        tell(Message::Warning(&format!(
            "this rank has waited {} s for the others to begin: they may still be starting, or one \
             of them has ended",
            NOTICE.as_secs()
        )));
        if let Some(limit) = limit
            && is_late(limit - NOTICE)
        {
            tell(Message::Error(&format!(
                "not all ranks have begun within {} s (ranks.timeout_s, and at least {} s): one of \
                 them has ended, or runs another program; all ranks end",
                limit.as_secs(),
                LEAST_TIME.as_secs()
            )));
            exit()
        }
    };
    let watch = thread::Builder::new().spawn(wait);
    let engine = begin();
    drop(begun);
    if let Ok(watch) = watch {
        let _ = watch.join(); // a panic in it has been printed
    }
    engine
}
