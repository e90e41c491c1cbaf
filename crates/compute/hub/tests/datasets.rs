//! Files of data sets.

use crate::repository::{COMMIT, Entry, listing, more_weights, serve_file, settings, weights};
use crate::server::{Reply, Server};
use isentrope_hub::{HubConfig, Names, dataset_files};
use std::fs;
use std::path::{Path, PathBuf};

const TEST: &str = "main/test-00000-of-00001.jsonl";
const TRAIN: [&str; 2] = ["main/train-00000-of-00002.jsonl", "main/train-00001-of-00002.jsonl"];

fn entries() -> Vec<Entry> {
    vec![weights(TEST), more_weights(TRAIN[0]), more_weights(TRAIN[1])]
}

/// A hub with one data set, `org/name`.
fn hub() -> Server {
    Server::start(|request| {
        let revision = request.path.strip_prefix("/api/datasets/org/name/revision/");
        if revision.is_some_and(|revision| ["main", COMMIT].contains(&revision)) {
            return listing(&["README.md", TEST, TRAIN[0], TRAIN[1]]);
        }
        serve_file(&entries(), request, &folder())
    })
}

/// The path of the data set's files on the hub.
fn folder() -> String {
    format!("/datasets/org/name/resolve/{COMMIT}/")
}

/// Fetches the files of a part of a data set, `org/name[@revision][:PART]`. Of a cache with unknown
/// files it takes only the whole training split.
fn fetch(config: &HubConfig, place: &str) -> Result<Vec<PathBuf>, String> {
    let (id, part) = place.split_once(':').unwrap_or((place, "train"));
    let select = |names: Names<'_>| {
        let (names, is_whole) = match names {
            Names::All(names) => (names, true),
            Names::Cached(names) => (names, part == "train" && names.len() == 2),
        };
        let is_chosen = |name: &&String| name.contains(part) && name.ends_with(".jsonl");
        let chosen: Vec<String> = names.iter().filter(is_chosen).cloned().collect();
        match chosen.is_empty() {
            true => Err(format!("no file is of {part:?}")),
            false if is_whole => Ok(chosen),
            false => Err("name the file in full".to_owned()),
        }
    };
    dataset_files(config, id, &select, &()).map_err(|error| error.to_string())
}

fn says(config: &HubConfig, place: &str, parts: &[&str]) {
    let error = fetch(config, place).unwrap_err();
    for part in parts {
        assert!(error.contains(part), "{part:?} is not in: {error}");
    }
}

/// The file's path in the cache.
fn cached(cache: &Path, name: &str) -> PathBuf {
    cache.join("datasets--org--name/snapshots").join(COMMIT).join(name)
}

#[test]
fn the_chosen_files_are_downloaded() {
    let (server, cache) = (hub(), tempfile::tempdir().unwrap());
    let config = settings(&server, cache.path());
    let files = fetch(&config, "org/name:test").unwrap();
    assert_eq!(files, [cached(cache.path(), TEST)]);
    assert_eq!(fs::read(&files[0]).unwrap(), entries()[0].body);
    assert!(server.matching("GET", TRAIN[0]).is_empty());
    says(&config, "org/name:validation", &["data set org/name", "no file is of \"validation\""]);
    says(&config, "org/other:test", &["data set org/other"]);
    says(&config, "no id", &["is not the hub id of a data set"]);
}

#[test]
fn refusals_name_the_data_set_and_its_page() {
    for (status, code, parts) in [
        (401, "", ["refuses the token", "for public data sets"]),
        (403, "GatedRepo", ["accept the licence at", "/datasets/org/name and set HF_TOKEN"]),
        (404, "RepoNotFound", ["9: no such data set at", "if the data set is private"]),
        (404, "RevisionNotFound", ["org/name@v9: the data set has", "no revision `v9`"]),
    ] {
        let server = Server::start(move |_| Reply::status(status).header("X-Error-Code", code));
        let cache = tempfile::tempdir().unwrap();
        says(&settings(&server, cache.path()), "org/name@v9:test", &parts);
    }
}

#[test]
fn file_names_may_hold_colons_and_backslashes() {
    for (name, in_url) in [("arc:challenge|25", "arc%3Achallenge%7C25"), ("a\\b", "a%5Cb")] {
        let server = Server::start(move |request| match request.path.starts_with("/api/") {
            true => listing(&[name]),
            false => serve_file(&[weights(in_url)], request, &folder()),
        });
        let cache = tempfile::tempdir().unwrap();
        let all = |names: Names<'_>| match names {
            Names::All(names) | Names::Cached(names) => Ok::<_, String>(names.to_vec()),
        };
        let files = dataset_files(&settings(&server, cache.path()), "org/name", &all, &()).unwrap();
        assert_eq!(files, [cached(cache.path(), name)]);
        assert_eq!(fs::read(&files[0]).unwrap(), weights(name).body);
    }
}

#[test]
fn files_in_the_cache_are_not_taken_for_those_of_another_split_or_for_all() {
    let (server, cache) = (hub(), tempfile::tempdir().unwrap());
    let config = settings(&server, cache.path());
    let offline = HubConfig { offline: true, ..config.clone() };
    let missing = [TRAIN[0], "is missing from the cache", "HF_HUB_OFFLINE"];
    let pinned = format!("org/name@{COMMIT}:train");
    fetch(&config, "org/name:test").unwrap();
    says(&offline, &pinned, &missing);
    says(&offline, "org/name", &missing);
    let train = TRAIN.map(|name| cached(cache.path(), name));
    assert_eq!(fetch(&config, &pinned).unwrap(), train);
    assert_eq!(fetch(&offline, &pinned).unwrap(), train);
    fs::remove_file(&train[0]).unwrap();
    says(&offline, &pinned, &missing);
    assert_eq!(fetch(&config, &pinned).unwrap().len(), 2);

    // Without the names of all files, as other programs leave the cache.
    fs::remove_dir_all(cache.path().join("datasets--org--name/.files")).unwrap();
    fs::remove_file(cached(cache.path(), TEST)).unwrap();
    assert_eq!(fetch(&offline, &pinned).unwrap().len(), 2);
    says(&offline, &format!("org/name@{COMMIT}:main"), &["name the file in full"]);
    fs::remove_file(&train[1]).unwrap();
    says(&offline, &pinned, &["name the file in full", "HF_HUB_OFFLINE"]);
    assert_eq!(fetch(&config, &pinned).unwrap().len(), 2);
}
