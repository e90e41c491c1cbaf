//! The end of workers, by themselves or with the program.

use crate::processes::{runs, send, send_to, until};
use crate::program::{isentrope, parse_lines, stderr};
use crate::training::Bench;
use serde_json::json;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// A worker that starts processes in sessions of their own, one of them an orphan, and writes down
/// all their numbers. Then it does what `then` says with each line.
fn worker(bench: &Bench, then: &str) -> String {
    let pids = bench.scratch.path("pids");
    let text = format!(
        r#"
sh -c 'echo $$ >> "{pids}"; exec setsid sh -c "echo \$\$ >> \"{pids}\"; trap \"\" TERM HUP INT; sleep 1000"' &
(setsid sh -c 'echo $$ >> "{pids}"; sleep 1000 & echo $! >> "{pids}"; wait' > /dev/null 2>&1 < /dev/null &)
echo $$ > '{pids}.worker'
echo $$ >> '{pids}'
while read -r line; do id=${{line#*:}}; id=${{id%%,*}}; {then}; done
sleep 1000
"#
    );
    bench.scratch.file("worker.sh", text)
}

const ANSWER: &str = r#"echo "{\"id\":$id,\"score\":1}""#;

fn verifier(script: &str, more: &str) -> String {
    format!("reward.verifier={{ command = [\"sh\", {script:?}], workers = 1{more} }}")
}

fn pids(bench: &Bench) -> Vec<String> {
    let text = fs::read_to_string(bench.scratch.path("pids")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// A run whose worker and all that it has started are there, and wait.
fn start(bench: &Bench, then: &str) -> Child {
    let set = verifier(&worker(bench, then), ", timeout_s = 1000");
    let mut command = bench.command("out", &[&set, "eval.every=0", "run.steps=100000"], &[]);
    let child =
        command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until(PATIENCE, "the worker has not started", || pids(bench).len() >= 5);
    assert!(pids(bench).iter().all(|pid| runs(pid)));
    child
}

fn assert_nothing_is_left(bench: &Bench) {
    until(PATIENCE, "something is left", || !pids(bench).iter().any(|pid| runs(pid)));
}

#[test]
fn nothing_is_left_when_the_program_is_killed() {
    for then in ["sleep 1000", ANSWER] {
        let bench = Bench::train();
        let mut child = start(&bench, then);
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
        assert_nothing_is_left(&bench);
    }
}

#[test]
fn nothing_is_left_when_a_second_signal_ends_the_program() {
    let bench = Bench::train();
    let mut child = start(&bench, "sleep 1000");
    for _ in 0..2 {
        send("INT", &child);
        thread::sleep(Duration::from_millis(300));
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!pids(&bench).iter().any(|pid| runs(pid)), "all are gone before the program is");
}

/// The kernel sees to a worker whose supervisor is killed.
#[test]
fn a_worker_ends_when_what_supervises_it_is_killed() {
    let bench = Bench::train();
    let mut child = start(&bench, "sleep 1000");
    let all = pids(&bench);
    let worker = fs::read_to_string(bench.scratch.path("pids.worker")).unwrap().trim().to_owned();
    let parent = Command::new("ps").args(["-o", "ppid=", "-p", &worker]).output().unwrap();
    let supervisor = String::from_utf8(parent.stdout).unwrap().trim().to_owned();
    assert_ne!(supervisor, child.id().to_string());
    send_to("KILL", &supervisor);
    until(PATIENCE, "the worker is left", || !runs(&worker));
    child.kill().unwrap();
    child.wait().unwrap();
    // A process that had left the worker's session is out of anybody's reach by then.
    for pid in all {
        let _ = Command::new("kill").args(["-KILL", &pid]).stderr(Stdio::null()).status();
    }
}

#[test]
fn how_a_worker_ended_is_said_as_it_was() {
    let bench = Bench::train();
    let answers = bench.scratch.lines("answers.jsonl", &[json!({"gold": "1", "response": "1"})]);
    for (script, said) in [
        ("read -r line; exec >&-; sleep 1000", "the worker closed its standard output"),
        ("read -r line; exec >&-; sleep 0.1; exit 7", "the worker ended (exit status: 7)"),
        (
            "read -r line; echo last words >&2; exit 3",
            "the worker ended (exit status: 3): last words",
        ),
        ("read -r line; kill -SEGV $$", "the worker ended (signal: 11 (SIGSEGV))"),
        ("read -r line; kill -TERM $$", "the worker ended (signal: 15 (SIGTERM))"),
        ("read -r line; kill -PIPE $$", "the worker ended (signal: 13 (SIGPIPE))"),
        ("read -r line; kill -KILL $$", "the worker ended (signal: 9 (SIGKILL))"),
    ] {
        let verifier = format!("{{ command = [\"sh\", \"-c\", {script:?}], workers = 1 }}");
        let output =
            isentrope(&["grade", "--in", &answers, "--verifier", &verifier]).output().unwrap();
        let lines = parse_lines(&String::from_utf8(output.stdout.clone()).unwrap());
        let reason = lines[0]["reason"].as_str().unwrap();
        assert!(
            reason.starts_with(said) && !reason.contains("core dumped)("),
            "{script}: {reason}"
        );
        assert!(output.status.success(), "{}", stderr(&output));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_worker_ignores_what_the_program_was_started_to_ignore() {
    let bench = Bench::train();
    let answers = bench.scratch.lines("answers.jsonl", &[json!({"gold": "1", "response": "1"})]);
    let script = "read -r line; grep SigIgn /proc/self/status >&2; exit 3";
    let verifier = format!("{{ command = [\"sh\", \"-c\", {script:?}], workers = 1 }}");
    let run = isentrope(&["grade", "--in", &answers, "--verifier", &verifier]);
    let ignored = |trap: &str| {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("{trap} exec \"$0\" \"$@\"")])
            .arg(run.get_program())
            .args(run.get_args());
        let output = shell.output().unwrap();
        let reason =
            parse_lines(&String::from_utf8(output.stdout.clone()).unwrap())[0]["reason"].clone();
        let (_, bits) = reason.as_str().unwrap().rsplit_once(' ').unwrap();
        u64::from_str_radix(bits, 16).unwrap() & 0b101 // 1 is SIGHUP, 3 SIGQUIT
    };
    // The worker ignores the signals that this test was started to ignore, such as SIGQUIT in the
    // background of a shell.
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    let ours = u64::from_str_radix(bits, 16).unwrap() & 0b101;
    assert_eq!((ignored(""), ignored("trap '' HUP;")), (ours, ours | 1));
}

#[test]
fn a_command_that_cannot_be_started_is_named() {
    let bench = Bench::train();
    let answers = bench.scratch.lines("answers.jsonl", &[json!({"gold": "1", "response": "1"})]);
    let text = bench.scratch.file("text", "no program");
    let directory = bench.scratch.path(".");
    let broken = bench.scratch.file("broken", "#!/no/such/interpreter\n");
    assert!(Command::new("chmod").args(["+x", &broken]).status().unwrap().success());
    for (program, said) in [
        ("no-such-program-anywhere", "cannot be started: No such file or directory"),
        ("/no/such/program", "cannot be started: No such file or directory"),
        (&text, "cannot be started: Permission denied"),
        (&directory, "cannot be started: Permission denied"),
        (&broken, "cannot be started: No such file or directory"),
    ] {
        let verifier = format!("{{ command = [{program:?}] }}");
        let output =
            isentrope(&["grade", "--in", &answers, "--verifier", &verifier]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(said), "{program}: {}", stderr(&output));
    }
}
