//! The frame that plots share: title, grid, ticks and labels of the axes, and the legend.

use std::fmt::Write;

use super::scale::Scale;
use crate::html::escape;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 24.0;
const BOTTOM: f64 = 52.0;

/// The average width of a character, in the same unit as the coordinates.
pub(super) const CHARACTER: f64 = 6.9;

/// The SVG element being written, and where its axes are.
pub(super) struct Frame {
    pub(super) svg: String,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    height: f64,
    title: String,
}

impl Frame {
    /// Starts a plot with the names of its series, if there are several.
    pub(super) fn new(title: &str, series: &[&str]) -> Frame {
        let mut frame = Frame::with(title, series, LEFT, 0.0);
        frame.height = HEIGHT;
        frame.bottom = HEIGHT - BOTTOM;
        frame
    }

    /// The same with other room on the left, and so much height between the axes.
    pub(super) fn with(title: &str, series: &[&str], left: f64, inner: f64) -> Frame {
        let mut svg = format!(
            "<text class=\"title\" x=\"4\" y=\"18\">{0}</text>\n",
            escape(title)
        );
        let mut top = 36.0;
        if series.len() > 1 {
            let mut x = 4.0;
            for (at, name) in series.iter().enumerate() {
                let width = 32.0 + CHARACTER * name.chars().count() as f64;
                if x + width > WIDTH && x > 4.0 {
                    (x, top) = (4.0, top + 18.0);
                }
                let _ = writeln!(
                    svg,
                    "<rect class=\"s{}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"11\" height=\"11\" rx=\"2\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                    at % 8,
                    top - 6.0,
                    x + 16.0,
                    top + 4.0,
                    escape(name)
                );
                x += width;
            }
            top += 20.0;
        }
        Frame {
            svg,
            left,
            right: WIDTH - RIGHT,
            top,
            bottom: top + inner,
            height: top + inner + BOTTOM,
            title: escape(title),
        }
    }

    /// The horizontal coordinate of a position between 0 and 1.
    pub(super) fn x(&self, place: f64) -> f64 {
        self.left + place * (self.right - self.left)
    }

    /// The vertical coordinate of a position between 0 and 1, from the bottom.
    pub(super) fn y(&self, place: f64) -> f64 {
        self.bottom - place * (self.bottom - self.top)
    }

    /// The size of the area between the axes.
    pub(super) fn size(&self) -> (f64, f64) {
        (self.right - self.left, self.bottom - self.top)
    }

    /// Draws the vertical axis.
    pub(super) fn vertical(&mut self, scale: &Scale, label: &str) {
        for (place, name) in scale.ticks() {
            let y = self.y(place);
            let _ = writeln!(
                self.svg,
                "<path class=\"grid\" d=\"M{:.1} {y:.1}H{:.1}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                self.left,
                self.right,
                self.left - 7.0,
                y + 4.0,
                escape(name)
            );
        }
        let _ = writeln!(
            self.svg,
            "<text class=\"axis\" transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            (self.top + self.bottom) / 2.0,
            escape(label)
        );
    }

    /// Draws the horizontal axis.
    pub(super) fn horizontal(&mut self, scale: &Scale, label: &str) {
        for (place, name) in scale.ticks() {
            let x = self.x(place);
            let _ = writeln!(
                self.svg,
                "<path class=\"grid\" d=\"M{x:.1} {:.1}V{:.1}\"/><text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                self.top,
                self.bottom,
                self.bottom + 17.0,
                escape(name)
            );
        }
        self.label(label);
    }

    /// The label of the horizontal axis.
    pub(super) fn label(&mut self, label: &str) {
        let _ = writeln!(
            self.svg,
            "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            (self.left + self.right) / 2.0,
            self.height - 10.0,
            escape(label)
        );
    }

    /// The whole element.
    pub(super) fn finish(self) -> String {
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
            self.height, self.title, self.svg
        )
    }
}
