//! Tables for a terminal.

use super::{Inspection, Table, tables};
use crate::terminal::{fitted, wrapped};
use crate::visible::visible;
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// Columns that the names of rows have at least, if they are so long.
const NAME: usize = 16;

impl Inspection {
    /// The tables, for a terminal of `width` columns.
    pub fn text(&self, width: usize) -> String {
        let heading = format!("{}, step {}: {}", visible(&self.run), self.step, self.summary());
        let mut text = wrapped(&heading, width).join("\n") + "\n";
        for table in &tables(self) {
            let _ = write!(text, "\n{}", table.text(width));
        }
        text
    }
}

impl Table {
    /// The table in lines of at most `width` columns. Cells for which there is no room beside the
    /// others stand below them.
    pub fn text(&self, width: usize) -> String {
        let cells = self.rows.iter().flat_map(|(_, cells)| cells).chain(&self.columns);
        let cell = cells.map(|cell| cell.width()).max().unwrap_or(0) + 2;
        let name = self.rows.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
        let beside = (width.saturating_sub(2 + name.min(NAME)) / cell).max(1);
        let room = width.saturating_sub(2 + cell * beside.min(self.columns.len()));
        let name = name.min(room);
        let mut text = wrapped(&self.title, width).join("\n") + "\n";
        let mut line = |name_of: &str, cells: &[String]| {
            let shown = fitted(name_of, name);
            let mut line = format!("  {shown}{}", " ".repeat(name - shown.width()));
            for content in cells {
                let _ = write!(line, "{}{content}", " ".repeat(cell - content.width()));
            }
            let _ = writeln!(text, "{}", line.trim_end());
        };
        for (part, columns) in self.columns.chunks(beside).enumerate() {
            line("", columns);
            if self.rows.is_empty() {
                line("none", &[]);
            }
            for (name, cells) in &self.rows {
                line(name, cells.chunks(beside).nth(part).unwrap_or_default());
            }
        }
        if !self.note.is_empty() {
            for line in wrapped(&self.note, width.saturating_sub(2)) {
                let _ = writeln!(text, "  {line}");
            }
        }
        text
    }
}
