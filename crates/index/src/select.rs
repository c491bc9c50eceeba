//! Capture filters, shared by all commands that read captures.

use std::cell::RefCell;
use std::sync::Arc;

use regex::bytes::Regex;
use waypost_io::{Error, ErrorKind, Result};
use waypost_surt::{Dialect, Surt};

use crate::capture::{Capture, Field, Fields};
use crate::key::Rekeyer;
use crate::takedown::Takedowns;
use crate::timestamp::Time;
use crate::web;

/// Capture filters. By default, all captures of the Web pass, including revisits.
#[derive(Clone, Debug, Default)]
pub struct Select {
    status: Vec<StatusRange>,
    mime: Vec<Mime>,
    from: Option<Time>,
    to: Option<Time>,
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
    include_non_web: bool,
    revisits: Revisits,
    keep_unresolved: bool,
    fuzzy: bool,
    dialect: Dialect,
}

/// What to do with revisits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Revisits {
    /// Treat them like other captures.
    #[default]
    Keep,
    /// Skip them.
    Drop,
    /// Give them the status, media type and location of the preceding capture with the same URI-R and
    /// digest. Reads on one thread, because each capture depends on those before it.
    Resolve,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StatusRange {
    low: u16,
    high: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Mime {
    Whole(Vec<u8>),
    /// `image/*`.
    Prefix(Vec<u8>),
}

#[derive(Clone, Debug)]
enum Pattern {
    Prefix(Vec<u8>),
    Url(Regex),
    Listed(Arc<Takedowns>),
}

thread_local! {
    /// The rekeyer of the last dialect used.
    static REKEYER: RefCell<Option<(Dialect, Rekeyer)>> = const { RefCell::new(None) };
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid(message))
}

impl Select {
    /// All captures of the Web.
    pub fn new() -> Select {
        Select::default()
    }

    /// What [`pages`](Select::pages) leaves out. No fragment counts, so that the SURT of a URL says
    /// whether it may match.
    pub const NOT_PAGES: &str = r"~(?i)^[^#]*/(robots\.txt|sitemap\.xml)(\?|$)";

    /// Only pages: HTML with status 200, without robots.txt and sitemap.xml, which are often served as
    /// HTML. As in the MementoMap paper.
    ///
    /// # Errors
    /// Never.
    pub fn pages(&mut self) -> Result<&mut Select> {
        self.html().exclude(Select::NOT_PAGES)
    }

    /// Only HTML with status 200.
    pub fn html(&mut self) -> &mut Select {
        self.status.push(StatusRange {
            low: 200,
            high: 200,
        });
        self.mime.push(Mime::Whole(b"text/html".to_vec()));
        self
    }

    /// Only these statuses, separated by commas: `200,3xx`.
    ///
    /// # Errors
    /// If the list is invalid.
    pub fn status(&mut self, list: &str) -> Result<&mut Select> {
        for item in list.split(',').map(str::trim) {
            let range = match item.as_bytes() {
                [hundred @ b'1'..=b'9', b'x' | b'X', b'x' | b'X'] => {
                    let low = u16::from(hundred - b'0') * 100;
                    Some(StatusRange {
                        low,
                        high: low + 99,
                    })
                }
                [_, _, _] => item.parse().ok().map(|status| StatusRange {
                    low: status,
                    high: status,
                }),
                _ => None,
            };
            self.status
                .push(range.ok_or_else(|| {
                    invalid(format!("invalid status `{item}`: write 200 or 3xx"))
                })?);
        }
        Ok(self)
    }

    /// Only these media types, separated by commas: `text/html,image/*`.
    ///
    /// # Errors
    /// If a type has no slash.
    pub fn mime(&mut self, list: &str) -> Result<&mut Select> {
        for item in list.split(',').map(str::trim) {
            let item = item.to_ascii_lowercase();
            // Placeholders for a missing type have no slash.
            let known = matches!(&*item, "unk" | "no-type" | "-");
            if !item.contains('/') && !known {
                return Err(invalid(format!(
                    "invalid media type `{item}`: write text/html or image/*"
                )));
            }
            self.mime.push(match item.strip_suffix('*') {
                Some(prefix) => Mime::Prefix(prefix.as_bytes().to_vec()),
                None => Mime::Whole(item.into_bytes()),
            });
        }
        Ok(self)
    }

    /// Only captures at this time or later: `2004`, which is its start, `20040131`,
    /// `2004-01-31`.
    ///
    /// # Errors
    /// If the time is invalid, or later than [`to`](Select::to).
    pub fn from(&mut self, time: &str) -> Result<&mut Select> {
        self.from = Some(Time::first_of(time.as_bytes()).ok_or_else(|| no_time(time))?);
        self.check_times()?;
        Ok(self)
    }

    /// Only captures at this time or earlier: `2004`, which is its end, `20040131`,
    /// `2004-01-31`.
    ///
    /// # Errors
    /// If the time is invalid, or earlier than [`from`](Select::from).
    pub fn to(&mut self, time: &str) -> Result<&mut Select> {
        self.to = Some(Time::last_of(time.as_bytes()).ok_or_else(|| no_time(time))?);
        self.check_times()?;
        Ok(self)
    }

    /// Refuses an empty time span, which would silently select nothing.
    fn check_times(&self) -> Result<()> {
        match (self.from, self.to) {
            (Some(from), Some(to)) if from > to => Err(invalid(format!(
                "no time lies between {from} and {to}: the first is the later one"
            ))),
            _ => Ok(()),
        }
    }

    /// Only captures whose key has this prefix, or whose URL matches `~REGEX`. If called several times,
    /// captures must match one of the patterns.
    ///
    /// # Errors
    /// If the regex is invalid, or the pattern is a host or URL instead of a SURT.
    pub fn include(&mut self, pattern: &str) -> Result<&mut Select> {
        self.include.push(Pattern::parse(pattern)?);
        Ok(self)
    }

    /// Skips captures whose key has this prefix, or whose URL matches `~REGEX`.
    ///
    /// # Errors
    /// As for [`include`](Select::include).
    pub fn exclude(&mut self, pattern: &str) -> Result<&mut Select> {
        self.exclude.push(Pattern::parse(pattern)?);
        Ok(self)
    }

    /// Leaves out what is on this list. Unlike [`exclude`](Select::exclude), this is no selection: nothing
    /// records it.
    pub fn takedowns(&mut self, list: Option<Arc<Takedowns>>) -> &mut Select {
        self.exclude.extend(list.map(Pattern::Listed));
        self
    }

    /// Only what is on this list.
    pub fn only_takedowns(&mut self, list: Arc<Takedowns>) -> &mut Select {
        self.include.push(Pattern::Listed(list));
        self
    }

    /// Whether to include rows that are not captures of the Web.
    pub fn include_non_web(&mut self, include: bool) -> &mut Select {
        self.include_non_web = include;
        self
    }

    /// What to do with revisits.
    pub fn revisits(&mut self, revisits: Revisits) -> &mut Select {
        self.revisits = revisits;
        self
    }

    /// Whether revisits that are kept pass [`status`](Select::status) and [`mime`](Select::mime) if
    /// their own status or media type is unknown: they may repeat anything. Summaries need it,
    /// because what they leave out is called absent.
    pub fn keep_unresolved(&mut self, keep: bool) -> &mut Select {
        self.keep_unresolved = keep;
        self
    }

    /// Whether to add what pywb would also find by its fuzzy rules.
    pub fn fuzzy(&mut self, fuzzy: bool) -> &mut Select {
        self.fuzzy = fuzzy;
        self
    }

    /// Whether what pywb would also find is added.
    pub fn is_fuzzy(&self) -> bool {
        self.fuzzy
    }

    /// The dialect for captures whose keys are not SURTs.
    pub fn dialect(&mut self, dialect: Dialect) -> &mut Select {
        self.dialect = dialect;
        self
    }

    /// What these filters need and a list of URIs lacks: statuses, media types, times or revisits.
    /// `None` if the filters can be applied to a list.
    pub fn needs_captures(&self) -> Option<&'static str> {
        if !self.status.is_empty() {
            Some("statuses")
        } else if !self.mime.is_empty() {
            Some("media types")
        } else if self.from.is_some() || self.to.is_some() {
            Some("times")
        } else if self.revisits != Revisits::Keep {
            Some("revisits")
        } else {
            None
        }
    }

    /// Whether a line of a list passes, given its SURT. URL patterns are matched against the line, or
    /// against the URL that it stands for if the line is a SURT.
    pub fn accepts_uri(&self, line: &[u8], surt: &[u8]) -> bool {
        let matches = |pattern: &Pattern| match pattern {
            Pattern::Prefix(prefix) => surt.starts_with(prefix),
            Pattern::Url(regex) if line == surt => regex.is_match(&Surt::new(surt).to_uri()),
            Pattern::Url(regex) => regex.is_match(line),
            Pattern::Listed(list) => list.cover(surt, self.dialect),
        };
        (self.include.is_empty() || self.include.iter().any(matches))
            && !self.exclude.iter().any(matches)
    }

    /// The selected statuses, as passed to [`status`](Select::status); empty if all pass.
    pub fn statuses(&self) -> Vec<String> {
        let name = |range: &StatusRange| match range.high - range.low {
            0 => format!("{:03}", range.low),
            _ => format!("{}xx", range.low / 100),
        };
        self.status.iter().map(name).collect()
    }

    /// The selected media types, as passed to [`mime`](Select::mime); empty if all pass.
    pub fn media_types(&self) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let name = |mime: &Mime| match mime {
            Mime::Whole(whole) => text(whole),
            Mime::Prefix(prefix) => text(prefix) + "*",
        };
        self.mime.iter().map(name).collect()
    }

    /// The earliest selected time.
    pub fn first_time(&self) -> Option<Time> {
        self.from
    }

    /// The latest selected time.
    pub fn last_time(&self) -> Option<Time> {
        self.to
    }

    /// The patterns of which one must match, as passed to [`include`](Select::include).
    pub fn includes(&self) -> Vec<String> {
        recorded(&self.include)
    }

    /// The patterns of which none may match.
    pub fn excludes(&self) -> Vec<String> {
        recorded(&self.exclude)
    }

    /// Whether revisits are skipped.
    pub fn drops_revisits(&self) -> bool {
        self.revisits == Revisits::Drop
    }

    /// The fields that the filters need.
    pub fn fields(&self) -> Fields {
        // Rows that are not of the Web, and revisits, are recognised by these two.
        let mut fields = Field::Url | Field::Mime;
        if !self.status.is_empty() {
            fields = fields | Field::Status;
        }
        if self.revisits == Revisits::Resolve {
            fields = fields | crate::revisit::WANTED.into_iter().collect::<Fields>();
        }
        fields
    }

    pub(crate) fn wants_non_web(&self) -> bool {
        self.include_non_web
    }

    /// Whether revisits are resolved, which needs captures in order.
    pub fn resolves(&self) -> bool {
        self.revisits == Revisits::Resolve
    }

    /// Whether every capture of the Web passes.
    pub(crate) fn is_everything(&self) -> bool {
        self.revisits != Revisits::Drop
            && self.status.is_empty()
            && self.mime.is_empty()
            && self.from.or(self.to).is_none()
            && self.include.is_empty()
            && self.exclude.is_empty()
    }

    /// Whether a capture passes. Its [`fields`](Select::fields) must have been parsed.
    pub fn accepts(&self, capture: &Capture<'_>) -> bool {
        (self.include_non_web || web::non_web(capture).is_none()) && self.accepts_web(capture)
    }

    /// The same, without checking that the capture is of the Web.
    #[inline]
    pub(crate) fn accepts_web(&self, capture: &Capture<'_>) -> bool {
        if self.revisits == Revisits::Drop && capture.is_revisit() {
            return false;
        }
        let is_unresolved = self.keep_unresolved && capture.is_revisit();
        if !self.status.is_empty() {
            let matches = |status| {
                let mut ranges = self.status.iter();
                ranges.any(|range| (range.low..=range.high).contains(&status))
            };
            // 304 is the status of the answer that is not repeated.
            let selected = match capture.status() {
                None | Some(304) if is_unresolved => true,
                status => status.is_some_and(matches),
            };
            if !selected {
                return false;
            }
        }
        if !self.mime.is_empty() && !is_unresolved {
            let mime = capture.mime();
            let mime = mime.as_deref().unwrap_or(b"-");
            if !self.mime.iter().any(|wanted| wanted.matches(mime)) {
                return false;
            }
        }
        if self.from.is_some() || self.to.is_some() {
            let Some(time) = capture.time() else {
                return false;
            };
            if self.from.is_some_and(|from| time < from) || self.to.is_some_and(|to| time > to) {
                return false;
            }
        }
        let matches = |pattern: &Pattern| pattern.matches(capture, self.dialect);
        (self.include.is_empty() || self.include.iter().any(matches))
            && !self.exclude.iter().any(matches)
    }
}

/// Passes on the SURT of the URL of a capture, which may differ from its key.
pub(crate) fn with_surt<T>(
    capture: &Capture<'_>,
    dialect: Dialect,
    take: impl FnOnce(&[u8]) -> T,
) -> T {
    REKEYER.with_borrow_mut(|known| {
        if known.as_ref().is_none_or(|(last, _)| *last != dialect) {
            *known = None;
        }
        let (_, rekeyer) = known.get_or_insert_with(|| (dialect, Rekeyer::new(dialect)));
        take(rekeyer.surt(capture))
    })
}

/// The patterns as they were given, without takedowns, which leave no trace.
fn recorded(patterns: &[Pattern]) -> Vec<String> {
    let patterns = patterns.iter().filter_map(|pattern| match pattern {
        Pattern::Prefix(prefix) => Some(String::from_utf8_lossy(prefix).into_owned()),
        Pattern::Url(regex) => Some(format!("~{regex}")),
        Pattern::Listed(_) => None,
    });
    patterns.collect()
}

fn no_time(time: &str) -> Error {
    invalid(format!(
        "invalid time `{time}`: write digits such as 2004 or 20040131, or a date such as 2004-01-31"
    ))
}

impl Mime {
    fn matches(&self, mime: &[u8]) -> bool {
        match self {
            Mime::Whole(whole) => mime.eq_ignore_ascii_case(whole),
            Mime::Prefix(prefix) => mime
                .get(..prefix.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(prefix)),
        }
    }
}

impl Pattern {
    fn parse(pattern: &str) -> Result<Pattern> {
        if let Some(regex) = pattern.strip_prefix('~') {
            return Regex::new(regex)
                .map(Pattern::Url)
                .map_err(|error| invalid(format!("invalid regex `{regex}`: {error}")));
        }
        let host = &pattern[..pattern.find([')', '/']).unwrap_or(pattern.len())];
        if pattern.contains("://") || (host.contains('.') && !host.contains(',')) {
            return Err(invalid(format!(
                "invalid SURT prefix `{pattern}`: write com,example) for a host, com,example, for the \
                 hosts below it, or ~REGEX to match URLs"
            )));
        }
        Ok(Pattern::Prefix(pattern.as_bytes().to_vec()))
    }

    fn matches(&self, capture: &Capture<'_>, dialect: Dialect) -> bool {
        match self {
            // Also match the key, so that what is seen in the index can be used as a pattern.
            Pattern::Prefix(prefix) => {
                capture.key().starts_with(prefix)
                    || with_surt(capture, dialect, |surt| surt.starts_with(prefix))
            }
            Pattern::Url(regex) => capture.url().is_some_and(|url| regex.is_match(&url)),
            Pattern::Listed(list) => with_surt(capture, dialect, |surt| list.cover(surt, dialect)),
        }
    }
}

#[cfg(test)]
mod tests;
