//! What a mistyped model directory may have meant.

use std::fs;
use std::path::Path;

/// Directories that are named.
const SHOWN: usize = 8;

/// Of a model that is no directory, what is in the directory that it would be in, if that is there: a clause such as
/// "assets/ has countdown-base". Only what looks like a model is told. None for a name without a directory before it, unless
/// there are models in the current directory.
pub fn neighbours(model: &str) -> Option<String> {
    let parent = Path::new(model).parent()?;
    let (dir, shown) = match parent.as_os_str().is_empty() {
        true => (Path::new("."), "the current directory".to_owned()),
        false => (parent, format!("{}/", parent.display().to_string().trim_end_matches('/'))),
    };
    let mut names: Vec<String> = fs::read_dir(dir)
        .ok()?
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join("config.json").is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let more = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names.truncate(SHOWN);
    match names.is_empty() {
        true if dir == parent => Some(format!("{shown} has no model")),
        true => None,
        false => Some(format!("{shown} has {}{more}", names.join(", "))),
    }
}

/// The same in brackets, to follow "no such directory"; nothing where there is nothing to say.
pub(super) fn aside(model: &str) -> String {
    neighbours(model).map_or(String::new(), |has| format!(" ({has})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_beside_a_mistyped_one_are_named() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b", "a"] {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("config.json"), "{}").unwrap();
        }
        fs::create_dir(dir.path().join("empty")).unwrap();
        let told = |name: &str| neighbours(dir.path().join(name).to_str().unwrap());
        let shown = dir.path().display();
        assert_eq!(told("c"), Some(format!("{shown}/ has a, b")));
        assert_eq!(told("empty/c"), Some(format!("{shown}/empty/ has no model")));
        assert_eq!(told("absent/c"), None);
        for number in 0..9 {
            fs::create_dir(dir.path().join(format!("c{number}"))).unwrap();
            fs::write(dir.path().join(format!("c{number}/config.json")), "{}").unwrap();
        }
        assert_eq!(told("d"), Some(format!("{shown}/ has a, b, c0, c1, c2, c3, c4, c5 and 3 more")));
    }
}
