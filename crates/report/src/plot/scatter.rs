//! Points over two axes, with a colour and a shape for each kind.
//!
//! Only the marked points, which are joined by a line, have labels, and only as many as can be
//! placed without overlapping. Every point shows its name and values on hover.

use std::fmt::Write;

use super::frame::{CHARACTER, Frame};
use super::scale::Axis;
use crate::html::escape;

/// A point of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The label.
    pub name: String,
    /// The kind, which the legend names.
    pub kind: String,
    /// The horizontal position.
    pub x: f64,
    /// The vertical position.
    pub y: f64,
    /// Whether the point is marked. Marked points are joined by a line.
    pub marked: bool,
}

/// Points of several kinds. The marked ones are joined by a line.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The points.
    pub points: Vec<Point>,
}

/// A rectangle that is taken: left, top, right, bottom.
type Area = (f64, f64, f64, f64);

impl Plot {
    /// The plot as an SVG element.
    pub fn svg(&self) -> String {
        let shown: Vec<&Point> = self
            .points
            .iter()
            .filter(|point| self.x.has(point.x) && self.y.has(point.y))
            .collect();
        let mut kinds: Vec<&str> = Vec::new();
        for point in &shown {
            if !kinds.contains(&&point.kind[..]) {
                kinds.push(&point.kind);
            }
        }
        let mut frame = Frame::new(&self.title, &kinds);
        let x = self.x.scale(shown.iter().map(|point| point.x));
        let y = self.y.scale(shown.iter().map(|point| point.y));
        frame.vertical(&y, &self.y.label);
        frame.horizontal(&x, &self.x.label);
        let place =
            |frame: &Frame, point: &Point| (frame.x(x.place(point.x)), frame.y(y.place(point.y)));
        let mut marked: Vec<&&Point> = shown.iter().filter(|point| point.marked).collect();
        marked.sort_by(|a, b| a.x.total_cmp(&b.x).then(a.y.total_cmp(&b.y)));
        let line: Vec<String> = marked
            .iter()
            .map(|point| place(&frame, point))
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let _ = writeln!(
            frame.svg,
            "<polyline class=\"line frontier\" points=\"{}\"/>",
            line.join(" ")
        );
        let mut taken: Vec<Area> = Vec::new();
        for point in &shown {
            let (x, y) = place(&frame, point);
            taken.push((x - 5.0, y - 5.0, x + 5.0, y + 5.0));
            let kind = kinds
                .iter()
                .position(|kind| *kind == point.kind)
                .unwrap_or(0);
            let best = if point.marked { " best" } else { "" };
            let title = format!(
                "<title>{}: {} {}, {} {}</title>",
                escape(&point.name),
                escape(&self.x.label),
                self.x.exact(point.x),
                escape(&self.y.label),
                self.y.exact(point.y)
            );
            let _ = writeln!(
                frame.svg,
                "<path class=\"mark s{}{best}\" d=\"{}\">{title}</path>",
                kind % 8,
                symbol(kind, x, y)
            );
        }
        let (width, _) = frame.size();
        let right = frame.x(0.0) + width;
        for point in marked {
            let (x, y) = place(&frame, point);
            let long = CHARACTER * point.name.chars().count() as f64;
            // To the right, to the left, above, below.
            let places = [
                (x + 8.0, y - 6.0),
                (x - 8.0 - long, y - 6.0),
                (x - long / 2.0, y - 10.0),
                (x - long / 2.0, y + 18.0),
                (x + 8.0, y + 12.0),
                (x - 8.0 - long, y + 12.0),
            ];
            let free = places.into_iter().find_map(|(left, base)| {
                let area = (left, base - 10.0, left + long, base + 3.0);
                let inside = area.0 > frame.x(0.0)
                    && area.2 < right
                    && area.1 > 0.0
                    && area.3 < frame.y(0.0);
                (inside && !taken.iter().any(|other| overlap(other, &area))).then_some(area)
            });
            let Some(area) = free else {
                continue;
            };
            taken.push(area);
            let _ = writeln!(
                frame.svg,
                "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                area.0,
                area.3 - 3.0,
                escape(&point.name)
            );
        }
        frame.finish()
    }
}

fn overlap(a: &Area, b: &Area) -> bool {
    a.0 < b.2 && b.0 < a.2 && a.1 < b.3 && b.1 < a.3
}

/// A circle, square, triangle, diamond, … around a point, so that kinds differ also without colour.
fn symbol(kind: usize, x: f64, y: f64) -> String {
    let moves: &[(f64, f64)] = match kind % 5 {
        0 => {
            return format!(
                "M{:.1} {y:.1}a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0",
                x - 4.5
            );
        }
        1 => &[(-4.0, -4.0), (4.0, -4.0), (4.0, 4.0), (-4.0, 4.0)],
        2 => &[(0.0, -5.0), (5.0, 4.0), (-5.0, 4.0)],
        3 => &[(0.0, -5.5), (5.5, 0.0), (0.0, 5.5), (-5.5, 0.0)],
        _ => &[(0.0, 5.0), (5.0, -4.0), (-5.0, -4.0)],
    };
    let corners: Vec<String> = moves
        .iter()
        .map(|(right, down)| format!("{:.1} {:.1}", x + right, y + down))
        .collect();
    format!("M{}Z", corners.join("L"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(name: &str, kind: &str, x: f64, marked: bool) -> Point {
        Point {
            name: name.into(),
            kind: kind.into(),
            x,
            y: 0.5,
            marked,
        }
    }

    fn plot(points: Vec<Point>) -> String {
        Plot {
            title: "a < b".into(),
            x: Axis::log("cost"),
            y: Axis::percent("accuracy"),
            points,
        }
        .svg()
    }

    #[test]
    fn names_cannot_break_the_picture_and_points_that_are_nowhere_are_left_out() {
        let svg = plot(vec![
            point("<script>", "map", 0.01, true),
            point("zero", "map", 0.0, false),
            point("b", "filter", 1.0, true),
        ]);
        assert!(
            !svg.contains("<script>") && svg.contains("&lt;script&gt;") && svg.contains("a &lt; b")
        );
        assert!(!svg.contains("zero"));
        assert_eq!(svg.matches("class=\"mark").count(), 2);
    }

    #[test]
    fn labels_never_overlap_and_only_marked_points_have_them() {
        let many = (0..60).map(|n| {
            point(
                &format!("summary-{n}"),
                "map",
                0.5 + f64::from(n) / 1e4,
                n % 2 == 0,
            )
        });
        let svg = plot(many.collect());
        let labels: Vec<(f64, f64)> = svg
            .lines()
            .filter(|line| line.starts_with("<text class=\"name\""))
            .map(|line| {
                let number = |key: &str| {
                    let rest = line.split(key).nth(1).unwrap();
                    rest.split('"').next().unwrap().parse().unwrap()
                };
                (number(" x=\""), number(" y=\""))
            })
            .collect();
        assert!(!labels.is_empty() && labels.len() < 10, "{}", labels.len());
        for (at, a) in labels.iter().enumerate() {
            for b in &labels[at + 1..] {
                assert!((a.0 - b.0).abs() > 50.0 || (a.1 - b.1).abs() >= 12.0);
            }
        }
        assert_eq!(svg.matches("<title>").count(), 60);
    }
}
