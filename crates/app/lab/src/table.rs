//! A table of numbers, for a terminal and for a page.

use crate::number::fixed;
use crate::page::{escaped, scrolling};
use crate::terminal::{fitted, wrapped};
use std::borrow::Cow;
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// Columns that the names of rows have at least, if they are so long.
const NAME: usize = 16;
/// Names of rows up to this width are not broken.
const SHORT: usize = 16;

/// A table of numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its title.
    pub title: String,
    /// Headings of the columns after the first.
    pub columns: Vec<String>,
    /// Each row's name and cells.
    pub rows: Vec<(String, Vec<String>)>,
    /// A note for the reader, in sentences; may be empty.
    pub note: String,
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

    /// The table as HTML.
    pub(crate) fn html(&self) -> String {
        let Self { title, columns, rows, note } = self;
        let title = escaped(title);
        let mut html = format!(
            "<section><h3>{title}</h3>\n{}<table aria-label=\"{title}\">\n<tr><td></td>",
            scrolling(&title)
        );
        for column in columns {
            let _ = write!(html, "<th scope=\"col\">{}</th>", escaped(column));
        }
        html.push_str("</tr>\n");
        for (name, cells) in rows {
            let class = if name.width() <= SHORT { " class=\"short\"" } else { "" };
            let _ = write!(html, "<tr><th scope=\"row\"{class}>{}</th>", escaped(name));
            for cell in cells {
                let _ = write!(html, "<td>{}</td>", escaped(&printed(cell)));
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</table></div>\n");
        if !note.is_empty() {
            let _ = writeln!(html, "<p class=\"quiet small\">{}</p>", escaped(note));
        }
        html.push_str("</section>\n");
        html
    }
}

/// A number with these digits; a dash for one that is not known or not finite.
pub(crate) fn cell(value: Option<f64>, digits: usize) -> String {
    value.filter(|value| value.is_finite()).map_or_else(|| "-".into(), |v| fixed(v, digits))
}

/// A cell in print's typography: a dash for nothing, a minus as wide as a plus.
fn printed(cell: &str) -> Cow<'_, str> {
    match cell {
        "-" => "–".into(),
        cell => cell.replace('-', "−").into(),
    }
}
