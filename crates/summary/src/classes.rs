//! Classes of hosts and subtrees, defined by their users: news, social media, government.
//!
//! ```text
//! # a domain or a SURT prefix, then the name of its class
//! bbc.co.uk             news
//! com,twitter           social media
//! uk,gov,*              government
//! com,example)/press    news
//! ```

use std::collections::HashMap;

use waypost_io::{Lines, Source};
use waypost_surt::{Surt, is_surt};

use crate::error::{Error, ErrorKind, Result};

/// Which class a URI-R belongs to: that of the longest prefix that covers it.
///
/// ```
/// use waypost_summary::Classes;
/// use waypost_surt::Surt;
///
/// let classes = Classes::parse("bbc.co.uk news\ncom,example)/press news\n")?;
/// assert_eq!(classes.name(&Surt::new(b"uk,co,bbc,www2)/")), "news");
/// assert_eq!(classes.name(&Surt::new(b"com,example)/press/1")), "news");
/// assert_eq!(classes.name(&Surt::new(b"com,example)/")), "-");
/// # Ok::<(), waypost_summary::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes {
    /// `-` for everything else, then the names in the order in which they first occur.
    names: Vec<String>,
    prefixes: HashMap<Vec<u8>, usize>,
    /// Whether any prefix has a path.
    paths: bool,
}

impl Classes {
    /// Reads classes from a file.
    ///
    /// # Errors
    /// If it cannot be read, or a line has no class.
    pub fn read(source: &Source) -> Result<Classes> {
        let mut lines = Lines::new(source.open()?);
        let mut text = String::new();
        while lines.advance()? {
            text.push_str(&String::from_utf8_lossy(lines.line()));
            text.push('\n');
        }
        Classes::parse(&text).map_err(|error| error.in_file(source))
    }

    /// Reads classes from a text.
    ///
    /// # Errors
    /// If a line has no class, or a prefix has two.
    pub fn parse(text: &str) -> Result<Classes> {
        let mut classes = Classes {
            names: vec!["-".to_owned()],
            prefixes: HashMap::new(),
            paths: false,
        };
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fail =
                |message: String| Error::new(ErrorKind::Syntax(message)).at_line(number as u64 + 1);
            let Some((place, name)) = line.split_once(char::is_whitespace) else {
                return Err(fail(format!(
                    "expected a domain or SURT prefix and the name of its class, found `{line}`"
                )));
            };
            let (prefix, name) = (prefix_of(place), name.trim());
            if prefix.is_empty() {
                return Err(fail(format!(
                    "`{place}` is neither a domain nor a SURT prefix"
                )));
            }
            let known = classes.names.iter().position(|known| known == name);
            let class = known.unwrap_or_else(|| {
                classes.names.push(name.to_owned());
                classes.names.len() - 1
            });
            classes.paths |= prefix.contains(&b')');
            if let Some(other) = classes.prefixes.insert(prefix, class)
                && other != class
            {
                return Err(fail(format!(
                    "`{place}` is in class `{}` and in class `{name}`",
                    classes.names[other]
                )));
            }
        }
        Ok(classes)
    }

    /// The number of classes, with `-`.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are no classes but `-`.
    pub fn is_empty(&self) -> bool {
        self.names.len() == 1
    }

    /// The names: `-` for everything else, then the classes.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The number of the class of a URI-R, in the order of the names.
    pub fn number(&self, surt: &Surt<'_>) -> usize {
        let mut class = 0;
        let host = surt.authority().len();
        for prefix in surt.prefixes() {
            if prefix.len() > host && !self.paths {
                break;
            }
            if let Some(found) = self.prefixes.get(prefix) {
                class = *found;
            }
        }
        class
    }

    /// The name of the class of a URI-R.
    pub fn name(&self, surt: &Surt<'_>) -> &str {
        &self.names[self.number(surt)]
    }
}

/// The SURT prefix that a domain or SURT prefix stands for, as [`Surt::prefixes`] spells it.
fn prefix_of(place: &str) -> Vec<u8> {
    let place = place.to_ascii_lowercase();
    let end = place.trim_end_matches(['*', ',', '/']);
    if is_surt(place.as_bytes()) || place.contains(',') {
        return end.as_bytes().to_vec();
    }
    let host = end.split_once("://").map_or(end, |(_, rest)| rest);
    let (host, path) = host.split_once('/').unwrap_or((host, ""));
    let host = host.trim_start_matches("*.").trim_start_matches("www.");
    let mut labels: Vec<&str> = host.split('.').filter(|label| !label.is_empty()).collect();
    labels.reverse();
    let mut prefix = labels.join(",");
    if !path.is_empty() && !prefix.is_empty() {
        prefix += &format!(")/{path}");
    }
    prefix.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(classes: &Classes, surt: &str) -> String {
        classes.name(&Surt::new(surt.as_bytes())).to_owned()
    }

    #[test]
    fn the_longest_prefix_decides() {
        let text = "# ours\ngov.uk government\nuk,gov,* government\n\nhttps://www.example.com/press\tsocial media\ncom,example news\norg,x)/ wiki\n";
        let classes = Classes::parse(text).unwrap();
        assert_eq!(
            classes.names(),
            ["-", "government", "social media", "news", "wiki"]
        );
        assert_eq!(class(&classes, "uk,gov,parliament)/a"), "government");
        assert_eq!(class(&classes, "com,example)/press/a?b"), "social media");
        assert_eq!(class(&classes, "com,example)/pressed"), "news");
        assert_eq!(class(&classes, "com,example,blog:8080)/"), "news");
        assert_eq!(class(&classes, "com,examples)/"), "-");
        assert_eq!(class(&classes, "org,x)/a"), "wiki");
        assert_eq!(class(&classes, "org,x,y)/a"), "-");
        assert_eq!(class(&classes, "urn:a"), "-");
    }

    #[test]
    fn lines_without_a_class_and_contradictions_are_errors_with_their_line() {
        for (text, line, says) in [
            ("bbc.co.uk", 1, "name of its class"),
            ("# a\n/ news", 2, "neither a domain"),
            (
                "a.com news\ncom,a blogs",
                2,
                "in class `news` and in class `blogs`",
            ),
        ] {
            let error = Classes::parse(text).unwrap_err().to_string();
            assert!(
                error.contains(says) && error.contains(&format!("line {line}")),
                "{error}"
            );
        }
    }
}
