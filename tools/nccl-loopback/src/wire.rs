//! Sockets between the ranks of a communicator: one for each direction of each pair. A message goes
//! one way, and the answer that it was taken comes back.

use crate::communicator::{Settings, Shared};
use crate::result::{INVALID_USAGE, REMOTE_ERROR, SYSTEM_ERROR};
use std::ffi::c_int;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// Time of one call of the system's, after which a rank looks whether it was aborted.
const PATIENCE: Duration = Duration::from_millis(5);
/// Pause between two tries to connect.
const PAUSE: Duration = Duration::from_micros(200);
/// Longest name of a device.
const NAME: usize = 1024;
/// The answer to a message.
const TAKEN: [u8; 1] = [1];

/// A code of the library's.
type Result<T> = std::result::Result<T, c_int>;

/// The sockets of a rank, `[ranks]`; none to itself.
pub(crate) struct Sockets {
    pub to: Vec<Option<UnixStream>>,
    pub from: Vec<Option<UnixStream>>,
    path: PathBuf,
}

impl Drop for Sockets {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path); // it lies among temporary files
    }
}

impl Sockets {
    /// Meets all ranks.
    pub(crate) fn connect(settings: &Settings, shared: &Shared) -> Result<Self> {
        let Settings { name, rank, ranks, device } = settings;
        let path = |rank: usize| std::env::temp_dir().join(format!("{name}.{rank}"));
        // Another one of this rank is there already.
        let listener = UnixListener::bind(path(*rank)).map_err(|error| match error.kind() {
            ErrorKind::AddrInUse => INVALID_USAGE,
            _ => SYSTEM_ERROR,
        })?;
        let none = || (0..*ranks).map(|_| None).collect::<Vec<Option<UnixStream>>>();
        let mut sockets = Self { to: none(), from: none(), path: path(*rank) };
        for peer in (0..*ranks).filter(|peer| peer != rank) {
            let socket = loop {
                match UnixStream::connect(path(peer)) {
                    Ok(socket) => break socket,
                    Err(_) => shared.pause(PAUSE)?,
                }
            };
            prepare(&socket)?;
            let mut hello = Vec::new();
            for number in [*rank, *ranks, device.len()] {
                hello.extend((number as u64).to_le_bytes());
            }
            hello.extend(device.as_bytes());
            write(&socket, &hello, shared)?;
            sockets.to[peer] = Some(socket);
        }
        listener.set_nonblocking(true).map_err(|_| SYSTEM_ERROR)?;
        for _ in 1..*ranks {
            let socket = loop {
                match listener.accept() {
                    Ok((socket, _)) => break socket,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => shared.pause(PAUSE)?,
                    Err(_) => return Err(SYSTEM_ERROR),
                }
            };
            socket.set_nonblocking(false).map_err(|_| SYSTEM_ERROR)?;
            prepare(&socket)?;
            let mut numbers = [0; 24];
            read(&socket, &mut numbers, shared)?;
            let [peer, of, length] = [0, 8, 16].map(|at| number(&numbers[at..]));
            if of != *ranks || peer >= of || length > NAME || sockets.from[peer].is_some() {
                return Err(INVALID_USAGE);
            }
            let mut other = vec![0; length];
            read(&socket, &mut other, shared)?;
            if other == device.as_bytes() {
                return Err(INVALID_USAGE);
            }
            sockets.from[peer] = Some(socket);
        }
        Ok(sockets)
    }
}

fn prepare(socket: &UnixStream) -> Result<()> {
    let set = socket
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| socket.set_write_timeout(Some(PATIENCE)));
    set.map_err(|_| SYSTEM_ERROR)
}

fn number(bytes: &[u8]) -> usize {
    bytes.first_chunk().map_or(usize::MAX, |eight| u64::from_le_bytes(*eight) as usize)
}

/// Sends a message, and waits until it was taken.
pub(crate) fn send(socket: &UnixStream, kind: c_int, bytes: &[u8], shared: &Shared) -> Result<()> {
    write(socket, &(kind as u64).to_le_bytes(), shared)?;
    write(socket, &(bytes.len() as u64).to_le_bytes(), shared)?;
    write(socket, bytes, shared)?;
    read(socket, &mut TAKEN.clone(), shared)
}

/// Receives a message of this type and length.
pub(crate) fn receive(
    socket: &UnixStream,
    kind: c_int,
    bytes: &mut [u8],
    shared: &Shared,
) -> Result<()> {
    let mut header = [0; 16];
    read(socket, &mut header, shared)?;
    if number(&header) != kind as usize || number(&header[8..]) != bytes.len() {
        return Err(INVALID_USAGE);
    }
    read(socket, bytes, shared)?;
    write(socket, &TAKEN, shared)
}

fn read(mut socket: &UnixStream, mut bytes: &mut [u8], shared: &Shared) -> Result<()> {
    while !bytes.is_empty() {
        match socket.read(bytes) {
            Ok(0) => return Err(REMOTE_ERROR),
            Ok(count) => bytes = &mut bytes[count..],
            Err(error) => go_on(&error, shared)?,
        }
    }
    Ok(())
}

fn write(mut socket: &UnixStream, mut bytes: &[u8], shared: &Shared) -> Result<()> {
    while !bytes.is_empty() {
        match socket.write(bytes) {
            Ok(0) => return Err(REMOTE_ERROR),
            Ok(count) => bytes = &bytes[count..],
            Err(error) => go_on(&error, shared)?,
        }
    }
    Ok(())
}

/// Whether to try again.
fn go_on(error: &std::io::Error, shared: &Shared) -> Result<()> {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {
            shared.pause(Duration::ZERO)
        }
        _ => Err(REMOTE_ERROR),
    }
}

impl Shared {
    /// Waits a little, unless the communicator was aborted.
    fn pause(&self, time: Duration) -> Result<()> {
        if self.is_aborted() {
            return Err(REMOTE_ERROR);
        }
        thread::sleep(time);
        Ok(())
    }
}
