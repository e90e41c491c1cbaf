//! Responses of several turns: a run that is killed in the middle of episodes, and the commands
//! that show episodes.

use crate::processes::{kill, start, until_reached};
use crate::program::{Scratch, failure_saying, isentrope, json_lines, outcome, spoken, stdout_of};
use crate::training::{Bench, assert_same_results, base, problems, succeed};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Turns after which the environment does not answer any more, in the middle of episodes.
const AT_ONCE: usize = 40;

/// A bench with an environment that answers two turns and rewards the third, if the episode comes
/// so far; and the settings of a run with it. It may open its episodes.
fn asking(opens: bool) -> (Bench, String) {
    let bench = Bench::train();
    let (asked, go) = (bench.scratch.file("asked", ""), bench.scratch.path("go"));
    let (says, opens) = (opens, if opens { "True" } else { "False" });
    let text = format!(
        r#"
import os, time


class Asking:
    def reset(self, problem, seed):
        self.turns, self.seed = 0, seed
        return str(seed % 10) if {opens} else None

    def step(self, message):
        with open({asked:?}, "a") as file:
            file.write("turn\n")
        while len(open({asked:?}).readlines()) > {AT_ONCE} and not os.path.exists({go:?}):
            time.sleep(0.02)
        self.turns += 1
        if self.turns == 3:
            return {{"done": True, "reward": (self.seed + len(message)) % 2}}
        return {{"messages": str((self.seed + len(message)) % 10)}}
"#
    );
    let script = bench.scratch.file("asking.py", text);
    let environment =
        format!(r#"environment={{kind="python",python="{script}:Asking",workers=1,opens={says}}}"#);
    let sets = format!(
        "run.steps=2 eval.every=0 checkpoint.every=0 rollout.filter=false rollout.max_tokens=40 \
         lab.record_tokens=100000 {environment}"
    );
    (bench, sets)
}

#[test]
fn a_run_that_is_killed_in_an_episode_goes_on_to_the_same_bytes() {
    let (bench, sets) = asking(true);
    let asked = || fs::read_to_string(bench.scratch.path("asked")).unwrap().lines().count();
    // The first line of a journal is its heading.
    let is_kept = |path: &str| fs::read_to_string(path).is_ok_and(|text| text.lines().count() > 1);
    let journals = [1, 2].map(|step| format!("killed/rollouts/step-00000{step}.rank-0.journal"));
    let journals = journals.map(|path| bench.scratch.path(&path));
    let mut child = start(bench.command("killed", &*sets, ""));
    until_reached(&mut child, || asked() > AT_ONCE && journals.iter().any(|path| is_kept(path)));
    assert!(kill(&mut child), "it ended before it was killed");
    bench.scratch.file("go", "");
    let (_, said) = spoken(bench.command("killed", &*sets, "--resume"));
    assert!(said.contains("sampled before the run was broken off"), "{said}");
    let killed = asked();
    succeed(bench.command("whole", &*sets, ""));
    let whole = asked() - killed;
    assert!(killed < whole + AT_ONCE, "{killed} {whole}: complete episodes are not asked again");
    assert_same_results(&bench.out("whole"), &bench.out("killed"));
    let records = json_lines(&bench.out("killed").join("tokens/step-000002.jsonl"));
    assert!(records.iter().all(|record| record["given"][0][0] == 0), "each opens the episode");
}

#[test]
fn episodes_are_shown_with_their_given_tokens_apart() {
    let (bench, sets) = asking(false);
    bench.scratch.file("go", "");
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
