//! Merging any TimeMaps equals sorting their union.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;

use proptest::prelude::*;
use waypost_memento::{Datetime, Memento};
use waypost_router::merge;

fn memento(year: u16, uri: u16) -> Memento {
    let datetime = Datetime::parse_timestamp(&year.to_string()).unwrap();
    Memento::new(format!("http://m.example/{uri}"), datetime)
}

proptest! {
    #[test]
    fn merging_equals_sorting_the_union(
        lists in prop::collection::vec(prop::collection::vec((1990_u16..1996, 0_u16..6), 0..40), 0..6)
    ) {
        let given: Vec<(usize, Vec<Memento>)> = lists
            .iter()
            .map(|list| list.iter().map(|&(year, uri)| memento(year, uri)).collect())
            .enumerate()
            // The order of arrival is not that of the registry.
            .rev()
            .collect();
        let merged = merge(given);
        // By datetime, then by archive; those of an archive in its order.
        let mut union: Vec<(u16, usize, usize, u16)> = Vec::new();
        for (archive, list) in lists.iter().enumerate() {
            for (place, &(year, uri)) in list.iter().enumerate() {
                union.push((year, archive, place, uri));
            }
        }
        union.sort_unstable();
        let mut seen = BTreeSet::new();
        union.retain(|&(year, _, _, uri)| seen.insert((year, uri)));
        let expected: Vec<(usize, Memento)> = union
            .into_iter()
            .map(|(year, archive, _, uri)| (archive, memento(year, uri)))
            .collect();
        let merged: Vec<(usize, Memento)> = merged
            .into_iter()
            .map(|found| (found.archive, found.memento))
            .collect();
        prop_assert_eq!(merged, expected);
    }
}

#[test]
fn two_hundred_thousand_mementos_are_merged_at_once() {
    // Descending, which takes MemGator quadratic time, and all at the same second.
    let many = |same: bool| -> Vec<(usize, Vec<Memento>)> {
        let base = Datetime::parse_timestamp("2000")
            .unwrap()
            .to_jiff()
            .as_second();
        let at = |second: i64| {
            let timestamp = jiff::Timestamp::from_second(base + second).unwrap();
            Datetime::new(timestamp).unwrap()
        };
        (0..4)
            .map(|archive| {
                let list = (0..50_000_i64).rev().map(|place| {
                    let second = if same { 0 } else { place };
                    Memento::new(format!("http://{archive}.example/{place}"), at(second))
                });
                (archive, list.collect())
            })
            .collect()
    };
    for same in [false, true] {
        assert_eq!(merge(many(same)).len(), 200_000);
    }
}
