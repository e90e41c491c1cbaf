//! Hostile templates. None ends the program, each ends in time, and most end in an error.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::tests::compile;
use crate::{Error, Result};

/// Expected end of a template.
#[derive(Clone, Copy, Debug)]
enum Expect {
    /// An error with these words.
    Error(&'static str),
    /// A text or an error.
    End,
}

use Expect::{End, Error as Fails};

const MEMORY: Expect = Fails("MiB of memory");
const DEPTH: Expect = Fails("nests too deeply");

fn render(source: &str) -> Result<String> {
    let messages = [json!({"role": "user", "content": "Why is the sky blue?"})];
    compile(source)?.render(&messages, true, &Map::new())
}

/// A template that applies `step` to `ns.x` this many times.
fn grown(start: &str, step: &str, times: usize, end: &str) -> String {
    format!(
        "{{% set ns = namespace(x={start}) %}}{{% for i in range({times}) %}}{{% set ns.x = {step} %}}\
         {{% endfor %}}{end}"
    )
}

fn check(cases: &[(&str, String, Expect)]) {
    let mut wrong = String::new();
    for (name, source, expect) in cases {
        let start = Instant::now();
        let result = render(source).map_err(|error| error.to_string());
        let in_time = start.elapsed() < Duration::from_secs(300);
        let expected = match (expect, &result) {
            (Fails(words), Err(error)) => error.contains(words) && error.len() < 500,
            (Fails(_), Ok(_)) => false,
            (End, Ok(text)) => text.len() <= 64 << 20,
            (End, Err(error)) => error.len() < 500,
        };
        if !in_time || !expected {
            let result = result.map(|text| text.len());
            wrong += &format!("{name}, after {:?}: {result:.200?}\n", start.elapsed());
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!(render("{{ messages[0].content }}").unwrap(), "Why is the sky blue?");
}

#[test]
#[ignore = "deep: dozens of templates, each run to its limit"]
fn strings_that_grow() {
    let doubled = |step: &str| grown("'x'", step, 60, "");
    check(&[
        ("addition", doubled("ns.x + ns.x"), MEMORY),
        ("concatenation", doubled("ns.x ~ ns.x"), MEMORY),
        ("repetition", doubled("ns.x * 4"), Fails("")),
        ("repetition at once", "{{ ('x' * 99999) * 99999 }}".into(), Fails("")),
        ("join", doubled("[ns.x, ns.x] | join"), MEMORY),
        ("join with a long separator", grown("'x' * 9999", "range(9999) | join(ns.x)", 3, ""), MEMORY),
        ("the method join", doubled("ns.x.join([ns.x, ns.x, ns.x])"), MEMORY),
        ("replace", grown("'xx'", "ns.x | replace('x', ns.x)", 60, ""), MEMORY),
        ("replace of nothing", grown("'xx'", "ns.x | replace('', ns.x)", 60, ""), MEMORY),
        ("the method replace", grown("'xx'", "ns.x.replace('x', ns.x)", 60, ""), MEMORY),
        ("format", doubled("'%s%s%s' | format(ns.x, ns.x, ns.x)"), MEMORY),
        ("format with a width", "{{ '%999999999999d' | format(1) }}".into(), Fails("")),
        ("format with widths", "{{ '%99999999d%99999999d%99999999d%99999999d' | format(1, 2, 3, 4) }}".into(), End),
        ("the method format", doubled("'{0}{0}{0}'.format(ns.x)"), MEMORY),
        ("the method format, wide", "{{ '{:>999999999999}'.format('x') }}".into(), End),
        ("indent", "{{ ('x\n' * 99999) | indent(99999999) }}".into(), MEMORY),
        ("indent of a grown text", grown("'x\n'", "(ns.x * 99) | indent(9999)", 9, ""), MEMORY),
        ("ljust with a long filler", grown("'x' * 9999", "'x'.ljust(65536, ns.x)", 3, ""), End),
        ("tojson with an indent", grown("[1]", "[ns.x]", 150, "{{ ns.x | tojson(indent='x' * 9999999) }}"), MEMORY),
        (
            "tojson with separators",
            "{{ range(9999) | list | tojson(separators=('x' * 99999, ':')) }}".into(),
            MEMORY,
        ),
        ("escape", doubled("('&' ~ ns.x ~ ns.x) | escape | string"), Fails("")),
        ("upper", doubled("(ns.x ~ ns.x) | upper"), Fails("")),
        ("a macro", format!("{{% macro m(x) %}}{{{{ x }}}}{{{{ x }}}}{{% endmacro %}}{}", doubled("m(ns.x)")), MEMORY),
        ("a set block", "{% set ns = namespace(x='x') %}{% for i in range(60) %}{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}\
            {% set ns.x = y %}{% endfor %}".into(), Fails("")),
        ("a filter block", "{% filter replace('x', 'x' * 99999) %}{{ 'x' * 99999 }}{% endfilter %}".into(), MEMORY),
        ("output", "{% for a in range(9999) %}{{ 'x' * 99999 }}{% endfor %}".into(), Fails("more than 67108864 bytes")),
        ("an error that quotes a long text", "{{ raise_exception('x' * 999999999) }}".into(), Fails("")),
        ("an error about a long text", grown("'x'", "ns.x ~ ns.x", 22, "{{ ns.x | int }}"), Fails("")),
        ("strftime_now", "{{ strftime_now('%Y' * 9999999) }}".into(), Fails("")),
    ]);
}

#[test]
#[ignore = "deep: dozens of templates, each run to its limit"]
fn lists_and_maps_that_grow() {
    let doubled = |step: &str| grown("[1]", step, 60, "");
    check(&[
        ("addition", doubled("(ns.x + ns.x) | list"), MEMORY),
        ("repetition", doubled("(ns.x * 4) | list"), MEMORY),
        ("a list of lists", grown("[1]", "[ns.x, ns.x]", 60, "{{ ns.x }}"), Fails("")),
        ("batch", "{{ [1] | batch(99999999999, 0) | list }}".into(), Fails("")),
        ("slice", "{{ [1] | slice(99999999999) | list }}".into(), Fails("")),
        ("range", "{{ range(99999999999) | list }}".into(), Fails("")),
        ("ranges", "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = ns.x + [range(99999) | list] %}\
            {% endfor %}".into(), MEMORY),
        ("split", "{{ ('a ' * 40000000).split() }}".into(), Fails("")),
        ("list of a text", "{{ ('a' * 99999999) | list }}".into(), MEMORY),
        ("lines", "{{ ('a\n' * 9999999) | lines | list }}".into(), End),
        ("map", grown("['x' * 99999]", "((ns.x + ns.x) | map('upper') | list)", 30, ""), MEMORY),
        ("groupby", "{{ range(99999) | list | groupby('x') }}".into(), End),
        ("zip", "{{ range(99999) | zip(range(99999)) | list | string | length }}".into(), End),
        ("dictsort", grown("{}", "dict(a=ns.x, b=ns.x)", 60, "{{ ns.x | dictsort }}"), Fails("")),
    ]);
}

#[test]
#[ignore = "deep: dozens of templates, each run to its limit"]
fn values_that_nest_and_hold_themselves() {
    let itself = |end: &str| format!("{{% set ns = namespace() %}}{{% set ns.x = ns %}}{end}");
    let pair = |end: &str| {
        format!("{{% set a = namespace() %}}{{% set b = namespace(x=a) %}}{{% set a.x = b %}}{end}")
    };
    let deep = |end: &str| grown("1", "[ns.x]", 90_000, end);
    check(&[
        ("printed", itself("{{ ns }}"), DEPTH),
        ("as a string", itself("{{ ns | string }}"), DEPTH),
        ("as JSON", itself("{{ ns | tojson }}"), Fails("")),
        ("compared", pair("{{ a == b }}"), End),
        ("ordered", pair("{{ [a, b] | sort }}"), DEPTH),
        ("hashed", pair("{{ {a: 1} }}"), DEPTH),
        ("searched", pair("{{ a in [b] }}"), End),
        ("unique", pair("{{ [a, b] | unique | list }}"), DEPTH),
        ("added", itself("{{ ns ~ ns }}"), DEPTH),
        ("in a list", "{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns.x }}".into(), DEPTH),
        (
            "kept",
            "{% set ns = namespace(y='x' * 299999999) %}{% set ns.x = ns %}{{ 'kept' }}".into(),
            End,
        ),
        (
            "kept again",
            "{% set ns = namespace(y='x' * 299999999) %}{% set ns.x = ns %}{{ 'kept' }}".into(),
            End,
        ),
        ("deep, dropped", deep(""), End),
        ("deep, printed", deep("{{ ns.x }}"), End),
        ("deep, as JSON", deep("{{ ns.x | tojson }}"), Fails("too deeply")),
        ("deep, compared", deep("{{ ns.x == [ns.x] }}"), End),
        ("deep maps, dropped", grown("1", "{'a': ns.x}", 90_000, ""), End),
    ]);
}

#[test]
#[ignore = "deep: dozens of templates, each run to its limit"]
fn sources_that_nest() {
    let repeated = |text: &str, times| text.repeat(times);
    let around = |open: &str, inner: &str, close: &str, times| {
        format!("{{{{ {}{inner}{} }}}}", open.repeat(times), close.repeat(times))
    };
    check(&[
        ("terms", format!("{{{{ 1{} }}}}", repeated(" + 1", 20_000)), End),
        ("more terms", format!("{{{{ 1{} }}}}", repeated(" + 1", 200_000)), End),
        ("concatenations", format!("{{{{ 1{} }}}}", repeated(" ~ 1", 200_000)), End),
        ("filters", format!("{{{{ 1{} }}}}", repeated("|int", 150_000)), End),
        ("attributes", format!("{{{{ messages{} }}}}", repeated(".a", 300_000)), Fails("")),
        ("conditions", format!("{{{{ {}1 }}}}", repeated("1 if 0 else ", 60_000)), End),
        ("negations", around("not ", "1", "", 200_000), End),
        ("signs", around("-", "1", "", 900_000), End),
        ("parentheses", around("(", "1", ")", 400_000), Fails("")),
        ("lists", around("[", "1", "]", 400_000), Fails("")),
        ("a long list", format!("{{{{ [{}] }}}}", repeated("[1],", 200_000)), End),
        ("calls", around("namespace(a=", "1", ")", 60_000), Fails("")),
        ("elifs", format!("{{% if 0 %}}{}{{% endif %}}", repeated("{% elif 0 %}x", 7_000)), End),
        ("tags of nothing", repeated("{{}}", 250_000), Fails("")),
        ("unclosed tags", repeated("{%", 500_000), Fails("")),
        ("unclosed blocks of raw text", repeated("{% raw %}", 110_000), Fails("")),
    ]);
}

#[test]
#[ignore = "deep: dozens of templates, each run to its limit"]
fn work_without_end() {
    let long = "{% set s = 'a' * 99999999 %}";
    check(&[
        (
            "nested loops",
            "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}".into(),
            Fails("too many steps"),
        ),
        (
            "sorting in nested loops",
            "{% set l = range(99999) | list %}{% for a in l %}{% for b in l %}{% set x = l | sort(reverse=true) %}\
             {% endfor %}{% endfor %}".into(),
            Fails("1 s"),
        ),
        (
            "searching in a long text",
            format!("{long}{{% for a in range(99999) %}}{{% set x = 'b' in s %}}{{% endfor %}}"),
            Fails("1 s"),
        ),
        ("recursion of a macro", "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}".into(), Fails("")),
        (
            "recursion of two macros",
            "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}".into(),
            Fails(""),
        ),
        ("recursion of a loop", "{% for a in [[1]] recursive %}{{ loop([a]) }}{% endfor %}".into(), Fails("")),
        ("inclusion of itself", "{% include 'default' %}".into(), Fails("")),
        ("extension of itself", "{% extends 'default' %}".into(), Fails("")),
        ("import of itself", "{% import 'default' as d %}{{ d }}".into(), Fails("")),
        ("powers", "{{ 9 ** 9 ** 9 ** 9 }}".into(), Fails("")),
        ("division by zero", "{{ 1 // 0 }}".into(), Fails("")),
        ("a long number", format!("{{{{ {} }}}}", "9".repeat(900_000)), End),
    ]);
}

/// One hostile conversation does not spoil the template for others, and a hostile template does not
/// cost its time for each row.
#[test]
fn a_template_that_exceeds_a_limit_again_and_again_is_rendered_no_more() {
    let source = "{% for a in range(messages[0].n) %}{% for b in range(99999) %}{% endfor %}{% endfor %}done";
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
        assert!(error.ends_with("too many steps, and is rendered no more"), "{error}");
    }
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!(
        compile(source).unwrap().render(&[json!({"n": 1})], false, &Map::new()).unwrap(),
        "done"
    );
}

#[test]
fn conversations_that_nest_or_are_long() {
    let template = compile("{{ messages | tojson | length }}").unwrap();
    let mut nested = Value::from(1);
    for _ in 0..500 {
        nested = Value::Array(vec![nested]);
    }
    let error = template.render(&[json!({"content": nested})], false, &Map::new()).unwrap_err();
    assert!(
        matches!(&error, Error::Invalid { .. }) && error.to_string().contains("nests too deeply"),
        "{error}"
    );
    let long = "é\n".repeat(1 << 20);
    let length = template.render(&[json!({"content": long})], false, &Map::new()).unwrap();
    assert!(length.parse::<usize>().unwrap() > 2 << 20);
}
