//! URIs of hundreds of thousands of pieces of every odd kind. Each is handled in time linear in its length: a
//! quadratic step anywhere would take minutes here.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use waypost_surt::{Canonicalizer, Dialect, Key, Policy, Surt};

const PIECES: usize = 200_000;

fn monsters() -> Vec<String> {
    let many = |piece: &str| piece.repeat(PIECES);
    let parameters: String = (0..PIECES).map(|n| format!("p{}=1&", n % 1000)).collect();
    vec![
        format!("http://example.com{}", many("/a")),
        format!("http://{}com/", many("a.")),
        format!("http://{}com/", many("www.")),
        format!("http://{}/", many("a:")),
        format!("http://{}/", many(":")),
        format!("http://{}a.com/", many("@")),
        format!("http://{}a.com/", many("[")),
        format!("http://{}/", many(".")),
        format!("http://{}/", many("9")),
        format!("http://{}/", many("1.")),
        format!("http://{}.com/", many("é")),
        format!("http://{}com/", many("é.")),
        format!("http://example.com/?{parameters}"),
        format!("http://example.com/?{}", many("&")),
        format!("http://example.com/?{}", many("?")),
        format!("http://example.com/{}", many("%41")),
        format!("http://example.com/{}", many("%C3%A9")),
        format!("http://example.com/%{}", many("25")),
        format!("http://example.com/{}{}", many("a/"), many("../")),
        format!("http://example.com/{}", many("../")),
        format!("http://example.com/{}", many("//")),
        format!(
            "http://example.com/{}x.aspx",
            many("(0123456789abcdefghijklmn)/")
        ),
        format!(
            "http://example.com/{}.aspx",
            many("(0123456789abcdefghijklmn)/")
        ),
        format!(
            "http://example.com/({})/x.aspx",
            many("a(0123456789abcdefghijklmn)")
        ),
        format!("http://example.com/{}", many(".aspx(")),
        format!("http://example.com/?{}", many("sid=")),
        format!(
            "http://example.com/?{}",
            many("sid=0123456789abcdef0123456789abcdef&")
        ),
        format!("http://example.com/?{}", many("cfid=")),
        format!("http://example.com/?{}", many("cfid=1&cftoken=")),
        format!("http://example.com/?{}", many("aspsessionidabcdefgh=")),
        format!("http://example.com/{}", many(",:)*")),
        many("http://"),
        format!("{}example.com/", many("http://")),
        format!("{}:x", many("a")),
        many("\t"),
        format!("http://a/{}", many("\u{2028}")),
    ]
}

#[test]
fn monsters_are_canonicalised_and_compared() {
    for dialect in Dialect::ALL {
        let mut canonicalizer = Canonicalizer::new(dialect);
        for uri in monsters() {
            let mut surt = Vec::new();
            if canonicalizer
                .canonicalize(uri.as_bytes(), &mut surt)
                .is_ok()
            {
                assert!(canonicalizer.matches(uri.as_bytes(), &surt));
            }
        }
    }
}

#[test]
fn monsters_are_taken_apart_cut_and_covered() {
    let mut canonicalizer = Canonicalizer::new(Dialect::Ia);
    for uri in monsters() {
        let mut surt = Vec::new();
        if canonicalizer
            .canonicalize(uri.as_bytes(), &mut surt)
            .is_err()
        {
            continue;
        }
        let parts = Surt::new(&surt);
        let mut key = Vec::new();
        for policy in Policy::ALL {
            key.clear();
            policy.cut(&parts, &mut key);
        }
        assert!(parts.prefixes().count() <= surt.len() + 1);
        let candidates = parts.candidates();
        let found: Vec<Key<'_>> = candidates.step_by(1000).collect();
        assert!(found[0].covers(&parts));
        parts.to_uri();
        assert!(parts.cmp_by_segment(&parts).is_eq());
    }
}
