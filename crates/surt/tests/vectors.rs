//! Recorded answers of the implementations that wrote the world's indexes.
//! Runs where `WAYPOST_SHARED` names the folder that holds them.

use std::path::PathBuf;

use waypost_surt::{Canonicalizer, Dialect, Error};

fn shared(path: &str) -> Option<String> {
    let Some(folder) = std::env::var_os("WAYPOST_SHARED") else {
        eprintln!("skipped: WAYPOST_SHARED is not set");
        return None;
    };
    let path = PathBuf::from(folder).join(path);
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

#[test]
fn surts_equal_those_of_python_surt() {
    let Some(table) = shared("vectors/surt/python_surt.tsv") else {
        return;
    };
    let differences = differences(Dialect::Ia, &table);
    // Python gives the empty string the key `-`; we call it an error.
    assert_eq!(differences, ["\n  expected -\n  got      Err(Empty)"]);
    let _ = Error::Empty;
}
