//! Horizontal bars: the entries of a list, whose names are longer than a column is wide.

use std::fmt::Write;

use super::bars::BarSeries;
use super::frame::{CHARACTER, Frame};
use super::scale::Axis;
use crate::html::escape;

/// The height of a bar and of the space around it.
const ROW: f64 = 22.0;
/// Longer names are cut; the whole name is shown on hover.
const LONGEST: usize = 40;

/// Horizontal bars from top to bottom, those of several series side by side in one line.
///
/// ```
/// use waypost_report::{Axis, BarSeries, Ranked};
///
/// let svg = Ranked {
///     title: "Most captured hosts".into(),
///     x: Axis::linear("captures"),
///     names: vec!["www.example.com".into(), "example.org".into()],
///     series: vec![BarSeries { name: "captures".into(), values: vec![12.0, 3.0] }],
/// }
/// .svg();
/// assert!(svg.contains("<title>www.example.com: 12</title>"));
/// ```
#[derive(Clone, Debug)]
pub struct Ranked {
    /// The title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The names of the bars, from the top.
    pub names: Vec<String>,
    /// The series, the leftmost first.
    pub series: Vec<BarSeries>,
}

impl Ranked {
    /// The plot as an SVG element.
    pub fn svg(&self) -> String {
        let shown: Vec<String> = self.names.iter().map(|name| cut(name)).collect();
        let longest = shown.iter().map(|name| name.chars().count()).max();
        let left = longest.unwrap_or(0) as f64 * CHARACTER + 34.0;
        let series: Vec<&str> = self.series.iter().map(|series| &series.name[..]).collect();
        let inner = ROW * self.names.len().max(1) as f64;
        let mut frame = Frame::with(&self.title, &series, left, inner);
        let value = |series: &BarSeries, at: usize| {
            let value = series.values.get(at).copied().unwrap_or(0.0);
            if value.is_finite() { value } else { 0.0 }
        };
        let sum = |at: usize| self.series.iter().map(|series| value(series, at)).sum();
        let scale = self.x.scale((0..self.names.len()).map(sum));
        frame.horizontal(&scale, &self.x.label);
        let (wide, tall) = frame.size();
        let top = frame.y(1.0);
        for (at, (name, shown)) in self.names.iter().zip(&shown).enumerate() {
            let y = top + tall * at as f64 / self.names.len() as f64;
            let _ = writeln!(
                frame.svg,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 7.0,
                y + 15.0,
                escape(shown)
            );
            let mut before = 0.0;
            for (number, series) in self.series.iter().enumerate() {
                let value = value(series, at);
                let (from, to) = (scale.place(before), scale.place(before + value));
                before += value;
                if to <= from {
                    continue;
                }
                let what = match self.series.len() {
                    1 => String::new(),
                    _ => format!(", {}", series.name),
                };
                let _ = writeln!(
                    frame.svg,
                    "<rect class=\"mark s{}\" x=\"{:.2}\" y=\"{:.1}\" width=\"{:.2}\" height=\"{:.1}\"><title>{}{}: {}</title></rect>",
                    number % 8,
                    frame.x(from),
                    y + 3.0,
                    ((to - from) * wide).max(0.5),
                    ROW - 6.0,
                    escape(name),
                    escape(&what),
                    self.x.exact(value)
                );
            }
        }
        frame.finish()
    }
}

/// A name that is not too long: its start and its end.
fn cut(name: &str) -> String {
    let length = name.chars().count();
    if length <= LONGEST {
        return name.to_owned();
    }
    let (head, tail) = (LONGEST * 2 / 3, LONGEST / 3);
    let start: String = name.chars().take(head).collect();
    let end: String = name.chars().skip(length - tail).collect();
    format!("{start}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_but_not_on_hover_and_series_follow_each_other() {
        let long = format!("com,example)/{}?<end>", "x".repeat(80));
        let series = |name: &str, values: &[f64]| BarSeries {
            name: name.into(),
            values: values.to_vec(),
        };
        let svg = Ranked {
            title: "a < b".into(),
            x: Axis::linear("captures"),
            names: vec![long.clone(), "b".into(), "c".into()],
            series: vec![
                series("hits", &[3.0, f64::NAN, 0.0]),
                series("misses", &[1.0, 2.0]),
            ],
        }
        .svg();
        assert_eq!(svg.matches("class=\"mark").count(), 3);
        assert!(svg.contains(&format!("<title>{}, hits: 3</title>", escape(&long))));
        assert!(svg.contains("xxx…x") && svg.contains("&lt;end&gt;</text>"));
        let none = Ranked {
            title: String::new(),
            x: Axis::linear("n"),
            names: Vec::new(),
            series: Vec::new(),
        };
        assert!(!none.svg().contains("NaN"));
    }
}
