//! Pages of tokens as a browser shows them. Run with `ISENTROPE_TEST_BROWSER=/usr/bin/chromium ...
//! -- --ignored in_browser`.

use crate::browser::{Browser, Look};
use crate::inspect::{record, run};
use isentrope_lab::inspect::{Inspection, StepChoice};
use serde_json::json;
use std::fs;

const DRAWN: &str = "document.querySelectorAll('#list [data-i]').length";
const OVERFLOW: &str =
    "document.documentElement.scrollWidth - document.documentElement.clientWidth";

#[test]
#[ignore = "needs a browser, named by ISENTROPE_TEST_BROWSER"]
fn every_token_is_drawn_in_browser_and_choices_are_heeded() {
    let mut right = record(1, &["</script><b>", "ok"], 1.0);
    right["verdict"] = json!("correct");
    let run = run(1, &[record(1, &["wait", " 1", "\u{202e}2", ""], -1.0), right]);
    let page = run.path().join("page.html");
    fs::write(&page, Inspection::open(run.path(), StepChoice::Last).unwrap().html().unwrap())
        .unwrap();
    for (width, dark) in [(400, true), (1400, false)] {
        let mut browser = Browser::open(&page, Look { width, dark }, &format!("{DRAWN} === 6"));
        assert_eq!(browser.value(OVERFLOW), json!(0), "the page is wider than {width}");
        assert_eq!(browser.value("document.querySelectorAll('#list .tokens b').length"), json!(0));

        let colour = "document.querySelector('#list [data-i]').style.cssText + \
                      getComputedStyle(document.querySelector('#list [data-i]')).backgroundColor";
        let by_covariance = browser.value(colour);
        choose(&mut browser, "colour", "entropy");
        assert_ne!(browser.value(colour), by_covariance, "another colour for another number");

        choose(&mut browser, "verdict", "correct");
        browser.wait(&format!("{DRAWN} === 2"));
        choose(&mut browser, "verdict", "");
        browser.wait(&format!("{DRAWN} === 6"));
        choose(&mut browser, "sort", "-length");
        browser.wait(
            "document.querySelector('#list').textContent.indexOf('ok') < \
             document.querySelector('#list').textContent.indexOf('wait')",
        );

        type_in(&mut browser, "WAIT 1");
        browser.wait(&format!("{DRAWN} === 4"));
        assert_eq!(
            browser.value("document.getElementById('count').textContent"),
            json!("1 of 2 responses")
        );
        type_in(&mut browser, "nowhere");
        browser.wait("!document.getElementById('nothing').hidden");
        type_in(&mut browser, "");
        browser.wait(&format!("{DRAWN} === 6"));

        // The keys go from token to token, and tell what is known of each.
        browser.value("document.querySelector('#list article:last-child [data-i]').focus()");
        for (key, piece) in [
            ("ArrowRight", " 1"),
            ("ArrowRight", "u{202e}2"),
            ("ArrowLeft", " 1"),
            ("End", "no text"),
        ] {
            press(&mut browser, key);
            let told = browser.value("document.getElementById('details').textContent");
            assert!(told.as_str().unwrap().contains(piece), "{key}: {told}");
        }
        assert!(
            browser
                .value("document.getElementById('details').textContent.includes('quadrant')")
                .as_bool()
                .unwrap()
        );
        press(&mut browser, "Escape");
        assert_eq!(browser.value("document.getElementById('details').hidden"), json!(true));
        assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
    }
}

#[test]
#[ignore = "needs a browser, named by ISENTROPE_TEST_BROWSER"]
fn everything_is_on_paper_in_browser_and_long_texts_fit_a_phone() {
    let mut lines = vec![record(1, &["a", "b"], 1.0); 99];
    lines.push(record(1, &vec!["w "; 3500], -1.0));
    for (i, line) in lines.iter_mut().enumerate() {
        line["verdict"] = json!(format!("verdict {} {}", i % 3, "long ".repeat(30)));
    }
    let run = run(1, &lines);
    let page = run.path().join("page.html");
    fs::write(&page, Inspection::open(run.path(), StepChoice::Last).unwrap().html().unwrap())
        .unwrap();
    let mut browser =
        Browser::open(&page, Look { width: 400, dark: false }, &format!("{DRAWN} > 0"));
    assert_eq!(browser.value(OVERFLOW), json!(0));
    let is_cut = "[...document.querySelectorAll('.tables h3, .tools select')].some(e => \
                  e.getBoundingClientRect().right > 400)";
    assert_eq!(browser.value(is_cut), json!(false));
    let lines_of_heads =
        "Math.max(...[...document.querySelectorAll('th.short')].map(e => e.clientHeight))";
    assert!(browser.value(lines_of_heads).as_f64().unwrap() < 40.0);
    assert!(browser.value(DRAWN).as_u64().unwrap() < 3698, "as far as the reader has come");
    browser.print();
    assert_eq!(browser.value(DRAWN), json!(3698));
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
}

/// Types a text into the search as a reader does.
fn type_in(browser: &mut Browser, text: &str) {
    browser.value(&format!(
        "{{ const s = document.getElementById('search'); s.value = '{text}'; s.dispatchEvent(new \
         Event('input')); }}"
    ));
}

fn press(browser: &mut Browser, key: &str) {
    browser.value(&format!(
        "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', \
         bubbles: true, cancelable: true}}))"
    ));
}

/// Chooses as a reader does.
fn choose(browser: &mut Browser, id: &str, value: &str) {
    browser.value(&format!(
        "{{ const s = document.getElementById('{id}'); s.value = '{value}'; s.dispatchEvent(new \
         Event('change')); }}"
    ));
}
