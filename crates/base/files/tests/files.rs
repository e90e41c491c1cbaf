//! Files and directories that appear whole or not at all, locks, and hashes, as crates above use
//! them.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use isentrope_files::{
    AtomicDirectory, AtomicFile, Digest, Error, Lock, NewFile, lock_directory, lock_file,
    make_directory, names, put_in_place, remove, sha256_of_file,
};
use serde_json::json;
use tempfile::tempdir;

fn listing(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        names(dir).unwrap().into_iter().map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_file_takes_the_place_of_another_only_when_it_is_complete() {
    let dir = tempdir().unwrap();
    let target = dir.path().join("out.jsonl");
    fs::write(&target, "older").unwrap();
    let mut file = AtomicFile::create(&target).unwrap();
    file.json_line(&json!({"a": 1.5, "b": [1, "x"]})).unwrap();
    file.write(b"text\n").unwrap();
    file.json(&json!({"c": {}, "d": [1]})).unwrap();
    assert_eq!(file.temporary().parent(), target.parent());
    assert_eq!(file.temporary().extension(), target.extension());
    assert_eq!((read(&target), listing(dir.path()).len()), ("older".to_owned(), 2));
    file.commit().unwrap();
    let written = "{\"a\":1.5,\"b\":[1,\"x\"]}\ntext\n{\n  \"c\": {},\n  \"d\": [\n    1\n  ]\n}\n";
    assert_eq!(read(&target), written);
    assert_eq!(listing(dir.path()), ["out.jsonl"]);
}

#[test]
fn several_writers_do_not_meet_and_what_is_given_up_goes() {
    let dir = tempdir().unwrap();
    let target = dir.path().join("out");
    let [mut one, mut other, given_up] = [(); 3].map(|()| AtomicFile::create(&target).unwrap());
    one.write(b"one").unwrap();
    other.write(b"other").unwrap();
    assert_eq!(listing(dir.path()).len(), 3);
    drop(given_up);
    other.commit_as(&dir.path().join("out.partial")).unwrap();
    one.commit().unwrap();
    assert_eq!(listing(dir.path()), ["out", "out.partial"]);
    assert_eq!(fs::read(dir.path().join("out.partial")).unwrap(), b"other");
}

#[test]
fn a_name_that_a_kill_left_is_begun_anew() {
    let dir = tempdir().unwrap();
    let (target, temporary) = (dir.path().join("a.json"), dir.path().join("a.partial"));
    let create = || AtomicFile::create_as(&target, temporary.clone()).unwrap();
    let mut killed = create();
    killed.write(b"longer than what comes after it").unwrap();
    drop(killed);
    assert_eq!(listing(dir.path()), ["a.partial"]);
    let mut file = create();
    file.write(b"short").unwrap();
    file.commit().unwrap();
    assert_eq!((listing(dir.path()), read(&target)), (vec!["a.json".into()], "short".into()));
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_leaves_the_target_as_it_was_and_is_told_with_its_name() {
    let dir = tempdir().unwrap();
    let target = dir.path().join("out");
    fs::write(&target, "older").unwrap();
    // Small contents fail when the file is finished, large ones while they are written.
    for len in [10, 8 << 20] {
        let mut file = AtomicFile::create_as(&target, "/dev/full".into()).unwrap();
        let result = file.write(&vec![1; len]).and_then(|()| file.commit());
        let Err(Error::Io { path, source }) = result else { panic!("{result:?}") };
        assert_eq!((path, source.kind()), (target.clone(), std::io::ErrorKind::StorageFull));
    }
    assert_eq!((listing(dir.path()), read(&target)), (vec!["out".into()], "older".into()));
}

#[test]
fn errors_name_what_could_not_be_made_and_leave_nothing() {
    let dir = tempdir().unwrap();
    let absent = dir.path().join("absent/out");
    let temporary = dir.path().join("absent/temporary");
    for error in [
        AtomicFile::create(&absent).unwrap_err(),
        AtomicFile::create_as(&absent, temporary.clone()).unwrap_err(),
        NewFile::create(&absent).unwrap_err(),
        sha256_of_file(&absent).unwrap_err(),
    ] {
        assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::NotFound);
    }
    for (path, error) in [
        (&absent, AtomicFile::create(&absent).unwrap_err()),
        (&temporary, AtomicFile::create_as(&absent, temporary.clone()).unwrap_err()),
    ] {
        assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
    }
    assert!(listing(dir.path()).is_empty());
}

#[test]
fn a_complete_file_that_cannot_have_its_name_is_kept_and_named() {
    let dir = tempdir().unwrap();
    let taken = dir.path().join("taken.jsonl");
    fs::create_dir_all(taken.join("below")).unwrap();
    for mut file in [
        AtomicFile::create(&taken).unwrap(),
        AtomicFile::create_as(&taken, dir.path().join("a.partial")).unwrap(),
    ] {
        file.write(b"hours of work").unwrap();
        let said = file.commit().unwrap_err().to_string();
        assert!(said.starts_with(&format!("{}: ", taken.display())), "{said}");
        let (_, kept) = said.rsplit_once("what was to have this name is ").unwrap();
        assert_eq!(fs::read(kept).unwrap(), b"hours of work");
    }
    let [_, kept, _] = &listing(dir.path())[..] else { panic!("{:?}", listing(dir.path())) };
    assert!(kept.starts_with("isentrope-") && kept.ends_with(".jsonl"), "{kept}");
}

#[test]
fn a_new_file_replaces_nothing() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("a");
    let mut file = NewFile::create(&path).unwrap();
    file.write(b"1").unwrap();
    file.finish().unwrap();
    assert!(NewFile::create(&path).is_err());
    assert_eq!(fs::read(&path).unwrap(), b"1");
}

#[test]
fn a_file_that_grew_elsewhere_is_put_in_place() {
    let dir = tempdir().unwrap();
    let (grown, target) = (dir.path().join("a.incomplete"), dir.path().join("a"));
    fs::write(&grown, "all").unwrap();
    put_in_place(&fs::File::open(&grown).unwrap(), &grown, &target).unwrap();
    assert_eq!((listing(dir.path()), read(&target)), (vec!["a".into()], "all".into()));
}

#[test]
fn a_directory_appears_only_on_commit() {
    let parent = tempdir().unwrap();
    let target = parent.path().join("step-3");
    let directory = AtomicDirectory::create(&target).unwrap();
    fs::write(directory.path().join("state"), "1").unwrap();
    assert!(!target.exists());
    // Someone else was faster.
    fs::create_dir(&target).unwrap();
    fs::write(target.join("theirs"), "2").unwrap();
    assert!(matches!(directory.commit(), Err(Error::Refused(_))));
    assert_eq!(listing(parent.path()), ["step-3"]);
    assert_eq!(listing(&target), ["theirs"]);
    // A directory that a killed process leaves starts with a dot and the name.
    remove(&target).unwrap();
    let killed = AtomicDirectory::create(&target).unwrap();
    assert!(listing(parent.path())[0].starts_with(".step-3."));
    fs::write(killed.path().join("state"), "1").unwrap();
    killed.commit().unwrap();
    assert_eq!(
        (listing(parent.path())[0].as_str(), listing(&target)[0].as_str()),
        ("step-3", "state")
    );
}

#[test]
fn directories_are_made_listed_and_removed() {
    let dir = tempdir().unwrap();
    let deep = dir.path().join("a/b/c");
    make_directory(&deep).unwrap();
    make_directory(&deep).unwrap();
    fs::write(deep.join("file"), "").unwrap();
    assert_eq!(listing(&deep), ["file"]);
    remove(&deep.join("file")).unwrap();
    remove(&dir.path().join("a")).unwrap();
    remove(&deep).unwrap(); // it is gone already
    assert!(listing(&deep).is_empty() && listing(dir.path()).is_empty());
    fs::write(dir.path().join("file"), "").unwrap();
    assert!(make_directory(&dir.path().join("file/below")).is_err());
}

#[test]
#[cfg(unix)]
fn a_directory_is_locked_until_the_lock_goes() {
    let dir = tempdir().unwrap();
    let lock = lock_directory(dir.path(), "writing").unwrap();
    assert!(matches!(lock, Lock::Held(_)));
    let refused = lock_directory(dir.path(), "writing").unwrap_err().to_string();
    assert!(refused.contains("another process is writing in"), "{refused}");
    drop(lock);
    drop(lock_directory(dir.path(), "writing").unwrap());
    assert!(lock_directory(&dir.path().join("absent"), "writing").is_err());
}

#[test]
fn who_waits_for_a_lock_says_so_and_gets_it() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("a.lock");
    let first = lock_file(&path, || panic!("nobody has it")).unwrap();
    let (told, waits) = mpsc::channel();
    std::thread::scope(|scope| {
        let second = scope.spawn(|| lock_file(&path, || told.send(()).unwrap()).unwrap());
        waits.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(!second.is_finished());
        drop(first);
        assert!(matches!(second.join().unwrap(), Lock::Held(_)));
    });
}

#[test]
fn hashes_are_those_of_the_standards() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("abc");
    fs::write(&path, "abc").unwrap();
    // FIPS 180-4's examples.
    let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(sha256_of_file(&path).unwrap(), sha256);
    let in_memory: String =
        isentrope_files::sha256(b"abc").iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(in_memory, sha256);
    for (mut digest, expected) in
        [(Digest::sha256(), sha256), (Digest::sha1(), "a9993e364706816aba3e25717850c26c9cd0d89d")]
    {
        digest.update(b"a");
        assert_ne!(digest.hex(), expected);
        digest.update(b"bc");
        assert_eq!(digest.hex(), expected);
    }
}
