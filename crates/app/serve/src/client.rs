//! The connection of a client, which may close its side before it has its answer.

use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Looks after a client's last bytes of which one must find its side closed for it to wait for the
/// answer, as `nc -N` and scripts of HTTP/1.0 do at once. A client that closes later has left. They
/// are counted, not timed: a server that stalls between them does not take the one for the other.
const LOOKS_TO_CLOSE: usize = 3;

/// A client's connection, shared by those who read and write and those who watch it.
#[derive(Clone)]
pub(crate) struct Client(Arc<Shared>);

struct Shared {
    stream: TcpStream,
    /// Looks since bytes came last.
    looks: AtomicUsize,
    /// Whether the client has closed its side and waits for its answer.
    waits: AtomicBool,
    /// Whether nothing more is read.
    is_deaf: AtomicBool,
}

impl Client {
    pub fn new(stream: TcpStream) -> Self {
        let (waits, is_deaf) = (AtomicBool::new(false), AtomicBool::new(false));
        Self(Arc::new(Shared { stream, looks: AtomicUsize::new(0), waits, is_deaf }))
    }

    /// Looks whether the client has left: its connection is broken, or it has closed its side too
    /// many looks after its last bytes to wait for an answer.
    pub fn has_left(&self) -> bool {
        let Shared { stream, looks, waits, .. } = &*self.0;
        let is_early = looks.fetch_add(1, Ordering::Relaxed) < LOOKS_TO_CLOSE;
        match recv(stream, &mut [0], RecvFlags::PEEK) {
            Ok((_, 0)) => !waits.fetch_or(is_early, Ordering::Relaxed) && !is_early,
            Ok(_) => false,
            Err(error) => error != Errno::AGAIN && error != Errno::INTR,
        }
    }

    /// Reads nothing more: it is as if the client had closed its side.
    pub fn stop_reading(&self) {
        self.0.is_deaf.store(true, Ordering::Relaxed);
    }
}

impl AsyncRead for Client {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Shared { stream, looks, is_deaf, .. } = &*self.0;
        while !is_deaf.load(Ordering::Relaxed) {
            ready!(stream.poll_read_ready(context))?;
            match stream.try_read(into.initialize_unfilled()) {
                Ok(length) => {
                    into.advance(length);
                    if length > 0 {
                        looks.store(0, Ordering::Relaxed);
                    }
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Client {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let stream = &self.0.stream;
        loop {
            ready!(stream.poll_write_ready(context))?;
            match stream.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(shutdown(&self.0.stream, Shutdown::Write).map_err(Into::into))
    }
}
