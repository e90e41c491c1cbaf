//! Names that tell several runs apart.

use super::RunLog;
use std::collections::HashMap;
use std::path::Path;

/// A name for each run: its own, after as much of its path as makes all names distinct. All paths
/// are cut at one depth, so that seeds of a sweep are `grpo/1`, `kl-cov/1` and `kl-cov/2`, not `2`.
/// A number alone is no name.
pub fn labels(logs: &[&RunLog]) -> Vec<String> {
    let parts: Vec<Vec<String>> = logs.iter().map(|log| directories(log)).collect();
    let label = |i: usize, depth: usize| {
        let above = &parts[i][parts[i].len().saturating_sub(depth)..];
        let names = above.iter().map(String::as_str).chain([logs[i].name.as_str()]);
        names.collect::<Vec<_>>().join("/")
    };
    let is_number = |log: &&RunLog| log.name.bytes().all(|byte| byte.is_ascii_digit());
    let least: Vec<usize> = logs.iter().map(|log| usize::from(is_number(log))).collect();
    let mut needed: Vec<Option<usize>> = vec![None; logs.len()];
    let deepest = parts.iter().map(Vec::len).max().unwrap_or(0);
    for depth in 0..=deepest {
        let all: Vec<String> = (0..logs.len()).map(|i| label(i, depth)).collect();
        let mut count: HashMap<&str, usize> = HashMap::new();
        all.iter().for_each(|label| *count.entry(label).or_default() += 1);
        let is_alone = |i: usize| depth >= least[i] && count.get(&*all[i]) == Some(&1);
        (0..logs.len()).filter(|i| is_alone(*i)).for_each(|i| {
            needed[i].get_or_insert(depth);
        });
        if needed.iter().all(Option::is_some) {
            break;
        }
    }
    let needed: Vec<usize> =
        needed.iter().zip(least).map(|(n, least)| n.unwrap_or(least)).collect();
    let depth = needed.iter().copied().max().unwrap_or(0);
    let first = parts.first().map_or(&[][..], Vec::as_slice);
    let is_common = |n: &usize| parts.iter().all(|above| above.get(*n) == first.get(*n));
    let common = (0..first.len()).take_while(is_common).count();
    (0..logs.len()).map(|i| label(i, depth.min(parts[i].len() - common).max(needed[i]))).collect()
}

/// The directories above a run.
fn directories(log: &RunLog) -> Vec<String> {
    let path = log.path.canonicalize().unwrap_or_else(|_| log.path.clone());
    let names = path.parent().into_iter().flat_map(Path::iter);
    names.map(|name| name.to_string_lossy().into_owned()).filter(|name| name != "/").collect()
}
