//! A curve as an SVG file: one number against another, both from zero.

use std::fmt::Write;

use crate::count;
use crate::html::escape;

/// A curve.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The title.
    pub title: String,
    /// The label of the horizontal axis.
    pub x: String,
    /// The label of the vertical axis.
    pub y: String,
    /// The points, from left to right.
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 55.0;

/// More points than this are indistinguishable.
const MOST: usize = 2_000;

impl Curve {
    /// The curve as a complete SVG file.
    pub fn svg(&self) -> String {
        let shown: Vec<(f64, f64)> = self
            .points
            .iter()
            .step_by(self.points.len().div_ceil(MOST).max(1))
            .chain(self.points.last())
            .copied()
            .filter(|(x, y)| x.is_finite() && y.is_finite())
            .collect();
        let most = |of: fn(&(f64, f64)) -> f64| shown.iter().map(of).fold(1.0, f64::max);
        let (right, top) = (round_up(most(|p| p.0)), round_up(most(|p| p.1)));
        let across = |x: f64| LEFT + x / right * (WIDTH - LEFT - RIGHT);
        let up = |y: f64| HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"11\" fill=\"#333\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>\n",
            escape(&self.title)
        );
        for fifth in 0..=5 {
            let part = f64::from(fifth) / 5.0;
            let (x, y) = (across(part * right), up(part * top));
            let _ = writeln!(
                svg,
                "<path d=\"M{x:.1} {TOP}V{:.1}M{LEFT} {y:.1}H{:.1}\" stroke=\"#e3e3e3\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                HEIGHT - BOTTOM,
                WIDTH - RIGHT,
                HEIGHT - BOTTOM + 18.0,
                count((part * right) as u64),
                LEFT - 8.0,
                y + 4.0,
                count((part * top) as u64)
            );
        }
        let line: Vec<String> = shown
            .iter()
            .map(|&(x, y)| format!("{:.1},{:.1}", across(x), up(y)))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"#b5442e\" stroke-width=\"1.5\"/>\n<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n<text transform=\"translate(16 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n</svg>",
            line.join(" "),
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 12.0,
            escape(&self.x),
            (TOP + HEIGHT - BOTTOM) / 2.0,
            escape(&self.y)
        );
        svg
    }
}

/// The end of an axis with five round steps: the next multiple of 1, 2, 2.5 or 5 times a power of ten.
fn round_up(most: f64) -> f64 {
    let power = 10f64.powf(most.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    let fitting = steps.into_iter().find(|step| step * power >= most);
    fitting.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers_and_the_last_point_is_kept() {
        let points = (0..5_000)
            .map(|n| (f64::from(n), f64::from(n / 3)))
            .collect();
        let svg = Curve {
            title: "a < b".into(),
            x: "read".into(),
            y: "written".into(),
            points,
        }
        .svg();
        assert!(svg.contains("a &lt; b") && svg.contains(">5,000<") && svg.contains(">2,000<"));
        let last = format!("{:.1},", LEFT + 4_999.0 / 5_000.0 * (WIDTH - LEFT - RIGHT));
        assert!(svg.contains(&last), "{svg}");
        assert!(svg.len() < 60_000);
    }
}
