//! Elsewhere there is no sandbox.

use std::convert::Infallible;
use std::process::{ChildStderr, ChildStdin, ChildStdout};
use std::time::Duration;

use crate::{Attempt, Ending, Error, Program, Tier, Unavailable};

/// A way to run programs safely; there is none on this system.
#[derive(Clone, Debug)]
pub struct Sandbox(Infallible);

impl Sandbox {
    /// There is none.
    ///
    /// # Errors
    /// Always.
    pub fn find() -> Result<Self, Unavailable> {
        Err(Unavailable {
            problem: "the sandbox is made of parts that only Linux has".into(),
            remedy: "Code rewards need Linux: run them in a virtual machine or a container".into(),
        })
    }

    /// There is none.
    ///
    /// # Errors
    /// Always.
    pub fn of_tier(_: Tier) -> Result<Self, Unavailable> {
        Self::find()
    }

    /// Who makes the namespaces.
    pub fn tier(&self) -> Tier {
        match self.0 {}
    }

    /// Tries to escape.
    pub fn self_test(&self) -> Vec<Attempt> {
        match self.0 {}
    }

    /// Describes its walls in a line.
    pub fn describe(&self) -> String {
        match self.0 {}
    }
}

/// A program in a jail; there is none on this system.
#[derive(Debug)]
pub struct Jail(Infallible);

impl Jail {
    /// Starts a program.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(sandbox: &Sandbox, _: &Program) -> Result<Self, Error> {
        match sandbox.0 {}
    }

    /// The program's standard streams, once.
    pub fn streams(&mut self) -> Option<(ChildStdin, ChildStdout, ChildStderr)> {
        match self.0 {}
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> Ending {
        match self.0 {}
    }

    /// Waits for its end, so long at most.
    pub fn wait_for(&mut self, _: Duration) -> Option<Ending> {
        match self.0 {}
    }

    /// Ends it.
    pub fn end(&mut self) -> Ending {
        match self.0 {}
    }
}

/// Ends all jails, of which there are none.
pub fn kill_all() {}
