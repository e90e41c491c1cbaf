//! Curves as lines of text, for terminals: round numbers at the axes, a marker for each curve, the legend below.

mod axis;
mod charset;

pub use charset::Charset;

use self::axis::Axis;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Style};
use ratatui_core::symbols::Marker;
use ratatui_core::widgets::Widget;
use ratatui_widgets::canvas::{Canvas, Context, Line, Points};
use unicode_width::UnicodeWidthStr;

/// Colours of curves, in their order.
const COLORS: [Color; 6] =
    [Color::Cyan, Color::Yellow, Color::Magenta, Color::Green, Color::Red, Color::Blue];
/// What tells curves apart without colours, in their order.
const MARKERS: [[char; 8]; 2] =
    [['●', '■', '▲', '◆', '○', '□', '△', '◇'], ['*', 'o', '+', 'x', '#', '@', '%', '&']];
/// Columns from one marker to the next on a curve that has more points than columns.
const MARKER_DISTANCE: u16 = 16;
/// Columns for a point, so that its marker leaves the curve to be seen.
const ROOM_OF_MARKER: usize = 3;
/// Columns before and between the items of a legend.
const LEGEND_INDENT: usize = 2;
const LEGEND_GAP: usize = 3;
/// Bounds of what is drawn, in columns and rows.
const SIZES: [(u16, u16); 2] = [(20, 1000), (5, 500)];

/// A curve, or points.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Its name in the legend; without a name it is not there.
    pub name: String,
    /// x and y; where one is not finite, the curve has a gap.
    pub points: Vec<(f64, f64)>,
    /// Whether points stand alone instead of being joined.
    pub scattered: bool,
}

/// Curves in one frame.
#[derive(Clone, Debug, Default)]
pub struct TextPlot {
    /// What x is.
    pub x: String,
    /// What y is.
    pub y: String,
    /// Drawn in this order, each in its colour and with its marker.
    pub curves: Vec<Curve>,
}

/// How a curve looks.
#[derive(Clone, Copy)]
struct Look {
    color: Color,
    marker: char,
}

/// Where curves are drawn.
struct Frame {
    area: Rect,
    x: Axis,
    y: Axis,
    charset: Charset,
}

impl TextPlot {
    /// The plot in so many columns and rows; in colours of ANSI terminals if `colors`, in characters that the locale has. No
    /// lines where there is nothing finite to draw.
    pub fn lines(&self, width: u16, height: u16, colors: bool) -> Vec<String> {
        self.lines_in(width, height, colors, Charset::of_environment())
    }

    /// The same in characters of a given charset.
    pub fn lines_in(&self, width: u16, height: u16, colors: bool, charset: Charset) -> Vec<String> {
        let [width, height] =
            [(width, SIZES[0]), (height, SIZES[1])].map(|(size, (least, most))| size.clamp(least, most));
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
        let legend = self.legend(width, height, charset);
        let title = u16::from(!self.y.is_empty());
        let rows = height.saturating_sub(title + 2 + legend.len() as u16).max(1);
        let finite = || self.curves.iter().flat_map(|c| &c.points).filter(|p| is_finite(p));
        let Some(y) = Axis::of(finite().map(|p| p.1), usize::from(rows).div_ceil(2).clamp(2, 6)) else {
            return Vec::new();
        };
        let gutter = y.ticks.iter().map(|(_, text)| text.len()).max().unwrap_or(0) as u16 + 2;
        let area = Rect::new(gutter, title, width.saturating_sub(gutter).max(1), rows);
        let Some(x) = Axis::of(finite().map(|p| p.0), usize::from(area.width / 10).clamp(2, 10)) else {
            return Vec::new();
        };
        let frame = Frame { area, x, y, charset };
        buffer.set_stringn(0, 0, &self.y, usize::from(width), Style::new());
        frame.draw_axes(&self.x, &mut buffer);
        for (i, curve) in self.curves.iter().enumerate() {
            frame.draw(curve, i, &mut buffer);
        }
        // After all curves, so that each can be told where another lies upon it.
        for (i, curve) in self.curves.iter().enumerate() {
            frame.mark(curve, i, self.curves.len(), &mut buffer);
        }
        for (row, items) in (area.bottom() + 2..height).zip(&legend) {
            let mut column = LEGEND_INDENT;
            for (look, text) in items {
                buffer.set_stringn(column as u16, row, text, usize::from(width), Style::new().fg(look.color));
                column += text.width() + LEGEND_GAP;
            }
        }
        (0..height).map(|row| line(&buffer, width, row, colors)).collect()
    }

    /// Rows of markers with names, no more than a third of the height; a last item says how many are left out.
    fn legend(&self, width: u16, height: u16, charset: Charset) -> Vec<Vec<(Look, String)>> {
        let named: Vec<usize> = (0..self.curves.len()).filter(|&i| !self.curves[i].name.is_empty()).collect();
        let room = usize::from(width).saturating_sub(6);
        let most = usize::from(height / 3).max(1);
        let (mut rows, mut column) = (Vec::<Vec<(Look, String)>>::new(), usize::MAX);
        for &i in &named {
            let look = look(i, charset);
            let text = format!("{} {}", look.marker, fitted(&self.curves[i].name, room, charset));
            let wide = text.width() + LEGEND_GAP;
            if column.saturating_add(wide) > usize::from(width) {
                rows.push(Vec::new());
                column = LEGEND_INDENT;
            }
            column += wide;
            if let Some(row) = rows.last_mut() {
                row.push((look, text));
            }
        }
        if rows.len() > most {
            rows.truncate(most - 1);
            let told: usize = rows.iter().map(Vec::len).sum();
            let look = Look { color: Color::Reset, marker: ' ' };
            rows.push(vec![(look, format!("and {} more", named.len() - told))]);
        }
        rows
    }
}

impl Frame {
    fn draw_axes(&self, title: &str, buffer: &mut Buffer) {
        let Self { area, charset, .. } = self;
        let (left, bottom) = (area.left() - 1, area.bottom());
        let style = Style::new();
        for row in area.top()..bottom {
            buffer.set_string(left, row, charset.of("│", "|"), style);
        }
        for (value, text) in &self.y.ticks {
            let row = self.row(*value);
            buffer.set_string(left, row, charset.of("┤", "+"), style);
            buffer.set_string(left - 1 - text.len() as u16, row, text, style);
        }
        buffer.set_string(left, bottom, charset.of("└", "+"), style);
        for column in area.left()..area.right() {
            buffer.set_string(column, bottom, charset.of("─", "-"), style);
        }
        let mut free = 0;
        for (value, text) in &self.x.ticks {
            let (column, wide) = (self.column(*value), text.len() as u16);
            let begin = column.saturating_sub(wide / 2).min(area.right().saturating_sub(wide));
            if begin >= free {
                buffer.set_string(column, bottom, charset.of("┬", "+"), style);
                buffer.set_string(begin, bottom + 1, text, style);
                free = begin + wide + 2;
            }
        }
        // What x is stands at the end of its axis, or below it where that is too short.
        let title = fitted(title, usize::from(area.width / 2), *charset);
        let wide = title.width() as u16;
        if wide > 0 {
            buffer.set_string(area.right().saturating_sub(wide + 1), bottom, format!(" {title}"), style);
        }
    }

    fn draw(&self, curve: &Curve, number: usize, buffer: &mut Buffer) {
        let look = look(number, self.charset);
        let marker = self.charset.of(Marker::Braille, Marker::Custom(look.marker));
        let place = |p: &(f64, f64)| (self.x.place(p.0), self.y.place(p.1));
        let paint = |context: &mut Context<'_>| {
            let finite: Vec<(f64, f64)> = curve.points.iter().filter(|p| is_finite(p)).map(place).collect();
            context.draw(&Points { coords: &finite, color: look.color });
            for pair in curve.points.windows(2).filter(|pair| !curve.scattered && pair.iter().all(is_finite))
            {
                let ((x1, y1), (x2, y2)) = (place(&pair[0]), place(&pair[1]));
                context.draw(&Line { x1, y1, x2, y2, color: look.color });
            }
        };
        Canvas::default()
            .marker(marker)
            .x_bounds([0.0, 1.0])
            .y_bounds([0.0, 1.0])
            .paint(paint)
            .render(self.area, buffer);
    }

    fn mark(&self, curve: &Curve, number: usize, of: usize, buffer: &mut Buffer) {
        let look = look(number, self.charset);
        for (x, y) in self.marked(curve, number, of) {
            let mut text = [0; 4];
            let (column, row) = (self.column(x), self.row(y));
            buffer.set_string(column, row, look.marker.encode_utf8(&mut text), Style::new().fg(look.color));
        }
    }

    /// Points of a curve that get its marker: all where there is room, those that nothing is joined to, and some here and there
    /// of a curve that others are beside.
    fn marked(&self, curve: &Curve, number: usize, of: usize) -> Vec<(f64, f64)> {
        let points = &curve.points;
        let count = points.iter().filter(|p| is_finite(p)).count();
        let all = curve.scattered || count * ROOM_OF_MARKER <= usize::from(self.area.width);
        let finite_at = |i: Option<usize>| i.and_then(|i| points.get(i)).is_some_and(is_finite);
        let apart = |i: usize| !finite_at(i.checked_sub(1)) && !finite_at(Some(i + 1));
        // Curves begin at different columns, so that one does not hide the other's markers.
        let first = self.area.left() + (usize::from(MARKER_DISTANCE) * number / of.max(1)) as u16;
        let mut next = first;
        let mut here_and_there = |point: &(f64, f64)| {
            let column = self.column(point.0);
            let due = of > 1 && column >= next;
            if due {
                next = column + MARKER_DISTANCE;
            }
            due
        };
        (0..points.len())
            .filter(|&i| is_finite(&points[i]) && (all || apart(i) || here_and_there(&points[i])))
            .map(|i| points[i])
            .collect()
    }

    fn column(&self, x: f64) -> u16 {
        self.area.left() + cell(self.x.place(x), self.area.width, self.charset.of(2, 1))
    }

    fn row(&self, y: f64) -> u16 {
        self.area.top() + cell(1.0 - self.y.place(y), self.area.height, self.charset.of(4, 1))
    }
}

/// The cell of a place from 0 to 1, where each cell has so many dots.
fn cell(place: f64, cells: u16, dots: u16) -> u16 {
    let most = f64::from(u32::from(cells) * u32::from(dots) - 1);
    libm::round(place * most) as u16 / dots
}

fn is_finite((x, y): &(f64, f64)) -> bool {
    x.is_finite() && y.is_finite()
}

fn look(number: usize, charset: Charset) -> Look {
    let [unicode, ascii] = MARKERS;
    let shapes = charset.of(unicode, ascii);
    let marker = match number.checked_sub(shapes.len()) {
        None => shapes[number],
        Some(letter) => char::from(b'A' + (letter % 26) as u8),
    };
    Look { color: COLORS[number % COLORS.len()], marker }
}

/// A text that is cut to so many columns.
fn fitted(text: &str, columns: usize, charset: Charset) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut cut = String::new();
    for c in text.chars() {
        let longer = format!("{cut}{c}");
        if longer.width() >= columns {
            break;
        }
        cut = longer;
    }
    cut + charset.of("…", "~")
}

/// A row of cells as text without blanks at its end.
fn line(buffer: &Buffer, width: u16, row: u16, colors: bool) -> String {
    let cells: Vec<_> = (0..width).map(|column| &buffer[(column, row)]).collect();
    let used = cells.iter().rposition(|cell| cell.symbol() != " ").map_or(0, |last| last + 1);
    let (mut text, mut before, mut hidden) = (String::new(), Color::Reset, 0);
    for cell in &cells[..used] {
        // A wide character takes the cells after it.
        if hidden > 0 {
            hidden -= 1;
            continue;
        }
        hidden = cell.symbol().width().saturating_sub(1);
        if colors && cell.fg != before {
            text.push_str(ansi(cell.fg));
            before = cell.fg;
        }
        text.push_str(cell.symbol());
    }
    if before != Color::Reset {
        text.push_str(ansi(Color::Reset));
    }
    text
}

fn ansi(color: Color) -> &'static str {
    match color {
        Color::Red => "\x1b[31m",
        Color::Green => "\x1b[32m",
        Color::Yellow => "\x1b[33m",
        Color::Blue => "\x1b[34m",
        Color::Magenta => "\x1b[35m",
        Color::Cyan => "\x1b[36m",
        _ => "\x1b[39m",
    }
}
