//! The metadata of a summary: whose it is, what it covers, and how and from what it was built.
//!
//! All of it comes from the input and the user, never from the clock or the machine: the same input
//! gives the same bytes.

use std::collections::BTreeSet;

use waypost_index::timestamp::Time;
use waypost_surt::{Dialect, Policy};

use crate::error::{Error, Result};
use crate::frequency::Number;
use crate::map::Span;
use crate::scope::{Scope, Scopes};
use crate::ukvs::{Header, Headers, Value};

/// The archive that a summary describes. Read from `about.toml` or from options.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Archive {
    /// A short name for files and tables.
    pub id: Texts,
    /// The display name.
    pub name: Texts,
    /// A description.
    pub description: Texts,
    /// The home page.
    pub home: Texts,
    /// The TimeGate, with `{URI}` as the placeholder for the URI.
    pub timegate: Texts,
    /// The TimeMap, with the same placeholder.
    pub timemap: Texts,
}

/// A string, or several if the merged summaries differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(from = "OneOrMore")]
pub struct Texts(BTreeSet<String>);

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(BTreeSet<String>),
}

impl From<OneOrMore> for Texts {
    fn from(texts: OneOrMore) -> Texts {
        match texts {
            OneOrMore::One(text) => Texts::from(text),
            OneOrMore::More(texts) => Texts(texts),
        }
    }
}

impl From<String> for Texts {
    fn from(text: String) -> Texts {
        Texts(BTreeSet::from([text]))
    }
}

impl Texts {
    /// The first string, if any.
    pub fn first(&self) -> Option<&str> {
        self.0.first().map(String::as_str)
    }

    /// Adds a string.
    #[must_use]
    pub fn with(mut self, text: &str) -> Texts {
        self.0.insert(text.to_owned());
        self
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn from_value(value: Option<&Value>) -> Texts {
        match value {
            Some(Value::Text(text)) => Texts::from(text.clone()),
            Some(Value::List(items)) => Texts(
                items
                    .iter()
                    .filter_map(|item| item.as_text().map(str::to_owned))
                    .collect(),
            ),
            _ => Texts::default(),
        }
    }

    fn to_value(&self) -> Option<Value> {
        let mut texts = self.0.iter().map(|text| Value::from(text.as_str()));
        match self.0.len() {
            0 => None,
            1 => texts.next(),
            _ => Some(Value::List(texts.collect())),
        }
    }
}

/// The second key of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum By {
    /// The year of the capture.
    Year,
    /// The month of the capture.
    Month,
    /// The first language of the page.
    Language,
    /// The media type.
    Mime,
    /// The class of the URI-R: see [`Classes`](crate::Classes).
    Class,
}

impl By {
    /// The name used in options and file names.
    pub fn name(self) -> &'static str {
        match self {
            By::Year => "year",
            By::Month => "month",
            By::Language => "language",
            By::Mime => "mime",
            By::Class => "class",
        }
    }

    /// The name used in the file format.
    pub fn field(self) -> &'static str {
        match self {
            By::Year | By::Month => "datetime",
            By::Language => "language",
            By::Mime => "mime",
            By::Class => "class",
        }
    }

    fn of_name(name: &str) -> Option<By> {
        [By::Year, By::Month, By::Language, By::Mime, By::Class]
            .into_iter()
            .find(|by| by.name() == name)
    }
}

/// The metadata of a summary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The archive.
    pub archive: Archive,
    /// The policy, if it is a profile.
    pub policy: Option<Policy>,
    /// The second key, if any.
    pub by: Option<By>,
    /// The dialect of the SURTs.
    pub dialect: Dialect,
    /// Which captures it covers.
    pub scopes: Scopes,
    /// What it was built from: `cdx`, `uris`.
    pub source: Texts,
    /// The number of sources.
    pub sources: u64,
    /// The oldest capture.
    pub first: Option<Time>,
    /// The newest capture.
    pub last: Option<Time>,
    /// The end of the year of `last`, if only the years of captures are known.
    pub until: Option<Time>,
    /// When it was built, or the time of the newest capture.
    pub updated: Option<Time>,
    /// Total number of captures.
    pub captures: Option<Number>,
    /// Total number of URI-Rs.
    pub urirs: Option<Number>,
}

const CONTEXT: &str = "https://oduwsdl.github.io/contexts/archiveprofile.jsonld";

impl About {
    /// The header lines.
    pub fn headers(&self) -> Headers {
        let mut headers = Headers::default();
        headers.add(Header::new("context", Value::List(vec![CONTEXT.into()])));
        let id = self.archive.home.to_value().or(self.archive.id.to_value());
        if let Some(id) = id {
            headers.add(Header::new("id", Value::Object(vec![("uri".into(), id)])));
        }
        let mut keys: Vec<Value> = vec!["surt".into()];
        keys.extend(self.by.map(|by| Value::from(by.field())));
        headers.add(Header::new("keys", Value::List(keys)));
        let mut meta: Vec<(String, Value)> = Vec::new();
        let mut add = |name: &str, value: Option<Value>| {
            meta.extend(value.map(|value| (name.to_owned(), value)));
        };
        let text = |text: String| Some(Value::Text(text));
        let number = |number: Option<Number>| {
            number.map(|number| match number.sureness {
                crate::frequency::Sureness::Exact => Value::from(number.value),
                _ => Value::Text(number.to_string()),
            })
        };
        add(
            "type",
            self.policy
                .and_then(|policy| text(format!("urikey#{policy}"))),
        );
        add(
            "policy",
            self.policy.and_then(|policy| text(policy.to_string())),
        );
        add("by", self.by.map(|by| by.name().into()));
        add("dialect", Some(self.dialect.name().into()));
        let scopes = self.scopes.iter().map(ToString::to_string).collect();
        add("scope", Texts(scopes).to_value());
        let uses_suffixes = matches!(self.policy, Some(Policy::Domain(_)));
        add(
            "public_suffix_list",
            uses_suffixes.then(|| format!("psl {}", waypost_surt::PSL_VERSION).as_str().into()),
        );
        add("archive", self.archive.id.to_value());
        add("name", self.archive.name.to_value());
        add("description", self.archive.description.to_value());
        add("home", self.archive.home.to_value());
        add("timegate", self.archive.timegate.to_value());
        add("timemap", self.archive.timemap.to_value());
        add("source", self.source.to_value());
        add("sources", Some(self.sources.into()));
        add("captures", number(self.captures));
        add("urirs", number(self.urirs));
        add("from", self.first.and_then(|time| text(iso(time))));
        add("until", self.last.and_then(|time| text(iso(time))));
        add("updated_at", self.updated.and_then(|time| text(iso(time))));
        add(
            "generator",
            text(format!("waypost {}", env!("CARGO_PKG_VERSION"))),
        );
        headers.add(Header::new("meta", Value::Object(meta)));
        headers
    }

    /// Reads the metadata from headers, including those of older tools.
    ///
    /// # Errors
    /// If a header names an unknown policy or dialect.
    pub fn from_headers(headers: &Headers) -> Result<About> {
        let mut meta = Value::Object(Vec::new());
        for name in ["about", "meta"] {
            if let Some(value @ Value::Object(_)) = headers.get(name) {
                meta.merge(value);
            }
        }
        let texts = |name: &str| Texts::from_value(meta.get(name));
        let either = |name: &str, older: &str| match texts(name) {
            Texts(found) if found.is_empty() => texts(older),
            found => found,
        };
        let time = |name: &str| {
            texts(name)
                .first()
                .and_then(|text| Time::parse(text.as_bytes()))
        };
        let number = |name: &str| match meta.get(name) {
            Some(Value::Number(text) | Value::Text(text)) => text.parse().ok(),
            _ => None,
        };
        let policy = match (texts("policy").first(), texts("type").first()) {
            (Some(name), _) => Some(name.rsplit('#').next().unwrap_or(name).to_owned()),
            (None, Some(kind)) => kind.split_once('#').map(|(_, name)| name.to_owned()),
            (None, None) => None,
        };
        let policy = policy
            .map(|name| name.parse::<Policy>())
            .transpose()
            .map_err(|error| Error::format(error.to_string()))?;
        let dialect = texts("dialect")
            .first()
            .map(str::parse::<Dialect>)
            .transpose()
            .map_err(|error| Error::format(error.to_string()))?
            .unwrap_or_default();
        Ok(About {
            archive: Archive {
                id: texts("archive"),
                name: texts("name"),
                description: texts("description"),
                home: either("home", "homepage"),
                timegate: texts("timegate"),
                timemap: texts("timemap"),
            },
            policy,
            by: texts("by").first().and_then(By::of_name),
            dialect,
            scopes: texts("scope")
                .0
                .iter()
                .filter_map(|text| text.parse::<Scope>().ok())
                .collect(),
            source: texts("source"),
            sources: meta.get("sources").and_then(Value::as_u64).unwrap_or(1),
            first: time("from"),
            last: time("until"),
            until: None,
            updated: time("updated_at").or(time("profile_updated")),
            captures: number("captures"),
            urirs: number("urirs"),
        })
    }

    /// How many seconds all captures are away from a time, at least. 0 if that is not known.
    pub(crate) fn distance(&self, at: Time) -> u64 {
        // A list has no times, and a summary of some captures says nothing about the others.
        let from_indexes = self.source.0.iter().eq(["cdx"]);
        match (self.first, self.last) {
            (Some(first), Some(last)) if from_indexes && self.scopes.is_everything() => {
                Span::of(Some(first), Some(last)).distance(at)
            }
            _ => 0,
        }
    }

    /// Merges the metadata of two summaries. The order does not matter. Policy, second key and
    /// dialect must be equal.
    #[must_use]
    pub fn merged(mut self, other: About) -> About {
        let fields = |archive: Archive| {
            [
                archive.id,
                archive.name,
                archive.description,
                archive.home,
                archive.timegate,
                archive.timemap,
            ]
        };
        let own = &mut self.archive;
        let into = [
            &mut own.id,
            &mut own.name,
            &mut own.description,
            &mut own.home,
            &mut own.timegate,
            &mut own.timemap,
        ];
        for (own, other) in into.into_iter().zip(fields(other.archive)) {
            own.0.extend(other.0);
        }
        self.source.0.extend(other.source.0);
        self.scopes.merge(other.scopes);
        self.sources += other.sources;
        self.first = [self.first, other.first].into_iter().flatten().min();
        self.last = [self.last, other.last].into_iter().flatten().max();
        self.updated = [self.updated, other.updated].into_iter().flatten().max();
        let sum = |a: Option<Number>, b: Option<Number>| Some(a?.plus(b?));
        self.captures = sum(self.captures, other.captures);
        // URI-Rs held by both are counted twice.
        self.urirs = sum(self.urirs, other.urirs).map(|sum| sum.plus(Number::at_most(0)));
        self
    }
}

/// `2004-01-02T03:04:05Z`.
fn iso(time: Time) -> String {
    format!("{}Z", time.to_string().replace(' ', "T"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_older_headers_are_understood() {
        let about = About {
            archive: Archive {
                name: Texts::from("A \"B\"".to_owned()),
                home: Texts::from("http://a/".to_owned()),
                ..Archive::default()
            },
            policy: "H3P1".parse().ok(),
            by: Some(By::Month),
            dialect: Dialect::CommonCrawl,
            scopes: ["mime=text/html&status=200", "include=com,a%26b"]
                .into_iter()
                .filter_map(|text| text.parse::<Scope>().ok())
                .collect(),
            source: Texts::from("cdx".to_owned()),
            sources: 2,
            first: Time::parse(b"1996"),
            last: Time::parse(b"20040102030405"),
            until: None,
            updated: Time::parse(b"20040102030405"),
            captures: Some(Number::exact(9)),
            urirs: Some(Number::at_most(4)),
        };
        assert_eq!(About::from_headers(&about.headers()).unwrap(), about);

        let mut older = Headers::default();
        for line in [
            "@about {\"name\": \"UKWA\", \"type\": \"suburi#H3P1\", \"homepage\": \"http://x/\"}",
            "@about {\"profile_updated\": \"2015-07-20T12:00:00Z\"}",
        ] {
            let Ok(crate::ukvs::Line::Header(header)) = crate::ukvs::Line::parse(line.as_bytes())
            else {
                panic!()
            };
            older.add(header);
        }
        let found = About::from_headers(&older).unwrap();
        assert_eq!(found.policy.unwrap().to_string(), "H3P1");
        assert_eq!(found.archive.home.first(), Some("http://x/"));
        assert_eq!(found.updated, Time::parse(b"20150720120000"));
    }

    #[test]
    fn merging_does_not_depend_on_the_order() {
        let one = |name: &str, year: &str| About {
            archive: Archive {
                name: Texts::from(name.to_owned()),
                ..Archive::default()
            },
            first: Time::parse(year.as_bytes()),
            last: Time::parse(year.as_bytes()),
            sources: 1,
            captures: Some(Number::exact(3)),
            urirs: Some(Number::exact(2)),
            scopes: format!("from={year}")
                .parse::<Scope>()
                .into_iter()
                .collect(),
            ..About::default()
        };
        let (a, b, c) = (one("b", "2004"), one("a", "1996"), one("a", "2010"));
        assert_eq!(a.clone().merged(b.clone()), b.clone().merged(a.clone()));
        let left = a.clone().merged(b.clone()).merged(c.clone());
        assert_eq!(left, a.merged(b.merged(c)));
        assert_eq!(left.urirs.unwrap().to_string(), "6-");
        assert_eq!(left.sources, 3);
        assert_eq!(
            left.scopes.iter().count(),
            3,
            "all of them must cover a lookup"
        );
    }
}
