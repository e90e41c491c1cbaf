//! Plots as people see them.

use isentrope_lab::text_plot::{Curve, TextPlot};

fn curve(name: &str, points: Vec<(f64, f64)>) -> Curve {
    Curve { name: name.into(), points, scattered: false }
}

fn plot(curves: Vec<Curve>) -> TextPlot {
    TextPlot { x: "step", y: "value", curves }
}

fn shown(plot: &TextPlot, width: u16, height: u16) -> Vec<String> {
    plot.lines(width, height, false)
}

/// Markers and dots, without axes, labels and the legend.
fn drawn(line: &str) -> usize {
    line.chars().filter(|c| "●■▲".contains(*c) || ('\u{2801}'..='\u{28ff}').contains(c)).count()
}

#[test]
fn a_rising_line_rises_within_its_frame() {
    let points = (0..50).map(|x| (f64::from(x), f64::from(x * x))).collect();
    let plot = plot(vec![curve("square", points)]);
    let lines = shown(&plot, 60, 12);
    let expected = [
        "value",
        "     │                                                  ⢀⡠⠔⠊",
        "2000 ┤                                               ⣀⠤⠒⠁",
        "     │                                          ⢀⡠⠔⠒⠉",
        "     │                                      ⣀⠤⠔⠊⠁",
        "1000 ┤                                ⢀⣀⣀⠤⠒⠉",
        "     │                           ⣀⡠⠤⠔⠊⠁",
        "     │                  ⢀⣀⡠⠤⠤⠒⠒⠉⠉",
        "   0 ┤⣀⣀⣀⣀⣀⣀⣀⡠⠤⠤⠤⠤⠒⠒⠒⠉⠉⠉⠁",
        "     └┬──────────┬──────────┬──────────┬─────────┬───── step",
        "      0         10         20         30        40",
        "  ● square",
    ];
    assert_eq!(lines, expected, "\n{}", lines.join("\n"));
    assert!(plot.lines(60, 12, true).join("").contains("\x1b[36m"));
}

#[test]
fn few_points_are_marked_and_curves_differ_without_colours() {
    let falling = (0..5).map(|x| (f64::from(x), 4.0 - f64::from(x))).collect();
    let rising = (0..5).map(|x| (f64::from(x), f64::from(x))).collect();
    let plot = plot(vec![curve("falling", falling), curve("rising", rising)]);
    let text = shown(&plot, 40, 10).join("\n");
    let count = |marker: char| text.matches(marker).count();
    // One in the legend; where they cross, the last is seen.
    assert_eq!((count('●'), count('■')), (5, 6), "{text}");
    assert!(text.ends_with("  ● falling   ■ rising"), "{text}");
}

#[test]
fn dense_curves_have_markers_here_and_there() {
    let of = |shift: f64| (0..2000).map(|x| (f64::from(x), f64::from(x) + shift)).collect();
    let text = shown(&plot(vec![curve("a", of(0.0)), curve("b", of(400.0))]), 80, 16).join("\n");
    for marker in ['●', '■'] {
        assert!((4..9).contains(&text.matches(marker).count()), "{text}");
    }
}

#[test]
fn what_is_not_finite_is_a_gap_and_not_a_bound() {
    assert!(
        shown(&plot(vec![curve("", vec![(0.0, f64::NAN), (f64::INFINITY, 1.0)])]), 40, 10)
            .is_empty()
    );
    assert!(shown(&TextPlot::default(), 40, 10).is_empty());
    assert_eq!(shown(&plot(vec![curve("", vec![(3.0, 1.0), (4.0, f64::NAN)])]), 40, 10).len(), 10);
    let points =
        (0..200).map(|x| (f64::from(x), if (80..120).contains(&x) { f64::NAN } else { 1.0 }));
    let lines = shown(&plot(vec![curve("", points.collect())]), 80, 8);
    let row = lines.iter().find(|line| drawn(line) > 0).unwrap();
    let gap = row.trim_end().chars().skip(4).filter(|c| *c == ' ').count();
    assert!((10..20).contains(&gap), "{row}");
    assert!(lines.iter().any(|line| line.starts_with("1 ┤")), "{lines:#?}");
}

#[test]
fn a_point_alone_is_seen_in_the_middle() {
    for value in [0.0, -3.0, 1e-12, 1e200] {
        let lines = shown(&plot(vec![curve("", vec![(7.0, value)])]), 40, 9);
        let row = lines.iter().position(|line| line.contains('●')).unwrap();
        assert!((3..=5).contains(&row), "{lines:#?}");
        assert!(lines[8].contains('7'), "{lines:#?}");
    }
}

#[test]
fn every_size_has_its_lines_and_none_is_too_wide() {
    let points: Vec<(f64, f64)> =
        (0..97).map(|x| (f64::from(x), f64::from(x).sin() * 1e-7)).collect();
    let names = ["a", "a rather long name of a run", "漢字", "d", "e", "f", "g"];
    let plot = plot(names.iter().map(|name| curve(name, points.clone())).collect());
    let wide =
        |line: &String| line.chars().map(|c| if c > '\u{3000}' { 2 } else { 1 }).sum::<usize>();
    for width in (20..200).step_by(7) {
        for height in [5, 6, 8, 13, 40] {
            let lines = shown(&plot, width, height);
            assert_eq!(lines.len(), usize::from(height));
            assert!(lines.iter().all(|line| wide(line) <= usize::from(width)), "{lines:#?}");
        }
    }
    // The legend never takes the plot's place.
    let lines = shown(&plot, 30, 9);
    assert!(
        lines[8].contains("more") && lines.iter().filter(|line| drawn(line) > 1).count() > 2,
        "{lines:#?}"
    );
}

#[test]
fn control_characters_in_names_are_not_drawn() {
    let plot = plot(vec![curve("a\x1b[31m\r", vec![(0.0, 1.0)])]);
    let text = shown(&plot, 40, 10).join("");
    assert!(!text.contains(char::is_control), "{text:?}");
}
