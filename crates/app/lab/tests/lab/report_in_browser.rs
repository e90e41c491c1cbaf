//! Reports as a browser shows them. Run with `ISENTROPE_TEST_BROWSER=/usr/bin/chromium ... --
//! --ignored in_browser`.

use crate::browser::{Browser, Look};
use crate::planted::{recipe, run, step, whole};
use isentrope_lab::report::Report;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

const READY: &str = "document.documentElement.dataset.charts === 'drawn'";
const LOOKS: [Look; 4] = [
    Look { width: 400, dark: false },
    Look { width: 400, dark: true },
    Look { width: 1400, dark: false },
    Look { width: 1400, dark: true },
];

/// Charts in which nothing is drawn: no line, no marker, no band.
const EMPTY: &str = "[...document.querySelectorAll('.plot')].filter(plot => \
                     ![...plot.querySelectorAll(
    '.scatterlayer path.js-line, .scatterlayer path.point, .scatterlayer \
    path.js-fill')].some(path => path.getAttribute('d')))
    .map(plot => plot.id)";
const OVERFLOW: &str =
    "document.documentElement.scrollWidth - document.documentElement.clientWidth";
/// Relative luminance of the ground and of a chart's text, both from 0 to 255.
const BRIGHTNESS: &str = "[getComputedStyle(document.body).backgroundColor,
    getComputedStyle(document.querySelector('.plot text')).fill].map(c => \
    c.match(/\\d+/g).slice(0, 3)
    .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0))";
const TRACES: &str = "[...document.querySelectorAll('.plot')].map(plot =>
    plot.querySelectorAll('.scatterlayer .trace').length).reduce((a, b) => a + b)";

fn written(dir: &Path, runs: &[PathBuf]) -> PathBuf {
    let page = dir.join("report.html");
    fs::write(&page, Report::open(runs).unwrap().html().unwrap()).unwrap();
    page
}

/// Nothing to complain of, every chart drawn in the colours of the system, and nothing wider than
/// the window.
fn is_in_order(browser: &mut Browser, look: Look, what: &str) {
    assert!(browser.complaints.is_empty(), "{what}: {:?}", browser.complaints);
    assert_eq!(browser.value(EMPTY), json!([]), "{what}: charts without anything in them");
    assert_eq!(browser.value(OVERFLOW), json!(0), "{what}: the page is wider than the window");
    let brightness = browser.value(BRIGHTNESS);
    let [ground, text] = [0, 1].map(|i| brightness[i].as_f64().unwrap());
    let is_dark = ground < 60.0 && text > 150.0;
    let is_light = ground > 200.0 && text < 100.0;
    assert!(
        if look.dark { is_dark } else { is_light },
        "{what}: {look:?}, ground {ground}, text {text}"
    );
}

fn look_at(name: &str, page: &Path, looks: &[Look]) {
    for look in looks {
        let mut browser = Browser::open(page, *look, READY);
        let scheme = if look.dark { "dark" } else { "light" };
        let what = format!("{name}-{}-{scheme}", look.width);
        is_in_order(&mut browser, *look, &what);
    }
}

#[test]
#[ignore = "needs a browser, named by ISENTROPE_TEST_BROWSER"]
fn every_chart_is_drawn_in_browser_on_screens_of_all_kinds() {
    let dir = tempfile::tempdir().unwrap();
    let one = whole(dir.path(), "grpo", 120, 30.0, "kl-cov", 1);
    let page = written(dir.path(), std::slice::from_ref(&one));
    look_at("one", &page, &LOOKS[1..3]);
    let others = [(60.0, "clip-cov"), (120.0, "kl-cov")];
    let others = others
        .iter()
        .zip(2..)
        .map(|((decay, method), i)| whole(dir.path(), &format!("run {i}"), 120, *decay, method, i));
    let runs: Vec<PathBuf> = [one].into_iter().chain(others).collect();
    look_at("three", &written(dir.path(), &runs), &LOOKS);
}

#[test]
#[ignore = "needs a browser, named by ISENTROPE_TEST_BROWSER"]
fn runs_are_switched_and_metrics_chosen_in_browser_and_colours_follow_the_system() {
    let dir = tempfile::tempdir().unwrap();
    let runs =
        [1, 2].map(|i| whole(dir.path(), &format!("run-{i}"), 80, 20.0 * i as f64, "kl-cov", i));
    let mut browser = Browser::open(&written(dir.path(), &runs), LOOKS[2], READY);
    let all = browser.value(TRACES).as_u64().unwrap();
    browser.value("document.querySelector('.legend button[data-run=\"1\"]').click()");
    browser.wait(&format!("{TRACES} < {all}"));
    browser.value("document.querySelectorAll('.legend button[data-run=\"1\"]')[1].click()");
    browser.wait(&format!("{TRACES} === {all}"));

    let first = "document.getElementById('plot-covariance').data[0].y[0]";
    let before = browser.value(first);
    browser.value(
        "{ const s = document.querySelector('select[data-chart=covariance]'); s.value = '1';
            s.dispatchEvent(new Event('change')); }",
    );
    assert_ne!(browser.value(first), before);
    browser.value("document.querySelector('input[data-log=gradient]').click()");
    let axis = "document.getElementById('plot-gradient').layout.yaxis.type";
    assert_eq!(browser.value(axis), json!("log"));

    browser.look(LOOKS[1]);
    browser.wait(
        "getComputedStyle([...document.querySelectorAll('.plot')].at(-1).querySelector('text')).fill
            === 'rgb(230, 232, 234)'",
    );
    browser.wait(&format!("{OVERFLOW} === 0"));
    is_in_order(&mut browser, LOOKS[1], "dark and narrow");
    // Paper is white although the screen is dark.
    let pdf = browser.print();
    assert!(pdf.starts_with(b"%PDF") && pdf.len() > 50_000, "{} bytes", pdf.len());
}

#[test]
#[ignore = "needs a browser, named by ISENTROPE_TEST_BROWSER"]
fn short_broken_long_and_hostile_runs_are_drawn_in_browser() {
    let dir = tempfile::tempdir().unwrap();
    let narrow = LOOKS[1];
    let few: Vec<_> = (0..=3).map(|s| step(s, 9.0, 4, 0)).collect();
    let single = run(dir.path(), "single", &few, Value::Null);
    let page = written(dir.path(), &[single]);
    look_at("single", &page, &[narrow]);
    // Steps are whole numbers, each once.
    let mut browser = Browser::open(&page, LOOKS[2], READY);
    let ticks = "[...document.querySelectorAll('#plot-eval-entropy .xtick text')].map(t => \
                 t.textContent)";
    assert_eq!(browser.value(ticks), json!(["step 0"]));
    let ticks =
        "[...document.querySelectorAll('#plot-reward .xtick text')].map(t => t.textContent)";
    assert_eq!(browser.value(ticks), json!(["step 1", "2", "3"]));

    let mut rows: Vec<_> = (0..=30).map(|s| step(s, 9.0, 4, 0)).collect();
    for (_, value) in rows[12..]
        .iter_mut()
        .flat_map(|row| row.iter_mut())
        .filter(|(name, _)| name.starts_with("policy"))
    {
        *value = Value::Null;
    }
    let name =
        "<b>x</b><img src=x onerror=alert(1)>%{x} $x$ <a href='javascript:alert(1)'>y</a>\u{202e}";
    let name = name.replace('/', "");
    look_at(
        "broken",
        &written(dir.path(), &[run(dir.path(), &name, &rows, Value::Null)]),
        &[narrow],
    );
    let empty = run(dir.path(), "empty", &[], Value::Null);
    let page = written(dir.path(), std::slice::from_ref(&empty));
    let mut browser = Browser::open(&page, narrow, "true");
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
    assert_eq!(browser.value(OVERFLOW), json!(0));
    let hostile = run(dir.path(), &name, &rows, Value::Null);
    look_at("hostile", &written(dir.path(), &[hostile, empty]), &[narrow]);

    let long: Vec<PathBuf> = (0..2)
        .map(|i| whole(dir.path(), &format!("long-{i}"), 10_000, 2000.0, "none", i))
        .collect();
    look_at("long", &written(dir.path(), &long), &LOOKS[2..3]);
}

/// Two methods of three seeds and a lone run: means with bands, single runs, or both.
#[test]
#[ignore = "needs a browser, named by ISENTROPE_TEST_BROWSER"]
fn means_over_seeds_are_drawn_and_switched_in_browser() {
    let dir = tempfile::tempdir().unwrap();
    let of_seed = |(method, seed): (&str, u64)| {
        let decay = if method == "kl-cov" { 60.0 } else { 20.0 };
        let rows: Vec<_> = (0..=80).map(|s| step(s, decay, 4, seed)).collect();
        let mut settings = recipe(80, method);
        settings["run"]["seed"] = json!(seed);
        run(dir.path(), &format!("{method}/{seed}"), &rows, settings)
    };
    let of = |method| [1, 2, 3].map(|seed| (method, seed));
    let mut all = [of("none"), of("kl-cov")].concat();
    all.push(("clip-cov", 1));
    let runs: Vec<PathBuf> = all.into_iter().map(of_seed).collect();
    let page = written(dir.path(), &runs);
    look_at("seeds", &page, &LOOKS);

    let mut browser = Browser::open(&page, LOOKS[2], READY);
    let accuracy = "document.getElementById('plot-accuracy').data";
    // A band and a mean for each of two methods, and the run that is alone.
    assert_eq!(browser.value(&format!("{accuracy}.length")), json!(5));
    browser.value("document.querySelector('.legend.methods button').click()");
    browser.wait(&format!("{accuracy}.filter(t => t.visible === false).length === 2"));
    for (choice, lines) in [("both", 2 * 2 + 7), ("runs", 7)] {
        browser
            .value(&format!("document.querySelector('input[name=drawn][value={choice}]').click()"));
        browser.wait(&format!("{accuracy}.length === {lines}"));
    }
    is_in_order(&mut browser, LOOKS[2], "single runs");
}
