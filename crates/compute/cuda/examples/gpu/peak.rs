//! Measures the memory that some work takes. The device itself is asked, for our programs and
//! others.

use isentrope_cuda::Device;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Interval between readings of the device's memory. Programs keep memory far longer than this, so
/// the readings miss hardly any.
const EVERY: Duration = Duration::from_millis(10);

/// The most bytes of a device that all processes together take while work is done, beyond those
/// taken when `free` bytes were free.
pub fn most_taken<T>(device: &dyn Device, free: usize, work: impl FnOnce() -> T) -> (T, usize) {
    /// Ends the readings, also if the work panics.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let least_free = scope.spawn(|| {
            let mut least = device.memory_info().free;
            while !is_over.load(Ordering::Relaxed) {
                thread::sleep(EVERY);
                least = least.min(device.memory_info().free);
            }
            least
        });
        let over = Over(&is_over);
        let done = work();
        drop(over);
        let least = least_free.join().expect("a device that answers");
        (done, free.saturating_sub(least))
    })
}
