//! All of this once more, by a user who is not root.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::support::{SKIPPED, is_root, skipped};

#[test]
#[ignore = "deep: repeats the jail's tests as another user"]
fn everything_holds_for_a_user_who_is_not_root() {
    if !is_root() {
        return; // all other tests are this one
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let tests = directory.path().join("tests");
    std::fs::copy(std::env::current_exe().unwrap(), &tests).unwrap();
    let output = Command::new(&tests)
        .args(["--nocapture", "--skip", "unprivileged"])
        .current_dir("/")
        .env("HOME", "/")
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    // That there is no bubblewrap is said in the same words, and the others hold all the same.
    let has_none =
        |line: &str| line.contains("programs cannot be run safely here") && !line.contains(SKIPPED);
    if !output.status.success() && said.lines().any(has_none) {
        skipped("this system gives users who are not root no sandbox");
        return;
    }
    assert!(output.status.success(), "{said}");
    eprintln!("{said}");
}
