//! Tables for a terminal of 80 columns.

use super::{Inspection, Table, tables};
use crate::show::{fitted, wrapped};
use crate::visible::visible;
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// Columns.
const WIDTH: usize = 80;

impl Inspection {
    /// The tables, for a terminal.
    pub fn text(&self) -> String {
        let mut text = format!("{}, step {}: {}\n", visible(&self.run), self.step, self.summary());
        for table in &tables(self) {
            let _ = write!(text, "\n{}", table.text());
        }
        text
    }
}

impl Table {
    /// The table in lines of at most 80 columns.
    pub fn text(&self) -> String {
        let cells = self.rows.iter().flat_map(|(_, cells)| cells).chain(&self.columns);
        let cell = cells.map(|cell| cell.width()).max().unwrap_or(0) + 2;
        let room = WIDTH.saturating_sub(2 + cell * self.columns.len());
        let name = self.rows.iter().map(|(name, _)| name.width()).max().unwrap_or(0).min(room);
        let mut text = format!("{}\n", self.title);
        let mut line = |name_of: &str, cells: &[String]| {
            let shown = fitted(name_of, name);
            let mut line = format!("  {shown}{}", " ".repeat(name - shown.width()));
            for content in cells {
                let _ = write!(line, "{}{content}", " ".repeat(cell - content.width()));
            }
            let _ = writeln!(text, "{}", line.trim_end());
        };
        line("", &self.columns);
        if self.rows.is_empty() {
            line("none", &[]);
        }
        self.rows.iter().for_each(|(name, cells)| line(name, cells));
        if !self.note.is_empty() {
            for line in wrapped(&self.note, WIDTH - 2) {
                let _ = writeln!(text, "  {line}");
            }
        }
        text
    }
}
