//! Runs on several ranks, which launchers of MPI start, or `--ranks`: the bytes of a run of one
//! process, and one word where they fail.

use crate::processes::{kill, send, send_to, start, start_heard};
use crate::program::{assert_parts, names, skipped, stderr};
use crate::train_distill::TEACHER;
use crate::train_reward::{command as verifier, worker};
use crate::training::{Bench, assert_same_results, checkpoint, lines, succeed, timings};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// No run of these tests takes longer, if it ends at all.
const PATIENCE: Duration = Duration::from_secs(120);

/// A way to start ranks.
pub struct Launcher {
    pub name: &'static str,
    /// A program of MPI; none where ranks meet over TCP.
    program: Option<PathBuf>,
}

impl Launcher {
    /// TCP, and the installed launchers of MPI by Debian's names for them.
    pub fn installed() -> Vec<Self> {
        let paths: Vec<PathBuf> =
            std::env::var_os("PATH").iter().flat_map(std::env::split_paths).collect();
        let find = |name: &'static str| {
            let program = paths.iter().map(|path| path.join(name)).find(|path| path.is_file());
            program.map(|program| Self { name, program: Some(program) })
        };
        let found = [find("mpirun.openmpi"), find("mpirun.mpich")];
        let of_mpi: Vec<Self> = found.into_iter().flatten().collect();
        if of_mpi.is_empty() {
            skipped("there is no launcher of MPI");
        }
        [Self::tcp()].into_iter().chain(of_mpi).collect()
    }

    /// Every launcher for the first of several cases, and for each other case one, in turn.
    pub fn of_case(case: usize) -> Vec<Self> {
        let mut all = Self::installed();
        let one = case % all.len();
        if case == 0 { all } else { vec![all.swap_remove(one)] }
    }

    /// Ranks that meet over TCP.
    pub fn tcp() -> Self {
        Self { name: "tcp", program: None }
    }

    /// Whether this starts ranks by `--ranks`.
    pub fn is_tcp(&self) -> bool {
        self.program.is_none()
    }

    /// The command on `count` ranks.
    pub fn ranks(&self, count: usize, command: &Command) -> Command {
        if self.is_tcp() {
            let mut started = Command::new(command.get_program());
            started.args(command.get_args()).args(["--ranks", &count.to_string()]);
            pass_on(command, &mut started);
            return started;
        }
        self.jobs(&[(count, "SOUND=1")], command)
    }

    /// The command on ranks of several kinds, each with a variable, or another option of `env`.
    pub fn jobs(&self, kinds: &[(usize, &str)], command: &Command) -> Command {
        let Some(program) = &self.program else { return jobs_over_tcp(kinds, command) };
        let mut launched = Command::new(program);
        if self.name == "mpirun.openmpi" {
            // More ranks than processors, which a test may be, and root, which containers are.
            launched.args(["--oversubscribe", "--bind-to", "none"]);
            launched.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        }
        for (place, (count, option)) in kinds.iter().enumerate() {
            launched.args((place > 0).then_some(":"));
            launched.args(["-n", &count.to_string(), "env", option]);
            launched.arg(command.get_program()).args(command.get_args());
        }
        pass_on(command, &mut launched);
        launched
    }
}

/// Ranks with the variables of torchrun; a shell is their launcher, and ends as the first.
fn jobs_over_tcp(kinds: &[(usize, &str)], command: &Command) -> Command {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let options = kinds.iter().flat_map(|(count, option)| vec![*option; *count]);
    let start = |(rank, option)| format!("RANK={rank} env {option:?} \"$0\" \"$@\"");
    let mut starts: Vec<String> = options.enumerate().map(start).collect();
    let world = starts.len().to_string();
    let first = starts.remove(0);
    let others: String = starts.iter().map(|start| format!("{start} & ")).collect();
    let mut launched = Command::new("sh");
    launched.args(["-c", &format!("{others}{first}; status=$?; wait; exit $status")]);
    launched.arg(command.get_program()).args(command.get_args());
    pass_on(command, &mut launched);
    launched.env("WORLD_SIZE", world).env("MASTER_ADDR", "localhost");
    launched.env("MASTER_PORT", port.to_string());
    launched
}

/// Hands the variables of a command on to another, which reads nothing.
fn pass_on(command: &Command, to: &mut Command) {
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => to.env(name, value),
            None => to.env_remove(name),
        };
    }
    to.stdin(Stdio::null());
}

/// How a job ends that may not hang.
pub fn ended(mut command: Command) -> Output {
    end_of(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// How a job ends that is under way.
pub fn end_of(mut child: Child) -> Output {
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > PATIENCE {
            kill(&mut child);
            panic!("the job has not ended");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

/// The job has said in one line why it has failed, which has this in it.
pub fn assert_failed_once(output: &Output, part: &str) {
    let said = stderr(output);
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error")).collect();
    assert!(errors.len() == 1 && errors[0].contains(part), "{part:?} is not in: {said}");
}

/// Everything that a run may measure and score, beside the filter, the surplus, the bonus and the
/// covariance of the bench.
const ALL: &str = "update.shards=4 lab.track_theory=true lab.track_states=true rollout.top_p=0.9 \
                   run.steps=4";

#[test]
#[ignore = "deep: starts ranks by real MPI launchers"]
fn a_run_has_the_same_bytes_on_any_number_of_ranks() {
    let prime = "objective.advantage=prime objective.entropy_bonus={} prime.prompts=3";
    let reference = "objective.reference_kl={coefficient=0.1} objective.advantage=remax";
    for (case, (bench, sets)) in [
        (Bench::train(), ALL.to_owned()),
        (Bench::train(), format!("{ALL} {prime}")),
        (Bench::train(), format!("{ALL} {reference}")),
        (Bench::train(), format!("{ALL} objective.distillation.teacher={TEACHER}")),
        (
            Bench::train(),
            format!(
                "{ALL} rollout.filter=false objective.distillation.self_teacher=live \
                 objective.distillation.teacher_prompt=\"{{prompt}}{{answer}}\""
            ),
        ),
        (Bench::sft(), "sft.shards=4 run.steps=4".to_owned()),
    ]
    .into_iter()
    .enumerate()
    {
        let sets = &sets;
        let alone = bench.run("alone", sets, "");
        for launcher in Launcher::of_case(case) {
            // The first case with every number of ranks, the others with one that differs.
            let ways = [(2, "optimizer"), (4, "weights"), (4, "gradients")];
            for (count, shard) in ways.into_iter().take(if case == 0 { 3 } else { 1 }) {
                let out = format!("ranks-{count}-{shard}-{}", launcher.name);
                let sets = &format!("{sets} ranks.shard={shard}");
                let said = succeed(launcher.ranks(count, &bench.command(&out, sets, "")));
                assert!(!said.contains("sampled before"), "of another rank: {said}");
                assert_same_results(&alone, &bench.out(&out));
                let has =
                    |name: &str| timings(&bench.out(&out)).iter().all(|l| l[name].is_number());
                for name in ["time/wait_s", "throughput/sent_mb", "throughput/moved_responses"] {
                    assert!(has(name), "{name}");
                }
            }
        }
    }
}

#[test]
#[ignore = "deep: starts ranks by real MPI launchers"]
fn a_run_goes_on_with_another_number_of_ranks_also_when_one_was_killed() {
    let bench = Bench::train();
    let sets = "update.shards=4 run.steps=8 checkpoint.every=1";
    let whole = bench.run("whole", sets, "");
    for launcher in Launcher::installed() {
        let out = format!("killed-{}", launcher.name);
        let resume = || bench.command(&out, sets, "--resume");
        for (count, step) in [(2, 2), (4, 4)] {
            let mut child = start(launcher.ranks(count, &resume()));
            wait_for_lines(&mut child, &bench.out(&out), step);
            kill_a_rank(&bench.scratch.path(&out));
            end_of(child); // the others do not go on without it
            assert!(lines(&bench.out(&out)) < 9, "it had come to its end");
        }
        succeed(resume());
        assert_same_results(&whole, &bench.out(&out));
    }
}

/// In bf16 a rank has exact weights in its slice alone. A checkpoint has all of them, and any
/// number of ranks goes on from it.
#[test]
#[ignore = "deep: starts ranks by real MPI launchers, on emulated GPUs"]
fn ranks_on_gpus_make_the_bytes_of_one_and_go_on_from_each_others_checkpoints() {
    let bench = Bench::sft();
    let sets = "sft.shards=4 sft.batch=4 device.kind=cuda device.dtype=bf16 eval.every=2 \
                eval.problems=1 eval.samples=1 eval.max_tokens=4 checkpoint.every=1 \
                checkpoint.keep=9 run.steps=4";
    succeed(bench.emulated("whole", sets, ""));
    for launcher in Launcher::installed() {
        let name = format!("gpus-{}", launcher.name);
        let out = bench.out(&name);
        let ways = [(0, 2, "optimizer"), (1, 4, "gradients"), (2, 4, "weights"), (3, 1, "auto")];
        // A slice of gradients is exchanged alike under all launchers.
        let is_tried = |way: &(u64, usize, &str)| launcher.is_tcp() || way.2 != "gradients";
        for (kept, ranks, shard) in ways.into_iter().filter(is_tried) {
            for step in kept + 1..=4 {
                let _ = fs::remove_dir_all(checkpoint(&out, step));
            }
            let sets = format!("{sets} ranks.shard={shard}");
            succeed(launcher.ranks(ranks, &bench.emulated(&name, sets, "--resume")));
            assert_same_results(&bench.out("whole"), &out);
        }
    }
}

/// A command on emulated GPUs, a GPU for each of four ranks, connected by `tools/nccl-loopback`.
pub fn linked(mut command: Command) -> Command {
    // Cargo builds the library beside the tests.
    let library = std::env::current_exe().unwrap();
    command.env("ISENTROPE_EMULATED_NCCL", library.with_file_name("libisentrope_nccl_loopback.so"));
    command.env("ISENTROPE_EMULATED_GPUS", "0,1,2,3");
    command
}

/// Settings of a short run on GPUs.
const ON_GPUS: &str = "sft.shards=4 sft.batch=4 device.kind=cuda eval.every=0 run.steps=2";

/// Between GPUs no byte goes through the launcher's library, so MPI starts one of these ways. In
/// bf16 the test above has the ways through the hosts.
#[test]
#[ignore = "deep: starts ranks by real MPI launchers, on emulated GPUs"]
fn ranks_whose_gpus_are_connected_make_the_bytes_of_one() {
    let bench = Bench::sft();
    for dtype in ["f32", "bf16"] {
        let sets = &format!("{ON_GPUS} device.dtype={dtype}");
        let alone = format!("alone-{dtype}");
        succeed(bench.emulated(&alone, sets, ""));
        let launchers = if dtype == "bf16" { Launcher::installed() } else { vec![Launcher::tcp()] };
        for launcher in launchers {
            let ways = [
                (2, "host", "optimizer"),
                (2, "nccl", "optimizer"),
                (4, "nccl", "gradients"),
                (4, "host", "gradients"),
                (4, "nccl", "weights"),
                (4, "host", "weights"),
            ];
            let is_tried = |&way: &(usize, &str, &str)| match (dtype, launcher.is_tcp()) {
                ("f32", _) => true,
                (_, true) => way.1 == "nccl",
                _ => way == (4, "nccl", "weights"),
            };
            for (count, transport, shard) in ways.into_iter().filter(is_tried) {
                let out = format!("{dtype}-{transport}-{shard}-{}", launcher.name);
                let sets = format!("{sets} ranks.transport={transport} ranks.shard={shard}");
                let run = linked(bench.emulated(&out, sets, ""));
                let said = succeed(launcher.ranks(count, &run));
                assert_eq!(said.contains("from GPU to GPU by NCCL 2.99"), transport == "nccl");
                assert_same_results(&bench.out(&alone), &bench.out(&out));
            }
        }
    }
}

#[test]
#[ignore = "deep: starts ranks by real MPI launchers, on emulated GPUs"]
fn ranks_whose_gpus_cannot_be_connected_go_through_the_hosts() {
    let bench = Bench::sft();
    succeed(bench.emulated("alone", ON_GPUS, ""));
    let shared = |out: &str, sets: String| {
        let mut command = linked(bench.emulated(out, sets, ""));
        command.env("ISENTROPE_EMULATED_GPUS", "0");
        command
    };
    let mistaken = |out: &str| {
        let mut command = linked(bench.emulated(out, ON_GPUS, ""));
        command.env("ISENTROPE_LOOPBACK_MISTAKE", "swapped:1:0");
        command
    };
    for (out, command, why) in [
        ("one", shared("one", ON_GPUS.to_owned()), "share a GPU"),
        ("other", mistaken("other"), "known numbers have other sums"),
        ("none", bench.emulated("none", ON_GPUS, ""), "no NCCL is emulated"),
    ] {
        let said = succeed(Launcher::tcp().ranks(2, &command));
        assert_parts(&said, &["go through the hosts", why]);
        assert_same_results(&bench.out("alone"), &bench.out(out));
    }
    for launcher in Launcher::installed() {
        let sets = format!("{ON_GPUS} ranks.transport=nccl");
        let wrong = shared(&format!("wrong-{}", launcher.name), sets);
        let output = ended(launcher.ranks(2, &wrong));
        assert!(!output.status.success());
        assert_failed_once(&output, "ranks.transport is nccl");
    }
}

/// The trial before the run has two exchanges, and each update two.
#[test]
#[ignore = "deep: starts ranks by real MPI launchers, on emulated GPUs"]
fn a_library_between_gpus_that_fails_ends_all_ranks_in_time() {
    let bench = Bench::sft();
    let sets = format!("{ON_GPUS} run.steps=9 ranks.timeout_s=6");
    for launcher in Launcher::installed() {
        let mistakes = [
            (
                "failing:0:4",
                ["rank 0 (", "bytes to or from rank 1: NCCL 2.99: remote process exited"],
            ),
            ("lost:1:4", ["rank 0 (", "bytes to or from rank 1 have not moved within 6 s"]),
        ];
        // The program itself waits for lost bytes, and then ends as with the first mistake.
        for (mistake, parts) in mistakes.into_iter().take(if launcher.is_tcp() { 2 } else { 1 }) {
            let out = format!("{}-{}", &mistake[..4], launcher.name);
            let mut command = linked(bench.emulated(&out, &sets, ""));
            command.env("ISENTROPE_LOOPBACK_MISTAKE", mistake);
            let output = ended(launcher.ranks(2, &command));
            assert!(!output.status.success(), "{}", stderr(&output));
            assert_failed_once(&output, parts[0]);
            assert_failed_once(&output, parts[1]);
        }
    }
}

/// Each GPU tests AdamW once, and makes one update a step: this one fails in the second.
#[test]
#[ignore = "deep: starts ranks by real MPI launchers, on emulated GPUs"]
fn a_gpu_that_fails_ends_all_ranks_in_time_and_what_was_sampled_stays() {
    let bench = Bench::train();
    let sets = "rollout.filter=false update.shards=2 update.prompts=4 update.epochs=1 \
                eval.every=0 run.steps=3 checkpoint.every=1 checkpoint.keep=9 device.kind=cuda \
                ranks.timeout_s=10";
    let command = |out: &str, flags: &str| {
        let mut command = bench.emulated(out, sets, flags);
        command.env("ISENTROPE_EMULATED_GPUS", "0,1");
        command
    };
    succeed(command("whole", ""));
    for launcher in Launcher::installed() {
        let out = format!("lost-{}", launcher.name);
        let mut faulty = command(&out, "");
        faulty.env("ISENTROPE_EMULATED_FAULT", "1:adamw:3");
        let output = ended(launcher.ranks(2, &faulty));
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert_failed_once(&output, "rank 1 (");
        assert_failed_once(&output, "the emulated GPU has failed while it ran adamw");
        assert_eq!(lines(&bench.out(&out)), 2, "the first step is recorded");
        let journals = names(&bench.out(&out).join("rollouts"));
        for rank in [0, 1] {
            let name = format!("step-000002.rank-{rank}.journal");
            assert!(journals.contains(&name), "{journals:?}");
        }
        let said = succeed(launcher.ranks(2, &command(&out, "--resume")));
        assert!(said.contains("step 2: 16 of its responses were sampled before"), "{said}");
        assert_same_results(&bench.out("whole"), &bench.out(&out));
    }
}

#[test]
#[ignore = "deep: starts ranks by real MPI launchers"]
fn an_error_of_one_rank_ends_all_and_costs_no_step_that_was_made() {
    let bench = Bench::train();
    let sets = "update.shards=2 eval.every=0 checkpoint.every=0 run.steps=6";
    let run = |out: &str, script: &str, flags: &str| {
        bench.command(out, format!("{sets} {}", verifier(script, ",workers=1")), flags)
    };
    let works = worker(&bench.scratch, "");
    succeed(run("whole", &works, ""));
    for launcher in Launcher::installed() {
        let out = format!("out-{}", launcher.name);
        let metrics = bench.out(&out).join("metrics.jsonl");
        let fails = format!("[ -z \"$FAULTY\" ] || [ $(wc -l < {metrics:?}) -le 3 ] || exit 1");
        let fails = worker(&bench.scratch, &fails);
        let output =
            ended(launcher.jobs(&[(1, "SOUND=1"), (1, "FAULTY=1")], &run(&out, &fails, "")));
        let said = stderr(&output);
        assert!(!output.status.success(), "{said}");
        let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error")).collect();
        assert_eq!(errors.len(), 1, "{said}");
        assert_parts(errors[0], &["rank 1 (", "fresh workers in a row failed"]);
        let steps = lines(&bench.out(&out)) as u64 - 1;
        assert!(
            (3..6).contains(&steps) && said.contains(&format!("step {steps} is saved")),
            "{said}"
        );
        assert!(checkpoint(&bench.out(&out), steps).is_dir());
        succeed(run(&out, &works, "--resume"));
        fs::remove_dir_all(checkpoint(&bench.out(&out), steps)).unwrap(); // the one that nobody asked for
        assert_same_results(&bench.out("whole"), &bench.out(&out));
    }
}

pub fn wait_for_lines(child: &mut Child, out: &Path, count: usize) {
    let started = Instant::now();
    while lines(out) < count && child.try_wait().unwrap().is_none() {
        assert!(started.elapsed() < PATIENCE, "nothing happened");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The processes of a run, not the launcher's, by what they were started with.
pub fn ranks_of(out: &str) -> Vec<String> {
    let set = format!("run.out={out}");
    let is_rank = |process: &String| {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let parts: Vec<_> = line.split(|byte| *byte == 0).collect();
        parts.first().is_some_and(|program| program.ends_with(b"isentrope"))
            && parts.contains(&set.as_bytes())
    };
    let names = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.into_string().ok()).filter(is_rank).collect()
}

/// Kills one of the ranks of a run.
pub fn kill_a_rank(out: &str) {
    signal_a_rank(out, "KILL");
}

/// Sends a signal to the last rank of a run: rank 0 of `--ranks` is the launcher, too.
fn signal_a_rank(out: &str, signal: &str) {
    send_to(signal, ranks_of(out).last().expect("there are ranks"));
}

#[test]
#[ignore = "deep: starts ranks by real MPI launchers"]
fn a_rank_that_is_stopped_is_named_and_all_end() {
    let bench = Bench::train();
    let sets = "update.shards=2 run.steps=20 checkpoint.every=5";
    let whole = bench.run("whole", sets, "");
    // As long as a busy machine may keep a sound rank waiting.
    let patient = format!("{sets} ranks.timeout_s=10");
    let stop = |launcher: Launcher| {
        let out = format!("stopped-{}", launcher.name);
        let mut child = start_heard(launcher.ranks(2, &bench.command(&out, &patient, "")));
        wait_for_lines(&mut child, &bench.out(&out), 8);
        signal_a_rank(&bench.scratch.path(&out), "STOP");
        let output = end_of(child);
        let said = stderr(&output);
        assert!(!output.status.success() && said.contains("its process is stopped"), "{said}");
        assert!(said.contains("rank 0 (") || said.contains("rank 1 ("), "{said}");
        succeed(bench.command(&out, sets, "--resume"));
        assert_same_results(&whole, &bench.out(&out));
    };
    // At the same time, since each waits that long.
    std::thread::scope(|scope| {
        let stop = &stop;
        for launcher in Launcher::installed() {
            scope.spawn(move || stop(launcher));
        }
    });
}

#[test]
#[ignore = "deep: starts ranks by real MPI launchers"]
fn a_job_that_is_asked_to_end_saves_its_step() {
    let bench = Bench::train();
    let sets = "update.shards=2 run.steps=40 eval.every=0 checkpoint.every=0";
    for launcher in Launcher::installed() {
        let out = format!("asked-{}", launcher.name);
        let mut child = start(launcher.ranks(2, &bench.command(&out, sets, "")));
        wait_for_lines(&mut child, &bench.out(&out), 3);
        send("USR1", &child);
        child.wait().unwrap(); // MPICH's launcher then ends with 0, whatever its ranks do
        let steps = lines(&bench.out(&out)) as u64 - 1;
        assert!(steps < 40, "it has come to its end");
        assert!(checkpoint(&bench.out(&out), steps).is_dir(), "step {steps} is not saved");
    }
}
