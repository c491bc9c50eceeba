//! MemGator's flags, parsed as its Go library does.
//!
//! `-f json`, `-f=json`, `--format json` and `--format=json` are the same; `-Vm` is `-V -m`; the first
//! word that is not a flag ends them. What is wrong is said in the words of that library.

use std::net::SocketAddr;
use std::time::Duration;

/// The contact of those who do not name one.
pub(super) const CONTACT: &str = "https://git.io/MemGator";

/// What MemGator can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flags {
    pub(super) agent: Option<String>,
    pub(super) arcs: String,
    pub(super) benchmark: String,
    pub(super) contact: String,
    pub(super) static_files: String,
    pub(super) dormant: Duration,
    pub(super) tolerance: i64,
    pub(super) format: String,
    pub(super) host: String,
    pub(super) topk: i64,
    pub(super) log: String,
    pub(super) monitor: bool,
    pub(super) proxy: Option<String>,
    pub(super) port: i64,
    pub(super) root: String,
    pub(super) restimeout: Duration,
    pub(super) spoof: bool,
    pub(super) hdrtimeout: Duration,
    pub(super) contimeout: Duration,
    /// Not a flag of MemGator, which listens on all addresses.
    pub(super) listen: Option<SocketAddr>,
    pub(super) verbose: bool,
    pub(super) version: bool,
}

impl Default for Flags {
    fn default() -> Flags {
        Flags {
            agent: None,
            arcs: "https://git.io/archives".to_owned(),
            benchmark: String::new(),
            contact: CONTACT.to_owned(),
            static_files: String::new(),
            dormant: Duration::from_secs(15 * 60),
            tolerance: -1,
            format: "Link".to_owned(),
            host: "localhost".to_owned(),
            topk: -1,
            log: String::new(),
            monitor: false,
            proxy: None,
            port: 1208,
            root: "/".to_owned(),
            restimeout: Duration::from_secs(60),
            spoof: false,
            hdrtimeout: Duration::from_secs(30),
            contimeout: Duration::from_secs(5),
            listen: None,
            verbose: false,
            version: false,
        }
    }
}

/// Words that were parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// The flags, and the words after them.
    Flags(Box<Flags>, Vec<String>),
    /// `-h`.
    Help,
    /// What is wrong, each to be followed by where to find help.
    Wrong(Vec<String>),
}

/// A flag that was not set, and what to say. `None` if it is not a flag at all.
enum Problem {
    Unknown,
    Help,
    Said(String),
}

/// Parses the words of a command line.
pub(super) fn parse(words: impl IntoIterator<Item = String>) -> Parsed {
    let mut words: std::collections::VecDeque<String> = words.into_iter().collect();
    let mut flags = Flags::default();
    while let Some(word) = words.front() {
        if word == "--" {
            words.pop_front();
            break;
        }
        if word.len() < 2 || !word.starts_with('-') {
            break;
        }
        let word = words.pop_front().unwrap_or_default();
        let name = word[1..].split('=').next().unwrap_or_default().to_owned();
        match flags.set_word(&word, &mut words) {
            Ok(()) => {}
            Err(Problem::Help) => return Parsed::Help,
            Err(Problem::Said(text)) => return Parsed::Wrong(vec![text]),
            Err(Problem::Unknown) => {
                let undefined = format!("flag provided but not defined: -{name}");
                // A word of one dash is a bundle of short flags.
                if name.starts_with('-') || name.chars().count() == 1 {
                    return Parsed::Wrong(vec![undefined]);
                }
                for letter in name.chars() {
                    match flags.set_word(&format!("-{letter}"), &mut words) {
                        Ok(()) => {}
                        Err(Problem::Help) => return Parsed::Help,
                        Err(Problem::Said(text)) => return Parsed::Wrong(vec![text, undefined]),
                        Err(Problem::Unknown) => return Parsed::Wrong(vec![undefined]),
                    }
                }
            }
        }
    }
    Parsed::Flags(Box::new(flags), words.into())
}

impl Flags {
    /// Sets the flag of a word, whose value may be the next word.
    fn set_word(
        &mut self,
        word: &str,
        more: &mut std::collections::VecDeque<String>,
    ) -> Result<(), Problem> {
        let said = |text: String| Err(Problem::Said(text));
        let (name, value) = match word[1..].split_once('=') {
            Some((name, value)) => (name, Some(unquoted(value).to_owned())),
            None => (&word[1..], None),
        };
        if name.is_empty() {
            return said(format!("bad flag syntax: {word}"));
        }
        if let Some(switch) = self.switch(name) {
            let Some(value) = value else {
                *switch = true;
                return Ok(());
            };
            return match boolean(&value) {
                Some(value) => {
                    *switch = value;
                    Ok(())
                }
                None => said(format!(
                    "invalid boolean value \"{value}\" for  -{name}: strconv.ParseBool: parsing \"{value}\": invalid syntax"
                )),
            };
        }
        if !is_known(name) {
            return Err(match name {
                "h" | "help" | "-help" => Problem::Help,
                _ => Problem::Unknown,
            });
        }
        let Some(value) = value.or_else(|| more.pop_front()) else {
            return said(format!("flag needs an argument: -{name}"));
        };
        self.set(name, &value)
            .or_else(|why| said(format!("invalid value \"{value}\" for flag -{name}: {why}")))
    }

    fn switch(&mut self, name: &str) -> Option<&mut bool> {
        match name {
            "m" | "-monitor" => Some(&mut self.monitor),
            "S" | "-spoof" => Some(&mut self.spoof),
            "V" | "-verbose" => Some(&mut self.verbose),
            "v" | "-version" => Some(&mut self.version),
            _ => None,
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let text = || value.to_owned();
        match name {
            "A" | "-agent" => self.agent = Some(text()),
            "a" | "-arcs" => self.arcs = text(),
            "b" | "-benchmark" => self.benchmark = text(),
            "c" | "-contact" => self.contact = text(),
            "D" | "-static" => self.static_files = text(),
            "d" | "-dormant" => self.dormant = duration(value)?,
            "F" | "-tolerance" => self.tolerance = integer(value)?,
            "f" | "-format" => self.format = text(),
            "H" | "-host" => self.host = text(),
            "k" | "-topk" => self.topk = integer(value)?,
            "l" | "-log" => self.log = text(),
            "P" | "-proxy" => self.proxy = Some(text()),
            "p" | "-port" => self.port = integer(value)?,
            "R" | "-root" => self.root = text(),
            "r" | "-restimeout" => self.restimeout = duration(value)?,
            "T" | "-hdrtimeout" => self.hdrtimeout = duration(value)?,
            "t" | "-contimeout" => self.contimeout = duration(value)?,
            "-listen" => self.listen = Some(value.parse().map_err(|error| format!("{error}"))?),
            _ => {}
        }
        Ok(())
    }
}

/// Whether a flag takes a value.
fn is_known(name: &str) -> bool {
    const LONG: [&str; 18] = [
        "-agent",
        "-arcs",
        "-benchmark",
        "-contact",
        "-static",
        "-dormant",
        "-tolerance",
        "-format",
        "-host",
        "-topk",
        "-log",
        "-proxy",
        "-port",
        "-root",
        "-restimeout",
        "-hdrtimeout",
        "-contimeout",
        "-listen",
    ];
    let is_short = name.len() == 1 && "AabcDdFfHklPpRrTt".contains(name);
    is_short || LONG.contains(&name)
}

/// A value without the quotes around it.
fn unquoted(value: &str) -> &str {
    ['"', '\'']
        .into_iter()
        .find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(value)
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn integer(text: &str) -> Result<i64, String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0o") => (8, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        _ => (10, &lower[..]),
    };
    let plain = !digits.is_empty() && digits.chars().all(|c| c.is_digit(base));
    let parsed = plain.then(|| i64::from_str_radix(&format!("{sign}{digits}"), base));
    match parsed {
        None => Err(format!(
            "strconv.ParseInt: parsing \"{text}\": invalid syntax"
        )),
        Some(Err(_)) => Err(format!(
            "strconv.ParseInt: parsing \"{text}\": value out of range"
        )),
        Some(Ok(value)) => Ok(value),
    }
}

/// A duration as Go writes it: `1m30s`, `1500ms`, `1.5h`. Less than nothing is nothing.
fn duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("time: invalid duration \"{text}\"");
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, behind) = rest.split_at(end.unwrap_or(rest.len()));
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let end = behind.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, behind) = behind.split_at(end.unwrap_or(behind.len()));
        let scale = match unit {
            "" => return Err(format!("time: missing unit in duration \"{text}\"")),
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => {
                return Err(format!(
                    "time: unknown unit \"{unit}\" in duration \"{text}\""
                ));
            }
        };
        seconds += number * scale;
        rest = behind;
    }
    let seconds = if negative { 0.0 } else { seconds };
    Duration::try_from_secs_f64(seconds).map_err(|_| invalid())
}

/// A duration as Go writes it: `1m0s`, `1.5s`, `300ms`.
pub(super) fn duration_text(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let fraction = |unit: u128, name: &str| {
        let (whole, rest) = (nanos / unit, nanos % unit);
        let digits = unit.to_string().len() - 1;
        let text = format!("{whole}.{rest:0digits$}");
        format!("{}{name}", text.trim_end_matches('0').trim_end_matches('.'))
    };
    match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{nanos}ns"),
        1_000..1_000_000 => fraction(1_000, "µs"),
        1_000_000..1_000_000_000 => fraction(1_000_000, "ms"),
        _ => {
            let (hours, minutes) = (duration.as_secs() / 3600, duration.as_secs() / 60);
            let seconds = duration - Duration::from_secs(minutes * 60);
            let text = format!("{}.{:09}", seconds.as_secs(), seconds.subsec_nanos());
            let seconds = text.trim_end_matches('0').trim_end_matches('.');
            match (hours, minutes) {
                (0, 0) => format!("{seconds}s"),
                (0, minutes) => format!("{minutes}m{seconds}s"),
                (hours, minutes) => format!("{hours}h{}m{seconds}s", minutes % 60),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Parsed {
        parse(line.split_whitespace().map(str::to_owned))
    }

    fn flags(line: &str) -> (Flags, Vec<String>) {
        match parsed(line) {
            Parsed::Flags(flags, words) => (*flags, words),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn flags_are_written_in_four_ways() {
        for line in [
            "-a=x.json -f=JSON http://a/ 2012",
            "-a x.json -f JSON http://a/ 2012",
            "--arcs=x.json --format=JSON http://a/ 2012",
            "--arcs x.json --format 'JSON' -- http://a/ 2012",
            "-a=\"x.json\" -f='JSON' http://a/ 2012",
        ] {
            let line = line.replace("'JSON' --", "JSON --");
            let (flags, words) = flags(&line);
            assert_eq!(
                (&flags.arcs[..], &flags.format[..]),
                ("x.json", "JSON"),
                "{line}"
            );
            assert_eq!(words, ["http://a/", "2012"], "{line}");
        }
        let (bundled, words) = flags("-Vm -S=false -k -1 -T 1500ms -d=1h2m3.5s server -V");
        assert!(bundled.verbose && bundled.monitor && !bundled.spoof);
        assert_eq!(bundled.topk, -1);
        assert_eq!(bundled.hdrtimeout, Duration::from_millis(1500));
        assert_eq!(bundled.dormant, Duration::from_millis(3_723_500));
        assert_eq!(words, ["server", "-V"]);
        // A bundle takes the values that its letters need.
        assert_eq!(flags("-Vf json http://a/").0.format, "json");
        // Flags after the URI are words.
        assert_eq!(flags("http://a/ -a x").0, Flags::default());
        assert_eq!(flags("- -V").1, ["-", "-V"]);
    }

    #[test]
    fn mistakes_are_said_in_the_words_of_go() {
        for (line, said) in [
            ("--nope", &["flag provided but not defined: --nope"][..]),
            ("-x", &["flag provided but not defined: -x"]),
            ("-Vx", &["flag provided but not defined: -Vx"]),
            (
                "-k x u",
                &[
                    r#"invalid value "x" for flag -k: strconv.ParseInt: parsing "x": invalid syntax"#,
                ],
            ),
            (
                "--topk=9999999999999999999 u",
                &[
                    r#"invalid value "9999999999999999999" for flag --topk: strconv.ParseInt: parsing "9999999999999999999": value out of range"#,
                ],
            ),
            (
                "-T 5 u",
                &[r#"invalid value "5" for flag -T: time: missing unit in duration "5""#],
            ),
            (
                "-T 5x u",
                &[r#"invalid value "5x" for flag -T: time: unknown unit "x" in duration "5x""#],
            ),
            (
                "-T x u",
                &[r#"invalid value "x" for flag -T: time: invalid duration "x""#],
            ),
            (
                "-V=x u",
                &[
                    r#"invalid boolean value "x" for  -V: strconv.ParseBool: parsing "x": invalid syntax"#,
                ],
            ),
            ("-a", &["flag needs an argument: -a"]),
            ("-=x", &["bad flag syntax: -=x"]),
            (
                "-arcs=dup.json http://example.com/",
                &[
                    "flag needs an argument: -r",
                    "flag provided but not defined: -arcs",
                ],
            ),
        ] {
            assert_eq!(
                parsed(line),
                Parsed::Wrong(said.iter().map(|&s| s.to_owned()).collect()),
                "{line}"
            );
        }
        for line in ["-h", "--help", "-help", "-V -h"] {
            assert_eq!(parsed(line), Parsed::Help, "{line}");
        }
    }

    #[test]
    fn durations_are_written_as_go_does() {
        for (nanos, text) in [
            (0, "0s"),
            (912, "912ns"),
            (329_029, "329.029µs"),
            (103_000, "103µs"),
            (5_925_901, "5.925901ms"),
            (8_004_191_818, "8.004191818s"),
            (5_000_000_000, "5s"),
            (60_000_000_000, "1m0s"),
            (900_000_000_000, "15m0s"),
            (3_661_500_000_000, "1h1m1.5s"),
        ] {
            let duration = Duration::from_nanos(nanos);
            assert_eq!(duration_text(duration), text);
            assert_eq!(
                super::duration(text).map(|d| d.as_micros()),
                Ok(duration.as_micros())
            );
        }
    }
}
