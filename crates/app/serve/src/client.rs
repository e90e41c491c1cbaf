//! The connection of a client, which may close its side before it has its answer.

use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Time after its request within which a client may close its side and still wait for the answer,
/// as `nc -N` and scripts of HTTP/1.0 do at once. A client that closes later has left.
const TO_CLOSE: Duration = Duration::from_millis(500);

/// A client's connection, shared by those who read and write and those who watch it.
#[derive(Clone)]
pub(crate) struct Client(Arc<Shared>);

struct Shared {
    stream: TcpStream,
    /// When bytes came last.
    arrived: Mutex<Instant>,
    /// Whether the client has closed its side and waits for its answer.
    waits: AtomicBool,
    /// Whether nothing more is read.
    is_deaf: AtomicBool,
}

impl Client {
    pub fn new(stream: TcpStream) -> Self {
        let (waits, is_deaf) = (AtomicBool::new(false), AtomicBool::new(false));
        Self(Arc::new(Shared { stream, arrived: Mutex::new(Instant::now()), waits, is_deaf }))
    }

    /// Whether the client has left: its connection is broken, or it has closed its side too long
    /// after its last bytes to wait for an answer.
    pub fn has_left(&self) -> bool {
        let Shared { stream, arrived, waits, .. } = &*self.0;
        match recv(stream, &mut [0], RecvFlags::PEEK) {
            Ok((_, 0)) => {
                let ago = arrived.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
                !waits.fetch_or(ago < TO_CLOSE, Ordering::Relaxed) && ago >= TO_CLOSE
            }
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
        let Shared { stream, arrived, is_deaf, .. } = &*self.0;
        while !is_deaf.load(Ordering::Relaxed) {
            ready!(stream.poll_read_ready(context))?;
            match stream.try_read(into.initialize_unfilled()) {
                Ok(length) => {
                    into.advance(length);
                    *arrived.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
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
