//! The room that a run's checkpoints need on the disk.

use crate::memory::human;
use isentrope_files::names;
use isentrope_lab::show::duration;
use isentrope_train::run::RunLocation;
use isentrope_train::trainer::{Prepared, Trainer};
use std::ffi::OsString;
use std::path::Path;

/// Bytes that a disk takes in a second: an assumption, which the plan says.
const SPEED: f64 = 1e9;

/// The room that checkpoints need, and the room that there is.
pub struct Room {
    /// Bytes of a checkpoint.
    each: usize,
    /// The ranks that write it.
    ranks: usize,
    /// Most bytes of it that a rank writes.
    of_rank: usize,
    /// The most checkpoints at a time.
    count: usize,
    /// The latest checkpoints that are kept (`checkpoint.keep`).
    keep: usize,
    /// The checkpoints that are there already.
    had: usize,
    /// Free bytes, if they are known.
    free: Option<usize>,
    dir: String,
}

impl Room {
    pub fn of<T: Trainer>(prepared: &Prepared<T>, place: &RunLocation) -> Self {
        let (each, count) = prepared.checkpoints();
        // A run that goes on replaces its checkpoints, and one that is overwritten loses them.
        let had = checkpoints(&place.dir);
        let ((ranks, of_rank), keep) = (prepared.checkpoint_of_rank(), prepared.kept_checkpoints());
        let (free, dir) = (free(&place.dir), place.dir.display().to_string());
        Self { each, ranks, of_rank, count, keep, had, free, dir }
    }

    /// The need of a run on other machines, whose disk is not known.
    pub fn elsewhere<T: Trainer>(prepared: &Prepared<T>, place: &RunLocation) -> Self {
        Self { free: None, ..Self::of(prepared, place) }
    }

    /// The need, as a line of the plan.
    pub fn line(&self) -> String {
        let Self { each, ranks, of_rank, count, dir, .. } = self;
        let most = if *count > 1 { format!(" each, at most {count} at a time") } else { "".into() };
        let free = self.free.map_or(String::new(), |free| format!(", {} are free", human(free)));
        let (all, own) = (seconds(*each), seconds(*of_rank));
        let written = match ranks {
            1 => format!("written in {all} at 1 GB/s (an assumption)"),
            _ => format!(
                "a rank writes up to {} of one, in {own} if it has 1 GB/s of a disk (an \
                 assumption), in {all} if all ranks share 1 GB/s",
                human(*of_rank)
            ),
        };
        format!("checkpoints: {}{most} in {dir}{free}; {written}", human(*each))
    }

    /// A warning, if there is too little room.
    pub fn warning(&self) -> Option<String> {
        let needed = self.each.saturating_mul(self.count.saturating_sub(self.had));
        let free = self.free.filter(|free| *free < needed)?;
        let fewer = if self.keep > 1 { ", or keep fewer (checkpoint.keep)" } else { "" };
        Some(format!(
            "checkpoints will need {} in {}, and {} are free: make room, or name another disk with \
             --set run.out=...{fewer}",
            human(needed),
            self.dir,
            human(free)
        ))
    }
}

/// The number of a run's checkpoints. Hidden names are what a killed run left.
fn checkpoints(dir: &Path) -> usize {
    let is_hidden = |name: &OsString| name.as_encoded_bytes().starts_with(b".");
    names(&dir.join("checkpoints"))
        .map_or(0, |names| names.iter().filter(|name| !is_hidden(name)).count())
}

/// The time that a disk takes to write some bytes.
fn seconds(bytes: usize) -> String {
    match bytes as f64 / SPEED {
        short if short < 1.0 => "less than 1 s".to_owned(),
        long => duration(long),
    }
}

/// Free bytes of the disk that a directory is on, or is to be on.
#[cfg(unix)]
fn free(dir: &Path) -> Option<usize> {
    let whole = std::path::absolute(dir).ok()?;
    let there = whole.ancestors().find(|dir| dir.exists())?;
    let disk = nix::sys::statvfs::statvfs(there).ok()?;
    usize::try_from(disk.blocks_available() as u64 * disk.fragment_size() as u64).ok()
}

#[cfg(not(unix))]
fn free(_: &Path) -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_comes_with_too_little_room() {
        let of = |free: usize, had: usize, keep: usize| Room {
            each: 3 << 30,
            ranks: 1,
            of_rank: 3 << 30,
            count: 4,
            keep,
            had,
            free: Some(free << 30),
            dir: "runs/a".into(),
        };
        let room = |free, had| of(free, had, 2);
        assert_eq!(
            room(20, 0).line(),
            "checkpoints: 3072 MiB each, at most 4 at a time in runs/a, 20.0 GiB are free; written \
             in 3.2 s at 1 GB/s (an assumption)"
        );
        let of_ranks = Room { ranks: 4, of_rank: 1 << 29, free: None, ..room(20, 0) }.line();
        let written = "in runs/a; a rank writes up to 512 MiB of one, in less than 1 s if it has \
                       1 GB/s of a disk (an assumption), in 3.2 s if all ranks share 1 GB/s";
        assert!(of_ranks.ends_with(written), "{of_ranks}");
        let large = Room { each: 600 << 30, ..room(20, 0) }.line();
        assert!(large.contains("written in 10 min 44 s"), "{large}");
        assert_eq!(room(12, 0).warning(), None);
        let said = room(11, 0).warning().unwrap();
        assert!(said.contains("need 12.0 GiB in runs/a, and 11.0 GiB are free"), "{said}");
        assert!(said.contains("checkpoint.keep"), "{said}");
        assert!(!of(11, 0, 1).warning().unwrap().contains("checkpoint.keep"));
        assert_eq!(room(11, 1).warning(), None); // one of them has its room
    }

    #[test]
    fn what_a_killed_run_left_is_no_checkpoint() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(checkpoints(dir.path()), 0);
        for step in ["step-000004", ".step-000008.partial"] {
            std::fs::create_dir_all(dir.path().join("checkpoints").join(step)).unwrap();
        }
        assert_eq!(checkpoints(dir.path()), 1);
    }

    #[cfg(unix)]
    #[test]
    fn the_room_of_a_directory_to_be_made_is_that_of_its_disk() {
        let here = free(Path::new("."));
        assert!(here.is_some_and(|bytes| bytes > 0));
        assert!(free(Path::new("not/there/yet")).is_some());
    }
}
