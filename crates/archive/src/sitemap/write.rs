//! Writing a sitemap.

use quick_xml::escape::escape;

use super::{DUBLIN_CORE, Entry, SITEMAP};

/// The text of a sitemap.
pub fn write(entries: &[Entry]) -> String {
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <urlset xmlns=\"{SITEMAP}\" xmlns:dc=\"{}\">\n",
        DUBLIN_CORE[0]
    );
    for entry in entries {
        text += "  <url>\n";
        let mut add = |element: &str, value: &str| {
            let value = plain(value);
            text += &format!("    <{element}>{}</{element}>\n", escape(value));
        };
        add("loc", &entry.location);
        if let Some(modified) = &entry.modified {
            add("lastmod", modified);
        }
        for (element, value) in &entry.elements {
            add(&format!("dc:{element}"), value);
        }
        text += "  </url>\n";
    }
    text + "</urlset>\n"
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
