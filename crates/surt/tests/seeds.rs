//! The papers' authors' own SURTs and keys for real seeds.
//! Runs where `WAYPOST_SHARED` names the folder that holds them.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test may panic and say that it is skipped"
)]

use std::collections::BTreeSet;

use waypost_surt::{Canonicalizer, Dialect, Policy, Surt};

#[path = "../../../tests/oracles.rs"]
mod oracles;

/// The lines of one of their files, or `None` if it is missing.
fn seeds(name: &str) -> Option<Vec<String>> {
    let folder = oracles::shared()?;
    let path = folder.join(format!("vectors/seed-analyzer/COVID19-IIPC.{name}"));
    let text = std::fs::read_to_string(&path).unwrap();
    Some(text.lines().map(str::to_owned).collect())
}

fn surt_of(uri: &str) -> Vec<u8> {
    let mut surt = Vec::new();
    Canonicalizer::new(Dialect::Ia)
        .canonicalize(uri.as_bytes(), &mut surt)
        .unwrap();
    surt
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

fn assert_same(name: &str, ours: &BTreeSet<String>, theirs: &BTreeSet<String>) {
    let more: Vec<_> = ours.difference(theirs).collect();
    let less: Vec<_> = theirs.difference(ours).collect();
    assert!(
        more.is_empty() && less.is_empty(),
        "{name}: only ours {more:?}, only theirs {less:?}"
    );
}

#[test]
fn surts_of_the_seeds_equal_the_authors() {
    let (Some(uris), Some(expected)) = (seeds("SEED"), seeds("SURT")) else {
        return;
    };
    let ours: BTreeSet<String> = uris.iter().map(|uri| text(surt_of(uri))).collect();
    assert_eq!(ours.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn prefix_keys_of_the_seeds_equal_the_authors() {
    for name in ["H1P0", "H2P0", "H3P0", "HxP0", "HxP1", "HxPx"] {
        let (Some(uris), Some(theirs)) = (seeds("SEED"), seeds(name)) else {
            return;
        };
        let policy: Policy = name.parse().unwrap();
        let ours: BTreeSet<String> = uris
            .iter()
            .map(|uri| {
                let surt = surt_of(uri);
                let mut key = Vec::new();
                policy.cut(&Surt::new(&surt), &mut key);
                text(key)
            })
            // Nor the `)` at the end of a path.
            .map(|key| key.trim_end_matches(')').to_owned())
            // Their code has no keys for addresses and writes `-`.
            .map(|key| {
                if key.starts_with(|c: char| c.is_ascii_digit()) {
                    "-".to_owned()
                } else {
                    key
                }
            })
            .collect();
        let theirs: BTreeSet<String> = theirs
            .into_iter()
            // Their files lack the `)/` of a key without a path.
            .map(|key| {
                if key == "-" || key.contains(')') {
                    key
                } else {
                    key + ")/"
                }
            })
            .collect();
        assert_same(name, &ours, &theirs);
    }
}

/// The D-keys as their code counts: on the URI as given, so that `www` is a label and case stays,
/// and with the root as one segment.
fn key_as_published(uri: &str, fields: usize) -> String {
    let (_, rest) = uri.split_once("://").unwrap();
    let rest = rest.split('#').next().unwrap();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (host, path) = match rest.find('/') {
        Some(slash) => (&rest[..slash], &rest[slash..]),
        None => (rest, ""),
    };
    // The registered domain of the host as it is; a SURT is made of it only then, so that the domain
    // of english.www.gov.cn is gov.cn.
    let host = host.split(':').next().unwrap().to_lowercase();
    let reversed: Vec<&str> = host.rsplit('.').collect();
    let reversed = reversed.join(",") + ")/";
    let registered = text(Surt::new(reversed.as_bytes()).registered_domain().to_vec());
    let name: Vec<&str> = registered.rsplit(',').collect();
    let surt = surt_of(&format!("http://{}/", name.join(".")));
    let domain = text(Surt::new(&surt).host().to_vec());
    if domain.starts_with(|c: char| c.is_ascii_digit()) {
        return "-".to_owned();
    }
    let labels = host.split('.').count() - name.len();
    let segments = path.trim_matches('/');
    let path_count = if path.is_empty() {
        0
    } else {
        segments.matches('/').count() + 1
    };
    let query = query.trim_matches(['?', '&']);
    let query_count = if query.is_empty() {
        0
    } else {
        query.matches('&').count() + 1
    };
    let initial = segments
        .chars()
        .next()
        .filter(char::is_ascii_alphanumeric)
        .unwrap_or('-');
    let counts = [
        labels.to_string(),
        path_count.to_string(),
        query_count.to_string(),
        initial.to_string(),
    ];
    match fields {
        0 => domain,
        _ => format!("{domain})/{}", counts[..fields].join("/")),
    }
}

/// Suffixes that came to the list, or left it, since their keys were made.
fn has_new_suffix(key: &str) -> bool {
    ["cv,publ", "fr,medecin", "fr,pharmacien", "tn,rns"]
        .iter()
        .any(|suffix| key.starts_with(suffix))
}

#[test]
fn domain_keys_of_the_seeds_equal_the_authors_when_counted_as_they_did() {
    for (fields, name) in ["DDom", "DSub", "DPth", "DQry", "DIni"]
        .into_iter()
        .enumerate()
    {
        let (Some(uris), Some(theirs)) = (seeds("SEED"), seeds(name)) else {
            return;
        };
        let ours: BTreeSet<String> = uris
            .iter()
            .map(|uri| key_as_published(uri, fields))
            .filter(|key| !has_new_suffix(key))
            .collect();
        let theirs: BTreeSet<String> = theirs
            .into_iter()
            .filter(|key| !has_new_suffix(key))
            .collect();
        assert_same(name, &ours, &theirs);
    }
}
