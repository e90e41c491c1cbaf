//! Commands of a shell script as words, as far as they can be known without running anything:
//! quotes, continued lines, variables, arrays, `${NAME:-default}`, whole-number arithmetic, and the
//! scripts within `eval`, `bash -c` and heredocs for a shell.

use super::{COPIED, literal};
use std::collections::{BTreeMap, BTreeSet};
use std::env;

/// Bytes of the longest word, words of the longest command or array, depth of nesting, heredocs.
const WORD: usize = 1 << 16;
const WORDS: usize = 1 << 12;
const DEPTH: usize = 16;
const HEREDOCS: usize = 64;
/// Words that stand before a command or an assignment, and commands that take assignments.
const KEYWORDS: [&str; 10] =
    ["if", "elif", "then", "else", "while", "until", "do", "{", "!", "function"];
const DECLARATIONS: [&str; 5] = ["export", "local", "readonly", "declare", "typeset"];
/// How the reason begins why a variable has no value that a script gave it.
const UNSET: &str = "the script does not set";

/// A word of a command.
#[derive(Clone, Debug, Default)]
pub struct Word {
    pub text: String,
    pub line: usize,
    /// Places where parts of the text are missing, in bytes, in order, each with the reason.
    pub unread: Vec<(usize, String)>,
}

impl Word {
    /// The line, and the reason why the text is not what a shell would make of the word.
    pub fn reason(&self) -> Option<String> {
        self.unread.first().map(|(_, reason)| format!("line {}: {reason}", self.line))
    }

    /// Adds what another word has behind its first bytes.
    fn append(&mut self, other: &Self, from: usize) {
        let after = self.text.len();
        let shifted = |(place, reason): &(usize, String)| {
            (place.saturating_sub(from) + after, reason.clone())
        };
        self.unread.extend(other.unread.iter().map(shifted));
        self.text.push_str(&other.text[from..]);
    }
}

/// Lines that may not run, since they stand in a branch, each with what it says of a variable.
pub type Doubts = BTreeSet<(usize, String)>;

/// A command, which has words.
pub struct Command {
    pub words: Vec<Word>,
    /// Doubts about its variables' values.
    pub doubts: Doubts,
}

/// The commands of a script, in order, and the line of a quote that does not end. None if its
/// variables are used for more than [`COPIED`] bytes.
pub fn commands(text: &str) -> Option<(Vec<Command>, Option<usize>)> {
    let mut shell = Shell { chars: text.chars().collect(), line: 1, ..Shell::default() };
    shell.read();
    (shell.copied <= COPIED).then_some((shell.commands, shell.open_quote))
}

/// A value of a command line, as Hydra and `argparse` read it; none for `null`.
pub fn value(text: &str) -> Option<toml::Value> {
    let text = text.trim();
    let inner = |open, close| text.strip_prefix(open)?.strip_suffix(close);
    if let Some(items) = inner('[', ']') {
        let items = items.split(',').map(str::trim).filter(|item| !item.is_empty());
        let items = items.filter(|item| !item.starts_with(['[', '{']));
        return Some(toml::Value::Array(items.filter_map(value).collect()));
    }
    if let Some(entries) = inner('{', '}').filter(|entries| !entries.contains(['{', '['])) {
        let entry = |entry: &str| {
            let (name, text) = entry.split_once([':', '='])?;
            Some((name.trim().trim_matches(['"', '\'']).to_owned(), value(text)?))
        };
        let entries = entries.split(',').filter(|entry| !entry.trim().is_empty()).map(entry);
        if let Some(table) = entries.collect::<Option<toml::Table>>() {
            return Some(table.into());
        }
    }
    match inner('"', '"').or_else(|| inner('\'', '\'')) {
        Some(quoted) => Some(quoted.into()),
        None if matches!(text, "" | "null" | "None") => None,
        None => Some(literal(text).unwrap_or_else(|| text.into())),
    }
}

#[derive(Default)]
struct Variable {
    words: Vec<Word>,
    doubts: Doubts,
}

/// The use of a word behind a redirection.
enum Target {
    File,
    Heredoc,
}

#[derive(Default)]
struct Shell {
    chars: Vec<char>,
    at: usize,
    line: usize,
    variables: BTreeMap<String, Variable>,
    word: Option<Word>,
    words: Vec<Word>,
    /// The array that is being written, and the words of the command before it.
    array: Option<(Word, Vec<Word>)>,
    commands: Vec<Command>,
    /// Doubts about the variables that this command has used.
    doubts: Doubts,
    /// How many `if`, `case`, loops and `{` are open, and how many subshells.
    depth: usize,
    parens: usize,
    /// Whether this command stands behind another and `&&` or `||`.
    is_chained: bool,
    /// Bytes of variables where they are used.
    copied: usize,
    /// How many defaults of variables and scripts within scripts this is in.
    nesting: usize,
    /// Whether the next word is where a redirection goes, or the last line of a heredoc.
    target: Option<Target>,
    /// The last lines of heredocs that begin on the next line, and how many there were before.
    heredocs: Vec<String>,
    begun: usize,
    /// The line of the first quote that does not end.
    open_quote: Option<usize>,
}

impl Shell {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn read(&mut self) {
        while let Some(c) = self.next() {
            match c {
                '\\' => match self.next() {
                    Some('\n') | None => {}
                    Some(c) => self.push(c),
                },
                '\'' | '"' => {
                    let line = self.line;
                    self.word();
                    let ends = if c == '"' {
                        self.quoted()
                    } else {
                        let ends = self.chars[self.at..].contains(&c);
                        self.until(c).chars().for_each(|c| self.push(c));
                        ends
                    };
                    if !ends {
                        self.open_quote.get_or_insert(line);
                        self.unread("its quote does not end");
                    }
                }
                '$' => self.expand(false),
                '`' => {
                    self.until('`');
                    self.unread("the output of a command is not known");
                }
                '#' if self.word.is_none() => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                '(' if self.word.is_none() && self.peek() == Some('(') => {
                    self.at += 1;
                    let text = self.until(')');
                    self.at += usize::from(self.peek() == Some(')'));
                    self.forget_changed(&text);
                }
                '(' => match self.word.take() {
                    Some(word) if self.array.is_none() && word.text.ends_with('=') => {
                        self.array = Some((word, std::mem::take(&mut self.words)));
                    }
                    _ => {
                        self.end_command();
                        self.parens += usize::from(self.array.is_none());
                    }
                },
                ')' => {
                    self.end_word();
                    match self.array.take() {
                        Some((word, before)) => {
                            let items = std::mem::replace(&mut self.words, before);
                            let (name, adds) = assigned(word.text.trim_end_matches('='));
                            self.assign(name, adds, word.line).words.extend(items);
                        }
                        None => {
                            self.end_command();
                            self.parens = self.parens.saturating_sub(1);
                        }
                    }
                }
                '\n' if self.array.is_some() => self.end_word(),
                '&' if self.peek() == Some('>') => {
                    self.end_word();
                    self.redirect(c);
                }
                '\n' | ';' | '|' | '&' => {
                    let is_blank = self.word.is_none() && self.words.is_empty();
                    self.end_command();
                    if matches!(c, '|' | '&') && self.peek() == Some(c) {
                        self.at += 1;
                        self.is_chained |= !is_blank;
                    } else {
                        // The next line goes on behind `&&`.
                        self.is_chained &= c == '\n' && is_blank;
                    }
                    if c == '\n' {
                        self.take_heredocs();
                    }
                }
                '<' | '>' => {
                    let digits = |word: &Word| word.text.bytes().all(|b| b.is_ascii_digit());
                    match self.word.as_ref().is_some_and(digits) {
                        true => self.word = None, // the number of a stream
                        false => self.end_word(),
                    }
                    self.redirect(c);
                }
                c if c.is_whitespace() => self.end_word(),
                c => self.push(c),
            }
        }
        self.end_command();
    }

    /// Passes over a redirection, up to the word that it goes to.
    fn redirect(&mut self, first: char) {
        let mut signs = String::from(first);
        while let Some(c) = self.peek().filter(|c| "<>&|!".contains(*c)) {
            self.at += 1;
            signs.push(c);
        }
        if self.peek() == Some('(') {
            self.at += 1;
            self.until(')'); // the output of a command
            return self.target = None;
        }
        let is_heredoc = signs == "<<";
        self.at += usize::from(is_heredoc && self.peek() == Some('-'));
        while self.peek().is_some_and(|c| c == ' ' || c == '\t') {
            self.at += 1;
        }
        self.target = Some(if is_heredoc { Target::Heredoc } else { Target::File });
    }

    /// Passes over the heredocs that begin here. A shell's is a script of its own.
    fn take_heredocs(&mut self) {
        for end in std::mem::take(&mut self.heredocs) {
            self.begun += 1;
            let lines = || self.chars[self.at..].split_inclusive(|c| *c == '\n');
            let is_end = |line: &[char]| String::from_iter(line).trim_matches(['\t', '\n']) == end;
            let Some(count) = lines().position(is_end) else { continue };
            let text = lines().take(count).flatten().collect();
            let word = Word { text, line: self.line, ..Word::default() };
            let len: usize = lines().take(count + 1).map(<[char]>::len).sum();
            (self.at, self.line) = (self.at + len, self.line + count + 1);
            let reads = |word: &Word| is_shell(word) || matches!(&*word.text, "sbatch" | "ssh");
            if self.commands.last().is_some_and(|command| command.words.iter().any(reads)) {
                self.read_text(&word);
            }
        }
    }

    /// Reads up to a double quote, and says whether there is one.
    fn quoted(&mut self) -> bool {
        self.word();
        while let Some(c) = self.next() {
            match c {
                '"' => return true,
                '\\' => match self.next() {
                    Some('\n') | None => {}
                    Some(c @ ('"' | '\\' | '$' | '`')) => self.push(c),
                    Some(c) => {
                        self.push('\\');
                        self.push(c);
                    }
                },
                '$' => self.expand(true),
                c => self.push(c),
            }
        }
        false
    }

    /// Reads a variable, a sum or a command behind a dollar sign.
    fn expand(&mut self, mut is_quoted: bool) {
        let rest: String = self.chars[self.at..].iter().take(2).collect();
        let mut is_joined = false;
        let words = if rest == "((" {
            self.at += 2;
            let text = self.until(')');
            self.at += usize::from(self.peek() == Some(')'));
            let sum = self.sum(&text);
            self.forget_changed(&text);
            vec![sum]
        } else if rest.starts_with('(') {
            self.at += 1;
            self.until(')');
            return self.unread("the output of a command is not known");
        } else if rest.starts_with('{') {
            self.at += 1;
            let text = self.until('}');
            is_joined = is_quoted && text.contains("[*]");
            let (words, has_quotes) = self.parameter(&text);
            is_quoted |= has_quotes;
            words
        } else if rest.starts_with(['@', '*']) {
            self.at += 1;
            Vec::new()
        } else {
            let start = self.at;
            while self.peek().is_some_and(is_name) {
                self.at += 1;
            }
            match self.chars[start..self.at].iter().collect::<String>() {
                // In `$'...'` the quote alone counts.
                name if name.is_empty() && !is_quoted && rest.starts_with(['\'', '"']) => return,
                name if name.is_empty() => return self.push('$'),
                name => self.variable(&name).into_iter().take(1).collect(),
            }
        };
        for (index, word) in words.into_iter().enumerate() {
            match index {
                0 => {}
                _ if is_joined => self.push(' '),
                _ => self.end_word(),
            }
            let mut missing = word.unread.into_iter().peekable();
            for (at, c) in word.text.char_indices() {
                while let Some((_, reason)) = missing.next_if(|(place, _)| *place <= at) {
                    self.unread(&reason);
                }
                match c.is_whitespace() && !is_quoted {
                    true => self.end_word(),
                    false => self.push(c),
                }
            }
            missing.for_each(|(_, reason)| self.unread(&reason));
        }
    }

    /// The words of `${...}`, and whether they stand in quotes of their own.
    fn parameter(&mut self, text: &str) -> (Vec<Word>, bool) {
        let not_known = || vec![unknown(format!("${{{text}}} is not known"))];
        let (name, rest) = text.split_at(text.find(|c: char| !is_name(c)).unwrap_or(text.len()));
        if name.is_empty() {
            // `${@:1}` stands for the script's arguments, and there are none.
            let is_empty = text.starts_with(['@', '*']);
            return (if is_empty { Vec::new() } else { not_known() }, false);
        }
        let mut words = self.variable(name);
        let indexed = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (index, rest) = indexed.unwrap_or(("0", rest));
        match index.parse::<usize>() {
            Ok(place) if self.variables.contains_key(name) => {
                words = words.into_iter().nth(place).into_iter().collect();
            }
            Ok(_) => {}
            Err(_) if matches!(index, "@" | "*") => {}
            Err(_) => words = not_known(),
        }
        let is_unset = |word: &Word| {
            word.text.is_empty() && word.unread.iter().all(|(_, reason)| reason.starts_with(UNSET))
        };
        let is_set = !words.iter().all(is_unset);
        let mut own = rest.trim_start_matches(':').chars();
        match own.next() {
            None | Some('?') => (words, false),
            Some('-' | '=') if is_set => (words, false),
            Some('+') if !is_set => (Vec::new(), false),
            Some(sign @ ('-' | '=' | '+')) => {
                let words = self.default_of(own.as_str());
                if sign == '=' {
                    self.assign(name, false, self.line).words = words.clone();
                }
                (words, own.as_str().starts_with('"'))
            }
            Some(_) => (not_known(), false),
        }
    }

    /// The words of a variable's default, in which other variables may stand.
    fn default_of(&mut self, text: &str) -> Vec<Word> {
        if self.nesting >= DEPTH {
            return vec![unknown("defaults nest too deeply".into())];
        }
        self.within(text, self.line, |inner| {
            while inner.peek().is_some() {
                inner.quoted();
            }
            let mut words = std::mem::take(&mut inner.words);
            words.extend(inner.word.take());
            words
        })
    }

    /// Reads a text with the variables of this script.
    fn within<T>(&mut self, text: &str, line: usize, read: impl FnOnce(&mut Self) -> T) -> T {
        let mut inner = Self {
            chars: text.chars().collect(),
            line,
            variables: std::mem::take(&mut self.variables),
            doubts: std::mem::take(&mut self.doubts),
            depth: usize::from(self.is_doubtful()),
            copied: self.copied,
            nesting: self.nesting + 1,
            ..Self::default()
        };
        let made = read(&mut inner);
        (self.variables, self.doubts, self.copied) = (inner.variables, inner.doubts, inner.copied);
        made
    }

    /// Reads the text of a word as a script of its own, as `eval` does.
    fn read_text(&mut self, word: &Word) {
        if self.nesting >= DEPTH {
            return;
        }
        // A missing part becomes a variable of a name that scripts cannot set.
        let (mut text, mut at) = (String::new(), 0);
        for (number, (place, reason)) in word.unread.iter().enumerate() {
            text.push_str(word.text.get(at..*place).unwrap_or_default());
            text.push_str(&format!("${{0missing{number}}}"));
            at = *place;
            let variable = Variable { words: vec![unknown(reason.clone())], ..Variable::default() };
            self.variables.insert(format!("0missing{number}"), variable);
        }
        text.push_str(word.text.get(at..).unwrap_or_default());
        let (doubts, size) = (self.doubts.clone(), size_of_doubts(&self.doubts));
        let commands = self.within(&text, word.line, |inner| {
            inner.read();
            std::mem::take(&mut inner.commands)
        });
        for mut command in commands {
            self.copied += size;
            if self.copied <= COPIED {
                command.doubts.extend(doubts.iter().cloned());
            }
            self.commands.push(command);
        }
    }

    /// The words of a variable of the script. Of the environment `HOME` alone is read, below which
    /// scripts have data and models: others may be secret, and another machine has others.
    fn variable(&mut self, name: &str) -> Vec<Word> {
        let of_word = |word: &Word| {
            let reasons = word.unread.iter().map(|part| size_of_val(part) + part.1.len());
            size_of::<Word>() + word.text.len() + reasons.sum::<usize>()
        };
        if let Some(Variable { words, doubts }) = self.variables.get(name) {
            self.copied += words.iter().map(of_word).sum::<usize>();
            self.copied += size_of_doubts(doubts);
            if self.copied <= COPIED {
                self.doubts.extend(doubts.iter().cloned());
                return words.clone();
            }
        }
        if name == "HOME"
            && let Ok(text) = env::var(name)
        {
            self.copied += text.len();
            return vec![Word { text, ..Word::default() }];
        }
        vec![unknown(format!("{UNSET} ${name}"))]
    }

    fn sum(&mut self, text: &str) -> Word {
        let plain = match text.contains('$') {
            true => self.default_of(text),
            false => vec![Word { text: text.to_owned(), ..Word::default() }],
        };
        let chars: Vec<char> = match &plain[..] {
            [Word { text, unread, .. }] if unread.is_empty() => {
                text.chars().filter(|c| !c.is_whitespace()).collect()
            }
            _ => Vec::new(),
        };
        let mut sum = Sum { shell: self, chars: &chars, at: 0 };
        match sum.terms(0).filter(|_| sum.at == chars.len()) {
            Some(number) => Word { text: number.to_string(), ..Word::default() },
            None => unknown(format!("$(({text})) is not known")),
        }
    }

    /// The text up to the bracket or quote that closes it, which is passed over.
    fn until(&mut self, close: char) -> String {
        let open = match close {
            ')' => '(',
            '}' => '{',
            close => close,
        };
        let (mut text, mut depth) = (String::new(), 0);
        while let Some(c) = self.next() {
            match c {
                c if c == close && depth == 0 => break,
                // Brackets in the quotes of a command are none.
                '\'' | '"' if close == ')' && self.chars[self.at..].contains(&c) => {
                    while let Some(quoted) = self.next().filter(|quoted| *quoted != c) {
                        if quoted == '\\' && c == '"' {
                            self.next();
                        }
                    }
                }
                c if c == close => depth -= 1,
                c if c == open => depth += 1,
                _ => {}
            }
            text.push(c);
        }
        text
    }

    /// The word that is being written.
    fn word(&mut self) -> &mut Word {
        let line = self.line;
        self.word.get_or_insert_with(|| Word { line, ..Word::default() })
    }

    fn push(&mut self, c: char) {
        let word = self.word();
        match word.text.len() < WORD {
            true => word.text.push(c),
            false if word.unread.last().is_some_and(|(place, _)| *place >= WORD) => {}
            false => word.unread.push((word.text.len(), "it is too long".into())),
        }
    }

    fn unread(&mut self, reason: &str) {
        let word = self.word();
        word.unread.push((word.text.len(), reason.to_owned()));
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match self.target.take() {
            Some(Target::File) => {}
            Some(Target::Heredoc) if self.begun + self.heredocs.len() < HEREDOCS => {
                self.heredocs.push(word.text);
            }
            None if self.words.len() < WORDS => self.words.push(word),
            _ => {}
        }
    }

    /// The variable that is assigned now, whose words are to be set or grown.
    fn assign(&mut self, name: &str, adds: bool, line: usize) -> &mut Variable {
        let is_doubtful = self.is_doubtful();
        let variable = self.variables.entry(name.to_owned()).or_default();
        if !adds {
            *variable = Variable::default();
        }
        variable.doubts.extend(self.doubts.iter().cloned());
        if is_doubtful {
            let doubt = format!("{name} is taken from here, in a branch that may not run");
            variable.doubts.insert((line, doubt));
        }
        variable
    }

    /// Whether a branch that may not run, or a subshell, is open.
    fn is_doubtful(&self) -> bool {
        self.depth > 0 || self.parens > 0 || self.is_chained
    }

    /// Sets a variable by `NAME=TEXT` or `NAME+=TEXT`.
    fn set(&mut self, word: &Word) {
        let Some((name, text)) = assignment(word) else { return };
        let (name, adds) = assigned(name);
        let is_read = |known: &Variable| known.words.iter().all(|word| word.unread.is_empty());
        if self.is_doubtful()
            && !adds
            && !word.unread.is_empty()
            && let Some(known) = self.variables.get_mut(name)
            && is_read(known)
        {
            let doubt = format!("{name} may be set here, to what is not known");
            known.doubts.insert((word.line, doubt));
            return;
        }
        let before = word.text.len() - text.len();
        let words = &mut self.assign(name, adds, word.line).words;
        if words.is_empty() {
            words.push(Word { line: word.line, ..Word::default() });
        }
        words[0].append(word, before); // of an array too
    }

    /// Forgets the variables that a command sets by other means.
    fn forget(&mut self, command: &[Word]) {
        let Some(first) = command.first() else { return };
        let names = match &*first.text {
            "let" => {
                let sums = command[1..].iter();
                return sums.for_each(|word| self.forget_changed(&word.text));
            }
            "for" | "select" => command.get(1..2),
            "printf" if command.get(1).is_some_and(|word| word.text == "-v") => command.get(2..3),
            "read" | "unset" | "getopts" | "mapfile" | "readarray" => command.get(1..),
            _ => None,
        };
        for word in names.unwrap_or_default().iter().filter(|word| is_variable(&word.text)) {
            match &*first.text {
                "unset" => drop(self.variables.remove(&word.text)),
                setter => self.forget_variable(&word.text, setter),
            }
        }
    }

    /// Forgets the variables that `((...))` or `let` changes.
    fn forget_changed(&mut self, sum: &str) {
        let mut rest = sum;
        while let Some(start) = rest.find(is_name) {
            let (before, named) = rest.split_at(start);
            let end = named.find(|c: char| !is_name(c)).unwrap_or(named.len());
            let (name, behind) = named.split_at(end);
            let operator = behind.trim_start();
            let given = operator.trim_start_matches(['+', '-', '*', '/', '%']);
            let steps = ["++", "--"];
            let is_step = steps.iter().any(|step| before.ends_with(step))
                || steps.iter().any(|step| operator.starts_with(step));
            if is_step || given.starts_with('=') && !given.starts_with("==") {
                self.forget_variable(name, "((...))");
            }
            rest = behind;
        }
    }

    fn forget_variable(&mut self, name: &str, setter: &str) {
        let words = vec![unknown(format!("{setter} sets ${name}"))];
        self.variables.insert(name.to_owned(), Variable { words, ..Variable::default() });
    }

    /// Ends a command: sets the variables that it begins with, if nothing else is left of it.
    fn end_command(&mut self) {
        self.end_word();
        self.target = None;
        let mut words = std::mem::take(&mut self.words);
        let (mut at, mut declares) = (0, false);
        while let Some(Word { text, .. }) = words.get(at) {
            match &**text {
                "if" | "case" | "for" | "select" | "while" | "until" | "{" => self.depth += 1,
                "fi" | "esac" | "done" | "}" => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            declares |= DECLARATIONS.contains(&&**text);
            let is_before = KEYWORDS.contains(&&**text) || assignment(&words[at]).is_some();
            if !declares && !is_before {
                break;
            }
            // A function's name is no command.
            at = words.len().min(at + 1 + usize::from(text == "function"));
        }
        let command = words.split_off(at);
        let script = script_of(&command);
        // `NAME=TEXT COMMAND` sets the variable for that command alone.
        if command.is_empty() || script.is_some() {
            words.iter().for_each(|word| self.set(word));
        }
        self.forget(&command);
        match script {
            Some(text) => self.read_text(&text),
            None if command.is_empty() => {}
            None => {
                let doubts = std::mem::take(&mut self.doubts);
                self.commands.push(Command { words: command, doubts });
            }
        }
        self.doubts.clear();
    }
}

/// The text that a command reads as a script: `eval TEXT` or `bash -c TEXT`.
fn script_of(command: &[Word]) -> Option<Word> {
    let first = command.first()?;
    if first.text == "eval" {
        let mut script = Word { line: first.line, ..Word::default() };
        for word in &command[1..] {
            script.append(word, 0);
            script.text.push(' ');
        }
        return Some(script);
    }
    let behind = &command[command.iter().position(is_shell)? + 1..];
    let flags = behind.iter().take_while(|word| word.text.starts_with('-')).count();
    let (flags, rest) = behind.split_at(flags);
    let flag = &flags.last()?.text;
    (flag.ends_with('c') && !flag.starts_with("--")).then(|| rest.first().cloned())?
}

fn is_shell(word: &Word) -> bool {
    matches!(word.text.rsplit('/').next(), Some("bash" | "sh"))
}

fn size_of_doubts(doubts: &Doubts) -> usize {
    doubts.iter().map(|(_, doubt)| size_of::<(usize, String)>() + doubt.len()).sum()
}

/// The name and the text of `NAME=TEXT`.
fn assignment(word: &Word) -> Option<(&str, &str)> {
    word.text.split_once('=').filter(|(name, _)| is_variable(assigned(name).0))
}

/// A word that is not known.
fn unknown(reason: String) -> Word {
    Word { unread: vec![(0, reason)], ..Word::default() }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The name before `=`, and whether `+=` adds to its value.
fn assigned(name: &str) -> (&str, bool) {
    name.strip_suffix('+').map_or((name, false), |name| (name, true))
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.chars().all(is_name)
}

/// `$((...))`: whole numbers, variables, brackets and + - * / %.
struct Sum<'a> {
    shell: &'a mut Shell,
    chars: &'a [char],
    at: usize,
}

impl Sum<'_> {
    fn take(&mut self, wanted: &[char]) -> Option<char> {
        let c = *self.chars.get(self.at).filter(|c| wanted.contains(c))?;
        self.at += 1;
        Some(c)
    }

    fn terms(&mut self, depth: usize) -> Option<i64> {
        let mut sum = self.factors(depth)?;
        while let Some(sign) = self.take(&['+', '-']) {
            let term = self.factors(depth)?;
            sum = if sign == '+' { sum.checked_add(term)? } else { sum.checked_sub(term)? };
        }
        Some(sum)
    }

    fn factors(&mut self, depth: usize) -> Option<i64> {
        let mut product = self.number(depth)?;
        while let Some(sign) = self.take(&['*', '/', '%']) {
            let factor = self.number(depth)?;
            product = match sign {
                '*' => product.checked_mul(factor)?,
                '/' => product.checked_div(factor)?,
                _ => product.checked_rem(factor)?,
            };
        }
        Some(product)
    }

    fn number(&mut self, depth: usize) -> Option<i64> {
        if depth >= DEPTH {
            return None;
        }
        if self.take(&['-']).is_some() {
            return self.number(depth + 1)?.checked_neg();
        }
        if self.take(&['(']).is_some() {
            let inner = self.terms(depth + 1)?;
            return self.take(&[')']).map(|_| inner);
        }
        let rest = &self.chars[self.at..];
        let len = rest.iter().take_while(|c| is_name(**c)).count();
        let text: String = rest[..len].iter().collect();
        self.at += len;
        match text.parse() {
            // It is in base 8.
            Ok(_) if text.starts_with('0') && len > 1 => None,
            Ok(number) => Some(number),
            Err(_) => match &self.shell.variable(&text)[..] {
                [word] if word.unread.is_empty() => word.text.trim().parse().ok(),
                _ => None,
            },
        }
    }
}
