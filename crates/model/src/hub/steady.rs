//! Connections that are open and bring next to nothing.

use std::io::{self, ErrorKind, Read};
use std::time::{Duration, Instant};

use super::HubConfig;

/// A reader that fails when it has been slower than [`HubConfig::min_speed`] for [`HubConfig::timeout`].
pub(super) struct Steady<R> {
    inner: R,
    min_speed: u64,
    window: Duration,
    start: Instant,
    /// Bytes since `start`.
    received: u64,
}

impl<R> Steady<R> {
    pub fn new(inner: R, config: &HubConfig) -> Self {
        let &HubConfig { min_speed, timeout: window, .. } = config;
        Self { inner, min_speed, window, start: Instant::now(), received: 0 }
    }
}

impl<R: Read> Read for Steady<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.received += read as u64;
        let elapsed = self.start.elapsed();
        if read > 0 && elapsed >= self.window {
            if is_slow(self.received, elapsed, self.min_speed) {
                let what = format!("fewer than {} bytes a second arrive", self.min_speed);
                return Err(io::Error::new(ErrorKind::TimedOut, what));
            }
            (self.start, self.received) = (Instant::now(), 0);
        }
        Ok(read)
    }
}

/// Whether so many bytes in this time are fewer than `min_speed` a second.
pub(super) fn is_slow(bytes: u64, time: Duration, min_speed: u64) -> bool {
    (bytes as f64) < min_speed as f64 * time.as_secs_f64()
}
