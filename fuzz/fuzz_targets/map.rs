//! Any bytes are a map or an error with a place; what a map calls present stays present when it is
//! compacted by either rule, and when it is merged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waypost_io::{Resources, Source};
use waypost_summary::map::{self, Budget, LeastCost, Map, Papers, Rule, SourceMap, Style};
use waypost_summary::{Answer, Lookup, Summary};

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.ukvs");
    std::fs::write(&path, bytes).expect("a file");
    let Ok(before) = Map::open(&path, &resources()) else {
        return;
    };
    let surts: Vec<&[u8]> = bytes
        .split(|&byte| byte == b'\n')
        .map(|line| line.split(|&byte| byte == b' ').next().unwrap_or_default())
        .filter(|surt| is_present(&before, surt))
        .collect();
    let papers = Papers {
        host_weight: 0.0,
        path_weight: 0.0,
        ..Papers::default()
    };
    let least = LeastCost {
        budget: Budget::Keys(3),
        sample: None,
        voids: false,
        prior: None,
        top: None,
    };
    let out = folder.path().join("b.ukvs");
    for rule in [Rule::Papers(papers), Rule::LeastCost(Box::new(least))] {
        let Ok(mut given) = SourceMap::open(&Source::new(path.clone()), &resources()) else {
            continue;
        };
        if map::compact(&mut given, &rule, Style::Published, &out, false).is_err() {
            continue;
        }
        check(&out, &surts);
    }
    if map::merge(
        &[path.clone(), path],
        map::Filters::Refuse,
        &resources(),
        &out,
    )
    .is_ok()
    {
        check(&out, &surts);
    }
});

/// Little memory is enough for a small map.
fn resources() -> Resources {
    Resources {
        memory: 1 << 20,
        ..Resources::default()
    }
}

/// Checks that all of these are still present.
fn check(path: &std::path::Path, surts: &[&[u8]]) {
    let after = Map::open(path, &resources()).expect("what we write we read");
    for surt in surts {
        assert!(is_present(&after, surt), "{surt:?} is lost");
    }
}

fn is_present(map: &Map, surt: &[u8]) -> bool {
    let mut buffer = Vec::new();
    let answer = map.lookup(&Lookup::of_surt(surt, &mut buffer));
    matches!(answer.expect("the file is intact"), Answer::Present(_))
}
