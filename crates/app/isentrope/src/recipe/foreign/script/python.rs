//! A Python script's calls, imports, functions and assignments, as far as they can be known without
//! running it: literals, lists and dictionaries of them, and names. Whatever else stands in the
//! place of a value is unread, and known by its line.

use super::literal;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// Deepest nesting of brackets, most arguments of a call that methods are added to, longest chain of
/// names up to a value, and most assignments of a name whose lines are listed.
pub const DEPTH: usize = 32;
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
    /// Terms and factors, each behind its sign.
    Sum(Rc<[(&'static str, Value)]>),
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
    /// Parameters of functions, with the places of each function's body.
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
        let before = &bodies[..bodies.partition_point(|body| body.start <= at)];
        let start = before.iter().rfind(|body| body.contains(&at)).map_or(0, |body| body.start);
        let is_own = |one: &&Assignment| one.value.name.is_none() && one.end > start;
        let own = || self.before(name, at).iter().filter(is_own);
        let value = &own().next_back()?.value.value;
        let lines = own().rev().filter(|one| !one.is_change).map(|one| one.value.line);
        Some((value, lines.take(LINES).collect()))
    }

    /// The value that a function returns, as [`Self::assigned`] has it.
    pub fn returned(&self, function: &str) -> Option<(&Value, Vec<usize>)> {
        self.assigned(&format!("{function}()"), usize::MAX)
    }

    /// Whether a call is one of peft's, or of a function that stands for one of them.
    pub fn is_of_peft(&self, call: &Call) -> bool {
        let first = call.name.split('.').next().unwrap_or_default();
        let module = self.imports.get(first).map_or(first, |module| module);
        module.split('.').next() == Some("peft") || call.name.ends_with("get_peft_model")
    }

    /// Whether it imports Unsloth, which changes TRL.
    pub fn has_unsloth(&self) -> bool {
        self.imports.values().any(|module| module.split('.').next() == Some("unsloth"))
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
    let (function, python) = ((String::new(), 0), Python::default());
    let mut reader = Reader { tokens: &tokens, at: 0, class_end: 0, function, python };
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
    /// Its distance from the left margin.
    column: usize,
}

/// The tokens of a script. `End` stands behind each statement.
fn tokens(text: &str) -> Result<Vec<Token>, usize> {
    let chars: Vec<char> = text.chars().collect();
    let (mut found, mut at, mut line, mut open) = (Vec::new(), 0, 1, Vec::new());
    let mut margin = 0;
    while let Some(&c) = chars.get(at) {
        let (start, column) = (at, at - margin);
        at += 1;
        let kind = match c {
            '\n' => {
                (line, margin) = (line + 1, at);
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
            ';' if open.is_empty() => Kind::End,
            c => {
                match c {
                    '(' | '[' | '{' => open.push(line),
                    ')' | ']' | '}' => drop(open.pop()),
                    _ => {}
                }
                Kind::Sign(c)
            }
        };
        found.push(Token { kind, line, column });
    }
    found.push(Token { kind: Kind::End, line, column: 0 });
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
    /// The latest function at the left margin, and the place behind it.
    function: (String, usize),
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

    /// Whether `=` stands some tokens ahead, and not `==`.
    fn is_assigned(&self, ahead: usize) -> bool {
        let sign = Kind::Sign('=');
        *self.kind(ahead) == sign && *self.kind(ahead + 1) != sign
    }

    fn statement(&mut self) -> Result<(), usize> {
        let Token { line, column, .. } = self.tokens[self.at];
        let begins = self.at.checked_sub(1).is_none_or(|at| self.tokens[at].kind == Kind::End);
        let at_margin = begins && column == 0;
        let returns = self.word(0) == Some("return") && self.at < self.function.1;
        if matches!(self.word(0), Some("return" | "async" | "await")) {
            self.at += 1;
        }
        let first = self.word(0).map(str::to_owned);
        let mut names: Vec<String> = first.clone().into_iter().collect();
        while *self.kind(2 * names.len() - usize::from(first.is_some())) == Kind::Sign(',')
            && let Some(name) = self.word(2 * names.len())
        {
            names.push(name.to_owned());
        }
        match first.as_deref() {
            Some("def") => {
                let name = self.word(1).unwrap_or_default().to_owned();
                self.python.functions.insert(name.clone(), line);
                self.at += 2;
                if begins && self.is('(') {
                    let end = self.take_parameters(column);
                    if at_margin {
                        self.function = (name, end);
                    }
                }
            }
            Some("from") => self.import(),
            Some(
                "if" | "for" | "while" | "with" | "class" | "elif" | "else" | "try" | "except"
                | "finally",
            ) => {
                if first.as_deref() == Some("class") && at_margin {
                    self.at += 1;
                    self.class_end = self.body_end(column);
                }
                self.skip_head();
                return Ok(());
            }
            Some("import") => {
                let module = self.word(1).unwrap_or_default().to_owned();
                self.python.imports.insert(module.clone(), module);
            }
            Some(_) if self.is_assigned(2 * names.len() - 1) => {
                let ahead = 2 * names.len();
                self.assign(names, None, ahead, line)?;
            }
            Some(_) if *self.kind(1) == Kind::Sign('.') && self.is_assigned(3) => {
                let attribute = self.word(2).map(str::to_owned);
                self.assign(names, attribute, 4, line)?;
            }
            // `name: type = value`; in a class it is a field.
            Some(_) if self.at >= self.class_end && *self.kind(1) == Kind::Sign(':') => {
                self.at += 1;
                while self.is(':') || self.is('|') {
                    self.at += 1;
                    self.primary(0)?;
                }
                if self.is_assigned(0) {
                    self.assign(names, None, 1, line)?;
                }
            }
            // `name += ...`
            Some(name)
                if matches!(self.kind(1), Kind::Sign('+' | '-' | '*' | '/' | '%' | '|'))
                    && (self.is_assigned(2) || self.kind(1) == self.kind(2)) =>
            {
                let value = Argument { name: None, value: Value::Unread, line };
                self.set(name.to_owned(), value, true);
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
                if returns {
                    let value = Argument { name: None, value, line };
                    self.set(format!("{}()", self.function.0), value, false);
                }
            }
            None => {}
        }
        while self.at < self.tokens.len() && *self.kind(0) != Kind::End {
            self.at += 1;
        }
        self.at += 1;
        Ok(())
    }

    /// Takes the names of a function's parameters, and where its body is. Returns its end.
    fn take_parameters(&mut self, column: usize) -> usize {
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
        let end = self.body_end(column);
        for name in names {
            self.python.parameters.entry(name).or_default().push(self.at..end);
        }
        end
    }

    /// The end of the body of a function or a class that begins in a column.
    fn body_end(&self, column: usize) -> usize {
        let rest = self.tokens.get(self.at..).unwrap_or_default();
        let is_behind = |pair: &[Token]| {
            let [before, Token { kind, column: own, .. }] = pair else { return false };
            before.kind == Kind::End && *kind != Kind::End && *own <= column
        };
        rest.windows(2).position(is_behind).map_or(usize::MAX, |len| self.at + len + 1)
    }

    /// Skips `if ...:` and its like, up to the body, which may stand on the same line. The names
    /// that it binds have values that are not known.
    fn skip_head(&mut self) {
        let is_loop = self.word(0) == Some("for");
        self.at += usize::from(is_loop);
        let (mut open, mut binds, mut names) = (0, is_loop, Vec::new());
        let line = self.tokens.get(self.at).map_or(0, |token| token.line);
        while *self.kind(0) != Kind::End && (open > 0 || !self.is(':')) {
            match self.kind(0) {
                Kind::Sign('(' | '[' | '{') => open += 1,
                Kind::Sign(')' | ']' | '}') => open -= 1,
                Kind::Sign(',') => binds &= is_loop,
                Kind::Word(word) if word == "as" => binds = true,
                Kind::Word(word) if word == "in" => binds = false,
                Kind::Word(word) if binds => names.push(word.clone()),
                _ => {}
            }
            self.at += 1;
        }
        self.at += 1;
        for name in names {
            self.set(name, Argument { name: None, value: Value::Unread, line }, false);
        }
    }

    /// Notes what a name, or an attribute of it, is given here.
    fn set(&mut self, name: String, value: Argument, is_change: bool) {
        let assignment = Assignment { end: self.at, value, is_change };
        self.python.variables.entry(name).or_default().push(assignment);
    }

    /// Reads the value of names or of an attribute, which stands some tokens ahead.
    fn assign(
        &mut self,
        mut names: Vec<String>,
        attribute: Option<String>,
        ahead: usize,
        line: usize,
    ) -> Result<(), usize> {
        self.at += ahead;
        let is_tuple = names.len() > 1;
        // `name = name = value`
        while !is_tuple
            && attribute.is_none()
            && self.is_assigned(1)
            && let Some(name) = self.word(0)
        {
            names.push(name.to_owned());
            self.at += 2;
        }
        let first = self.word(0).map(str::to_owned);
        let mut values = vec![self.expression(0)?];
        while self.is(',') {
            self.at += 1;
            values.push(self.expression(0)?);
        }
        let whole = if values.len() > 1 { Value::List(values.into()) } else { values.remove(0) };
        let count = names.len();
        for (place, name) in names.into_iter().enumerate() {
            let value = match &whole {
                value if !is_tuple => value.clone(),
                Value::List(items) if items.len() == count => items[place].clone(),
                // Unsloth's gives a model and its tokenizer.
                Value::Call(call) if place == 0 && call.name.ends_with("from_pretrained") => {
                    whole.clone()
                }
                _ => Value::Unread,
            };
            let is_own = first.as_ref() == Some(&name);
            let is_name = |value: &Value| matches!(value, Value::Name(other, _) if *other == name);
            let is_change = match &value {
                Value::Call(call) => is_own || call.arguments.iter().any(|one| is_name(&one.value)),
                _ => is_own,
            };
            self.set(name, Argument { name: attribute.clone(), value, line }, is_change);
        }
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
        let mut terms = vec![("+", value)];
        while let Some(sign) = self.operator().filter(|_| terms.len() < DEPTH) {
            self.at += sign.len();
            terms.push((sign, self.primary(depth)?));
        }
        if self.is_end() {
            return Ok(match terms.len() {
                1 => terms.remove(0).1,
                _ => Value::Sum(terms.into()),
            });
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

    /// The sign of a sum or a product.
    fn operator(&self) -> Option<&'static str> {
        match (self.kind(0), self.kind(1)) {
            (Kind::Sign('+'), _) => Some("+"),
            (Kind::Sign('-'), _) => Some("-"),
            (Kind::Sign('/'), Kind::Sign('/')) => Some("//"),
            (Kind::Sign('/'), _) => Some("/"),
            (Kind::Sign('*'), Kind::Sign('*')) => None,
            (Kind::Sign('*'), _) => Some("*"),
            _ => None,
        }
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
            _ if !sign.is_empty() => return Ok(Value::Unread),
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
                let entries = items.into_iter().map(entry).collect::<Option<Rc<[_]>>>();
                entries.map_or(Value::Unread, Value::Dict)
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

/// Two numbers or texts behind each other, by a sign of Python. None if that is no sum of theirs.
pub fn operate(a: toml::Value, sign: &str, b: toml::Value) -> Option<toml::Value> {
    use toml::Value::{Float, Integer, String};
    Some(match (a, sign, b) {
        (String(a), "+", String(b)) => String(a + &b),
        (Integer(a), "+", Integer(b)) => Integer(a.checked_add(b)?),
        (Integer(a), "-", Integer(b)) => Integer(a.checked_sub(b)?),
        (Integer(a), "*", Integer(b)) => Integer(a.checked_mul(b)?),
        // Down, where Rust rounds to zero.
        (Integer(a), "//", Integer(b)) if a >= 0 && b > 0 => Integer(a / b),
        (a, sign, b) => {
            let number = |x: toml::Value| x.as_float().or_else(|| Some(x.as_integer()? as f64));
            let (a, b) = (number(a)?, number(b)?);
            let made = match sign {
                "+" => a + b,
                "-" => a - b,
                "*" => a * b,
                "/" => a / b,
                _ => return None,
            };
            Float(Some(made).filter(|made| made.is_finite())?)
        }
    })
}

/// A sum with a term more, which stands behind its sign.
pub fn add(
    sum: Option<toml::Value>,
    term: Option<(&str, toml::Value)>,
) -> Option<Option<toml::Value>> {
    Some(match (sum, term) {
        (Some(sum), Some((sign, term))) => Some(operate(sum, sign, term)?),
        (sum, term) => sum.or(term.map(|(_, term)| term)),
    })
}

/// Adds an argument to a call.
fn more(mut call: Rc<Call>, argument: Argument) -> Value {
    if call.arguments.len() >= ARGUMENTS {
        return Value::Unread;
    }
    Rc::make_mut(&mut call).arguments.push(argument);
    Value::Call(call)
}
