//! A Python script's calls, imports, functions and assignments, as far as they can be known without
//! running it: literals, lists and dictionaries of them, and names. Whatever else stands in the
//! place of a value is unread, and known by its line.

use super::literal;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// Deepest nesting of brackets, most arguments of a call that methods are added to, longest chain of
/// names up to a value, and most assignments of a name whose lines are listed.
const DEPTH: usize = 32;
const ARGUMENTS: usize = 256;
pub const NAMES: usize = 64;
const LINES: usize = 8;

/// The value of an expression.
#[derive(Clone, Debug)]
pub enum Value {
    None,
    Literal(toml::Value),
    /// A name, perhaps with dots, and its place among the tokens.
    Name(String, usize),
    List(Rc<[Value]>),
    Dict(Rc<[(String, Value)]>),
    Call(Rc<Call>),
    Unread,
}

/// A call by name, or an index of a name. A method or an index of its result is an argument called
/// `.NAME` or `[]`.
#[derive(Clone, Debug)]
pub struct Call {
    pub name: String,
    pub arguments: Vec<Argument>,
    pub line: usize,
    /// The place of its name.
    pub at: usize,
}

/// An argument, with its name if it has one.
#[derive(Clone, Debug)]
pub struct Argument {
    pub name: Option<String>,
    pub value: Value,
    pub line: usize,
}

impl Call {
    /// An argument by its place or its name.
    pub fn argument(&self, place: usize, name: &str) -> Option<&Argument> {
        let named = |argument: &&Argument| argument.name.as_deref() == Some(name);
        let placed = || self.arguments.get(place).filter(|argument| argument.name.is_none());
        self.arguments.iter().find(named).or_else(placed)
    }
}

/// A value that a name, or an attribute of it, is given.
struct Assignment {
    /// The place behind it.
    end: usize,
    /// With the attribute's name.
    value: Argument,
    /// Whether the value is made of the name's value before.
    is_change: bool,
}

/// A script that was read.
#[derive(Default)]
pub struct Python {
    /// Its calls, inner ones first.
    pub calls: Vec<Rc<Call>>,
    /// The line of each of its functions.
    pub functions: BTreeMap<String, usize>,
    /// The module of each imported name.
    pub imports: BTreeMap<String, String>,
    /// Whether importing the file would run more than definitions.
    pub runs_on_import: bool,
    variables: BTreeMap<String, Vec<Assignment>>,
    /// Parameters of functions at the left margin, with the places of each function's body.
    parameters: BTreeMap<String, Vec<Range<usize>>>,
}

impl Python {
    /// The assignments of a name that stand before a place.
    fn before(&self, name: &str, at: usize) -> &[Assignment] {
        let all = self.variables.get(name).map_or(&[][..], |all| all);
        &all[..all.partition_point(|assignment| assignment.end <= at)]
    }

    /// The value that a name has at a place, if the script assigned one, and the lines of the
    /// assignments that could have given it, last first.
    pub fn assigned(&self, name: &str, at: usize) -> Option<(&Value, Vec<usize>)> {
        // A parameter has its caller's value, until the function's body assigns another.
        let bodies = self.parameters.get(name).map_or(&[][..], |all| all);
        let body = bodies[..bodies.partition_point(|body| body.start <= at)].last();
        let start = body.filter(|body| body.contains(&at)).map_or(0, |body| body.start);
        let is_own = |one: &&Assignment| one.value.name.is_none() && one.end > start;
        let own = || self.before(name, at).iter().filter(is_own);
        let value = &own().next_back()?.value.value;
        let lines = own().rev().filter(|one| !one.is_change).map(|one| one.value.line);
        Some((value, lines.take(LINES).collect()))
    }

    /// Whether a call is one of peft's, or of a function that stands for one of them.
    pub fn is_of_peft(&self, call: &Call) -> bool {
        let first = call.name.split('.').next().unwrap_or_default();
        let module = self.imports.get(first).map_or(first, |module| module);
        module.split('.').next() == Some("peft") || call.name.ends_with("get_peft_model")
    }

    /// The attributes that are set on what a value names, since the name was assigned.
    pub fn attributes(&self, value: &Value) -> impl Iterator<Item = &Argument> {
        let before = match value {
            Value::Name(name, at) => self.before(name, *at),
            _ => &[],
        };
        let start = before.iter().rposition(|one| one.value.name.is_none()).unwrap_or(before.len());
        before[start..].iter().skip(1).map(|one| &one.value)
    }

    /// The value of a name, through other names. `met` takes each name and the lines that assign it.
    pub fn resolve<'a>(
        &'a self,
        mut value: &'a Value,
        mut met: impl FnMut(&str, Vec<usize>),
    ) -> &'a Value {
        for _ in 0..NAMES {
            let Value::Name(name, at) = value else { break };
            let Some((assigned, lines)) = self.assigned(name, *at) else { break };
            met(name, lines);
            value = assigned;
        }
        value
    }
}

/// Reads a script.
///
/// # Errors
/// The line of a text or a bracket that does not end, or nests too deeply.
pub fn read(text: &str) -> Result<Python, usize> {
    let tokens = tokens(text)?;
    let mut reader = Reader { tokens: &tokens, at: 0, class_end: 0, python: Python::default() };
    while reader.at < tokens.len() {
        reader.statement()?;
    }
    Ok(reader.python)
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Word(String),
    Text(String),
    /// A text that the script makes while it runs.
    Formatted,
    Sign(char),
    End,
}

#[derive(Clone, Debug)]
struct Token {
    kind: Kind,
    line: usize,
    /// Whether it begins at the left margin.
    at_margin: bool,
}

/// The tokens of a script. `End` stands behind each statement.
fn tokens(text: &str) -> Result<Vec<Token>, usize> {
    let chars: Vec<char> = text.chars().collect();
    let (mut found, mut at, mut line, mut open) = (Vec::new(), 0, 1, Vec::new());
    while let Some(&c) = chars.get(at) {
        let (start, at_margin) = (at, at == 0 || chars[at - 1] == '\n');
        at += 1;
        let kind = match c {
            '\n' => {
                line += 1;
                if !open.is_empty() {
                    continue;
                }
                Kind::End
            }
            '\\' if chars.get(at) == Some(&'\n') => {
                (at, line) = (at + 1, line + 1);
                continue;
            }
            '#' => {
                at += chars[at..].iter().take_while(|c| **c != '\n').count();
                continue;
            }
            c if c.is_whitespace() => continue,
            '"' | '\'' => string(&chars, &mut at, &mut line, c, "")?,
            c if is_word(c) => {
                let is_number = c.is_ascii_digit();
                let is_exponent = |at: usize| is_number && matches!(chars[at - 1], 'e' | 'E');
                while chars.get(at).is_some_and(|&c| {
                    is_word(c) || is_number && c == '.' || "+-".contains(c) && is_exponent(at)
                }) {
                    at += 1;
                }
                let word: String = chars[start..at].iter().collect();
                match chars.get(at) {
                    Some(&quote @ ('"' | '\'')) if word.len() <= 2 && !is_number => {
                        at += 1;
                        string(&chars, &mut at, &mut line, quote, &word.to_lowercase())?
                    }
                    _ => Kind::Word(word),
                }
            }
            '.' if chars.get(at).is_some_and(char::is_ascii_digit) => {
                at += chars[at..].iter().take_while(|c| is_word(**c)).count();
                Kind::Word(format!("0{}", chars[start..at].iter().collect::<String>()))
            }
            c => {
                match c {
                    '(' | '[' | '{' => open.push(line),
                    ')' | ']' | '}' => drop(open.pop()),
                    _ => {}
                }
                Kind::Sign(c)
            }
        };
        found.push(Token { kind, line, at_margin });
    }
    found.push(Token { kind: Kind::End, line, at_margin: false });
    open.first().map_or(Ok(found), |line| Err(*line))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A text behind its first quote.
fn string(
    chars: &[char],
    at: &mut usize,
    line: &mut usize,
    quote: char,
    prefix: &str,
) -> Result<Kind, usize> {
    let (begin, is_raw) = (*line, prefix.contains('r'));
    let has_three = |at: usize| chars[at..].starts_with(&[quote; 3]);
    let is_long = *at > 0 && has_three(*at - 1);
    *at += if is_long { 2 } else { 0 };
    let mut text = String::new();
    loop {
        let c = *chars.get(*at).ok_or(begin)?;
        *at += 1;
        match c {
            c if c == quote && (!is_long || has_three(*at - 1)) => break,
            '\n' if !is_long => return Err(begin),
            '\\' => {
                let next = *chars.get(*at).ok_or(begin)?;
                *at += 1;
                *line += usize::from(next == '\n');
                match next {
                    next if is_raw => text.extend(['\\', next]),
                    '\n' => {}
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    '\\' | '"' | '\'' => text.push(next),
                    next => text.extend(['\\', next]),
                }
            }
            c => {
                *line += usize::from(c == '\n');
                text.push(c);
            }
        }
    }
    *at += if is_long { 2 } else { 0 };
    Ok(if prefix.contains(['f', 'b', 't']) { Kind::Formatted } else { Kind::Text(text) })
}

struct Reader<'a> {
    tokens: &'a [Token],
    at: usize,
    /// The place behind the latest class.
    class_end: usize,
    python: Python,
}

impl Reader<'_> {
    fn kind(&self, ahead: usize) -> &Kind {
        self.tokens.get(self.at + ahead).map_or(&Kind::End, |token| &token.kind)
    }

    fn is(&self, sign: char) -> bool {
        *self.kind(0) == Kind::Sign(sign)
    }

    fn word(&self, ahead: usize) -> Option<&str> {
        match self.kind(ahead) {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    fn statement(&mut self) -> Result<(), usize> {
        let Token { line, at_margin, .. } = self.tokens[self.at];
        if matches!(self.word(0), Some("return" | "async" | "await")) {
            self.at += 1;
        }
        let first = self.word(0).map(str::to_owned);
        let is_assigned = |reader: &Self, ahead: usize| {
            *reader.kind(ahead) == Kind::Sign('=') && *reader.kind(ahead + 1) != Kind::Sign('=')
        };
        match first.as_deref() {
            Some("def") => {
                let name = self.word(1).unwrap_or_default().to_owned();
                self.python.functions.insert(name, line);
                self.at += 2;
                if at_margin && self.is('(') {
                    self.take_parameters();
                }
            }
            Some("from") => self.import(),
            Some("if" | "for" | "while" | "with" | "class" | "elif" | "else" | "try") => {
                if first.as_deref() == Some("class") && at_margin {
                    self.at += 1;
                    self.class_end = self.body_end();
                }
                self.skip_head();
                return Ok(());
            }
            Some("import") => {}
            Some(name) if is_assigned(self, 1) => self.assign(name, None, 2, line)?,
            Some(name) if *self.kind(1) == Kind::Sign('.') && is_assigned(self, 3) => {
                let attribute = self.word(2).map(str::to_owned);
                self.assign(name, attribute, 4, line)?;
            }
            // `name: type = value`; in a class it is a field.
            Some(name) if self.at >= self.class_end && *self.kind(1) == Kind::Sign(':') => {
                self.at += 1;
                while self.is(':') || self.is('|') {
                    self.at += 1;
                    self.primary(0)?;
                }
                if is_assigned(self, 0) {
                    self.assign(name, None, 1, line)?;
                }
            }
            // `name += ...`
            Some(name)
                if matches!(self.kind(1), Kind::Sign('+' | '-' | '*' | '/' | '%' | '|'))
                    && (is_assigned(self, 2) || self.kind(1) == self.kind(2)) =>
            {
                let value = Argument { name: None, value: Value::Unread, line };
                let assignment = Assignment { end: self.at, value, is_change: true };
                self.python.variables.entry(name.to_owned()).or_default().push(assignment);
            }
            Some(_) => {
                let value = self.expression(0)?;
                let is_own = |name: &String| self.python.functions.contains_key(name);
                let runs = match &value {
                    Value::Call(call) => {
                        is_own(&call.name)
                            || call.name.ends_with(".train")
                            || call.argument(usize::MAX, ".train").is_some()
                    }
                    _ => false,
                };
                self.python.runs_on_import |= at_margin && runs;
            }
            None => {}
        }
        while self.at < self.tokens.len() && *self.kind(0) != Kind::End {
            self.at += 1;
        }
        self.at += 1;
        Ok(())
    }

    /// Takes the names of a function's parameters, and where its body is.
    fn take_parameters(&mut self) {
        let (mut open, mut is_name, mut names) = (0, false, Vec::new());
        while *self.kind(0) != Kind::End {
            match self.kind(0) {
                Kind::Sign('(' | '[' | '{') => open += 1,
                Kind::Sign(')' | ']' | '}') => open -= 1,
                Kind::Word(name) if open == 1 && is_name => names.push(name.clone()),
                _ => {}
            }
            is_name = is_name && self.is('*') || matches!(self.kind(0), Kind::Sign('(' | ','));
            self.at += 1;
            if open == 0 {
                break;
            }
        }
        let body = self.at..self.body_end();
        for name in names {
            self.python.parameters.entry(name).or_default().push(body.clone());
        }
    }

    /// The end of the body of a function or a class at the left margin.
    fn body_end(&self) -> usize {
        let mut rest = self.tokens.iter().skip(self.at);
        let len = rest.position(|token| token.at_margin && token.kind != Kind::End);
        len.map_or(usize::MAX, |len| self.at + len)
    }

    /// Skips `if ...:` and its like, up to the body, which may stand on the same line.
    fn skip_head(&mut self) {
        let mut open = 0;
        while *self.kind(0) != Kind::End && (open > 0 || !self.is(':')) {
            match self.kind(0) {
                Kind::Sign('(' | '[' | '{') => open += 1,
                Kind::Sign(')' | ']' | '}') => open -= 1,
                _ => {}
            }
            self.at += 1;
        }
        self.at += 1;
    }

    /// Reads the value of a name or its attribute, which stands some tokens ahead.
    fn assign(
        &mut self,
        name: &str,
        attribute: Option<String>,
        ahead: usize,
        line: usize,
    ) -> Result<(), usize> {
        self.at += ahead;
        let is_own = self.word(0) == Some(name);
        let value = Argument { name: attribute, value: self.expression(0)?, line };
        let is_name = |value: &Value| matches!(value, Value::Name(other, _) if other == name);
        let is_change = match &value.value {
            Value::Call(call) => is_own || call.arguments.iter().any(|one| is_name(&one.value)),
            _ => is_own,
        };
        let assignment = Assignment { end: self.at, value, is_change };
        self.python.variables.entry(name.to_owned()).or_default().push(assignment);
        Ok(())
    }

    /// `from MODULE import NAME, NAME as OTHER`
    fn import(&mut self) {
        let (mut module, mut name) = (String::new(), None);
        let mut names = Vec::new();
        self.at += 1;
        let mut is_module = true;
        loop {
            match self.kind(0) {
                Kind::End => break,
                Kind::Word(word) if word == "import" => is_module = false,
                Kind::Word(word) if is_module => module.push_str(word),
                Kind::Sign('.') => module.push('.'),
                Kind::Word(word) => name = Some(word.clone()),
                Kind::Sign(',') => names.extend(name.take()),
                _ => {}
            }
            self.at += 1;
        }
        names.extend(name);
        self.python.imports.extend(names.into_iter().map(|name| (name, module.clone())));
    }

    /// An expression, up to what ends it.
    fn expression(&mut self, depth: usize) -> Result<Value, usize> {
        let value = self.primary(depth)?;
        if self.is_end() {
            return Ok(value);
        }
        let mut open = 0;
        while open > 0 || !self.is_end() {
            match self.kind(0) {
                Kind::End => break,
                Kind::Sign('(' | '[' | '{') => open += 1,
                Kind::Sign(')' | ']' | '}') => open -= 1,
                _ => {}
            }
            self.at += 1;
        }
        Ok(Value::Unread)
    }

    fn is_end(&self) -> bool {
        matches!(self.kind(0), Kind::End | Kind::Sign(',' | ')' | ']' | '}' | ':'))
    }

    fn primary(&mut self, depth: usize) -> Result<Value, usize> {
        let line = self.tokens.get(self.at).map_or(0, |token| token.line);
        if depth > DEPTH {
            return Err(line);
        }
        let sign = if self.is('-') { "-" } else { "" };
        self.at += sign.len();
        let mut value = match self.kind(0).clone() {
            Kind::Word(word) => {
                let at = self.at;
                self.at += 1;
                match (&*word, literal(&format!("{sign}{word}"))) {
                    ("None", _) => Value::None,
                    (_, Some(literal)) => Value::Literal(literal),
                    _ if !sign.is_empty() => Value::Unread,
                    _ => Value::Name(word, at),
                }
            }
            Kind::Text(mut text) => {
                self.at += 1;
                while let Kind::Text(more) = self.kind(0) {
                    text.push_str(more);
                    self.at += 1;
                }
                Value::Literal(text.into())
            }
            Kind::Sign('(') => match &self.items(depth, ')')?[..] {
                [only] => only.value.clone(),
                items => Value::List(items.iter().map(|item| item.value.clone()).collect()),
            },
            Kind::Sign('[') => {
                let items = self.items(depth, ']')?;
                Value::List(items.into_iter().map(|item| item.value).collect())
            }
            Kind::Sign('{') => {
                let items = self.items(depth, '}')?;
                let entry = |item: Argument| Some((item.name?, item.value));
                Value::Dict(items.into_iter().filter_map(entry).collect())
            }
            _ => return Ok(Value::Unread),
        };
        loop {
            let line = self.tokens.get(self.at).map_or(line, |token| token.line);
            value = match (self.kind(0).clone(), value) {
                (Kind::Sign('.'), value) => {
                    let name = self.word(1).unwrap_or_default().to_owned();
                    self.at += 2;
                    match value {
                        Value::Name(mut of, at) => {
                            of.push('.');
                            of.push_str(&name);
                            Value::Name(of, at)
                        }
                        Value::Call(call) => {
                            let name = Some(format!(".{name}"));
                            more(call, Argument { name, value: Value::Unread, line })
                        }
                        _ => Value::Unread,
                    }
                }
                (Kind::Sign('('), Value::Name(name, at)) => {
                    let arguments = self.items(depth, ')')?;
                    let call = Rc::new(Call { name, arguments, line, at });
                    self.python.calls.push(Rc::clone(&call));
                    Value::Call(call)
                }
                (Kind::Sign('('), value) => {
                    self.items(depth, ')')?;
                    value
                }
                (Kind::Sign('['), value) => {
                    let index = self.items(depth, ']')?.into_iter().next();
                    let index = index.map(|index| Argument { name: Some("[]".into()), ..index });
                    match (value, index) {
                        (Value::Call(call), Some(index)) => more(call, index),
                        (Value::Name(name, at), Some(index)) => {
                            Value::Call(Rc::new(Call { name, arguments: vec![index], line, at }))
                        }
                        _ => Value::Unread,
                    }
                }
                (_, value) => return Ok(value),
            };
        }
    }

    /// Items between brackets: values, `name=value` or `key: value`.
    fn items(&mut self, depth: usize, close: char) -> Result<Vec<Argument>, usize> {
        self.at += 1;
        let mut items = Vec::new();
        while !self.is(close) && *self.kind(0) != Kind::End {
            let line = self.tokens[self.at].line;
            let is_named = *self.kind(1) == Kind::Sign('=') && *self.kind(2) != Kind::Sign('=');
            let mut name = None;
            if is_named && let Some(word) = self.word(0) {
                name = Some(word.to_owned());
                self.at += 2;
            }
            let mut value = self.expression(depth + 1)?;
            // A dictionary's value; or a slice, or a lambda.
            while self.is(':') {
                self.at += 1;
                let next = self.expression(depth + 1)?;
                let key = std::mem::replace(&mut value, Value::Unread);
                if let (Value::Literal(toml::Value::String(key)), '}', None) = (key, close, &name) {
                    (name, value) = (Some(key), next);
                }
            }
            items.push(Argument { name, value, line });
            // A sign that opens nothing here, such as a bracket of another form.
            self.at += usize::from(!self.is(close));
        }
        self.at += 1;
        Ok(items)
    }
}

/// Adds an argument to a call.
fn more(mut call: Rc<Call>, argument: Argument) -> Value {
    if call.arguments.len() >= ARGUMENTS {
        return Value::Unread;
    }
    Rc::make_mut(&mut call).arguments.push(argument);
    Value::Call(call)
}
