//! A heat map: a grid of numbers, darker where they are larger.

use std::fmt::Write;

use super::frame::CHARACTER;
use crate::html::escape;
use crate::number::{count, short};

/// A grid of counts with names of rows and columns. Shades are logarithmic.
#[derive(Clone, Debug)]
pub struct Heat {
    /// The title.
    pub title: String,
    /// What columns are.
    pub x: String,
    /// What rows are.
    pub y: String,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows from the top: a name and a value for each column; `None` where there is no value.
    pub rows: Vec<(String, Vec<Option<u64>>)>,
}

impl Heat {
    /// The plot as an SVG element.
    pub fn svg(&self) -> String {
        let longest = self.rows.iter().map(|(name, _)| name.chars().count());
        let left = longest.max().unwrap_or(0) as f64 * CHARACTER + 34.0;
        let cell = ((720.0 - left) / self.columns.len().max(1) as f64).min(96.0);
        let tall = 26.0;
        let top = 64.0;
        let width = left + cell * self.columns.len() as f64 + 4.0;
        let height = top + tall * self.rows.len() as f64 + 8.0;
        let values = self.rows.iter().flat_map(|(_, values)| values).flatten();
        let most = (values.copied().max().unwrap_or(0).max(1) as f64).ln_1p();
        let mut svg = format!(
            "<svg viewBox=\"0 0 {:.0} {height:.0}\" role=\"img\" aria-label=\"{1}\">\n<text class=\"title\" x=\"4\" y=\"18\">{1}</text>\n\
             <text class=\"axis\" x=\"{2:.1}\" y=\"36\" text-anchor=\"middle\">{3}</text>\n\
             <text class=\"axis\" transform=\"translate(14 {4:.1}) rotate(-90)\" text-anchor=\"middle\">{5}</text>\n",
            width.max(720.0),
            escape(&self.title),
            left + (width - left) / 2.0,
            escape(&self.x),
            top + (height - top) / 2.0,
            escape(&self.y)
        );
        for (at, name) in self.columns.iter().enumerate() {
            let x = left + cell * (at as f64 + 0.5);
            let _ = writeln!(
                svg,
                "<text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                top - 8.0,
                escape(name)
            );
        }
        for (number, (name, values)) in self.rows.iter().enumerate() {
            let y = top + tall * number as f64;
            let _ = writeln!(
                svg,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 7.0,
                y + 17.0,
                escape(name)
            );
            for ((at, value), column) in values.iter().enumerate().zip(&self.columns) {
                let x = left + cell * at as f64;
                let share = value.map_or(0.0, |value| (value as f64).ln_1p() / most);
                // Seven shades, each with a text colour that can be read on it.
                let shade = (share * 6.0).ceil() as usize;
                let text = match value {
                    None => "n/a".to_owned(),
                    Some(0) => String::new(),
                    Some(value) => short(*value as f64),
                };
                let exact = value.map_or("n/a".to_owned(), count);
                let _ = writeln!(
                    svg,
                    "<g class=\"mark heat h{shade}\"><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text><title>{} {}, {} {}: {exact}</title></g>",
                    cell - 2.0,
                    tall - 2.0,
                    x + cell / 2.0 - 1.0,
                    y + 16.5,
                    escape(&self.y),
                    escape(name),
                    escape(&self.x),
                    escape(column),
                );
            }
        }
        svg.push_str("</svg>\n");
        svg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_value_is_darkest_and_nothing_is_empty() {
        let svg = Heat {
            title: "t".into(),
            x: "query".into(),
            y: "path".into(),
            columns: vec!["0".into(), "1".into()],
            rows: vec![
                ("0".into(), vec![Some(0), Some(1_000)]),
                ("1".into(), vec![None, Some(1)]),
            ],
        }
        .svg();
        assert!(svg.contains("path 0, query 1: 1,000") && svg.contains("heat h6"));
        assert!(svg.contains("heat h0") && svg.contains("n/a"));
    }
}
