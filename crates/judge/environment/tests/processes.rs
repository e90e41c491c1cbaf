//! Environments of the user's own, run by the Python of this machine.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

use std::fs;

use isentrope_data::{Problem, Prompt};
use isentrope_environment::{Environment, EnvironmentSettings, Episode, Reply};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

fn problem(answer: u64) -> Problem {
    Problem {
        prompt: Prompt::Text("Guess.".into()),
        ground_truth: json!(answer),
        data_source: "d".into(),
        extra_info: Value::Null,
        columns: Map::from_iter([("c".to_owned(), json!(1))]),
        hint: None,
        origin: "row 1".into(),
    }
}

/// Settings of an environment whose file has this code, and the file's directory.
fn settings(kind: &str, code: &str, others: Value) -> (EnvironmentSettings, TempDir) {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("own.py").display().to_string();
    fs::write(&file, code).unwrap();
    let mut settings = json!({"kind": kind, "workers": 1, "timeout_s": 2});
    settings[kind] = match kind {
        "python" => format!("{file}:Environment").into(),
        _ => json!(["python3", file]),
    };
    settings.as_object_mut().unwrap().extend(others.as_object().cloned().unwrap_or_default());
    (serde_json::from_value(settings).unwrap(), directory)
}

fn start(kind: &str, code: &str, others: Value) -> (Box<dyn Environment>, TempDir) {
    let (settings, directory) = settings(kind, code, others);
    (settings.build().unwrap(), directory)
}

fn content(reply: &Reply) -> &str {
    reply.messages[0]["content"].as_str().unwrap()
}

const GUESS: &str = r#"
class Environment:
    def reset(self, problem, seed):
        self.answer, self.seed, self.turns = problem["ground_truth"], seed, 0
        assert problem["prompt"] == "Guess." and problem["columns"] == {"c": 1}, problem

    def step(self, message):
        self.turns += 1
        if message == "crash":
            import os
            os._exit(3)
        if message == "sleep":
            import time
            time.sleep(60)
        if message == "error":
            raise ValueError("no\nsuch guess")
        if message == "rubbish":
            return {"messages": [{"role": "assistant", "content": ""}]}
        if message == "yes":
            return {"done": "yes", "reward": 1}
        if message == "nothing":
            return {}
        if message == "nan":
            return {"done": True, "reward": float("nan")}
        if message == "bytes":
            return {"messages": [{"role": "user", "content": b"low"}]}
        if message == "long":
            return {"messages": "x" * (2 << 20)}
        if message == "seed":
            return {"messages": str(self.seed), "reward": 0.25}
        guess = int(message)
        print("guessed", guess)
        if guess == self.answer:
            metrics = {"guesses": self.turns}
            return {"done": True, "reward": 1, "metrics": metrics, "messages": "Yes"}
        return {"messages": [{"role": "user", "content": "low" if guess < self.answer else "high"}]}
"#;

const COMMAND: &str = r#"
import json, os, sys, time
episodes = {}
for line in sys.stdin:
    question = json.loads(line)
    for closed in question.get("closed", []):
        del episodes[closed]
    number = question["id"]
    if "reset" in question:
        episodes[number] = [question["reset"]["ground_truth"], question["seed"], 0]
        answer = {"done": True} if question["reset"]["ground_truth"] == 99 else {}
    else:
        episode = episodes[number]
        episode[2] += 1
        message = question["step"]
        if message == "crash":
            sys.exit(3)
        if message == "sleep":
            time.sleep(60)
        if message == "bytes":
            sys.stdout.buffer.write(b'{"id": %d, "failed": "\xff"}\n' % number)
            sys.stdout.flush()
            continue
        if message == "lie":
            answer = {"id": number + 1}
        elif message == "yes":
            answer = {"done": "yes"}
        elif message == "id":
            answer = {"messages": f"{number} {os.getpid()}"}
        elif message == "open":
            answer = {"messages": [{"role": "tool", "content": str(len(episodes))}]}
        elif message == "seed":
            answer = {"messages": [{"role": "user", "content": str(episode[1])}], "reward": 0.25}
        elif int(message) == episode[0]:
            answer = {"done": True, "reward": 1, "metrics": {"guesses": episode[2]}}
        else:
            answer = {"messages": [{"role": "user", "content": "low"}]}
    line = json.dumps({"id": number, **answer}) + "\n"
    print(line * (2 if question.get("step") == "2" else 1), end="", flush=True)
"#;

#[test]
fn episodes_are_played_each_by_its_own_state() {
    for (kind, code) in [("python", GUESS), ("command", COMMAND)] {
        for workers in [1, 2] {
            let (environment, _directory) = start(kind, code, json!({"workers": workers}));
            assert_eq!(environment.workers(), workers);
            let begin = |answer| environment.begin(&problem(answer), answer << 11).unwrap();
            let mut episodes: Vec<Box<dyn Episode>> = (5..9).map(begin).collect();
            for (answer, episode) in (5..9).zip(&mut episodes) {
                let reply = episode.step("seed").unwrap();
                assert_eq!((content(&reply), reply.reward), (&*answer.to_string(), Some(0.25)));
            }
            for (answer, episode) in (5..9).zip(&mut episodes) {
                let reply = episode.step("1").unwrap();
                assert_eq!((content(&reply), reply.done), ("low", false), "{kind}");
                let reply = episode.step(&answer.to_string()).unwrap();
                assert_eq!((reply.done, reply.reward, reply.messages), (true, Some(1.25), vec![]));
                assert_eq!(reply.metrics["guesses"], 3.0);
            }
        }
    }
}

#[test]
fn failures_are_a_sentence_each_and_harm_no_other_episode() {
    let of_class = [
        ("crash", "its process ended (exit status: 3)"),
        ("sleep", "its process gave no answer within 2 s"),
        ("error", "ValueError: no such guess (own.py, line 16)"),
        ("rubbish", "it must be an object with the role user or tool"),
        ("yes", "its \"done\" is \"yes\": it must be true or false"),
        ("nothing", "it gave no messages and did not end the episode"),
        ("long", "bytes of JSON, and 1048576 are allowed"),
        ("nan", "ValueError: Out of range float values are not JSON compliant"),
        ("bytes", "TypeError: Object of type bytes is not JSON serializable"),
        ("x", "ValueError: invalid literal for int()"),
    ];
    let of_command = [
        ("crash", "its process ended (exit status: 3)"),
        ("sleep", "its process gave no answer within 2 s"),
        ("bytes", "which is no answer: invalid unicode code point"),
        ("lie", "answered question"),
        ("yes", "its \"done\" is \"yes\": it must be true or false"),
    ];
    for (kind, code, failures) in
        [("python", GUESS, &of_class[..]), ("command", COMMAND, &of_command)]
    {
        let (environment, _directory) = start(kind, code, json!({}));
        let mut other = environment.begin(&problem(7), 0).unwrap();
        other.step("1").unwrap();
        for (turn, sentence) in failures {
            let mut episode = environment.begin(&problem(7), 0).unwrap();
            let fault = episode.step(turn).unwrap_err().0;
            assert!(fault.contains(sentence) && !fault.contains('\n'), "{kind} {turn}: {fault}");
            other.step("3").unwrap();
        }
        let reply = other.step("7").unwrap();
        let turns = 2 + failures.len();
        assert_eq!(reply.metrics["guesses"], turns as f64, "it was played again up to there");
    }
}

#[test]
fn a_wrong_value_costs_its_episode_and_not_its_process() {
    let (environment, _directory) = start("command", COMMAND, json!({}));
    let process = |seed: u64| {
        let mut episode = environment.begin(&problem(7), seed << 11).unwrap();
        let reply = episode.step("id").unwrap();
        assert_eq!(reply.messages[0]["role"], "user", "a text is the user's message");
        let (id, process) = content(&reply).split_once(' ').unwrap();
        assert_eq!(id, seed.to_string(), "the number follows from the seed");
        process.to_owned()
    };
    let first = process(5);
    environment.begin(&problem(7), 0).unwrap().step("yes").unwrap_err();
    assert_eq!(process(1), first);
    let early = environment.begin(&problem(99), 0).unwrap().step("1").unwrap_err().0;
    assert!(early.contains("it answered reset with more than messages"), "{early}");
    environment.begin(&problem(7), 0).unwrap().step("crash").unwrap_err();
    assert_ne!(process(5), first);
}

#[test]
fn a_second_answer_to_a_turn_is_not_taken_for_that_to_the_next() {
    let (environment, _directory) = start("command", COMMAND, json!({}));
    let mut episode = environment.begin(&problem(7), 0).unwrap();
    episode.step("2").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300)); // until the second line is read
    let fault = episode.step("7").unwrap_err().0;
    assert!(fault.contains("it had not been asked"), "{fault}");
}

#[test]
fn last_words_are_of_the_turn_at_which_a_process_ends() {
    let code = r#"
import sys, os
class Environment:
    def reset(self, problem, seed): pass
    def step(self, message):
        if message == "loud":
            print("an earlier word", file=sys.stderr, flush=True)
        if message == "end":
            print("the last word", file=sys.stderr, flush=True)
        if message in ("end", "silent"):
            os._exit(3)
        return {"messages": "on"}
"#;
    let (environment, _directory) = start("python", code, json!({}));
    let mut loud = environment.begin(&problem(7), 0).unwrap();
    loud.step("loud").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(200)); // until the word is read
    let fault = |turn| environment.begin(&problem(7), 0).unwrap().step(turn).unwrap_err().0;
    assert_eq!(fault("silent"), "its process ended (exit status: 3)");
    assert_eq!(fault("end"), "its process ended (exit status: 3): the last word");
}

#[test]
fn processes_learn_which_episodes_are_over() {
    let (environment, _directory) = start("command", COMMAND, json!({}));
    for _ in 0..3 {
        let mut episode = environment.begin(&problem(7), 0).unwrap();
        assert_eq!(content(&episode.step("open").unwrap()), "1");
    }
}

#[test]
fn what_cannot_be_used_is_refused_before_the_run() {
    for (kind, code, others, part) in [
        ("python", "class Other: pass", json!({}), "has no class Environment; it has Other"),
        ("python", "class Environment: pass", json!({}), "has no method reset"),
        ("python", "import nothing_there", json!({}), "No module named 'nothing_there'"),
        ("python", "", json!({"interpreter": "/no/python"}), "cannot be started"),
        ("python", GUESS, json!({"python": "/no/such.py:A"}), "there is no file /no/such.py in"),
        ("command", "", json!({"command": ["false"]}), "a process ended before it was asked"),
        ("command", "", json!({"command": ["/no/such"]}), "the command cannot be started"),
    ] {
        let (settings, _directory) = settings(kind, code, others);
        let error = settings.build().err().unwrap().to_string();
        assert!(error.starts_with(&format!("environment.{kind} = ")), "{error}");
        assert!(error.contains(part), "{error}");
    }
    let returns = "class Environment:\n  def reset(self, problem, seed): return 'hi'\n  \
                   def step(self, m): pass";
    let (environment, _directory) = start("python", returns, json!({}));
    let fault = environment.begin(&problem(1), 0).unwrap().step("1").unwrap_err().0;
    assert!(fault.contains("environment.opens is not true"), "{fault}");
}

#[test]
fn reset_opens_an_episode_once_whatever_becomes_of_its_process() {
    let class = r#"
class Environment:
    async def reset(self, problem, seed):
        if problem["ground_truth"] == 1:
            raise ValueError("no such game")
        self.text = f"{problem['prompt']} {seed}"
        return {5: self.text, 6: None}.get(seed, ({"role": "system", "content": self.text},))

    def step(self, message):
        if message == "crash":
            import os
            os._exit(3)
        return {"messages": self.text}
"#;
    let command = r#"
import json, os, sys
texts = {}
for line in sys.stdin:
    question = json.loads(line)
    number = question["id"]
    answer = {}
    if question.get("reset"):
        if question["reset"]["ground_truth"] == 1:
            answer = {"failed": "no such game"}
        else:
            text = texts[number] = question["reset"]["prompt"] + " " + str(question["seed"])
            messages = {5: text, 6: None}
            answer = {"messages": messages.get(number, [{"role": "system", "content": text}])}
    elif question["step"] == "crash":
        os._exit(3)
    else:
        answer = {"messages": texts[number]}
    print(json.dumps({"id": number, **answer}), flush=True)
"#;
    for (kind, code) in [("python", class), ("command", command)] {
        let (environment, _directory) = start(kind, code, json!({"opens": true}));
        assert!(environment.opens());
        let open = |seed: u64| {
            let mut episode = environment.begin(&problem(7), seed << 11).unwrap();
            let messages = Value::from(episode.open().unwrap());
            (messages, episode)
        };
        let (messages, mut first) = open(5);
        assert_eq!(messages, json!([{"role": "user", "content": "Guess. 5"}]));
        let nothing = environment.begin(&problem(7), 6 << 11).unwrap().open().unwrap_err().0;
        assert!(nothing.contains("answered reset without messages"), "{nothing}");
        let (messages, mut other) = open(7);
        assert_eq!(messages, json!([{"role": "system", "content": "Guess. 7"}]));
        other.step("crash").unwrap_err();
        assert_eq!(content(&first.step("1").unwrap()), "Guess. 5", "it is played again");
        let fault = environment.begin(&problem(1), 0).unwrap().open().unwrap_err().0;
        assert!(fault.contains("no such game"), "{fault}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_class_may_be_in_a_sandbox() {
    let code = r#"
import socket
def opened(): return open("/etc/passwd")
def connected(): return socket.create_connection(("127.0.0.1", 9), 1)
class Environment:
    def reset(self, problem, seed): pass
    async def step(self, message):
        found = []
        for attempt in (opened, connected):
            try:
                attempt()
                found.append("open")
            except OSError:
                found.append("closed")
        return {"messages": " ".join(found)}
"#;
    let (environment, _directory) =
        start("python", code, json!({"sandbox": true, "timeout_s": 10}));
    let note = environment.notes().remove(0);
    assert!(note.contains("answers the model's turns; it is in a sandbox ("), "{note}");
    let mut episode = environment.begin(&problem(1), 0).unwrap();
    assert_eq!(content(&episode.step("x").unwrap()), "closed closed");
}
