//! Ranks on two machines, which are network namespaces of this one here, and a network between them
//! that is cut.

use crate::program::stderr;
use crate::train_ranks::{Launcher, end_of, wait_for_lines};
use crate::training::{Bench, assert_same_results, lines, succeed};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Two machines with a wire between them.
struct Network {
    names: [String; 2],
}

impl Network {
    /// None where this process may not make them.
    fn new() -> Option<Self> {
        let names = ["a", "b"].map(|side| format!("isentrope-{}-{side}", std::process::id()));
        let network = Self { names };
        let [a, b] = &network.names;
        let wire =
            ["link", "add", "wire", "netns", a, "type", "veth", "peer", "name", "wire", "netns", b];
        let made = ip(&["netns", "add", a]) && ip(&["netns", "add", b]) && ip(&wire);
        let up = |(name, address): (&String, &str)| {
            ip(&["-n", name, "address", "add", address, "dev", "wire"])
                && ["wire", "lo"]
                    .iter()
                    .all(|device| ip(&["-n", name, "link", "set", device, "up"]))
        };
        let addresses = ["10.77.31.1/24", "10.77.31.2/24"];
        (made && network.names.iter().zip(addresses).all(up)).then_some(network)
    }

    fn cut(&self) {
        assert!(ip(&["-n", &self.names[1], "link", "set", "wire", "down"]));
    }

    fn mend(&self) {
        assert!(ip(&["-n", &self.names[1], "link", "set", "wire", "up"]));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&["netns", "delete", name]);
        }
    }
}

fn ip(arguments: &[&str]) -> bool {
    let command = Command::new("ip").args(arguments).stderr(Stdio::null()).status();
    command.is_ok_and(|status| status.success())
}

#[test]
#[ignore = "deep: cuts a network between namespaces, which takes minutes"]
fn a_network_that_is_cut_for_a_moment_costs_nothing_and_for_good_ends_all() {
    let open_mpi = Launcher::installed().into_iter().find(|launcher| launcher.is_open_mpi);
    let (Some(launcher), Some(network)) = (open_mpi, Network::new()) else {
        println!("no Open MPI, or no network namespaces may be made: a cut network is not tried");
        return;
    };
    let bench = Bench::train();
    let sets = "update.shards=2 run.steps=40 checkpoint.every=5";
    let whole = bench.run("whole", sets, "");
    // Open MPI calls this instead of ssh: HOST WORDS OF A COMMAND. Machines have names of their
    // own.
    let agent = bench.scratch.path("agent");
    let [a, b] = &network.names;
    let script = format!(
        "#!/bin/sh\nshift\nexec ip netns exec {b} unshare --uts sh -c 'hostname b; eval \"$0\"' \"$*\"\n"
    );
    fs::write(&agent, script).unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    let start = |out: &str| {
        let patient = format!("{sets} ranks.timeout_s=5");
        let job = launcher.jobs(&[(2, "ISENTROPE_THREADS=1")], &bench.command(out, &patient, ""));
        let mut there = Command::new("ip");
        there.args([
            "netns",
            "exec",
            a,
            "unshare",
            "--uts",
            "sh",
            "-c",
            "hostname a; exec \"$@\"",
            "sh",
        ]);
        there.arg(job.get_program()).args([
            "--mca",
            "plm_rsh_agent",
            &agent,
            "--mca",
            "btl",
            "tcp,self",
        ]);
        for layer in ["btl_tcp_if_include", "oob_tcp_if_include"] {
            there.args(["--mca", layer, "10.77.31.0/24"]);
        }
        there.args(["--host", "10.77.31.1:1,10.77.31.2:1"]).args(job.get_args());
        job.get_envs().filter_map(|(name, value)| Some((name, value?))).for_each(
            |(name, value)| {
                there.env(name, value);
            },
        );
        let mut child = there
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for_lines(&mut child, &bench.out(out), 8);
        network.cut();
        child
    };

    let child = start("moment");
    sleep(Duration::from_secs(2));
    network.mend();
    let output = end_of(child);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_same_results(&whole, &bench.out("moment"));

    let child = start("good");
    // The cut outlasts every wait, so no rank can recover. Then it is mended, so that the launcher,
    // which has lost a machine, can end.
    sleep(Duration::from_secs(12));
    let made = lines(&bench.out("good"));
    network.mend();
    let output = end_of(child);
    let said = stderr(&output);
    assert!(!output.status.success() && said.contains("its network is cut"), "{said}");
    assert!(said.contains("(a)") || said.contains("(b)"), "{said}");
    assert!(made < 41 && lines(&bench.out("good")) == made, "it has gone on");
    succeed(bench.command("good", sets, "--resume"));
    assert_same_results(&whole, &bench.out("good"));
}
