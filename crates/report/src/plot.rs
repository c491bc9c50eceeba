//! Plots as SVG: points over a logarithmic axis.

use std::fmt::Write;

use crate::html::escape;

/// A point of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The label.
    pub name: String,
    /// The horizontal position, above zero.
    pub x: f64,
    /// The vertical position, from 0 to 1.
    pub y: f64,
    /// Whether the point is marked. Marked points are joined by a line.
    pub marked: bool,
}

/// Points between 0 and 1 over a logarithmic axis. The marked ones are joined by a line.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The title.
    pub title: String,
    /// The label of the horizontal axis.
    pub x: String,
    /// The label of the vertical axis.
    pub y: String,
    /// The points.
    pub points: Vec<Point>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;

impl Plot {
    /// The plot as an SVG element.
    pub fn svg(&self) -> String {
        let shown: Vec<&Point> = self
            .points
            .iter()
            .filter(|point| point.x > 0.0 && point.x.is_finite() && point.y.is_finite())
            .collect();
        let exponents = shown.iter().map(|point| point.x.log10());
        let low = exponents.clone().fold(0.0f64, f64::min).floor();
        let high = exponents.fold(low + 1.0, f64::max).ceil();
        let across = |x: f64| LEFT + (x.log10() - low) / (high - low) * (WIDTH - LEFT - RIGHT);
        let up = |y: f64| HEIGHT - BOTTOM - y.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM);
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{0}\">\n<text class=\"title\" x=\"{LEFT}\" y=\"22\">{0}</text>\n",
            escape(&self.title)
        );
        let mut exponent = low;
        while exponent <= high {
            let x = across(10f64.powf(exponent));
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{:.1}\"/><text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                HEIGHT - BOTTOM,
                HEIGHT - BOTTOM + 18.0,
                tick(exponent)
            );
            exponent += 1.0;
        }
        for fifth in 0..=5 {
            let value = f64::from(fifth) / 5.0;
            let y = up(value);
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value:.1}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                y + 4.0
            );
        }
        let _ = writeln!(
            svg,
            "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n<text class=\"axis\" transform=\"translate(16 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 10.0,
            escape(&self.x),
            (TOP + HEIGHT - BOTTOM) / 2.0,
            escape(&self.y)
        );
        let mut marked: Vec<&&Point> = shown.iter().filter(|point| point.marked).collect();
        marked.sort_by(|a, b| a.x.total_cmp(&b.x).then(a.y.total_cmp(&b.y)));
        let line: Vec<String> = marked
            .iter()
            .map(|point| format!("{:.1},{:.1}", across(point.x), up(point.y)))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline class=\"frontier\" points=\"{}\"/>",
            line.join(" ")
        );
        for point in shown {
            let class = if point.marked { "best" } else { "point" };
            let (x, y) = (across(point.x), up(point.y));
            let _ = writeln!(
                svg,
                "<g class=\"{class}\"><circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{}: {}, {}</title></circle><text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
                escape(&point.name),
                point.x,
                point.y,
                x + 7.0,
                y - 5.0,
                escape(&point.name)
            );
        }
        svg.push_str("</svg>\n");
        svg
    }
}

fn tick(exponent: f64) -> String {
    if (-3.0..=3.0).contains(&exponent) {
        format!("{}", 10f64.powf(exponent))
    } else {
        format!("1e{exponent}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_the_picture_and_points_that_are_nowhere_are_left_out() {
        let point = |name: &str, x: f64, marked| Point {
            name: name.into(),
            x,
            y: 0.5,
            marked,
        };
        let svg = Plot {
            title: "a < b".into(),
            x: "cost".into(),
            y: "accuracy".into(),
            points: vec![
                point("<script>", 0.01, true),
                point("zero", 0.0, false),
                point("b", 1.0, true),
            ],
        }
        .svg();
        assert!(
            !svg.contains("<script>") && svg.contains("&lt;script&gt;") && svg.contains("a &lt; b")
        );
        assert!(!svg.contains("zero"));
        assert_eq!(svg.matches("<circle").count(), 2);
        // Two decades: 0.01 on the left edge, 1 on the right.
        assert!(svg.contains("points=\"60.0,205.0 650.0,205.0\""), "{svg}");
    }
}
