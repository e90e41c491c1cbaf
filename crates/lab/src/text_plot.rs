//! Curves as lines of text, for terminals.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::{Constraint, Rect};
use ratatui_core::style::{Color, Style};
use ratatui_core::symbols::Marker;
use ratatui_core::widgets::Widget;
use ratatui_widgets::chart::{Axis, Chart, Dataset, GraphType};

/// Colours of curves, in their order.
const COLORS: [Color; 6] =
    [Color::Blue, Color::Yellow, Color::Green, Color::Red, Color::Magenta, Color::Cyan];

/// A curve, or points.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Its name in the legend; without a name it is not there.
    pub name: String,
    /// x and y; only finite ones are drawn.
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
    /// Drawn in this order, each in its colour.
    pub curves: Vec<Curve>,
}

impl TextPlot {
    /// The plot in so many columns and rows; in colours of ANSI terminals if `colors`. No lines where there is nothing finite
    /// to draw.
    pub fn lines(&self, width: u16, height: u16, colors: bool) -> Vec<String> {
        let finite: Vec<Vec<(f64, f64)>> = self
            .curves
            .iter()
            .map(|c| c.points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect())
            .collect();
        let (Some(xs), Some(ys)) =
            (bounds(finite.iter().flatten().map(|p| p.0)), bounds(finite.iter().flatten().map(|p| p.1)))
        else {
            return Vec::new();
        };
        let datasets =
            self.curves.iter().zip(&finite).zip(COLORS.iter().cycle()).map(|((curve, points), color)| {
                let marker = if curve.scattered { Marker::Dot } else { Marker::Braille };
                let dataset = Dataset::default().marker(marker).style(Style::new().fg(*color)).data(points);
                let dataset = if curve.name.is_empty() { dataset } else { dataset.name(curve.name.as_str()) };
                dataset.graph_type(if curve.scattered { GraphType::Scatter } else { GraphType::Line })
            });
        let chart = Chart::new(datasets.collect())
            .hidden_legend_constraints((Constraint::Ratio(1, 1), Constraint::Ratio(1, 1)))
            .x_axis(Axis::default().title(self.x.as_str()).bounds(xs).labels(labels(xs)))
            .y_axis(Axis::default().title(self.y.as_str()).bounds(ys).labels(labels(ys)));
        let area = Rect::new(0, 0, width.max(20), height.max(5));
        let mut buffer = Buffer::empty(area);
        chart.render(area, &mut buffer);
        (0..area.height).map(|row| line(&buffer, area.width, row, colors)).collect()
    }
}

/// From the least to the largest, a little apart where they are one.
fn bounds(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    let [low, high] =
        values.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], v| [low.min(v), high.max(v)]);
    if low > high {
        return None;
    }
    let apart = if high > low { 0.0 } else { low.abs().max(1.0) * 0.05 };
    Some([low - apart, high + apart])
}

fn labels([low, high]: [f64; 2]) -> [String; 3] {
    [low, f64::midpoint(low, high), high].map(|value| match value.abs() {
        v if v >= 1e5 || (v > 0.0 && v < 1e-3) => format!("{value:.1e}"),
        v if v >= 100.0 => format!("{value:.0}"),
        _ => format!("{value:.3}"),
    })
}

/// A row of cells as text without blanks at its end.
fn line(buffer: &Buffer, width: u16, row: u16, colors: bool) -> String {
    let cells: Vec<_> = (0..width).map(|column| &buffer[(column, row)]).collect();
    let used = cells.iter().rposition(|cell| cell.symbol() != " ").map_or(0, |last| last + 1);
    let (mut text, mut before) = (String::new(), Color::Reset);
    for cell in &cells[..used] {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rising_line_rises_within_its_frame() {
        let points = (0..50).map(|x| (f64::from(x), f64::from(x * x))).collect();
        let curves = vec![Curve { name: "square".into(), points, scattered: false }];
        let plot = TextPlot { x: "step".into(), y: "value".into(), curves };
        let lines = plot.lines(60, 12, false);
        assert_eq!(lines.len(), 12);
        let text = lines.join("\n");
        for part in ["square", "step", "value", "2401", "49.000"] {
            assert!(text.contains(part), "{text}");
        }
        let drawn = |line: &String| line.chars().any(|c| ('\u{2801}'..='\u{28ff}').contains(&c));
        assert!(lines.iter().filter(|line| drawn(line)).count() > 6, "{text}");
        assert!(!text.contains('\x1b') && plot.lines(60, 12, true).join("").contains("\x1b[34m"));
    }

    #[test]
    fn what_is_not_finite_is_not_drawn() {
        let curve =
            |points| TextPlot { curves: vec![Curve { points, ..Curve::default() }], ..TextPlot::default() };
        assert_eq!(curve(vec![(0.0, f64::NAN), (f64::INFINITY, 1.0)]).lines(40, 10, false), [""; 0]);
        assert_eq!(curve(vec![(3.0, 1.0), (4.0, f64::NAN)]).lines(40, 10, false).len(), 10);
        assert_eq!(TextPlot::default().lines(40, 10, true), [""; 0]);
    }
}
