//! What is asked.

use std::net::IpAddr;

use waypost_memento::Datetime;
use waypost_summary::Preference;

/// What is asked of the archives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The original URI.
    pub uri: String,
    /// Which of its mementos.
    pub wanted: Wanted,
    /// Which archives the client wants asked.
    pub archives: Selection,
    /// Whether it is for a page, so that summaries of pages can call it absent.
    pub for_page: bool,
    /// The page that it belongs to, if it is a resource of one.
    pub page: Option<String>,
    /// What mementos should be like, if there is a choice: such archives come first.
    pub preference: Preference,
    /// Who asks, if that is known: what is learned from one client is limited.
    pub client: Option<IpAddr>,
}

impl Lookup {
    /// A lookup in all archives.
    pub fn new(uri: impl Into<String>, wanted: Wanted) -> Lookup {
        Lookup {
            uri: uri.into(),
            wanted,
            archives: Selection::All,
            for_page: false,
            page: None,
            preference: Preference::default(),
            client: None,
        }
    }
}

/// Whether a client that sends this `Accept` asks for a page: it prefers HTML to everything else. In
/// browsers, which name XHTML, too, images may have the same rank. Browsers send the same when a
/// person opens a picture or a document, so a URI that ends like the name of such a file is no page.
pub fn asks_for_page(accept: &str, uri: &str) -> bool {
    let (mut html, mut other, mut is_browser) = (0.0_f32, 0.0_f32, false);
    for range in accept.split(',') {
        let (name, parameters) = range.split_once(';').unwrap_or((range, ""));
        let quality = parameters.split(';').find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.trim().eq_ignore_ascii_case("q").then(|| value.trim())
        });
        let quality = quality.map_or(1.0, |value| value.parse().unwrap_or(0.0));
        match &*name.trim().to_ascii_lowercase() {
            "text/html" => html = quality,
            "application/xhtml+xml" => is_browser = true,
            _ => other = other.max(quality),
        }
    }
    let prefers_html = html > other || (is_browser && html == other);
    html > 0.0 && prefers_html && !is_file(uri)
}

/// The ends of the names of pages.
const PAGES: [&str; 15] = [
    "asp", "aspx", "cfm", "cgi", "do", "htm", "html", "jsp", "jspx", "php", "php3", "phtml", "pl",
    "shtml", "xhtml",
];

/// Whether the path of a URI ends like the name of a file that is no page.
fn is_file(uri: &str) -> bool {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let path = path.split_once("://").map_or(path, |(_, path)| path);
    let (folder, name) = path.rsplit_once('/').unwrap_or_default();
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    ending.is_some_and(|ending| {
        let ending = ending.to_ascii_lowercase();
        let is_ending = ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && ending.bytes().any(|byte| byte.is_ascii_alphabetic());
        !folder.is_empty() && is_ending && ending.len() <= 5 && !PAGES.contains(&&*ending)
    })
}

/// Which mementos are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All of them: TimeMaps are asked.
    All,
    /// The one closest to a datetime and those around it: TimeGates are asked.
    Closest(Datetime),
}

/// Which archives a client wants asked, by their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// All of them.
    #[default]
    All,
    /// Only these.
    Only(Vec<String>),
    /// All but these.
    Except(Vec<String>),
}

impl Selection {
    /// Reads a list: `a,b` for only these, `!a,!b` for all but these. `None` if it is both.
    pub fn parse(text: &str) -> Option<Selection> {
        let ids = text.split(',').map(str::trim).filter(|id| !id.is_empty());
        let (without, only): (Vec<&str>, Vec<&str>) = ids.partition(|id| id.starts_with('!'));
        let owned = |ids: Vec<&str>| {
            ids.iter()
                .map(|id| id.trim_matches('!').to_owned())
                .collect()
        };
        match (only.is_empty(), without.is_empty()) {
            (true, true) => Some(Selection::All),
            (false, true) => Some(Selection::Only(owned(only))),
            (true, false) => Some(Selection::Except(owned(without))),
            (false, false) => None,
        }
    }

    /// The ids that are named.
    pub fn ids(&self) -> &[String] {
        match self {
            Selection::All => &[],
            Selection::Only(ids) | Selection::Except(ids) => ids,
        }
    }

    /// Whether an archive is among them.
    pub fn has(&self, id: &str) -> bool {
        match self {
            Selection::All => true,
            Selection::Only(ids) => ids.iter().any(|known| known == id),
            Selection::Except(ids) => ids.iter().all(|known| known != id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_that_open_pages_ask_for_pages() {
        let chrome = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,\
            image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7";
        let safari = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        let page = "http://a.example/b";
        for accept in [chrome, safari, "text/html", "text/html, */*;q=0.01"] {
            assert!(asks_for_page(accept, page), "{accept}");
        }
        for accept in [
            "",
            "*/*",
            "text/html;q=0.5, */*",
            "application/link-format, text/html",
            "image/avif,image/webp,image/apng,*/*;q=0.8",
            "text/*",
            "text/html;q=0",
            "text/html;q=x",
            // Java, whatever it fetches.
            "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2",
        ] {
            assert!(!asks_for_page(accept, page), "{accept}");
        }
        for (uri, expected) in [
            ("http://example.com", true),
            ("http://example.com/a.HTML?b=c.pdf", true),
            ("http://example.com/v1.2", true),
            ("http://example.com/a.b/c", true),
            ("http://example.com/report.PDF", false),
            ("http://example.com/a.mp3?x#y", false),
            ("http://example.com/a.png/", true),
        ] {
            assert_eq!(asks_for_page(chrome, uri), expected, "{uri}");
        }
    }

    #[test]
    fn a_selection_names_archives_or_excludes_them() {
        let only = Selection::parse(" a, b,,").unwrap();
        assert!(only.has("a") && only.has("b") && !only.has("c"));
        let except = Selection::parse("!a,!b").unwrap();
        assert!(!except.has("a") && !except.has("b") && except.has("c"));
        assert_eq!(except.ids(), ["a", "b"]);
        assert_eq!(Selection::parse(""), Some(Selection::All));
        assert_eq!(Selection::parse("a,!b"), None);
    }
}
