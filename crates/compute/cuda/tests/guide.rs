//! Tables in Markdown that tests make: plans in docs/guides/gpus.md, counts in decoding_steps.md.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Asserts that the page has this table between its two marks. With UPDATE_DOCS=1 in the
/// environment, writes the table instead. The page's path is relative to this crate.
pub fn has_table(page: &str, name: &str, table: &str) {
    // Tests of other tables write the same files, one at a time.
    static PAGES: Mutex<()> = Mutex::new(());
    let _alone = PAGES.lock().unwrap_or_else(PoisonError::into_inner);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(&begin).unwrap();
    let (written, after) = rest.split_once(&end).unwrap();
    if std::env::var("UPDATE_DOCS").is_ok_and(|value| value == "1") {
        fs::write(&path, format!("{before}{begin}{table}{end}{after}")).unwrap();
        return;
    }
    let command = format!("UPDATE_DOCS=1 cargo test -p isentrope-cuda --test cuda {name}");
    assert!(written == table, "{page} has another table of {name}; run: {command}");
}
