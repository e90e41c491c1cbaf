//! Curves as lines of text, for terminals: round numbers at the axes, a marker for each curve, the
//! legend below.

mod axis;

use self::axis::Axis;
use crate::terminal::fitted;
use std::collections::BTreeMap;
use unicode_width::UnicodeWidthStr;

/// Colours of curves, in their order, as ANSI's codes.
const COLORS: [u8; 6] = [36, 33, 35, 32, 31, 34];
/// The code of the terminal's own colour.
const DEFAULT: u8 = 39;
/// Markers that distinguish curves without colours, in their order; letters follow.
const MARKERS: [char; 8] = ['●', '■', '▲', '◆', '○', '□', '△', '◇'];
/// Dots in a cell of Braille, across and down.
const DOTS: [usize; 2] = [2, 4];
/// Bits of the Braille patterns by row and column of the dot (The Unicode Standard, U+2800).
const BITS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
/// Columns from one marker to the next on a curve that has more points than columns.
const MARKER_DISTANCE: usize = 16;
/// Columns per point, so that markers do not hide the curve.
const ROOM_OF_MARKER: usize = 3;
/// Columns before and between the items of a legend.
const LEGEND_INDENT: usize = 2;
const LEGEND_GAP: usize = 3;
/// The least and the largest plot, in columns and in rows.
const SIZES: [(u16, u16); 2] = [(20, 1000), (5, 500)];

/// A curve, or points.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// The curve's name in the legend; if it is empty, the legend leaves the curve out.
    pub name: String,
    /// x and y of each point. If one is not finite, the curve has a gap.
    pub points: Vec<(f64, f64)>,
    /// Whether points stand alone instead of being joined.
    pub scattered: bool,
}

/// Curves in one frame.
#[derive(Clone, Debug, Default)]
pub struct TextPlot {
    /// The title of the x axis.
    pub x: &'static str,
    /// The title of the y axis.
    pub y: &'static str,
    /// Curves in the order of drawing, each with its own colour and marker.
    pub curves: Vec<Curve>,
}

/// A character of the plot and its colour.
#[derive(Clone, Copy)]
struct Cell {
    text: char,
    color: u8,
}

/// The area that curves are drawn in, with its axes.
struct Frame {
    width: usize,
    height: usize,
    x: Axis,
    y: Axis,
    /// `[height, width]`.
    cells: Vec<Vec<Cell>>,
}

impl TextPlot {
    /// The plot with this many columns and rows, in ANSI colours if `colors`. No lines if there is
    /// nothing finite to draw.
    pub fn lines(&self, width: u16, height: u16, colors: bool) -> Vec<String> {
        let [width, height] = [(width, SIZES[0]), (height, SIZES[1])]
            .map(|(size, (least, most))| usize::from(size.clamp(least, most)));
        let legend = self.legend(width, height, colors);
        let title = if self.y.is_empty() { None } else { Some(self.y.to_owned()) };
        let rows = height.saturating_sub(title.iter().len() + 2 + legend.len()).max(1);
        let finite = || self.curves.iter().flat_map(|c| &c.points).filter(|p| is_finite(p));
        let Some(y) = Axis::of(finite().map(|p| p.1), rows.div_ceil(2).clamp(2, 6)) else {
            return Vec::new();
        };
        // A label, a blank and the axis stand left of the cells; at least one cell is left.
        let label = y.ticks.iter().map(|(_, text)| text.len()).max().unwrap_or(0).min(width - 3);
        let columns = width - label - 2;
        let Some(x) = Axis::of(finite().map(|p| p.0), (columns / 10).clamp(2, 10)) else {
            return Vec::new();
        };
        let cells = vec![vec![Cell { text: ' ', color: DEFAULT }; columns]; rows];
        let mut frame = Frame { width: columns, height: rows, x, y, cells };
        for (i, curve) in self.curves.iter().enumerate() {
            frame.draw(curve, i);
        }
        // Markers come after all curves, so that none is hidden by a line.
        for (i, curve) in self.curves.iter().enumerate() {
            frame.mark(curve, i, self.curves.len());
        }
        let rows = frame.rows(label, colors);
        title.into_iter().chain(rows).chain(frame.x_axis(label, self.x)).chain(legend).collect()
    }

    /// Rows of markers with names, at most a third of the height; a last item counts the others.
    fn legend(&self, width: usize, height: usize, colors: bool) -> Vec<String> {
        let named = self.curves.iter().enumerate().filter(|(_, curve)| !curve.name.is_empty());
        let (mut rows, mut column) = (Vec::<Vec<String>>::new(), usize::MAX);
        for (i, curve) in named.clone() {
            let name: String = curve.name.chars().filter(|c| !c.is_control()).collect();
            let text = format!("{} {}", marker(i), fitted(&name, width.saturating_sub(6)));
            let wide = text.width() + LEGEND_GAP;
            if column.saturating_add(wide) > width {
                rows.push(Vec::new());
                column = LEGEND_INDENT;
            }
            column += wide;
            let item = if colors { painted(&text, color(i)) } else { text };
            rows.last_mut().into_iter().for_each(|row| row.push(item.clone()));
        }
        let most = (height / 3).max(1);
        if rows.len() > most {
            rows.truncate(most - 1);
            let shown: usize = rows.iter().map(Vec::len).sum();
            rows.push(vec![format!("and {} more", named.count() - shown)]);
        }
        let [indent, gap] = [LEGEND_INDENT, LEGEND_GAP].map(|columns| " ".repeat(columns));
        rows.iter().map(|row| format!("{indent}{}", row.join(&gap))).collect()
    }
}

impl Frame {
    /// The rows of cells behind the y axis, whose labels have this many columns.
    fn rows(&self, label: usize, colors: bool) -> Vec<String> {
        let ticks: BTreeMap<usize, &str> =
            self.y.ticks.iter().map(|(value, text)| (self.row(*value), text.as_str())).collect();
        let row = |(i, cells): (usize, &Vec<Cell>)| {
            let (text, axis) = ticks.get(&i).map_or(("", '│'), |text| (*text, '┤'));
            let used = cells.iter().rposition(|cell| cell.text != ' ').map_or(0, |last| last + 1);
            let runs = cells[..used].chunk_by(|a, b| a.color == b.color).map(|run| {
                let text: String = run.iter().map(|cell| cell.text).collect();
                if colors { painted(&text, run[0].color) } else { text }
            });
            format!("{text:>label$.label$} {axis}{}", runs.collect::<String>())
        };
        self.cells.iter().enumerate().map(row).collect()
    }

    /// The x axis with its title at its end, and its labels.
    fn x_axis(&self, label: usize, title: &str) -> [String; 2] {
        let left = label + 2;
        let mut axis = vec!['─'; self.width];
        let mut labels = vec![' '; left + self.width];
        let mut free = 0;
        for (value, text) in &self.x.ticks {
            let column = self.column(*value);
            let begin = (left + column).saturating_sub(text.len() / 2);
            let begin = begin.min(labels.len().saturating_sub(text.len()));
            if begin >= free {
                axis[column] = '┬';
                labels.iter_mut().skip(begin).zip(text.chars()).for_each(|(place, c)| *place = c);
                free = begin + text.len() + 2;
            }
        }
        if title.len() <= self.width / 2 && !title.is_empty() {
            axis.truncate(self.width - title.len() - 1);
            axis.extend(" ".chars().chain(title.chars()));
        }
        let axis = format!("{}└{}", " ".repeat(left - 1), String::from_iter(axis));
        [axis, String::from_iter(labels).trim_end().to_owned()]
    }

    fn draw(&mut self, curve: &Curve, number: usize) {
        let [wide, high] = DOTS;
        let dot = |(x, y): &(f64, f64)| {
            let at = |place: f64, dots: usize| libm::round(place * (dots - 1) as f64) as usize;
            (
                at(self.x.place(*x), self.width * wide),
                at(1.0 - self.y.place(*y), self.height * high),
            )
        };
        let mut dots = Vec::new();
        for (i, point) in curve.points.iter().enumerate().filter(|(_, p)| is_finite(p)) {
            let before = i.checked_sub(1).map(|i| &curve.points[i]).filter(|p| is_finite(p));
            match before.filter(|_| !curve.scattered) {
                Some(before) => line(dot(before), dot(point), &mut dots),
                None => dots.push(dot(point)),
            }
        }
        let mut patterns = BTreeMap::<(usize, usize), u8>::new();
        for (x, y) in dots {
            *patterns.entry((y / high, x / wide)).or_default() |= BITS[y % high][x % wide];
        }
        for ((row, column), pattern) in patterns {
            let text = char::from_u32(0x2800 + u32::from(pattern)).unwrap_or(' ');
            self.cells[row][column] = Cell { text, color: color(number) };
        }
    }

    fn mark(&mut self, curve: &Curve, number: usize, of: usize) {
        for (x, y) in self.marked(curve, number, of) {
            let (row, column) = (self.row(y), self.column(x));
            self.cells[row][column] = Cell { text: marker(number), color: color(number) };
        }
    }

    /// The points of a curve that get its marker: all if there is room; else isolated points, and a
    /// few others if the plot has other curves.
    fn marked(&self, curve: &Curve, number: usize, of: usize) -> Vec<(f64, f64)> {
        let points = &curve.points;
        let count = points.iter().filter(|p| is_finite(p)).count();
        let all = curve.scattered || count * ROOM_OF_MARKER <= self.width;
        let finite_at = |i: Option<usize>| i.and_then(|i| points.get(i)).is_some_and(is_finite);
        let is_apart = |i: usize| !finite_at(i.checked_sub(1)) && !finite_at(Some(i + 1));
        // Curves begin at different columns, so that one does not hide the other's markers.
        let mut next = MARKER_DISTANCE * number / of.max(1);
        let mut is_due = |point: &(f64, f64)| {
            let column = self.column(point.0);
            let is_due = of > 1 && column >= next;
            if is_due {
                next = column + MARKER_DISTANCE;
            }
            is_due
        };
        (0..points.len())
            .filter(|&i| is_finite(&points[i]) && (all || is_apart(i) || is_due(&points[i])))
            .map(|i| points[i])
            .collect()
    }

    fn column(&self, x: f64) -> usize {
        cell(self.x.place(x), self.width, DOTS[0])
    }

    fn row(&self, y: f64) -> usize {
        cell(1.0 - self.y.place(y), self.height, DOTS[1])
    }
}

/// The cell and dot at a place from 0 to 1, if each cell has this many dots.
fn cell(place: f64, cells: usize, dots: usize) -> usize {
    libm::round(place * (cells * dots - 1) as f64) as usize / dots
}

fn is_finite((x, y): &(f64, f64)) -> bool {
    x.is_finite() && y.is_finite()
}

fn color(number: usize) -> u8 {
    COLORS[number % COLORS.len()]
}

fn marker(number: usize) -> char {
    match number.checked_sub(MARKERS.len()) {
        None => MARKERS[number],
        Some(letter) => char::from(b'A' + (letter % 26) as u8),
    }
}

/// A text in a colour.
fn painted(text: &str, color: u8) -> String {
    if color == DEFAULT { text.to_owned() } else { format!("\x1b[{color}m{text}\x1b[{DEFAULT}m") }
}

/// Adds the dots of a line between two dots, both ends included (Bresenham 1965).
fn line(from: (usize, usize), to: (usize, usize), dots: &mut Vec<(usize, usize)>) {
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
