//! The tables of a configuration file: one list of keys reads them, describes them and checks that
//! no other key is there.

use std::fmt::Write;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use waypost_io::quantity;

/// What is done with each key of a table, and the setting that it stands for.
pub(super) trait Visitor {
    fn visit<T>(&mut self, key: &'static str, setting: &mut T, kind: Kind<T>);
}

/// How a setting is written.
pub(super) struct Kind<T> {
    pub(super) read: fn(&DeValue) -> Result<T, String>,
    /// As TOML; `None` if it is not set.
    pub(super) show: fn(&T) -> Option<String>,
}

/// A problem at a byte of the file.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) at: usize,
    pub(super) text: String,
}

/// Reads the keys of a table, and remembers those that nobody asked for.
pub(super) struct Reader<'t, 'p> {
    /// As messages name it: `[server]`.
    name: String,
    table: DeTable<'t>,
    span: Range<usize>,
    known: Vec<&'static str>,
    problems: &'p mut Vec<Problem>,
    /// The number of problems before.
    before: usize,
}

impl<'t, 'p> Reader<'t, 'p> {
    pub(super) fn new(
        name: impl Into<String>,
        table: Spanned<DeTable<'t>>,
        problems: &'p mut Vec<Problem>,
    ) -> Reader<'t, 'p> {
        Reader {
            name: name.into(),
            span: table.span(),
            table: table.into_inner(),
            known: Vec::new(),
            before: problems.len(),
            problems,
        }
    }

    /// Where the value of a key is, or else the table.
    pub(super) fn place(&self, key: &str) -> usize {
        let value = self.table.get(key);
        value.map_or(self.span.start, |value| value.span().start)
    }

    pub(super) fn problem(&mut self, at: usize, text: impl Into<String>) {
        let text = text.into();
        self.problems.push(Problem { at, text });
    }

    /// Whether there was no problem in this table so far.
    pub(super) fn is_fine(&self) -> bool {
        self.problems.len() == self.before
    }

    /// Removes a value that is not a setting.
    pub(super) fn take(&mut self, key: &'static str) -> Option<Spanned<DeValue<'t>>> {
        self.known.push(key);
        self.table.remove(key)
    }

    /// Reports the keys that are not known.
    pub(super) fn finish(self) {
        for key in self.table.keys() {
            let text = key.get_ref();
            if self.known.iter().any(|known| known == text) {
                continue;
            }
            let near = self
                .known
                .iter()
                .min_by_key(|known| strsim::osa_distance(known, text));
            let hint = match near {
                Some(near) if strsim::osa_distance(near, text) <= 3.max(text.len() / 3) => {
                    format!("; did you mean `{near}`?")
                }
                _ => String::new(),
            };
            self.problems.push(Problem {
                at: key.span().start,
                text: format!("unknown key `{text}` in {}{hint}", self.name),
            });
        }
    }
}

impl Visitor for Reader<'_, '_> {
    fn visit<T>(&mut self, key: &'static str, setting: &mut T, kind: Kind<T>) {
        self.known.push(key);
        let Some(value) = self.table.get(key) else {
            return;
        };
        match (kind.read)(value.get_ref()) {
            Ok(read) => *setting = read,
            Err(text) => self.problems.push(Problem {
                at: value.span().start,
                text: format!("{key}: {text}"),
            }),
        }
    }
}

/// Writes settings as TOML.
#[derive(Default)]
pub(super) struct Describer {
    pub(super) text: String,
}

impl Visitor for Describer {
    fn visit<T>(&mut self, key: &'static str, setting: &mut T, kind: Kind<T>) {
        let _ = match (kind.show)(setting) {
            Some(value) => writeln!(self.text, "{key} = {value}"),
            None => writeln!(self.text, "# {key} is not set"),
        };
    }
}

/// Keeps the names of all keys.
#[cfg(test)]
#[derive(Default)]
pub(super) struct Names(pub(super) Vec<&'static str>);

#[cfg(test)]
impl Visitor for Names {
    fn visit<T>(&mut self, key: &'static str, _: &mut T, _: Kind<T>) {
        self.0.push(key);
    }
}

fn text<'v>(value: &'v DeValue, example: &str) -> Result<&'v str, String> {
    let other = || format!("expected a string such as \"{example}\", not {}", a(value));
    value.as_str().ok_or_else(other)
}

/// The type of a value, with its article.
fn a(value: &DeValue) -> String {
    let name = value.type_str();
    let article = if name.starts_with(['a', 'i']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {name}")
}

fn integer(value: &DeValue) -> Result<i64, String> {
    let number = value
        .as_integer()
        .ok_or_else(|| format!("expected a number, not {}", a(value)))?;
    i64::from_str_radix(number.as_str(), number.radix())
        .map_err(|_| format!("the number {number} is too large"))
}

fn float(value: &DeValue) -> Result<f64, String> {
    let float = match value {
        DeValue::Float(float) => float.as_str().parse().ok(),
        _ => Some(integer(value)? as f64),
    };
    float
        .filter(|float: &f64| float.is_finite())
        .ok_or_else(|| "not a finite number".to_owned())
}

/// A string in quotes.
pub(super) fn quoted(text: &str) -> String {
    // JSON escapes what TOML does, in the same way.
    serde_json::Value::from(text).to_string()
}

pub(super) const DURATION: Kind<Duration> = Kind {
    read: |value| {
        let duration = quantity::duration(text(value, "15s")?)?;
        match duration.is_zero() {
            true => Err("must be more than 0".to_owned()),
            false => Ok(duration),
        }
    },
    show: |duration| Some(quoted(&show_duration(*duration))),
};

/// The largest unit that divides it.
fn show_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    let units = [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1_000),
    ];
    for (unit, scale) in units {
        if millis >= scale && millis.is_multiple_of(scale) {
            return format!("{}{unit}", millis / scale);
        }
    }
    format!("{}ms", duration.as_secs_f64() * 1e3)
}

pub(super) const SIZE: Kind<u64> = Kind {
    read: |value| quantity::size(text(value, "64MiB")?),
    show: |bytes| {
        let units = [("GiB", 30), ("MiB", 20), ("KiB", 10), ("", 0)];
        let fits = |&&(_, bits): &&(&str, u32)| bytes.trailing_zeros() >= bits;
        let (unit, bits) = units.iter().find(fits)?;
        Some(quoted(&format!("{}{unit}", bytes >> bits)))
    },
};

pub(super) const COUNT: Kind<usize> = Kind {
    read: |value| match usize::try_from(integer(value)?) {
        Ok(number @ 1..) => Ok(number),
        _ => Err("must be at least 1".to_owned()),
    },
    show: |number| Some(number.to_string()),
};

/// A number that may be 0, for never.
pub(super) const TIMES: Kind<u32> = Kind {
    read: |value| {
        u32::try_from(integer(value)?).map_err(|_| "must be between 0 and 4294967295".to_owned())
    },
    show: |number| Some(number.to_string()),
};

pub(super) const RATE: Kind<Option<f64>> = Kind {
    read: |value| match float(value)? {
        rate if rate > 0.0 => Ok(Some(rate)),
        _ => Err("must be more than 0".to_owned()),
    },
    show: |rate| rate.map(|rate| format!("{rate:?}")),
};

pub(super) const PROBABILITY: Kind<f64> = Kind {
    read: |value| match float(value)? {
        probability if probability >= 0.0 => Ok(probability),
        _ => Err("must not be negative".to_owned()),
    },
    show: |probability| Some(format!("{probability:?}")),
};

pub(super) const SHARE: Kind<f64> = Kind {
    read: |value| match float(value)? {
        share if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err("must be more than 0 and at most 1".to_owned()),
    },
    show: |share| Some(format!("{share:?}")),
};

pub(super) const NUMBER: Kind<i64> = Kind {
    read: integer,
    show: |number| Some(number.to_string()),
};

pub(super) const SWITCH: Kind<bool> = Kind {
    read: |value| {
        let other = || format!("expected true or false, not {}", a(value));
        value.as_bool().ok_or_else(other)
    },
    show: |on| Some(on.to_string()),
};

pub(super) const TEXT: Kind<Option<String>> = Kind {
    read: |value| match text(value, "text")? {
        "" => Err("must not be empty".to_owned()),
        text => Ok(Some(text.to_owned())),
    },
    show: |text| text.as_deref().map(quoted),
};

pub(super) const PATH: Kind<Option<PathBuf>> = Kind {
    read: |value| match text(value, "folder/file")? {
        "" => Err("must not be empty".to_owned()),
        text => Ok(Some(PathBuf::from(text))),
    },
    show: |path| path.as_deref().map(show_path),
};

pub(super) const PATHS: Kind<Vec<PathBuf>> = Kind {
    read: |value| {
        let other = || format!("expected an array of strings, not {}", a(value));
        let paths = value.as_array().ok_or_else(other)?.iter();
        paths
            .map(|path| Ok(PathBuf::from(text(path.get_ref(), "folder/file")?)))
            .collect()
    },
    show: |paths| {
        let paths: Vec<String> = paths.iter().map(|path| show_path(path)).collect();
        Some(format!("[{}]", paths.join(", ")))
    },
};

/// Reads an array of strings in some other form.
pub(super) fn texts<T>(
    value: &DeValue,
    example: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let other = || format!("expected an array of strings, not {}", a(value));
    let items = value.as_array().ok_or_else(other)?.iter();
    let item = |item: &toml::Spanned<DeValue>| parse(text(item.get_ref(), example)?);
    items.map(item).collect()
}

/// An array of strings.
pub(super) fn show_texts<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    let texts: Vec<String> = texts.map(quoted).collect();
    format!("[{}]", texts.join(", "))
}

pub(super) const OPTIONAL_DURATION: Kind<Option<Duration>> = Kind {
    read: |value| (DURATION.read)(value).map(Some),
    show: |duration| duration.as_ref().and_then(DURATION.show),
};

pub(super) const OPTIONAL_COUNT: Kind<Option<usize>> = Kind {
    read: |value| (COUNT.read)(value).map(Some),
    show: |number| number.as_ref().and_then(COUNT.show),
};

/// A share that may be 0, as a number or in percent.
pub(super) const PROBE: Kind<f64> = Kind {
    read: |value| {
        let share = match value.as_str() {
            Some(text) => {
                let number = text.trim().strip_suffix('%').map(str::trim);
                let number = number.and_then(|number| number.parse::<f64>().ok());
                let bad = || format!("invalid share `{text}`: write 0.01 or \"1%\"");
                number.ok_or_else(bad)? / 100.0
            }
            None => float(value)?,
        };
        match (0.0..=1.0).contains(&share) {
            true => Ok(share),
            false => Err("must be between 0 and 1".to_owned()),
        }
    },
    show: |share| Some(format!("{share:?}")),
};

fn show_path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

fn socket(value: &DeValue) -> Result<SocketAddr, String> {
    let text = text(value, "127.0.0.1:1208")?;
    text.parse()
        .map_err(|_| format!("invalid address `{text}`: write 127.0.0.1:1208 or [::1]:1208"))
}

pub(super) const SOCKET: Kind<SocketAddr> = Kind {
    read: socket,
    show: |address| Some(quoted(&address.to_string())),
};

pub(super) const OPTIONAL_SOCKET: Kind<Option<SocketAddr>> = Kind {
    read: |value| socket(value).map(Some),
    show: |address| address.map(|address| quoted(&address.to_string())),
};

/// Reads a string in some other form.
pub(super) fn parsed<T>(
    value: &DeValue,
    example: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, String> {
    parse(text(value, example)?)
}
