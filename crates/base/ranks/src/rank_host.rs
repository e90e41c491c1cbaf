//! The machines that ranks run on, and what each rank may use there.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// A rank's machine, and what the rank may use of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankHost {
    /// Name of its host.
    pub host: String,
    /// The machine's boot id, which tells machines of one name apart; empty if it cannot be read.
    pub boot: String,
    /// Its process.
    pub process: u32,
    /// Threads that it computes with.
    pub threads: usize,
    /// Processors that the rank may use, as a list such as `0-3,8`; empty if the list cannot be
    /// read.
    pub processors: String,
    /// Processors of the process that started the rank. Launchers bind ranks to some of them.
    pub launcher_processors: String,
    /// Most threads of the rank that run at a time, by `processors` and the control group's quota;
    /// none if unknown.
    pub parallelism: Option<usize>,
}

impl RankHost {
    /// This process's.
    pub fn here(threads: usize) -> Self {
        let read =
            |path: &str| std::fs::read_to_string(path).map(|text| text.trim().to_owned()).ok();
        Self {
            host: host(),
            boot: read("/proc/sys/kernel/random/boot_id").unwrap_or_default(),
            process: std::process::id(),
            threads,
            processors: processors_of("self"),
            launcher_processors: processors_of(&std::os::unix::process::parent_id().to_string()),
            parallelism: std::thread::available_parallelism().ok().map(usize::from),
        }
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
    /// Most threads of these ranks that run at a time, if known: their processors together, or the
    /// quota.
    pub processors: Option<usize>,
    /// The number of processors if no launcher bound ranks to some.
    pub unbound: Option<usize>,
}

impl Node {
    /// The machines of all ranks, in the order of their first ranks.
    pub fn of(hosts: &[RankHost]) -> Vec<Self> {
        let mut nodes: Vec<Vec<(usize, &RankHost)>> = Vec::new();
        for (rank, place) in hosts.iter().enumerate() {
            let same = |other: &RankHost| (&other.host, &other.boot) == (&place.host, &place.boot);
            match nodes.iter_mut().find(|node| same(node[0].1)) {
                Some(node) => node.push((rank, place)),
                None => nodes.push(vec![(rank, place)]),
            }
        }
        nodes.iter().map(|ranks| Self::shared_by(ranks)).collect()
    }

    fn shared_by(ranks: &[(usize, &RankHost)]) -> Self {
        let hosts = || ranks.iter().map(|(_, place)| *place);
        let (bound, of_all_launchers): (BTreeSet<usize>, BTreeSet<usize>) = (
            hosts().flat_map(|place| numbers(&place.processors)).collect(),
            hosts().flat_map(|place| numbers(&place.launcher_processors)).collect(),
        );
        // A rank that can run fewer threads than it has processors has a quota, which the ranks of
        // a machine share.
        let quota = hosts()
            .filter_map(|place| {
                place.parallelism.filter(|&most| most < numbers(&place.processors).len())
            })
            .min();
        let at_a_time = |processors: &BTreeSet<usize>| {
            (!processors.is_empty()).then(|| processors.len().min(quota.unwrap_or(usize::MAX)))
        };
        Self {
            host: ranks[0].1.host.clone(),
            ranks: ranks.iter().map(|(rank, _)| *rank).collect(),
            threads: hosts().map(|place| place.threads).sum(),
            processors: at_a_time(&bound),
            unbound: at_a_time(&bound.union(&of_all_launchers).copied().collect()),
        }
    }

    /// A note to the user, if the node's ranks have more threads than processors, or fewer than
    /// they could use.
    pub fn note(&self) -> Option<ThreadNote<'_>> {
        let crowded = self.processors.filter(|&processors| self.threads > processors);
        let spare = || self.unbound.filter(|&processors| self.threads < processors);
        Some(ThreadNote { node: self, processors: crowded.or_else(spare)? })
    }
}

/// A note that the ranks of a machine have more or fewer threads than it has processors.
#[derive(Clone, Copy, Debug)]
pub struct ThreadNote<'a> {
    node: &'a Node,
    processors: usize,
}

impl fmt::Display for ThreadNote<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Node { host, ranks, threads, .. } = self.node;
        let processors = self.processors;
        let ranks =
            if ranks.len() == 1 { "1 rank".into() } else { format!("{} ranks", ranks.len()) };
        write!(f, "{host}: {ranks} with {threads} threads on {processors} processors; ")?;
        if *threads < processors {
            f.write_str("where --threads has not asked for that, Open MPI has bound each rank to a core: mpirun --bind-to none")
        } else {
            f.write_str(
                "they take turns: give each rank fewer threads (--threads), or start fewer ranks \
                 there",
            )
        }
    }
}

/// The processors that a process may use, as Linux lists them; empty on other systems.
fn processors_of(process: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.unwrap_or_default().trim().to_owned()
}

/// Largest processor number that is believed.
const MOST_PROCESSORS: usize = 1 << 16;

/// The numbers in a list such as `0-3,8`; none if the text is no such list.
fn numbers(list: &str) -> BTreeSet<usize> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        (last < MOST_PROCESSORS).then_some(first..=last)
    };
    list.split(',').map(range).collect::<Option<Vec<_>>>().into_iter().flatten().flatten().collect()
}

/// The name of this machine.
pub fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(host: &str, boot: &str, threads: usize) -> RankHost {
        RankHost {
            host: host.into(),
            boot: boot.into(),
            process: 7,
            threads,
            processors: "0-3".into(),
            launcher_processors: "0-3".into(),
            parallelism: Some(4),
        }
    }

    #[test]
    fn ranks_share_a_node_that_has_the_same_name_and_was_started_once() {
        let hosts =
            [place("a", "1", 2), place("b", "2", 1), place("a", "1", 1), place("a", "3", 4)];
        let nodes = Node::of(&hosts);
        let ranks: Vec<_> =
            nodes.iter().map(|node| (node.host.as_str(), node.ranks.as_slice())).collect();
        assert_eq!(ranks, [("a", &[0, 2][..]), ("b", &[1]), ("a", &[3])]);
        assert_eq!(nodes[0].threads, 3);
        assert!(nodes[0].note().unwrap().to_string().contains("--bind-to none"));
        assert!(nodes[2].note().is_none());
    }

    #[test]
    fn processors_are_listed() {
        assert_eq!(numbers("0-3,8,10-11").into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(numbers("0").len(), 1);
        for none in ["", "3-1", "x", "0-18446744073709551615"] {
            assert!(numbers(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn threads_are_measured_by_what_masks_and_quotas_leave() {
        let node = |ranks: &[(&str, usize)], launcher_processors: &str| {
            let hosts = ranks.iter().map(|(processors, at_a_time)| RankHost {
                processors: (*processors).into(),
                launcher_processors: launcher_processors.into(),
                parallelism: Some(*at_a_time),
                ..place("a", "1", *at_a_time)
            });
            Node::of(&hosts.collect::<Vec<_>>()).remove(0)
        };
        let note = |node: &Node| node.note().map_or(String::new(), |note| note.to_string());
        // A container that may use two processors of 64 at a time: no binding would give it more.
        let quota = node(&[("0-63", 2); 4], "0-63");
        assert_eq!((quota.processors, quota.threads), (Some(2), 8));
        assert!(
            note(&quota).contains("8 threads on 2 processors")
                && note(&quota).contains("take turns")
        );
        assert!(note(&Node { threads: 2, ..quota }).is_empty());
        // One that has two of them.
        let set = node(&[("6-7", 2); 2], "6-7");
        assert_eq!(set.processors, Some(2));
        assert!(note(&Node { threads: 2, ..set }).is_empty());
        // Ranks that a launcher has bound.
        let bound = node(&[("0", 1), ("1", 1)], "0-63");
        assert_eq!(bound.processors, Some(2));
        assert!(
            note(&bound).contains("2 threads on 64 processors")
                && note(&bound).contains("--bind-to none")
        );
        let unknown = node(&[("", 2)], "");
        assert_eq!((unknown.processors, note(&unknown)), (None, String::new()));
    }
}
