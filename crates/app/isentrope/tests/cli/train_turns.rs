//! Responses of several turns: a run that is killed in the middle of episodes, and the commands
//! that show episodes.

use crate::processes::{kill, start, until_reached};
use crate::program::{Scratch, failure_saying, isentrope, json_lines, outcome, spoken, stdout_of};
use crate::training::{Bench, assert_same_results, base, problems, succeed};
use std::fs;

/// Turns after which the environment does not answer any more, in the middle of the second step.
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
    let mut child = start(bench.command("killed", &*sets, ""));
    until_reached(&mut child, || asked() > AT_ONCE);
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
    let lines = json_lines(&std::path::Path::new(&out).join("responses/mine.jsonl"));
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
}
