//! Refusals of the hub, and hubs that are refused.

use std::fs;

use crate::repository::{failure, hub, listing, plain, serve, settings};
use crate::server::{Reply, Server};
use isentrope_hub::HubConfig;

#[test]
fn refusals_say_what_to_do() {
    for (status, code, token, words) in [
        (401, "", None, &["HF_TOKEN", "spelling", "licence"][..]),
        (401, "", Some("hf_secret"), &["refuses the token"]),
        (401, "GatedRepo", None, &["accept the licence", "HF_TOKEN"]),
        (401, "RepoNotFound", None, &["no such model", "HF_TOKEN"]),
        (403, "GatedRepo", Some("hf_secret"), &["accept the licence", "HF_TOKEN"]),
        (403, "", Some("hf_secret"), &["accept the licence"]),
        (404, "RepoNotFound", None, &["no directory of this name", "no such model", "private"]),
        (404, "", None, &["no such model"]),
        (404, "RevisionNotFound", None, &["no revision `v9`"]),
        (418, "", None, &["418"]),
    ] {
        let server = Server::start(move |_| Reply::status(status).header("X-Error-Code", code));
        let cache = tempfile::tempdir().unwrap();
        let token = token.map(str::to_owned);
        let message =
            failure(&HubConfig { token, ..settings(&server, cache.path()) }, "org/name@v9");
        assert!(message.starts_with("org/name@v9: "), "{message}");
        for word in words {
            assert!(message.contains(word), "{status} {code}: {message}");
        }
        assert_eq!(server.requests().len(), 1, "no use in asking again");
        assert!(fs::read_dir(cache.path()).unwrap().next().is_none());
    }
}

#[test]
fn names_that_climb_are_refused() {
    for name in ["../../x", "/etc/passwd", "a/../../b", "", "a//b", "line\nbreak"] {
        let server = Server::start(move |_| listing(&["config.json", "model.safetensors", name]));
        let cache = tempfile::tempdir().unwrap();
        let message = failure(&settings(&server, cache.path()), "org/name");
        assert!(message.contains(&format!("{name:?}")), "{message}");
    }
}

#[test]
fn etags_that_are_no_file_names_are_refused() {
    for etag in ["\"../x\"", "\"a/b\"", "\"\"", "\"..\"", "\"a.incomplete\"", "W/\"a\\\\b\""] {
        let server = Server::start(move |request| {
            let mut reply = serve(&plain(), request);
            if request.method == "HEAD" {
                reply.headers[0].1 = etag.into();
            }
            reply
        });
        let cache = tempfile::tempdir().unwrap();
        let message = failure(&settings(&server, cache.path()), "org/name");
        assert!(message.contains("ETag") && message.contains("config.json"), "{message}");
        assert!(fs::read_dir(cache.path()).unwrap().next().is_none());
    }
}

#[test]
fn answers_of_no_hub_are_refused() {
    for body in ["<html>Sign in</html>", "{}", "{\"sha\": \"../x\", \"siblings\": []}", "[]"] {
        let server = Server::start(move |_| Reply::status(200).body(body.as_bytes()));
        let cache = tempfile::tempdir().unwrap();
        let message = failure(&settings(&server, cache.path()), "org/name");
        assert!(message.contains("does not answer as a hub"), "{message}");
    }
    // One byte more than a listing may have.
    let server = Server::start(|_| Reply::status(200).body(&vec![b' '; (32 << 20) + 1]));
    let message = failure(&settings(&server, tempfile::tempdir().unwrap().path()), "org/name");
    assert!(message.contains("lists more than 33554432 bytes"), "{message}");
    assert_eq!(server.requests().len(), 1, "no use in asking again");
    for location in ["file:///etc/passwd", "elsewhere", "/api/models/org/name/revision/main"] {
        let server = Server::start(move |_| Reply::status(302).header("Location", location));
        let cache = tempfile::tempdir().unwrap();
        let message = failure(&settings(&server, cache.path()), "org/name");
        assert!(message.contains("redirects"), "{message}");
    }
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let (server, cache) = (hub(plain()), tempfile::tempdir().unwrap());
    for endpoint in ["huggingface.co", "ftp://hub", ""] {
        let config = HubConfig { endpoint: endpoint.into(), ..settings(&server, cache.path()) };
        assert!(failure(&config, "org/name").contains("HF_ENDPOINT"));
    }
    let config = HubConfig { token: Some("a\r\nX: y".into()), ..settings(&server, cache.path()) };
    assert!(failure(&config, "org/name").contains("HF_TOKEN"));
}
