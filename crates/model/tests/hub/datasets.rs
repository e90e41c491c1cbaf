//! Files of data sets.

use crate::hub::repository::{COMMIT, Entry, listing, more_weights, settings, weights};
use crate::hub::server::{Reply, Server};
use isentrope_model::hub::{HubConfig, dataset_files_with};
use std::fs;
use std::path::PathBuf;

fn entries() -> Vec<Entry> {
    vec![weights("main/test-0.jsonl"), more_weights("main/train-0.jsonl")]
}

/// A hub with one data set, `org/name`.
fn hub() -> Server {
    Server::start(|request| {
        if request.path == "/api/datasets/org/name/revision/main" {
            return listing(&["README.md", "main/test-0.jsonl", "main/train-0.jsonl"]);
        }
        let name = request.path.strip_prefix(&format!("/datasets/org/name/resolve/{COMMIT}/")[..]);
        let entries = entries();
        let Some(entry) = entries.iter().find(|entry| name == Some(entry.name)) else {
            return Reply::status(404);
        };
        let reply = Reply::ranged(request, &entry.body).header("ETag", format!("\"{}\"", entry.etag));
        reply.header("X-Repo-Commit", COMMIT)
    })
}

fn fetch(config: &HubConfig, id: &str, split: &str) -> Result<Vec<PathBuf>, String> {
    let select = |names: &[String]| {
        let chosen: Vec<String> = names.iter().filter(|name| name.contains(split)).cloned().collect();
        if chosen.is_empty() { Err(format!("no {split} among {} files", names.len())) } else { Ok(chosen) }
    };
    dataset_files_with(config, id, &select, &()).map_err(|error| error.to_string())
}

#[test]
fn the_chosen_files_are_downloaded_into_the_hubs_layout() {
    let (server, cache) = (hub(), tempfile::tempdir().unwrap());
    let config = settings(&server, cache.path());
    let files = fetch(&config, "org/name", "test").unwrap();
    let root = cache.path().join("datasets--org--name");
    assert_eq!(files, [root.join("snapshots").join(COMMIT).join("main/test-0.jsonl")]);
    assert_eq!(fs::read(&files[0]).unwrap(), entries()[0].body);
    assert_eq!(fs::read_to_string(root.join("refs/main")).unwrap(), COMMIT);
    assert!(server.matching("GET", "train-0.jsonl").is_empty());

    // A second call asks for the commit alone; offline nothing is asked.
    let before = server.requests().len();
    assert_eq!(fetch(&config, "org/name", "test").unwrap(), files);
    assert_eq!(server.requests().len(), before + 1);
    let offline = HubConfig { offline: true, ..settings(&server, cache.path()) };
    assert_eq!(fetch(&offline, "org/name", "test").unwrap(), files);
    assert_eq!(fetch(&offline, &format!("org/name@{COMMIT}"), "test").unwrap(), files);
    assert_eq!(server.requests().len(), before + 1);
}

#[test]
fn what_is_not_there_is_said() {
    let (server, cache) = (hub(), tempfile::tempdir().unwrap());
    let config = settings(&server, cache.path());
    let says = |config: &HubConfig, id: &str, split: &str, parts: &[&str]| {
        let error = fetch(config, id, split).unwrap_err();
        for part in parts {
            assert!(error.contains(part), "{part:?} is not in: {error}");
        }
    };
    says(&config, "org/name", "validation", &["data set org/name", "no validation among 3 files"]);
    says(&config, "org/other", "test", &["data set org/other"]);
    says(&config, "no id", "test", &["is not the hub id of a data set"]);
    let offline = HubConfig { offline: true, ..settings(&server, cache.path()) };
    says(&offline, "org/name", "test", &["is not in the cache", "HF_HUB_OFFLINE"]);
    fetch(&config, "org/name", "test").unwrap();
    says(&offline, "org/name", "train", &["no train among 1 files", "HF_HUB_OFFLINE"]);
}

#[test]
fn an_unreachable_hub_leaves_the_cached_copy() {
    let cache = tempfile::tempdir().unwrap();
    let files = fetch(&settings(&hub(), cache.path()), "org/name", "test").unwrap();
    let server = Server::start(|_| Reply::status(503));
    assert_eq!(fetch(&settings(&server, cache.path()), "org/name", "test").unwrap(), files);
    assert_eq!(server.requests().len(), 1, "one attempt");
    assert!(fetch(&settings(&server, cache.path()), "org/name", "train").is_err());
}
