//! Runs on several ranks, which launchers of MPI start: the bytes of a run of one process, and one
//! word where they fail.

use crate::output::SmallDisk;
use crate::processes::{kill, send, send_to, start, start_heard};
use crate::program::{assert_parts, names, skipped, stderr};
use crate::train_reward::{command as verifier, worker};
use crate::training::{Bench, assert_same_results, checkpoint, lines, succeed, timings};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// No run of these tests takes longer, if it ends at all.
const PATIENCE: Duration = Duration::from_secs(120);

/// A launcher that is installed.
pub struct Launcher {
    program: PathBuf,
    pub is_open_mpi: bool,
}

impl Launcher {
    /// By Debian's names, with which both can be installed. Where there are none, the tests of
    /// `crates/base/ranks` say so.
    pub fn installed() -> Vec<Self> {
        let paths: Vec<PathBuf> =
            std::env::var_os("PATH").iter().flat_map(std::env::split_paths).collect();
        let find = |name: &str, is_open_mpi| {
            let program = paths.iter().map(|path| path.join(name)).find(|path| path.is_file())?;
            Some(Self { program, is_open_mpi })
        };
        let found = [find("mpirun.openmpi", true), find("mpirun.mpich", false)];
        let found: Vec<Self> = found.into_iter().flatten().collect();
        if found.is_empty() {
            skipped("there is no launcher of ranks");
        }
        found
    }

    /// The command on so many ranks.
    pub fn ranks(&self, count: usize, command: &Command) -> Command {
        self.jobs(&[(count, "SOUND=1")], command)
    }

    /// The command on ranks of several kinds, each with a variable, or another option of `env`.
    pub fn jobs(&self, kinds: &[(usize, &str)], command: &Command) -> Command {
        let mut launched = Command::new(&self.program);
        if self.is_open_mpi {
            // More ranks than processors, which a test may be, and root, which containers are.
            launched.args(["--oversubscribe", "--bind-to", "none"]);
            launched.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        }
        for (place, (count, option)) in kinds.iter().enumerate() {
            launched.args((place > 0).then_some(":"));
            launched.args(["-n", &count.to_string(), "env", option]);
            launched.arg(command.get_program()).args(command.get_args());
        }
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => launched.env(name, value),
                None => launched.env_remove(name),
            };
        }
        launched.stdin(Stdio::null());
        launched
    }
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
        (Bench::sft(), "sft.shards=4 run.steps=4".to_owned()),
    ]
    .into_iter()
    .enumerate()
    {
        let sets = &sets;
        let alone = bench.run("alone", sets, "");
        for launcher in Launcher::installed() {
            // The first case with every number of ranks, the others with one that differs.
            for count in if case == 0 { vec![2, 4] } else { vec![2] } {
                let out = format!("ranks-{count}-{}", launcher.is_open_mpi);
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

/// One prompt for two ranks: one of them has nothing of its own, and takes over what the other has
/// left after a second or two.
#[test]
#[ignore = "deep: starts ranks by real MPI launchers"]
fn responses_that_go_to_another_rank_change_no_byte() {
    let bench = Bench::train();
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../assets/countdown-base");
    let model = format!("model.path={}", assets.display());
    let sets = &format!(
        "{model} update.shards=2 run.steps=1 eval.every=0 rollout.filter=false rollout.prompts=1 \
         update.prompts=1 update.epochs=1 rollout.responses=1200 rollout.max_tokens=120 \
         rollout.top_p=0.95"
    );
    let alone = bench.run("alone", sets, "");
    for launcher in Launcher::installed() {
        let out = format!("moved-{}", launcher.is_open_mpi);
        succeed(launcher.ranks(2, &bench.command(&out, sets, "")));
        assert_same_results(&alone, &bench.out(&out));
        let timings = timings(&bench.out(&out));
        let timing = |name: &str| timings.last().unwrap()[name].as_f64().unwrap();
        let (moved, took) = (timing("throughput/moved_responses"), timing("time/rollout_s"));
        // A machine on which it takes less than ranks need to hear of each other tries nothing
        // here.
        assert!(moved > 0.0 || took < 3.0, "nothing has moved in {took} s");
    }
}

#[test]
#[ignore = "deep: starts ranks by real MPI launchers"]
fn a_run_goes_on_with_another_number_of_ranks_also_when_one_was_killed() {
    let bench = Bench::train();
    let sets = "update.shards=4 run.steps=8 checkpoint.every=1";
    let whole = bench.run("whole", sets, "");
    for launcher in Launcher::installed() {
        let out = format!("killed-{}", launcher.is_open_mpi);
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
        let out = format!("out-{}", launcher.is_open_mpi);
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
fn ranks_of(out: &str) -> Vec<String> {
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
    signal_a_rank(out, "KILL", usize::MAX);
}

/// Sends a signal to one of the ranks of a run, the last if there are not so many.
fn signal_a_rank(out: &str, signal: &str, which: usize) {
    let ranks = ranks_of(out);
    let rank = ranks.get(which).or(ranks.last()).expect("there are ranks");
    send_to(signal, rank);
}

/// How many kills the long test makes.
const KILLS: usize = 60;

#[test]
#[ignore = "deep: starts ranks by real MPI launchers"]
fn a_job_that_is_killed_at_random_moments_ends_with_the_same_bytes() {
    let bench = Bench::train();
    let sets = "update.shards=4 run.steps=40 checkpoint.every=3";
    let whole = bench.run("whole", sets, "");
    let launchers = Launcher::installed();
    assert!(!launchers.is_empty(), "no launcher of MPI is installed");
    // xorshift (Marsaglia, 2003); which moment of a run a kill meets is the machine's anyway.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let (mut kills, mut completed, mut of_each_rank) = (0, 0, [0; 4]);
    for run in 0.. {
        if kills >= KILLS {
            break;
        }
        let out = format!("run-{run}");
        for start in 0.. {
            let launcher = &launchers[random(launchers.len() as u64) as usize];
            let count = [1, 2, 4][random(3) as usize];
            let flags = if start == 0 { "" } else { "--resume" };
            let mut child = start_heard(launcher.ranks(count, &bench.command(&out, sets, flags)));
            let (moment, which) =
                (Duration::from_millis(random(2500)), random(count as u64) as usize);
            let begun = Instant::now();
            while begun.elapsed() < moment && child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let ranks = ranks_of(&bench.scratch.path(&out));
            if ranks.len() == count {
                // One that has ended in the meantime is not there to be killed.
                let _ = Command::new("kill")
                    .args(["-KILL", &ranks[which]])
                    .stderr(Stdio::null())
                    .status();
            }
            let output = end_of(child);
            if output.status.success() {
                completed += 1;
                break;
            }
            assert!(!stderr(&output).contains("error: "), "{}", stderr(&output));
            (kills, of_each_rank[which]) = (kills + 1, of_each_rank[which] + 1);
        }
        assert_same_results(&whole, &bench.out(&out));
    }
    println!(
        "{kills} kills {of_each_rank:?} of ranks, {completed} runs completed with the same bytes"
    );
}

#[test]
#[ignore = "deep: starts ranks by real MPI launchers"]
fn a_rank_that_is_stopped_is_named_and_all_end() {
    let bench = Bench::train();
    let sets = "update.shards=2 run.steps=30 checkpoint.every=5";
    let whole = bench.run("whole", sets, "");
    let patient = format!("{sets} ranks.timeout_s=2");
    for launcher in Launcher::installed() {
        for which in [0, 1] {
            let out = format!("stopped-{}-{which}", launcher.is_open_mpi);
            let mut child = start_heard(launcher.ranks(2, &bench.command(&out, &patient, "")));
            wait_for_lines(&mut child, &bench.out(&out), 8);
            signal_a_rank(&bench.scratch.path(&out), "STOP", which);
            let output = end_of(child);
            let said = stderr(&output);
            assert!(!output.status.success() && said.contains("its process is stopped"), "{said}");
            assert!(said.contains("rank 0 (") || said.contains("rank 1 ("), "{said}");
            succeed(bench.command(&out, sets, "--resume"));
            assert_same_results(&whole, &bench.out(&out));
        }
    }
}

#[test]
#[ignore = "deep: starts ranks by real MPI launchers"]
fn what_fails_on_the_first_rank_after_the_last_exchange_ends_all() {
    let bench = Bench::train();
    let refused = ["update.shards=2", "eval.files=nowhere.jsonl"];
    let sets = "update.shards=2 run.steps=60 eval.every=0 checkpoint.every=0";
    for launcher in Launcher::installed() {
        let output = ended(launcher.ranks(2, &bench.command("dry", &refused, "--dry-run")));
        assert_failed_once(&output, "nowhere.jsonl");
        for asked in [false, true] {
            let out = format!("unsaved-{asked}-{}", launcher.is_open_mpi);
            let checkpoints = bench.out(&out).join("checkpoints");
            let mut child = start_heard(launcher.ranks(2, &bench.command(&out, sets, "")));
            wait_for_lines(&mut child, &bench.out(&out), 3);
            fs::remove_dir(&checkpoints).unwrap();
            fs::write(&checkpoints, "in the way").unwrap();
            if asked {
                send("USR1", &child);
            }
            assert_failed_once(&end_of(child), "checkpoints");
        }
    }
}

#[test]
#[ignore = "deep: starts ranks by real MPI launchers"]
fn what_the_first_rank_cannot_write_of_a_step_costs_none_that_was_made() {
    let bench = Bench::train();
    let sets = "update.shards=4 run.steps=12 eval.every=0 checkpoint.every=0";
    let whole = bench.run("whole", sets, "");
    for launcher in Launcher::installed() {
        let out = format!("in-the-way-{}", launcher.is_open_mpi);
        let run = |flags: &str| bench.command(&out, sets, flags);
        let mut child = start_heard(launcher.ranks(4, &run("")));
        wait_for_lines(&mut child, &bench.out(&out), 1);
        // The others have all responses of the step by then, and go on to learn from them.
        let rollout = bench.out(&out).join("rollouts/step-000008.jsonl");
        fs::create_dir_all(&rollout).unwrap();
        let output = end_of(child);
        assert_failed_once(&output, "step-000008.jsonl");
        assert!(stderr(&output).contains("step 7 is saved"), "{}", stderr(&output));
        fs::remove_dir(&rollout).unwrap();
        succeed(launcher.ranks(2, &run("--resume")));
        fs::remove_dir_all(checkpoint(&bench.out(&out), 7)).unwrap(); // the one that nobody asked for
        assert_same_results(&whole, &bench.out(&out));
    }
}

#[test]
#[ignore = "deep: starts ranks by real MPI launchers"]
fn a_job_that_is_asked_to_end_saves_its_step() {
    let bench = Bench::train();
    let sets = "update.shards=2 run.steps=40 eval.every=0 checkpoint.every=0";
    for launcher in Launcher::installed() {
        let out = format!("asked-{}", launcher.is_open_mpi);
        let mut child = start(launcher.ranks(2, &bench.command(&out, sets, "")));
        wait_for_lines(&mut child, &bench.out(&out), 3);
        send("USR1", &child);
        child.wait().unwrap(); // MPICH's launcher then ends with 0, whatever its ranks do
        let steps = lines(&bench.out(&out)) as u64 - 1;
        assert!(steps < 40, "it has come to its end");
        assert!(checkpoint(&bench.out(&out), steps).is_dir(), "step {steps} is not saved");
    }
}

#[test]
#[ignore = "deep: starts ranks by real MPI launchers"]
fn a_disk_that_is_full_ends_all_in_one_sentence() {
    let bench = Bench::train();
    let sets = "update.shards=2 run.steps=8 checkpoint.every=1 checkpoint.keep=1";
    let whole = bench.run("whole", sets, "");
    for launcher in Launcher::installed() {
        // The steps do not fit, then not all files of a checkpoint, which two ranks write.
        for kilobytes in [64, 400] {
            let out = format!("disk-{kilobytes}-{}", launcher.is_open_mpi);
            fs::create_dir(bench.scratch.path(&out)).unwrap();
            let Some(disk) = SmallDisk::new(bench.scratch.path(&out), &format!("{kilobytes}k"))
            else {
                skipped("mounting a small disk needs root");
                return;
            };
            let output = ended(launcher.ranks(2, &bench.command(&out, sets, "")));
            assert_failed_once(&output, "No space left");
            assert!(stderr(&output).contains("free some space"), "{}", stderr(&output));
            assert!(lines(&bench.out(&out)) < 9, "it had come to its end");
            disk.resize("64m");
            succeed(launcher.ranks(2, &bench.command(&out, sets, "--resume")));
            assert_same_results(&whole, &bench.out(&out));
        }
    }
}

/// Another disk than the others' is played by a limit on the size of a rank's files.
#[test]
#[ignore = "deep: starts ranks by real MPI launchers"]
fn a_disk_that_is_full_for_one_rank_ends_all_in_one_sentence() {
    let bench = Bench::train();
    let sets = "update.shards=2 run.steps=24 checkpoint.every=8";
    let whole = bench.run("whole", sets, "");
    for launcher in Launcher::installed() {
        for which in [0, 1] {
            let out = format!("full-{which}-{}", launcher.is_open_mpi);
            let run = bench.command(&out, sets, "");
            let mut command = Command::new("sh");
            command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]);
            command.arg(run.get_program()).args(run.get_args());
            let mut child = start_heard(launcher.ranks(2, &command));
            wait_for_lines(&mut child, &bench.out(&out), 2);
            let rank = &ranks_of(&bench.scratch.path(&out))[which];
            assert!(
                Command::new("prlimit")
                    .args(["--fsize=2048", "--pid", rank])
                    .status()
                    .unwrap()
                    .success()
            );
            let output = end_of(child);
            assert_failed_once(&output, "too large");
            let kept = names(&bench.out(&out).join("checkpoints"));
            assert!(
                kept.iter().all(|name| name.starts_with("step-")),
                "half a checkpoint is left: {kept:?}"
            );
            succeed(launcher.ranks(2, &bench.command(&out, sets, "--resume")));
            assert_same_results(&whole, &bench.out(&out));
        }
    }
}
