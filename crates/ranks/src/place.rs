//! Where ranks run, and what each has there.

use std::fmt;

/// What a rank finds where it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of its host.
    pub host: String,
    /// Tells machines apart that have the same name; empty where that cannot be known.
    pub boot: String,
    /// Its process.
    pub process: u32,
    /// Threads that it computes with.
    pub threads: usize,
    /// Processors of its machine, whether it may use them or not; none where that cannot be known.
    pub processors: Option<usize>,
    /// Bytes of memory that its machine has available, for all ranks there together.
    pub memory: u64,
}

impl Place {
    /// This process's.
    pub fn here(threads: usize, memory: u64) -> Self {
        let read = |path: &str| std::fs::read_to_string(path).map(|text| text.trim().to_owned()).ok();
        Self {
            host: host(),
            boot: read("/proc/sys/kernel/random/boot_id").unwrap_or_default(),
            process: std::process::id(),
            threads,
            processors: read("/sys/devices/system/cpu/online").and_then(|list| count(&list)),
            memory,
        }
    }

    /// As a record, one value to a line.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Self { host, boot, process, threads, processors, memory } = self;
        let processors = processors.unwrap_or(0);
        let line = |text: &str| text.replace('\n', " ");
        format!("{}\n{}\n{process}\n{threads}\n{processors}\n{memory}", line(host), line(boot)).into_bytes()
    }

    /// None of bytes that are no place.
    pub(crate) fn decode(record: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(record).ok()?.split('\n');
        let place = Self {
            host: lines.next()?.to_owned(),
            boot: lines.next()?.to_owned(),
            process: lines.next()?.parse().ok()?,
            threads: lines.next()?.parse().ok()?,
            processors: lines.next()?.parse().ok().map(|count| (count > 0).then_some(count))?,
            memory: lines.next()?.parse().ok()?,
        };
        lines.next().is_none().then_some(place)
    }
}

/// A machine with the ranks that share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub host: String,
    /// Ranks there, in order.
    pub ranks: Vec<usize>,
    /// Threads of all of them.
    pub threads: usize,
    /// Processors that it has, if that is known.
    pub processors: Option<usize>,
    /// Bytes of memory available there, as the rank saw it that saw least.
    pub memory: u64,
}

impl Node {
    /// The machines of all ranks, in the order of their first ranks.
    pub fn of(places: &[Place]) -> Vec<Self> {
        let mut nodes: Vec<(&Place, Self)> = Vec::new();
        for (rank, place) in places.iter().enumerate() {
            let same = |other: &Place| (&other.host, &other.boot) == (&place.host, &place.boot);
            match nodes.iter_mut().find(|(first, _)| same(first)) {
                Some((_, node)) => {
                    node.ranks.push(rank);
                    node.threads += place.threads;
                    node.memory = node.memory.min(place.memory);
                }
                None => nodes.push((
                    place,
                    Self {
                        host: place.host.clone(),
                        ranks: vec![rank],
                        threads: place.threads,
                        processors: place.processors,
                        memory: place.memory,
                    },
                )),
            }
        }
        nodes.into_iter().map(|(_, node)| node).collect()
    }

    /// Bytes of memory for each of its ranks.
    pub fn memory_of_each(&self) -> u64 {
        self.memory / self.ranks.len() as u64
    }

    /// What should be said of its threads: ranks that are bound to few processors, or that crowd them.
    pub fn note(&self) -> Option<ThreadNote<'_>> {
        let processors = self.processors?;
        (self.threads != processors).then_some(ThreadNote { node: self, processors })
    }
}

/// That the ranks of a machine have more or fewer threads than it has processors.
#[derive(Clone, Copy, Debug)]
pub struct ThreadNote<'a> {
    node: &'a Node,
    processors: usize,
}

impl fmt::Display for ThreadNote<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Node { host, ranks, threads, .. } = self.node;
        let processors = self.processors;
        let ranks = if ranks.len() == 1 { "1 rank".into() } else { format!("{} ranks", ranks.len()) };
        write!(f, "{host}: {ranks} with {threads} threads on {processors} processors; ")?;
        if *threads < processors {
            f.write_str("where --threads has not asked for that, Open MPI has bound each rank to a core: mpirun --bind-to none")
        } else {
            f.write_str(
                "they take turns: give each rank fewer threads (--threads), or start fewer ranks there",
            )
        }
    }
}

/// How many processors a list such as `0-3,8` has.
fn count(list: &str) -> Option<usize> {
    list.split(',')
        .map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            last.parse::<usize>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
        })
        .try_fold(0usize, |sum, count| sum.checked_add(count?))
}

/// The name of this machine.
#[cfg(unix)]
pub fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The name of this machine.
#[cfg(not(unix))]
pub fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "this machine".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place(host: &str, boot: &str, threads: usize) -> Place {
        Place {
            host: host.into(),
            boot: boot.into(),
            process: 7,
            threads,
            processors: Some(4),
            memory: 100 + threads as u64,
        }
    }

    #[test]
    fn ranks_share_a_node_that_has_the_same_name_and_was_started_once() {
        let places = [place("a", "1", 2), place("b", "2", 1), place("a", "1", 1), place("a", "3", 4)];
        let nodes = Node::of(&places);
        let ranks: Vec<_> = nodes.iter().map(|node| (node.host.as_str(), node.ranks.as_slice())).collect();
        assert_eq!(ranks, [("a", &[0, 2][..]), ("b", &[1]), ("a", &[3])]);
        assert_eq!((nodes[0].threads, nodes[0].memory, nodes[0].memory_of_each()), (3, 101, 50));
        assert!(nodes[0].note().unwrap().to_string().contains("--bind-to none"));
        assert!(nodes[2].note().is_none());
    }

    #[test]
    fn processors_are_counted() {
        assert_eq!(count("0-3,8,10-11"), Some(7));
        assert_eq!(count("0"), Some(1));
        assert_eq!(count(""), None);
        assert_eq!(count("3-1"), None);
        assert_eq!(count("0-18446744073709551615"), None);
    }

    proptest! {
        #[test]
        fn places_are_read_as_they_were_written(host in "\\PC*", threads in 1usize..99, noise in any::<Vec<u8>>()) {
            let written = place(&host, "x", threads);
            prop_assert_eq!(Place::decode(&written.encode()), Some(written));
            let _ = Place::decode(&noise);
        }
    }
}
