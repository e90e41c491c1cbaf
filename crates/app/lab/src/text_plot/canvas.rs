//! Cells of a terminal that are written and drawn upon.

use std::collections::BTreeMap;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Colours of ANSI terminals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Color {
    #[default]
    Default,
    Red,
    Green,
    Yellow,
    Blue,
    Magenta,
    Cyan,
}

impl Color {
    fn escape(self) -> &'static str {
        match self {
            Self::Default => "\x1b[39m",
            Self::Red => "\x1b[31m",
            Self::Green => "\x1b[32m",
            Self::Yellow => "\x1b[33m",
            Self::Blue => "\x1b[34m",
            Self::Magenta => "\x1b[35m",
            Self::Cyan => "\x1b[36m",
        }
    }
}

/// A cell: a character with its combining marks, or empty after a wide character.
#[derive(Clone, Default)]
struct Cell {
    text: String,
    color: Color,
}

/// Rows of cells, all blank at first.
pub(super) struct Canvas {
    width: usize,
    cells: Vec<Cell>,
}

impl Canvas {
    pub(super) fn new(width: usize, height: usize) -> Self {
        let blank = Cell { text: " ".into(), color: Color::Default };
        Self { width, cells: vec![blank; width * height] }
    }

    /// Writes as much of a text as the row has room for. Control characters are left out.
    pub(super) fn write(&mut self, column: usize, row: usize, text: &str, color: Color) {
        let mut at = column;
        for c in text.chars() {
            match c.width() {
                None => {}
                Some(0) if at == column => {}
                // A combining mark belongs to the character before it.
                Some(0) => {
                    let first = (column..at).rev().find(|i| !self.cell(*i, row).text.is_empty());
                    first.into_iter().for_each(|i| self.cell(i, row).text.push(c));
                }
                Some(wide) if at + wide > self.width => return,
                Some(wide) => {
                    *self.cell(at, row) = Cell { text: c.into(), color };
                    (1..wide).for_each(|i| *self.cell(at + i, row) = Cell::default());
                    at += wide;
                }
            }
        }
    }

    fn cell(&mut self, column: usize, row: usize) -> &mut Cell {
        &mut self.cells[row * self.width + column]
    }

    /// Draws dots in an area that begins at a column and a row, and is so many columns wide: a cell
    /// has 2 by 4 dots, in Braille.
    pub(super) fn draw_dots(
        &mut self,
        (left, top): (usize, usize),
        width: usize,
        dots: &[(usize, usize)],
        color: Color,
    ) {
        // Bits of the Braille patterns by row and column of the dot (The Unicode Standard, U+2800).
        const BITS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        let mut patterns = BTreeMap::<usize, u8>::new();
        for &(x, y) in dots {
            *patterns.entry(y / 4 * width + x / 2).or_default() |= BITS[y % 4][x % 2];
        }
        for (place, pattern) in patterns {
            let braille = char::from_u32(0x2800 + u32::from(pattern)).unwrap_or(' ');
            let column = left + place % width;
            // Long labels of the y axis may leave a narrow plot no room.
            if column < self.width {
                *self.cell(column, top + place / width) = Cell { text: braille.into(), color };
            }
        }
    }

    /// The rows as text without blanks at their ends.
    pub(super) fn lines(&self, colors: bool) -> Vec<String> {
        self.cells.chunks(self.width).map(|cells| row_text(cells, colors)).collect()
    }
}

fn row_text(cells: &[Cell], colors: bool) -> String {
    let used = cells.iter().rposition(|cell| cell.text != " ").map_or(0, |last| last + 1);
    let (mut text, mut before, mut hidden) = (String::new(), Color::Default, 0);
    for cell in &cells[..used] {
        // A wide character takes the cells after it.
        if hidden > 0 {
            hidden -= 1;
            continue;
        }
        hidden = cell.text.width().saturating_sub(1);
        if colors && cell.color != before {
            text.push_str(cell.color.escape());
            before = cell.color;
        }
        text.push_str(if cell.text.is_empty() { " " } else { &cell.text });
    }
    if before != Color::Default {
        text.push_str(Color::Default.escape());
    }
    text
}

/// Adds the dots of a line between two, both ends included (Bresenham 1965).
pub(super) fn line(from: (usize, usize), to: (usize, usize), dots: &mut Vec<(usize, usize)>) {
    let is_steep = to.1.abs_diff(from.1) >= to.0.abs_diff(from.0);
    let turned = |(x, y): (usize, usize)| if is_steep { (y, x) } else { (x, y) };
    let [mut first, mut last] = [turned(from), turned(to)];
    if first.0 > last.0 {
        std::mem::swap(&mut first, &mut last);
    }
    let (along, across) = ((last.0 - first.0) as i64, last.1.abs_diff(first.1) as i64);
    let (mut y, mut error) = (first.1, 2 * across - along);
    for x in first.0..=last.0 {
        dots.push(turned((x, y)));
        if error > 0 {
            y = if first.1 > last.1 { y.saturating_sub(1) } else { y + 1 };
            error -= 2 * along;
        }
        error += 2 * across;
    }
}
