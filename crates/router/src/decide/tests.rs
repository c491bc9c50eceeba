use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use proptest::prelude::*;
use tempfile::TempDir;
use waypost_io::{Resources, Source};
use waypost_memento::Memento;
use waypost_summary::filter::{self, Recipe};
use waypost_summary::holdings::Input;
use waypost_summary::{By, Preference, Presence, map, profile};

use super::*;
use crate::{Archive, Selection, Wanted};

struct World {
    folder: TempDir,
    registry: Registry,
    decider: Decider,
    warnings: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn new(ids: &[&str]) -> World {
        World::with(ids, RoutingConfig::default())
    }

    fn with(ids: &[&str], config: RoutingConfig) -> World {
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&warnings);
        World {
            folder: tempfile::tempdir().unwrap(),
            registry: Registry {
                archives: ids.iter().map(|id| Archive::new(*id)).collect(),
            },
            decider: Decider::without_memory(config, move |warning| {
                told.lock().unwrap().push(warning.to_owned());
            }),
            warnings,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Summarises URIs in some way and gives the summary to an archive.
    fn summarise(&mut self, archive: usize, kind: &str, uris: &[&str]) -> PathBuf {
        let name = self.registry.archives[archive].summaries.len();
        let path = build(self.folder.path(), &format!("{archive}-{name}"), kind, uris);
        self.registry.archives[archive].summaries.push(path.clone());
        path
    }

    fn refresh(&self) {
        self.decider.refresh(&self.registry, false);
    }

    fn decide(&self, uri: &str) -> Decision {
        self.decide_lookup(&Lookup::new(uri, Wanted::All))
    }

    fn decide_lookup(&self, lookup: &Lookup) -> Decision {
        let seats = self.decider.seats(&self.registry);
        self.decider.decide(&self.registry, &seats, lookup)
    }

    fn choice(&self, archive: usize, uri: &str) -> Choice {
        let decision = self.decide(uri);
        let mut choices = decision.choices.into_iter();
        choices.find(|choice| choice.archive == archive).unwrap()
    }

    fn warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock().unwrap())
    }

    /// Tells the decider that archives had these numbers of mementos.
    fn observe(&self, uri: &str, replies: &[(usize, usize)]) {
        let lookup = Lookup::new(uri, Wanted::All);
        let seats = self.decider.seats(&self.registry);
        let decision = self.decider.decide(&self.registry, &seats, &lookup);
        let outcomes: Vec<Outcome> = replies
            .iter()
            .map(|&(archive, count)| Outcome {
                archive,
                took: Duration::from_millis(100),
                reply: match count {
                    0 => Reply::Nothing(404),
                    count => Reply::Mementos(count),
                },
            })
            .collect();
        self.decider
            .observe(&self.registry, &seats, &decision, &lookup, &outcomes);
    }
}

/// Builds a summary of URIs: `map`, `compact`, `filter`, or a profile of some policy.
fn build(folder: &Path, name: &str, kind: &str, uris: &[&str]) -> PathBuf {
    let list = folder.join(format!("{name}.uris"));
    let text: String = uris.iter().flat_map(|uri| [uri, "\n"]).collect();
    fs::write(&list, text).unwrap();
    let source = Source::new(&list);
    match kind {
        "filter" => {
            let path = folder.join(format!("{name}.filter"));
            let sources = [source];
            filter::build(filter::Input::new(&sources), &Recipe::default(), &path).unwrap();
            path
        }
        "map" | "compact" => {
            let path = folder.join(format!("{name}.ukvs"));
            let input = Input::new(vec![source]);
            map::build(&input, &Default::default(), None, &path).unwrap();
            if kind == "map" {
                return path;
            }
            let small = folder.join(format!("{name}.small.ukvs"));
            let full = Source::new(&path);
            let mut given = map::SourceMap::open(&full, &Resources::default()).unwrap();
            let rule = map::Rule::Papers(map::Papers::default());
            map::compact(&mut given, &rule, map::Style::Published, &small, false).unwrap();
            small
        }
        policy => {
            let options = profile::Options {
                policies: vec![policy.parse().unwrap()],
                archive: Default::default(),
                date: None,
                folder: Some(folder.to_owned()),
                name: name.into(),
                gzip: false,
            };
            profile::build(&Input::new(vec![source]), &options, None).unwrap();
            folder.join(format!("{name}.{policy}.cdxj"))
        }
    }
}

#[test]
fn archives_that_a_client_selects_are_asked() {
    let world = World::new(&["a", "b", "c"]);
    let lookup = Lookup {
        archives: Selection::parse("!b").unwrap(),
        ..Lookup::new("http://a.example/", Wanted::All)
    };
    let decision = world.decide_lookup(&lookup);
    let choices = decision.choices.iter();
    let choices: Vec<_> = choices
        .map(|choice| (choice.archive, choice.asked))
        .collect();
    assert_eq!(choices, [(0, true), (2, true), (1, false)]);
    assert_eq!(decision.choices[2].reason, Reason::NotSelected);
}

#[test]
fn only_archives_that_may_hold_a_uri_are_asked() {
    let mut world = World::new(&["map", "filter", "profile", "nothing known"]);
    let held = ["http://a.example/x", "http://b.example/y"];
    world.summarise(0, "map", &held);
    world.summarise(1, "filter", &held);
    world.summarise(2, "H3P0", &held);
    world.refresh();
    assert_eq!(world.warnings(), Vec::<String>::new());
    for place in 0..3 {
        let choice = world.choice(place, "http://a.example/x");
        assert!(
            choice.asked && choice.reason == Reason::Present,
            "{choice:?}"
        );
        assert!(choice.key.is_some() && choice.summary.is_some());
        assert_eq!(choice.estimate, Some(1.0));
        let choice = world.choice(place, "http://c.example/");
        assert!(
            !choice.asked && choice.reason == Reason::Absent,
            "{choice:?}"
        );
    }
    let unknown = world.choice(3, "http://c.example/");
    assert!(unknown.asked && unknown.reason == Reason::Unknown);
    let none = world.choice(0, "http://a.example:99999/");
    assert!(none.asked, "what has no SURT is asked for");
}

const KINDS: [&str; 6] = ["map", "compact", "filter", "H3P0", "HxPx", "DDom"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// The property that matters: whatever summaries there are, every archive that holds a URI is
    /// asked for it.
    #[test]
    fn every_holder_is_asked(
        archives in prop::collection::vec(
            (
                prop::collection::btree_set("http://(www\\.)?[ab]\\.(com|pt|co\\.uk)(:8080)?/[xy%A-C]{0,2}(/z)?(\\?q=[1-2])?", 0..8),
                prop::collection::vec(prop::sample::select(&KINDS[..]), 0..3),
            ),
            1..4,
        ),
        others in prop::collection::vec("http://[abc]\\.(com|pt)/[xyz]{0,2}", 0..5),
    ) {
        let names: Vec<String> = (0..archives.len()).map(|n| n.to_string()).collect();
        let ids: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut world = World::new(&ids);
        for (place, (uris, kinds)) in archives.iter().enumerate() {
            let uris: Vec<&str> = uris.iter().map(String::as_str).collect();
            for kind in kinds {
                world.summarise(place, kind, &uris);
            }
        }
        world.refresh();
        // An empty list may be refused as a summary. The archive is asked then.
        let all: BTreeSet<&String> = archives.iter().flat_map(|(uris, _)| uris).chain(&others).collect();
        for uri in all {
            let decision = world.decide(uri);
            let asked: BTreeSet<usize> = decision.asked().map(|choice| choice.archive).collect();
            for (place, (uris, kinds)) in archives.iter().enumerate() {
                prop_assert!(!uris.contains(uri) || asked.contains(&place), "{} holds {} ({:?})", place, uri, kinds);
                prop_assert!(!kinds.is_empty() || asked.contains(&place), "unknown is asked");
            }
        }
    }
}

#[test]
fn another_file_in_the_place_of_a_summary_is_taken_and_garbage_is_not_trusted() {
    let mut world = World::new(&["a"]);
    let path = world.summarise(0, "map", &["http://a.example/"]);
    world.refresh();
    assert!(!world.choice(0, "http://b.example/").asked);
    // Replaced by another one.
    let other = build(world.folder.path(), "other", "map", &["http://b.example/"]);
    fs::rename(&other, &path).unwrap();
    assert!(
        !world.choice(0, "http://b.example/").asked,
        "the old content answers until the new one is read"
    );
    world.refresh();
    assert!(world.choice(0, "http://b.example/").asked);
    assert!(!world.choice(0, "http://a.example/").asked);
    assert_eq!(world.warnings(), Vec::<String>::new());
    // Replaced by garbage.
    for garbage in [
        &b"\x00\x01garbage\xff"[..],
        b"",
        b"com,a)/ x y z\n",
        b"WPFILTER\x01\n",
    ] {
        let temporary = world.path("garbage");
        fs::write(&temporary, garbage).unwrap();
        fs::rename(&temporary, &path).unwrap();
        world.refresh();
        let choice = world.choice(0, "http://a.example/");
        assert!(
            choice.asked && choice.reason == Reason::Damaged,
            "{choice:?}"
        );
        let warnings = world.warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].contains(&path.display().to_string()),
            "{warnings:?}"
        );
        world.refresh();
        assert_eq!(world.warnings().len(), 0, "one warning is enough");
    }
    // And by a good one again.
    let good = build(world.folder.path(), "good", "map", &["http://a.example/"]);
    fs::rename(&good, &path).unwrap();
    world.refresh();
    assert!(!world.choice(0, "http://b.example/").asked);
}

#[test]
fn a_summary_that_is_truncated_or_overwritten_in_place_is_never_trusted() {
    let uris: Vec<String> = (0..2000)
        .map(|n| format!("http://h{n:04}.example/"))
        .collect();
    let uris: Vec<&str> = uris.iter().map(String::as_str).collect();
    for kind in ["map", "filter", "HxPx"] {
        let mut world = World::new(&["a"]);
        let path = world.summarise(0, kind, &uris);
        world.refresh();
        let whole = fs::read(&path).unwrap();
        assert!(!world.choice(0, "http://nowhere.example/").asked);
        // At the end of a line, so that what is left is a well-formed text.
        let middle = whole.len() / 2;
        let line = whole[..middle].iter().rposition(|&byte| byte == b'\n');
        for length in [middle, line.map_or(100, |line| line + 1), 3, 0] {
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_len(length as u64).unwrap();
            // Whether this was noticed already or not: what is held is asked for.
            assert!(
                uris.iter().all(|uri| world.choice(0, uri).asked),
                "{kind} {length}"
            );
            world.refresh();
            let choice = world.choice(0, "http://nowhere.example/");
            assert_eq!(choice.reason, Reason::Damaged, "{kind} {length}");
            assert!(
                uris.iter().all(|uri| world.choice(0, uri).asked),
                "{kind} {length}"
            );
            assert_eq!(world.warnings().len(), 1, "{kind} {length}");
            fs::write(&path, &whole).unwrap();
            world.refresh();
            assert!(
                !world.choice(0, "http://nowhere.example/").asked,
                "{kind} {length}"
            );
        }
        // Overwritten without a change of length.
        fs::write(&path, vec![b'#'; whole.len()]).unwrap();
        assert!(uris.iter().all(|uri| world.choice(0, uri).asked), "{kind}");
        world.refresh();
        assert!(world.choice(0, "http://nowhere.example/").asked, "{kind}");
        // Gone.
        fs::remove_file(&path).unwrap();
        world.refresh();
        assert!(world.choice(0, "http://nowhere.example/").asked);
        assert!(
            world
                .warnings()
                .iter()
                .any(|warning| warning.contains("missing"))
        );
    }
}

#[test]
fn a_damaged_summary_does_not_silence_a_good_one() {
    let mut world = World::new(&["a"]);
    world.summarise(0, "map", &["http://a.example/"]);
    let filter = world.summarise(0, "filter", &["http://a.example/"]);
    world.refresh();
    fs::write(&filter, "garbage").unwrap();
    world.refresh();
    let choice = world.choice(0, "http://b.example/");
    assert_eq!(choice.reason, Reason::Absent);
    assert!(choice.summary.unwrap().ends_with(".ukvs"));
}

#[test]
fn folders_are_watched() {
    let mut world = World::new(&["a"]);
    let folder = world.path("summaries");
    fs::create_dir(&folder).unwrap();
    world.registry.archives[0].summaries.push(folder.clone());
    world.refresh();
    assert!(world.choice(0, "http://b.example/").asked);
    let built = build(world.folder.path(), "a", "filter", &["http://a.example/"]);
    fs::rename(built, folder.join("a.filter")).unwrap();
    fs::write(folder.join("README"), "not a summary").unwrap();
    world.refresh();
    assert_eq!(world.warnings(), Vec::<String>::new());
    assert!(!world.choice(0, "http://b.example/").asked);
    fs::remove_file(folder.join("a.filter")).unwrap();
    world.refresh();
    assert!(world.choice(0, "http://b.example/").asked);
}

#[test]
fn an_old_summary_says_nothing_and_a_clock_that_jumps_changes_nothing() {
    let mut world = World::new(&["a"]);
    let path = world.summarise(0, "filter", &["http://a.example/"]);
    let set = |age: i64| {
        let now = SystemTime::now();
        let at = match u64::try_from(age) {
            Ok(age) => now - Duration::from_secs(age),
            Err(_) => now + Duration::from_secs(age.unsigned_abs()),
        };
        fs::File::open(&path).unwrap().set_modified(at).unwrap();
    };
    world.registry.archives[0].max_age = Some(Duration::from_secs(3600));
    for (age, reason) in [
        (10, Reason::Absent),
        (3700, Reason::Stale),
        (10, Reason::Absent),
        // Written in the future: the clock was wrong then, or is wrong now.
        (-3700, Reason::Stale),
        (0, Reason::Absent),
    ] {
        set(age);
        world.refresh();
        let choice = world.choice(0, "http://b.example/");
        assert_eq!(choice.reason, reason, "{age}");
        assert_eq!(choice.asked, reason == Reason::Stale);
    }
    world.registry.archives[0].max_age = None;
    set(1_000_000_000);
    world.refresh();
    assert_eq!(world.choice(0, "http://b.example/").reason, Reason::Absent);
}

#[test]
fn rules_of_the_registry_are_followed() {
    let mut world = World::new(&["portugal", "young", "open"]);
    let rules = &mut world.registry.archives[0].rules;
    rules.include = vec![Pattern::parse("pt").unwrap()];
    rules.exclude = vec![Pattern::parse("secret.pt").unwrap()];
    world.registry.archives[1].rules.from = Period::parse("2011");
    assert!(world.choice(0, "http://sapo.pt/").asked);
    for uri in ["http://secret.pt/a", "http://example.com/"] {
        let choice = world.choice(0, uri);
        assert!(!choice.asked && !choice.later);
        assert_eq!(choice.reason, Reason::Pattern);
        assert_eq!(choice.presence, Presence::Absent);
    }
    let at = |year: &str| {
        let datetime = Datetime::parse_timestamp(year).unwrap();
        let lookup = Lookup::new("http://sapo.pt/", Wanted::Closest(datetime));
        let decision = world.decide_lookup(&lookup);
        let mut choices = decision.choices.into_iter();
        choices.find(|choice| choice.archive == 1).unwrap()
    };
    assert!(at("2012").asked);
    let early = at("1998");
    assert!(!early.asked && early.later && early.reason == Reason::Period);
}

#[test]
fn what_was_learned_orders_archives_and_the_best_are_asked_first() {
    let config = RoutingConfig {
        top: Some(1),
        ..RoutingConfig::default()
    };
    let world = World::with(&["rare", "often", "never"], config);
    for number in 0..60 {
        let uri = format!("http://a.example/{number}");
        world.observe(&uri, &[(0, usize::from(number % 10 == 0)), (1, 5), (2, 0)]);
    }
    let decision = world.decide("http://a.example/new");
    let order: Vec<usize> = decision
        .choices
        .iter()
        .map(|choice| choice.archive)
        .collect();
    assert_eq!(order, [1, 0, 2]);
    assert!(decision.choices[0].asked);
    assert!(decision.choices[1..].iter().all(|choice| choice.later));
    assert!(decision.choices[0].estimate > decision.choices[1].estimate);
}

#[test]
fn learned_evidence_leaves_archives_out_only_if_less_recall_is_accepted() {
    for (recall, expected) in [(1.0, 3), (0.99, 2)] {
        let config = RoutingConfig {
            recall,
            ..RoutingConfig::default()
        };
        let world = World::with(&["often", "never", "new"], config);
        for number in 0..100 {
            let uri = format!("http://a.example/{number}");
            world.observe(&uri, &[(0, 5), (1, 0)]);
        }
        let decision = world.decide("http://a.example/new");
        assert_eq!(decision.asked().count(), expected, "recall {recall}");
        let last = decision.choices.last().unwrap();
        assert_eq!(last.reason == Reason::Unlikely, expected == 2);
    }
}

#[test]
fn probes_see_what_was_excluded_wrongly() {
    let config = RoutingConfig {
        probe: 1.0,
        ..RoutingConfig::default()
    };
    let mut world = World::with(&["liar", "honest"], config);
    world.summarise(0, "filter", &["http://a.example/"]);
    world.refresh();
    let choice = world.choice(0, "http://b.example/");
    assert!(choice.asked && choice.reason == Reason::Probe);
    for number in 0..100 {
        let uri = format!("http://b.example/{number}");
        // The archive holds half of what its summary calls absent.
        world.observe(&uri, &[(0, usize::from(number % 2 == 0)), (1, 1)]);
    }
    let audited = world.decider.audited_recall();
    assert_eq!(
        (audited.probes, audited.missed, audited.excluded),
        (100, 50, 100)
    );
    let recall = audited.recall.unwrap();
    assert!((recall - 100.0 / 150.0).abs() < 1e-9, "{audited:?}");
    let (low, high) = audited.interval.unwrap();
    assert!(low < recall && recall < high);
}

#[test]
fn the_resources_of_a_page_go_first_to_where_the_page_was_found() {
    let world = World::new(&["a", "b", "c"]);
    world.observe("http://page.example/", &[(0, 0), (1, 0), (2, 4)]);
    let lookup = Lookup {
        page: Some("http://page.example/".to_owned()),
        ..Lookup::new("http://cdn.example/logo.png", Wanted::All)
    };
    assert_eq!(world.decide_lookup(&lookup).choices[0].archive, 2);
}

/// A map or profile by a second key, of captures with a URI, a time, a language and a media type.
fn build_by(
    folder: &Path,
    name: &str,
    kind: &str,
    by: By,
    captures: &[(&str, &str, &str, &str)],
) -> PathBuf {
    let mut lines: Vec<String> = captures
        .iter()
        .map(|(uri, time, language, mime)| {
            let surt = String::from_utf8(consult::usual_surt(uri).unwrap()).unwrap();
            format!(
                "{surt} {time} {{\"url\": \"{uri}\", \"mime\": \"{mime}\", \"status\": \"200\", \"languages\": \"{language}\"}}\n"
            )
        })
        .collect();
    lines.sort();
    let index = folder.join(format!("{name}.cdxj"));
    fs::write(&index, lines.concat()).unwrap();
    let input = Input {
        by: Some(by),
        ..Input::new(vec![Source::new(&index)])
    };
    if kind == "map" {
        let path = folder.join(format!("{name}.ukvs"));
        map::build(&input, &Default::default(), None, &path).unwrap();
        return path;
    }
    let options = profile::Options {
        policies: vec!["H3P0".parse().unwrap()],
        archive: Default::default(),
        date: None,
        folder: Some(folder.to_owned()),
        name: name.into(),
        gzip: false,
    };
    profile::build(&input, &options, None).unwrap();
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let own = |path: &PathBuf| {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        file.starts_with(&format!("{name}.H3P0"))
    };
    { files }.find(own).unwrap()
}

#[test]
fn an_archive_without_captures_of_that_time_is_asked_later() {
    let mut world = World::new(&["early", "late", "profile"]);
    let uri = "http://a.example/";
    for (place, kind, year) in [
        (0, "map", "1997"),
        (1, "map", "2011"),
        (2, "profile", "2012"),
    ] {
        let time = format!("{year}0601000000");
        let captures = [
            (uri, &time[..], "eng", "text/html"),
            ("http://b.example/", "19980101000000", "eng", "text/html"),
        ];
        let folder = world.folder.path();
        let path = build_by(folder, &place.to_string(), kind, By::Year, &captures);
        world.registry.archives[place].summaries.push(path);
    }
    world.refresh();
    assert_eq!(world.warnings(), Vec::<String>::new());
    let at = |uri: &str, year: &str| {
        let datetime = Datetime::parse_timestamp(year).unwrap();
        let decision = world.decide_lookup(&Lookup::new(uri, Wanted::Closest(datetime)));
        let mut asked: Vec<usize> = decision.asked().map(|choice| choice.archive).collect();
        asked.sort_unstable();
        let later = decision
            .asked_later()
            .map(|choice| (choice.archive, choice.reason));
        let mut later: Vec<(usize, Reason)> = later.collect();
        later.sort_unstable_by_key(|(place, _)| *place);
        (asked, later)
    };
    let late = vec![(1, Reason::Time), (2, Reason::Time)];
    assert_eq!(at(uri, "19980201"), (vec![0], late));
    assert_eq!(at(uri, "20110201"), (vec![1, 2], vec![(0, Reason::Time)]));
    // Everybody is far away: nobody is left out.
    assert_eq!(at(uri, "20250101"), (vec![0, 1, 2], vec![]));
    assert_eq!(at("http://b.example/", "19980201"), (vec![0, 1, 2], vec![]));
    assert_eq!(
        world.decide(uri).asked().count(),
        3,
        "a TimeMap has all times"
    );
}

#[test]
fn what_a_client_prefers_orders_archives_and_excludes_none() {
    let mut world = World::new(&["english", "german", "images"]);
    let uri = "http://a.example/";
    let summaries = [
        ("map", By::Language, "eng", "text/html"),
        ("profile", By::Language, "deu", "text/html"),
        ("map", By::Mime, "eng", "image/png"),
    ];
    for (place, (kind, by, language, mime)) in summaries.into_iter().enumerate() {
        let captures = [(uri, "20100101000000", language, mime)];
        let folder = world.folder.path();
        let path = build_by(folder, &place.to_string(), kind, by, &captures);
        world.registry.archives[place].summaries.push(path);
    }
    world.refresh();
    let order = |language: Option<&str>, media_type: Option<&str>| {
        let lookup = Lookup {
            preference: Preference {
                language: language.map(str::to_owned),
                media_type: media_type.map(str::to_owned),
            },
            ..Lookup::new(uri, Wanted::All)
        };
        let decision = world.decide_lookup(&lookup);
        let asked: Vec<usize> = decision.asked().map(|choice| choice.archive).collect();
        asked
    };
    assert_eq!(order(None, None), [0, 1, 2]);
    assert_eq!(order(Some("de"), None), [1, 2, 0]);
    assert_eq!(order(Some("en-GB"), None), [0, 2, 1]);
    assert_eq!(order(None, Some("text/*")), [0, 1, 2]);
    assert_eq!(order(Some("deu"), Some("text/html")), [1, 0, 2]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever is postponed: what is found in the end is as close as anything that is held.
    #[test]
    fn the_closest_memento_is_always_found(
        archives in prop::collection::vec(
            (
                prop::collection::btree_set(1996..2026u16, 0..4),
                prop::sample::select(vec!["map", "profile", "none"]),
                prop::bool::ANY,
                prop::option::of(1996..2026u16),
            ),
            1..5,
        ),
        wanted in 1990..2030u16,
    ) {
        let names: Vec<String> = (0..archives.len()).map(|n| n.to_string()).collect();
        let ids: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut world = World::new(&ids);
        let uri = "http://a.example/";
        for (place, (years, kind, by_month, from)) in archives.iter().enumerate() {
            let times: Vec<String> = years.iter().map(|year| format!("{year}0615120000")).collect();
            let mut captures: Vec<_> = times.iter().map(|time| (uri, &time[..], "eng", "text/html")).collect();
            captures.push(("http://other.example/", "20000101000000", "eng", "text/html"));
            if *kind != "none" {
                let by = if *by_month { By::Month } else { By::Year };
                let path = build_by(world.folder.path(), &names[place], kind, by, &captures);
                world.registry.archives[place].summaries.push(path);
            }
            // A rule that is true.
            if from.is_some_and(|from| years.iter().all(|year| *year >= from)) {
                world.registry.archives[place].rules.from = from.and_then(|from| Period::parse(&from.to_string()));
            }
        }
        world.refresh();
        let datetime = Datetime::parse_timestamp(&format!("{wanted}0301")).unwrap();
        let wanted = Wanted::Closest(datetime);
        let decision = world.decide_lookup(&Lookup::new(uri, wanted));
        let mementos = |place: usize| -> Vec<Memento> {
            let years = archives[place].0.iter();
            years.map(|year| {
                let datetime = Datetime::parse_timestamp(&format!("{year}0615120000")).unwrap();
                Memento::new(format!("http://{place}.example/{year}"), datetime)
            }).collect()
        };
        let away = |memento: &Memento| {
            let seconds = |datetime: Datetime| datetime.to_jiff().as_second();
            seconds(memento.datetime).abs_diff(seconds(datetime))
        };
        let mut lists: Vec<(usize, Vec<Memento>)> = decision.asked().map(|c| (c.archive, mementos(c.archive))).collect();
        let later = crate::router::still_needed(&decision, wanted, &lists);
        lists.extend(later.into_iter().map(|place| (place, mementos(place))));
        let found = lists.iter().flat_map(|(_, mementos)| mementos).map(away).min();
        let held: Vec<Memento> = (0..archives.len()).flat_map(mementos).collect();
        prop_assert_eq!(found, held.iter().map(away).min());
    }
}
