use super::*;

fn cases(name: &str) -> Vec<[String; 2]> {
    let cases: toml::Table = toml::from_str(include_str!("cases.toml")).unwrap();
    cases[name].clone().try_into().unwrap()
}

#[test]
fn words_are_what_a_shell_makes_of_them() {
    for [script, expected] in cases("words") {
        let (commands, _) = shell::commands(&script).unwrap();
        let shown = |word: &Word| match word.unread.first() {
            Some((_, reason)) => format!("{} ({reason})", word.text),
            None => word.text.clone(),
        };
        let words: Vec<String> = commands.last().unwrap().words.iter().map(shown).collect();
        assert_eq!(words.join("|"), expected, "{script}");
    }
}

/// The settings of a script, then the remarks.
fn shown(script: &str, name: &str) -> String {
    let Script { trainer, settings, remarks, .. } = read(script, Path::new(name)).unwrap();
    let setting = |Setting { name, value, unread }: &Setting| match (value, unread) {
        (_, Some(reason)) => format!("{name}: {reason}"),
        (Some(value), _) => format!("{name} = {value}"),
        (None, None) => format!("{name} = none"),
    };
    let settings = settings.iter().map(setting);
    let parts = [format!("{trainer:?}")].into_iter().chain(settings).chain(remarks);
    parts.collect::<Vec<_>>().join("|")
}

#[test]
fn commands_have_settings() {
    for [script, expected] in cases("commands") {
        assert_eq!(shown(&script, "run.sh"), expected, "{script}");
    }
    for script in ["ls", "conda activate grpo\ncd main_repo", "cat grpo.py"] {
        let error = read(script, Path::new("run.sh")).unwrap_err().to_string();
        assert!(error.contains("run.sh: has no command with settings"), "{error}");
    }
}

#[test]
fn home_is_read_of_the_environment() {
    let Ok(home) = std::env::var("HOME") else { return };
    assert_eq!(shown("trl sft --a $HOME/x", "run.sh"), format!("TrlSft|a = \"{home}/x\""));
    assert_eq!(shown("HOME=/h\ntrl sft --a $HOME/x", "run.sh"), "TrlSft|a = \"/h/x\"");
}

#[test]
fn python_is_read_as_far_as_it_is_literal() {
    for [script, expected] in cases("python") {
        let expected = expected.replace(": C", ": its value is computed by the script");
        assert_eq!(shown(&script, "dir/a.py"), expected, "{script}");
    }
    for (script, part) in [
        ("x = (1,\n", "a.py:1: a text or a bracket does not end"),
        ("\nx = '''", "a.py:2: a text"),
        ("print(1)", "a.py: has no GRPOConfig(...)"),
        ("\nt = GRPOTrainer(model='m', args=parse())", "a.py:2: has no GRPOConfig(...)"),
    ] {
        let error = read(script, Path::new("a.py")).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn hostile_scripts_end_soon() {
    let deep = |open: &str, close: &str| format!("x = {}{}", open.repeat(40), close.repeat(40));
    for script in [deep("(", ")"), deep("f(", ")"), deep("[", "]"), deep("(", "").repeat(1000)] {
        let error = read(&script, Path::new("a.py")).unwrap_err().to_string();
        assert!(error.contains("nests too deeply"), "{error}");
    }
    let growing = "a = f(a)\n".repeat(9000) + "b = [b, b]\n" + &"b = [b, b]\n".repeat(99);
    let growing = growing + &"a = a.m(1)\n".repeat(9000) + "SFTConfig()";
    assert_eq!(shown(&growing, "a.py"), "TrlSft");
    // Values that grow where they are used.
    let text = "x".repeat(60_000);
    let copies = "A=(\"${A[@]}\" \"${A[@]}\")\n".repeat(50);
    let listed = format!("T = '{text}'\nL = [{}]\nSFTConfig(a=L)", "T,".repeat(60_000));
    let many: String = (0..9000).map(|i| format!("a{i}=T,")).collect();
    for (script, name) in [
        (format!("A=xx\n{}trl sft --a $A", "A=\"$A$A\"\n".repeat(100)), "run.sh"),
        (format!("A=({text})\n{copies}trl sft --a \"${{A[@]}}\""), "run.sh"),
        (format!("A=(x)\n{copies}trl sft --a \"${{A[@]}}\""), "run.sh"),
        (format!("A={text}\ntrl sft --a {}", "$((A))".repeat(20_000)), "run.sh"),
        (listed, "a.py"),
        (format!("T = '{text}'\nSFTConfig({many})"), "a.py"),
        (format!("T = {{'{text}': 1}}\nSFTConfig({many})"), "a.py"),
    ] {
        let error = read(&script, Path::new(name)).unwrap_err().to_string();
        assert!(error.ends_with("so often that they take more than 1 MiB"), "{error}");
    }
    let sum = format!("trl sft --a $(({}1", "(".repeat(100_000));
    assert!(shown(&sum, "run.sh").contains("is not known"));
    let nested = format!("trl sft --a {}x{}", "${a:-".repeat(50_000), "}".repeat(50_000));
    assert!(shown(&nested, "run.sh").contains("nest too deeply"));
}
