//! Connections that break, contents that are damaged, hubs that are overloaded.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::repository::{
    Listener, WEIGHTS, assert_holds, blob, blobs, config_json, failure, faulty, hub, plain, serve,
    settings, tokenizer_json, weights,
};
use crate::server::{Reply, Server};
use isentrope_hub::{HubConfig, resolve};

#[test]
fn a_dropped_connection_is_taken_up_where_it_broke() {
    let server =
        faulty(|n, reply| if n == 0 { Reply { cut: Some(100_000), ..reply } } else { reply });
    let cache = tempfile::tempdir().unwrap();
    let snapshot = resolve(&settings(&server, cache.path()), "org/name", &()).unwrap();
    assert_holds(&snapshot, &plain());
    let gets = server.matching("GET", WEIGHTS);
    assert_eq!(gets.len(), 2);
    assert_eq!(gets[1].headers["range"], "bytes=100000-");
}

#[test]
fn a_silent_connection_is_given_up_and_taken_up() {
    let server = faulty(|n, reply| {
        if n == 0 {
            Reply { cut: Some(1000), stall: Duration::from_secs(20), ..reply }
        } else {
            reply
        }
    });
    let cache = tempfile::tempdir().unwrap();
    let config =
        HubConfig { timeout: Duration::from_millis(300), ..settings(&server, cache.path()) };
    resolve(&config, "org/name", &()).unwrap();
    assert_eq!(server.matching("GET", WEIGHTS)[1].headers["range"], "bytes=1000-");
}

#[test]
fn an_interrupted_run_is_resumed_by_the_next() {
    let broken = faulty(|_, reply| Reply { cut: Some(50_000.min(reply.body.len() / 2)), ..reply });
    let cache = tempfile::tempdir().unwrap();
    let config = HubConfig { retries: 0, ..settings(&broken, cache.path()) };
    let message = failure(&config, "org/name");
    assert!(message.contains(WEIGHTS) && message.contains("run again"), "{message}");
    assert!(!message.contains("retries"), "{message}");
    assert!(!cache.path().join("models--org--name/refs/main").exists());
    let partial = blob(cache.path(), &format!("{}.incomplete", weights(WEIGHTS).etag));
    assert_eq!(fs::metadata(&partial).unwrap().len(), 50_000);

    let server = hub(plain());
    let listener = Listener::default();
    let snapshot = resolve(&settings(&server, cache.path()), "org/name", &listener).unwrap();
    assert_holds(&snapshot, &plain());
    assert!(!partial.exists());
    let gets = server.matching("GET", "");
    assert_eq!(gets.len(), 2, "the listing and the rest of the weights: {gets:?}");
    assert_eq!(gets[1].headers["range"], "bytes=50000-");
    assert_eq!(listener.advances.lock().unwrap()[0], (WEIGHTS.to_owned(), 50_000, 262_144));
}

#[test]
fn a_hub_that_ignores_ranges_starts_over() {
    let entries = plain();
    let count = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        let mut request = request.clone();
        request.headers.remove("range");
        let reply = serve(&entries, &request);
        let is_first = request.method == "GET"
            && request.path.ends_with(WEIGHTS)
            && count.fetch_add(1, Ordering::SeqCst) == 0;
        if is_first { Reply { cut: Some(70_000), ..reply } } else { reply }
    });
    let cache = tempfile::tempdir().unwrap();
    let snapshot = resolve(&settings(&server, cache.path()), "org/name", &()).unwrap();
    assert_holds(&snapshot, &plain());
}

#[test]
fn a_partial_file_that_cannot_be_right_is_replaced() {
    let etag = weights(WEIGHTS).etag;
    for left in [vec![b'x'; 1000], vec![b'x'; 262_144], vec![b'x'; 300_000]] {
        let (server, cache) = (hub(plain()), tempfile::tempdir().unwrap());
        fs::create_dir_all(cache.path().join("models--org--name/blobs")).unwrap();
        fs::write(blob(cache.path(), &format!("{etag}.incomplete")), &left).unwrap();
        let snapshot = resolve(&settings(&server, cache.path()), "org/name", &()).unwrap();
        assert_holds(&snapshot, &plain());
    }
}

#[test]
fn damage_is_healed_once() {
    let server = faulty(|n, mut reply| {
        if n == 0 {
            reply.body[77_777] ^= 1;
        }
        reply
    });
    let cache = tempfile::tempdir().unwrap();
    let listener = Listener::default();
    let snapshot = resolve(&settings(&server, cache.path()), "org/name", &listener).unwrap();
    assert_holds(&snapshot, &plain());
    assert_eq!(server.matching("GET", WEIGHTS).len(), 2);
    assert!(listener.warnings.lock().unwrap()[0].contains(WEIGHTS));
}

#[test]
fn damage_that_stays_is_an_error_and_leaves_nothing() {
    let damages: [fn(&mut Reply); 3] = [
        |reply| reply.body[5] ^= 1,
        |reply| reply.body.push(0),
        |reply| {
            reply.body.pop();
        },
    ];
    for damage in damages {
        let server = faulty(move |_, mut reply| {
            damage(&mut reply);
            reply
        });
        let cache = tempfile::tempdir().unwrap();
        let message = failure(&settings(&server, cache.path()), "org/name");
        assert!(message.contains(WEIGHTS) && message.contains(weights(WEIGHTS).etag), "{message}");
        assert_eq!(server.matching("GET", WEIGHTS).len(), 2);
        assert_eq!(blobs(cache.path()), [config_json().etag, tokenizer_json().etag]);
    }
}

#[test]
fn small_files_are_checked_too() {
    let server = Server::start(|request| {
        let mut reply = serve(&plain(), request);
        if request.path.ends_with("/config.json") {
            reply.body[3] ^= 1;
        }
        reply
    });
    let cache = tempfile::tempdir().unwrap();
    let message = failure(&settings(&server, cache.path()), "org/name");
    assert!(message.contains("config.json"), "{message}");
}

#[test]
fn a_proxy_that_names_contents_by_their_bare_sha1_is_believed() {
    let server = Server::start(|request| {
        let mut reply = serve(&plain(), request);
        if request.path.ends_with("/config.json") {
            reply.headers[0].1 = "\"ce6ff03d8c514627e9971798c2bf29842cb31ecf\"".into();
        }
        reply
    });
    let cache = tempfile::tempdir().unwrap();
    resolve(&settings(&server, cache.path()), "org/name", &()).unwrap();
}

#[test]
fn passing_troubles_are_waited_out() {
    for status in [429, 500, 503] {
        let server = faulty(move |n, reply| if n < 2 { Reply::status(status) } else { reply });
        let cache = tempfile::tempdir().unwrap();
        resolve(&settings(&server, cache.path()), "org/name", &()).unwrap();
        assert_eq!(server.matching("GET", WEIGHTS).len(), 3);
    }
}

#[test]
fn lasting_troubles_end_in_an_error() {
    for status in [429, 500] {
        let server = Server::start(move |_| Reply::status(status));
        let cache = tempfile::tempdir().unwrap();
        let message = failure(&settings(&server, cache.path()), "org/name");
        assert!(
            message.contains(&status.to_string()) && message.contains(&server.url),
            "{message}"
        );
        assert!(message.contains("no directory of this name"), "{message}");
        assert!(message.contains("after 2 retries"), "{message}");
        assert_eq!(server.requests().len(), 3, "one try and two retries");
        let message = failure(&settings(&server, cache.path()), "name");
        assert!(
            message.contains("no directory of this name") && message.contains("owner/name"),
            "{message}"
        );
        assert_eq!(server.requests().len(), 4, "a mistyped directory is not worth retries");
    }
}

/// `.invalid` is the domain without names of RFC 2606.
#[test]
fn a_hub_without_an_address_is_asked_twice() {
    let (server, cache) = (hub(plain()), tempfile::tempdir().unwrap());
    let config = settings(&server, cache.path());
    assert!(config.retries > 1);
    let config = HubConfig {
        endpoint: "http://hub.invalid".into(),
        timeout: Duration::from_secs(60),
        ..config
    };
    let listener = Listener::default();
    let message = resolve(&config, "org/name", &listener).unwrap_err().to_string();
    assert!(
        message.contains("no directory of this name") && message.contains("hub.invalid"),
        "{message}"
    );
    let warnings = listener.warnings.lock().unwrap();
    assert!(warnings.len() == 1 && warnings[0].contains("retry 1 of 1"), "{warnings:?}");
}

#[test]
fn the_pause_that_the_hub_asks_for_is_kept() {
    let server =
        faulty(|n, reply| if n == 0 { Reply::status(429).header("Retry-After", 1) } else { reply });
    let cache = tempfile::tempdir().unwrap();
    let listener = Listener::default();
    resolve(&settings(&server, cache.path()), "org/name", &listener).unwrap();
    assert!(listener.warnings.lock().unwrap()[0].contains("in 1.0 s"));
}
