//! Bars by category: one series, or several on top of each other. A histogram is bars whose
//! categories are ranges.

use std::fmt::Write;

use super::frame::{CHARACTER, Frame};
use super::scale::Axis;
use crate::html::escape;

/// The values of one colour.
#[derive(Clone, Debug)]
pub struct BarSeries {
    /// The name, for the legend.
    pub name: String,
    /// A value for each category.
    pub values: Vec<f64>,
}

/// Bars, those of several series stacked.
///
/// ```
/// use waypost_report::{Axis, BarSeries, Bars};
///
/// let svg = Bars {
///     title: "Captures by year".into(),
///     x: "year".into(),
///     y: Axis::linear("captures"),
///     categories: vec!["2004".into(), "2005".into()],
///     series: vec![BarSeries { name: "captures".into(), values: vec![3.0, 12.0] }],
/// }
/// .svg();
/// assert!(svg.contains("<title>2005: 12</title>"));
/// ```
#[derive(Clone, Debug)]
pub struct Bars {
    /// The title.
    pub title: String,
    /// The label of the horizontal axis.
    pub x: String,
    /// The vertical axis.
    pub y: Axis,
    /// The names under the bars.
    pub categories: Vec<String>,
    /// The series, the lowest first.
    pub series: Vec<BarSeries>,
}

impl Bars {
    /// The plot as an SVG element.
    pub fn svg(&self) -> String {
        let names: Vec<&str> = self.series.iter().map(|series| &series.name[..]).collect();
        let mut frame = Frame::new(&self.title, &names);
        let value = |series: &BarSeries, at: usize| {
            let value = series.values.get(at).copied().unwrap_or(0.0);
            if value.is_finite() { value } else { 0.0 }
        };
        let tops = (0..self.categories.len()).map(|at| {
            self.series
                .iter()
                .map(|series| value(series, at))
                .sum::<f64>()
        });
        // On a logarithmic axis, also the smallest bar has a height.
        let tops: Vec<f64> = tops.collect();
        let scale = self.y.scale(tops.iter().flat_map(|top| [*top, top / 2.0]));
        frame.vertical(&scale, &self.y.label);
        let count = self.categories.len().max(1) as f64;
        let (width, height) = frame.size();
        let slot = width / count;
        let longest = self.categories.iter().map(|name| name.chars().count());
        let longest = longest.max().unwrap_or(0) as f64 * CHARACTER + 8.0;
        let every = (longest / slot).ceil().max(1.0) as usize;
        for (at, category) in self.categories.iter().enumerate() {
            let x = frame.x(at as f64 / count) + slot * 0.1;
            let mut below = 0.0;
            for (number, series) in self.series.iter().enumerate() {
                let value = value(series, at);
                let (from, to) = (scale.place(below), scale.place(below + value));
                if to > from {
                    let top = frame.y(to);
                    let name = match self.series.len() {
                        1 => String::new(),
                        _ => format!(", {}", series.name),
                    };
                    let _ = writeln!(
                        frame.svg,
                        "<rect class=\"mark s{}\" x=\"{x:.2}\" y=\"{top:.2}\" width=\"{:.2}\" height=\"{:.2}\"><title>{}{}: {}</title></rect>",
                        number % 8,
                        slot * 0.8,
                        ((to - from) * height).max(0.5),
                        escape(category),
                        escape(&name),
                        self.y.exact(value)
                    );
                }
                below += value;
            }
            if at % every == 0 {
                let (x, y) = (x + slot * 0.4, frame.y(0.0) + 17.0);
                let _ = writeln!(
                    frame.svg,
                    "<text class=\"tick\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>",
                    escape(category)
                );
            }
        }
        frame.label(&self.x);
        frame.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacked_bars_add_up_and_missing_values_are_left_out() {
        let series = |name: &str, values: &[f64]| BarSeries {
            name: name.into(),
            values: values.to_vec(),
        };
        let svg = Bars {
            title: "a < b".into(),
            x: "year".into(),
            y: Axis::linear("n"),
            categories: (0..40).map(|year| (1980 + year).to_string()).collect(),
            series: vec![
                series("2xx", &[1.0, 3.0]),
                series("4xx", &[0.0, 1.0, f64::NAN]),
            ],
        }
        .svg();
        assert_eq!(svg.matches("class=\"mark").count(), 3);
        assert!(svg.contains("<title>1981, 4xx: 1</title>") && svg.contains("a &lt; b"));
        assert!(svg.matches("class=\"tick\"").count() < 30, "labels overlap");
    }
}
