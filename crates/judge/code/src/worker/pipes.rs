//! The standard streams of a jail's server, read and written with a deadline.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::process::{ChildStderr, ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Most bytes per read: the capacity of a pipe.
const CHUNK: usize = 1 << 16;

/// The streams, and the bytes that are still to be written.
#[derive(Debug)]
pub struct Pipes {
    stdin: ChildStdin,
    stdout: ChildStdout,
    stderr: ChildStderr,
    outgoing: Vec<u8>,
    written: usize,
    chunk: Vec<u8>,
}

impl Pipes {
    /// Takes streams over.
    pub fn new(
        (stdin, stdout, stderr): (ChildStdin, ChildStdout, ChildStderr),
    ) -> io::Result<Self> {
        do_not_wait(&stdin)?;
        do_not_wait(&stdout)?;
        do_not_wait(&stderr)?;
        Ok(Self { stdin, stdout, stderr, outgoing: Vec::new(), written: 0, chunk: vec![0; CHUNK] })
    }

    /// The bytes to be written, for more to be appended.
    pub fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing
    }

    /// Writes as much as the other end takes now.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.written < self.outgoing.len() {
            match self.stdin.write(&self.outgoing[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.outgoing.clear();
        self.written = 0;
        Ok(())
    }

    /// Reads the available standard output. Waits until `deadline` at most, writes meanwhile, and
    /// returns nothing at the deadline.
    ///
    /// # Errors
    /// At the end of the stream, as [`ErrorKind::UnexpectedEof`], and when it cannot be read or
    /// written.
    pub fn read(&mut self, deadline: Instant) -> io::Result<&[u8]> {
        loop {
            self.flush()?;
            let now = Instant::now();
            let writes = self.written < self.outgoing.len();
            if !wait(
                &self.stdout,
                writes.then_some(&self.stdin),
                deadline.saturating_duration_since(now),
            )? && now >= deadline
            {
                return Ok(&[]);
            }
            match self.stdout.read(&mut self.chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => return Ok(&self.chunk[..count]),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The last bytes of the standard error so far.
    pub fn errors(&mut self) -> String {
        let mut bytes = Vec::new();
        // Reads the available bytes without waiting.
        let _ = self.stderr.by_ref().take(CHUNK as u64).read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
    }
}

fn do_not_wait(stream: &impl AsFd) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(stream, FcntlArg::F_GETFL)?);
    fcntl(stream, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

/// Whether something can be read or written within this time.
fn wait(output: &ChildStdout, input: Option<&ChildStdin>, time: Duration) -> io::Result<bool> {
    let mut streams = vec![PollFd::new(output.as_fd(), PollFlags::POLLIN)];
    streams.extend(input.map(|input| PollFd::new(input.as_fd(), PollFlags::POLLOUT)));
    // The time is rounded up, because poll would not wait at all with less than a millisecond.
    let timeout =
        PollTimeout::try_from(time + Duration::from_micros(999)).unwrap_or(PollTimeout::MAX);
    match poll(&mut streams, timeout) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
