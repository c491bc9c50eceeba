//! Writing sitemaps, and an index of them where one is not enough.

use quick_xml::escape::escape;

use super::{DUBLIN_CORE, Entry, MOST_BYTES, SITEMAP};

const END: &str = "</urlset>\n";

/// The text of a sitemap.
pub fn write(entries: &[Entry]) -> String {
    let mut text = start();
    for entry in entries {
        push(entry, &mut text);
    }
    text + END
}

/// A sitemap, and when the newest of its files was modified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The text of the sitemap.
    pub text: String,
    /// The greatest of the times of its files, all of which have the same form.
    pub modified: Option<String>,
}

/// Sitemaps of all entries, in order: as many as it takes to have no more than `most_entries` in each,
/// and no more bytes than the protocol allows. There is always one.
pub fn write_parts(entries: &[Entry], most_entries: usize) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut part = Part {
        text: start(),
        modified: None,
    };
    let (mut count, mut one) = (0, String::new());
    for entry in entries {
        one.clear();
        push(entry, &mut one);
        if count > 0
            && (count >= most_entries || part.text.len() + one.len() + END.len() > MOST_BYTES)
        {
            part.text += END;
            let next = Part {
                text: start(),
                modified: None,
            };
            parts.push(std::mem::replace(&mut part, next));
            count = 0;
        }
        part.text += &one;
        part.modified = part.modified.max(entry.modified.clone());
        count += 1;
    }
    part.text += END;
    parts.push(part);
    parts
}

/// The text of an index of sitemaps: their URLs, and when the newest files in them were modified.
pub fn write_index<'a>(sitemaps: impl IntoIterator<Item = (String, &'a Part)>) -> String {
    let mut text =
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<sitemapindex xmlns=\"{SITEMAP}\">\n");
    for (location, part) in sitemaps {
        text += "  <sitemap>\n";
        push_element("loc", &location, &mut text);
        if let Some(modified) = &part.modified {
            push_element("lastmod", modified, &mut text);
        }
        text += "  </sitemap>\n";
    }
    text + "</sitemapindex>\n"
}

fn start() -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <urlset xmlns=\"{SITEMAP}\" xmlns:dc=\"{}\">\n",
        DUBLIN_CORE[0]
    )
}

fn push(entry: &Entry, text: &mut String) {
    *text += "  <url>\n";
    push_element("loc", &entry.location, text);
    if let Some(modified) = &entry.modified {
        push_element("lastmod", modified, text);
    }
    for (element, value) in &entry.elements {
        push_element(&format!("dc:{element}"), value, text);
    }
    *text += "  </url>\n";
}

fn push_element(element: &str, value: &str, text: &mut String) {
    let value = plain(value);
    *text += &format!("    <{element}>{}</{element}>\n", escape(value));
}

/// XML cannot contain most control characters, not even escaped.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
            c if c.is_control() => ' ',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Listing, MOST_ENTRIES, parse};
    use super::*;

    fn entries(count: usize, title: &str) -> Vec<Entry> {
        let entry = |number| Entry {
            location: format!("https://a.example/{number}.filter"),
            modified: Some(format!("2021-12-{:02}T10:00:00Z", number % 28 + 1)),
            elements: vec![("title".to_owned(), title.to_owned())],
        };
        (0..count).map(entry).collect()
    }

    /// What sitemaps list, all of which are valid.
    fn listed(parts: &[Part]) -> Vec<Entry> {
        let files = parts.iter().map(|part| match parse(part.text.as_bytes()) {
            Ok(Listing::Files(files)) => files,
            other => panic!("{other:?}"),
        });
        files.flatten().collect()
    }

    #[test]
    fn more_entries_than_a_sitemap_may_have_make_several() {
        let entries = entries(MOST_ENTRIES + 1, "a");
        let parts = write_parts(&entries, MOST_ENTRIES);
        assert_eq!(parts.len(), 2);
        assert_eq!(listed(&parts), entries);
        assert_eq!(parts[0].modified.as_deref(), Some("2021-12-28T10:00:00Z"));
        let index = write_index([("https://a.example/s.xml?a&b".to_owned(), &parts[0])]);
        assert_eq!(
            parse(index.as_bytes()).unwrap(),
            Listing::Sitemaps(vec!["https://a.example/s.xml?a&b".to_owned()])
        );
        assert_eq!(write_parts(&[], 10).len(), 1);
        assert_eq!(
            write_parts(&entries[..10], 10)[0].text,
            write(&entries[..10])
        );
    }

    #[test]
    fn more_bytes_than_a_sitemap_may_have_make_several() {
        let entries = entries(4_000, &"x".repeat(15_000));
        let parts = write_parts(&entries, MOST_ENTRIES);
        assert_eq!(parts.len(), 2);
        assert!(parts.iter().all(|part| part.text.len() <= MOST_BYTES));
        assert_eq!(listed(&parts), entries);
    }
}
