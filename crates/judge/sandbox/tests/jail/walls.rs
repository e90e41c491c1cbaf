//! The walls, from inside by shells and from outside by what the kernel says of the processes.

use std::fs::{self, File};

use isentrope_sandbox::{Ending, Jail};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use crate::support::{first_process, is_root, script, shell, tiers, unique};

#[test]
fn nothing_can_be_written_but_in_tmp() {
    for sandbox in tiers() {
        let places = "/ /usr /usr/bin /usr/lib /bin /lib /etc /dev /dev/null/x";
        let tries = format!(
            "for p in {places}; do echo x > $p/new && echo $p; mkdir $p/dir && echo $p; done; \
             echo x >> /bin/sh && echo sh; rm -f /bin/sh && ! test -e /bin/sh && echo removed; \
             chmod 777 /usr/lib && echo chmod; mv /bin/sh /tmp && echo mv; mount -o remount,rw / && echo mount; \
             mknod /tmp/d b 8 0 && echo mknod; chown 0 /tmp && echo chown; cat /.isentrope > /dev/null && echo this program; \
              echo fine > /tmp/file; cat /tmp/file; \
             echo gone > /dev/null; head -c 4 /dev/urandom | wc -c"
        );
        let done = script(&sandbox, &tries);
        assert_eq!(done.stdout, "fine\n4\n", "{done:?}");
    }
}

#[test]
fn others_cannot_be_signalled() {
    let starter = std::process::id();
    for sandbox in tiers() {
        // Nothing is killed from a jail that sees others, which this would otherwise end with all
        // else on the machine.
        let done = script(
            &sandbox,
            &format!("kill -0 {starter} && echo seen && exit; kill -9 -1; echo alive"),
        );
        assert_eq!((done.stdout.as_str(), done.ending), ("alive\n", Ending::Exited(0)));
        // The first process is safe from those that it starts, and they are not from each other.
        let inside = "sleep 100 & child=$!; sh -c 'kill -9 1; kill -TERM 1; kill -INT 1; kill -HUP 1'; \
                      sh -c \"kill -9 $child\"; wait $child; echo $?";
        let done = script(&sandbox, inside);
        assert_eq!((done.stdout.as_str(), done.ending), ("137\n", Ending::Exited(0)));
    }
}

#[test]
fn the_kernel_says_the_same() {
    // Something that a careless starter leaves open for whatever it starts.
    let leaked = File::open("/etc/passwd").unwrap();
    fcntl(&leaked, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    for sandbox in tiers() {
        let name = unique("seen");
        let mut jail = Jail::start(&sandbox, &shell("read line", &name)).unwrap();
        let _streams = jail.streams();
        let pid = first_process(&name);
        let of = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
        let status = of("status");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or_default().trim().to_owned()
        };
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(field(set), "0000000000000000", "{set}");
        }
        assert_eq!(field("SigBlk"), "0000000000000000", "programs end each other by signals");
        assert_eq!((field("NoNewPrivs"), field("Seccomp")), ("1".into(), "2".into()));
        assert_eq!(field("NSpid").split_whitespace().last(), Some("1"));
        assert_eq!(field("Groups"), if is_root() { "".to_owned() } else { field("Groups") });
        let users: Vec<u32> =
            field("Uid").split_whitespace().map(|user| user.parse().unwrap()).collect();
        if is_root() {
            assert!(users.iter().all(|user| *user > 65536), "{users:?}");
            assert_eq!(field("CapBnd"), "0000000000000000");
        }
        for namespace in ["mnt", "pid", "net", "ipc", "uts"] {
            let link = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/{namespace}")).unwrap();
            assert_ne!(link(&pid.to_string()), link("self"), "{namespace}");
        }
        // Every mount but /tmp is read-only, and none is of processes or of the system. Devices
        // belong to others.
        for mount in of("mountinfo").lines() {
            let fields: Vec<&str> = mount.split(' ').collect();
            let (at, options, kind) = (fields[4], fields[5], mount.split(" - ").nth(1).unwrap());
            let writable = options.split(',').all(|option| option != "ro");
            assert!(!writable || at == "/tmp" || at.starts_with("/dev/"), "{mount}");
            assert!(!kind.starts_with("proc") && !kind.starts_with("sysfs"), "{mount}");
            assert!(options.contains("nosuid"), "{mount}");
        }
        let mut network =
            of("net/dev").lines().skip(2).map(|line| line.trim().to_owned()).collect::<Vec<_>>();
        network.retain(|line| !line.starts_with("lo:"));
        network.retain(|line| {
            !line.split(':').nth(1).unwrap().split_whitespace().all(|count| count == "0")
        });
        assert!(network.is_empty(), "{network:?}");
        let mut descriptors: Vec<String> = (fs::read_dir(format!("/proc/{pid}/fd")).unwrap())
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        descriptors.sort();
        assert_eq!(descriptors, ["0", "1", "2"]);
        let environment = of("environ");
        let names: Vec<&str> =
            environment.split_terminator('\0').map(|set| set.split('=').next().unwrap()).collect();
        assert!(
            names.iter().all(|name| ["PATH", "HOME", "TMPDIR", "LANG"].contains(name)),
            "{names:?}"
        );
        assert_eq!((of("oom_score_adj").trim(), field("Umask").as_str()), ("1000", "0022"));
        let limits = of("limits");
        for (limit, value) in
            [("Max processes", "32"), ("Max core file size", "0"), ("Max locked memory", "0")]
        {
            let line = limits.lines().find(|line| line.starts_with(limit)).unwrap();
            let found: Vec<&str> = line[limit.len()..].split_whitespace().take(2).collect();
            // In a user namespace the outer process is one of the user's.
            assert!(
                found == [value; 2] || limit == "Max processes" && found == ["33"; 2],
                "{line}"
            );
        }
        // At the head of a session of its own, without a terminal.
        let stat = of("stat");
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        assert_eq!(fields[4], "0", "a terminal: {stat}");
        let own = fs::read_to_string("/proc/self/stat").unwrap();
        assert_ne!(
            Some(fields[3]),
            own.rsplit(')').next().unwrap().split_whitespace().nth(3),
            "the session"
        );
        assert_eq!(jail.end(), Ending::Ended);
    }
}
