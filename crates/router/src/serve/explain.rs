//! Why archives are asked for a URI: as JSON, and as a page.

use waypost_report::{Align, Page, Table};

use crate::decide::AuditedRecall;
use crate::{Choice, Decision, Router, explanation};

/// The page for people.
pub(super) fn page(router: &Router, decision: &Decision, uri: &str) -> String {
    let mut page = Page::new("Which archives are asked");
    page.subtitle(uri);
    let (first, later) = (decision.asked().count(), decision.asked_later().count());
    page.fact("archives", &decision.choices.len().to_string());
    page.fact("asked", &first.to_string());
    if later > 0 {
        page.fact("asked if these have nothing", &later.to_string());
    }
    let audited = router.decider().audited_recall();
    if let Some(text) = recall_text(&audited) {
        page.fact("audited recall", &text);
    }
    let mut table = Table::new(&[
        ("archive", Align::Left),
        ("asked", Align::Left),
        ("decision", Align::Left),
        ("reason", Align::Left),
        ("expected mementos", Align::Right),
        ("key", Align::Left),
        ("summary", Align::Left),
        ("age in hours", Align::Right),
        ("asked last", Align::Left),
    ]);
    let why = explanation(router.registry(), router.decider(), decision, uri);
    let archives = why["archives"].as_array();
    for (choice, known) in decision.choices.iter().zip(archives.into_iter().flatten()) {
        let text = |key: &str| known[key].as_str().unwrap_or("-").to_owned();
        let last = known["last"]["text"].as_str().unwrap_or("-").to_owned();
        table.row(vec![
            text("id"),
            turn(choice).to_owned(),
            text("decision"),
            match &choice.problem {
                Some(problem) => format!("{}: {problem}", text("reason")),
                None => text("reason"),
            },
            choice
                .estimate
                .map_or("-".to_owned(), |estimate| format!("{estimate:.1}")),
            text("key"),
            text("summary"),
            choice.age.map_or("-".to_owned(), |age| {
                format!("{:.1}", age.as_secs_f64() / 3600.0)
            }),
            last,
        ]);
    }
    page.section("Archives");
    page.table("Archives in the order in which they are asked", &table);
    page.html()
}

fn turn(choice: &Choice) -> &'static str {
    match (choice.asked, choice.later) {
        (true, _) => "yes",
        (false, true) => "later",
        (false, false) => "no",
    }
}

/// `0.998 (0.991 to 1.000), from 1,200 probes`.
fn recall_text(audited: &AuditedRecall) -> Option<String> {
    let (low, high) = audited.interval?;
    Some(format!(
        "{:.4} ({low:.4} to {high:.4}), from {} probes",
        audited.recall?, audited.probes
    ))
}

/// The page that a resource belongs to, by its `Referer`: what a memento URI or one of our own URIs
/// stands for, or the URI itself.
pub(super) fn page_of(referer: &str) -> Option<String> {
    if let Some(original) = crate::harvest::original_in(referer) {
        return crate::original_uri(original);
    }
    let inner = ["http://", "https://"]
        .iter()
        .filter_map(|scheme| referer.rfind(scheme))
        .max()?;
    crate::original_uri(&referer[inner..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_referer_names_a_page() {
        for (referer, page) in [
            ("http://page.example/", Some("http://page.example/")),
            (
                "http://localhost:1208/memento/proxy/20040102030405/http://page.example/a",
                Some("http://page.example/a"),
            ),
            (
                "https://archive.example/web/20040102030405mp_/http://page.example/",
                Some("http://page.example/"),
            ),
            (
                "http://localhost:1208/timegate/https://page.example/",
                Some("https://page.example/"),
            ),
            ("about:blank", None),
        ] {
            assert_eq!(page_of(referer).as_deref(), page, "{referer}");
        }
    }
}
