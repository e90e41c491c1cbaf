//! Downloads that the cache already has, in whole or in part.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::repository::{
    COMMIT, Listener, WEIGHTS, assert_holds, blob, blobs, config_json, failure, hub, plain, serve,
    settings, sharded, weights,
};
use crate::server::{Reply, Server};
use isentrope_hub::{HubConfig, complete, describe, resolve};

#[test]
fn a_second_call_transfers_no_file() {
    let (server, cache) = (hub(sharded()), tempfile::tempdir().unwrap());
    let config = || settings(&server, cache.path()); // of another process
    let first = resolve(&config(), "org/name", &()).unwrap();
    let before = server.requests().len();
    assert_eq!(resolve(&config(), "org/name", &()).unwrap(), first);
    let new = server.requests().split_off(before);
    assert_eq!(new.len(), 1, "only the current commit is asked for: {new:?}");
    assert_eq!(new[0].path, "/api/models/org/name/revision/main");
}

#[test]
fn a_cached_commit_needs_no_hub() {
    let (server, cache) = (hub(plain()), tempfile::tempdir().unwrap());
    let config = settings(&server, cache.path());
    let model = format!("org/name@{COMMIT}");
    let first = resolve(&config, &model, &()).unwrap();
    assert!(!cache.path().join("models--org--name/refs").exists());
    let before = server.requests().len();
    assert_eq!(resolve(&config, &model, &()).unwrap(), first);
    assert_eq!(server.requests().len(), before);

    // Another program may have fetched a part, so only the hub knows whether there is more.
    fs::remove_dir_all(cache.path().join("models--org--name/.files")).unwrap();
    resolve(&settings(&server, cache.path()), &model, &()).unwrap();
    assert_eq!(server.requests().len(), before + 1);
}

#[test]
fn offline_uses_the_cache_and_says_what_it_lacks() {
    let (server, cache) = (hub(sharded()), tempfile::tempdir().unwrap());
    let offline = HubConfig { offline: true, ..settings(&server, cache.path()) };
    let message = failure(&offline, "org/name");
    assert!(message.contains("HF_HUB_OFFLINE") && message.contains("revision main"), "{message}");
    assert!(server.requests().is_empty());

    let snapshot = resolve(&settings(&server, cache.path()), "org/name", &()).unwrap();
    let before = server.requests().len();
    assert_eq!(resolve(&offline, "org/name", &()).unwrap(), snapshot);
    assert_eq!(resolve(&offline, &format!("org/name@{COMMIT}"), &()).unwrap(), snapshot);
    for lost in ["model-00002-of-00002.safetensors", "tokenizer.json", "config.json"] {
        fs::remove_file(snapshot.join(lost)).unwrap();
        let message = failure(&offline, "org/name");
        assert!(message.contains(lost), "{message}");
    }
    assert_eq!(server.requests().len(), before);
}

#[test]
fn an_unreachable_hub_leaves_the_cached_copy() {
    let (server, cache) = (hub(plain()), tempfile::tempdir().unwrap());
    let config = settings(&server, cache.path());
    let snapshot = resolve(&config, "org/name", &()).unwrap();
    // Port 1 is below those that systems hand out, so nothing listens there.
    let closed = "http://127.0.0.1:1";
    let ill = Server::start(|_| Reply::status(503));
    for endpoint in [closed.to_owned(), ill.url.clone()] {
        let listener = Listener::default();
        let config = HubConfig { endpoint, backoff: Duration::from_secs(60), ..config.clone() };
        assert_eq!(resolve(&config, "org/name", &listener).unwrap(), snapshot);
        assert!(listener.warnings.lock().unwrap()[0].contains("using the copy"));
    }

    fs::remove_file(snapshot.join(WEIGHTS)).unwrap();
    let config = HubConfig { endpoint: closed.into(), ..config };
    let message = failure(&config, "org/name");
    assert!(message.contains(closed), "{message}");
}

#[test]
fn a_hub_that_cannot_be_asked_is_not_asked_again() {
    let (ill, cache) = (Server::start(|_| Reply::status(503)), tempfile::tempdir().unwrap());
    let config = settings(&ill, cache.path());
    let first = failure(&config, "org/name");
    let asked = ill.requests().len();
    assert!(asked > 0);
    assert_eq!(failure(&config.clone(), "org/name"), first);
    assert_eq!(ill.requests().len(), asked);
    failure(&config, "org/other");
    assert_eq!(ill.requests().len(), 2 * asked);
}

/// The weights are missing, so the description alone has a copy to fall back on.
#[test]
fn a_failure_beside_a_copy_is_not_that_of_a_call_without_one() {
    let (sound, cache) = (hub(plain()), tempfile::tempdir().unwrap());
    let snapshot = resolve(&settings(&sound, cache.path()), "org/name", &()).unwrap();
    fs::remove_file(snapshot.join(WEIGHTS)).unwrap();
    let is_first = AtomicBool::new(true);
    let server = Server::start(move |request| match is_first.swap(false, Ordering::SeqCst) {
        true => Reply::status(503),
        false => serve(&plain(), request),
    });
    let (config, listener) = (settings(&server, cache.path()), Listener::default());
    for _ in 0..2 {
        assert_eq!(describe(&config, "org/name", &listener).unwrap(), snapshot);
    }
    assert_eq!(server.requests().len(), 1, "the copy stands for what cannot be asked");
    assert!(listener.warnings.lock().unwrap()[0].contains("using the copy"));
    complete(&config, "org/name", &snapshot, &()).unwrap();
    assert_holds(&snapshot, &plain());
    assert_eq!(server.matching("GET", "/revision/main").len(), 2);
}

#[test]
fn bookkeeping_that_fails_does_not_fail_the_download() {
    let (server, cache) = (hub(plain()), tempfile::tempdir().unwrap());
    fs::create_dir_all(cache.path().join("models--org--name")).unwrap();
    fs::write(cache.path().join("models--org--name/.files"), "in the way").unwrap();
    let listener = Listener::default();
    let snapshot = resolve(&settings(&server, cache.path()), "org/name", &listener).unwrap();
    assert_holds(&snapshot, &plain());
    assert!(listener.warnings.lock().unwrap()[0].contains(".files"));
}

#[test]
fn a_deleted_blob_is_downloaded_again() {
    let (server, cache) = (hub(plain()), tempfile::tempdir().unwrap());
    let config = settings(&server, cache.path());
    resolve(&config, "org/name", &()).unwrap();
    fs::remove_file(blob(cache.path(), weights(WEIGHTS).etag)).unwrap();
    let snapshot = resolve(&config, "org/name", &()).unwrap();
    assert_holds(&snapshot, &plain());
    assert_eq!(server.matching("GET", ".json").len(), 2, "the other files stay");
}

#[test]
fn two_at_once_download_once() {
    let server = Server::start(|request| {
        if request.path.ends_with(WEIGHTS) {
            std::thread::sleep(Duration::from_millis(50));
        }
        serve(&plain(), request)
    });
    let cache = tempfile::tempdir().unwrap();
    let config = settings(&server, cache.path());
    std::thread::scope(|scope| {
        let runs: Vec<_> =
            (0..4).map(|_| scope.spawn(|| resolve(&config, "org/name", &()).unwrap())).collect();
        for run in runs {
            assert_holds(&run.join().unwrap(), &plain());
        }
    });
    assert_eq!(server.matching("GET", WEIGHTS).len(), 1);
    assert_eq!(blobs(cache.path()).len(), 3);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_named() {
    let (server, cache) = (hub(plain()), tempfile::tempdir().unwrap());
    fs::create_dir_all(cache.path().join("models--org--name/blobs")).unwrap();
    let partial = blob(cache.path(), &format!("{}.incomplete", config_json().etag));
    std::os::unix::fs::symlink("/dev/full", &partial).unwrap();
    let message = failure(&settings(&server, cache.path()), "org/name");
    assert!(message.contains("disk is full after 0 of 24 bytes"), "{message}");
    assert!(partial.exists());
}
