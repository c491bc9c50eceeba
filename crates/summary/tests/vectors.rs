//! Positions recorded from the original code of Orestes. Runs where `WAYPOST_SHARED` names their
//! folder.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;

use waypost_summary::filter::orestes::Method;

#[path = "../../../tests/oracles.rs"]
mod oracles;

#[test]
fn positions_are_those_of_orestes() {
    let Some(shared) = oracles::shared() else {
        return;
    };
    let text = fs::read_to_string(shared.join("vectors/orestes.txt")).unwrap();
    let mut checked = 0;
    for line in text.lines().filter(|line| line.starts_with('\'')) {
        // 'url' mm3_0=1 KM: 1 2 3 4 5 | Murmur3: … | MD5: …
        let (url, rest) = line[1..].split_once("' mm3_0=").unwrap();
        let (_, recorded) = rest.split_once(' ').unwrap();
        for (method, part) in Method::ALL.into_iter().zip(recorded.split(" | ")) {
            let (_, numbers) = part.split_once(": ").unwrap();
            let expected: Vec<u64> = numbers
                .split(' ')
                .map(|number| number.parse().unwrap())
                .collect();
            let mut positions = Vec::new();
            method.positions(url.as_bytes(), 1_969_700_000, 5, &mut positions);
            assert_eq!(positions, expected, "{method} {url}");
            checked += 1;
        }
    }
    assert_eq!(checked, 15);
}
