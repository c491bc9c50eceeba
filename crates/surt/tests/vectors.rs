//! Recorded answers of the implementations that wrote the world's indexes.
//! Runs where `WAYPOST_SHARED` names the folder that holds them.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test may panic and say that it is skipped"
)]

use waypost_surt::{Canonicalizer, Dialect};

#[path = "../../../tests/oracles.rs"]
mod oracles;

fn shared(path: &str) -> Option<String> {
    let folder = oracles::shared()?;
    let path = folder.join(path);
    Some(std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
}

fn unescape(cell: &str) -> Vec<u8> {
    let mut out = String::new();
    let mut chars = cell.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('\\') => out.push('\\'),
            Some('u') => {
                let hex: String = chars.by_ref().skip(1).take_while(|&c| c != '}').collect();
                out.push(char::from_u32(u32::from_str_radix(&hex, 16).unwrap()).unwrap());
            }
            other => panic!("unknown escape {other:?} in {cell:?}"),
        }
    }
    out.into_bytes()
}

/// The rows that do not match, as text.
fn differences(dialect: Dialect, table: &str) -> Vec<String> {
    let mut canonicalizer = Canonicalizer::new(dialect);
    let mut differences = Vec::new();
    for row in table.lines() {
        let (input, expected) = row.split_once('\t').unwrap();
        let mut surt = Vec::new();
        let got = canonicalizer.canonicalize(&unescape(input), &mut surt);
        let same = match got {
            Ok(()) => !expected.starts_with("!ERROR") && surt == unescape(expected),
            Err(_) => expected.starts_with("!ERROR"),
        };
        if !same {
            let got = got.map(|()| String::from_utf8_lossy(&surt).into_owned());
            differences.push(format!(
                "{input}\n  expected {expected}\n  got      {got:?}"
            ));
        }
    }
    differences
}

/// The rows in which each dialect differs on purpose; docs/surt.md names them.
fn is_documented(row: &str) -> bool {
    // The libraries give the empty string the key `-`; we call it an error.
    row.starts_with('\n')
        // Java reads a port in the digits of any script.
        || row.contains(":\u{668}\u{660}")
}

#[test]
fn surts_equal_those_of_python_surt() {
    let Some(table) = shared("vectors/surt/python_surt.tsv") else {
        return;
    };
    let differences = differences(Dialect::Ia, &table);
    assert_eq!(differences, ["\n  expected -\n  got      Err(Empty)"]);
}

#[test]
fn surts_equal_those_of_webarchive_commons() {
    for (dialect, table, documented) in [
        (Dialect::CommonCrawl, "webarchive_commons_java.tsv", 18),
        (
            Dialect::CommonCrawlLegacy,
            "webarchive_commons_java_1.1.9_legacy.tsv",
            13,
        ),
    ] {
        let Some(table) = shared(&format!("vectors/surt/{table}")) else {
            return;
        };
        let (known, unknown): (Vec<_>, Vec<_>) = differences(dialect, &table)
            .into_iter()
            .partition(|row| is_documented(row));
        assert!(unknown.is_empty(), "{dialect}:\n{}", unknown.join("\n"));
        assert_eq!(known.len(), documented, "{dialect}");
    }
}
