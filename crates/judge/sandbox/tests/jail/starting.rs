//! Tests what a jail shows of the host, and how one cannot be started.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use isentrope_sandbox::{Ending, Jail, Program};

use crate::support::{is_root, run, shell, skipped, tiers};

/// A directory that every user may enter.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

#[test]
fn streams_arguments_and_environment_are_what_was_given() {
    for sandbox in tiers() {
        let mut program = shell("cat; echo \"$0 $1 $GREETING\"; env | sort >&2", "name");
        program.arguments.push("two words".into());
        program.environment = vec![("GREETING".into(), "hello".into())];
        let long = "0123456789".repeat(100_000);
        let done = run(&sandbox, &program, &long);
        assert_eq!(done.stdout, format!("{long}name two words hello\n"));
        let environment =
            "GREETING=hello\nHOME=/tmp\nLANG=C.UTF-8\nPATH=/usr/bin:/bin\nPWD=/tmp\nTMPDIR=/tmp\n";
        assert_eq!(done.stderr, environment);
        assert_eq!(done.ending, Ending::Exited(0));
    }
}

#[test]
fn what_is_given_can_be_read_and_links_lead_where_they_did() {
    let directory = directory();
    let root = directory.path().canonicalize().unwrap();
    fs::create_dir(root.join("given")).unwrap();
    fs::write(root.join("given/file"), "given\n").unwrap();
    fs::write(root.join("target"), "linked\n").unwrap();
    fs::write(root.join("secret"), "secret\n").unwrap();
    symlink("../target", root.join("given/link")).unwrap();
    symlink("given", root.join("alias")).unwrap();
    symlink(root.join("given/link"), root.join("with a space")).unwrap();
    for sandbox in tiers() {
        let mut program =
            shell("cd \"$0\"; cat given/file alias/file 'with a space' given/link secret", "");
        program.arguments[2] = root.clone().into();
        program.readable.extend(["alias", "with a space"].map(|path| root.join(path)));
        let done = run(&sandbox, &program, "");
        assert_eq!(done.stdout, "given\ngiven\nlinked\nlinked\n", "{done:?}");
        assert!(done.stderr.contains("secret"), "{done:?}");
    }
}

#[test]
fn what_is_mounted_below_is_read_only_too() {
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};

    if !is_root() {
        skipped("only root can mount");
        return;
    }
    const NOTHING: Option<&str> = None;
    let directory = directory();
    let below = directory.path().join("a mount");
    fs::create_dir(&below).unwrap();
    // For this thread alone, from which the jails' processes come.
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NOTHING).unwrap();
    mount(Some("tmpfs"), &below, Some("tmpfs"), MsFlags::empty(), Some("mode=777")).unwrap();
    fs::write(below.join("file"), "there\n").unwrap();
    fs::set_permissions(below.join("file"), fs::Permissions::from_mode(0o666)).unwrap();
    for sandbox in tiers() {
        let mut program =
            shell("cd \"$0\"; cat file; echo x > file; echo y > new; ls; cat file", "");
        program.arguments[2] = below.clone().into();
        program.readable.push(directory.path().into());
        let done = run(&sandbox, &program, "");
        assert_eq!(done.stdout, "there\nfile\nthere\n", "{done:?}");
        assert_eq!(fs::read_to_string(below.join("file")).unwrap(), "there\n");
    }
}

#[test]
fn what_cannot_be_started_says_why() {
    let directory = directory();
    let path = |name: &str| -> PathBuf { directory.path().join(name) };
    fs::write(path("text"), "no program").unwrap();
    fs::write(path("script"), "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(path("script"), fs::Permissions::from_mode(0o755)).unwrap();
    for sandbox in tiers() {
        let refused = |program: Program| Jail::start(&sandbox, &program).unwrap_err().to_string();
        let program = |program: PathBuf| Program { program, ..Program::default() };
        for (file, part) in [
            (path("missing"), "missing cannot be shown in a jail: No such file or directory"),
            (path("text"), "text cannot be started in a jail: Permission denied"),
            (path("script"), "script cannot be started in a jail: No such file or directory"),
            ("bin/sh".into(), "it is no absolute path"),
        ] {
            let said = refused(program(file));
            assert!(said.contains(part), "{said}");
            let is_denied = part.ends_with("denied") && is_root();
            assert_eq!(said.contains("readable for all users"), is_denied, "{said}");
        }
        let mut program = shell("true", "");
        program.readable.push("/proc".into());
        assert!(refused(program).contains("it would show the host"));
    }
}
