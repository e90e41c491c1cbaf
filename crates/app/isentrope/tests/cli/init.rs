//! `isentrope init`: a recipe that trains, from a model, data and a reward.

use crate::program::{Scratch, assert_parts, failure, isentrope, names, spoken};
use crate::training::{base, checkpoint, metrics, problems, succeed};
use serde_json::json;
use std::fs;
use std::path::Path;

#[test]
fn a_recipe_is_written_shown_and_trains() {
    let scratch = Scratch::new();
    let data = scratch.lines("mine.jsonl", &problems());
    let out = scratch.path("my recipe.toml");
    let line = format!("init --model {} --data {data} --out '{out}'", base());
    let (printed, said) = spoken(isentrope(&line));
    let next = format!("then `isentrope train '{out}'`; what it needs:");
    assert_parts(&said, &["my recipe.toml is written", &next]);
    assert_parts(&printed, &["# memory: weights ", "# time: about ", "1 of the data"]);
    let recipe = fs::read_to_string(&out).unwrap();
    assert_parts(&recipe, &["steps = 100", "mine.jsonl", "verifier = \"auto\""]);
    assert!(recipe.lines().count() <= 30, "{recipe}");
    // It is never overwritten.
    let said = failure(isentrope(&line));
    assert_parts(&said, &["recipe.toml: exists already", "--out"]);
    assert_eq!(fs::read_to_string(&out).unwrap(), recipe);
    let (run, small) = (scratch.path("run"), "rollout.max_tokens=16");
    let sets = format!("--set run.steps=1 --set {small} --set run.out={run}");
    succeed(isentrope(format!("train '{out}' {sets}")).env("ISENTROPE_THREADS", "1"));
    assert_eq!(metrics(Path::new(&run)).last().unwrap()["step"], 1);
    // The checkpoint is as large as planned, but for its small files and headers.
    let planned = printed.split("# checkpoints: ").nth(1).unwrap().split(" KiB each").next();
    let planned: f64 = planned.unwrap().parse().unwrap();
    let size = |file: &Path| fs::metadata(file).unwrap().len() as f64 / 1024.0;
    let saved = checkpoint(Path::new(&run), 1);
    let moments = saved.join("trainer/moments");
    let moments = names(&moments).into_iter().map(|name| size(&moments.join(name))).sum::<f64>();
    let saved = moments + size(&saved.join("model.safetensors"));
    assert!((0.9..=1.0).contains(&(planned / saved)), "{planned} KiB, and {saved} KiB");
}

#[test]
fn rewards_are_files_functions_or_names() {
    let scratch = Scratch::new();
    let row = json!({"problem": "1 2 3>6:", "answer": "6"});
    let data = scratch.lines("mine.jsonl", &[row]);
    let file =
        scratch.file("reward.py", "def one(x):\n    return 1\n\ndef two(x):\n    return 2\n");
    let init = |reward: &str| {
        let out = scratch.path("recipe.toml");
        let line = format!("init --model {} --data {data} --reward {reward} --out {out}", base());
        isentrope(line)
    };
    for (reward, parts) in [
        (file.clone(), ["reward.py: has several functions, one, two", "FILE.py:NAME"]),
        ("absent.py".into(), ["--reward absent.py: ", "No such file"]),
        ("maths".into(), ["--reward: it must be one of", "did you mean \"math\""]),
    ] {
        assert_parts(&failure(init(&reward)), &parts);
        assert!(!Path::new(&scratch.path("recipe.toml")).exists(), "{reward}");
    }
    spoken(init("math"));
    let recipe = fs::read_to_string(scratch.path("recipe.toml")).unwrap();
    assert_parts(&recipe, &["verifier = \"math\""]);
    fs::remove_file(scratch.path("recipe.toml")).unwrap();
    let _ = init(&format!("{file}:two")).output().unwrap(); // its dry run needs Python
    let recipe = fs::read_to_string(scratch.path("recipe.toml")).unwrap();
    assert_parts(&recipe, &["verifier = { python = ", "reward.py:two\" }"]);
}

#[test]
fn a_script_for_trl_becomes_a_recipe_that_trains() {
    let scratch = Scratch::new();
    let row =
        |n: i32| json!({"problem": format!("1 2 {n}>{}:", n + 3), "answer": (n + 3).to_string()});
    let data = scratch.lines("mine.jsonl", &(1..9).map(row).collect::<Vec<_>>());
    let script = format!(
        "from trl.rewards import accuracy_reward\n\
         args = GRPOConfig(per_device_train_batch_size=4, num_generations=2, max_completion_length=8,\n    \
         num_train_epochs=1, bf16=False)\n\
         GRPOTrainer({:?}, args=args, reward_funcs=accuracy_reward,\n    \
         train_dataset=load_dataset('json', data_files={data:?})['train']).train()\n",
        base()
    );
    let (script, out) = (scratch.file("grpo.py", script), scratch.path("recipe.toml"));
    let (printed, said) = spoken(isentrope(format!("init --from {script} --out {out}")));
    assert_parts(&said, &["recipe.toml is written", "isentrope train "]);
    assert_parts(&printed, &["# memory: weights ", "1 of the data"]);
    let recipe = fs::read_to_string(&out).unwrap();
    assert_parts(
        &recipe,
        &["steps = 4  # 1 passes over 8 rows, 2 a step", "prompts = 2  # 4 responses / 2"],
    );
    let run = scratch.path("run");
    let sets = format!("--set run.steps=1 --set run.out={run}");
    succeed(isentrope(format!("train {out} {sets}")).env("ISENTROPE_THREADS", "1"));
    assert_eq!(metrics(Path::new(&run)).last().unwrap()["step"], 1);
    // A command line from standard input, with flags that win; and one without data.
    let line = scratch.file("line", "trl sft --model_name_or_path m --max_length 64");
    let flags = format!("--model {} --data {data} --out {}", base(), scratch.path("sft.toml"));
    let input = || fs::File::open(&line).unwrap();
    let (_, said) = spoken(isentrope(format!("init --from - {flags}")).stdin(input()));
    assert_parts(&said, &["isentrope sft "]);
    let said = failure(isentrope("init --from - --out x.toml").stdin(input()));
    assert_parts(&said, &["standard input: data.files cannot be read from it; give --data"]);
}
