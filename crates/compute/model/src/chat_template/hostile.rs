//! Hostile templates. None ends the program, each ends in time, and most end in an error.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::tests::compile;
use crate::{Error, Result};

/// Words of the error of a template that needs more memory.
const MEMORY: &str = "MiB of memory";
const DEPTH: &str = "nests too deeply";
/// A template that may end in a text or an error.
const EITHER: &str = "either";

fn render(source: &str) -> Result<String> {
    let messages = [json!({"role": "user", "content": "Why is the sky blue?"})];
    compile(source)?.render(&messages, true, &Map::new())
}

/// A template that applies `step` to `ns.x` this many times.
fn grown(start: &str, step: &str, times: usize, end: &str) -> String {
    format!(
        "{{% set ns = namespace(x={start}) %}}{{% for i in range({times}) %}}\
         {{% set ns.x = {step} %}}{{% endfor %}}{end}"
    )
}

/// Checks templates, each with words of its error.
fn check(cases: &[(String, &str)]) {
    let mut wrong = String::new();
    for (source, expected) in cases {
        let start = Instant::now();
        let result = render(source).map_err(|error| error.to_string());
        let in_time = start.elapsed() < Duration::from_secs(300);
        let as_expected = match &result {
            Ok(text) => *expected == EITHER && text.len() <= 64 << 20,
            Err(error) => (*expected == EITHER || error.contains(expected)) && error.len() < 500,
        };
        if !in_time || !as_expected {
            let result = result.map(|text| text.len());
            wrong += &format!("{source:.100}, after {:?}: {result:.200?}\n", start.elapsed());
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!(render("{{ messages[0].content }}").unwrap(), "Why is the sky blue?");
}

#[test]
fn each_limit_has_its_error() {
    let nested = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
    check(&[
        (nested.into(), "too many steps"),
        (
            "{% for a in range(9999) %}{{ 'x' * 99999 }}{% endfor %}".into(),
            "more than 67108864 bytes",
        ),
        (grown("'x'", "ns.x + ns.x", 60, ""), MEMORY),
        ("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}".into(), DEPTH),
        ("{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}".into(), ""),
        (format!("{{{{ {}1{} }}}}", "(".repeat(5000), ")".repeat(5000)), ""),
        ("{{ 1 | tojson(indent=99999999999) }}".into(), EITHER),
    ]);
}

#[test]
#[ignore = "deep: dozens of templates, each run to its limit"]
fn values_that_grow() {
    let doubled = |step: &str| grown("'x'", step, 60, "");
    check(&[
        (grown("'x' * 9999", "range(9999) | join(ns.x)", 3, ""), MEMORY),
        (grown("'xx'", "ns.x.replace('x', ns.x)", 60, ""), MEMORY),
        (doubled("'%s%s%s' | format(ns.x, ns.x, ns.x)"), MEMORY),
        ("{{ '%99999999d%99999999d%99999999d%99999999d' | format(1, 2, 3, 4) }}".into(), EITHER),
        ("{{ ('x\n' * 99999) | indent(99999999) }}".into(), MEMORY),
        (doubled("('&' ~ ns.x ~ ns.x) | escape | string"), ""),
        ("{{ raise_exception('x' * 999999999) }}".into(), ""),
        (grown("'x'", "ns.x ~ ns.x", 22, "{{ ns.x | int }}"), ""),
        (grown("[1]", "(ns.x + ns.x) | list", 60, ""), MEMORY),
        ("{{ ('a' * 99999999) | list }}".into(), MEMORY),
    ]);
}

#[test]
#[ignore = "deep: dozens of templates, each run to its limit"]
fn values_and_sources_that_nest() {
    let pair = |end: &str| {
        format!("{{% set a = namespace() %}}{{% set b = namespace(x=a) %}}{{% set a.x = b %}}{end}")
    };
    let deep = |end: &str| grown("1", "[ns.x]", 90_000, end);
    let kept = "{% set ns = namespace(y='x' * 299999999) %}{% set ns.x = ns %}{{ 'kept' }}";
    let around = |open: &str, close: &str, times| {
        format!("{{{{ {}1{} }}}}", open.repeat(times), close.repeat(times))
    };
    check(&[
        (pair("{{ a | tojson }}"), ""),
        (pair("{{ {a: 1} }}"), DEPTH),
        (kept.into(), EITHER),
        (deep("{{ ns.x | tojson }}"), DEPTH),
        (format!("{{{{ 1{} }}}}", " + 1".repeat(200_000)), EITHER),
        (format!("{{{{ messages{} }}}}", ".a".repeat(300_000)), ""),
        (around("not ", "", 200_000), EITHER),
        (around("[", "]", 400_000), ""),
        ("{% raw %}".repeat(110_000), ""),
    ]);
}

#[test]
#[ignore = "deep: dozens of templates, each run to its limit"]
fn work_without_end() {
    let sorting = "{% set l = range(99999) | list %}{% for a in l %}{% for b in l %}\
                   {% set x = l | sort(reverse=true) %}{% endfor %}{% endfor %}";
    let searching = "{% set s = 'a' * 99999999 %}{% for a in range(99999) %}\
                     {% set x = 'b' in s %}{% endfor %}";
    check(&[
        (sorting.into(), "4 s"),
        (searching.into(), "4 s"),
        ("{% for a in [[1]] recursive %}{{ loop([a]) }}{% endfor %}".into(), ""),
        ("{% include 'default' %}".into(), ""),
        ("{{ 9 ** 9 ** 9 ** 9 }}".into(), ""),
        (format!("{{{{ {} }}}}", "9".repeat(900_000)), EITHER),
    ]);
}

/// One hostile conversation does not spoil the template for others, and a hostile template does not
/// cost its time for each row.
#[test]
fn a_template_that_exceeds_a_limit_again_and_again_is_rendered_no_more() {
    let source = "{% for a in range(messages[0].n) %}{% for b in range(99999) %}{% endfor %}\
                  {% endfor %}done";
    let template = compile(source).unwrap();
    let render = |n: u32| template.render(&[json!({ "n": n })], false, &Map::new());
    for _ in 0..super::MAX_EXCEEDED {
        assert_eq!(render(1).unwrap(), "done");
        let error = render(99_999).unwrap_err().to_string();
        assert!(error.ends_with("the template takes too many steps"), "{error}");
    }
    let start = Instant::now();
    for _ in 0..1000 {
        let error = render(1).unwrap_err().to_string();
        assert!(error.ends_with("3 times, and is rendered no more"), "{error}");
    }
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[test]
fn conversations_that_nest_or_are_long() {
    let template = compile("{{ messages | tojson | length }}").unwrap();
    let nested = (0..500).fold(Value::from(1), |inner, _| Value::Array(vec![inner]));
    let error = template.render(&[json!({"content": nested})], false, &Map::new()).unwrap_err();
    assert!(matches!(error, Error::Invalid { .. }) && error.to_string().contains(DEPTH), "{error}");
    let long = "é\n".repeat(1 << 20);
    let length = template.render(&[json!({"content": long})], false, &Map::new()).unwrap();
    assert!(length.parse::<usize>().unwrap() > 2 << 20);
}
