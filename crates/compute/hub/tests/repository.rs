//! A repository, hubs that serve it well or badly, and the cache that a download fills.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::server::{Received, Reply, Server};
use isentrope_hub::{HubConfig, Listings, Progress, resolve};

pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
pub const WEIGHTS: &str = "model.safetensors";

/// A file of the test's repository. Etags were computed with `git hash-object` and `sha256sum`.
pub struct Entry {
    pub name: &'static str,
    pub etag: &'static str,
    pub body: Vec<u8>,
}

pub fn config_json() -> Entry {
    let body = b"{\"model_type\": \"qwen2\"}\n".to_vec();
    Entry { name: "config.json", etag: "6074d5da214f2062ad9b8e1ed4eabaedba36c9e3", body }
}

pub fn tokenizer_json() -> Entry {
    let body = b"{\"version\": \"1.0\"}\n".to_vec();
    Entry { name: "tokenizer.json", etag: "92bdb0aff34a95a7c00546c3d608c984294164ed", body }
}

pub fn weights(name: &'static str) -> Entry {
    let etag = "cb8690e393200318a9f52ec1ea9c05cc48ea63eae57be5bb36ae4388f08270bb";
    Entry { name, etag, body: b"0123456789abcdef".repeat(16384) }
}

pub fn more_weights(name: &'static str) -> Entry {
    let etag = "9d4ae300b9a2ff196561053f5b65f0deea2870743af05395b8fd38e4ac8af3b6";
    Entry { name, etag, body: b"fedcba9876543210".repeat(16384) }
}

pub fn index_json() -> Entry {
    let body = b"{\"weight_map\": {\"a\": \"model-00001-of-00002.safetensors\", \
                 \"b\": \"model-00002-of-00002.safetensors\"}}\n";
    let etag = "504943cf8e393b77b82726be1b3d7427fc762c1b";
    Entry { name: "model.safetensors.index.json", etag, body: body.to_vec() }
}

pub fn plain() -> Vec<Entry> {
    vec![config_json(), tokenizer_json(), weights(WEIGHTS)]
}

pub fn sharded() -> Vec<Entry> {
    vec![
        config_json(),
        tokenizer_json(),
        index_json(),
        weights("model-00001-of-00002.safetensors"),
        more_weights("model-00002-of-00002.safetensors"),
        more_weights("consolidated.safetensors"),
    ]
}

pub fn listing(names: &[&str]) -> Reply {
    let siblings: Vec<_> =
        names.iter().map(|name| serde_json::json!({ "rfilename": name })).collect();
    let answer = serde_json::json!({ "id": "org/name", "sha": COMMIT, "siblings": siblings, "private": false });
    Reply::status(200).body(answer.to_string().as_bytes())
}

/// The answer of a hub that keeps every file itself.
pub fn serve(entries: &[Entry], request: &Received) -> Reply {
    if request.path.starts_with("/api/models/org/name/revision/") {
        return listing(&entries.iter().map(|entry| entry.name).collect::<Vec<_>>());
    }
    serve_file(entries, request, &format!("/org/name/resolve/{COMMIT}/"))
}

/// The answer to a request for a file below `folder`.
pub fn serve_file(entries: &[Entry], request: &Received, folder: &str) -> Reply {
    let name = request.path.strip_prefix(folder);
    let Some(entry) = entries.iter().find(|entry| name == Some(entry.name)) else {
        return Reply::status(404);
    };
    let reply = Reply::ranged(request, &entry.body);
    let reply = reply.header("ETag", format!("\"{}\"", entry.etag));
    reply.header("X-Repo-Commit", COMMIT).header("Accept-Ranges", "bytes")
}

pub fn hub(entries: Vec<Entry>) -> Server {
    Server::start(move |request| serve(&entries, request))
}

/// A hub whose answer to the n-th GET of the weights (from 0) is changed by `fault`.
pub fn faulty(fault: impl Fn(usize, Reply) -> Reply + Send + Sync + 'static) -> Server {
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

pub fn settings(server: &Server, cache: &Path) -> HubConfig {
    HubConfig {
        endpoint: server.url.clone(),
        token: Some("hf_secret".into()),
        cache: cache.to_owned(),
        offline: false,
        proxy: None,
        retries: 2,
        backoff: Duration::from_millis(1),
        timeout: Duration::from_secs(5),
        listings: Listings::default(),
    }
}

/// Records all calls.
#[derive(Default)]
pub struct Listener {
    pub advances: Mutex<Vec<(String, u64, u64)>>,
    pub said: Mutex<Vec<String>>,
    pub warnings: Mutex<Vec<String>>,
}

impl Progress for Listener {
    fn advance(&self, file: &str, done: u64, total: u64) {
        self.advances.lock().unwrap().push((file.into(), done, total));
    }

    fn say(&self, message: &str) {
        self.said.lock().unwrap().push(message.into());
    }

    fn warn(&self, message: &str) {
        self.warnings.lock().unwrap().push(message.into());
    }
}

pub fn failure(config: &HubConfig, model: &str) -> String {
    let message = resolve(config, model, &()).unwrap_err().to_string();
    assert!(!message.contains("hf_secret") && !message.contains('\n'), "{message}");
    message
}

pub fn assert_holds(snapshot: &Path, entries: &[Entry]) {
    for entry in entries {
        assert!(fs::read(snapshot.join(entry.name)).unwrap() == entry.body, "{}", entry.name);
    }
}

pub fn blobs(cache: &Path) -> Vec<String> {
    let dir = fs::read_dir(cache.join("models--org--name/blobs")).unwrap();
    let mut names: Vec<_> =
        dir.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

pub fn blob(cache: &Path, name: &str) -> PathBuf {
    cache.join("models--org--name/blobs").join(name)
}
