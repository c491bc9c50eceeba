//! Lists of takedowns: whatever is on them, and what their lines mean in every dialect.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use proptest::prelude::*;
use waypost_index::Takedowns;
use waypost_surt::{Canonicalizer, Dialect};

fn read(list: impl AsRef<[u8]>) -> waypost_io::Result<Takedowns> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), list).unwrap();
    Takedowns::read(file.path())
}

fn surt(uri: &str, dialect: Dialect) -> Vec<u8> {
    let mut surt = Vec::new();
    let uri = dialect.complete(uri.as_bytes());
    Canonicalizer::new(dialect)
        .canonicalize(&uri, &mut surt)
        .unwrap();
    surt
}

proptest! {
    // Every case writes files.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_bytes_are_a_list_or_an_error_with_its_line(
        lines in prop::collection::vec(prop_oneof![
            "(page |host |domain |x )?(https?://)?\\(?[a-c.,:@]{0,6}\\)?[/a-c?#*,) ]{0,6}".prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 0..12),
        ], 0..4),
        key in "[a-c,:.]{0,5}\\)?[/a-c?*,]{0,5}",
    ) {
        match read(lines.join(&b'\n')) {
            Ok(list) => for dialect in Dialect::ALL {
                list.cover(key.as_bytes(), dialect);
                list.cover_key(key.as_bytes(), dialect);
                prop_assert!(list.unused().count() <= lines.iter().map(|line| 1 + line.len()).sum());
            },
            Err(error) => prop_assert!(
                error.place().line.is_some() || lines.concat().contains(&0) || error.is_damage() ||
                lines.concat().starts_with(b"\xff") || lines.concat().starts_with(b"\xfe") ||
                lines.concat().starts_with(b"\x1f") || lines.concat().starts_with(b"BZ") || lines.concat().starts_with(b"("),
                "{error}"
            ),
        }
    }

    #[test]
    fn a_line_means_the_same_for_uris_and_surts_in_every_dialect(
        host in "(www\\.)?[a-c]{1,3}\\.(org|co\\.uk)",
        path in "(/[a-c]{1,2}){1,3}",
        query in "(\\?[a-c]=[0-9])?",
        scheme in "https?",
    ) {
        let uri = format!("{scheme}://{host}{path}{query}");
        let elsewhere = [
            format!("http://{host}/"),
            format!("http://{host}{path}x"),
            format!("http://{host}:8080{path}"),
            format!("http://sub.{host}{path}"),
            format!("http://other.example{path}{query}"),
        ];
        // How much of what is elsewhere each line takes down.
        for (word, others) in [("", 0), ("page ", 0), ("host ", 3), ("domain ", 4)] {
            for dialect in Dialect::ALL {
                let spelled = String::from_utf8(surt(&uri, dialect)).unwrap();
                for text in [&uri, &spelled] {
                    let list = read(format!("{word}{text}\n")).unwrap();
                    prop_assert!(list.cover(spelled.as_bytes(), dialect), "{word}{text}");
                    for (at, other) in elsewhere.iter().enumerate() {
                        // The `www` of `sub.www.a.org` stays.
                        if at == 3 && host.starts_with("www.") {
                            continue;
                        }
                        let found = list.cover(&surt(other, dialect), dialect);
                        prop_assert_eq!(found, at < others, "{}{}: {}", word, text, other);
                    }
                }
            }
        }
    }
}
