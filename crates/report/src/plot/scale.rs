//! Axes: where a value is, and which values are marked.

use crate::number::{count, short};

/// An axis: its label and how values are laid out on it.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The label.
    pub label: String,
    style: Style,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Linear,
    Log,
    Percent,
    Years,
    Free,
}

impl Axis {
    /// Numbers from zero.
    pub fn linear(label: &str) -> Axis {
        Axis::new(label, Style::Linear)
    }

    /// Numbers above zero, on a logarithmic scale.
    pub fn log(label: &str) -> Axis {
        Axis::new(label, Style::Log)
    }

    /// Shares between 0 and 1, shown as percentages.
    pub fn percent(label: &str) -> Axis {
        Axis::new(label, Style::Percent)
    }

    /// Years, which neither start at zero nor have thousands separators.
    pub fn years(label: &str) -> Axis {
        Axis::new(label, Style::Years)
    }

    /// Numbers of any sign, from about the smallest to about the largest.
    pub fn free(label: &str) -> Axis {
        Axis::new(label, Style::Free)
    }

    fn new(label: &str, style: Style) -> Axis {
        Axis {
            label: label.to_owned(),
            style,
        }
    }

    /// Whether a value can be drawn on this axis.
    pub(super) fn has(&self, value: f64) -> bool {
        value.is_finite() && (self.style != Style::Log || value > 0.0)
    }

    /// A value as a hover text shows it.
    pub(super) fn exact(&self, value: f64) -> String {
        match self.style {
            Style::Percent => format!("{:.2}%", value * 100.0),
            Style::Years => format!("{value:.0}"),
            _ if value.fract() == 0.0 && (0.0..1e18).contains(&value) => count(value as u64),
            _ => format!("{value:.4}"),
        }
    }

    /// The scale that fits these values.
    pub(super) fn scale(&self, values: impl Iterator<Item = f64>) -> Scale {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| self.has(*value)) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = (1.0, 1.0);
        }
        match self.style {
            Style::Percent => {
                Scale::linear(0.0, 1.0, 0.2, |value| format!("{:.0}%", value * 100.0))
            }
            Style::Linear => {
                let step = step(high.max(1e-9) / 5.0);
                let top = (high / step).ceil().max(1.0) * step;
                Scale::linear(0.0, top, step, short)
            }
            Style::Free => {
                let step = step((high - low).max(1e-9) / 6.0);
                let bottom = (low / step).floor() * step;
                let top = ((high / step).ceil() * step).max(bottom + step);
                let places = (-step.log10().floor()).max(0.0) as usize + 1;
                Scale::linear(bottom, top, step, |value| {
                    let text = format!("{value:.places$}");
                    text.trim_end_matches('0').trim_end_matches('.').to_owned()
                })
            }
            Style::Years => {
                let span = (high - low).max(1.0);
                let step = step(span / 8.0).max(1.0).round();
                Scale::linear(low, low + span, step, |value| format!("{value:.0}"))
            }
            Style::Log => {
                let bottom = low.log10().floor();
                let top = high.log10().ceil().max(bottom + 1.0);
                let every = ((top - bottom) / 8.0).ceil().max(1.0);
                let mut ticks = Vec::new();
                let mut exponent = bottom;
                while exponent <= top {
                    ticks.push((exponent, power(exponent)));
                    exponent += every;
                }
                Scale {
                    log: true,
                    low: bottom,
                    high: top,
                    ticks,
                }
            }
        }
    }
}

/// Maps values to positions between 0 and 1.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    log: bool,
    low: f64,
    high: f64,
    /// The marked values (their exponents on a logarithmic axis) and their labels.
    ticks: Vec<(f64, String)>,
}

impl Scale {
    fn linear(low: f64, high: f64, step: f64, name: impl Fn(f64) -> String) -> Scale {
        let first = (low / step).ceil();
        let last = (high / step + 1e-9).floor();
        let mut ticks = Vec::new();
        let mut at = first;
        while at <= last && ticks.len() < 20 {
            ticks.push((at * step, name(at * step)));
            at += 1.0;
        }
        Scale {
            log: false,
            low,
            high,
            ticks,
        }
    }

    /// The position of a value.
    pub(super) fn place(&self, value: f64) -> f64 {
        let value = if self.log { value.log10() } else { value };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// The marked positions and their labels.
    pub(super) fn ticks(&self) -> impl Iterator<Item = (f64, &str)> {
        self.ticks
            .iter()
            .map(|(at, name)| ((at - self.low) / (self.high - self.low), &name[..]))
    }
}

/// The next multiple of a power of ten by 1, 2, 2.5 or 5.
fn step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    let fitting = steps.into_iter().find(|step| step * power >= least * 0.999);
    fitting.unwrap_or(10.0) * power
}

fn power(exponent: f64) -> String {
    if exponent >= 0.0 {
        short(10f64.powf(exponent))
    } else if exponent >= -4.0 {
        format!("{}", 10f64.powf(exponent))
    } else {
        format!("1e{exponent}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, values: &[f64]) -> Vec<String> {
        let scale = axis.scale(values.iter().copied());
        scale.ticks().map(|(_, name)| name.to_owned()).collect()
    }

    #[test]
    fn ticks_are_round_and_span_the_values() {
        assert_eq!(
            labels(&Axis::linear("n"), &[0.0, 4_999.0]),
            ["0", "1,000", "2,000", "3,000", "4,000", "5,000"]
        );
        assert_eq!(labels(&Axis::log("n"), &[3.0, 2_000.0]).len(), 5);
        assert_eq!(labels(&Axis::log("n"), &[0.002, 0.5])[0], "0.001");
        assert_eq!(labels(&Axis::years("y"), &[1996.0, 2000.0])[0], "1996");
        // Nothing to draw, or a single value, is no division by zero.
        for axis in [Axis::linear("n"), Axis::log("n"), Axis::years("y")] {
            for values in [&[][..], &[7.0], &[f64::NAN]] {
                let scale = axis.scale(values.iter().copied());
                assert!(scale.place(7.0).is_finite() && scale.ticks().count() > 0);
            }
        }
    }
}
