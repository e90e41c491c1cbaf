//! On-policy distillation in whole runs. `crates/learn/train/src/rl/distillation` has the numbers.

use crate::program::{assert_parts, failure_last, json_of, stdout_of, text};
use crate::text_model::write_llama;
use crate::training::{Bench, assert_resumes, assert_same_results, base, checkpoint, metrics};
use crate::training::{succeed, timings, weights};
use serde_json::{Value, json};
use std::fs;

/// A larger model than the benches', with the same tokenizer.
pub const TEACHER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../assets/countdown-base");

/// Nothing but the teacher, and nothing that moves weights beside it.
pub fn distill(teacher: &str) -> String {
    format!(
        "objective.advantage=distill objective.distillation.teacher={teacher} \
         objective.entropy_bonus={{}} objective.covariance={{}} rollout.filter=false \
         optimizer.weight_decay=0.0"
    )
}

fn number(line: &Value, name: &str) -> f64 {
    line[name].as_f64().unwrap_or_else(|| panic!("{name} is {} in {line}", line[name]))
}

#[test]
fn a_student_learns_from_a_teacher_of_another_size_and_goes_on() {
    let bench = Bench::train();
    let sets = distill(TEACHER);
    let whole = assert_resumes(&bench, "whole", &sets, 1, 2);
    for line in &metrics(&whole)[1..] {
        assert!(number(line, "kl/teacher") > 0.0, "{line}");
        assert_eq!(number(line, "update/groups_without_signal"), 0.0);
    }
    assert!(timings(&whole).iter().skip(1).all(|line| line["time/teacher_s"].is_number()));
    let manifest = json_of(&whole.join("manifest.json"));
    assert!(manifest["model"]["teacher"]["sha256"]["model.safetensors"].is_string(), "{manifest}");
    // Neither passes nor threads show.
    let due = "run.steps=2 eval.every=1 checkpoint.every=1 optimizer.schedule=constant";
    let other = format!("{sets} {due} memory.micro_batch_tokens=11");
    assert_same_results(&whole, &bench.run("other", other, "--threads 3"));
    // The run says so if the teacher's files change between two processes.
    let teacher = bench.scratch.copy(TEACHER.as_ref(), "teacher");
    let sets = distill(&text(&teacher));
    bench.run("changed", format!("{sets} run.steps=1 eval.every=0"), "");
    fs::write(teacher.join("generation_config.json"), r#"{"eos_token_id": 0 }"#).unwrap();
    let said = succeed(bench.command("changed", format!("{sets} run.steps=2"), "--resume"));
    assert_parts(&said, &["files of the teacher are not what the run was last started with"]);
}

#[test]
fn a_teacher_equal_to_the_student_moves_no_weight() {
    let bench = Bench::train();
    let sets = format!("{} run.steps=1 eval.every=0 checkpoint.dtype=float32", distill(base()));
    let said = succeed(bench.command("same", format!("{sets} update.prompts=4"), ""));
    assert_parts(&said, &["there is nothing to learn from in this step"]);
    let line = &metrics(&bench.out("same"))[1];
    let values = ["kl/teacher", "grad/norm_max"].map(|name| number(line, name));
    assert_eq!((values, number(line, "update/groups_without_signal")), ([0.0; 2], 1.0));
    let before = bench.run(
        "sft",
        "run.steps=1 optimizer.learning_rate=1e-30 eval.every=0 \
        checkpoint.dtype=float32",
        "",
    );
    assert!(weights(&bench.out("same"), 1) == weights(&before, 1));
}

/// The divergence over the vocabulary. Its value is in `kl/teacher`, and the sampled token's form
/// estimates it.
#[test]
fn a_student_learns_from_a_teachers_whole_distributions_and_goes_on() {
    let bench = Bench::train();
    let exact = "objective.distillation.divergence=reverse-kl";
    let sets = format!("{} {exact}", distill(TEACHER));
    let whole = assert_resumes(&bench, "whole", &sets, 1, 2);
    let due = "run.steps=2 eval.every=1 checkpoint.every=1 optimizer.schedule=constant";
    let other = format!("{sets} {due} memory.micro_batch_tokens=11");
    assert_same_results(&whole, &bench.run("other", other, "--threads 3"));
    let kl = |out| number(&metrics(out)[1], "kl/teacher");
    let estimate = bench.run("sampled", format!("{} {due}", distill(TEACHER)), "");
    let (exact_kl, estimate) = (kl(&whole), kl(&estimate));
    assert!(exact_kl > 0.0 && (exact_kl / estimate - 1.0).abs() < 0.3, "{exact_kl} {estimate}");
    // All advantages are 0, and the term reaches every group.
    assert_eq!(number(&metrics(&whole)[1], "update/groups_without_signal"), 0.0);
    // Beside rewards it has a term too.
    let both = format!("{sets} objective.advantage=rloo update.prompts=2 update.epochs=2 {due}");
    bench.run("both", both, "");
    // A teacher that agrees moves no weight, and one that learns is asked in one update alone.
    let agreeing = format!("{} {exact} run.steps=1 eval.every=0", distill(base()));
    let same = bench.run("same", agreeing, "");
    let line = &metrics(&same)[1];
    let values = ["kl/teacher", "grad/norm_max"].map(|name| number(line, name));
    assert_eq!(values, [0.0; 2], "no update moves a weight");
    let live = format!(
        "objective.advantage=distill rollout.filter=false {exact} \
         objective.distillation.self_teacher=live update.prompts=4 update.epochs=2 \
         objective.distillation.teacher_prompt=\"{{prompt}}{{answer}}\""
    );
    let parts = ["objective.distillation.self_teacher", "2 updates per rollout"];
    failure_last(bench.command("live", live, ""), &parts);
}

#[test]
fn data_without_answers_teach_what_the_teacher_says() {
    let bench = Bench::train();
    let rows: Vec<Value> = (1..7).map(|i| json!({ "prompt": format!("{i} 2 3>6:") })).collect();
    let rows = bench.scratch.lines("prompts.jsonl", &rows);
    let sets = format!(
        "{} data.files={rows} reward.verifier=none run.steps=1 eval.every=0 rollout.responses=1",
        distill(TEACHER)
    );
    let out = bench.run("prompts", &sets, "");
    let line = &metrics(&out)[1];
    assert_eq!((number(line, "reward/mean"), number(line, "verdict/unparseable")), (0.0, 1.0));
    assert!(number(line, "grad/norm") > 0.0 && number(line, "kl/teacher") > 0.0, "{line}");
    let plan = stdout_of(bench.command("plan", &sets, "--dry-run"));
    let alone = stdout_of(bench.command("plan", "", "--dry-run"));
    let weights = |said: &str| said.split("weights ").nth(1).unwrap().to_owned();
    assert!(weights(&plan) != weights(&alone), "{plan}");
    let rewards = format!("{sets} objective.advantage=reinforce++");
    failure_last(bench.command("rewards", rewards, ""), &["reward.verifier is \"none\""]);
}

#[test]
fn a_policy_shown_more_is_its_own_teacher_and_the_run_goes_on() {
    let bench = Bench::train();
    let row = |i: usize| json!({"prompt": format!("{i} 2 3>6:"), "hint": format!("{i}+2;6;")});
    let rows = bench.scratch.lines("hints.jsonl", &(1..7).map(row).collect::<Vec<_>>());
    let shared = format!(
        "data.files={rows} data.columns.hint=hint reward.verifier=none eval.every=0 \
         objective.advantage=distill objective.entropy_bonus={{}} objective.covariance={{}} \
         rollout.filter=false optimizer.weight_decay=0.0"
    );
    let taught = |kind: &str, prompt: &str| {
        format!(
            "{shared} objective.distillation.self_teacher={kind} \
             objective.distillation.teacher_prompt=\"{prompt}\""
        )
    };
    let exact = "objective.distillation.divergence=reverse-kl update.prompts=4 update.epochs=1";
    let kinds = [("base", ""), ("live", ""), ("base", exact), ("live", exact)];
    let [base, live, exact_base, exact_live] = kinds.map(|(kind, exact)| {
        let sets = format!("{} {exact}", taught(kind, "{hint}{prompt}"));
        let kind = &format!("{kind}{}", exact.len());
        let whole = assert_resumes(&bench, kind, &sets, 1, 2);
        let due = "run.steps=2 checkpoint.every=1 optimizer.schedule=constant";
        let other = format!("{sets} {due} memory.micro_batch_tokens=11");
        let other = bench.run(&format!("{kind}-other"), other, "--threads 3");
        assert_same_results(&whole, &other);
        let lines = metrics(&whole);
        [1, 2].map(|step| number(&lines[step], "kl/teacher"))
    });
    assert!(base[0] == live[0] && base[0] > 0.0, "both have the weights that training starts from");
    assert!(base[1] != live[1], "{base:?}");
    assert!(exact_base[0] == exact_live[0] && exact_base[1] != exact_live[1]);
    // The reference is in memory, and the longest prompt of the teacher in the plan's passes.
    let plan = |kind: &str| {
        let said = stdout_of(bench.command("plan", taught(kind, "{prompt}{hint}"), "--dry-run"));
        said.split("weights ").nth(1).unwrap().split(',').next().unwrap().to_owned()
    };
    assert!(plan("base") != plan("live"));
    // Each row answers for its own characters, and an empty hint is none.
    let mut faulty: Vec<Value> = (1..7).map(row).collect();
    (faulty[0]["prompt"], faulty[0]["hint"]) = ("1 2 x3>6:".into(), "".into());
    faulty[2]["hint"] = "z".into();
    let faulty = bench.scratch.lines("faulty.jsonl", &faulty);
    let sets = format!("{} data.files={faulty}", taught("live", "{prompt}{hint}"));
    let (plan, said) = crate::program::spoken(bench.command("faulty", sets, "--dry-run"));
    let said = plan + &said;
    assert_parts(&said, &["the row has no hint (data.columns.hint)", "(U+007A)"]);
    assert!(!said.contains("(U+0078)"), "{said}");
    let prompt = "objective.distillation.teacher_prompt";
    let long = format!("{{prompt}}{{hint}}{}", "1".repeat(600));
    for (sets, parts) in [
        (
            format!("{} data.columns={{}}", taught("live", "{prompt}{hint}")),
            vec![prompt, "has {hint}, and data.columns.hint names no column"],
        ),
        (
            format!("{} data.columns.hint=nowhere", taught("live", "{prompt}{hint}")),
            vec!["the row has no hint (data.columns.hint), which", prompt],
        ),
        (
            format!("{} data.files=[] data.task=countdown", taught("live", "{prompt}{hint}")),
            vec![prompt, "data.task is set"],
        ),
        (
            taught("live", &long),
            vec![prompt, "tokens, behind which the teacher's context of", "max_tokens"],
        ),
    ] {
        failure_last(bench.command("refused", sets, ""), &parts);
    }
    // A dry run prints the first prompt as the policy is shown it, and as the teacher is.
    let sets = format!("{} data.shuffle=false", taught("live", "{hint}{prompt}"));
    let shown = stdout_of(bench.command("shown", sets, "--dry-run"));
    let [own, taught] = ["1 of the data ", "1 of the data, as the teacher is shown it "]
        .map(|heading| shown.split(&format!("{heading}──\n")).nth(1).unwrap().lines().next());
    assert_eq!((own, taught), (Some("1 2 3>6:"), Some("1+2;6;1 2 3>6:")));
}

/// The rows are checked before the run with the response that may come, which has 16 tokens.
#[test]
fn a_row_that_shows_more_than_the_teachers_context_is_left_out_by_name() {
    let bench = Bench::train();
    let teacher = bench.scratch.copy(TEACHER.as_ref(), "short");
    let config = fs::read_to_string(teacher.join("config.json")).unwrap();
    fs::write(teacher.join("config.json"), config.replace("512", "36")).unwrap();
    let row =
        |i: usize| json!({"prompt": format!("{i} 2 3>6:"), "hint": "1;".repeat(1 + i * i / 2)});
    let rows = bench.scratch.lines("hints.jsonl", &(1..5).map(row).collect::<Vec<_>>());
    let sets = format!(
        "{} data.files={rows} data.columns.hint=hint reward.verifier=none eval.every=0 \
         objective.distillation.teacher_prompt=\"{{prompt}}{{hint}}\" run.steps=1",
        distill(&text(&teacher))
    );
    let said = succeed(bench.command("run", &sets, ""));
    let parts = [
        "4 rows: 3 usable",
        "hints.jsonl line 4: objective.distillation.teacher_prompt comes to 26 tokens",
        "the teacher's context of 36 has no room for a response of 16",
    ];
    assert_parts(&said, &parts);
}

#[test]
fn a_teacher_that_cannot_score_the_students_tokens_is_refused() {
    let bench = Bench::train();
    let copy = |name: &str| bench.scratch.copy(TEACHER.as_ref(), name);
    let spelled = copy("spelled");
    let tokenizer = fs::read_to_string(spelled.join("tokenizer.json")).unwrap();
    let mut parsed: Value = serde_json::from_str(&tokenizer).unwrap();
    let vocabulary = parsed["model"]["vocab"].as_object_mut().unwrap();
    let (plus, times) = (vocabulary["+"].clone(), vocabulary["*"].clone());
    vocabulary.insert("+".into(), times);
    vocabulary.insert("*".into(), plus);
    fs::write(spelled.join("tokenizer.json"), parsed.to_string()).unwrap();
    // Only the tokens count, not the bytes of the file.
    let respelled = copy("respelled");
    fs::write(respelled.join("tokenizer.json"), format!("{tokenizer}\n")).unwrap();
    bench.run(
        "spelled-anew",
        format!("{} run.steps=1 eval.every=0", distill(&text(&respelled))),
        "",
    );
    let short = copy("short");
    let config = fs::read_to_string(short.join("config.json")).unwrap();
    fs::write(short.join("config.json"), config.replace("512", "20")).unwrap();
    let narrow = bench.scratch.copy(base().as_ref(), "narrow");
    let wide = bench.scratch.copy(base().as_ref(), "wide");
    write_llama(&wide, 24);
    let run = bench.run("run", "run.steps=1 eval.every=0", "");
    assert!(checkpoint(&run, 1).is_dir());
    let teacher = "objective.distillation.teacher";
    for (sets, parts) in [
        (distill(&text(&spelled)), vec![teacher, "token ", "\"*\"", "\"+\"", "there", "here"]),
        (distill(&text(&short)), vec![teacher, "whose context is 20 tokens"]),
        (
            format!("{} model.path={}", distill(&text(&narrow)), text(&wide)),
            vec![teacher, "whose embedding has 23 rows, and that of model.path 24"],
        ),
        (distill("no/such"), vec![teacher, "no/such"]),
        (distill(&text(&run)), vec![teacher, "checkpoints"]),
        (distill(TEACHER).replace("filter=false", "filter=true"), vec!["rollout.filter is true"]),
        (
            "objective.advantage=distill rollout.filter=false".into(),
            vec!["objective.advantage is \"distill\"", teacher],
        ),
    ] {
        failure_last(bench.command("refused", sets, ""), &parts);
    }
}
