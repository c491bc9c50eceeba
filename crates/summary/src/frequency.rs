//! How much a key stands for: captures and URI-Rs, exact or not.
//!
//! The notation is that of UKVS: `54321/20000` means captures and URI-Rs, and a sign after a number
//! says how precise it is.
//!
//! | text | meaning |
//! |---|---|
//! | `300` | 300 captures |
//! | `400/100` | 400 captures of 100 URI-Rs |
//! | `10000+` | at least 10,000 captures |
//! | `2500~/900-` | about 2,500 captures of at most 900 URI-Rs |
//! | `/50` | 50 URI-Rs, captures unknown |
//! | `/` | something, in unknown numbers |
//! | `0` | nothing: a void |

use std::fmt;
use std::str::FromStr;

/// How precise a number is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sureness {
    /// Exact.
    #[default]
    Exact,
    /// `+`: a lower bound.
    AtLeast,
    /// `-`: an upper bound.
    AtMost,
    /// `~`: an approximation.
    About,
}

impl Sureness {
    /// The sign after the number.
    pub fn sign(self) -> &'static str {
        match self {
            Sureness::Exact => "",
            Sureness::AtLeast => "+",
            Sureness::AtMost => "-",
            Sureness::About => "~",
        }
    }

    /// The precision of the sum of two numbers.
    #[must_use]
    pub fn and(self, other: Sureness) -> Sureness {
        match (self, other) {
            (Sureness::Exact, sureness) | (sureness, Sureness::Exact) => sureness,
            (a, b) if a == b => a,
            _ => Sureness::About,
        }
    }
}

/// A number with its precision: `900-`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Number {
    /// The number.
    pub value: u64,
    /// Its precision.
    pub sureness: Sureness,
}

impl Number {
    /// An exact number.
    pub fn exact(value: u64) -> Number {
        Number {
            value,
            sureness: Sureness::Exact,
        }
    }

    /// An upper bound.
    pub fn at_most(value: u64) -> Number {
        Number {
            value,
            sureness: Sureness::AtMost,
        }
    }

    /// The sum. On overflow it is the largest possible number, as a lower bound.
    #[must_use]
    #[inline]
    pub fn plus(self, other: Number) -> Number {
        let sureness = self.sureness.and(other.sureness);
        match self.value.checked_add(other.value) {
            Some(value) => Number { value, sureness },
            None => Number {
                value: u64::MAX,
                sureness: sureness.and(Sureness::AtLeast),
            },
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.value, self.sureness.sign())
    }
}

/// Captures and URI-Rs of a key, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frequency {
    /// Captures.
    pub captures: Option<Number>,
    /// URI-Rs.
    pub urirs: Option<Number>,
}

impl Frequency {
    /// Exact numbers of captures and URI-Rs.
    pub fn new(captures: u64, urirs: u64) -> Frequency {
        Frequency {
            captures: Some(Number::exact(captures)),
            urirs: Some(Number::exact(urirs)),
        }
    }

    /// Whether nothing is held: the number of captures is exactly 0. URI-Rs that are known but
    /// can't be replayed (`0/20`) make no difference.
    pub fn is_void(&self) -> bool {
        self.captures.is_some_and(|n| {
            n.value == 0 && matches!(n.sureness, Sureness::Exact | Sureness::AtMost)
        })
    }

    /// The sum. A number that either side does not know is unknown in the sum.
    #[must_use]
    #[inline]
    pub fn plus(self, other: Frequency) -> Frequency {
        let sum = |a: Option<Number>, b: Option<Number>| Some(a?.plus(b?));
        Frequency {
            captures: sum(self.captures, other.captures),
            urirs: sum(self.urirs, other.urirs),
        }
    }
}

impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.captures, self.urirs) {
            (Some(captures), None) => write!(f, "{captures}"),
            (Some(captures), Some(urirs)) => write!(f, "{captures}/{urirs}"),
            (None, Some(urirs)) => write!(f, "/{urirs}"),
            (None, None) => f.write_str("/"),
        }
    }
}

/// Not a valid frequency.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no frequency: write captures, captures/URI-Rs or /URI-Rs, each with +, - or ~ behind it if it is not exact"
)]
pub struct BadFrequency(String);

impl FromStr for Number {
    type Err = BadFrequency;

    fn from_str(text: &str) -> Result<Number, BadFrequency> {
        let bad = || BadFrequency(text.to_owned());
        let (digits, sureness) = match text.as_bytes().last() {
            Some(b'+') => (&text[..text.len() - 1], Sureness::AtLeast),
            Some(b'-') => (&text[..text.len() - 1], Sureness::AtMost),
            Some(b'~') => (&text[..text.len() - 1], Sureness::About),
            _ => (text, Sureness::Exact),
        };
        // `parse` accepts a leading plus sign, but a frequency has none.
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(bad());
        }
        Ok(Number {
            value: digits.parse().map_err(|_| bad())?,
            sureness,
        })
    }
}

impl FromStr for Frequency {
    type Err = BadFrequency;

    fn from_str(text: &str) -> Result<Frequency, BadFrequency> {
        let number = |part: &str| match part {
            "" => Ok(None),
            _ => part
                .parse()
                .map(Some)
                .map_err(|_| BadFrequency(text.to_owned())),
        };
        match text.split_once('/') {
            None if text.is_empty() => Err(BadFrequency(String::new())),
            None => Ok(Frequency {
                captures: number(text)?,
                urirs: None,
            }),
            Some((captures, urirs)) => Ok(Frequency {
                captures: number(captures)?,
                urirs: number(urirs)?,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_form_of_the_format_is_read_and_written_alike() {
        for text in [
            "54321/20000",
            "10000+",
            "2500~/900",
            "0",
            "/50",
            "/",
            "0/20",
            "60+/30+",
            "7-/3-",
        ] {
            assert_eq!(text.parse::<Frequency>().unwrap().to_string(), text);
        }
        assert_eq!("200/".parse::<Frequency>().unwrap().to_string(), "200");
        for bad in [
            "",
            "x",
            "+1",
            "-5",
            "1_000",
            "1//2",
            "1/2/3",
            "1++",
            "99999999999999999999",
        ] {
            assert!(bad.parse::<Frequency>().is_err(), "{bad}");
        }
    }

    #[test]
    fn only_no_captures_for_sure_are_a_void() {
        for (text, void) in [
            ("0", true),
            ("0/20", true),
            ("0-", true),
            ("0+", false),
            ("0~", false),
            ("/", false),
            ("/0", false),
            ("1", false),
        ] {
            assert_eq!(text.parse::<Frequency>().unwrap().is_void(), void, "{text}");
        }
    }

    fn numbers() -> impl Strategy<Value = Number> {
        (any::<u64>(), 0..4usize).prop_map(|(value, i)| Number {
            value,
            sureness: [
                Sureness::Exact,
                Sureness::AtLeast,
                Sureness::AtMost,
                Sureness::About,
            ][i],
        })
    }

    proptest! {
        #[test]
        fn any_frequency_comes_back(captures in prop::option::of(numbers()), urirs in prop::option::of(numbers())) {
            let frequency = Frequency { captures, urirs };
            prop_assert_eq!(frequency.to_string().parse(), Ok(frequency));
        }

        #[test]
        fn sums_do_not_depend_on_their_order(a in numbers(), b in numbers(), c in numbers()) {
            prop_assert_eq!(a.plus(b), b.plus(a));
            let small = |n: Number| Number { value: n.value / 4, ..n };
            let (a, b, c) = (small(a), small(b), small(c));
            prop_assert_eq!(a.plus(b).plus(c), a.plus(b.plus(c)));
        }
    }
}
