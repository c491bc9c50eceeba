//! Lines: one number against another.

use std::fmt::Write;

use super::frame::Frame;
use super::scale::Axis;
use crate::html::escape;

/// The points of one colour, from left to right.
#[derive(Clone, Debug)]
pub struct LineSeries {
    /// The name, for the legend.
    pub name: String,
    /// The points.
    pub points: Vec<(f64, f64)>,
    /// Whether the line is dashed, as that of a fitted law.
    pub dashed: bool,
}

/// Lines over common axes.
#[derive(Clone, Debug)]
pub struct Lines {
    /// The title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series.
    pub series: Vec<LineSeries>,
}

/// More points than this are indistinguishable.
const MOST: usize = 400;

impl Lines {
    /// The plot as an SVG element.
    pub fn svg(&self) -> String {
        let names: Vec<&str> = self.series.iter().map(|series| &series.name[..]).collect();
        let mut frame = Frame::new(&self.title, &names);
        let points = || self.series.iter().flat_map(|series| &series.points);
        let (x, y) = (
            self.x.scale(points().map(|point| point.0)),
            self.y.scale(points().map(|point| point.1)),
        );
        frame.vertical(&y, &self.y.label);
        frame.horizontal(&x, &self.x.label);
        for (number, series) in self.series.iter().enumerate() {
            let shown: Vec<(f64, f64)> = series
                .points
                .iter()
                .copied()
                .filter(|(a, b)| self.x.has(*a) && self.y.has(*b))
                .collect();
            let every = shown.len().div_ceil(MOST).max(1);
            let last = shown
                .last()
                .filter(|_| !(shown.len() - 1).is_multiple_of(every));
            let shown: Vec<(f64, f64)> = shown.iter().step_by(every).chain(last).copied().collect();
            let places: Vec<String> = shown
                .iter()
                .map(|(a, b)| format!("{:.1},{:.1}", frame.x(x.place(*a)), frame.y(y.place(*b))))
                .collect();
            let dashed = if series.dashed { " dashed" } else { "" };
            let _ = writeln!(
                frame.svg,
                "<polyline class=\"line l{}{dashed}\" points=\"{}\"/>",
                number % 8,
                places.join(" ")
            );
            if series.dashed {
                continue;
            }
            // A few points to hover over.
            let every = shown.len().div_ceil(60).max(1);
            for (a, b) in shown.iter().step_by(every) {
                let name = match self.series.len() {
                    1 => String::new(),
                    _ => format!("{}: ", series.name),
                };
                let _ = writeln!(
                    frame.svg,
                    "<circle class=\"mark s{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"><title>{}{} {}, {} {}</title></circle>",
                    number % 8,
                    frame.x(x.place(*a)),
                    frame.y(y.place(*b)),
                    escape(&name),
                    escape(&self.x.label),
                    self.x.exact(*a),
                    escape(&self.y.label),
                    self.y.exact(*b)
                );
            }
        }
        frame.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_points_become_few_and_the_last_one_stays() {
        let svg = Lines {
            title: "growth".into(),
            x: Axis::linear("captures"),
            y: Axis::linear("URI-Rs"),
            series: vec![LineSeries {
                name: "all".into(),
                points: (0..=5_000).map(|n| (f64::from(n), f64::from(n))).collect(),
                dashed: false,
            }],
        }
        .svg();
        assert!(svg.len() < 30_000, "{}", svg.len());
        assert!(svg.contains("696.0,36.0\""), "{svg}");
    }

    #[test]
    fn values_that_an_axis_cannot_show_are_left_out() {
        let svg = Lines {
            title: "t".into(),
            x: Axis::log("x"),
            y: Axis::percent("y"),
            series: vec![LineSeries {
                name: "<s>".into(),
                points: vec![(0.0, 0.5), (1.0, f64::NAN), (10.0, 0.25)],
                dashed: false,
            }],
        }
        .svg();
        assert_eq!(svg.matches("<circle").count(), 1);
        assert!(svg.contains("y 25.00%"));
    }
}
