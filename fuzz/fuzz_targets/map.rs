//! Any bytes are a map or an error with a place; what a map calls present stays present when it is
//! compacted by either rule, and when it is merged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waypost_io::{Resources, Source};
use waypost_summary::map::{self, Budget, LeastCost, Map, Papers, Rule, SourceMap, Style};
use waypost_surt::Surt;

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.ukvs");
    std::fs::write(&path, bytes).expect("a file");
    let Ok(before) = Map::open(&path, &resources()) else {
        return;
    };
    let surts: Vec<Surt<'_>> = bytes
        .split(|&byte| byte == b'\n')
        .map(|line| Surt::new(line.split(|&byte| byte == b' ').next().unwrap_or_default()))
        .filter(|surt| {
            before
                .find(surt, None)
                .is_some_and(|found| !found.frequency.is_void())
        })
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

/// A small map needs little.
fn resources() -> Resources {
    Resources {
        memory: 1 << 20,
        ..Resources::default()
    }
}

/// All of these are present still.
fn check(path: &std::path::Path, surts: &[Surt<'_>]) {
    let after = Map::open(path, &resources()).expect("what we write we read");
    for surt in surts {
        let found = after.find(surt, None);
        assert!(
            found.is_some_and(|found| !found.frequency.is_void()),
            "{surt:?} is lost"
        );
    }
}
