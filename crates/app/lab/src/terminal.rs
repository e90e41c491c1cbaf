//! Formats lines of text: wrapped, coloured, side by side, in tables.

use crate::visible::visible;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns between blocks side by side.
pub(crate) const GAP: usize = 3;
/// Narrower than this nothing is broken.
const NARROWEST: usize = 20;

/// The reader's terminal.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Columns.
    pub width: usize,
    /// Whether the terminal shows colours (ANSI escapes).
    pub colors: bool,
}

/// Colours of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Good,
    Bad,
    Doubtful,
    Heading,
}

impl Look {
    /// Foreign text, made safe for this terminal.
    pub(crate) fn clean(&self, text: &str) -> String {
        visible(text).replace('\t', "    ")
    }

    /// The text in a colour, if there are colours.
    pub(crate) fn paint(&self, paint: Paint, text: &str) -> String {
        if !self.colors {
            return text.to_owned();
        }
        let (begin, end) = match paint {
            Paint::Good => ("32", "39"),
            Paint::Bad => ("31", "39"),
            Paint::Doubtful => ("33", "39"),
            Paint::Heading => ("1", "22"),
        };
        format!("\x1b[{begin}m{text}\x1b[{end}m")
    }

    /// Lines of text within the width, each indented by `indent` columns.
    pub(crate) fn paragraph(&self, text: &str, indent: usize) -> Vec<String> {
        let width = self.width.max(NARROWEST);
        let rest = wrapped(text, width - indent);
        rest.iter().map(|line| format!("{:indent$}{line}", "")).collect()
    }

    /// A heading, as text from elsewhere.
    pub(crate) fn heading(&self, text: &str) -> Vec<String> {
        let lines = wrapped(&self.clean(text), self.width.max(NARROWEST));
        lines.iter().map(|line| self.paint(Paint::Heading, line)).collect()
    }

    /// Several texts as paragraphs with a dash each.
    pub(crate) fn listed<'a>(&self, texts: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let lines = texts.into_iter().flat_map(|text| {
            let lines = self.paragraph(&self.clean(text), 4);
            lines.into_iter().enumerate().map(|(i, line)| match i {
                0 => format!("  - {}", line.trim_start()),
                _ => line,
            })
        });
        lines.collect()
    }

    /// Blocks of lines side by side as far as the width allows, the rest below after an empty line.
    pub(crate) fn beside(&self, blocks: &[Vec<String>]) -> Vec<String> {
        let mut rows: Vec<(usize, Vec<&Vec<String>>)> = Vec::new();
        for block in blocks.iter().filter(|block| !block.is_empty()) {
            let wide = width_of_block(block);
            match rows.last_mut() {
                Some((used, row)) if *used + GAP + wide <= self.width => {
                    *used += GAP + wide;
                    row.push(block);
                }
                _ => rows.push((wide, vec![block])),
            }
        }
        let mut lines = Vec::new();
        for (_, row) in rows {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            let height = row.iter().map(|block| block.len()).max().unwrap_or(0);
            for i in 0..height {
                let mut line = String::new();
                for (place, block) in row.iter().enumerate() {
                    let text = block.get(i).map_or("", String::as_str);
                    line.push_str(text);
                    if place + 1 < row.len() {
                        let space = width_of_block(block) + GAP - shown_width(text);
                        line.push_str(&" ".repeat(space));
                    }
                }
                line.truncate(line.trim_end_matches(' ').len());
                lines.push(line);
            }
        }
        lines
    }
}

fn width_of_block(block: &[String]) -> usize {
    block.iter().map(|line| shown_width(line)).max().unwrap_or(0)
}

/// The columns that a line takes; escapes of colours take none.
pub(crate) fn shown_width(line: &str) -> usize {
    let mut parts = line.split('\x1b');
    let first = parts.next().map_or(0, UnicodeWidthStr::width);
    first
        + parts.map(|part| part.split_once('m').map_or(0, |(_, text)| text.width())).sum::<usize>()
}

/// A text in lines of `width` columns: broken between words, and within words that are wider.
/// Escapes of colours take no room.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let (mut current, mut column, mut is_escape) = (String::new(), 0, false);
        for word in line.split_inclusive(' ') {
            let bare = shown_width(word.trim_end_matches(' '));
            if column > 0 && column + bare > width {
                lines.push(current.trim_end().to_owned());
                (current, column) = (String::new(), 0);
            }
            for c in word.chars() {
                is_escape |= c == '\x1b';
                let wide = if is_escape { 0 } else { c.width().unwrap_or(0) };
                is_escape &= c != 'm';
                if column + wide > width {
                    if c == ' ' {
                        continue; // it stands at the end of a line
                    }
                    lines.push(std::mem::take(&mut current));
                    column = 0;
                }
                current.push(c);
                column += wide;
            }
        }
        lines.push(current.trim_end().to_owned());
    }
    lines
}

/// A text, cut to this many columns.
pub(crate) fn fitted(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut used = 1;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= columns
    };
    text.chars().take_while(fits).chain((columns > 0).then_some('…')).collect()
}

/// A table: names of columns, then rows, all right-aligned.
pub(crate) fn table(look: &Look, names: &[String], rows: &[Vec<String>]) -> Vec<String> {
    let widths: Vec<usize> = (0..names.len())
        .map(|i| {
            rows.iter()
                .chain([&names.to_vec()])
                .filter_map(|row| row.get(i))
                .map(|c| c.width())
                .max()
        })
        .map(|widest| widest.unwrap_or(0))
        .collect();
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&widths).map(|(cell, wide)| {
            let space = wide.saturating_sub(cell.width());
            format!("{:space$}{cell}", "")
        });
        cells.collect::<Vec<_>>().join("  ")
    };
    let head = look.paint(Paint::Heading, &line(names));
    std::iter::once(head).chain(rows.iter().map(|row| line(row))).collect()
}

/// Seconds as people say them.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 9.95 => format!("{s:.1} s"),
        s if s < 99.5 => format!("{s:.0} s"),
        s => match s as u64 {
            s @ ..6000 => format!("{} min {:02} s", s / 60, s % 60),
            s @ ..172_800 => format!("{} h {:02} min", s / 3600, s / 60 % 60),
            s => format!("{} days {} h", s / 86400, s / 3600 % 24),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_said() {
        let said: Vec<String> =
            [0.41, 42.0, 150.0, 7500.0, 200_000.0].into_iter().map(duration).collect();
        assert_eq!(said, ["0.4 s", "42 s", "2 min 30 s", "2 h 05 min", "2 days 7 h"]);
    }

    #[test]
    fn blocks_stand_beside_one_another_where_there_is_room() {
        let look = |width| Look { width, colors: true };
        let painted = look(0).paint(Paint::Good, "aa");
        let blocks = [vec![painted.clone(), "bbb".into()], vec!["c".into()]];
        assert_eq!(look(7).beside(&blocks), [format!("{painted}    c"), "bbb".into()]);
        assert_eq!(look(6).beside(&blocks), [painted, "bbb".into(), String::new(), "c".into()]);
    }

    proptest! {
        #[test]
        fn no_word_is_lost_and_no_line_too_wide(text in "[a-zé漢 \n]{0,200}", width in 2usize..40) {
            let lines = wrapped(&text, width);
            let plain = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(plain(&lines.concat()), plain(&text));
            prop_assert!(lines.iter().all(|line| line.width() <= width), "{:?}", lines);
        }
    }
}
