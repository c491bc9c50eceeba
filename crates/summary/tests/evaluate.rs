//! The numbers of an evaluation equal those of a naive computation.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use proptest::prelude::*;
use waypost_io::Source;
use waypost_summary::evaluate::{Confusion, Lookups, judge};
use waypost_summary::holdings::{Holdings, Input};
use waypost_summary::profile::{self, Options, Profile};
use waypost_summary::{Archive, Presence, Summary};
use waypost_surt::{Canonicalizer, Dialect, Policy, Surt};

fn surt(uri: &str) -> Option<String> {
    let mut surt = Vec::new();
    Canonicalizer::new(Dialect::Ia)
        .canonicalize(uri.as_bytes(), &mut surt)
        .ok()?;
    Some(String::from_utf8(surt).unwrap())
}

fn uris() -> impl Strategy<Value = Vec<String>> {
    let uri = "http://(www\\.)?[ab]{1,2}(-x)?\\.(com|co\\.uk)(:99999)?/([ab]-?/?){0,3}(\\?[ab])?";
    prop::collection::vec(uri, 1..50)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn confusion_equals_a_naive_count(held in uris(), asked in uris(), weighted: bool, from_profile: bool) {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, lines: &[String]| {
            let path = folder.path().join(name);
            fs::write(&path, lines.join("\n")).unwrap();
            Source::new(path)
        };
        // Some of the lookups are held.
        let asked: Vec<String> = asked.iter().chain(held.iter().step_by(2)).cloned().collect();
        let input = Input::new(vec![write("held.txt", &held)]);
        let options = Options {
            policies: Policy::ALL.to_vec(),
            archive: Archive::default(),
            date: None,
            folder: Some(folder.path().to_owned()),
            name: "a".into(),
            gzip: false,
        };
        profile::build(&input, &options, None).unwrap();
        let lookups = [Lookups::read(&write("asked.txt", &asked), Dialect::Ia).unwrap()];
        let truth = if from_profile {
            Input::new(vec![Source::new(folder.path().join("a.URIR.cdxj"))])
        } else {
            input
        };
        let (is_held, reading) = Holdings::new(truth).truth(&lookups).unwrap();
        let surts: BTreeSet<String> = held.iter().filter_map(|uri| surt(uri)).collect();
        prop_assert_eq!(reading.urirs, surts.len() as u64);
        let mut times: BTreeMap<&str, u64> = BTreeMap::new();
        for uri in &asked {
            *times.entry(uri).or_default() += 1;
        }
        for policy in Policy::ALL {
            let summary = Profile::open(&folder.path().join(format!("a.{policy}.cdxj"))).unwrap();
            let cut = |surt: &str| {
                let mut key = Vec::new();
                policy.cut(&Surt::new(surt.as_bytes()), &mut key);
                key
            };
            let mut keys: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
            for uri in held.iter().filter_map(|uri| surt(uri)) {
                *keys.entry(cut(&uri)).or_default() += 1;
            }
            let (mut expected, mut frequent, mut rejected) = (Confusion::default(), Confusion::default(), 0);
            for (uri, times) in &times {
                let times = if weighted { *times } else { 1 };
                match surt(uri) {
                    None => rejected += times,
                    Some(surt) => {
                        let found = keys.get(&cut(&surt));
                        let presence = |present| if present { Presence::Present } else { Presence::Absent };
                        expected.count(surts.contains(&surt), presence(found.is_some()), times);
                        frequent.count(surts.contains(&surt), presence(found.is_some_and(|n| *n >= 2)), times);
                    }
                }
            }
            let verdict = judge(&summary, &lookups[0], &is_held[0], weighted, &[1, 2]).unwrap();
            prop_assert_eq!(verdict.confusion, expected, "{}", policy);
            prop_assert_eq!(verdict.by_frequency, vec![(1, expected), (2, frequent)]);
            prop_assert_eq!(verdict.rejected, rejected);
            prop_assert_eq!(verdict.confusion.false_negatives, 0);
            prop_assert_eq!(summary.size().keys, keys.len() as u64);
        }
    }
}
