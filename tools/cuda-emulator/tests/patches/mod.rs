//! Changes of kernels' sources, read from files beside the tests.

/// A change: a line `@ of what: what it is`, then lines as in a patch.
pub struct Change {
    /// The text before the colon.
    pub of: String,
    /// The text after the colon.
    pub what: String,
    from: String,
    to: String,
}

impl Change {
    /// All changes in a text. Lines that begin with `#` are comments.
    pub fn all(text: &str) -> Vec<Self> {
        let mut changes: Vec<Self> = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some(head) = line.strip_prefix("@ ") {
                let (of, what) = head.split_once(": ").expect("a change says what it is");
                let (of, what) = (of.to_owned(), what.to_owned());
                changes.push(Self { of, what, from: String::new(), to: String::new() });
                continue;
            }
            let Some(kind) = line.chars().next() else { continue };
            let change = changes.last_mut().expect("a change begins with a line of its own");
            assert!([' ', '-', '+'].contains(&kind), "neither kept, nor taken, nor added: {line}");
            if kind != '+' {
                change.from += &format!("{}\n", &line[1..]);
            }
            if kind != '-' {
                change.to += &format!("{}\n", &line[1..]);
            }
        }
        changes
    }

    /// The text with the change made at the first place where it applies. None if it applies
    /// nowhere.
    pub fn applied(&self, text: &str) -> Option<String> {
        assert!(!self.from.is_empty() && self.from != self.to, "{} changes something", self.what);
        text.contains(&self.from).then(|| text.replacen(&self.from, &self.to, 1))
    }
}
