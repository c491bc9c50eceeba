//! What `waypost map compact` reports.

use serde_json::{Value, json};
use waypost_report::{Align, Table, bytes, count};
use waypost_summary::map::{Built, Report};

use crate::printer::Printer;

/// Reports the result in sentences.
pub(super) fn tell(report: &Report, verbose: bool, out: &Printer) {
    out.note(format_args!("{}{}", sizes(report), sent_on(report)));
    if verbose {
        out.note(details(report).to_string().trim_end());
    }
}

/// The same for a map with filters.
pub(super) fn report_filtered(built: &Built, allowed: Option<u64>, verbose: bool, out: &Printer) {
    let report = &built.report;
    out.note(format_args!("{}{}", sizes(report), sent_on(report)));
    out.note(format_args!(
        "{} gzipped with the filter: {} of keys, {} of filter with {} URI-Rs",
        bytes(built.row_bytes + built.filter_bytes),
        bytes(built.row_bytes),
        bytes(built.filter_bytes),
        count(built.filter_keys)
    ));
    if let Some(accuracy) = built.accuracy {
        out.note(format_args!(
            "about {:.2}% of lookups like those given would be answered correctly",
            100.0 * accuracy
        ));
    }
    if let Some(missed) = built.missed {
        out.note(format_args!(
            "about {missed:.0} future URI-Rs of the archive would be called absent"
        ));
    }
    if verbose {
        let mut table = details(report);
        table.row(["keys with a filter", &count(report.written.filtered)]);
        let widths: Vec<String> = (1..=16)
            .filter(|&width| report.written.keys[width] > 0)
            .map(|width| format!("{width}: {}", count(report.written.keys[width])))
            .collect();
        if !widths.is_empty() {
            table.row(["URI-Rs by width", &widths.join(", ")]);
        }
        if let Some(allowed) = allowed {
            let shipped = built.row_bytes + built.filter_bytes;
            table.row(["unused of the budget", &unused(allowed, shipped, bytes)]);
        }
        out.note(table.to_string().trim_end());
    }
}

/// `43 keys instead of 478 (9.0% of 478 URI-Rs)`.
fn sizes(report: &Report) -> String {
    let keys = report.written.rows;
    let mut text = format!(
        "{} {} instead of {}",
        count(keys),
        if keys == 1 { "key" } else { "keys" },
        count(report.rows_in)
    );
    if report.urirs > 0 {
        let share = 100.0 * keys as f64 / report.urirs as f64;
        text += &format!(" ({share:.2}% of {} URI-Rs)", count(report.urirs));
    }
    if let Some(gzipped) = report.gzipped {
        text += &format!(", {} gzipped", bytes(gzipped));
    }
    text
}

/// `; of 1,000 lookups for pages that are not held, about 14 would be sent on`.
fn sent_on(report: &Report) -> String {
    match (report.false_positives, report.misses) {
        (Some(wrong), Some(misses)) if misses > 0.0 => format!(
            "; of 1,000 lookups for pages that are not held, about {:.0} would be sent on",
            (1000.0 * wrong / misses).clamp(0.0, 1000.0)
        ),
        _ => String::new(),
    }
}

fn unused(allowed: u64, used: u64, say: fn(u64) -> String) -> String {
    let unused = allowed.saturating_sub(used);
    let share = 100.0 * unused as f64 / allowed.max(1) as f64;
    format!("{} ({share:.1}%)", say(unused))
}

fn details(report: &Report) -> Table {
    let mut table = Table::new(&[("compacted", Align::Left), ("", Align::Right)]);
    table.row(["wildcards", &count(report.written.wildcards)]);
    table.row(["voids", &count(report.written.voids)]);
    table.row(["bytes", &bytes(report.bytes)]);
    if let Some(allowed) = report.allowed {
        let unused = match report.gzipped {
            Some(gzipped) => unused(allowed, gzipped, bytes),
            None => unused(allowed, report.written.rows, count),
        };
        table.row(["unused of the budget", &unused]);
    }
    if let Some(lambda) = report.lambda {
        table.row(["λ", &format!("{lambda:.4e}")]);
    }
    if let Some(false_positives) = report.false_positives {
        table.row(["false positives expected", &format!("{false_positives:.0}")]);
    }
    if let Some(papers) = report.papers {
        table.row([
            "the papers' rule at this size".to_owned(),
            format!(
                "{:.0} false positives, {} keys (--wh {} --wp {})",
                papers.false_positives,
                count(papers.rows),
                papers.host_weight,
                papers.path_weight
            ),
        ]);
    }
    if let Some(rolled) = report.rolled {
        table.row(["roll-ups", &count(rolled)]);
    }
    table
}

/// The report as JSON.
pub(super) fn object(report: &Report) -> Value {
    let papers = report.papers.map(|papers| {
        json!({
            "host_weight": papers.host_weight,
            "path_weight": papers.path_weight,
            "keys": papers.rows,
            "false_positives": papers.false_positives,
        })
    });
    json!({
        "keys_before": report.rows_in,
        "keys": report.written.rows,
        "wildcards": report.written.wildcards,
        "voids": report.written.voids,
        "urirs": report.urirs,
        "bytes": report.bytes,
        "gzip_bytes": report.gzipped,
        "allowed": report.allowed,
        "lambda": report.lambda,
        "false_positives": report.false_positives,
        "misses": report.misses,
        "void_price": report.void_price,
        "rolled_up": report.rolled,
        "sorted": report.sorted,
        "papers": papers,
    })
}

/// The same for a map with filters.
pub(super) fn object_filtered(built: &Built) -> Value {
    let mut object = object(&built.report);
    let widths: serde_json::Map<String, Value> = (1..=16)
        .filter(|&width| built.report.written.keys[width] > 0)
        .map(|width| (width.to_string(), built.report.written.keys[width].into()))
        .collect();
    object["gzip_bytes"] = json!(built.row_bytes + built.filter_bytes);
    object["row_bytes"] = json!(built.row_bytes);
    object["filter_bytes"] = json!(built.filter_bytes);
    object["filter"] = json!(built.filter.as_ref().map(|path| path.to_string_lossy()));
    object["filter_urirs"] = json!(built.filter_keys);
    object["urirs_by_width"] = widths.into();
    object["accuracy"] = json!(built.accuracy);
    object["missed"] = json!(built.missed);
    object
}
