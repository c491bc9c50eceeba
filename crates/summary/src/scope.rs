//! What a summary was built from, and therefore which lookups it can answer.
//!
//! A map of all pages with status 200 says nothing about images, and a map of `uk,` says nothing
//! about `com,`. A [`Scope`] records the capture filters; anything outside it is
//! [unknown](crate::Answer::Unknown), never absent. A summary without a recorded scope covers
//! everything.
//!
//! In files, a scope is a string, `mime=text/html&status=200`: in the `!meta` header of profiles
//! and maps as `scope`, in the metadata of filters as a `coverage` that starts with `captures?`. A
//! merged summary keeps the scopes of all its inputs and covers only what every one of them covers.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt::{self, Write};
use std::str::FromStr;

use waypost_index::Select;
use waypost_index::timestamp::Time;
use waypost_surt::{Key, Reach, Surt};

use crate::lookup::Lookup;
use crate::summary::Answer;

/// Which captures a summary covers or a lookup asks for. The default is all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope {
    /// `200`, `3xx`; all if empty.
    status: BTreeSet<String>,
    /// `text/html`, `image/*`; all if empty.
    mime: BTreeSet<String>,
    from: Option<Time>,
    to: Option<Time>,
    /// Prefixes of SURTs, or `~REGEX` over URLs; all if empty.
    include: BTreeSet<String>,
    exclude: BTreeSet<String>,
    without_revisits: bool,
    /// Whether only single URIs were looked at, as in a harvest: what has no row was not.
    partial: bool,
    /// Whether there are keys of what pywb would also find: see [`fuzzy`](crate::fuzzy).
    fuzzy: bool,
    /// Written by a later version and not understood by this one.
    other: BTreeSet<String>,
}

/// Everything.
pub(crate) static EVERYTHING: Scope = Scope {
    status: BTreeSet::new(),
    mime: BTreeSet::new(),
    from: None,
    to: None,
    include: BTreeSet::new(),
    exclude: BTreeSet::new(),
    without_revisits: false,
    partial: false,
    fuzzy: false,
    other: BTreeSet::new(),
};

impl Scope {
    /// The scope of these capture filters.
    pub fn of(select: &Select) -> Scope {
        Scope {
            status: select.statuses().into_iter().collect(),
            mime: select.media_types().into_iter().collect(),
            from: select.first_time(),
            to: select.last_time(),
            include: select.includes().into_iter().collect(),
            exclude: select.excludes().into_iter().collect(),
            without_revisits: select.drops_revisits(),
            partial: false,
            fuzzy: select.is_fuzzy(),
            other: BTreeSet::new(),
        }
    }

    /// What a lookup for a page asks for: HTML with status 200.
    pub fn of_pages() -> Scope {
        Scope::of(Select::new().html())
    }

    /// The scope of a harvest: only single URIs were looked at.
    pub fn of_harvest() -> Scope {
        Scope {
            partial: true,
            ..Scope::default()
        }
    }

    /// Restricts the scope to a time span.
    #[must_use]
    pub fn during(mut self, from: Option<Time>, to: Option<Time>) -> Scope {
        self.from = from.max(self.from);
        self.to = match (to, self.to) {
            (Some(to), Some(own)) => Some(to.min(own)),
            (to, own) => to.or(own),
        };
        self
    }

    /// Whether the scope covers every requested capture of `surt`, apart from what `partial` says.
    fn covers(&self, surt: &[u8], wanted: &Scope) -> bool {
        let within = |own: &BTreeSet<String>, wanted: &BTreeSet<String>| {
            own.is_empty()
                || (!wanted.is_empty()
                    && wanted
                        .iter()
                        .all(|item| own.iter().any(|own| contains(own, item))))
        };
        let starts = |pattern: &String| surt.starts_with(pattern.as_bytes());
        // A SURT does not tell whether a regex matched the URLs of the captures.
        let is_regex = |pattern: &String| pattern.starts_with('~');
        self.other.is_empty()
            && (!self.without_revisits || wanted.without_revisits)
            && within(&self.status, &wanted.status)
            && within(&self.mime, &wanted.mime)
            && self
                .from
                .is_none_or(|from| wanted.from.is_some_and(|at| at >= from))
            && self
                .to
                .is_none_or(|to| wanted.to.is_some_and(|at| at <= to))
            && (self.include.is_empty()
                || (!wanted.include.is_empty() && wanted.include.is_subset(&self.include))
                || self
                    .include
                    .iter()
                    .any(|pattern| !is_regex(pattern) && starts(pattern)))
            && self
                .exclude
                .difference(&wanted.exclude)
                .all(|pattern| match is_regex(pattern) {
                    true => pattern == Select::NOT_PAGES && !may_be_no_page(surt),
                    false => !starts(pattern),
                })
    }

    /// Whether the scope excludes every capture of `surt`.
    fn leaves_out(&self, surt: &[u8]) -> bool {
        let starts = |pattern: &String| surt.starts_with(pattern.as_bytes());
        let may_match = |pattern: &String| pattern.starts_with('~') || starts(pattern);
        (!self.include.is_empty() && !self.include.iter().any(may_match))
            || self.exclude.iter().any(starts)
    }
}

/// Whether a URL with this SURT may match [`Select::NOT_PAGES`].
fn may_be_no_page(surt: &[u8]) -> bool {
    let surt = surt.to_ascii_lowercase();
    let has = |name: &[u8]| memchr::memmem::find(&surt, name).is_some();
    has(b"/robots.txt") || has(b"/sitemap.xml")
}

/// Whether a status or media type pattern includes another.
fn contains(outer: &str, inner: &str) -> bool {
    let (outer, inner) = (outer.to_ascii_lowercase(), inner.to_ascii_lowercase());
    if outer == inner {
        return true;
    }
    match outer.strip_suffix('*') {
        Some(prefix) => inner.starts_with(prefix),
        None => outer
            .strip_suffix("xx")
            .is_some_and(|hundred| inner.len() == 3 && inner.starts_with(hundred)),
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |time: Option<Time>| time.map(|time| format!("{:014}", time.digits14()));
        let revisits = self.without_revisits.then(|| "drop".to_owned());
        let partial = self.partial.then(|| "yes".to_owned());
        let fuzzy = self.fuzzy.then(|| "pywb".to_owned());
        let parameters = [
            ("status", self.status.iter().cloned().collect::<Vec<_>>()),
            ("mime", self.mime.iter().cloned().collect()),
            ("from", time(self.from).into_iter().collect()),
            ("to", time(self.to).into_iter().collect()),
            ("include", self.include.iter().cloned().collect()),
            ("exclude", self.exclude.iter().cloned().collect()),
            ("revisits", revisits.into_iter().collect()),
            ("partial", partial.into_iter().collect()),
            ("fuzzy", fuzzy.into_iter().collect()),
        ];
        let mut first = true;
        let mut separate = |f: &mut fmt::Formatter<'_>| match std::mem::take(&mut first) {
            true => Ok(()),
            false => f.write_char('&'),
        };
        for (name, values) in &parameters {
            for value in values {
                separate(f)?;
                write!(f, "{name}=")?;
                for character in value.chars() {
                    match character {
                        '%' | '&' | '=' | '\0'..=' ' | '\x7f' => {
                            write!(f, "%{:02x}", character as u32)?;
                        }
                        _ => f.write_char(character)?,
                    }
                }
            }
        }
        for parameter in &self.other {
            separate(f)?;
            f.write_str(parameter)?;
        }
        Ok(())
    }
}

impl FromStr for Scope {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Scope, Infallible> {
        let mut scope = Scope::default();
        for parameter in text.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let value = decoded(value);
            let time = Time::parse(value.as_bytes());
            match (name, time) {
                ("status", _) => drop(scope.status.insert(value)),
                ("mime", _) => drop(scope.mime.insert(value)),
                ("from", Some(time)) => scope.from = Some(time),
                ("to", Some(time)) => scope.to = Some(time),
                ("include", _) => drop(scope.include.insert(value)),
                ("exclude", _) => drop(scope.exclude.insert(value)),
                ("revisits", _) if value == "drop" => scope.without_revisits = true,
                ("partial", _) if value == "yes" => scope.partial = true,
                ("fuzzy", _) if value == "pywb" => scope.fuzzy = true,
                _ => drop(scope.other.insert(parameter.to_owned())),
            }
        }
        Ok(scope)
    }
}

/// Decodes the percent-encoding of a value.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let code = (byte == b'%')
            .then(|| behind.get(..2))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &behind[2..];
            }
            None => {
                bytes.push(byte);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The scopes of a summary: one, or several if summaries were merged. Together they cover what
/// every one of them covers; without any, everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(BTreeSet<Scope>);

impl Scopes {
    /// The scope of these capture filters.
    pub fn of(select: &Select) -> Scopes {
        Scopes::from_iter([Scope::of(select)])
    }

    /// Whether this covers everything.
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// The scopes that do not cover everything.
    pub fn iter(&self) -> impl Iterator<Item = &Scope> {
        self.0.iter()
    }

    /// Adds the scopes of a summary that is merged in.
    pub fn merge(&mut self, other: Scopes) {
        let fuzzy = self.is_fuzzy() && other.is_fuzzy();
        let all = std::mem::take(&mut self.0).into_iter().chain(other.0);
        *self = all
            .map(|scope| Scope {
                fuzzy: scope.fuzzy && fuzzy,
                ..scope
            })
            .collect();
    }

    /// Whether there are keys of what pywb would also find.
    pub fn is_fuzzy(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|scope| scope.fuzzy)
    }

    /// Whether a summary with these scopes may call a lookup absent.
    pub fn covers(&self, lookup: &Lookup<'_>) -> bool {
        !self.is_partial() && self.covers_if_looked_at(lookup)
    }

    /// Whether only single URIs were looked at.
    pub fn is_partial(&self) -> bool {
        self.0.iter().any(|scope| scope.partial)
    }

    fn covers_if_looked_at(&self, lookup: &Lookup<'_>) -> bool {
        let surt = lookup.surt().as_bytes();
        self.0
            .iter()
            .all(|scope| scope.covers(surt, lookup.wanted()))
    }

    /// Like [`limit`](Scopes::limit), for a lookup for which a map has this void. In a map of a
    /// harvest, a void speaks for the very URI that was looked at.
    pub(crate) fn limit_void(&self, lookup: &Lookup<'_>, void: &[u8]) -> Answer {
        let own = Key::new(void);
        let exact = own.reach() == Reach::Exact && own == Key::new(lookup.surt().as_bytes());
        match self.is_partial() && exact && self.covers_if_looked_at(lookup) {
            true => Answer::Absent,
            false => self.limit(lookup, Answer::Absent),
        }
    }

    /// Whether the answers of a summary for this SURT must be ignored.
    fn leaves_out(&self, surt: &Surt<'_>) -> bool {
        let surt = surt.as_bytes();
        self.0.iter().any(|scope| scope.leaves_out(surt))
    }

    /// Adjusts the `answer` found in the rows of a summary to its scopes.
    pub(crate) fn limit(&self, lookup: &Lookup<'_>, answer: Answer) -> Answer {
        if self.0.is_empty() {
            return answer;
        }
        match answer {
            Answer::Absent if !self.covers(lookup) => Answer::Unknown,
            Answer::Present(_) if self.leaves_out(lookup.surt()) => Answer::Unknown,
            answer => answer,
        }
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Scopes {
        Scopes(
            scopes
                .into_iter()
                .filter(|scope| *scope != EVERYTHING)
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scope(text: &str) -> Scope {
        text.parse().unwrap()
    }

    const PAGES: &str =
        r"status=200&mime=text/html&exclude=~(?i)^[^#]*/(robots\.txt|sitemap\.xml)(\?|$)";

    #[test]
    fn the_scope_of_pages_is_that_of_the_preset() {
        let mut select = Select::new();
        assert_eq!(Scope::of(select.pages().unwrap()), scope(PAGES));
    }

    fn covers(scopes: &[&str], surt: &str, wanted: &str) -> bool {
        let scopes: Scopes = scopes.iter().map(|text| scope(text)).collect();
        let wanted = scope(wanted);
        let mut buffer = Vec::new();
        let lookup = Lookup::of_surt(surt.as_bytes(), &mut buffer).wanting(&wanted);
        scopes.covers(&lookup)
    }

    #[test]
    fn a_lookup_is_covered_if_all_that_it_asks_for_was_looked_at() {
        for (scopes, surt, wanted, expected) in [
            (&[][..], "com,a)/", "", true),
            (&[""], "com,a)/", "", true),
            (&["mime=text/html"], "com,a)/", "", false),
            (&["mime=text/html"], "com,a)/", "mime=text/html", true),
            (&["mime=text/*"], "com,a)/", "mime=TEXT/HTML", true),
            (&["mime=text/html"], "com,a)/", "mime=text/*", false),
            (&["status=2xx"], "com,a)/", "status=200", true),
            (&["status=200"], "com,a)/", "status=2xx", false),
            (
                &["status=200&status=3xx"],
                "com,a)/",
                "status=301&status=200",
                true,
            ),
            (&["from=2010"], "com,a)/", "", false),
            (&["from=2010"], "com,a)/", "from=2012", true),
            (&["from=2010"], "com,a)/", "from=2009", false),
            (&["to=2010"], "com,a)/", "from=2009", false),
            (&["include=com,a"], "com,a)/", "", true),
            (&["include=com,a"], "com,b)/", "", false),
            (&["exclude=com,a"], "com,a)/", "", false),
            (&["exclude=com,a"], "com,b)/", "", true),
            (&["exclude=~x"], "com,b)/", "", false),
            (&["exclude=~x"], "com,b)/", "exclude=~x", true),
            (&["include=~x"], "com,b)/", "include=~x", true),
            (&["include=~x&include=com,b"], "com,b)/", "", true),
            (&["revisits=drop"], "com,b)/", "", false),
            (
                &["exclude=~x", PAGES],
                "com,b)/",
                "mime=text/html&status=200",
                false,
            ),
            (&[PAGES], "com,b)/a", "mime=text/html&status=200", true),
            (&[PAGES], "com,b)/a", "mime=text/html", false),
            (
                &[PAGES],
                "com,b)/a/Robots.txt?b",
                "mime=text/html&status=200",
                false,
            ),
            (&[PAGES], "com,b)/sitemap.xml", PAGES, true),
            (&["weather=fine"], "com,b)/", "", false),
            (&["include=com,", "exclude=com,a"], "com,b)/", "", true),
            (&["include=com,", "exclude=com,a"], "com,a)/", "", false),
            (&["mime=text/html", "include=org,"], "com,a)/", "", false),
        ] {
            assert_eq!(
                covers(scopes, surt, wanted),
                expected,
                "{scopes:?} {surt} {wanted}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            status in prop::collection::btree_set("[1-5]([0-9]{2}|xx)", 0..3),
            mime in prop::collection::btree_set("[a-z]{1,4}/[a-z*]{1,3}", 0..3),
            include in prop::collection::btree_set("\\PC{1,6}|[ %&=~\t]{1,4}", 0..3),
            exclude in prop::collection::btree_set("\\PC{1,6}", 0..3),
            years in (prop::option::of(1990..2020u16), prop::option::of(1990..2020u16)),
            without_revisits: bool,
            partial: bool,
            fuzzy: bool,
        ) {
            let time = |year: Option<u16>| year.and_then(|year| Time::parse(year.to_string().as_bytes()));
            let scope = Scope { status, mime, include, exclude, from: time(years.0), to: time(years.1), without_revisits, partial, fuzzy, other: BTreeSet::new() };
            prop_assert_eq!(scope.to_string().parse::<Scope>().unwrap(), scope);
        }

        #[test]
        fn merging_never_covers_more(
            scopes in prop::collection::vec(prop::sample::select(vec!["mime=text/html", "include=com,", "from=2004", "exclude=com,a", "status=2xx", ""]), 1..4),
            surt in "com,[ab]\\)/",
            wanted in prop::sample::select(vec!["", "mime=text/html", "from=2005&mime=text/html&status=200"]),
        ) {
            let together = covers(&scopes, &surt, wanted);
            let each = scopes.iter().all(|scope| covers(&[scope], &surt, wanted));
            prop_assert_eq!(together, each);
        }
    }
}
