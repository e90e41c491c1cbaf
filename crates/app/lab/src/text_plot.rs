//! Curves as lines of text, for terminals: round numbers at the axes, a marker for each curve, the
//! legend below.

mod axis;
mod canvas;

use self::axis::Axis;
use self::canvas::{Canvas, Color};
use unicode_width::UnicodeWidthStr;

/// Colours of curves, in their order.
const COLORS: [Color; 6] =
    [Color::Cyan, Color::Yellow, Color::Magenta, Color::Green, Color::Red, Color::Blue];
/// Shapes that tell curves apart without colours, in their order.
const MARKERS: [char; 8] = ['●', '■', '▲', '◆', '○', '□', '△', '◇'];
/// Dots in a cell of Braille, across and down.
const DOTS: [usize; 2] = [2, 4];
/// Columns from one marker to the next on a curve that has more points than columns.
const MARKER_DISTANCE: usize = 16;
/// Columns for a point, so that its marker leaves the curve to be seen.
const ROOM_OF_MARKER: usize = 3;
/// Columns before and between the items of a legend.
const LEGEND_INDENT: usize = 2;
const LEGEND_GAP: usize = 3;
/// The least and the largest plot, in columns and in rows.
const SIZES: [(u16, u16); 2] = [(20, 1000), (5, 500)];

/// A curve, or points.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Its name in the legend; a curve without a name is not in the legend.
    pub name: String,
    /// x and y; where one is not finite, the curve has a gap.
    pub points: Vec<(f64, f64)>,
    /// Whether points stand alone instead of being joined.
    pub scattered: bool,
}

/// Curves in one frame.
#[derive(Clone, Debug, Default)]
pub struct TextPlot {
    /// The title of the x axis.
    pub x: String,
    /// The title of the y axis.
    pub y: String,
    /// Drawn in this order, each in its colour and with its marker.
    pub curves: Vec<Curve>,
}

/// The colour and the marker of a curve.
#[derive(Clone, Copy)]
struct Look {
    color: Color,
    marker: char,
}

/// The part of the canvas that curves are drawn in, with its axes.
struct Frame {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
    x: Axis,
    y: Axis,
}

impl TextPlot {
    /// The plot in so many columns and rows, in ANSI colours if `colors`. No lines if there is
    /// nothing finite to draw.
    pub fn lines(&self, width: u16, height: u16, colors: bool) -> Vec<String> {
        let [width, height] = [(width, SIZES[0]), (height, SIZES[1])]
            .map(|(size, (least, most))| usize::from(size.clamp(least, most)));
        let legend = self.legend(width, height);
        let top = usize::from(!self.y.is_empty());
        let rows = height.saturating_sub(top + 2 + legend.len()).max(1);
        let finite = || self.curves.iter().flat_map(|c| &c.points).filter(|p| is_finite(p));
        let Some(y) = Axis::of(finite().map(|p| p.1), rows.div_ceil(2).clamp(2, 6)) else {
            return Vec::new();
        };
        let left = y.ticks.iter().map(|(_, text)| text.len()).max().unwrap_or(0) + 2;
        let columns = width.saturating_sub(left).max(1);
        let Some(x) = Axis::of(finite().map(|p| p.0), (columns / 10).clamp(2, 10)) else {
            return Vec::new();
        };
        let mut canvas = Canvas::new(width, height);
        let frame = Frame { left, top, width: columns, height: rows, x, y };
        canvas.write(0, 0, &self.y, Color::Default);
        frame.draw_axes(&self.x, &mut canvas);
        for (i, curve) in self.curves.iter().enumerate() {
            frame.draw(curve, i, &mut canvas);
        }
        // After all curves, so that each can be told where another lies upon it.
        for (i, curve) in self.curves.iter().enumerate() {
            frame.mark(curve, i, self.curves.len(), &mut canvas);
        }
        for (row, items) in (top + rows + 2..height).zip(&legend) {
            let mut column = LEGEND_INDENT;
            for (look, text) in items {
                canvas.write(column, row, text, look.color);
                column += text.width() + LEGEND_GAP;
            }
        }
        canvas.lines(colors)
    }

    /// Rows of markers with names, at most a third of the height; a last item counts the others.
    fn legend(&self, width: usize, height: usize) -> Vec<Vec<(Look, String)>> {
        let named: Vec<usize> =
            (0..self.curves.len()).filter(|&i| !self.curves[i].name.is_empty()).collect();
        let most = (height / 3).max(1);
        let (mut rows, mut column) = (Vec::<Vec<(Look, String)>>::new(), usize::MAX);
        for &i in &named {
            let look = look(i);
            let name = fitted(&self.curves[i].name, width.saturating_sub(6));
            let text = format!("{} {name}", look.marker);
            let wide = text.width() + LEGEND_GAP;
            if column.saturating_add(wide) > width {
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
            let shown: usize = rows.iter().map(Vec::len).sum();
            let look = Look { color: Color::Default, marker: ' ' };
            rows.push(vec![(look, format!("and {} more", named.len() - shown))]);
        }
        rows
    }
}

impl Frame {
    fn draw_axes(&self, title: &str, canvas: &mut Canvas) {
        let &Self { left, top, width, height, .. } = self;
        let (axis, bottom, right) = (left - 1, top + height, left + width);
        let mut write = |column, row, text: &str| canvas.write(column, row, text, Color::Default);
        for row in top..bottom {
            write(axis, row, "│");
        }
        for (value, text) in &self.y.ticks {
            let row = self.row(*value);
            write(axis, row, "┤");
            write(axis - 1 - text.len(), row, text);
        }
        write(axis, bottom, "└");
        for column in left..right {
            write(column, bottom, "─");
        }
        let mut free = 0;
        for (value, text) in &self.x.ticks {
            let (column, wide) = (self.column(*value), text.len());
            let begin = column.saturating_sub(wide / 2).min(right.saturating_sub(wide));
            if begin >= free {
                write(column, bottom, "┬");
                write(begin, bottom + 1, text);
                free = begin + wide + 2;
            }
        }
        // The title stands at the end of the axis, cut to half of it.
        let title = fitted(title, width / 2);
        if title.width() > 0 {
            let begin = right.saturating_sub(title.width() + 1);
            write(begin, bottom, &format!(" {title}"));
        }
    }

    fn draw(&self, curve: &Curve, number: usize, canvas: &mut Canvas) {
        let look = look(number);
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
                Some(before) => canvas::line(dot(before), dot(point), &mut dots),
                None => dots.push(dot(point)),
            }
        }
        canvas.draw_dots((self.left, self.top), self.width, &dots, look.color);
    }

    fn mark(&self, curve: &Curve, number: usize, of: usize, canvas: &mut Canvas) {
        let look = look(number);
        for (x, y) in self.marked(curve, number, of) {
            canvas.write(self.column(x), self.row(y), &look.marker.to_string(), look.color);
        }
    }

    /// The points of a curve that get its marker: all if there is room, those that nothing is
    /// joined to, and some here and there if the plot has other curves.
    fn marked(&self, curve: &Curve, number: usize, of: usize) -> Vec<(f64, f64)> {
        let points = &curve.points;
        let count = points.iter().filter(|p| is_finite(p)).count();
        let all = curve.scattered || count * ROOM_OF_MARKER <= self.width;
        let finite_at = |i: Option<usize>| i.and_then(|i| points.get(i)).is_some_and(is_finite);
        let is_apart = |i: usize| !finite_at(i.checked_sub(1)) && !finite_at(Some(i + 1));
        // Curves begin at different columns, so that one does not hide the other's markers.
        let mut next = self.left + MARKER_DISTANCE * number / of.max(1);
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
        self.left + cell(self.x.place(x), self.width, DOTS[0])
    }

    fn row(&self, y: f64) -> usize {
        self.top + cell(1.0 - self.y.place(y), self.height, DOTS[1])
    }
}

/// The cell of a place from 0 to 1, where each cell has so many dots.
fn cell(place: f64, cells: usize, dots: usize) -> usize {
    libm::round(place * (cells * dots - 1) as f64) as usize / dots
}

fn is_finite((x, y): &(f64, f64)) -> bool {
    x.is_finite() && y.is_finite()
}

fn look(number: usize) -> Look {
    let marker = match number.checked_sub(MARKERS.len()) {
        None => MARKERS[number],
        Some(letter) => char::from(b'A' + (letter % 26) as u8),
    };
    Look { color: COLORS[number % COLORS.len()], marker }
}

/// A text that is cut to so many columns.
fn fitted(text: &str, columns: usize) -> String {
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
    cut + "…"
}
