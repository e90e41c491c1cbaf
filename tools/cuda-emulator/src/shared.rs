//! Shared memory of the block that a worker runs.

use crate::memory::{LARGE, POISON};
use crate::random::Random;
use crate::region::{GUARD, Region};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;

/// Bytes of static shared memory that a kernel can have.
const STATIC_LIMIT: usize = 48 << 10;

/// The shared memory of one worker's blocks: each array between guard pages.
pub(crate) struct SharedMemory {
    arrays: RefCell<Arrays>,
}

#[derive(Default)]
struct Arrays {
    /// Shared variables of the launch's kernel.
    used: Vec<Array>,
    /// Shared variables of other kernels, by symbol and size.
    kept: HashMap<(usize, usize), Region>,
    /// The poison that the block's memory was filled with.
    poison: u8,
    limit: usize,
}

struct Array {
    site: usize,
    name: String,
    region: Region,
}

/// The declaration of dynamic shared memory, which has no size.
const DYNAMIC: usize = 0;

impl SharedMemory {
    pub(crate) fn new() -> Self {
        Self { arrays: RefCell::default() }
    }

    /// Prepares a launch with `dynamic` bytes of dynamic shared memory, of at most `limit` bytes in
    /// all.
    pub(crate) fn begin_launch(&self, dynamic: usize, limit: usize) -> io::Result<()> {
        let arrays = &mut *self.arrays.borrow_mut();
        for array in arrays.used.drain(..) {
            arrays.kept.insert((array.site, array.region.bytes()), array.region);
        }
        arrays.limit = limit;
        arrays.add(DYNAMIC, dynamic, "dynamic shared memory")
    }

    /// Before a block.
    pub(crate) fn begin_block(&self, random: &Random) {
        let mut arrays = self.arrays.borrow_mut();
        arrays.poison = if random.below(4) == 0 { LARGE } else { POISON };
        for array in &arrays.used {
            array.region.fill(arrays.poison);
        }
    }

    /// The array that is declared at `site`.
    ///
    /// # Errors
    /// When there is not so much shared memory.
    pub(crate) fn array(
        &self,
        site: usize,
        bytes: usize,
        name: impl FnOnce() -> String,
    ) -> Result<usize, String> {
        let mut arrays = self.arrays.borrow_mut();
        if let Some(array) = arrays.used.iter().find(|array| array.site == site) {
            return Ok(array.region.start());
        }
        let name = name();
        arrays.add(site, bytes, &name).map_err(|error| error.to_string())?;
        let sizes = |of: &dyn Fn(&Array) -> bool| -> usize {
            arrays
                .used
                .iter()
                .filter(|a| of(a))
                .map(|a| a.region.bytes().next_multiple_of(16))
                .sum()
        };
        let (fixed, all) = (sizes(&|array| array.site != DYNAMIC), sizes(&|_| true));
        if fixed > STATIC_LIMIT {
            return Err(format!(
                "its static shared memory has {fixed} bytes, of {STATIC_LIMIT} at most"
            ));
        }
        if all > arrays.limit {
            return Err(format!("its shared memory has {all} bytes, of {} at most", arrays.limit));
        }
        let array = &arrays.used[arrays.used.len() - 1];
        array.region.fill(arrays.poison);
        Ok(array.region.start())
    }

    /// The launch's dynamic shared memory.
    pub(crate) fn dynamic(&self) -> usize {
        self.arrays.borrow().used[0].region.start()
    }

    /// Whether these bytes are within one array.
    pub(crate) fn contains(&self, address: usize, bytes: usize) -> bool {
        let within = |array: &Array| {
            array.region.start() <= address && address + bytes <= array.region.end()
        };
        self.arrays.borrow().used.iter().any(within)
    }

    /// Whether an address is beside one of the arrays, up to the guard pages.
    pub(crate) fn is_near(&self, address: usize) -> bool {
        let near = |array: &Array| {
            array.region.start() - GUARD <= address && address < array.region.end() + GUARD
        };
        self.arrays.borrow().used.iter().any(near)
    }

    /// Where an address is, for people, if it is in or near one.
    pub(crate) fn describe(&self, address: usize) -> Option<String> {
        let arrays = self.arrays.borrow();
        let near = |array: &&Array| {
            array.region.start() - GUARD <= address && address < array.region.end() + GUARD
        };
        let array =
            arrays.used.iter().filter(near).min_by_key(|a| a.region.start().abs_diff(address))?;
        let (start, end, name) = (array.region.start(), array.region.end(), &array.name);
        let bytes = end - start;
        Some(if address < start {
            format!("{} bytes before the {bytes} bytes of {name} in shared memory", start - address)
        } else if address >= end {
            format!("{} bytes behind the {bytes} bytes of {name} in shared memory", address - end)
        } else {
            format!("byte {} of the {bytes} of {name} in shared memory", address - start)
        })
    }

    /// An array beside which something was written, after a block.
    pub(crate) fn damage(&self) -> Option<String> {
        self.arrays.borrow().used.iter().find_map(|array| {
            let at = array.region.damage()?;
            Some(format!(
                "something wrote to byte {at} of the {} of {}",
                array.region.bytes(),
                array.name
            ))
        })
    }
}

impl Arrays {
    fn add(&mut self, site: usize, bytes: usize, name: &str) -> io::Result<()> {
        let region = match self.kept.remove(&(site, bytes)) {
            Some(region) => region,
            None => Region::new(bytes)?,
        };
        self.used.push(Array { site, name: name.to_owned(), region });
        Ok(())
    }
}
