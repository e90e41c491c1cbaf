//! Fetches libraries from a package index on this machine, with made-up wheels and chosen faults.

use crate::links::loopback;
use isentrope_cuda::gpu::{
    Installer, LibraryPlace, Nccl, Outcome, Package, Progress, Surroundings, Version,
};
use isentrope_files::{Digest, names};
use serde_json::json;
use std::fs;
use std::io::{BufRead, BufReader, Cursor, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use zip::write::SimpleFileOptions;

/// How a server sends a wheel.
#[derive(Clone, Copy)]
enum Behaviour {
    Whole,
    /// Sends this many bytes, then closes the connection.
    Cut(usize),
    /// Sends other bytes.
    Damaged,
    /// Answers with this status.
    Status(u16),
}

/// An index with one wheel of one package.
struct Index {
    url: String,
    wheel: Arc<Vec<u8>>,
    /// Requests for the wheel so far.
    requests: Arc<AtomicUsize>,
    /// The answers to the next requests for the wheel; the last one stays.
    behaviours: Arc<Mutex<Vec<Behaviour>>>,
}

const PLATFORM: &str =
    if cfg!(target_arch = "aarch64") { "manylinux2014_aarch64" } else { "manylinux_2_17_x86_64" };

impl Index {
    fn new(version: &str, wheel: Vec<u8>, behaviours: &[Behaviour]) -> Self {
        Self::of(nvrtc(), version, wheel, behaviours)
    }

    fn of(package: Package, version: &str, wheel: Vec<u8>, behaviours: &[Behaviour]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/simple", listener.local_addr().unwrap());
        let mut digest = Digest::sha256();
        digest.update(&wheel);
        let spelled = package.name.replace('-', "_");
        let file = format!("{spelled}-{version}-py3-none-{PLATFORM}.whl");
        let listed = json!({
            "filename": file, "url": format!("../../files/{file}"), "size": wheel.len(),
            "yanked": false, "hashes": { "sha256": digest.hex() },
        });
        let page = json!({
            "meta": { "api-version": "1.1" }, "name": package.name, "files": [listed],
        });
        let page = (format!("/simple/{}/", package.name), page.to_string());
        let index = Self {
            url,
            wheel: Arc::new(wheel),
            requests: Arc::default(),
            behaviours: Arc::new(Mutex::new(behaviours.to_vec())),
        };
        let (wheel, requests) = (index.wheel.clone(), index.requests.clone());
        let behaviours = index.behaviours.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                answer(&stream.unwrap(), &page, &wheel, &requests, &behaviours);
            }
        });
        index
    }

    fn installer(&self, cache: &Path) -> Installer {
        Installer::new(&self.url, cache.to_owned())
    }

    /// How often the wheel was requested.
    fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

fn answer(
    mut stream: &TcpStream,
    (of_package, page): &(String, String),
    wheel: &[u8],
    requests: &AtomicUsize,
    behaviours: &Mutex<Vec<Behaviour>>,
) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let Some(first) = lines.next() else { return };
    let path = first.split(' ').nth(1).unwrap().to_owned();
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let head = |status: u16, length: usize| {
        format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n")
    };
    let whole = |body: &[u8]| [head(200, body.len()).as_bytes(), body].concat();
    let sent = match path.as_str() {
        path if path == of_package => whole(page.as_bytes()),
        path if path.starts_with("/files/") && path.ends_with(".whl") => {
            requests.fetch_add(1, Ordering::Relaxed);
            let mut behaviours = behaviours.lock().unwrap();
            let many = behaviours.len() > 1;
            match if many { behaviours.remove(0) } else { behaviours[0] } {
                Behaviour::Whole => whole(wheel),
                Behaviour::Cut(bytes) => {
                    [head(200, wheel.len()).as_bytes(), &wheel[..bytes]].concat()
                }
                Behaviour::Damaged => {
                    let mut damaged = whole(wheel);
                    *damaged.last_mut().unwrap() ^= 1;
                    damaged
                }
                Behaviour::Status(status) => head(status, 0).into_bytes(),
            }
        }
        _ => head(404, 0).into_bytes(),
    };
    let _ = stream.write_all(&sent);
}

/// A wheel with these entries.
fn wheel(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Bytes that do not compress to nothing.
fn library() -> Vec<u8> {
    (0..200_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn usual() -> Vec<u8> {
    wheel(&[
        ("nvidia/cu13/include/nvrtc.h", b"header"),
        ("nvidia/cu13/lib/libnvrtc-builtins.so.13.5", b"builtins"),
        ("nvidia/cu13/lib/libnvrtc.so.13", &library()),
        ("nvidia/cu13/lib/../../../../../escaped", b"outside"),
        ("nvidia_cuda_nvrtc-13.5.37.dist-info/licenses/License.txt", b"licence"),
    ])
}

/// The progress and the warnings of an installation.
#[derive(Default)]
struct Recorder(Mutex<Vec<String>>, Mutex<Vec<(u64, u64)>>);

impl Progress for Recorder {
    fn advance(&self, _file: &str, done: u64, total: u64) {
        self.1.lock().unwrap().push((done, total));
    }

    fn warn(&self, message: &str) {
        self.0.lock().unwrap().push(message.to_owned());
    }
}

fn nvrtc() -> Package {
    Package::of(13)[0]
}

/// Why an installation fails.
fn refusal(installer: &Installer, package: Package) -> String {
    installer.install(package, &()).unwrap_err().to_string()
}

fn listed(directory: &Path) -> Vec<String> {
    let mut all: Vec<String> =
        names(directory).unwrap().iter().map(|name| name.to_string_lossy().into()).collect();
    all.sort();
    all
}

fn scratch() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache").join("isentrope").join("cuda");
    (dir, cache)
}

#[test]
fn libraries_are_installed_once_and_replace_older_ones() {
    let (dir, cache) = scratch();
    let old = cache.join("libraries").join("nvidia_cuda_nvrtc-13.4.92");
    let other = cache.join("libraries").join("nvidia_cuda_nvrtc_cu12-12.9.86");
    for directory in [&old, &other] {
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join("libnvrtc.so.13"), "old").unwrap();
    }
    // Left by a process that was killed.
    let left = cache.join("libraries").join(".nvidia_cuda_nvrtc-13.5.37.Xy3");
    fs::create_dir_all(&left).unwrap();
    fs::write(left.join("libnvrtc.so.13"), "half").unwrap();
    fs::create_dir_all(cache.join("downloads")).unwrap();
    fs::write(cache.join("downloads").join("nvidia_cuda_nvrtc-13.4.92.whl.incomplete"), "part")
        .unwrap();
    let index = Index::new("13.5.37", usual(), &[Behaviour::Whole]);
    let recorder = Recorder::default();
    let installed = index.installer(&cache).install(nvrtc(), &recorder).unwrap();
    assert_eq!((installed.version.as_str(), installed.was_there), ("13.5.37", false));
    assert_eq!(installed.libraries, ["libnvrtc-builtins.so.13.5", "libnvrtc.so.13"]);
    assert_eq!(
        listed(&installed.directory),
        ["License.txt", "libnvrtc-builtins.so.13.5", "libnvrtc.so.13"]
    );
    assert_eq!(fs::read(installed.directory.join("libnvrtc.so.13")).unwrap(), library());
    assert!(!old.exists() && other.exists() && !left.exists());
    assert_eq!(listed(&cache.join("downloads")), [""; 0]);
    assert_eq!(listed(&cache), ["downloads", "install.lock", "libraries"]);
    assert_eq!(listed(dir.path()), ["cache"]);
    let advanced = recorder.1.lock().unwrap();
    let total = index.wheel.len() as u64;
    assert!(advanced.is_sorted() && advanced.last() == Some(&(total, total)), "{advanced:?}");
    assert!(recorder.0.lock().unwrap().is_empty());
    // The second time nothing is fetched.
    let again = index.installer(&cache).install(nvrtc(), &()).unwrap();
    assert!(again.was_there && again.libraries == installed.libraries);
    assert_eq!(index.requests(), 1);
}

/// NCCL's wheel, with a library of its interface in its place, is unpacked, found and opened.
#[test]
fn nccl_is_installed_and_found() {
    for (driver, directory) in [(12, "nvidia_nccl_cu12-2.30.7"), (13, "nvidia_nccl_cu13-2.30.7")] {
        let (dir, cache) = scratch();
        let library = fs::read(loopback()).unwrap();
        let nccl = wheel(&[
            ("nvidia/nccl/include/nccl.h", b"header"),
            ("nvidia/nccl/lib/libnccl.so.2", &library),
            ("nvidia/nccl/lib/libnccl_device.bc", b"bitcode"),
            (&format!("{directory}.dist-info/licenses/License.txt"), b"licence"),
        ]);
        let package = Package::of(driver)[2];
        let index = Index::of(package, "2.30.7", nccl, &[Behaviour::Whole]);
        let installed = index.installer(&cache).install(package, &()).unwrap();
        assert_eq!(listed(&installed.directory), ["License.txt", "libnccl.so.2"]);
        let variables = [("XDG_CACHE_HOME".into(), dir.path().join("cache").into())].into();
        let surroundings = Surroundings { root: dir.path().join("none"), home: None, variables };
        let (_, search) = Nccl::search(&surroundings);
        let [found] = &search.candidates[..] else { panic!("{search:?}") };
        assert!(found.path.ends_with(format!("libraries/{directory}/libnccl.so.2")), "{found}");
        assert_eq!((found.place, &found.outcome), (LibraryPlace::Installed, &Outcome::Taken));
        assert_eq!(found.version, Some(Version::new(2, 99)));
    }
}

#[test]
fn a_download_that_breaks_off_or_arrives_damaged_is_tried_again() {
    let (_dir, cache) = scratch();
    let cut = Behaviour::Cut;
    let behaviours =
        [cut(1000), Behaviour::Status(503), Behaviour::Damaged, cut(5000), Behaviour::Whole];
    let index = Index::new("13.5.37", usual(), &behaviours);
    let recorder = Recorder::default();
    index.installer(&cache).install(nvrtc(), &recorder).unwrap();
    assert_eq!((index.requests(), recorder.0.lock().unwrap().len()), (5, 4), "{:?}", recorder.0);
}

#[test]
fn what_does_not_arrive_is_not_installed() {
    for (behaviour, why) in
        [(Behaviour::Damaged, "SHA-256 is not"), (Behaviour::Status(503), "503")]
    {
        let (_dir, cache) = scratch();
        let index = Index::new("13.5.37", usual(), &[behaviour]);
        let error = refusal(&index.installer(&cache), nvrtc());
        for part in [why, "4 retries", "pip download", "ISENTROPE_CUDA_LIBRARIES"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert_eq!(listed(&cache.join("libraries")), [""; 0]);
    }
}

#[test]
fn archives_that_are_no_wheels_of_libraries_are_refused() {
    let truncated = usual()[..5000].to_vec();
    let without = wheel(&[("nvidia/cu13/include/nvrtc.h", b"header")]);
    let mut link = zip::ZipWriter::new(Cursor::new(Vec::new()));
    link.add_symlink("nvidia/cu13/lib/libnvrtc.so.13", "/etc/passwd", SimpleFileOptions::default())
        .unwrap();
    let link = link.finish().unwrap().into_inner();
    // An entry that claims to be longer than it is: 10 bytes more, in both headers of the zip.
    let mut lying = wheel(&[("nvidia/cu13/lib/libnvrtc.so.13", b"short")]);
    let size = 5_u32.to_le_bytes();
    for place in 0..lying.len() - 4 {
        if lying[place..place + 4] == size
            && (place == 22 || lying[..place].ends_with(&lying[place - 4..place]))
        {
            lying[place] = 15;
        }
    }
    for (what, archive, said) in [
        ("truncated", truncated, "whl"),
        ("without libraries", without, "none of libnvrtc.so., libnvrtc-builtins.so. is in it"),
        ("a link", link, "not a plain file"),
        ("lying", lying, "whl"),
    ] {
        let (dir, cache) = scratch();
        let index = Index::new("13.5.37", archive, &[Behaviour::Whole]);
        let error = refusal(&index.installer(&cache), nvrtc());
        assert!(error.contains(said), "{what}: {error}");
        assert_eq!(listed(&cache.join("libraries")), [""; 0], "{what}");
        assert_eq!(listed(dir.path()), ["cache"], "{what}");
    }
}

#[test]
fn an_index_that_has_nothing_or_is_not_there_is_a_sentence() {
    let (_dir, cache) = scratch();
    let index = Index::new("12.9.86", usual(), &[Behaviour::Whole]);
    let error = refusal(&index.installer(&cache), nvrtc());
    assert!(error.contains("no wheel of nvidia-cuda-nvrtc 13 for Linux"), "{error}");
    let error = refusal(&index.installer(&cache), Package::of(13)[1]);
    assert!(error.contains("answered 404") && error.contains("/simple/nvidia-cublas/"), "{error}");
    // A port without a listener.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nobody = Installer::new(&format!("http://127.0.0.1:{port}/simple"), cache.clone());
    let error = refusal(&nobody, nvrtc());
    assert!(
        error.contains(&format!("http://127.0.0.1:{port}")) && error.contains("pip download"),
        "{error}"
    );
    for index in ["http://pypi.org/simple", "pypi.org", "file:///simple", ""] {
        let error = refusal(&Installer::new(index, cache.clone()), nvrtc());
        assert!(
            error.contains("PIP_INDEX_URL is not the https URL of a package index"),
            "{index}: {error}"
        );
    }
}

#[test]
fn two_at_once_install_the_same() {
    let (_dir, cache) = scratch();
    let index = Index::new("13.5.37", usual(), &[Behaviour::Whole]);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| index.installer(&cache).install(nvrtc(), &()).unwrap());
        }
    });
    assert_eq!(index.requests(), 1);
    assert_eq!(listed(&cache.join("libraries")), ["nvidia_cuda_nvrtc-13.5.37"]);
}
