use std::sync::atomic::AtomicUsize;

use proptest::prelude::*;
use tokio::sync::Notify;
use waypost_memento::{Datetime, Memento};

use super::*;
use crate::merge::merge;
use crate::{Archive, Outcome, Reply, Selection};

/// An answer of one archive at a second.
pub(super) fn entry(at: u64, mementos: u64) -> Entry {
    Entry {
        at: Duration::from_secs(at),
        ids: vec!["a".to_owned()],
        aggregate: Arc::new(answer(&[(0, Reply::Mementos(mementos as usize), mementos)])),
    }
}

fn memento(archive: usize, number: u64) -> Memento {
    let datetime = Datetime::parse_timestamp(&format!("{}", 2000 + number % 20)).unwrap();
    let mut memento = Memento::new(format!("http://{archive}.example/{number}/é"), datetime);
    if number.is_multiple_of(3) {
        let license = ("license".to_owned(), "\"x\"".to_owned());
        memento.parameters.push(license);
    }
    memento
}

/// The answer of archives, with numbers of mementos.
fn answer(archives: &[(usize, Reply, u64)]) -> Aggregate {
    let mut lists = Vec::new();
    let mut outcomes = Vec::new();
    for (archive, reply, count) in archives {
        lists.push((
            *archive,
            (0..*count)
                .map(|number| memento(*archive, number))
                .collect(),
        ));
        outcomes.push(Outcome {
            archive: *archive,
            took: Duration::from_millis(5),
            reply: reply.clone(),
        });
    }
    Aggregate {
        mementos: merge(lists),
        outcomes,
        left_out: vec![(0, u64::MAX)],
    }
}

fn of_count(archive: usize, count: u64) -> (usize, Reply, u64) {
    match count {
        0 => (archive, Reply::Nothing(404), 0),
        count => (archive, Reply::Mementos(count as usize), count),
    }
}

fn registry(ids: &[&str]) -> Arc<Registry> {
    Arc::new(Registry::new(
        ids.iter().copied().map(Archive::new).collect(),
    ))
}

/// A cache whose clock is set by hand.
fn cache(config: &CacheConfig) -> (Arc<Cache>, Arc<AtomicU64>) {
    let seconds = Arc::new(AtomicU64::new(1_000_000_000));
    let clock = Arc::clone(&seconds);
    let clock = Box::new(move || Duration::from_secs(clock.load(Ordering::Relaxed)));
    let cache = Cache::with_clock(config, Box::new(|_| {}), clock).unwrap();
    (cache, seconds)
}

fn all(uri: &str) -> Lookup {
    Lookup::new(uri, Wanted::All)
}

/// Gets an answer, and says whether it was fetched.
async fn get(
    cache: &Arc<Cache>,
    registry: &Arc<Registry>,
    lookup: &Lookup,
    directive: CacheDirective,
    answer: Aggregate,
) -> (Option<Kept>, bool) {
    let fetched = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&fetched);
    let fetch = move || async move {
        count.fetch_add(1, Ordering::Relaxed);
        answer
    };
    let kept = cache.get(registry, lookup, directive, fetch).await;
    // Let a refresh in the background finish.
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    (kept, fetched.load(Ordering::Relaxed) == 1)
}

#[test]
fn directives_are_read() {
    let cases = [
        ("", CacheDirective::Usual),
        ("max-age=60, private", CacheDirective::Usual),
        ("No-Cache", CacheDirective::Refresh),
        ("max-age=0", CacheDirective::Refresh),
        ("no-cache, only-if-cached", CacheDirective::OnlyKept),
    ];
    for (header, directive) in cases {
        assert_eq!(CacheDirective::parse(header), directive, "{header}");
    }
}

#[test]
fn an_entry_survives_its_bytes() {
    let entry = entry(1_700_000_000, 50);
    let bytes = entry.to_bytes();
    assert_eq!(Entry::from_bytes(&bytes), Some(entry));
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert_eq!(Entry::from_bytes(&damaged), None, "{at}");
        assert_eq!(Entry::from_bytes(&bytes[..at]), None);
    }
}

#[tokio::test]
async fn lifetimes_depend_on_the_answer() {
    let config = CacheConfig::default();
    let registry = registry(&["a"]);
    let failed = (0, Reply::Late, 0);
    let cases = [
        (answer(&[of_count(0, 3)]), 3600, Some(7 * 86400)),
        (answer(&[of_count(0, 0)]), 600, None),
        (answer(&[failed]), 60, None),
    ];
    for (answer, fresh, stale) in cases {
        let (cache, clock) = cache(&config);
        let lookup = all("http://b.example/");
        let ask = || {
            get(
                &cache,
                &registry,
                &lookup,
                CacheDirective::Usual,
                answer.clone(),
            )
        };
        let (kept, fetched) = ask().await;
        assert!(fetched && kept.unwrap().origin == Origin::Fetched);
        clock.fetch_add(fresh - 1, Ordering::Relaxed);
        let (kept, fetched) = ask().await;
        let kept = kept.unwrap();
        assert!(!fetched && kept.origin == Origin::Fresh);
        assert_eq!(kept.age, Duration::from_secs(fresh - 1));
        clock.fetch_add(1, Ordering::Relaxed);
        let (kept, fetched) = ask().await;
        assert!(fetched);
        let origin = kept.unwrap().origin;
        match stale {
            None => assert_eq!(origin, Origin::Fetched),
            Some(stale) => {
                assert_eq!(origin, Origin::Stale);
                // It was refreshed in the background.
                assert!(!ask().await.1);
                clock.fetch_add(fresh + stale, Ordering::Relaxed);
                let (kept, _) = ask().await;
                assert_eq!(kept.unwrap().origin, Origin::Fetched);
            }
        }
    }
}

#[tokio::test]
async fn clients_say_whether_a_kept_answer_will_do() {
    let (cache, clock) = cache(&CacheConfig::default());
    let registry = registry(&["a"]);
    let lookup = all("http://b.example/");
    let one = answer(&[of_count(0, 1)]);
    let two = answer(&[of_count(0, 2)]);
    let ask =
        |directive, answer: &Aggregate| get(&cache, &registry, &lookup, directive, answer.clone());
    assert_eq!(ask(CacheDirective::OnlyKept, &one).await, (None, false));
    ask(CacheDirective::Usual, &one).await;
    let (kept, fetched) = ask(CacheDirective::OnlyKept, &two).await;
    assert!(!fetched);
    assert_eq!(*kept.unwrap().aggregate, one);
    let (kept, fetched) = ask(CacheDirective::Refresh, &two).await;
    assert!(fetched);
    assert_eq!(*kept.unwrap().aggregate, two);
    // Stale answers will do, but are not refreshed.
    clock.fetch_add(4000, Ordering::Relaxed);
    let (kept, fetched) = ask(CacheDirective::OnlyKept, &one).await;
    assert!(!fetched);
    assert_eq!(kept.unwrap().origin, Origin::Stale);
}

#[tokio::test]
async fn without_a_cache_everything_is_fetched() {
    let config = CacheConfig {
        enabled: false,
        ..CacheConfig::default()
    };
    let (cache, _) = cache(&config);
    let registry = registry(&["a"]);
    let lookup = all("http://b.example/");
    for _ in 0..2 {
        let answer = answer(&[of_count(0, 1)]);
        assert!(
            get(&cache, &registry, &lookup, CacheDirective::Usual, answer)
                .await
                .1
        );
    }
    let kept = get(
        &cache,
        &registry,
        &lookup,
        CacheDirective::OnlyKept,
        Aggregate::default(),
    );
    assert_eq!(kept.await, (None, false));
    assert_eq!(cache.usage(), (0, 0));
}

#[tokio::test]
async fn lookups_for_the_same_thing_wait_for_one_fetch() {
    let (cache, _) = cache(&CacheConfig::default());
    let registry = registry(&["a"]);
    let fetches = Arc::new(AtomicUsize::new(0));
    let go = Arc::new(Notify::new());
    let start = |directive| {
        let (cache, registry) = (Arc::clone(&cache), Arc::clone(&registry));
        let (fetches, go) = (Arc::clone(&fetches), Arc::clone(&go));
        tokio::spawn(async move {
            let lookup = all("http://b.example/");
            let fetch = move || async move {
                fetches.fetch_add(1, Ordering::Relaxed);
                go.notified().await;
                answer(&[of_count(0, 7)])
            };
            cache.get(&registry, &lookup, directive, fetch).await
        })
    };
    let mut waiting: Vec<_> = (0..20).map(|_| start(CacheDirective::Usual)).collect();
    waiting.extend((0..20).map(|_| start(CacheDirective::Refresh)));
    settle().await;
    // One that hangs up does not end the fetch of the others.
    waiting.swap_remove(0).abort();
    tokio::task::yield_now().await;
    go.notify_one();
    for one in waiting {
        assert_eq!(one.await.unwrap().unwrap().aggregate.mementos.len(), 7);
    }
    assert_eq!(fetches.load(Ordering::Relaxed), 1);
    assert!(lock(&cache.flights).is_empty());
}

/// Lets all tasks run until they wait for something: the runtime has one thread, and takes turns.
async fn settle() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_fetch_that_nobody_waits_for_is_dropped() {
    struct Flag(Arc<AtomicUsize>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let (cache, _) = cache(&CacheConfig::default());
    let registry = registry(&["a"]);
    let dropped = Arc::new(AtomicUsize::new(0));
    let start = || {
        let (cache, registry) = (Arc::clone(&cache), Arc::clone(&registry));
        let flag = Flag(Arc::clone(&dropped));
        tokio::spawn(async move {
            let fetch = move || async move {
                let _flag = flag;
                std::future::pending().await
            };
            let lookup = all("http://b.example/");
            cache
                .get(&registry, &lookup, CacheDirective::Usual, fetch)
                .await
        })
    };
    let (first, second) = (start(), start());
    settle().await;
    first.abort();
    settle().await;
    // The second had a fetch of its own that was not needed.
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    second.abort();
    settle().await;
    assert_eq!(dropped.load(Ordering::Relaxed), 2);
    assert!(lock(&cache.flights).is_empty());
}

#[tokio::test]
async fn a_timemap_does_not_shrink_because_an_archive_is_down() {
    let (cache, clock) = cache(&CacheConfig::default());
    let lookup = all("http://x.example/");
    let three = registry(&["a", "b", "c"]);
    let whole = answer(&[of_count(0, 4), of_count(1, 2), of_count(2, 3)]);
    get(&cache, &three, &lookup, CacheDirective::Usual, whole).await;

    // One is down, one sends less than all, one has removed something.
    let failing = answer(&[
        (0, Reply::Status(503), 0),
        (1, Reply::Partial(1, "too large".to_owned()), 1),
        of_count(2, 1),
    ]);
    clock.fetch_add(10_000, Ordering::Relaxed);
    let (kept, _) = get(
        &cache,
        &three,
        &lookup,
        CacheDirective::Refresh,
        failing.clone(),
    )
    .await;
    let kept = kept.unwrap().aggregate;
    let of = |aggregate: &Aggregate, archive| {
        let found = aggregate.mementos.iter();
        found.filter(|found| found.archive == archive).count()
    };
    assert_eq!([0, 1, 2].map(|archive| of(&kept, archive)), [4, 2, 1]);
    let replies: Vec<String> = kept
        .outcomes
        .iter()
        .map(|one| one.reply.to_string())
        .collect();
    assert_eq!(
        replies,
        [
            "4 mementos of an earlier answer: status 503",
            "2 mementos of an earlier answer: only 1 mementos: too large",
            "1 mementos",
        ]
    );
    assert_eq!(kept.missing().collect::<Vec<_>>(), [0, 1]);

    // Still down, in another registry: it is kept again, at its new place.
    clock.fetch_add(61, Ordering::Relaxed);
    let other = registry(&["c", "new", "a"]);
    let down = answer(&[of_count(0, 0), of_count(1, 5), (2, Reply::Late, 0)]);
    let (kept, fetched) = get(&cache, &other, &lookup, CacheDirective::Usual, down).await;
    let kept = kept.unwrap().aggregate;
    assert!(fetched);
    assert_eq!([0, 1, 2].map(|archive| of(&kept, archive)), [0, 5, 4]);
    assert!(
        kept.mementos
            .is_sorted_by_key(|found| (found.memento.datetime, found.archive))
    );
}

#[tokio::test]
async fn a_change_of_the_registry_is_noticed() {
    let (cache, _) = cache(&CacheConfig::default());
    let lookup = all("http://x.example/");
    let (two, three) = (registry(&["a", "b"]), registry(&["c", "b", "a"]));
    let both = answer(&[of_count(0, 2), of_count(1, 3)]);
    let usual = CacheDirective::Usual;
    get(&cache, &two, &lookup, usual, both).await;
    // One less: what is kept will do, without the one that is gone.
    let (kept, fetched) = get(
        &cache,
        &registry(&["b"]),
        &lookup,
        usual,
        Aggregate::default(),
    )
    .await;
    let kept = kept.unwrap().aggregate;
    assert!(!fetched);
    assert_eq!((kept.mementos.len(), kept.outcomes.len()), (3, 1));
    assert!(kept.mementos.iter().all(|found| found.archive == 0));
    // One more: it has to be asked, unless the client does not want it.
    let only = Lookup {
        archives: Selection::Only(vec!["a".to_owned()]),
        ..lookup.clone()
    };
    let one = answer(&[of_count(0, 2)]);
    assert!(get(&cache, &two, &only, usual, one.clone()).await.1);
    assert!(!get(&cache, &three, &only, usual, one).await.1);
    assert!(
        get(&cache, &three, &lookup, usual, Aggregate::default())
            .await
            .1
    );
}

#[tokio::test]
async fn a_timemap_answers_for_any_datetime() {
    let (cache, clock) = cache(&CacheConfig::default());
    let registry = registry(&["a"]);
    let closest = |text: &str| {
        let datetime = Datetime::parse_timestamp(text).unwrap();
        Lookup::new("http://x.example/", Wanted::Closest(datetime))
    };
    let one = answer(&[of_count(0, 1)]);
    let ask = |lookup: Lookup| {
        let (cache, registry, one) = (Arc::clone(&cache), Arc::clone(&registry), one.clone());
        async move {
            get(&cache, &registry, &lookup, CacheDirective::Usual, one)
                .await
                .1
        }
    };
    assert!(ask(closest("1998")).await);
    assert!(!ask(closest("1998")).await);
    assert!(ask(closest("1999")).await);
    // It is 2001: later datetimes all stand for the latest memento.
    assert!(ask(closest("2030")).await);
    assert!(!ask(closest("2031")).await);
    clock.fetch_add(30, Ordering::Relaxed);
    assert!(ask(all("http://x.example/")).await);
    for year in ["1997", "2000", "2040"] {
        assert!(!ask(closest(year)).await, "{year}");
    }
}

#[tokio::test]
async fn answers_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let config = CacheConfig {
        disk: Some(folder.path().join("cache.redb")),
        ..CacheConfig::default()
    };
    let registry = registry(&["a"]);
    let lookup = all("http://x.example/");
    let one = answer(&[of_count(0, 9)]);
    let (before, _) = cache(&config);
    get(
        &before,
        &registry,
        &lookup,
        CacheDirective::Usual,
        one.clone(),
    )
    .await;
    drop(before);
    let (after, _) = cache(&config);
    let kept = get(
        &after,
        &registry,
        &lookup,
        CacheDirective::OnlyKept,
        Aggregate::default(),
    );
    assert_eq!(*kept.await.0.unwrap().aggregate, one);
    assert_eq!(after.usage().0, 1);
}

#[test]
fn memory_is_bounded_and_the_least_used_goes_first() {
    let size = entry(1, 10).bytes() + 3 + 160;
    let mut memory = Memory::new(size * 3);
    for key in ["aaa", "bbb", "ccc"] {
        memory.insert(key.into(), Arc::new(entry(1, 10)));
    }
    assert_eq!(memory.bytes(), size * 3);
    memory.get("aaa");
    memory.insert("ddd".into(), Arc::new(entry(1, 10)));
    assert!(memory.get("bbb").is_none() && memory.get("aaa").is_some());
    memory.insert("ddd".into(), Arc::new(entry(1, 100)));
    assert!(memory.get("ddd").is_none());
    memory.set_limit(size);
    assert_eq!((memory.len(), memory.bytes()), (1, size));
    assert!(memory.get("aaa").is_some());
}

/// What a naive cache knows: the last answer to each lookup, by archive.
#[derive(Clone, Default)]
struct Model {
    /// When it was fetched, whether it was complete, and the mementos of each archive.
    known: HashMap<String, (u64, bool, [u64; 2])>,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any sequence of lookups, failures and times gives what a naive model gives, whether answers
    /// are in memory or only on disk.
    #[test]
    fn it_does_what_a_naive_model_does(
        steps in prop::collection::vec(
            (0..3u8, 0..4u8, prop::array::uniform2(prop::option::of(0..4u64)), 0..2000u64),
            1..60,
        ),
        on_disk in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut config = CacheConfig::default();
        if on_disk {
            config.disk = Some(folder.path().join("cache.redb"));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (cache, clock) = cache(&config);
            let registry = registry(&["a", "b"]);
            let mut model = Model::default();
            for (uri, directive, counts, pause) in steps {
                clock.fetch_add(pause, Ordering::Relaxed);
                let now = clock.load(Ordering::Relaxed);
                let directive = match directive {
                    0 | 1 => CacheDirective::Usual,
                    2 => CacheDirective::Refresh,
                    _ => CacheDirective::OnlyKept,
                };
                let uri = format!("http://{uri}.example/");
                let archives: Vec<_> = counts.iter().enumerate().map(|(archive, count)| {
                    match count {
                        Some(count) => of_count(archive, *count),
                        None => (archive, Reply::Late, 0),
                    }
                }).collect();

                let known = model.known.get(&uri).copied();
                let usable = known.and_then(|(at, complete, counts)| {
                    let age = now - at;
                    match (complete, counts.iter().sum::<u64>()) {
                        (false, _) => (age < 60).then_some(Origin::Fresh),
                        (true, 0) => (age < 600).then_some(Origin::Fresh),
                        _ if age < 3600 => Some(Origin::Fresh),
                        _ => (age < 3600 + 7 * 86400).then_some(Origin::Stale),
                    }
                });
                let expected = match (directive, usable) {
                    (CacheDirective::Usual | CacheDirective::OnlyKept, Some(origin)) => Some(origin),
                    (CacheDirective::OnlyKept, None) => None,
                    _ => Some(Origin::Fetched),
                };
                let fetches = expected == Some(Origin::Fetched)
                    || (expected == Some(Origin::Stale) && directive == CacheDirective::Usual);
                let mut after = known;
                if fetches {
                    let old = known.map_or([0; 2], |(_, _, counts)| counts);
                    let kept = [0, 1].map(|archive| counts[archive].unwrap_or(old[archive]));
                    after = Some((now, counts.iter().all(Option::is_some), kept));
                }
                let shown = match expected {
                    Some(Origin::Fetched) => after,
                    _ => known,
                };

                let lookup = all(&uri);
                let (kept, fetched) = get(&cache, &registry, &lookup, directive, answer(&archives)).await;
                prop_assert_eq!(fetched, fetches);
                prop_assert_eq!(kept.as_ref().map(|kept| kept.origin), expected);
                if let (Some(kept), Some((_, complete, counts))) = (kept, shown) {
                    let lists = counts.iter().enumerate().map(|(archive, count)| {
                        (archive, (0..*count).map(|number| memento(archive, number)).collect())
                    });
                    prop_assert_eq!(&kept.aggregate.mementos, &merge(lists.collect()));
                    prop_assert_eq!(kept.aggregate.missing().next().is_none(), complete);
                }
                if let Some(after) = after {
                    model.known.insert(uri, after);
                }
            }
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn a_clock_that_was_set_back_keeps_nothing_fresh() {
    let (cache, clock) = cache(&CacheConfig::default());
    let archives = registry(&["a"]);
    let lookup = all("http://a.example/");
    for count in [0, 3] {
        let now = clock.load(Ordering::Relaxed);
        let fetch = |directive| {
            let answer = answer(&[of_count(0, count)]);
            get(&cache, &archives, &lookup, directive, answer)
        };
        clock.store(now + 10 * 365 * 86_400, Ordering::Relaxed);
        assert!(fetch(CacheDirective::Refresh).await.1);
        assert!(!fetch(CacheDirective::Usual).await.1, "it is fresh");
        clock.store(now, Ordering::Relaxed);
        assert!(fetch(CacheDirective::OnlyKept).await.0.is_none());
        assert!(
            fetch(CacheDirective::Usual).await.1,
            "it is from the future"
        );
        assert!(!fetch(CacheDirective::Usual).await.1, "it is fresh");
    }
}
