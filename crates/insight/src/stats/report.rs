//! The statistics as a page that people would rather look at than read.

use waypost_report::{Page, bytes, count, short};

use super::figures::figures;
use super::model::Statistics;
use super::tables::{Section, date, tables};

/// How many rows the lists of the page have.
const ROWS: usize = 100;

/// The report as one HTML file.
pub fn html(found: &Statistics) -> String {
    let name = match &found.name[..] {
        "" => "the archive",
        name => name,
    };
    let mut page = Page::new(&format!("What {name} holds"));
    let totals = &found.totals;
    page.subtitle(&format!(
        "{} of index in {}, {} lines",
        bytes(totals.bytes),
        counted(totals.files, "file"),
        count(totals.lines)
    ));
    for sentence in sentences(found, name) {
        page.lead(&sentence);
    }
    page.fact("captures", &short(totals.captures as f64));
    page.fact("URIs (URI-Rs)", &short(totals.urirs as f64));
    page.fact("hosts", &short(totals.hosts as f64));
    page.fact("registered domains", &short(totals.domains as f64));
    page.fact(
        "captures per URI, γ",
        &format!("{:.2}", found.distribution.mean),
    );
    if let (Some(first), Some(last)) = (found.years.first(), found.years.last()) {
        page.fact("years", &format!("{}–{}", first.year, last.year));
    }
    if totals.record_bytes > 0 {
        page.fact("size of the records", &bytes(totals.record_bytes));
    }
    let all = tables(found, ROWS);
    for section in Section::ALL {
        let here: Vec<_> = all
            .iter()
            .filter(|titled| titled.section == section)
            .collect();
        if here.is_empty() {
            continue;
        }
        page.section(section.heading());
        match section {
            Section::Defects => {
                page.text("What stands out, with the evidence and what to do about it. Not all of it is wrong.");
                let notes: Vec<(String, String)> = found
                    .defects
                    .iter()
                    .map(|defect| {
                        (
                            defect.title.clone(),
                            format!("{} {}", defect.evidence, defect.advice),
                        )
                    })
                    .collect();
                page.notes(notes.iter().map(|(title, text)| (&title[..], &text[..])));
            }
            Section::Tree => page.text("A URI is a path through a tree: labels of the host, then segments of the path. H2 are hosts cut to two labels, P1 are URIs cut to one path segment. RedQ is the share of keys that cutting at that depth would save."),
            Section::Lookups => {
                if let Some(lookups) = &found.lookups {
                    page.text(&format!(
                        "Of {} that were looked up, {} are held ({}). What is looked up often and not held is a candidate for the next crawl.",
                        counted(lookups.urirs, "URI"),
                        count(lookups.held),
                        percent(lookups.held as f64 / lookups.urirs.max(1) as f64)
                    ));
                }
            }
            _ => {}
        }
        // The defects are already there, as remarks.
        let shown = here
            .iter()
            .filter(|titled| titled.section != Section::Defects);
        for titled in shown {
            for (svg, caption) in figures(titled.title, found) {
                page.figure(&svg, &caption);
            }
            page.table(titled.title, &titled.table);
        }
    }
    page.html()
}

fn counted(n: u64, what: &str) -> String {
    format!("{} {what}{}", count(n), if n == 1 { "" } else { "s" })
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// The name as the start of a sentence. Names of files stay as they are.
fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    match letters.next() {
        Some(first) if !name.contains('.') => first.to_uppercase().chain(letters).collect(),
        _ => name.to_owned(),
    }
}

/// The summary at the top, for someone who reads nothing else.
fn sentences(found: &Statistics, name: &str) -> Vec<String> {
    let totals = &found.totals;
    let mut all = Vec::new();
    let mut first = format!(
        "{} holds {} of {} from {}",
        capitalised(name),
        counted(totals.captures, "capture"),
        counted(totals.urirs, "URI"),
        counted(totals.hosts, "host"),
    );
    if totals.first.is_some() {
        first += &format!(
            ", made between {} and {}",
            date(totals.first.as_deref()),
            date(totals.last.as_deref())
        );
    }
    all.push(first + ".");
    if totals.urirs == 0 {
        return all;
    }
    let of = &found.distribution;
    let mut second = format!("A URI was captured {:.1} times on average", of.mean);
    if let Some(pareto) = of.pareto.filter(|_| of.max > 1) {
        second += &format!(
            ", but unevenly: {} of the URIs have {} of the captures",
            percent(pareto),
            percent(1.0 - pareto)
        );
    }
    all.push(second + ".");
    let mut places = Vec::new();
    if let Some(tld) = found.tlds.first() {
        places.push(format!(
            "{} of the captures are from .{}",
            percent(tld.captures as f64 / totals.captures.max(1) as f64),
            tld.key
        ));
    }
    if let Some(domain) = found.domains.first() {
        places.push(format!(
            "the largest domain, {}, has {}",
            domain.key,
            percent(domain.captures as f64 / totals.captures.max(1) as f64)
        ));
    }
    if !places.is_empty() {
        all.push(places.join("; ") + ".");
    }
    if let Some(busiest) = found.years.iter().max_by_key(|year| year.captures)
        && found.years.len() > 1
    {
        let seen: u64 = found.years[1..].iter().map(|year| year.urirs).sum();
        let again: f64 = found.years[1..]
            .iter()
            .map(|year| year.seen_before * year.urirs as f64)
            .sum();
        all.push(format!(
            "Most captures were made in {} ({}). After the first year, {} of the URIs of a year had been captured before.",
            busiest.year,
            count(busiest.captures),
            percent(again / seen.max(1) as f64)
        ));
    }
    let successes: u64 = found.years.iter().map(|year| year.statuses.success).sum();
    let dated: u64 = found.years.iter().map(|year| year.captures).sum();
    let html = found
        .media_types
        .iter()
        .find(|media| media.name == "text/html");
    if dated > 0
        && let Some(html) = html
    {
        all.push(format!(
            "{} of the captures are successful answers (2xx), and {} are HTML pages.",
            percent(successes as f64 / dated as f64),
            percent(html.statuses.total() as f64 / totals.captures.max(1) as f64)
        ));
    }
    if let Some(approximation) = &found.approximation
        && approximation.distinct_error > 0.0
    {
        all.push(format!(
            "Numbers of URIs, hosts and domains are estimates with a standard error of {:.1}%; distributions, years and lists are estimated from a sample of {}.",
            approximation.distinct_error * 100.0,
            counted(approximation.sampled_urirs, "URI")
        ));
    }
    if !found.defects.is_empty() {
        all.push(format!(
            "{} worth a look.",
            match found.defects.len() {
                1 => "One thing is".to_owned(),
                n => format!("{n} things are"),
            }
        ));
    }
    all
}
