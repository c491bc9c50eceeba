//! What holds for any bytes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::num::NonZeroU32;

use proptest::prelude::*;
use waypost_surt::{Canonicalizer, Dialect, Key, Kind, Limit, Policy, Reach, Surt};

/// Any bytes, and bytes that look like URIs.
fn uri() -> impl Strategy<Value = Vec<u8>> {
    let text = "((https?|ftp|HTTP|urn|mailto|dns):(//)?)?([a-zA-Z0-9.%:@\\[\\]éß-]{0,20})(:[0-9]{0,5})?\
                (/[a-zA-Z0-9.%,;()*/?&= -]{0,20}){0,3}(\\?[a-z0-9%&=]{0,20})?(#.{0,5})?";
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..60),
        text.prop_map(String::into_bytes),
    ]
}

/// URIs of the kind that most lines of an index have, and some that nearly are.
fn plain_uri() -> impl Strategy<Value = String> {
    "https?://(www[0-9]?\\.){0,2}[a-cA1-]{1,3}(\\.[a-c1]{0,2}){0,2}(/[aB.;(]{0,2}){0,3}\
     (\\?[aBid&=?]{0,3}((sid|phpSESSid|cfid)=([a-f]{32}|1)(&cftoken=1)?)?)?"
}

/// Any bytes, and bytes that look like SURTs.
fn surt() -> impl Strategy<Value = Vec<u8>> {
    let text = "[a-z0-9.-]{0,4}(,[a-z0-9*-]{0,4}){0,4}(:[0-9]{1,4})?\\)?(/[a-z0-9,:*)-]{0,3}){0,4}(\\?[a-z&=/]{0,5})?";
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        text.prop_map(String::into_bytes),
        uri().prop_filter_map("has no SURT", |uri| canonical(Dialect::Ia, &uri)),
    ]
}

fn dialect() -> impl Strategy<Value = Dialect> {
    proptest::sample::select(&Dialect::ALL[..])
}

fn prefix_policy() -> impl Strategy<Value = Policy> {
    let hosts = (1..6_u32).prop_map(|most| Limit::Most(NonZeroU32::new(most).unwrap()));
    let hosts = prop_oneof![hosts, Just(Limit::All)];
    let paths = prop_oneof![(0..6_u32).prop_map(Limit::Most), Just(Limit::All)];
    (hosts, paths).prop_map(|(hosts, paths)| Policy::Prefix { hosts, paths })
}

fn canonical(dialect: Dialect, uri: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    Canonicalizer::new(dialect)
        .canonicalize(uri, &mut out)
        .ok()?;
    Some(out)
}

fn cut(policy: Policy, surt: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    policy.cut(&Surt::new(surt), &mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn canonicalising_is_total_and_forgets_what_came_before(
        dialect in dialect(), first in uri(), second in uri()
    ) {
        let mut reused = Canonicalizer::new(dialect);
        let mut out = b"kept".to_vec();
        let _ = reused.canonicalize(&first, &mut out);
        out.truncate(4);
        match reused.canonicalize(&second, &mut out) {
            Ok(()) => prop_assert_eq!(Some(out[4..].to_vec()), canonical(dialect, &second)),
            Err(_) => {
                prop_assert_eq!(out, b"kept");
                prop_assert_eq!(canonical(dialect, &second), None);
            }
        }
    }

    #[test]
    fn matching_equals_canonicalising_and_comparing(
        uri in prop_oneof![uri(), plain_uri().prop_map(String::into_bytes)],
        other in plain_uri(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        for dialect in Dialect::ALL {
            let mut canonicalizer = Canonicalizer::new(dialect);
            let Some(surt) = canonical(dialect, &uri) else {
                prop_assert!(!canonicalizer.matches(&uri, &uri));
                continue;
            };
            prop_assert!(canonicalizer.matches(&uri, &surt), "{dialect}");
            let other = canonical(dialect, other.as_bytes()).unwrap_or_default();
            prop_assert_eq!(canonicalizer.matches(&uri, &other), surt == other, "{}", dialect);
            for (from, to) in [(0, 1), (1, 0), (1, 1)] {
                let mut changed = surt.clone();
                if let Some(place) = (!surt.is_empty()).then(|| at.index(surt.len())) {
                    changed.splice(place..place + from, [byte].into_iter().take(to));
                }
                prop_assert_eq!(canonicalizer.matches(&uri, &changed), surt == changed, "{}", dialect);
            }
        }
    }

    #[test]
    fn matching_does_not_depend_on_the_uris_before(
        dialect in dialect(),
        pairs in prop::collection::vec(
            (
                "https?://(www\\.)?(a|ab|a.b|A)\\.com(/[a-cB]{0,20}[.;(%#:]?){0,3}/{0,2}(\\?([a-c=]|id|sid=|&|nid){0,30})?",
                any::<prop::sample::Index>(),
                prop::sample::select(&b"abA/.?&)c"[..]),
                any::<bool>(),
            ),
            1..12,
        ),
    ) {
        let mut reused = Canonicalizer::new(dialect);
        for (uri, at, byte, changed) in pairs {
            let Some(surt) = canonical(dialect, uri.as_bytes()) else {
                continue;
            };
            let mut other = surt.clone();
            if changed {
                other[at.index(surt.len())] = byte;
            }
            prop_assert_eq!(reused.matches(uri.as_bytes(), &other), surt == other, "{} {}", dialect, uri);
        }
    }

    #[test]
    fn surts_of_the_web_are_printable_lower_case_ascii(uri in uri()) {
        let uri = [&b"http://a"[..], &uri].concat();
        if let Some(surt) = canonical(Dialect::Ia, &uri) {
            prop_assert!(surt.iter().all(|b| b.is_ascii_graphic() && !b.is_ascii_uppercase()));
        }
    }

    #[test]
    fn the_parts_of_a_surt_are_the_whole(surt in surt()) {
        let parts = Surt::new(&surt);
        let mut whole = Vec::new();
        if parts.kind() == Kind::Bare {
            let scheme = parts.without_query().len() - parts.path().len();
            whole.extend_from_slice(&surt[..scheme]);
        } else {
            whole.extend(parts.labels().collect::<Vec<_>>().join(&b","[..]));
            if let Some(port) = parts.port() {
                whole.push(b':');
                whole.extend_from_slice(port);
            }
            whole.push(b')');
        }
        whole.extend_from_slice(parts.path());
        if let Some(query) = parts.query() {
            whole.push(b'?');
            whole.extend_from_slice(query);
        }
        prop_assert_eq!(whole, surt);
    }

    #[test]
    fn prefixes_grow_to_the_whole(surt in surt()) {
        let parts = Surt::new(&surt);
        let mut last: &[u8] = b"";
        for prefix in parts.prefixes() {
            prop_assert!(prefix.len() > last.len() && prefix.starts_with(last));
            last = prefix;
        }
        let trimmed = |s: &[u8]| s.iter().rposition(|&b| b != b'/').map_or(0, |at| at + 1);
        prop_assert_eq!(&surt[..trimmed(&surt)], &last[..trimmed(last)]);
    }

    #[test]
    fn prefix_keys_are_prefixes_of_host_and_path(surt in surt(), policy in prefix_policy()) {
        let key = cut(policy, &surt);
        let parts = Surt::new(&surt);
        let stem = key.strip_suffix(b"/").unwrap_or(&key);
        let stem = if parts.authority().len() < stem.len() { stem } else {
            stem.strip_suffix(b")").unwrap_or(stem)
        };
        prop_assert!(parts.without_query().starts_with(stem),
            "{:?}", String::from_utf8_lossy(&key));
    }

    #[test]
    fn coarser_policies_cut_the_same_key_from_a_finer_key(
        surt in surt(), coarse in prefix_policy(), fine in prefix_policy()
    ) {
        for (coarse, fine) in [(coarse, fine), (coarse, Policy::Whole)] {
            if coarse.is_coarser_or_equal(fine) {
                let finer = cut(fine, &surt);
                prop_assert_eq!(cut(coarse, &finer), cut(coarse, &surt),
                    "{} of {} {:?}", coarse, fine, String::from_utf8_lossy(&finer));
            }
        }
    }

    #[test]
    fn finer_keys_of_the_registered_domain_start_with_coarser_ones(surt in surt()) {
        let keys: Vec<Vec<u8>> = ["DDom", "DSub", "DPth", "DQry", "DIni"]
            .iter()
            .map(|name| cut(name.parse().unwrap(), &surt))
            .collect();
        prop_assert!(keys.is_sorted_by(|coarse, fine| fine.starts_with(coarse)));
    }

    #[test]
    fn every_candidate_covers_the_lookup_and_the_last_covers_all(surt in surt()) {
        let parts = Surt::new(&surt);
        let candidates: Vec<Key<'_>> = parts.candidates().collect();
        prop_assert_eq!(candidates.last().unwrap().reach(), Reach::All);
        for key in &candidates {
            prop_assert!(key.covers(&parts), "{:?}", key);
            // Written and read again it still does, though a path that ends in a star is then taken
            // for a wildcard. Without a host, such a text is not a map key.
            if parts.kind() != Kind::Bare {
                let mut text = Vec::new();
                key.write(&mut text);
                let read = Key::new(&text);
                // `a:b,*` may also be a URI behind the scheme `a:`, and is read as that. Maps are
                // searched for both readings.
                let ambiguous = key.reach() == Reach::Hosts
                    && read.reach() == Reach::Exact
                    && key.stem().contains(&b':');
                prop_assert!(ambiguous || read.covers(&parts), "{:?} read again", key);
            }
        }
    }

    #[test]
    fn a_key_covers_just_what_has_it_among_its_candidates(surt in surt(), other in surt(), at in any::<prop::sample::Index>()) {
        let other = Surt::new(&other);
        let candidates: Vec<Key<'_>> = other.candidates().collect();
        let key = candidates[at.index(candidates.len())];
        let parts = Surt::new(&surt);
        prop_assert_eq!(key.covers(&parts), parts.candidates().any(|candidate| candidate == key), "{:?}", key);
    }

    #[test]
    fn by_segment_is_an_order_that_keeps_subtrees_together(
        mut surts in proptest::collection::vec(surt(), 1..12)
    ) {
        surts.sort_by(|a, b| Surt::new(a).cmp_by_segment(&Surt::new(b)));
        surts.dedup();
        for pair in surts.windows(2) {
            prop_assert!(Surt::new(&pair[0]).cmp_by_segment(&Surt::new(&pair[1])).is_lt());
        }
        // Whatever key covers two of them covers all between.
        for (i, first) in surts.iter().enumerate() {
            for key in Surt::new(first).candidates().filter(|key| key.reach() != Reach::Exact) {
                let covered: Vec<bool> =
                    surts[i..].iter().map(|surt| key.covers(&Surt::new(surt))).collect();
                prop_assert!(covered.is_sorted_by(|a, b| a >= b), "{:?} over {:?}", key,
                    surts[i..].iter().map(|s| String::from_utf8_lossy(s)).collect::<Vec<_>>());
            }
        }
    }
}
