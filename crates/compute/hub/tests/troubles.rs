//! Connections that break, contents that are damaged, hubs that are overloaded.

use std::fs;
use std::time::Duration;

use crate::repository::{
    COMMIT, Listener, WEIGHTS, assert_holds, blob, blobs, config_json, failure, faulty, hub, plain,
    serve, settings, tokenizer_json, weights,
};
use crate::server::{Reply, Server};
use isentrope_hub::{HubConfig, resolve};

/// A hub's behaviour at the n-th request for the weights, and the requests until they are whole.
struct Trouble {
    fault: fn(usize, Reply) -> Reply,
    timeout: Duration,
    requests: usize,
    /// First byte that the last request asks for.
    resumed_at: Option<usize>,
    warning: &'static str,
}

#[test]
fn passing_troubles_are_waited_out() {
    const USUAL: Trouble = Trouble {
        fault: |_, reply| reply,
        timeout: Duration::from_secs(5),
        requests: 2,
        resumed_at: None,
        warning: "",
    };
    let troubles = [
        Trouble {
            fault: |n, reply| if n == 0 { Reply { cut: Some(100_000), ..reply } } else { reply },
            resumed_at: Some(100_000),
            ..USUAL
        },
        Trouble {
            fault: |n, reply| {
                let stall = Duration::from_secs(20);
                if n == 0 { Reply { cut: Some(1000), stall, ..reply } } else { reply }
            },
            timeout: Duration::from_millis(300),
            resumed_at: Some(1000),
            ..USUAL
        },
        // A hub that ignores ranges starts over.
        Trouble {
            fault: |n, reply| {
                let whole =
                    Reply::status(200).header("ETag", "\"any\"").body(&weights(WEIGHTS).body);
                if n == 0 { Reply { cut: Some(70_000), ..reply } } else { whole }
            },
            resumed_at: Some(70_000),
            ..USUAL
        },
        Trouble {
            fault: |n, mut reply| {
                reply.body[77_777] ^= u8::from(n == 0);
                reply
            },
            warning: WEIGHTS,
            ..USUAL
        },
        Trouble {
            fault: |n, reply| [Reply::status(429), Reply::status(503), reply][n.min(2)].clone(),
            requests: 3,
            ..USUAL
        },
    ];
    for (number, trouble) in troubles.into_iter().enumerate() {
        let server = faulty(trouble.fault);
        let cache = tempfile::tempdir().unwrap();
        let config = HubConfig { timeout: trouble.timeout, ..settings(&server, cache.path()) };
        let listener = Listener::default();
        let snapshot = resolve(&config, "org/name", &listener).unwrap();
        assert_holds(&snapshot, &plain());
        let gets = server.matching("GET", WEIGHTS);
        assert_eq!(gets.len(), trouble.requests, "trouble {number}");
        let range = gets.last().unwrap().headers.get("range").cloned();
        assert_eq!(range, trouble.resumed_at.map(|at| format!("bytes={at}-")), "{number}");
        assert!(listener.warnings.lock().unwrap()[0].contains(trouble.warning), "{number}");
    }
}

#[test]
fn an_interrupted_run_is_resumed_by_the_next() {
    resumes("org/name");
    resumes(&format!("org/name@{COMMIT}"));
}

fn resumes(model: &str) {
    let broken = faulty(|_, reply| Reply { cut: Some(50_000.min(reply.body.len() / 2)), ..reply });
    let cache = tempfile::tempdir().unwrap();
    let config = HubConfig { retries: 0, ..settings(&broken, cache.path()) };
    let message = failure(&config, model);
    assert!(message.contains(WEIGHTS) && message.contains("run again"), "{message}");
    assert!(!message.contains("retries"), "{message}");
    assert!(!cache.path().join("models--org--name/refs/main").exists());
    let partial = blob(cache.path(), &format!("{}.incomplete", weights(WEIGHTS).etag));
    assert_eq!(fs::metadata(&partial).unwrap().len(), 50_000);

    let server = hub(plain());
    let listener = Listener::default();
    let snapshot = resolve(&settings(&server, cache.path()), model, &listener).unwrap();
    assert_holds(&snapshot, &plain());
    assert!(!partial.exists());
    let gets = server.matching("GET", "");
    assert_eq!(gets.len(), 2, "the listing and the rest of the weights: {gets:?}");
    assert_eq!(gets[1].headers["range"], "bytes=50000-");
    assert_eq!(listener.advances.lock().unwrap()[0], (WEIGHTS.to_owned(), 50_000, 262_144));
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

/// Small files have the SHA-1 of a git blob; caching proxies replace it by that of the contents.
#[test]
fn small_files_are_checked_too() {
    let result = |change: fn(&mut Reply)| {
        let server = Server::start(move |request| {
            let mut reply = serve(&plain(), request);
            if request.path.ends_with("/config.json") {
                change(&mut reply);
            }
            reply
        });
        let cache = tempfile::tempdir().unwrap();
        resolve(&settings(&server, cache.path()), "org/name", &()).map_err(|e| e.to_string())
    };
    let message = result(|reply| reply.body[3] ^= 1).unwrap_err();
    assert!(message.contains("config.json"), "{message}");
    let of_contents = |reply: &mut Reply| {
        reply.headers[0].1 = "\"ce6ff03d8c514627e9971798c2bf29842cb31ecf\"".into();
    };
    assert!(result(of_contents).is_ok());
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
        // Nor is a name that may be one worth many.
        let patient = HubConfig { retries: 9, ..settings(&server, cache.path()) };
        assert!(failure(&patient, "org/name").contains("after 2 retries"));
    }
}
