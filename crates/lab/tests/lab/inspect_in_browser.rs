//! Pages of tokens as a browser shows them. Run with `ISENTROPE_TEST_BROWSER=/usr/bin/chromium ... -- --ignored in_browser`.

use crate::browser::{Browser, Look};
use crate::inspect::{record, run};
use isentrope_lab::inspect::{Inspection, StepChoice};
use serde_json::json;
use std::fs;

const DRAWN: &str = "document.querySelectorAll('#list [data-i]').length";
const OVERFLOW: &str = "document.documentElement.scrollWidth - document.documentElement.clientWidth";

#[test]
#[ignore = "needs a browser, named by ISENTROPE_TEST_BROWSER"]
fn every_token_is_drawn_in_browser_and_choices_are_heeded() {
    let mut right = record(1, &["</script><b>", "ok"], 1.0);
    right["verdict"] = json!("correct");
    let run = run(1, &[record(1, &["wait", " 1", "\u{202e}2", ""], -1.0), right]);
    let page = run.path().join("page.html");
    fs::write(&page, Inspection::open(run.path(), StepChoice::Last).unwrap().html().unwrap()).unwrap();
    for (width, dark) in [(400, true), (1400, false)] {
        let mut browser = Browser::open(&page, Look { width, dark }, &format!("{DRAWN} === 6"));
        browser.keep_picture(&format!("inspect-{width}.png"));
        assert_eq!(browser.value(OVERFLOW), json!(0), "the page is wider than {width}");
        assert_eq!(browser.value("document.querySelectorAll('#list b').length"), json!(0));

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
        assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
    }
}

/// Chooses as a reader does.
fn choose(browser: &mut Browser, id: &str, value: &str) {
    browser.value(&format!(
        "{{ const s = document.getElementById('{id}'); s.value = '{value}'; s.dispatchEvent(new Event('change')); }}"
    ));
}
