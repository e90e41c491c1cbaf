//! The page: the tables, and every response with its tokens.

use super::{Inspection, Token, tables, token::Quadrant};
use crate::Result;
use crate::page::{Packed, Page, escaped};
use crate::table::Table;
use crate::tokens::{Advantages, TokenRecord};
use crate::visible::visible;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt::Write;

/// Most tokens on a page, which has about 50 bytes for each.
const MOST_TOKENS: usize = 250_000;
/// Most bytes of text on a page, of a prompt and of a token.
const MOST_TEXT: usize = 16 << 20;
const MOST_PROMPT: usize = 1 << 20;
const MOST_PIECE: usize = 4 << 10;
/// The quantile of the values at the end of a colour scale: larger values have the colour of the
/// end.
const SCALE: f64 = 0.98;

impl Inspection {
    /// The page.
    ///
    /// # Errors
    /// When its data cannot be packed.
    pub fn html(&self) -> Result<String> {
        let (mut tokens, mut text) = (MOST_TOKENS, MOST_TEXT);
        let fits = |record: &&TokenRecord| {
            let size = size_of_text(record);
            let fits = record.len() <= tokens && size <= text;
            (tokens, text) = (tokens.saturating_sub(record.len()), text.saturating_sub(size));
            fits
        };
        let shown = self.records.iter().take_while(fits).count().max(1).min(self.records.len());
        let mut notes = self.notes.clone();
        if shown < self.records.len() {
            notes.push(format!(
                "The page has the first {shown} of the {} recorded responses, which is as much as \
                 a browser takes; the tables are of all.",
                self.records.len()
            ));
        }
        let responses: Vec<Value> =
            self.records[..shown].iter().enumerate().map(|(i, of)| self.response(i, of)).collect();
        let names = self.method.as_ref().map(|method| &method.names);
        let scales = self.scales();
        let data = json!({
            "step": self.step,
            "responses": responses,
            "scales": scales,
            "methods": names,
            "quadrants": Quadrant::ALL.map(Quadrant::name),
        });
        let page = Page {
            title: visible(&format!("{}: tokens of step {}", self.run, self.step)).into_owned(),
            style: include_str!("inspect.css").to_owned(),
            body: self.body(&notes),
            packed: vec![Packed::new("data", &data)?],
            script: include_str!("inspect.js").to_owned(),
        };
        Ok(page.html())
    }

    fn body(&self, notes: &[String]) -> String {
        let mut body = format!("<p class=\"quiet\">{}</p>\n", escaped(&visible(&self.summary())));
        for note in notes {
            let _ = writeln!(body, "<p class=\"note\">{}</p>", escaped(&visible(note)));
        }
        let tables: String = tables(self).iter().map(Table::html).collect();
        let _ = write!(
            body,
            "<h2>Tokens of large covariance</h2>\n<div class=\"tables\">\n{tables}</div>\n"
        );
        body.push_str(include_str!("inspect.html"));
        body
    }
}

/// Bytes of the text that a record puts on the page.
fn size_of_text(record: &TokenRecord) -> usize {
    let pieces: usize = record.pieces.iter().map(|piece| piece.len().min(MOST_PIECE)).sum();
    record.prompt_text.len().min(MOST_PROMPT) + pieces
}

/// Visible text, cut after `most` bytes.
fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return visible(text);
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    let kept = &text[..end];
    format!("{}… ({} bytes more)", visible(kept), text.len() - kept.len()).into()
}

impl Inspection {
    /// A response for the page's script. Numbers have four digits, and null if not finite or of a
    /// given token; equal advantages are a single number.
    fn response(&self, index: usize, record: &TokenRecord) -> Value {
        let tokens: Vec<Token<'_>> = Token::all(index, record).collect();
        let is_given = |token: &Token<'_>| record.given.contains(token.place.0);
        let each = |value: fn(&Token<'_>) -> f64| -> Vec<Option<f64>> {
            tokens
                .iter()
                .map(|token| if is_given(token) { None } else { short(value(token)) })
                .collect()
        };
        let learnt: &[Token<'_>] = if record.is_trained_on() { &tokens } else { &[] };
        let pieces: Vec<_> =
            record.pieces.iter().map(|piece| shortened(piece, MOST_PIECE)).collect();
        json!({
            "origin": shortened(&record.origin, MOST_PIECE),
            "sample": record.sample,
            "sampled_step": record.sampled_step,
            "verdict": shortened(&record.verdict, MOST_PIECE),
            "reward": short(record.reward),
            "truncated": record.truncated,
            "update": record.update,
            "prompt": shortened(&record.prompt_text, MOST_PROMPT),
            "ids": record.tokens[record.prompt_tokens..],
            "pieces": pieces,
            "logprobs": each(|token| token.logprob),
            "entropies": each(|token| token.entropy),
            "changes": each(|token| token.change),
            "advantages": match &record.advantages {
                None => Vec::new(),
                Some(Advantages::Same(advantage)) => vec![short(*advantage)],
                Some(Advantages::Each(_)) => each(|token| token.advantage),
            },
            "given": record.given,
            "covariances": match record.is_trained_on() {
                true => each(|token| token.covariance),
                false => Vec::new(),
            },
            "quadrants": learnt.iter().map(place_of_quadrant).collect::<Vec<_>>(),
            "selected": record.selected,
            "clipped": record.clipped,
            "coefficients": self.coefficients(index),
        })
    }

    /// Coefficients of a record's tokens under the method and the plain objective; null if unknown.
    fn coefficients(&self, index: usize) -> Option<[Vec<Option<f64>>; 2]> {
        let both = self.method.as_ref()?.of_record(index)?;
        let record = &self.records[index];
        Some(both.map(|of| {
            record.given.spread(record.len(), of.iter().map(|&value| short(value)), None)
        }))
    }

    /// Ends of the colour scales.
    fn scales(&self) -> Value {
        let tokens = self.tokens();
        let end = |value: fn(&Token<'_>) -> f64| end_of_scale(tokens.iter().map(value));
        let changes = self.method.iter().flat_map(|method| {
            let both = (0..self.records.len()).filter_map(|record| method.of_record(record));
            both.flat_map(|[made, plain]| made.iter().zip(plain).map(|(made, plain)| made - plain))
        });
        json!({
            "method": end_of_scale(changes),
            "covariance": end(|token| token.covariance),
            "entropy": end(|token| token.entropy),
            "advantage": end(|token| token.advantage),
            "change": end(|token| token.change),
        })
    }
}

/// The index of a token's quadrant in [`Quadrant::ALL`]; -1 if it is not known.
fn place_of_quadrant(token: &Token<'_>) -> i8 {
    Quadrant::ALL.iter().position(|&q| Some(q) == token.quadrant).map_or(-1, |place| place as i8)
}

/// A number with four digits.
fn short(value: f64) -> Option<f64> {
    value.is_finite().then(|| format!("{value:.3e}").parse().unwrap_or(value))
}

/// The value at the end of a colour scale.
fn end_of_scale(values: impl Iterator<Item = f64>) -> f64 {
    let mut sizes: Vec<f64> =
        values.map(f64::abs).filter(|size| size.is_finite() && *size > 0.0).collect();
    sizes.sort_unstable_by(f64::total_cmp);
    let at = (SCALE * sizes.len().saturating_sub(1) as f64) as usize;
    sizes.get(at).and_then(|&size| short(size)).unwrap_or(1.0)
}
