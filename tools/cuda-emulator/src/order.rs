//! Finds work of one stream on memory that the other stream may still use: on a GPU it would be
//! carried out before, after or beside the other's. Calls are carried out at once here, so that no
//! number would show it.

use std::collections::HashMap;

/// The calls of the device's two streams.
#[derive(Default)]
pub(crate) struct Order {
    /// Whether there is a second stream.
    are_two: bool,
    /// The calls of each stream so far.
    calls: [u64; 2],
    /// The calls of the other stream that each stream comes behind.
    behind: [u64; 2],
    /// The stream and the call that used each memory last, by its address.
    last: HashMap<u64, (usize, u64)>,
}

impl Order {
    /// There are two streams from now on.
    pub(crate) fn begin(&mut self) {
        self.are_two = true;
    }

    /// Notes the next call of a stream, which uses these memories.
    ///
    /// # Errors
    /// A sentence: the stream does not come behind the other's use of one of them.
    pub(crate) fn used(
        &mut self,
        stream: usize,
        memories: impl IntoIterator<Item = u64>,
    ) -> Result<(), String> {
        if !self.are_two {
            return Ok(());
        }
        self.calls[stream] += 1;
        for memory in memories {
            let now = (stream, self.calls[stream]);
            if let Some((other, call)) = self.last.insert(memory, now)
                && other != stream
                && call > self.behind[stream]
            {
                return Err(format!(
                    "stream {stream} uses memory at {memory:#x} without having waited for stream \
                     {other}, which used it in its call {call}"
                ));
            }
        }
        Ok(())
    }

    /// The second stream waits for the first one's calls so far.
    pub(crate) fn follow(&mut self) {
        self.behind[1] = self.calls[0];
    }

    /// The host has waited for a stream: what either is asked for from now on comes later.
    pub(crate) fn waited_for(&mut self, stream: usize) {
        self.behind[1 - stream] = self.calls[stream];
    }

    /// Memory is handed out, which nothing has used.
    pub(crate) fn allocated(&mut self, memory: u64) {
        self.last.remove(&memory);
    }
}
