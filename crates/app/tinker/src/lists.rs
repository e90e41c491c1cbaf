//! Lists of runs and of their saved weights, newest first, as the client's `RestClient` and its
//! command line ask for them. A run is a model in training, or a directory of saved weights.

use crate::error::{Failure, Result};
use crate::site::Tinker;
use crate::store::{Kind, SavedWeights};
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::SystemTime;

/// The part of a list that a request wants.
#[derive(Clone, Copy)]
struct Page {
    offset: usize,
    limit: usize,
}

impl Page {
    /// Reads a query; without a limit it has this one.
    fn parse(query: &str, limit: usize) -> Result<Self> {
        let mut page = Self { offset: 0, limit };
        for pair in query.split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let number = match key {
                "offset" => &mut page.offset,
                "limit" => &mut page.limit,
                _ => continue,
            };
            *number = value.parse().map_err(|_| {
                Failure::user(format!("{key} is {value:?}: give a whole number from 0"))
            })?;
        }
        Ok(page)
    }

    /// The items of the page, and the place of the page in the list.
    fn cut<T>(self, all: Vec<T>) -> (Vec<T>, Value) {
        let Self { offset, limit } = self;
        let cursor = json!({"offset": offset, "limit": limit, "total_count": all.len()});
        (all.into_iter().skip(offset).take(limit).collect(), cursor)
    }
}

fn written(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn checkpoint(saved: &SavedWeights) -> Value {
    let path = &saved.path;
    json!({
        "checkpoint_id": path.id(),
        "checkpoint_type": if path.kind() == Kind::Training { "training" } else { "sampler" },
        "time": written(saved.time),
        "tinker_path": path.to_string(),
        "size_bytes": saved.bytes,
        "public": false,
    })
}

/// A run, and the time of its last request.
struct Run {
    time: SystemTime,
    json: Value,
}

impl Tinker {
    /// The answer to a request for a list, or for an item of one; none if the path is none of
    /// theirs.
    pub fn list(&self, path: &str, query: &str) -> Result<Option<Value>> {
        let answer = match path {
            "training_runs" => {
                let page = Page::parse(query, 20)?;
                let live = self.sessions.models().into_iter().map(|(id, ..)| id);
                let all: BTreeSet<String> = live.chain(self.store.runs()?).collect();
                // One that cannot be read, or goes meanwhile, hides no other.
                let mut runs: Vec<Run> =
                    all.iter().filter_map(|id| self.run(id).ok().flatten()).collect();
                runs.sort_by_key(|run| Reverse(run.time));
                let (runs, cursor) = page.cut(runs);
                let runs: Vec<Value> = runs.into_iter().map(|run| run.json).collect();
                json!({"training_runs": runs, "cursor": cursor})
            }
            "checkpoints" => {
                let page = Page::parse(query, 100)?;
                let of_runs = self.store.runs()?.into_iter().map(|run| self.store.saved(&run));
                let mut all = of_runs.collect::<Result<Vec<_>>>()?.concat();
                all.sort_by_key(|saved| Reverse(saved.time));
                let (saved, cursor) = page.cut(all);
                let saved: Vec<Value> = saved.iter().map(checkpoint).collect();
                json!({"checkpoints": saved, "cursor": cursor})
            }
            _ => {
                let Some(run) = path.strip_prefix("training_runs/") else { return Ok(None) };
                let (id, rest) = run.split_once('/').unwrap_or((run, ""));
                let found = self.run(id)?.ok_or_else(|| {
                    Failure::unknown(format!("there is no training run {id} on this server"))
                })?;
                match rest {
                    "" => found.json,
                    "checkpoints" => {
                        let saved: Vec<Value> =
                            self.store.saved(id)?.iter().map(checkpoint).collect();
                        json!({"checkpoints": saved})
                    }
                    _ => return Ok(None),
                }
            }
        };
        Ok(Some(answer))
    }

    /// A run; none if it is neither in training nor has saved weights.
    fn run(&self, id: &str) -> Result<Option<Run>> {
        let saved = self.store.saved(id)?;
        let last = |kind| saved.iter().find(|saved| saved.path.kind() == kind).map(checkpoint);
        let live = self.sessions.models().into_iter().find(|(model, ..)| model == id);
        let (base_model, rank, heard) = match (live, saved.first()) {
            (Some((_, rank, heard)), _) => {
                (self.settings.name.clone(), rank, SystemTime::now() - heard.elapsed())
            }
            (None, Some(newest)) => {
                let (state, adapter) = self.store.read(&newest.path)?;
                (state.base_model, adapter.map(|config| config.rank), newest.time)
            }
            (None, None) => return Ok(None),
        };
        let time = saved.first().map_or(heard, |newest| newest.time.max(heard));
        let json = json!({
            "training_run_id": id,
            "base_model": base_model,
            "model_owner": "local",
            "is_lora": rank.is_some(),
            "lora_rank": rank,
            "last_request_time": written(time),
            "last_checkpoint": last(Kind::Training),
            "last_sampler_checkpoint": last(Kind::Sampler),
        });
        Ok(Some(Run { time, json }))
    }
}
