//! The lines of a chart, as the page's script gets them.

use serde::Serialize;

/// Lines in one frame.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Chart {
    /// The id of the element in which the chart is drawn.
    pub id: String,
    /// Title of the x axis.
    pub x: &'static str,
    /// Title of the y axis.
    pub y: String,
    /// Whether y is a share.
    pub share: bool,
    /// Whether the metrics of one run share the frame, distinguished by colour. With several runs
    /// one metric is drawn at a time.
    pub together: bool,
    /// The lines.
    pub lines: Vec<Line>,
}

impl Chart {
    /// Whether the chart has a mean over seeds.
    pub fn has_mean(&self) -> bool {
        self.lines.iter().any(|line| line.style == Style::Mean)
    }
}

/// A drawn line: one metric of one run.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Line {
    /// The run's number.
    pub run: usize,
    /// The metric, as an index into the chart's metrics.
    pub metric: usize,
    /// The metric's name in the legend.
    pub name: String,
    /// How it is drawn.
    #[serde(rename = "as")]
    pub style: Style,
    /// `[points]`.
    pub x: Vec<f64>,
    /// `[points]`.
    pub y: Vec<f64>,
    /// The method, if the line is a mean over seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<usize>,
    /// Lower end of each point's interval, for a mean over seeds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub low: Vec<f64>,
    /// Upper end of each point's interval, if it has one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub high: Vec<f64>,
    /// Means over stretches of steps, if there are many points.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub means: Vec<(f64, f64)>,
    /// Texts shown when the pointer is over a point, besides its numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub text: Vec<String>,
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Style {
    /// Joined points.
    #[default]
    Line,
    /// Joined points that are so few that each is marked.
    Marked,
    /// Points alone.
    Points,
    /// A fit or a prediction.
    Dotted,
    /// From `y` to `high`.
    Band,
    /// A point with an interval: from the first to the last of three values.
    Interval,
    /// A mean over seeds, with a band from `low` to `high`.
    Mean,
}
