//! Recipes, models, data and directories that cannot be trained with, and what is said about them.

use crate::program::{failure, names, stderr, stdout_of, text, wrong_usage};
use crate::recipes::recipe_of;
use crate::training::{Bench, base};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// A run is refused in one sentence that contains every part, before anything is written.
fn refused(bench: &Bench, sets: &[&str], parts: &[&str]) {
    let sentence = failure(&mut bench.command("out", sets, &[]));
    for part in parts {
        assert!(sentence.contains(part), "{sets:?}: {part:?} is not in: {sentence}");
    }
    assert!(!bench.out("out").exists(), "{sets:?}: something was written");
}

/// As [`refused`], but what is wrong shows only when the run's directory is there or its model is read: standard error has
/// lines before the sentence.
fn fails(bench: &Bench, sets: &[&str], parts: &[&str]) {
    let output = bench.command("out", sets, &[]).output().unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{sets:?}: {message}");
    let last = message.lines().last().unwrap();
    assert!(last.starts_with("error: ") && !message.contains("panicked"), "{sets:?}: {message}");
    for part in parts {
        assert!(last.contains(part), "{sets:?}: {part:?} is not in: {last}");
    }
}

#[test]
fn unknown_keys_are_named_with_the_nearest() {
    let (train, sft) = (Bench::train(), Bench::sft());
    for (set, parts) in [
        ("optimizer.learning_rat=1", ["optimizer.learning_rat`", "did you mean `learning_rate`"]),
        ("optimiser.learning_rate=1", ["`optimiser`", "did you mean `optimizer`"]),
        ("rollout.promts=1", ["rollout.promts`", "did you mean `prompts`"]),
        ("run.learning_rate=1", ["run.learning_rate`", "optimizer.learning_rate"]),
        ("objective.covariance.fractoin=0.1", ["fractoin", "did you mean `fraction`"]),
        ("objective.covariance.scope=minibatch", ["covariance.scope`", "over the whole minibatch"]),
    ] {
        refused(&train, &[set], &["unknown key", parts[0], parts[1]]);
    }
    refused(
        &sft,
        &["rollout.prompts=1"],
        &["unknown key `rollout`, which recipes for `isentrope train` have"],
    );
    refused(&train, &["sft.batch=1"], &["unknown key `sft`, which recipes for `isentrope sft` have"]);
    refused(&sft, &["sft.batchsize=1"], &["unknown key", "did you mean `batch`"]);
}

#[test]
fn keys_of_other_trainers_are_translated() {
    let (train, sft) = (Bench::train(), Bench::sft());
    for (set, hint) in [
        ("num_generations=8", "`rollout.responses`"),
        ("actor_rollout_ref.rollout.n=8", "`rollout.responses`"),
        ("algorithm.adv_estimator=grpo", "`objective.advantage = \"grpo\"`"),
        (
            "actor.ppo_mini_batch_size=256",
            "`update.prompts`, which counts prompts, each with all its responses",
        ),
        (
            "trainer.total_epochs=1",
            "`run.steps`, which counts rollouts for `train` and updates for `sft`, not passes",
        ),
        ("objective.kl_cov_ratio=0.002", "`objective.covariance.fraction`"),
        ("data.train_batch_size=9", "`rollout.prompts`"),
    ] {
        refused(&train, &[set], &["unknown key", "; here it is ", hint]);
    }
    refused(&sft, &["data.train_batch_size=9"], &["; here it is `sft.batch`"]);
    refused(&sft, &["beta=0.1"], &["`objective.reference_kl.coefficient` in recipes for `isentrope train`"]);
}

/// The tokenizer of the model has no letters, and no token for what it does not have.
#[test]
fn rows_that_lose_characters_are_named() {
    let lost = "no token stands for 'x' (U+0078), which is lost";
    let bench = Bench::train();
    let mut rows = crate::training::problems();
    rows[2]["problem"] = json!("1 2 x>6:");
    let file = bench.scratch.lines("some.jsonl", &rows);
    let sets = ["run.steps=1", &format!("data.files=[{file:?}]"), &format!("eval.files=[{file:?}]")];
    let said = crate::training::succeed(&mut bench.command("run", &sets, &[]));
    let (training, held_out) = said.split_once("some.jsonl: 24 rows").unwrap();
    for (said, part) in [
        (training, "24 rows: 24 usable"),
        (training, lost),
        (held_out, "of the 6 problems that are asked, 1 with characters"),
        (held_out, lost),
    ] {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
    assert_eq!(said.matches("some.jsonl line 3").count(), 2, "{said}");
    let all = bench.scratch.lines("all.jsonl", &[json!({"problem": "x", "answer": "1"})]);
    refused_after_model(&bench, &[&format!("data.files=[{all:?}]")], &["all.jsonl line 1", lost]);
    refused_after_model(&bench, &[&format!("eval.files=[{all:?}]")], &["all.jsonl line 1", lost]);

    // Rows that are left out lose nothing, nor does the row after them.
    rows[2]["problem"] = json!("1 2 1 2 1 2 1 2x>12:");
    let file = bench.scratch.lines("long.jsonl", &rows);
    let set = format!("data.files=[{file:?}]");
    let sets = ["run.steps=1", "eval.every=0", "data.max_prompt_tokens=12", &set];
    let said = crate::training::succeed(&mut bench.command("long", &sets, &[]));
    assert!(said.contains("23 usable") && said.contains("1 too long") && !said.contains("lose"), "{said}");
    // A task has no rows.
    let sets =
        ["run.steps=1", "eval.every=0", "data.files=[]", "data.task=countdown", "data.prompt_prefix=x"];
    let said = stdout_of(&mut bench.command("task", &sets, &["--dry-run"]));
    assert!(said.contains("training data: 1000 of the first 1000 with characters"), "{said}");
    assert!(said.contains(lost) && !said.contains("0 rows"), "{said}");

    let sft = Bench::sft();
    let rows = [("1 2 3>6:", "1+2=3"), ("1 2 3>6:", "1+2=x"), ("x", "1+2=3"), ("1 2 3>6:", "3+3=6!")]
        .map(|(prompt, response)| json!({"prompt": prompt, "response": response}));
    let run = |name: &str, rows: &[Value], flags: &[&str]| {
        let files = format!("data.files=[{:?}]", sft.scratch.lines(name, rows));
        sft.command("run", &["data.task=", &files, "eval.every=0", "run.steps=1"], flags).output().unwrap()
    };
    let said = stderr(&run("pairs.jsonl", &rows, &[]));
    for part in [
        "4 rows: 3 usable",
        "of the usable, 1 with characters",
        "pairs.jsonl line 2: no token",
        "pairs.jsonl line 3: ",
        lost,
    ] {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
    let said = stderr(&run("none.jsonl", &rows[2..3], &["--overwrite"]));
    assert!(said.contains("1 cannot be used, the first, none.jsonl line 1: "), "{said}");
}

#[test]
fn sizes_beyond_the_data_are_named_with_what_there_is() {
    let bench = Bench::train();
    let shown = stdout_of(&mut bench.command("out", &["rollout.prompts=30"], &["--dry-run"]));
    assert!(shown.contains("24 problems are fewer than rollout.prompts, 30"), "{shown}");
    let sft = Bench::sft();
    fails(&sft, &["eval.problems=1000000"], &["eval.problems is 1000000", "has about", "ask for fewer"]);
}

#[test]
fn wrong_types_and_choices_are_named() {
    let bench = Bench::train();
    for (set, parts) in [
        ("run.steps=many", &["run.steps", "whole number", "found a string"][..]),
        ("run.steps=-1", &["run.steps", "-1"]),
        ("ranks.timeout_s=1.5", &["ranks.timeout_s is 1.5", "at least 2"]),
        ("run.steps=99999999999999999999", &["run.steps", "the number is too large"]),
        ("optimizer.learning_rate=1e400", &["optimizer.learning_rate", "the number is too large"]),
        ("run.steps=1.5", &["run.steps", "1.5"]),
        ("run.seed=[1]", &["run.seed", "an array of 1"]),
        ("optimizer.learning_rate=fast", &["optimizer.learning_rate", "found a string"]),
        ("optimizer.learning_rate=nan", &["optimizer.learning_rate"]),
        ("rollout.filter=1", &["rollout.filter", "found 1"]),
        ("rollout=1", &["rollout", "found 1"]),
        ("objective.loss=ppo", &["objective.loss", "\"clip\"", "\"gspo\"", "found \"ppo\""]),
        ("objective.loss=cipso", &["objective.loss", "did you mean \"cispo\""]),
        ("objective.advantage=gro", &["objective.advantage", "did you mean \"grpo\""]),
        ("objective.covariance.kl=k4", &["objective.covariance.kl", "\"k3\""]),
        ("checkpoint.dtype=bf16", &["checkpoint.dtype", "\"bfloat16\""]),
        ("data.task=chess", &["data.task", "\"countdown\""]),
        ("data.files=3", &["data.files", "found 3"]),
        ("nonsense", &["--set nonsense", "key.path=value"]),
        ("=3", &["--set =3", "not a path of keys"]),
        ("rollout.prompts.more=3", &["rollout.prompts", "not a table"]),
    ] {
        refused(&bench, &[set], parts);
    }
}

/// With one update per rollout KL-Cov's penalty has no gradient: an autopilot would turn a wheel that moves nothing.
#[test]
fn an_entropy_is_not_held_by_what_cannot_act() {
    let bench = Bench::train();
    let target = "objective={covariance = {method = \"kl-cov\", target_entropy = 1}}";
    let once = ["update.epochs=1", "update.prompts=4", "rollout.prompts=4"];
    for filter in ["rollout.filter=false", "rollout.filter=true"] {
        refused(
            &bench,
            &[&[target][..], &once, &[filter]].concat(),
            &[
                "objective.covariance.target_entropy",
                "no gradient with one update",
                "update.epochs = 2",
                "\"clip-cov\"",
            ],
        );
    }
    let all = [&[target][..], &once].concat();
    for (place, more) in ["update.epochs=2", "objective.covariance.method=clip-cov"].into_iter().enumerate() {
        let sets = [&all[..], &[more, "run.steps=1"]].concat();
        crate::training::succeed(&mut bench.command(&place.to_string(), &sets, &["--dry-run"]));
    }
}

#[test]
fn an_entropy_to_hold_is_refused_where_it_cannot_be() {
    let bench = Bench::train();
    for (set, parts) in [
        (
            "objective={covariance = {target_entropy = 0.5}}",
            &["objective.covariance.target_entropy is 0.5", "\"clip-cov\""][..],
        ),
        (
            "objective={covariance = {method = \"clip-cov\", target_entropy = 1e300}}",
            &["objective.covariance.target_entropy is 1e300", "from 1e-6 to 20 nats"],
        ),
        (
            "objective={covariance = {method = \"clip-cov\", target_entropy = 1e-300}}",
            &["objective.covariance.target_entropy is 1e-300", "from 1e-6 to 20 nats"],
        ),
        (
            "objective={covariance = {method = \"clip-cov\", target_entropy = {schedule = [[0, 1], [5, 21]]}}}",
            &["target_entropy.schedule", "with 21 in it", "from 1e-6 to 20 nats"],
        ),
        (
            "objective={entropy_bonus = {target = 1, delta = 0.5, max = 0.1}}",
            &["objective.entropy_bonus.delta is 0.5", "objective.entropy_bonus.max (0.1)"],
        ),
        (
            "eval.temperature=[1, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]",
            &["eval.temperature has 9 values", "at most 8"],
        ),
        ("objective.covariance.target_entropy=0", &["objective.covariance.target_entropy", "above 0"]),
        (
            "objective.covariance.target_entropy={fraction = 0.5}",
            &["objective.covariance.target_entropy", "fraction_of_initial"],
        ),
        (
            "objective={covariance = {method = \"kl-cov\", target_entropy = {fraction_of_initial = 50}}}",
            &["target_entropy.fraction_of_initial", "at most 10"],
        ),
        (
            "objective={covariance = {method = \"kl-cov\", target_entropy = {schedule = []}}}",
            &["target_entropy.schedule", "a pair"],
        ),
        (
            "objective={covariance = {method = \"kl-cov\", target_entropy = {schedule = [[0, 1, 2]]}}}",
            &["target_entropy", "an array of 2"],
        ),
        (
            "objective={covariance = {method = \"kl-cov\", target_entropy = {schedule = [[0, 0]]}}}",
            &["target_entropy.schedule", "above 0"],
        ),
        (
            "objective={covariance = {method = \"kl-cov\", target_entropy = {schedule = [[0.5, 1]]}}}",
            &["target_entropy.schedule", "a whole number"],
        ),
        (
            "objective={covariance = {method = \"kl-cov\", target_entropy = {schedule = [[5, 1], [5, 2]]}}}",
            &["target_entropy.schedule", "later"],
        ),
        (
            "objective={covariance = {method = \"clip-cov\", target_entropy = 1, controller = {steer = \"coefficient\"}}}",
            &["objective.covariance.controller.steer", "kl-cov"],
        ),
        (
            "objective={covariance = {method = \"clip-cov\", target_entropy = 1, controller = {min = 0.1}}}",
            &["objective.covariance.fraction is 0.0002", "controller.min (0.1)"],
        ),
        (
            "objective={covariance = {method = \"kl-cov\", target_entropy = 1, controller = {max = 2}}}",
            &["objective.covariance.controller.max is 2", "at most 1"],
        ),
        (
            "objective={covariance = {method = \"kl-cov\", target_entropy = 1, controller = {min = 0.5, max = 0.1}}}",
            &["objective.covariance.controller.min is 0.5", "below"],
        ),
        ("objective.covariance.controller.gain=0", &["objective.covariance.controller.gain", "above 0"]),
        (
            "objective.covariance.controller.integral_steps=-1",
            &["objective.covariance.controller.integral_steps", "above 0"],
        ),
        (
            "objective={covariance = {method = \"kl-cov\", target_entropy = 1}, entropy_bonus = {target = 1}}",
            &["objective.covariance.target_entropy is 1", "objective.entropy_bonus.target is set too"],
        ),
        (
            "objective.entropy_bonus={target = 1, rate = 1, delta = 1}",
            &["objective.entropy_bonus.rate", "delta is set too"],
        ),
        (
            "objective.entropy_bonus={delta = 0.005}",
            &["objective.entropy_bonus.delta", "objective.entropy_bonus.target"],
        ),
        ("objective.entropy_bonus={target = {schedule = []}}", &["objective.entropy_bonus.target.schedule"]),
    ] {
        refused(&bench, &[set], parts);
    }
}

#[test]
fn values_out_of_range_are_named_with_what_they_may_be() {
    let (train, sft) = (Bench::train(), Bench::sft());
    for (set, parts) in [
        ("run.steps=0", &["run.steps", "at least 1"][..]),
        ("rollout.prompts=0", &["rollout.prompts", "at least 1"]),
        ("rollout.responses=0", &["rollout.responses", "at least 1"]),
        ("rollout.max_tokens=0", &["rollout.max_tokens", "at least 1"]),
        ("rollout.max_batches=0", &["rollout.max_batches", "at least 1"]),
        ("rollout.responses=9223372036854775807", &["rollout.prompts", "at most 1048576 responses"]),
        ("rollout.prompts=100000000", &["rollout.prompts", "at most 1048576 responses"]),
        ("rollout.stop=[\"\"]", &["rollout.stop", "empty text"]),
        ("rollout.temperature=0", &["rollout.temperature", "0.01 to 100"]),
        ("update.epochs=0", &["update.epochs", "from 1 to 65536"]),
        ("update.epochs=9223372036854775807", &["update.epochs", "from 1 to 65536"]),
        ("update.prompts=0", &["update.prompts", "at least 1"]),
        ("update.prompts=9", &["update.prompts", "is 9", "rollout.prompts (4)"]),
        ("optimizer.learning_rate=0", &["optimizer.learning_rate", "above 0"]),
        ("optimizer.learning_rate=inf", &["optimizer.learning_rate", "above 0"]),
        ("optimizer.beta1=1", &["optimizer.beta1", "below 1"]),
        ("optimizer.beta2=-0.1", &["optimizer.beta2", "at least 0"]),
        ("optimizer.eps=0", &["optimizer.eps", "above 0"]),
        ("optimizer.eps=1e-60", &["optimizer.eps", "single precision"]),
        ("optimizer.clip_norm=-1", &["optimizer.clip_norm", "above 0"]),
        ("optimizer.weight_decay=-1", &["optimizer.weight_decay", "at least 0"]),
        ("optimizer.final_fraction=2", &["optimizer.final_fraction", "from 0 to 1"]),
        ("objective.clip_low=-1", &["objective.clip_low", "at least 0"]),
        ("objective.clip_high=inf", &["objective.clip_high is inf", "a finite number, at least 0"]),
        ("objective.dual_clip=0.5", &["objective.dual_clip", "above 1"]),
        ("objective.covariance.fraction=2", &["objective.covariance.fraction", "at most 1"]),
        ("objective.covariance.coefficient=-1", &["objective.covariance.coefficient"]),
        ("objective.entropy_bonus.coefficient=-1", &["objective.entropy_bonus.coefficient"]),
        ("objective.reference_kl.coefficient=-1", &["objective.reference_kl.coefficient"]),
        ("objective.entropy_mask_fraction=0", &["objective.entropy_mask_fraction"]),
        ("reward.overlong.buffer=17", &["reward.overlong.buffer", "at most the longest response, 16"]),
        ("reward.overlong.factor=-1", &["reward.overlong.factor"]),
        ("eval.samples=0", &["eval.samples", "from 1 to 65536"]),
        ("eval.samples=9223372036854775807", &["eval.samples", "from 1 to 65536"]),
        ("eval.stop=[\"\"]", &["eval.stop", "empty text"]),
        ("eval.problems=0", &["eval.problems", "at least 1"]),
        ("eval.temperature=-1", &["eval.temperature is -1", "from 0.01 to 100"]),
        ("eval.temperature=[1, -1]", &["eval.temperature is -1", "from 0.01 to 100"]),
        ("eval.temperature=[]", &["eval.temperature is []", "at least one"]),
        ("eval.temperature=[0.6, 1, 0.6]", &["eval.temperature has 0.6 twice"]),
        ("eval.temperature=[1, \"hot\"]", &["eval.temperature.1 must be a number, found a string"]),
        ("eval.temperature=\"hot\"", &["eval.temperature must be a number, or an array, found a string"]),
        ("eval.max_tokens=0", &["eval.max_tokens", "at least 1"]),
        ("data.limit=0", &["data.limit", "at least 1"]),
        ("data.max_prompt_tokens=0", &["data.max_prompt_tokens", "at least 1"]),
        ("memory.budget_gib=0", &["memory.budget_gib", "above 0"]),
        ("memory.micro_batch_tokens=0", &["memory.micro_batch_tokens", "at least 1"]),
        ("checkpoint.keep=0", &["checkpoint.keep", "at least 1"]),
        ("model.path=", &["model.path", "is not set"]),
    ] {
        refused(&train, &[set], parts);
    }
    for (set, parts) in [
        ("sft.batch=0", &["sft.batch", "from 1 to 1048576"][..]),
        ("sft.batch=9223372036854775807", &["sft.batch", "from 1 to 1048576"]),
        ("sft.max_tokens=0", &["sft.max_tokens", "at least 1"]),
        ("data.countdown.numbers=[2]", &["data.countdown.numbers", "from 3 to 6"]),
        (
            "data.countdown.demonstrations.success=2",
            &["data.countdown.demonstrations.success", "from 0 to 1"],
        ),
        ("eval.max_tokens=0", &["eval.max_tokens", "at least 1"]),
    ] {
        refused(&sft, &[set], parts);
    }
}

#[test]
fn impossible_combinations_are_named() {
    let train = Bench::train();
    for (sets, parts) in [
        (&["model.from_scratch=true"][..], &["model.from_scratch", "isentrope sft"][..]),
        (&["rollout.responses=1"], &["rollout.filter", "rollout.responses = 1"]),
        (&["data.task=countdown"], &["data.task", "excludes data.files"]),
        (&["data.files=[]"], &["data.files", "data.task"]),
        (&["data.files=[\"a.csv\"]"], &["a.csv", "parquet"]),
    ] {
        refused(&train, sets, parts);
    }
    // Two held-out sets of one name would be one in the metrics.
    fs::create_dir(train.out("other")).unwrap();
    fs::copy(train.out("problems.jsonl"), train.out("other/problems.jsonl")).unwrap();
    let files = format!(
        "eval.files=[{:?}, {:?}]",
        train.scratch.path("problems.jsonl"),
        train.scratch.path("other/problems.jsonl")
    );
    refused_after_model(&train, &[&files], &["eval.files", "problems"]);
}

/// As [`refused`], where standard error begins with what the run is.
fn refused_after_model(bench: &Bench, sets: &[&str], parts: &[&str]) {
    fails(bench, sets, parts);
    assert!(!bench.out("out").exists(), "{sets:?}: something was written");
}

#[test]
fn models_that_are_missing_or_incomplete_are_named() {
    let bench = Bench::train();
    let absent = bench.scratch.path("absent");
    refused(&bench, &[&format!("model.path={absent}")], &["absent", "no such directory"]);
    let copy = |name: &str, without: &str| {
        let dir = bench.scratch.copy(Path::new(base()), name);
        fs::remove_file(dir.join(without)).unwrap();
        format!("model.path={}", text(&dir))
    };
    refused_after_model(&bench, &[&copy("a", "config.json")], &["config.json", "no such file"]);
    refused_after_model(&bench, &[&copy("b", "tokenizer.json")], &["tokenizer.json", "training needs one"]);
    fails(&bench, &[&copy("c", "model.safetensors")], &["model.safetensors"]);
}

#[test]
fn data_that_is_missing_or_useless_is_named() {
    let bench = Bench::train();
    let files = |path: &str| format!("data.files=[{path:?}]");
    let file = |name: &str, rows: &[Value]| files(&bench.scratch.lines(name, rows));
    refused_after_model(
        &bench,
        &[&files(&bench.scratch.path("absent.jsonl"))],
        &["absent.jsonl", "data.files"],
    );
    refused_after_model(&bench, &[&files(&bench.scratch.file("empty.jsonl", ""))], &["empty.jsonl"]);
    refused_after_model(&bench, &[&files(&bench.scratch.file("x.parquet", "PAR1"))], &["x.parquet"]);
    refused_after_model(
        &bench,
        &[&files(&bench.scratch.file("x.jsonl", "{\"problem\": "))],
        &["x.jsonl", "1"],
    );
    refused_after_model(
        &bench,
        &[&file("wrong.jsonl", &[json!({"text": "1+1"}), json!({"text": "1+2"})])],
        &["wrong.jsonl", "prompt"],
    );
    refused_after_model(
        &bench,
        &[&file("no-answer.jsonl", &[json!({"problem": "1+1"})])],
        &["no-answer.jsonl", "answer"],
    );
    refused_after_model(
        &bench,
        &["data.max_prompt_tokens=1"],
        &["24 are longer than the 1 tokens that data.max_prompt_tokens allows"],
    );
    // Chats for a model without a template.
    let chat = json!({"prompt": [{"role": "user", "content": "1 2 3>6:"}], "answer": "6"});
    refused_after_model(
        &bench,
        &[&file("chat.jsonl", &[chat])],
        &["chat.jsonl line 1", "chat template", "data.template"],
    );
    refused_after_model(&bench, &["data.template=chat"], &["chat template"]);
    let sft = Bench::sft();
    let mine = format!("data.files=[{:?}]", sft.scratch.path("absent.jsonl"));
    refused_after_model(&sft, &[&mine, "data.task="], &["absent.jsonl", "data.files"]);
    refused_after_model(
        &sft,
        &["sft.eval_files=[\"absent.parquet\"]"],
        &["sft.eval_files names absent.parquet"],
    );
}

#[test]
fn bad_rows_are_counted_by_number_before_the_first_step() {
    let bench = Bench::train();
    let mut rows = crate::training::problems();
    rows[4] = json!({"problem": "", "answer": "3"});
    rows[9] = json!({"problem": "1 2 3>9:"});
    let file = bench.scratch.lines("some.jsonl", &rows);
    let said = crate::training::succeed(&mut bench.command(
        "run",
        &["run.steps=1", &format!("data.files=[{file:?}]")],
        &[],
    ));
    for part in ["some.jsonl line 5", "some.jsonl line 10", "24 rows: 22 usable"] {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
}

#[test]
fn prompts_and_examples_that_do_not_fit_the_context_are_left_out_or_refused() {
    let bench = Bench::train();
    let long = json!({"problem": "1 ".repeat(64), "answer": "1"});
    let file = bench.scratch.lines("long.jsonl", &[vec![long], crate::training::problems()].concat());
    let train = format!("data.files=[{file:?}]");
    let said =
        crate::training::succeed(&mut bench.command("run", &["run.steps=1", "eval.every=0", &train], &[]));
    assert!(
        said.contains("1 prompts are longer than 127 tokens, all that the model's context allows"),
        "{said}"
    );
    let held_out = format!("eval.files=[{file:?}]");
    refused_after_model(
        &bench,
        &[&held_out],
        &["long.jsonl line 1", "128 tokens", "context of 128", "eval.files"],
    );

    let sft = Bench::sft();
    let pairs: Vec<Value> =
        [8, 25].map(|n| json!({"prompt": "1 2 3>6:", "response": "1+2=3,".repeat(n)})).into();
    let file = sft.scratch.lines("long.jsonl", &pairs);
    let sets = [
        "data.task=",
        "data.shuffle=false",
        &format!("data.files=[{file:?}]"),
        "sft.max_tokens=1000",
        "eval.every=0",
        "run.steps=1",
    ];
    let out = sft.run("run", &sets, &[]);
    let line = &crate::training::metrics(&out)[1];
    assert_eq!((&line["sft/tokens"], &line["sft/too_long"]), (&json!(12.0 * 57.0), &json!(0.0)));
}

#[test]
fn examples_longer_than_allowed_are_passed_over_until_it_is_hopeless() {
    let sft = Bench::sft();
    fails(&sft, &["sft.max_tokens=8", "eval.every=0", "run.steps=1"], &["sft.max_tokens", "raise it"]);
}

#[test]
fn memory_that_is_too_small_is_refused_with_what_would_help() {
    for bench in [Bench::train(), Bench::sft()] {
        refused_after_model(
            &bench,
            &["memory.budget_gib=0.01"],
            &["at least", "for the model alone", "smaller"],
        );
        let parts = ["needs at least", "to work on", "smaller model", "max_tokens"];
        refused_after_model(&bench, &["memory.budget_gib=0.0632"], &parts);
    }
}

#[test]
fn passes_that_do_not_fit_the_memory_are_refused_by_key() {
    let sets = ["memory.budget_gib=0.1", "memory.micro_batch_tokens=1000000", "sft.batch=100000"];
    refused_after_model(&Bench::sft(), &sets, &["memory.micro_batch_tokens is too large", "lower it"]);
}

#[test]
fn prompts_of_a_task_that_are_longer_than_allowed_are_refused() {
    let task = ["data.files=[]", "data.task=countdown", "eval.every=0"];
    let sets = [&task[..], &["data.max_prompt_tokens=5"]].concat();
    refused_after_model(
        &Bench::train(),
        &sets,
        &["data.task has prompts of", "data.max_prompt_tokens allows 5"],
    );
    let prefix = format!("data.prompt_prefix={:?}", "1 ".repeat(64));
    let sets = [&task[..], &[&*prefix]].concat();
    refused_after_model(
        &Bench::train(),
        &sets,
        &["data.task has prompts of", "the model's context allows 127"],
    );
}

#[test]
fn directories_that_cannot_hold_a_run_are_named() {
    let bench = Bench::sft();
    let file = bench.scratch.file("file", "x");
    for out in [file.clone(), format!("{file}/run"), "/proc/run".to_owned()] {
        for flags in [&[][..], &["--dry-run"]] {
            let message = failure(&mut bench.command("out", &[&format!("run.out={out}")], flags));
            assert!(
                message.contains(&format!("run.out is {out}")) && message.contains("name a"),
                "{message}"
            );
        }
    }
    let sentence = failure(&mut bench.command("out", &["run.out=/proc/run"], &[]));
    assert!(sentence.contains("one cannot write in /proc: "), "{sentence}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "x");
    let full = bench.scratch.path("full");
    fs::create_dir(&full).unwrap();
    fs::write(Path::new(&full).join("thesis.tex"), "x").unwrap();
    let sentence = failure(&mut bench.command("full", &[], &["--overwrite"]));
    assert!(sentence.contains("is no run") && sentence.contains("run.out"), "{sentence}");
    assert_eq!(names(Path::new(&full)), ["thesis.tex"]);
}

#[test]
fn recipe_files_that_are_none_are_named() {
    let bench = Bench::train();
    let scratch = &bench.scratch;
    for command in ["train", "sft"] {
        let run = |recipe: &str, parts: &[&str]| {
            let sentence = failure(&mut crate::program::isentrope(&[command, recipe]));
            for part in parts {
                assert!(sentence.contains(part), "{part:?} is not in: {sentence}");
            }
        };
        run(&scratch.path("absent.toml"), &["absent.toml", "No such file"]);
        run(&scratch.path("."), &["is a directory"]);
        run(&scratch.file("broken.toml", "[run\nsteps = 1"), &["broken.toml:1", "not valid TOML"]);
        run(&scratch.file("twice.toml", "run.steps = 1\nrun.steps = 2"), &["twice.toml:2", "not valid TOML"]);
        run(&scratch.file("binary.toml", [0xff, 0xfe]), &["binary.toml", "UTF-8"]);
        run(&scratch.file("empty.toml", ""), &["empty.toml", "model.path", "is not set"]);
        run(&scratch.file("unknown.toml", "\n[run]\nstep = 1"), &["unknown.toml:3", "did you mean `steps`"]);
        wrong_usage(&mut crate::program::isentrope(&[command]), "<RECIPE>");
        wrong_usage(
            &mut crate::program::isentrope(&[command, "x", "--resume", "--overwrite"]),
            "--overwrite",
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_recipes_name_need_not_be_unicode() {
    use std::os::unix::ffi::OsStrExt;
    let bench = Bench::sft();
    let path = Path::new(&bench.scratch.path("")).join(std::ffi::OsStr::from_bytes(b"\xff.toml"));
    fs::copy(bench.scratch.path("recipe.toml"), &path).unwrap();
    for flags in [&["--dry-run"][..], &["--set", "run.steps=1", "--set", "eval.every=0"]] {
        let mut command = crate::program::isentrope(&["sft"]);
        crate::training::succeed(command.arg(&path).args(flags).current_dir(bench.scratch.path("")));
    }
    let manifest = fs::read_to_string(bench.scratch.path("runs/\u{fffd}/manifest.json")).unwrap();
    assert!(manifest.contains("\u{fffd}.toml"), "{manifest}");
}

#[test]
fn a_dry_run_prints_a_recipe_that_is_the_same_recipe_and_writes_nothing() {
    for (bench, command) in [(Bench::train(), "train"), (Bench::sft(), "sft")] {
        let before = bench.scratch.names();
        let sets = ["run.seed=9", "optimizer.beta2=0.95"];
        let shown = stdout_of(&mut bench.command("out", &sets, &["--dry-run"]));
        for part in ["seed = 9", "beta2 = 0.95", "eps = 1e-8", "\n# time: about ", "of the data"] {
            assert!(shown.contains(part), "{part:?} is not in: {shown}");
        }
        assert!(shown.starts_with("# memory: weights "), "{shown}");
        assert_eq!(bench.scratch.names(), before);
        // What comes after is the recipe with every default.
        let (recipe, _) = recipe_of(&shown);
        let file = bench.scratch.file("resolved.toml", &recipe);
        let again = stdout_of(&mut crate::program::isentrope(&[command, &file, "--dry-run"]));
        assert_eq!(recipe_of(&again).0, recipe);
        // And it makes the same run.
        let one = bench.run("one", &[&sets[..], &["run.steps=1"]].concat(), &[]);
        let out = bench.scratch.path("two");
        let arguments = [command, &file, "--set", "run.steps=1", "--set", &format!("run.out={out}")];
        crate::training::succeed(&mut crate::program::isentrope(&arguments));
        crate::training::assert_same_results(&one, Path::new(&out));
        assert_eq!(
            fs::read_to_string(one.join("recipe.toml")).unwrap().replace(&text(&one), ""),
            fs::read_to_string(Path::new(&out).join("recipe.toml")).unwrap().replace(&out, "")
        );
    }
}

#[test]
fn a_dry_run_fails_where_the_run_would_but_for_what_would_be_downloaded() {
    let bench = Bench::train();
    let shown = stdout_of(&mut bench.command("out", &["model.path=Qwen/Qwen2.5-0.5B"], &["--dry-run"]));
    assert!(shown.contains("cannot be shown without the model. Qwen/Qwen2.5-0.5B: "), "{shown}");
    // The tests run in the crate's directory.
    let shown = stdout_of(&mut bench.command("out", &["model.path=tests/absent"], &["--dry-run"]));
    let told = "tests/absent looks like a path, and there is no such directory (tests/ has no model)";
    assert!(shown.contains(told), "{shown}");
    // What of the data has been read is said, and nothing of what has not.
    let good = bench.scratch.file("good.jsonl", "{\"problem\": \"1+1?\", \"answer\": \"2\"}\n");
    let both = format!("data.files=['{good}', 'openai/gsm8k:main']");
    let sets = ["model.path=Qwen/Qwen2.5-0.5B", "data.task=", &both];
    let shown = stdout_of(&mut bench.command("out", &sets, &["--dry-run"]));
    assert!(shown.contains(&format!("Its data on this machine can be read: {good}, ")), "{shown}");
    assert!(shown.contains("Its data on the hub have not been looked at: openai/gsm8k:main. "), "{shown}");
    for id in ["hf:", "hf:a b/c"] {
        let set = format!("data.files=['{id}']");
        let sets = ["model.path=Qwen/Qwen2.5-0.5B", "data.task=", &set];
        let output = bench.command("out", &sets, &["--dry-run"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("is not the hub id of a data set"), "{}", stderr(&output));
    }
    // Data are read without the model, too.
    let files = format!("data.files=['{}']", bench.scratch.file("data.jsonl", "{\"problem\": \"3 5>8:\"}\n"));
    let sets = ["model.path=Qwen/Qwen2.5-0.5B", "data.task=", &files];
    let output = bench.command("out", &sets, &["--dry-run"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("data.jsonl: no row can be used"), "{}", stderr(&output));
    let absent = format!("model.path={}", bench.scratch.path("absent"));
    for (set, says) in [(&absent[..], "absent"), ("memory.budget_gib=0.01", "the run needs at least")] {
        let output = bench.command("out", &[set], &["--dry-run"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    }
    // A device that cannot be used is one whatever the model is.
    for model in ["model.path=Qwen/Qwen2.5-0.5B", "run.seed=1"] {
        let sets = [model, "device.dtype=bf16", "device.kind=cpu"];
        let output = bench.command("out", &sets, &["--dry-run"]).output().unwrap();
        let shown = String::from_utf8(output.stdout.clone()).unwrap();
        assert_eq!(output.status.code(), Some(1), "{shown}");
        let told = "device.dtype is bf16, and only a GPU computes with bf16: the device is the CPU";
        assert!(shown.starts_with(&format!("# {told}")) && shown.contains("seed = "), "{shown}");
        assert!(stderr(&output).contains(told), "{}", stderr(&output));
    }
    // The threads are looked at before anything is printed, and before the model.
    for set in ["run.seed=1", "model.path=Qwen/Qwen2.5-0.5B"] {
        let output = bench.command("out", &[set], &["--dry-run", "--threads", "0"]).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
        assert!(stderr(&output).contains("--threads: "), "{}", stderr(&output));
    }
}

#[test]
fn a_dry_run_plans_for_gpus_that_are_not_here() {
    let bench = Bench::train();
    let dry = |gb: &str, sets: &[&str]| {
        bench.command("out", sets, &["--dry-run", "--gpu-memory", gb]).output().unwrap()
    };
    let text = |output: &std::process::Output| String::from_utf8(output.stdout.clone()).unwrap();
    let fits = dry("24", &["memory.offload_moments=true"]);
    let shown = text(&fits);
    assert!(fits.status.success(), "{}", stderr(&fits));
    let lines: Vec<&str> = shown.lines().take(2).collect();
    for (line, dtype) in lines.iter().zip(["bf16", "f32"]) {
        assert!(line.starts_with(&format!("# a GPU of 24 GB with {dtype}: memory: weights ")), "{shown}");
        assert!(line.contains(" in the host's memory; sampling: "), "{shown}");
    }
    assert!(!shown.contains("# time: "), "nobody knows how fast it is: {shown}");
    let limits: Vec<&str> =
        shown.lines().filter(|line| line.starts_with("# limit, not a forecast: ")).collect();
    assert!(
        limits.len() == 1
            && limits[0].contains("if a GPU of type RTX 4090 ran at its peak of 165 TFLOP/s in bf16"),
        "{shown}"
    );
    assert!(
        limits[0].contains("with bf16 at least ") && limits[0].contains("; with f32 at least "),
        "{shown}"
    );
    // A GPU that is named has the memory that its driver shows, which is less than it is sold with.
    let named = |name: &str| bench.command("out", &[], &["--dry-run", "--gpu", name]).output().unwrap();
    let h200 = text(&named("h200"));
    assert!(h200.starts_with("# H200 SXM (140.4 GiB, as its driver shows) with bf16: memory: "), "{h200}");
    let l40s = text(&named("L40S"));
    assert!(l40s.starts_with("# L40S (45.0 GiB, as its driver shows) with bf16: memory: "), "{l40s}");
    assert!(l40s.lines().next().unwrap().ends_with(" of 40.5 GiB"), "nine tenths of it: {l40s}");
    let peaks = "a GPU of type H200 SXM ran at its peak of 989 TFLOP/s in bf16, 67.0 in f32 and 4800 GB/s";
    assert!(h200.contains(peaks), "{h200}");
    let unknown = named("voodoo2");
    assert!(!unknown.status.success(), "{}", stderr(&unknown));
    let said = stderr(&unknown);
    let known = said.split("known are ").nth(1).and_then(|rest| rest.split(';').next()).unwrap_or_default();
    // The help has them all.
    let help = stdout_of(&mut crate::program::isentrope(&["train", "--help"]));
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        known.starts_with("a100, ") && help.contains(&format!("plans for such a GPU ({known})")),
        "{known}"
    );
    let here = text(&bench.command("out", &[], &["--dry-run", "--device", "cpu"]).output().unwrap());
    let measured = here.lines().find(|line| line.starts_with("# limit, not a forecast: if all ran at the "));
    assert!(measured.is_some_and(|line| line.contains("measured here: at least ")), "{here}");
    let small = dry("0.05", &[]);
    assert_eq!(small.status.code(), Some(1));
    let shown = text(&small);
    for part in ["with bf16: the run needs at least", "with f32 as it is, the least GPU has 1 GB"] {
        assert!(shown.contains(part), "{part:?} is not in: {shown}");
    }
    assert!(stderr(&small).contains("the run does not fit a GPU of 0.05 GB"), "{}", stderr(&small));
    for gb in ["0", "nan", "inf"] {
        let output = dry(gb, &[]);
        assert!(!output.status.success() && stderr(&output).contains("--gpu-memory"), "{}", stderr(&output));
    }
    let output = bench.command("out", &[], &["--gpu-memory", "80"]).output().unwrap();
    assert!(!output.status.success() && stderr(&output).contains("--dry-run"), "{}", stderr(&output));
}

#[test]
fn a_model_beside_the_recipe_is_not_taken_for_a_hub_id() {
    let bench = Bench::train();
    fs::create_dir_all(bench.scratch.path("models/small")).unwrap();
    let mut command = bench.command("out", &["model.path=models/small"], &[]);
    let message = failure(command.current_dir("/"));
    assert!(message.contains("paths are relative to the current directory; there is"), "{message}");
}
