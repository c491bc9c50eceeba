//! Self-contained HTML pages: one file without external resources, light and dark, for screens of
//! any width and for printing.

use std::fmt::Write;

use askama::Template;

use crate::Table;

/// A page of sections with sentences, plots and tables.
///
/// ```
/// use waypost_report::{Align, Cell, Page, Table};
///
/// let mut page = Page::new("What the library holds");
/// page.lead("The archive holds 48,213 captures.");
/// page.fact("captures", "48,213");
/// page.section("By year");
/// let mut table = Table::new(&[("year", Align::Left), ("captures", Align::Right)]);
/// table.row([Cell::from("2004"), Cell::count(48_213)]);
/// page.table("Captures by year", &table);
/// let html = page.html();
/// assert!(html.contains("<section id=\"by-year\"") && html.contains("captures-by-year.csv"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Page {
    title: String,
    subtitle: String,
    lead: Vec<String>,
    facts: Vec<(String, String)>,
    preface: String,
    sections: Vec<Section>,
    tables: usize,
}

#[derive(Clone, Debug)]
struct Section {
    id: String,
    heading: String,
    body: String,
}

/// The whole page, as the template sees it.
#[derive(Template)]
#[template(path = "page.html")]
struct Whole<'a> {
    title: &'a str,
    subtitle: &'a str,
    lead: &'a [String],
    facts: &'a [(String, String)],
    preface: &'a str,
    sections: &'a [Section],
    style: &'a str,
    script: &'a str,
    version: &'a str,
}

/// The style of all pages, for pages that are not a [`Page`].
pub const STYLE: &str = include_str!("../templates/style.css");

impl Page {
    /// A page with this title.
    pub fn new(title: &str) -> Page {
        Page {
            title: title.to_owned(),
            ..Page::default()
        }
    }

    /// A line under the title: what was read, and when.
    pub fn subtitle(&mut self, text: &str) {
        text.clone_into(&mut self.subtitle);
    }

    /// Adds a sentence or more to the summary at the top.
    pub fn lead(&mut self, text: &str) {
        self.lead.push(text.to_owned());
    }

    /// Adds a key figure, shown large under the summary.
    pub fn fact(&mut self, name: &str, value: &str) {
        self.facts.push((name.to_owned(), value.to_owned()));
    }

    /// Starts a section, which the table of contents lists.
    pub fn section(&mut self, heading: &str) {
        let name = slug(heading);
        let same = |section: &&Section| section.id.starts_with(&name);
        let id = match self.sections.iter().filter(same).count() {
            0 => name,
            earlier => format!("{name}-{}", earlier + 1),
        };
        self.sections.push(Section {
            id,
            heading: heading.to_owned(),
            body: String::new(),
        });
    }

    fn body(&mut self) -> &mut String {
        match self.sections.last_mut() {
            Some(section) => &mut section.body,
            None => &mut self.preface,
        }
    }

    /// Adds a heading inside a section.
    pub fn heading(&mut self, text: &str) {
        let text = escape(text);
        let _ = writeln!(self.body(), "<h3>{text}</h3>");
    }

    /// Adds a paragraph.
    pub fn text(&mut self, text: &str) {
        let text = escape(text);
        let _ = writeln!(self.body(), "<p>{text}</p>");
    }

    /// Adds a list of remarks, each with a title.
    pub fn notes<'a>(&mut self, notes: impl IntoIterator<Item = (&'a str, &'a str)>) {
        let mut list = String::from("<ul class=\"notes\">\n");
        for (title, text) in notes {
            let _ = writeln!(list, "<li><b>{}</b> {}</li>", escape(title), escape(text));
        }
        list.push_str("</ul>\n");
        self.body().push_str(&list);
    }

    /// Adds a table with a title and a button that saves it as CSV.
    pub fn table(&mut self, title: &str, table: &Table) {
        self.tables += 1;
        let id = format!("table-{}", self.tables);
        let html = format!(
            "<div class=\"sheet-table{3}\"><div class=\"bar\"><b id=\"{id}-title\">{0}</b><button type=\"button\" class=\"csv\" data-table=\"{id}\" data-file=\"{1}.csv\" aria-label=\"Save as CSV: {0}\">Save as CSV</button></div>\n\
             <div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-labelledby=\"{id}-title\"><table id=\"{id}\" aria-labelledby=\"{id}-title\">\n{2}\n</table></div></div>\n",
            escape(title),
            slug(title),
            table.html(),
            if table.columns() <= 2 { " narrow" } else { "" }
        );
        self.body().push_str(&html);
    }

    /// Adds a plot with a caption, which may be empty.
    pub fn figure(&mut self, svg: &str, caption: &str) {
        let caption = match caption {
            "" => String::new(),
            text => format!("<figcaption>{}</figcaption>", escape(text)),
        };
        let html = format!(
            "<figure><div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"plot\">\n{svg}</div>{caption}</figure>\n"
        );
        self.body().push_str(&html);
    }

    /// The whole page.
    pub fn html(&self) -> String {
        let whole = Whole {
            title: &self.title,
            subtitle: &self.subtitle,
            lead: &self.lead,
            facts: &self.facts,
            preface: &self.preface,
            sections: &self.sections,
            style: STYLE,
            script: include_str!("../templates/page.js"),
            version: env!("CARGO_PKG_VERSION"),
        };
        // Writing to a string cannot fail.
        whole.render().unwrap_or_default()
    }
}

/// A heading as an identifier and a file name: `By year` as `by-year`.
fn slug(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        if character.is_alphanumeric() {
            out.extend(character.to_lowercase());
        } else if !out.ends_with('-') && !out.is_empty() {
            out.push('-');
        }
    }
    out.trim_end_matches('-').to_owned()
}

/// Escapes text for HTML and XML.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML forbids control characters, even escaped ones.
            '\u{0}'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Align, Cell};

    #[test]
    fn a_page_holds_what_was_added_and_nothing_else_acts() {
        let mut table = Table::new(&[("uri", Align::Left), ("n", Align::Right)]);
        table.row([Cell::from("<b>"), Cell::count(1_000)]);
        let mut page = Page::new("A & B");
        page.lead("<i>");
        page.text("before any section");
        page.section("One & two");
        page.section("One & two");
        page.table("A table <1>", &table);
        page.notes([("<u>", "</ul>")]);
        page.figure("<svg></svg>", "</figcaption>");
        let html = page.html();
        assert!(!html.contains("<b>1") && !html.contains("<u>") && !html.contains("<i>"));
        assert!(html.contains("&lt;b&gt;</td><td class=\"number\" data-value=\"1000\">1,000</td>"));
        assert!(html.contains("id=\"one-two\"") && html.contains("id=\"one-two-2\""));
        assert!(html.contains("data-file=\"a-table-1.csv\""));
        assert_eq!(html.matches("<script>").count(), 1);
        assert_eq!(html.matches("</figcaption>").count(), 1);
        for outside in ["http:", "https:", "src=", "@import", "url("] {
            assert!(!html.contains(outside), "{outside}");
        }
    }
}
