//! Responses of several turns: a run that is killed in the middle of episodes, and the commands
//! that show episodes.

use crate::processes::{kill, start, until_reached};
use crate::program::{
    Scratch, failure_saying, isentrope, json_lines, names, outcome, spoken, stdout_of,
};
use crate::train_ranks::{Launcher, kill_a_rank};
use crate::training::{Bench, assert_same_results, base, metrics, problems, succeed, timings};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Turns after which the environment does not answer any more, in the middle of episodes.
const AT_ONCE: &str = "40";

/// More turns than there are.
const ALL: &str = "100000";

/// A bench with an environment that answers two turns and ends the episode with the third, if it
/// comes so far; and the settings of a run with it. It may open its episodes, and reward them.
fn asking(opens: bool, rewards: bool) -> (Bench, String) {
    let bench = Bench::train();
    let (asked, most) = (bench.scratch.file("asked", ""), bench.scratch.file("most", ALL));
    let python = |is: bool| if is { "True" } else { "False" };
    let (says, opens, rewards) = (opens, python(opens), python(rewards));
    let text = format!(
        r#"
import time


class Asking:
    def reset(self, problem, seed):
        self.turns, self.seed = 0, seed
        return str(seed % 10) if {opens} else None

    def step(self, message):
        with open({asked:?}, "a") as file:
            file.write("turn\n")
        while len(open({asked:?}).readlines()) > int(open({most:?}).read() or 0):
            time.sleep(0.02)
        self.turns += 1
        if self.turns == 3:
            reward = {{"reward": (self.seed + len(message)) % 2}} if {rewards} else {{}}
            return {{"done": True, **reward}}
        return {{"messages": str((self.seed + len(message)) % 10)}}
"#
    );
    let script = bench.scratch.file("asking.py", text);
    let limits = format!("workers=1,timeout_s=60,opens={says}");
    let environment = format!(r#"environment={{kind="python",python="{script}:Asking",{limits}}}"#);
    let sets = format!(
        "run.steps=2 eval.every=0 checkpoint.every=0 rollout.filter=false rollout.max_tokens=40 \
         lab.record_tokens=100000 {environment}"
    );
    (bench, sets)
}

/// A response in journals.
#[derive(Default)]
struct Known {
    is_complete: bool,
    turns: usize,
    /// Sampled tokens.
    tokens: usize,
}

/// Reads the journals of a step: its responses by their names.
fn journalled(out: &Path, step: u64) -> BTreeMap<String, Known> {
    let mut all = BTreeMap::new();
    let dir = out.join("rollouts");
    for name in if dir.is_dir() { names(&dir) } else { Vec::new() } {
        if !name.starts_with(&format!("step-{step:06}.")) || !name.ends_with(".journal") {
            continue;
        }
        let text = fs::read_to_string(dir.join(name)).unwrap();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        // The first line is the heading; others begin with a checksum.
        for line in whole.lines().skip(1) {
            let entry: Value = serde_json::from_str(&line[9..]).unwrap();
            let is_complete = entry.get("response").is_some();
            let part = if is_complete { &entry["response"] } else { &entry["turn"]["part"] };
            let given = part["given"].as_array().into_iter().flatten();
            let given = given.map(|range| range[1].as_u64().unwrap() - range[0].as_u64().unwrap());
            let sampled = part["tokens"].as_array().unwrap().len() - given.sum::<u64>() as usize;
            let known: &mut Known = all.entry(entry["asked"].to_string()).or_default();
            // Turns may be in the journal of one rank, the whole in that of another.
            if is_complete {
                *known = Known { is_complete, tokens: sampled, turns: known.turns };
            } else if !known.is_complete {
                known.turns += 1;
                known.tokens += sampled;
            }
        }
    }
    all
}

/// Whether the journals have `turns` turns of an episode that is not complete.
fn are_broken_off(out: &Path, turns: usize) -> bool {
    let is_broken_off = |known: &Known| !known.is_complete && known.turns >= turns;
    [1, 2].iter().any(|&step| journalled(out, step).values().any(is_broken_off))
}

/// The tokens of a step that a resumed run has not sampled again are those that its journals had.
fn assert_taken_over(out: &Path, step: u64, journalled: &BTreeMap<String, Known>) {
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let timings = &timings(out)[step as usize];
    let again =
        number(&timings["throughput/rollout_tokens_per_s"]) * number(&timings["time/rollout_s"]);
    let all = number(&metrics(out)[step as usize]["rollout/tokens"]);
    let known: usize = journalled.values().map(|known| known.tokens).sum();
    assert!((all - again - known as f64).abs() < 1e-3, "step {step}: {all} {again} {known}");
}

#[test]
fn a_run_that_is_killed_in_an_episode_goes_on_to_the_same_bytes() {
    let (bench, sets) = asking(true, true);
    bench.scratch.file("most", AT_ONCE);
    let asked = || fs::read_to_string(bench.scratch.path("asked")).unwrap().lines().count();
    let out = bench.out("killed");
    let mut child = start(bench.command("killed", &*sets, ""));
    until_reached(&mut child, || asked() > AT_ONCE.parse().unwrap() && are_broken_off(&out, 1));
    assert!(kill(&mut child), "it ended before it was killed");
    let known = [1, 2].map(|step| journalled(&out, step));
    bench.scratch.file("most", ALL);
    let (_, said) = spoken(bench.command("killed", &*sets, "--resume"));
    assert!(said.contains("turns of its unfinished episodes were sampled before"), "{said}");
    assert!(!said.contains("otherwise than before"), "{said}");
    let killed = asked();
    succeed(bench.command("whole", &*sets, ""));
    let whole = asked() - killed;
    let both = whole + AT_ONCE.parse::<usize>().unwrap();
    assert!(killed < both, "{killed} {whole}: complete episodes are not asked again");
    assert_same_results(&bench.out("whole"), &out);
    [1, 2].into_iter().zip(&known).for_each(|(step, known)| assert_taken_over(&out, step, known));
    let records = json_lines(&bench.out("killed").join("tokens/step-000002.jsonl"));
    assert!(records.iter().all(|record| record["given"][0][0] == 0), "each opens the episode");
}

#[test]
fn an_environment_that_does_not_repeat_itself_is_told() {
    let (bench, sets) = asking(false, true);
    let script = bench.scratch.path("asking.py");
    // Its answers depend on a file, which no setting names.
    let salt = bench.scratch.file("salt", "0");
    let text = fs::read_to_string(&script).unwrap();
    let salted = format!("self.seed + int(open({salt:?}).read()) + len(message)) % 10");
    let text = text.replace("self.seed + len(message)) % 10", &salted);
    fs::write(&script, text).unwrap();
    bench.scratch.file("most", AT_ONCE);
    let out = bench.out("killed");
    let asked = || fs::read_to_string(bench.scratch.path("asked")).unwrap().lines().count();
    let mut child = start(bench.command("killed", &*sets, ""));
    until_reached(&mut child, || asked() > AT_ONCE.parse().unwrap() && are_broken_off(&out, 2));
    assert!(kill(&mut child), "it ended before it was killed");
    bench.scratch.file("most", ALL);
    bench.scratch.file("salt", "1");
    let said = succeed(bench.command("killed", &*sets, "--resume"));
    assert_eq!(said.matches("episodes otherwise than before the run was broken off").count(), 1);
    assert!(said.contains("let answers depend on the problem, the seed and the"), "{said}");
}

/// Runs that are killed twice, with other numbers of ranks; where the environment rewards nothing,
/// a verifier judges groups.
#[test]
#[ignore = "deep: starts ranks by real MPI launchers"]
fn episodes_go_on_with_another_number_of_ranks() {
    let cases = [(false, true), (true, true), (false, false)];
    for (case, (opens, rewards)) in cases.into_iter().enumerate() {
        let (bench, sets) = asking(opens, rewards);
        let groups = "def reward(completions, **_):\n    together = sum(map(len, completions))\n\
                      \x20   return [float((len(of) + together) % 2) for of in completions]\n";
        let groups = bench.scratch.file("groups.py", groups);
        let groups = format!("{{python=\"{groups}:reward\",batch=\"group\",workers=1}}");
        let sets = format!("{sets} update.shards=4 reward.verifier={groups}");
        succeed(bench.command("whole", &*sets, ""));
        for launcher in Launcher::of_case(case) {
            let out = bench.out("killed");
            let _ = fs::remove_dir_all(&out);
            bench.scratch.file("asked", "");
            // Where groups are judged whole, all of the first step's turns are asked again.
            for (most, ranks) in [(AT_ONCE, 2), (if rewards { "80" } else { "100" }, 1)] {
                bench.scratch.file("most", most);
                let mut child =
                    start(launcher.ranks(ranks, &bench.command("killed", &*sets, "--resume")));
                let asked = || fs::read_to_string(bench.scratch.path("asked")).unwrap();
                until_reached(&mut child, || {
                    asked().lines().count() > most.parse().unwrap() && are_broken_off(&out, 1)
                });
                kill_a_rank(&bench.scratch.path("killed"));
                child.wait().unwrap();
            }
            let known = [1, 2].map(|step| journalled(&out, step));
            bench.scratch.file("most", ALL);
            let said = succeed(launcher.ranks(2, &bench.command("killed", &*sets, "--resume")));
            assert!(
                said.contains("turns of its unfinished episodes were sampled before"),
                "{said}"
            );
            assert!(!said.contains("otherwise than before"), "{said}");
            assert_same_results(&bench.out("whole"), &out);
            for (step, known) in [1, 2].into_iter().zip(&known) {
                assert_taken_over(&out, step, known);
            }
        }
    }
}

#[test]
fn episodes_are_shown_with_their_given_tokens_apart() {
    let (bench, sets) = asking(false, true);
    let planned = stdout_of(bench.command("run", &*sets, "--dry-run"));
    assert!(planned.contains("an episode: ⟦sampled⟧ text is learnt"), "{planned}");
    assert!(planned.contains(":⟦(a turn of the model)"), "{planned}");
    assert!(planned.contains("the environment's time, and what several turns"), "{planned}");

    let out = bench.run("run", &*sets, "");
    let tokens = out.join("tokens/step-000001.jsonl");
    let records = json_lines(&tokens);
    let given: u64 = records
        .iter()
        .flat_map(|record| record["given"].as_array().into_iter().flatten())
        .map(|range| range[1].as_u64().unwrap() - range[0].as_u64().unwrap())
        .sum();
    assert!(given > 0);
    let all: usize = records.iter().map(|r| r["logprobs"].as_array().unwrap().len()).sum();
    let sampled = all as u64 - given;
    let metrics = json_lines(&out.join("metrics.jsonl"));
    let tokens_sampled = metrics.iter().find_map(|row| row["rollout/tokens"].as_f64());
    assert_eq!(tokens_sampled, Some(sampled as f64), "the whole rollout is recorded");

    // The weights that sampled the first step score it alike, but for what they were given.
    let (_, said) = spoken(isentrope(format!("score {} --in {}", base(), tokens.display())));
    assert!(said.contains(&format!("scored {sampled} tokens")), "{said}");
    assert!(said.contains("max 0.000e0"), "{said}");
    let shown = stdout_of(isentrope(format!("inspect {} --step 1", out.display())));
    assert!(shown.contains(&format!("{sampled} of {sampled} tokens")), "{shown}");
    let shown = stdout_of(isentrope(format!("show {} --responses 8", out.display())));
    assert!(shown.contains("⟦sampled⟧ text") && shown.contains("    ⟦"), "{shown}");

    let script = bench.scratch.path("asking.py");
    let text = fs::read_to_string(&script).unwrap();
    fs::write(&script, format!("{text}# edited\n")).unwrap();
    let (_, said) = spoken(bench.command("run", format!("{sets} run.steps=3"), "--resume"));
    let changed = "files of the reward and the environment are not what the run was last started";
    assert!(said.contains(changed) && said.contains("asking.py"), "{said}");
}

#[test]
fn an_environment_that_fails_is_seen_in_the_numbers_of_a_benchmark() {
    let scratch = Scratch::new();
    let script = |fails: &str| {
        let text = format!(
            "class One:\n    def reset(self, problem, seed):\n        assert not ({fails}), \
             'no game'\n        return '1'\n\n    def step(self, message):\n        \
             return {{'done': True, 'reward': 1}}\n"
        );
        scratch.file("one.py", text)
    };
    let file = scratch.lines("problems.jsonl", &problems());
    let place = script("False");
    let environment =
        format!("[environment]\nkind = \"python\"\npython = \"{place}:One\"\nopens = true\n");
    let recipe = scratch.file("recipe.toml", environment);
    let eval = |out: &str, recipe: &str| {
        isentrope(format!(
            "eval {} --bench mine={file} --max-tokens 30 --limit 4 -n 1 --environment {recipe} \
             --out {}",
            base(),
            scratch.path(out)
        ))
    };
    script("seed % 2");
    let (table, said) = spoken(eval("some", &recipe));
    let results = fs::read_to_string(Path::new(&scratch.path("some")).join("results.json"));
    let results: Value = serde_json::from_str(&results.unwrap()).unwrap();
    let failed = &results["benchmarks"]["mine"]["estimates"]["failed"]["value"];
    let failed = failed.as_f64().unwrap_or_else(|| panic!("{results}"));
    let lines = json_lines(&Path::new(&scratch.path("some")).join("responses/mine.jsonl"));
    let count = lines.iter().filter(|line| line["failed"] == true).count();
    assert!((1..4).contains(&count) && failed == count as f64 / 4.0, "{failed}: {lines:?}");
    assert!(table.contains("failed, so wrong"), "{table}");
    let note = format!("{count} of 4 responses failed to be judged, and count as wrong; the first");
    assert!(said.contains(&note) && said.contains("the environment failed: "), "{said}");

    script("True");
    let (output, said) = outcome(eval("all", &recipe));
    let says = "error: mine: no response could be judged; once the environment and the verifier";
    assert!(output.status.code() == Some(1) && said.contains(says), "{said}");
    let missing = scratch.file("none.toml", "[run]\nsteps = 1\n");
    let (output, said) = outcome(eval("none", &missing));
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("none.toml has no table [environment]"), "{said}");
    assert_eq!(said.matches("--environment").count(), 1, "{said}");
}

#[test]
fn a_benchmark_is_measured_on_episodes() {
    let scratch = Scratch::new();
    let script = scratch.file(
        "two.py",
        r#"
class Two:
    def reset(self, problem, seed):
        self.turns = 0

    def step(self, message):
        self.turns += 1
        print("turn", self.turns)
        return {"messages": "7"} if self.turns == 1 else {"done": True, "reward": 1}
"#,
    );
    let (file, out) = (scratch.lines("problems.jsonl", &problems()), scratch.path("out"));
    let eval = |more: &str| {
        let environment = format!("{{kind=\"python\",python=\"{script}:Two\",max_turns=3{more}}}");
        isentrope(format!(
            "eval {} --bench mine={file} --temperature 1 --max-tokens 60 --limit 8 --stop , \
             --environment {environment} --out {out}",
            base()
        ))
    };
    let (table, said) = spoken(eval(""));
    assert!(table.contains("mine: 8 problems"), "{table}");
    assert!(said.contains("environment: turn 1"), "{said}");
    let lines = json_lines(&Path::new(&out).join("responses/mine.jsonl"));
    let of_two = lines.iter().filter(|line| line.get("given").is_some());
    assert!(of_two.clone().count() > 0, "{lines:?}");
    for line in of_two.filter(|line| line["truncated"] == false) {
        assert_eq!((&line["verdict"], &line["reward"]), (&"correct".into(), &1.0.into()), "{line}");
    }
    failure_saying(eval(",workers=3"), &["mine.environment.workers 2 -> 3", "--out"]);
    let wrong = "{kind=\"command\",command=[]}";
    let wrong = format!("eval {} --bench a=b.jsonl --environment {wrong}", base());
    let (output, said) = outcome(isentrope(wrong));
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("environment.command is []"), "{said}");
    assert_eq!(said.matches("--environment").count(), 1, "{said}");
}
