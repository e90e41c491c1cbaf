//! Commands of a shell script as words, as far as they can be known without running anything:
//! quotes, continued lines, variables, arrays, `${NAME:-default}` and whole-number arithmetic.

use super::{COPIED, literal};
use std::collections::{BTreeMap, BTreeSet};
use std::env;

/// Bytes of the longest word, words of the longest command or array, and depth of nesting.
const WORD: usize = 1 << 16;
const WORDS: usize = 1 << 12;
const DEPTH: usize = 16;

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
}

/// Lines that may not run, since they stand in a branch, each with the variable that it sets.
pub type Doubts = BTreeSet<(usize, String)>;

/// A command, which has words.
pub struct Command {
    pub words: Vec<Word>,
    /// Doubts about its variables' values.
    pub doubts: Doubts,
}

/// The commands of a script, in order. None if its variables are used for more than [`COPIED`]
/// bytes.
pub fn commands(text: &str) -> Option<Vec<Command>> {
    let mut shell = Shell { chars: text.chars().collect(), line: 1, ..Shell::default() };
    shell.read();
    (shell.copied <= COPIED).then_some(shell.commands)
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
    /// How many `if`, `case`, loops and `{` are open.
    depth: usize,
    /// Whether this command stands behind another and `&&` or `||`.
    is_chained: bool,
    /// Bytes of variables where they are used.
    copied: usize,
    /// How many defaults of variables this is within.
    nesting: usize,
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
                '\'' => {
                    self.word();
                    while let Some(c) = self.next().filter(|c| *c != '\'') {
                        self.push(c);
                    }
                }
                '"' => self.quoted(),
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
                '(' => match self.word.take() {
                    Some(word) if self.array.is_none() && word.text.ends_with('=') => {
                        self.array = Some((word, std::mem::take(&mut self.words)));
                    }
                    _ => self.end_command(),
                },
                ')' => {
                    self.end_word();
                    match self.array.take() {
                        Some((word, before)) => {
                            let items = std::mem::replace(&mut self.words, before);
                            let (name, adds) = assigned(word.text.trim_end_matches('='));
                            self.assign(name, adds, word.line).words.extend(items);
                        }
                        None => self.end_command(),
                    }
                }
                '\n' if self.array.is_some() => self.end_word(),
                '\n' | ';' | '|' | '&' => {
                    let is_blank = self.word.is_none() && self.words.is_empty();
                    let before = self.commands.len();
                    self.end_command();
                    if matches!(c, '|' | '&') && self.peek() == Some(c) {
                        self.at += 1;
                        self.is_chained |= self.commands.len() > before;
                    } else {
                        // The next line goes on behind `&&`.
                        self.is_chained &= c == '\n' && is_blank;
                    }
                }
                '<' | '>' => {
                    let digits = |word: &Word| word.text.bytes().all(|b| b.is_ascii_digit());
                    match self.word.as_ref().is_some_and(digits) {
                        true => self.word = None, // the number of a stream
                        false => self.end_word(),
                    }
                    while self.peek().is_some_and(|c| !matches!(c, '\n' | ';' | '|'))
                        && !self.chars[self.at..].starts_with(&['&', '&'])
                    {
                        if self.next() == Some('\\') {
                            self.next(); // a line that goes on
                        }
                    }
                }
                c if c.is_whitespace() => self.end_word(),
                c => self.push(c),
            }
        }
        self.end_command();
    }

    fn quoted(&mut self) {
        self.word();
        while let Some(c) = self.next() {
            match c {
                '"' => return,
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
    }

    /// Reads a variable, a sum or a command behind a dollar sign.
    fn expand(&mut self, mut is_quoted: bool) {
        let rest: String = self.chars[self.at..].iter().take(2).collect();
        let words = if rest == "((" {
            self.at += 2;
            let text = self.until(')');
            self.at += usize::from(self.peek() == Some(')'));
            vec![self.sum(&text)]
        } else if rest.starts_with('(') {
            self.at += 1;
            self.until(')');
            return self.unread("the output of a command is not known");
        } else if rest.starts_with('{') {
            self.at += 1;
            let text = self.until('}');
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
                name if name.is_empty() => return self.push('$'),
                name => self.variable(&name),
            }
        };
        for (index, word) in words.into_iter().enumerate() {
            if index > 0 {
                self.end_word();
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
        let text = &*text.replace("[@]", "").replace("[*]", "");
        // `${A[@]+"${A[@]}"}` is how scripts use an array that may not be set.
        if let Some((name, own)) = text.split_once('+') {
            let name = name.trim_end_matches(':');
            if own.trim_matches('"') == format!("${{{name}}}") {
                let is_set = self.variables.contains_key(name);
                let words = if is_set { self.variable(name) } else { Vec::new() };
                return (words, own.starts_with('"'));
            }
        }
        match text.split_once(":-").or_else(|| text.split_once('-')) {
            Some((name, default)) if name.chars().all(is_name) => {
                let set = self.variable(name);
                let is_set = set.iter().any(|word| word.unread.is_empty() && !word.text.is_empty());
                if is_set {
                    return (set, false);
                }
                (vec![self.default_of(default)], default.starts_with('"'))
            }
            _ => (self.variable(text), false),
        }
    }

    /// The default of a variable, in which others may stand.
    fn default_of(&mut self, text: &str) -> Word {
        if self.nesting >= DEPTH {
            return unknown("defaults nest too deeply".into());
        }
        let mut inner = Self {
            chars: text.chars().collect(),
            line: self.line,
            variables: std::mem::take(&mut self.variables),
            doubts: std::mem::take(&mut self.doubts),
            copied: self.copied,
            nesting: self.nesting + 1,
            ..Self::default()
        };
        while inner.peek().is_some() {
            inner.quoted();
        }
        (self.variables, self.doubts, self.copied) = (inner.variables, inner.doubts, inner.copied);
        inner.word.unwrap_or_default()
    }

    /// The words of a variable of the script. Of the environment `HOME` alone is read, below which
    /// scripts have data and models: others may be secret, and another machine has others.
    fn variable(&mut self, name: &str) -> Vec<Word> {
        let of_word = |word: &Word| {
            let reasons = word.unread.iter().map(|part| size_of_val(part) + part.1.len());
            size_of::<Word>() + word.text.len() + reasons.sum::<usize>()
        };
        let of_doubt = |(_, name): &(usize, String)| size_of::<(usize, String)>() + name.len();
        if let Some(Variable { words, doubts }) = self.variables.get(name) {
            self.copied += words.iter().map(of_word).sum::<usize>();
            self.copied += doubts.iter().map(of_doubt).sum::<usize>();
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
        vec![unknown(format!("the script does not set ${name}"))]
    }

    fn sum(&mut self, text: &str) -> Word {
        let chars: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
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
        if let Some(word) = self.word.take().filter(|_| self.words.len() < WORDS) {
            self.words.push(word);
        }
    }

    /// The variable that is assigned now, whose words are to be set or grown.
    fn assign(&mut self, name: &str, adds: bool, line: usize) -> &mut Variable {
        let variable = self.variables.entry(name.to_owned()).or_default();
        if !adds {
            *variable = Variable::default();
        }
        variable.doubts.extend(self.doubts.iter().cloned());
        if self.depth > 0 || self.is_chained {
            variable.doubts.insert((line, name.to_owned()));
        }
        variable
    }

    /// Ends a command: sets the variables that it begins with, and keeps what is left.
    fn end_command(&mut self) {
        self.end_word();
        let mut words = std::mem::take(&mut self.words);
        let prefixes =
            ["export", "local", "readonly", "declare", "typeset", "then", "else", "do", "{"];
        while let Some(first) = words.first() {
            match &*first.text {
                "if" | "case" | "for" | "while" | "until" | "{" => self.depth += 1,
                "fi" | "esac" | "done" | "}" => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            match first.text.split_once('=') {
                Some((name, text)) if is_variable(assigned(name).0) => {
                    let (name, adds) = assigned(name);
                    let known = &mut self.assign(name, adds, first.line).words;
                    if known.is_empty() {
                        known.push(Word { line: first.line, ..Word::default() });
                    }
                    // In an array the first word grows.
                    let value = &mut known[0];
                    let (before, after) = (first.text.len() - text.len(), value.text.len());
                    let missing = first.unread.iter().cloned();
                    value.unread.extend(
                        missing
                            .map(|(place, reason)| (place.saturating_sub(before) + after, reason)),
                    );
                    value.text.push_str(text);
                }
                _ if prefixes.contains(&&*first.text) => {}
                _ => break,
            }
            words.remove(0);
        }
        let doubts = std::mem::take(&mut self.doubts);
        if !words.is_empty() {
            self.commands.push(Command { words, doubts });
        }
    }
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
        if self.take(&['(']).is_some() {
            let inner = if depth < DEPTH { self.terms(depth + 1)? } else { return None };
            return self.take(&[')']).map(|_| inner);
        }
        let rest = &self.chars[self.at..];
        let len = rest.iter().take_while(|c| is_name(**c) || "${}".contains(**c)).count();
        let text: String = rest[..len].iter().filter(|c| is_name(**c)).collect();
        self.at += len;
        match text.parse() {
            Ok(number) => Some(number),
            Err(_) => match &self.shell.variable(&text)[..] {
                [word] if word.unread.is_empty() => word.text.trim().parse().ok(),
                _ => None,
            },
        }
    }
}
