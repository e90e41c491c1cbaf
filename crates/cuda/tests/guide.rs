//! Tables of docs/guides/gpus.md that tests make.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Asserts that the table of this name, which the tests of the same name make, is in the guide;
/// with UPDATE_DOCS=1 in the environment, writes it there.
pub fn has_table(name: &str, table: &str) {
    // Tests of other tables write the same file.
    static GUIDE: Mutex<()> = Mutex::new(());
    let _alone = GUIDE.lock().unwrap_or_else(PoisonError::into_inner);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/gpus.md");
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(&begin).unwrap();
    let (written, after) = rest.split_once(&end).unwrap();
    if std::env::var("UPDATE_DOCS").is_ok_and(|value| value == "1") {
        fs::write(&path, format!("{before}{begin}{table}{end}{after}")).unwrap();
        return;
    }
    let command = format!("UPDATE_DOCS=1 cargo test -p isentrope-cuda --test cuda {name}");
    assert!(written == table, "docs/guides/gpus.md has another table of {name}; run: {command}");
}
