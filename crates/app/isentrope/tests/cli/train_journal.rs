//! The journal of a rollout: what a run has sampled and judged before it was killed is not sampled
//! again.

use crate::processes::{kill, start, until_reached};
use crate::program::{json_lines, names, spoken, stderr, text};
use crate::train_lora::other_weights;
use crate::train_ranks::{Launcher, kill_a_rank};
use crate::train_reward::{command as verifier, worker};
use crate::training::{Bench, assert_same_results, base, metrics};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Questions after which no verdict comes any more, in the middle of the second step.
const AT_ONCE: usize = 24;

/// A run whose worker stops answering until it is let go on.
struct Stopping {
    bench: Bench,
    /// The worker's program.
    script: String,
    sets: String,
}

impl Stopping {
    fn new(more: &str) -> Self {
        let bench = Bench::train();
        let asked = bench.scratch.file("asked", "");
        let go = bench.scratch.path("go");
        let before_each = format!(
            "echo \"$line\" >> {asked:?}; \
             until [ $(wc -l < {asked:?}) -le {AT_ONCE} ] || [ -e {go:?} ]; do sleep 0.02; done"
        );
        let script = worker(&bench.scratch, &before_each);
        let verifier = verifier(&script, ",workers=1");
        let sets = "run.steps=3 eval.every=0 checkpoint.every=0 rollout.filter=false";
        let sets = format!("{sets} {verifier} {more}");
        Self { bench, script, sets }
    }

    fn command(&self, out: &str, flags: &str) -> Command {
        self.bench.command(out, &self.sets, flags)
    }

    fn asked(&self) -> usize {
        fs::read_to_string(self.bench.scratch.path("asked")).unwrap().lines().count()
    }

    fn go_on(&self) {
        self.bench.scratch.file("go", "");
    }

    fn end(&self, command: Command) -> String {
        spoken(command).1
    }

    /// A run that is killed once its worker no longer answers; then the worker goes on.
    fn kill(&self, out: &str) {
        let mut child = start(self.command(out, ""));
        until_reached(&mut child, || {
            self.asked() > AT_ONCE && responses(&self.bench.out(out)) == AT_ONCE
        });
        assert!(kill(&mut child), "it ended before it was killed");
        self.go_on();
    }
}

fn journals(out: &Path) -> Vec<String> {
    let mut names = names(&out.join("rollouts"));
    names.retain(|name| name.ends_with(".journal"));
    names
}

/// In all journals.
fn responses(out: &Path) -> usize {
    let text = |name: &String| fs::read_to_string(out.join("rollouts").join(name)).unwrap();
    let lines = |name: &String| text(name).lines().count().saturating_sub(1);
    if out.join("rollouts").is_dir() { journals(out).iter().map(lines).sum() } else { 0 }
}

#[test]
fn what_was_judged_before_a_kill_is_not_sampled_again() {
    // Groups of four responses to four prompts; and of those with a fifth, the most likely.
    for (more, each) in [("", 16), ("objective.advantage=remax", 20)] {
        let run = Stopping::new(more);
        let mut child = start(run.command("killed", ""));
        let written = || responses(&run.bench.out("killed"));
        until_reached(&mut child, || run.asked() > AT_ONCE && written() == AT_ONCE);
        assert!(kill(&mut child), "it ended before it was killed");
        let killed = run.bench.out("killed");
        assert_eq!(journals(&killed), ["step-000001.rank-0.journal", "step-000002.rank-0.journal"]);
        run.go_on();
        let said = run.end(run.command("killed", "--resume"));
        assert!(said.contains("no checkpoint to resume from"), "{said}");
        assert!(
            said.contains(&format!(
                "step 2: {} of its responses were sampled before",
                AT_ONCE - each
            )),
            "{said}"
        );
        assert_eq!(
            run.asked(),
            3 * each + 1,
            "but for the one that was not answered, none was asked about twice"
        );
        assert!(journals(&killed).is_empty(), "the checkpoint has these steps");
        // Speeds count what was sampled now: nothing in the first step, not all in the second.
        let (timings, steps) = (json_lines(&killed.join("timings.jsonl")), metrics(&killed));
        let speed = "throughput/rollout_tokens_per_s";
        assert!(timings[1].get(speed).is_none(), "{}", timings[1]);
        let sampled = |step: usize| {
            let number = |value: &Value| value.as_f64().unwrap();
            let tokens = number(&timings[step][speed]) * number(&timings[step]["time/rollout_s"]);
            tokens / number(&steps[step]["rollout/tokens"])
        };
        let (some, all) = (sampled(2), sampled(3));
        assert!(some < 0.9 && (all - 1.0).abs() < 1e-6, "{some} {all}");
        run.end(run.command("whole", ""));
        assert_same_results(&run.bench.out("whole"), &killed);
    }
}

#[test]
#[ignore = "deep: starts ranks by real MPI launchers"]
fn a_journal_serves_any_number_of_ranks() {
    let run = Stopping::new("update.shards=4");
    run.go_on();
    run.end(run.command("whole", ""));
    for launcher in Launcher::installed() {
        let ways = [(4, 2), (2, 1)];
        for (before, after) in ways.into_iter().take(if launcher.is_tcp() { 2 } else { 1 }) {
            let out = format!("killed-{before}");
            fs::remove_file(run.bench.scratch.path("go")).unwrap();
            fs::write(run.bench.scratch.path("asked"), "").unwrap();
            let _ = fs::remove_dir_all(run.bench.out(&out));
            let mut child = start(launcher.ranks(before, &run.command(&out, "")));
            // All of the first step's sixteen, and some of the second's.
            until_reached(&mut child, || {
                run.asked() >= AT_ONCE && responses(&run.bench.out(&out)) > 16
            });
            kill_a_rank(&run.bench.scratch.path(&out));
            child.wait().unwrap();
            let missing = 3 * 16 - responses(&run.bench.out(&out));
            let asked = run.asked();
            run.go_on();
            let mut job = launcher.ranks(after, &run.command(&out, "--resume"));
            let ended = job.output().unwrap();
            let said = stderr(&ended);
            assert!(ended.status.success() && said.contains("were sampled before"), "{said}");
            assert_eq!(run.asked(), asked + missing);
            assert_same_results(&run.bench.out("whole"), &run.bench.out(&out));
        }
    }
}

#[test]
fn where_more_is_asked_for_what_was_judged_still_counts() {
    let run = Stopping::new("");
    run.kill("killed");
    let more = "--set rollout.responses=5 --set reward.mask_truncated=true";
    let said = run.end(run.command("killed", &format!("--resume {more}")));
    assert!(said.contains("step 1: 16 of its responses were sampled before"), "{said}");
    // The second step had sampled from weights that are others now.
    assert!(
        said.contains("step 2: some responses from before")
            && said.contains("the weights are others"),
        "{said}"
    );
    assert_eq!(run.asked(), AT_ONCE + 1 + 3 * 20 - 16);
    run.end(run.command("whole", more));
    assert_same_results(&run.bench.out("whole"), &run.bench.out("killed"));
}

/// A new adapter has the same weights beside any base.
#[test]
fn responses_beside_another_base_are_sampled_again() {
    let run = Stopping::new("lora.rank=3 lora.alpha=6");
    run.kill("killed");
    let moved = run.bench.scratch.copy(base().as_ref(), "moved");
    for (name, model, is_same) in
        [("same", moved, true), ("other", other_weights(&run.bench), false)]
    {
        let out = run.bench.copy(&run.bench.out("killed"), name);
        let model = format!("--set model.path={}", text(&model));
        let said = run.end(run.command(name, &format!("--resume {model}")));
        let known = "step 1: 16 of its responses were sampled before";
        let unknown = "and are sampled again: the weights are others";
        assert_eq!((said.contains(known), said.contains(unknown)), (is_same, !is_same), "{said}");
        let whole = format!("whole-{name}");
        run.end(run.command(&whole, &model));
        assert_same_results(&run.bench.out(&whole), &out);
    }
}

#[test]
fn a_mended_reward_function_judges_everything_again() {
    let run = Stopping::new("");
    run.kill("killed");
    let mended = fs::read_to_string(&run.script).unwrap().replace("+ 1) % 2", "+ 0) % 2");
    fs::write(&run.script, mended).unwrap();
    let said = run.end(run.command("killed", "--resume"));
    assert!(!said.contains("were sampled before"), "{said}");
    let why = "settings of how responses are drawn or judged have changed";
    assert!(said.contains(&format!("cannot be used, and are sampled again: {why}")), "{said}");
    run.end(run.command("whole", ""));
    assert_same_results(&run.bench.out("whole"), &run.bench.out("killed"));
}
