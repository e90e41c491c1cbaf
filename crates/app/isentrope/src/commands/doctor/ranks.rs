//! `isentrope doctor` under a launcher: the ranks, their machines, and the links between them.

use crate::memory::human;
use crate::ranks::Ranks;
use anyhow::Result;
use isentrope_ranks::Node;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// The ranks of a job.
#[derive(Serialize)]
pub struct RanksReport {
    /// The library that moves their bytes, as it calls itself.
    library: String,
    library_path: String,
    launcher: String,
    ranks: Vec<RankReport>,
    /// The directory in which the command was started.
    directory: String,
    /// Ranks that see another directory there; none where nothing can be written to it.
    without_directory: Option<Vec<usize>>,
}

#[derive(Serialize)]
struct RankReport {
    host: String,
    threads: usize,
    processors: Option<usize>,
    /// Its part of what its machine has available.
    memory_bytes: u64,
    /// Measured on all ranks at once, as they work.
    training_gflop_per_s: f64,
    /// Each direction, to a rank.
    neighbours: Vec<Neighbour>,
}

#[derive(Serialize)]
struct Neighbour {
    rank: usize,
    gb_per_s: f64,
}

/// A rank's description of itself for the others.
#[derive(Serialize, Deserialize)]
struct RankSpeed {
    threads: usize,
    training_gflop_per_s: f64,
}

impl RanksReport {
    /// The findings of all ranks, on each of them; none for a single process.
    pub fn gather(ranks: &Ranks, training_gflop_per_s: f64) -> Result<Option<Self>> {
        let world = &ranks.world;
        let Some(library) = world.library() else { return Ok(None) };
        let own = RankSpeed { threads: ranks.threads, training_gflop_per_s };
        let owns = world.gather(&serde_json::to_vec(&own)?)?;
        let owns: Vec<RankSpeed> =
            owns.iter().map(|own| serde_json::from_slice(own)).collect::<Result<_, _>>()?;
        let speeds = world.bandwidth()?;
        let nodes = Node::of(world.places());
        let node_of = |rank| nodes.iter().find(|node| node.ranks.contains(&rank));
        let reports = world.places().iter().zip(&owns).zip(&speeds).enumerate().map(
            |(rank, ((place, own), speeds))| {
                let neighbour = |(level, speed): (usize, &Option<f64>)| {
                    speed
                        .map(|speed| Neighbour { rank: rank ^ (1 << level), gb_per_s: speed / 1e9 })
                };
                RankReport {
                    host: place.host.clone(),
                    threads: own.threads,
                    processors: node_of(rank).and_then(|node| node.processors),
                    memory_bytes: node_of(rank).map_or(0, Node::memory_of_each),
                    training_gflop_per_s: own.training_gflop_per_s,
                    neighbours: speeds.iter().enumerate().filter_map(neighbour).collect(),
                }
            },
        );
        Ok(Some(Self {
            library: library.version.clone(),
            library_path: library.path.clone(),
            launcher: library.launcher.clone(),
            ranks: reports.collect(),
            directory: std::env::current_dir()
                .map_or_else(|_| ".".into(), |dir| dir.display().to_string()),
            without_directory: world.without_directory(Path::new("."))?,
        }))
    }
}

impl fmt::Display for RanksReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  ranks             {} over {} ({})",
            self.ranks.len(),
            self.library,
            self.library_path
        )?;
        let host =
            self.ranks.iter().map(|rank| rank.host.chars().count()).max().unwrap_or(0).max(4);
        writeln!(
            f,
            "    rank  {:<host$}  threads  memory     training      to ranks, GB/s",
            "host"
        )?;
        for (number, rank) in self.ranks.iter().enumerate() {
            let processors =
                rank.processors.map_or(String::new(), |processors| format!("/{processors}"));
            let neighbours: Vec<String> = rank
                .neighbours
                .iter()
                .map(|to| format!("{}: {:.1}", to.rank, to.gb_per_s))
                .collect();
            writeln!(
                f,
                "    {number:<4}  {:<host$}  {:<7}  {:<9}  {:>4.0} GFLOP/s  {}",
                rank.host,
                format!("{}{processors}", rank.threads),
                human(usize::try_from(rank.memory_bytes).unwrap_or(usize::MAX)),
                rank.training_gflop_per_s,
                neighbours.join(", ")
            )?;
        }
        match &self.without_directory {
            None => writeln!(
                f,
                "  shared directory  unknown: nothing can be written to {}",
                self.directory
            ),
            Some(none) if none.is_empty() => {
                writeln!(f, "  shared directory  yes: all ranks see {}", self.directory)
            }
            Some(blind) => writeln!(
                f,
                "  shared directory  no: not in {} for rank {}; run.out must be one that all see",
                self.directory,
                blind.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            ),
        }
    }
}
