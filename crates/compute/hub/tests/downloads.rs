//! Downloads and the layout of the cache.

use std::fs;
use std::path::Path;

use crate::repository::{
    COMMIT, Listener, WEIGHTS, assert_holds, blobs, config_json, failure, hub, plain, serve,
    settings, sharded, tokenizer_json, weights,
};
use crate::server::{Reply, Server};
use isentrope_hub::{HubConfig, check_name, complete, describe, resolve};

#[test]
fn a_directory_is_itself_and_other_names_are_explained() {
    let (server, dir) = (hub(plain()), tempfile::tempdir().unwrap());
    let config = settings(&server, dir.path());
    assert_eq!(resolve(&config, dir.path().to_str().unwrap(), &()).unwrap(), dir.path());
    let file = dir.path().join("config.json");
    fs::write(&file, "{}").unwrap();
    assert!(failure(&config, file.to_str().unwrap()).contains("is a file"));
    // A directory with only a GGUF file, and the file itself.
    let gguf = tempfile::tempdir().unwrap();
    let file = gguf.path().join("tiny.Q4_1.gguf");
    fs::write(&file, "GGUF").unwrap();
    fs::write(gguf.path().join("config.json"), "{}").unwrap();
    for model in [gguf.path(), &file] {
        let message = failure(&config, model.to_str().unwrap());
        let expected = format!("{}: is a GGUF file; make a model directory", file.display());
        assert!(message.starts_with(&expected), "{message}");
        let source = format!("= {:?}, \"tiny.Q4_1.gguf\", \"OUT\"; model = ", gguf.path());
        assert!(message.contains(&source), "{message}");
        assert_eq!(check_name(model.to_str().unwrap()).unwrap_err().to_string(), message);
    }
    fs::write(gguf.path().join("model.safetensors"), "").unwrap();
    assert_eq!(resolve(&config, gguf.path().to_str().unwrap(), &()).unwrap(), gguf.path());
    let message = failure(&config, "./runs/step-10");
    assert!(message.contains("./runs/step-10") && message.contains("hub id"), "{message}");
}

#[test]
fn downloads_into_the_layout_of_the_hub() {
    let (server, cache) = (hub(plain()), tempfile::tempdir().unwrap());
    let listener = Listener::default();
    let snapshot = resolve(&settings(&server, cache.path()), "org/name", &listener).unwrap();

    let root = cache.path().join("models--org--name");
    assert_eq!(snapshot, root.join("snapshots").join(COMMIT));
    assert_holds(&snapshot, &plain());
    assert_eq!(fs::read_to_string(root.join("refs/main")).unwrap(), COMMIT);
    for entry in plain() {
        let target = fs::read_link(snapshot.join(entry.name)).unwrap();
        assert_eq!(target, Path::new("../../blobs").join(entry.etag));
        assert!(
            cache.path().join(format!(".locks/models--org--name/{}.lock", entry.etag)).exists()
        );
    }
    assert_eq!(blobs(cache.path()).len(), 3);
    let listed = fs::read_to_string(root.join(".files").join(COMMIT)).unwrap();
    assert_eq!(listed.lines().count(), 3);
    for request in server.requests() {
        assert_eq!(request.headers["authorization"], "Bearer hf_secret");
    }
    let advances = listener.advances.lock().unwrap();
    let seen: Vec<_> = advances.iter().filter(|(file, ..)| file == WEIGHTS).collect();
    assert_eq!((seen[0].1, seen.last().unwrap().1), (0, 262_144));
    assert!(seen.iter().all(|(_, _, total)| *total == 262_144));
    assert!(listener.warnings.lock().unwrap().is_empty());
    // It is said before the hub is asked, and not again.
    resolve(&settings(&server, cache.path()), "org/name", &listener).unwrap();
    let asking = format!("there is no directory org/name here; asking {}", server.url);
    assert_eq!(*listener.said.lock().unwrap(), [asking]);
}

#[test]
fn a_description_comes_without_weights_and_is_completed_later() {
    for files in [plain, sharded] {
        let (entries, cache) = (files(), tempfile::tempdir().unwrap());
        let server = hub(files());
        let config = settings(&server, cache.path());
        let described = describe(&config, "org/name", &()).unwrap();
        assert_holds(&described, &[config_json(), tokenizer_json()]);
        assert!(fs::read_dir(&described).unwrap().all(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            !name.contains("safetensors")
        }));
        // It does not count as the whole model.
        let offline = HubConfig { offline: true, ..config.clone() };
        resolve(&offline, "org/name", &()).unwrap_err();
        let pinned = format!("org/name@{COMMIT}");
        assert_eq!(describe(&offline, &pinned, &()).unwrap(), described);
        assert_eq!(resolve(&config, "org/name", &()).unwrap(), described);
        assert_holds(&described, &entries[..entries.len().min(5)]); // a consolidated file is no part of shards
        assert_eq!(describe(&offline, "org/name", &()).unwrap(), described);
        // The hub is asked once for what there is.
        assert_eq!(server.matching("GET", "/revision/main").len(), 1);
    }
}

#[test]
fn weights_of_another_revision_do_not_complete_a_description() {
    let (server, cache) = (hub(plain()), tempfile::tempdir().unwrap());
    let config = settings(&server, cache.path());
    let described = describe(&config, "org/name", &()).unwrap();
    complete(&config, "org/name", &described, &()).unwrap();
    let older = described.with_file_name("0".repeat(40));
    let message = complete(&config, "org/name", &older, &()).unwrap_err().to_string();
    assert!(message.starts_with("org/name: the hub got another revision"), "{message}");
}

#[test]
fn a_revision_is_asked_for_and_recorded() {
    let (server, cache) = (hub(plain()), tempfile::tempdir().unwrap());
    resolve(&settings(&server, cache.path()), "org/name@refs/pr/1", &()).unwrap();
    assert_eq!(server.requests()[0].path, "/api/models/org/name/revision/refs%2Fpr%2F1");
    let recorded = cache.path().join("models--org--name/refs/refs/pr/1");
    assert_eq!(fs::read_to_string(recorded).unwrap(), COMMIT);
}

#[test]
fn redirects_within_the_hub_keep_the_token_and_those_to_elsewhere_drop_it() {
    let content = Server::start(|request| {
        Reply::ranged(request, &weights(WEIGHTS).body).header("ETag", "\"cdn\"")
    });
    let elsewhere = format!("{}/lfs/object?signature=x", content.url);
    let entries = plain();
    let server = Server::start(move |request| {
        if request.path.ends_with(WEIGHTS) && !request.path.starts_with("/moved") {
            return Reply::status(307).header("Location", format!("/moved{}", request.path));
        }
        if request.path.starts_with("/moved") {
            let reply =
                Reply::status(302).header("Location", &elsewhere).header("X-Repo-Commit", COMMIT);
            let etag = format!("\"{}\"", weights(WEIGHTS).etag);
            return reply.header("X-Linked-ETag", etag).header("X-Linked-Size", 262_144);
        }
        serve(&entries, request)
    });
    let cache = tempfile::tempdir().unwrap();
    let snapshot = resolve(&settings(&server, cache.path()), "org/name", &()).unwrap();
    assert_holds(&snapshot, &plain());
    assert_eq!(blobs(cache.path()).len(), 3);

    let moved: Vec<_> =
        server.requests().into_iter().filter(|r| r.path.starts_with("/moved")).collect();
    assert!(moved.iter().all(|request| request.headers["authorization"] == "Bearer hf_secret"));
    let sent = content.requests();
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!(sent[0].method, "GET");
    assert!(!sent[0].headers.contains_key("authorization"));
    assert!(!format!("{sent:?}").contains("hf_secret"));
}
