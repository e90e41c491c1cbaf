//! Downloads from a hub on a local port, and the cache they leave.

mod datasets;
mod server;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use isentrope_model::hub::{HubConfig, Progress, resolve, resolve_with};
use server::{Received, Reply, Server};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const WEIGHTS: &str = "model.safetensors";

/// A file of the test's repository. Etags were computed with `git hash-object` and `sha256sum`.
struct Entry {
    name: &'static str,
    etag: &'static str,
    body: Vec<u8>,
}

fn config_json() -> Entry {
    let body = b"{\"model_type\": \"qwen2\"}\n".to_vec();
    Entry { name: "config.json", etag: "6074d5da214f2062ad9b8e1ed4eabaedba36c9e3", body }
}

fn tokenizer_json() -> Entry {
    let body = b"{\"version\": \"1.0\"}\n".to_vec();
    Entry { name: "tokenizer.json", etag: "92bdb0aff34a95a7c00546c3d608c984294164ed", body }
}

fn weights(name: &'static str) -> Entry {
    let etag = "cb8690e393200318a9f52ec1ea9c05cc48ea63eae57be5bb36ae4388f08270bb";
    Entry { name, etag, body: b"0123456789abcdef".repeat(16384) }
}

fn more_weights(name: &'static str) -> Entry {
    let etag = "9d4ae300b9a2ff196561053f5b65f0deea2870743af05395b8fd38e4ac8af3b6";
    Entry { name, etag, body: b"fedcba9876543210".repeat(16384) }
}

fn index_json() -> Entry {
    let body = b"{\"weight_map\": {\"a\": \"model-00001-of-00002.safetensors\", \
                 \"b\": \"model-00002-of-00002.safetensors\"}}\n";
    let etag = "504943cf8e393b77b82726be1b3d7427fc762c1b";
    Entry { name: "model.safetensors.index.json", etag, body: body.to_vec() }
}

fn plain() -> Vec<Entry> {
    vec![config_json(), tokenizer_json(), weights(WEIGHTS)]
}

fn sharded() -> Vec<Entry> {
    vec![
        config_json(),
        tokenizer_json(),
        index_json(),
        weights("model-00001-of-00002.safetensors"),
        more_weights("model-00002-of-00002.safetensors"),
        more_weights("consolidated.safetensors"),
    ]
}

fn listing(names: &[&str]) -> Reply {
    let siblings: Vec<_> = names.iter().map(|name| serde_json::json!({ "rfilename": name })).collect();
    let answer =
        serde_json::json!({ "id": "org/name", "sha": COMMIT, "siblings": siblings, "private": false });
    Reply::status(200).body(answer.to_string().as_bytes())
}

/// What a hub that keeps every file itself answers.
fn serve(entries: &[Entry], request: &Received) -> Reply {
    if request.path.starts_with("/api/models/org/name/revision/") {
        return listing(&entries.iter().map(|entry| entry.name).collect::<Vec<_>>());
    }
    let prefix = format!("/org/name/resolve/{COMMIT}/");
    let name = request.path.strip_prefix(&prefix);
    let Some(entry) = entries.iter().find(|entry| name == Some(entry.name)) else {
        return Reply::status(404);
    };
    let reply = Reply::ranged(request, &entry.body);
    let reply = reply.header("ETag", format!("\"{}\"", entry.etag));
    reply.header("X-Repo-Commit", COMMIT).header("Accept-Ranges", "bytes")
}

fn hub(entries: Vec<Entry>) -> Server {
    Server::start(move |request| serve(&entries, request))
}

/// A hub whose answer to the n-th GET of the weights (from 0) is changed by `fault`.
fn faulty(fault: impl Fn(usize, Reply) -> Reply + Send + Sync + 'static) -> Server {
    let entries = plain();
    let count = AtomicUsize::new(0);
    Server::start(move |request| {
        let reply = serve(&entries, request);
        if request.method == "GET" && request.path.ends_with(WEIGHTS) {
            fault(count.fetch_add(1, Ordering::SeqCst), reply)
        } else {
            reply
        }
    })
}

fn settings(server: &Server, cache: &Path) -> HubConfig {
    HubConfig {
        endpoint: server.url.clone(),
        token: Some("hf_secret".into()),
        cache: cache.to_owned(),
        offline: false,
        proxy: None,
        retries: 2,
        backoff: Duration::from_millis(1),
        timeout: Duration::from_secs(5),
    }
}

/// Keeps what it is told.
#[derive(Default)]
struct Listener {
    advances: Mutex<Vec<(String, u64, u64)>>,
    warnings: Mutex<Vec<String>>,
}

impl Progress for Listener {
    fn advance(&self, file: &str, done: u64, total: u64) {
        self.advances.lock().unwrap().push((file.into(), done, total));
    }

    fn warn(&self, message: &str) {
        self.warnings.lock().unwrap().push(message.into());
    }
}

fn failure(config: &HubConfig, model: &str) -> String {
    let message = resolve_with(config, model, &()).unwrap_err().to_string();
    assert!(!message.contains("hf_secret") && !message.contains('\n'), "{message}");
    message
}

fn assert_holds(snapshot: &Path, entries: &[Entry]) {
    for entry in entries {
        assert!(fs::read(snapshot.join(entry.name)).unwrap() == entry.body, "{}", entry.name);
    }
}

fn blobs(cache: &Path) -> Vec<String> {
    let dir = fs::read_dir(cache.join("models--org--name/blobs")).unwrap();
    let mut names: Vec<_> = dir.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn blob(cache: &Path, name: &str) -> PathBuf {
    cache.join("models--org--name/blobs").join(name)
}

#[test]
fn a_directory_is_itself() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(resolve(dir.path().to_str().unwrap(), &()).unwrap(), dir.path());
}

#[test]
fn what_is_neither_directory_nor_id_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.json");
    fs::write(&file, "{}").unwrap();
    let message = resolve(file.to_str().unwrap(), &()).unwrap_err().to_string();
    assert!(message.contains("is a file"), "{message}");
    let message = resolve("./runs/step-10", &()).unwrap_err().to_string();
    assert!(message.contains("./runs/step-10") && message.contains("hub id"), "{message}");
}

#[test]
fn downloads_into_the_layout_of_the_hub() {
    let (server, cache) = (hub(plain()), tempfile::tempdir().unwrap());
    let listener = Listener::default();
    let snapshot = resolve_with(&settings(&server, cache.path()), "org/name", &listener).unwrap();

    let root = cache.path().join("models--org--name");
    assert_eq!(snapshot, root.join("snapshots").join(COMMIT));
    assert_holds(&snapshot, &plain());
    assert_eq!(fs::read_to_string(root.join("refs/main")).unwrap(), COMMIT);
    for entry in plain() {
        let target = fs::read_link(snapshot.join(entry.name)).unwrap();
        assert_eq!(target, Path::new("../../blobs").join(entry.etag));
        assert!(cache.path().join(format!(".locks/models--org--name/{}.lock", entry.etag)).exists());
    }
    assert_eq!(blobs(cache.path()).len(), 3);
    assert!(root.join(".no_exist").join(COMMIT).join("chat_template.jinja").exists());
    assert!(
        fs::read_to_string(cache.path().join("CACHEDIR.TAG")).unwrap().starts_with("Signature: 8a477f59")
    );

    for request in server.requests() {
        assert_eq!(request.headers["authorization"], "Bearer hf_secret");
    }
    let advances = listener.advances.lock().unwrap();
    let seen: Vec<_> = advances.iter().filter(|(file, ..)| file == WEIGHTS).collect();
    assert_eq!((seen[0].1, seen.last().unwrap().1), (0, 262_144));
    assert!(seen.iter().all(|(_, _, total)| *total == 262_144));
    assert!(listener.warnings.lock().unwrap().is_empty());
}

#[test]
fn takes_the_shards_of_the_index_and_nothing_else() {
    let (server, cache) = (hub(sharded()), tempfile::tempdir().unwrap());
    let snapshot = resolve_with(&settings(&server, cache.path()), "org/name", &()).unwrap();
    assert_holds(&snapshot, &sharded()[..5]);
    assert!(server.matching("HEAD", "consolidated.safetensors").is_empty());
    assert_eq!(fs::read_dir(&snapshot).unwrap().count(), 5);
}

#[test]
fn a_second_call_transfers_no_file() {
    let (server, cache) = (hub(sharded()), tempfile::tempdir().unwrap());
    let config = settings(&server, cache.path());
    let first = resolve_with(&config, "org/name", &()).unwrap();
    let before = server.requests().len();
    assert_eq!(resolve_with(&config, "org/name", &()).unwrap(), first);
    let new = server.requests().split_off(before);
    assert_eq!(new.len(), 1, "only the current commit is asked for: {new:?}");
    assert_eq!(new[0].path, "/api/models/org/name/revision/main");
}

#[test]
fn a_cached_commit_needs_no_hub() {
    let (server, cache) = (hub(plain()), tempfile::tempdir().unwrap());
    let config = settings(&server, cache.path());
    let model = format!("org/name@{COMMIT}");
    let first = resolve_with(&config, &model, &()).unwrap();
    assert!(!cache.path().join("models--org--name/refs").exists());
    let before = server.requests().len();
    assert_eq!(resolve_with(&config, &model, &()).unwrap(), first);
    assert_eq!(server.requests().len(), before);

    // A program that fetched only what it needed leaves open whether there is more, which the hub must say.
    fs::remove_dir_all(cache.path().join("models--org--name/.no_exist")).unwrap();
    resolve_with(&config, &model, &()).unwrap();
    assert_eq!(server.requests().len(), before + 1);
}

#[test]
fn a_revision_is_asked_for_and_recorded() {
    let (server, cache) = (hub(plain()), tempfile::tempdir().unwrap());
    resolve_with(&settings(&server, cache.path()), "org/name@refs/pr/1", &()).unwrap();
    assert_eq!(server.requests()[0].path, "/api/models/org/name/revision/refs%2Fpr%2F1");
    let recorded = cache.path().join("models--org--name/refs/refs/pr/1");
    assert_eq!(fs::read_to_string(recorded).unwrap(), COMMIT);
}

#[test]
fn redirects_within_the_hub_keep_the_token_and_those_to_elsewhere_drop_it() {
    let content =
        Server::start(|request| Reply::ranged(request, &weights(WEIGHTS).body).header("ETag", "\"cdn\""));
    let elsewhere = format!("{}/lfs/object?signature=x", content.url);
    let entries = plain();
    let server = Server::start(move |request| {
        if request.path.ends_with(WEIGHTS) && !request.path.starts_with("/moved") {
            return Reply::status(307).header("Location", format!("/moved{}", request.path));
        }
        if request.path.starts_with("/moved") {
            let reply = Reply::status(302).header("Location", &elsewhere).header("X-Repo-Commit", COMMIT);
            let etag = format!("\"{}\"", weights(WEIGHTS).etag);
            return reply.header("X-Linked-ETag", etag).header("X-Linked-Size", 262_144);
        }
        serve(&entries, request)
    });
    let cache = tempfile::tempdir().unwrap();
    let snapshot = resolve_with(&settings(&server, cache.path()), "org/name", &()).unwrap();
    assert_holds(&snapshot, &plain());
    assert_eq!(blobs(cache.path()).len(), 3);

    let moved: Vec<_> = server.requests().into_iter().filter(|r| r.path.starts_with("/moved")).collect();
    assert!(moved.iter().all(|request| request.headers["authorization"] == "Bearer hf_secret"));
    let sent = content.requests();
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!(sent[0].method, "GET");
    assert!(!sent[0].headers.contains_key("authorization"));
    assert!(!format!("{sent:?}").contains("hf_secret"));
}

#[test]
fn a_dropped_connection_is_taken_up_where_it_broke() {
    let server = faulty(|n, reply| if n == 0 { Reply { cut: Some(100_000), ..reply } } else { reply });
    let cache = tempfile::tempdir().unwrap();
    let snapshot = resolve_with(&settings(&server, cache.path()), "org/name", &()).unwrap();
    assert_holds(&snapshot, &plain());
    let gets = server.matching("GET", WEIGHTS);
    assert_eq!(gets.len(), 2);
    assert_eq!(gets[1].headers["range"], "bytes=100000-");
}

#[test]
fn a_silent_connection_is_given_up_and_taken_up() {
    let server = faulty(|n, reply| {
        if n == 0 { Reply { cut: Some(1000), stall: Duration::from_secs(20), ..reply } } else { reply }
    });
    let cache = tempfile::tempdir().unwrap();
    let config = HubConfig { timeout: Duration::from_millis(300), ..settings(&server, cache.path()) };
    resolve_with(&config, "org/name", &()).unwrap();
    assert_eq!(server.matching("GET", WEIGHTS)[1].headers["range"], "bytes=1000-");
}

#[test]
fn an_interrupted_run_is_resumed_by_the_next() {
    let broken = faulty(|_, reply| Reply { cut: Some(50_000.min(reply.body.len() / 2)), ..reply });
    let cache = tempfile::tempdir().unwrap();
    let config = HubConfig { retries: 0, ..settings(&broken, cache.path()) };
    let message = failure(&config, "org/name");
    assert!(message.contains(WEIGHTS) && message.contains("run again"), "{message}");
    assert!(!cache.path().join("models--org--name/refs/main").exists());
    let partial = blob(cache.path(), &format!("{}.incomplete", weights(WEIGHTS).etag));
    assert_eq!(fs::metadata(&partial).unwrap().len(), 50_000);

    let server = hub(plain());
    let listener = Listener::default();
    let snapshot = resolve_with(&settings(&server, cache.path()), "org/name", &listener).unwrap();
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
    let snapshot = resolve_with(&settings(&server, cache.path()), "org/name", &()).unwrap();
    assert_holds(&snapshot, &plain());
}

#[test]
fn a_partial_file_that_cannot_be_right_is_replaced() {
    let etag = weights(WEIGHTS).etag;
    for left in [vec![b'x'; 1000], vec![b'x'; 262_144], vec![b'x'; 300_000]] {
        let (server, cache) = (hub(plain()), tempfile::tempdir().unwrap());
        fs::create_dir_all(cache.path().join("models--org--name/blobs")).unwrap();
        fs::write(blob(cache.path(), &format!("{etag}.incomplete")), &left).unwrap();
        let snapshot = resolve_with(&settings(&server, cache.path()), "org/name", &()).unwrap();
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
    let snapshot = resolve_with(&settings(&server, cache.path()), "org/name", &listener).unwrap();
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
    resolve_with(&settings(&server, cache.path()), "org/name", &()).unwrap();
}

#[test]
fn passing_troubles_are_waited_out() {
    for status in [429, 500, 503] {
        let server = faulty(move |n, reply| if n < 2 { Reply::status(status) } else { reply });
        let cache = tempfile::tempdir().unwrap();
        resolve_with(&settings(&server, cache.path()), "org/name", &()).unwrap();
        assert_eq!(server.matching("GET", WEIGHTS).len(), 3);
    }
}

#[test]
fn lasting_troubles_end_in_an_error() {
    for status in [429, 500] {
        let server = Server::start(move |_| Reply::status(status));
        let cache = tempfile::tempdir().unwrap();
        let message = failure(&settings(&server, cache.path()), "org/name");
        assert!(message.contains(&status.to_string()) && message.contains(&server.url), "{message}");
        assert!(message.contains("no directory of this name"), "{message}");
        assert_eq!(server.requests().len(), 3, "one try and two retries");
        let message = failure(&settings(&server, cache.path()), "name");
        assert!(message.contains("no directory of this name") && message.contains("owner/name"), "{message}");
        assert_eq!(server.requests().len(), 4, "a mistyped directory is not worth retries");
    }
}

#[test]
fn the_pause_that_the_hub_asks_for_is_kept() {
    let server = faulty(|n, reply| if n == 0 { Reply::status(429).header("Retry-After", 1) } else { reply });
    let cache = tempfile::tempdir().unwrap();
    let listener = Listener::default();
    resolve_with(&settings(&server, cache.path()), "org/name", &listener).unwrap();
    assert!(listener.warnings.lock().unwrap()[0].contains("in 1.0 s"));
}

#[test]
fn refusals_say_what_to_do() {
    for (status, code, token, words) in [
        (401, "", None, &["HF_TOKEN", "spelling", "licence"][..]),
        (401, "", Some("hf_secret"), &["refuses the token"]),
        (401, "GatedRepo", None, &["accept the licence", "HF_TOKEN"]),
        (401, "RepoNotFound", None, &["no such model", "HF_TOKEN"]),
        (403, "GatedRepo", Some("hf_secret"), &["accept the licence", "HF_TOKEN"]),
        (403, "", Some("hf_secret"), &["accept the licence"]),
        (404, "RepoNotFound", None, &["no such directory", "no such model", "private"]),
        (404, "", None, &["no such model"]),
        (404, "RevisionNotFound", None, &["no revision `v9`"]),
        (418, "", None, &["418"]),
    ] {
        let server = Server::start(move |_| Reply::status(status).header("X-Error-Code", code));
        let cache = tempfile::tempdir().unwrap();
        let token = token.map(str::to_owned);
        let message = failure(&HubConfig { token, ..settings(&server, cache.path()) }, "org/name@v9");
        assert!(message.starts_with("org/name@v9: "), "{message}");
        for word in words {
            assert!(message.contains(word), "{status} {code}: {message}");
        }
        assert_eq!(server.requests().len(), 1, "no use in asking again");
        assert!(fs::read_dir(cache.path()).unwrap().next().is_none());
    }
}

#[test]
fn pickles_are_refused_by_name() {
    let server = Server::start(|_| listing(&["config.json", "tokenizer.json", "pytorch_model.bin"]));
    let cache = tempfile::tempdir().unwrap();
    let message = failure(&settings(&server, cache.path()), "org/name");
    assert!(message.contains("pytorch_model.bin") && message.contains("safetensors"), "{message}");
}

#[test]
fn names_that_climb_are_refused() {
    for name in ["../../x", "/etc/passwd", "a/../../b", "a\\b", "", "C:x", "a//b", "line\nbreak"] {
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
fn shards_that_climb_or_do_not_exist_are_refused() {
    for (shard, word) in [("../../../x", "weight_map.a"), ("model-9.safetensors", "model-9.safetensors")] {
        let body = format!("{{\"weight_map\": {{\"a\": \"{shard}\"}}}}");
        let server = Server::start(move |request| {
            let index = Entry { etag: "unchecked", body: body.clone().into_bytes(), ..index_json() };
            serve(&[config_json(), tokenizer_json(), index], request)
        });
        let cache = tempfile::tempdir().unwrap();
        let message = failure(&settings(&server, cache.path()), "org/name");
        assert!(message.contains("index.json") && message.contains(word), "{message}");
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

#[test]
fn offline_uses_the_cache_and_says_what_it_lacks() {
    let (server, cache) = (hub(sharded()), tempfile::tempdir().unwrap());
    let offline = HubConfig { offline: true, ..settings(&server, cache.path()) };
    let message = failure(&offline, "org/name");
    assert!(message.contains("HF_HUB_OFFLINE") && message.contains("revision main"), "{message}");
    assert!(server.requests().is_empty());

    let snapshot = resolve_with(&settings(&server, cache.path()), "org/name", &()).unwrap();
    let before = server.requests().len();
    assert_eq!(resolve_with(&offline, "org/name", &()).unwrap(), snapshot);
    assert_eq!(resolve_with(&offline, &format!("org/name@{COMMIT}"), &()).unwrap(), snapshot);
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
    let snapshot = resolve_with(&config, "org/name", &()).unwrap();
    // Port 1 is below those that systems hand out, so nothing listens there.
    let closed = "http://127.0.0.1:1";
    let ill = Server::start(|_| Reply::status(503));
    for endpoint in [closed.to_owned(), ill.url.clone()] {
        let listener = Listener::default();
        let config = HubConfig { endpoint, backoff: Duration::from_secs(60), ..config.clone() };
        assert_eq!(resolve_with(&config, "org/name", &listener).unwrap(), snapshot);
        assert!(listener.warnings.lock().unwrap()[0].contains("using the copy"));
    }

    fs::remove_file(snapshot.join(WEIGHTS)).unwrap();
    let config = HubConfig { endpoint: closed.into(), ..config };
    let message = failure(&config, "org/name");
    assert!(message.contains(closed), "{message}");
}

#[test]
fn bookkeeping_that_fails_does_not_fail_the_download() {
    let (server, cache) = (hub(plain()), tempfile::tempdir().unwrap());
    fs::create_dir_all(cache.path().join("models--org--name")).unwrap();
    fs::write(cache.path().join("models--org--name/.no_exist"), "in the way").unwrap();
    let listener = Listener::default();
    let snapshot = resolve_with(&settings(&server, cache.path()), "org/name", &listener).unwrap();
    assert_holds(&snapshot, &plain());
    assert!(listener.warnings.lock().unwrap()[0].contains(".no_exist"));
}

#[test]
fn a_deleted_blob_is_downloaded_again() {
    let (server, cache) = (hub(plain()), tempfile::tempdir().unwrap());
    let config = settings(&server, cache.path());
    resolve_with(&config, "org/name", &()).unwrap();
    fs::remove_file(blob(cache.path(), weights(WEIGHTS).etag)).unwrap();
    let snapshot = resolve_with(&config, "org/name", &()).unwrap();
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
            (0..4).map(|_| scope.spawn(|| resolve_with(&config, "org/name", &()).unwrap())).collect();
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
