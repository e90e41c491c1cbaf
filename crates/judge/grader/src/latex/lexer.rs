//! Cuts text into tokens. Markup for looks (sizes, fonts, spaces, dollars, boxes) is left out.

use super::Kind::{And, Begin, Command, End, Letter, Mark, Number, Or, Row, Upright, Word};
use super::commands::{is_ornament, names_points, row_spacing, takes_group_away};
use super::digits::{Commas, number_length};
use super::{Kind, MAX_TOKENS, Token, TooLong};
use crate::phrases::formulas::{command, is_short_word};
use crate::phrases::numbers::number;
use crate::phrases::statements::{AND, OR};
use crate::phrases::units::{ORDINALS, is_short_unit, is_unit_letter};

/// Cuts a text, which must be [plain](super::plain()), into tokens.
pub fn tokenise(source: &str, commas: Commas) -> Result<Vec<Token<'_>>, TooLong> {
    let mut lexer = Lexer {
        source,
        place: 0,
        commas,
        closing: closing_braces(source),
        environments: 0,
        arguments: Vec::new(),
        after_argument: false,
        spaced: false,
        tokens: Vec::with_capacity(source.len().min(64)),
    };
    lexer.run(source.len(), false, 0)?;
    Ok(lexer.tokens)
}

/// For each open brace the place of the one that closes it; escaped ones are no braces.
fn closing_braces(source: &str) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    let mut open = Vec::new();
    let mut escaped = false;
    for (place, byte) in source.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'{' => {
                open.push(pairs.len());
                pairs.push((place, usize::MAX));
            }
            b'}' => {
                if let Some(index) = open.pop() {
                    pairs[index].1 = place;
                }
            }
            _ => {}
        }
    }
    pairs
}

/// Deepest nesting of `\text{...}` that is read; deeper text is left out.
const MAX_TEXT_DEPTH: usize = 8;

struct Lexer<'a> {
    source: &'a str,
    place: usize,
    commas: Commas,
    /// Open and closing places of braces, by where they open.
    closing: Vec<(usize, usize)>,
    /// How many `\begin` are open.
    environments: usize,
    /// For each group that is open in formulas, whether it is an argument: of a command, an
    /// exponent, a subscript.
    arguments: Vec<bool>,
    /// Whether the last closed group is an argument.
    after_argument: bool,
    spaced: bool,
    tokens: Vec<Token<'a>>,
}

impl<'a> Lexer<'a> {
    fn run(&mut self, end: usize, text: bool, depth: usize) -> Result<(), TooLong> {
        while self.place < end {
            let rest = &self.source[self.place..end];
            let byte = rest.as_bytes()[0];
            match byte {
                b'$' | b'~' | b' ' | b'\t' | b'\n' | b'\r' => {
                    self.place += 1;
                    self.spaced = true;
                }
                b'\\' => self.backslash(rest, text, depth)?,
                b'0'..=b'9' => self.number(rest)?,
                b'.' if rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit) => {
                    self.number(rest)?;
                }
                _ if byte.is_ascii_alphabetic() => self.letters(rest, text)?,
                b'.' if rest.starts_with("...") => self.push(Command("dots"), 3)?,
                b'*' => {
                    let length = rest.bytes().take_while(|&byte| byte == b'*').count();
                    match length {
                        // Bold in Markdown, or a power in Python; the latter has something on both
                        // sides.
                        2 if !self.tokens.is_empty() && rest.len() > 2 => {
                            self.push(Mark('^'), 2)?;
                        }
                        1 => self.push(Mark('*'), 1)?,
                        _ => self.place += length,
                    }
                }
                _ => self.mark(rest)?,
            }
        }
        Ok(())
    }

    fn push(&mut self, kind: Kind<'a>, length: usize) -> Result<(), TooLong> {
        if self.tokens.len() == MAX_TOKENS {
            return Err(TooLong);
        }
        self.tokens.push(Token { kind, spaced: self.spaced });
        self.spaced = false;
        self.place += length;
        Ok(())
    }

    fn mark(&mut self, rest: &str) -> Result<(), TooLong> {
        let after_operand =
            !self.spaced && matches!(self.last(), Some(Number(_) | Mark(')' | '}' | '!')));
        for (mark, command) in [
            ("<=", "leq"),
            ("=<", "leq"),
            (">=", "geq"),
            ("=>", "implies"),
            ("->", "to"),
            ("==", "="),
            (":=", "="),
            ("!=", "neq"),
            ("<>", "neq"),
        ] {
            // 5!=120 is about a factorial.
            if rest.starts_with(mark) && (mark != "!=" || !after_operand) {
                let kind = if command == "=" { Mark('=') } else { Command(command) };
                return self.push(kind, mark.len());
            }
        }
        let character = rest.chars().next().unwrap_or(' ');
        match character {
            '"' | '`' => {
                self.place += 1;
                self.spaced = true;
                Ok(())
            }
            '{' => {
                let is_argument = self.in_argument()
                    || match self.last() {
                        Some(Mark('^' | '_') | Command(_)) => true,
                        Some(Mark('}')) => self.after_argument,
                        _ => false,
                    };
                self.arguments.push(is_argument);
                self.push(Mark('{'), 1)
            }
            '}' => {
                self.after_argument = self.arguments.pop().unwrap_or(false);
                self.push(Mark('}'), 1)
            }
            _ if character.is_alphabetic() => self.push(Letter(character), character.len_utf8()),
            _ => self.push(Mark(character), character.len_utf8()),
        }
    }

    /// Whether the next token is within an argument, where two letters are a product: e^{at}.
    fn in_argument(&self) -> bool {
        self.arguments.last() == Some(&true)
    }

    fn last(&self) -> Option<Kind<'a>> {
        self.tokens.last().map(|token| token.kind)
    }

    fn number(&mut self, rest: &'a str) -> Result<(), TooLong> {
        let length = number_length(rest, self.commas);
        self.push(Number(&rest[..length]), length)
    }

    /// A run of letters.
    fn letters(&mut self, rest: &'a str, text: bool) -> Result<(), TooLong> {
        let length = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let run = &rest[..length];
        if run.eq_ignore_ascii_case(AND) {
            return self.push(And, length);
        }
        if run.eq_ignore_ascii_case(OR) && (text || !self.in_argument()) {
            return self.push(Or, length);
        }
        // 1.5 x 10^8.
        let is_times =
            run.eq_ignore_ascii_case("x") && rest[length..].trim_start().starts_with("10^");
        if is_times && !text && matches!(self.last(), Some(Number(_))) {
            return self.push(Command("times"), length);
        }
        // "1 or2", "1or W".
        if let Some(rest) = run.strip_prefix(OR).filter(|rest| rest.len() == 1 && !text) {
            self.push(Or, OR.len())?;
            return self.push(Letter(rest.as_bytes()[0].into()), 1);
        }
        // 15th is 15.
        let ordinal =
            !self.spaced && ORDINALS.contains(&run) && matches!(self.last(), Some(Number(_)));
        if ordinal {
            self.place += length;
            return Ok(());
        }
        let command = command(run);
        if text {
            return match command {
                Some("%") => self.push(Mark('%'), length),
                Some(command @ ("degree" | "infty" | "pi")) => self.push(Command(command), length),
                _ => self.push(Upright(run), length),
            };
        }
        let after_number = matches!(self.last(), Some(Number(_) | Mark('}' | ')')));
        // After a word comes another one: "miles per hour".
        let after_word = self.spaced && matches!(self.last(), Some(Word(_)));
        let is_word = match length {
            1 => false,
            2 | 3 => {
                is_short_word(run) && !(length == 2 && self.in_argument())
                    || number(run).is_some()
                    || after_number && is_short_unit(run)
                    || after_word && run.bytes().all(|byte| byte.is_ascii_lowercase())
            }
            _ => true,
        };
        match command {
            _ if run == "in" && opens_set(&rest[length..]) => self.push(Command("in"), length),
            Some("min") if after_number => self.push(Word(run), length),
            Some("%") => self.push(Mark('%'), length),
            Some(command) => self.push(Command(command), length),
            None if is_word => self.push(Word(run), length),
            None => self.each_letter(run),
        }
    }

    fn each_letter(&mut self, run: &str) -> Result<(), TooLong> {
        run.chars().try_for_each(|letter| self.push(Letter(letter), 1))
    }

    fn backslash(&mut self, rest: &'a str, text: bool, depth: usize) -> Result<(), TooLong> {
        let letters = rest[1..].bytes().take_while(u8::is_ascii_alphabetic).count();
        if letters == 0 {
            return self.escape(rest);
        }
        let name = &rest[1..1 + letters];
        let length = 1 + letters;
        match name {
            "left" | "right" | "middle" => {
                self.place += length;
                let after = rest[length..].trim_start();
                if after.starts_with('.') {
                    self.place += rest[length..].len() - after.len() + 1;
                }
                Ok(())
            }
            "quad" | "qquad" | "enspace" | "thinspace" | "medspace" | "space" => {
                self.place += length;
                self.spaced = true;
                Ok(())
            }
            // The vector from A to B.
            "vec" if names_points(&rest[length..]) => self.push(Command("overrightarrow"), length),
            _ if is_ornament(name) => {
                self.place += length;
                Ok(())
            }
            _ if takes_group_away(name) => {
                self.place += length;
                if let Some(close) = self.group_end() {
                    self.place = close + 1;
                }
                Ok(())
            }
            "text" | "mbox" | "textbf" | "textit" | "textrm" | "textnormal" | "textsf"
            | "texttt" | "textup" | "hbox" | "emph" | "mathrm" | "operatorname" | "mathsf"
            | "mathtt" | "rm" | "textsc" => {
                self.place += length + usize::from(rest[length..].starts_with('*'));
                self.words(name, text, depth)
            }
            "begin" | "end" => {
                self.place += length;
                let environment = match self.group_end() {
                    Some(close) => {
                        let name = self.source[self.place + 1..close].trim_end_matches('*');
                        self.place = close + 1;
                        name
                    }
                    None => "",
                };
                if name == "begin" {
                    self.environments += 1;
                    self.push(Begin(environment), 0)
                } else {
                    self.environments = self.environments.saturating_sub(1);
                    self.push(End(environment), 0)
                }
            }
            _ => self.push(Command(name), length),
        }
    }

    /// The place of the brace that closes the next group, if a group opens there.
    fn group_end(&mut self) -> Option<usize> {
        let rest = &self.source[self.place..];
        let open = self.place + (rest.len() - rest.trim_start().len());
        let index = self.closing.binary_search_by_key(&open, |pair| pair.0).ok()?;
        let close = self.closing[index].1;
        (close != usize::MAX).then(|| {
            self.place = open;
            close
        })
    }

    /// The argument of a command for upright text.
    fn words(&mut self, name: &str, text: bool, depth: usize) -> Result<(), TooLong> {
        let Some(close) = self.group_end() else { return Ok(()) };
        let content = self.source[self.place + 1..close].trim();
        let upright = matches!(name, "mathrm" | "operatorname" | "rm" | "mathsf");
        let after_number = matches!(self.last(), Some(Number(_)));
        let is_kelvin = after_number && content.trim_start_matches('~') == "K";
        if depth == MAX_TEXT_DEPTH {
            self.place = close;
        } else if upright && (content.len() == 1 || is_kelvin) {
            // An upright e, i, d or variable is a letter; after a number it may be a unit. As a
            // word K would be a thousand; the letter is kelvin, as in 300 K.
            let is_unit = after_number && is_unit_letter(content) && !is_kelvin;
            self.place += 1;
            self.run(close, is_unit || text, depth + 1)?;
        } else if upright
            && let Some(command) = command(content)
            && command != "%"
        {
            self.push(Command(command), 0)?;
            self.place = close;
        } else {
            self.place += 1;
            self.spaced = true;
            self.run(close, true, depth + 1)?;
            self.spaced = true;
        }
        self.place = close + 1;
        Ok(())
    }

    /// A backslash before anything but a letter.
    fn escape(&mut self, rest: &'a str) -> Result<(), TooLong> {
        let Some(character) = rest[1..].chars().next() else {
            self.place += 1;
            return Ok(());
        };
        match character {
            '\\' => {
                // Outside a matrix two backslashes mean that the data was escaped twice here.
                let after = &rest[2..];
                let known =
                    after.starts_with(|c: char| c.is_ascii_alphabetic()) && self.environments == 0;
                if known {
                    self.place += 1;
                    return Ok(());
                }
                self.push(Row, 2 + row_spacing(after))
            }
            '{' => self.push(Command("lbrace"), 2),
            '}' => self.push(Command("rbrace"), 2),
            '|' => self.push(Command("Vert"), 2),
            '%' | '&' | '_' | '#' => self.push(Mark(character), 2),
            '!' => {
                self.place += 2;
                Ok(())
            }
            _ => {
                // \, \; \: \$ \( \[ and other characters that are no command.
                self.place += 1 + character.len_utf8();
                self.spaced = true;
                Ok(())
            }
        }
    }
}

/// Whether the text after "in" begins a set.
fn opens_set(rest: &str) -> bool {
    rest.trim_start().starts_with(['[', '(', '{', '\\'])
}
