use proptest::prelude::*;

use super::*;
use crate::Archive;

const SECOND: Duration = Duration::from_secs(1);

fn limits() -> ArchiveLimits {
    ArchiveLimits {
        max_failures: 3,
        cooling: 10 * SECOND,
        max_cooling: 35 * SECOND,
        ..ArchiveLimits::default()
    }
}

fn registry(limits: &[(&str, ArchiveLimits)]) -> Registry {
    let archives = limits.iter().map(|(id, limits)| Archive {
        limits: limits.clone(),
        ..Archive::new(*id)
    });
    Registry::new(archives.collect())
}

fn failed() -> Reply {
    Reply::Failed("connection refused".to_owned())
}

#[test]
fn an_archive_that_fails_is_left_alone_longer_each_time() {
    let mut breaker = Breaker::new(BreakerStyle::Waypost, &limits());
    let mut now = Instant::now();
    for _ in 0..2 {
        assert_eq!(breaker.admit(now), Ok(Admission::Usual));
        assert_eq!(breaker.fail(now, Admission::Usual), None);
    }
    let mut admission = breaker.admit(now).unwrap();
    for (failures, wait) in (3..).zip([10, 20, 35, 35]) {
        let wait = wait * SECOND;
        let change = breaker.fail(now, admission);
        assert_eq!(change, Some(Change::Rests { failures, wait }));
        let early = now + wait - Duration::from_millis(1);
        assert!(matches!(
            breaker.admit(early),
            Err(Refusal::Resting { wait, .. }) if wait == Duration::from_millis(1)
        ));
        now += wait;
        admission = breaker.admit(now).unwrap();
        assert_eq!(admission, Admission::Probe);
        // One probe at a time.
        assert!(breaker.admit(now).is_err());
    }
    // Stragglers decide nothing.
    assert_eq!(breaker.succeed(Admission::Usual), None);
    assert_eq!(breaker.fail(now, Admission::Usual), None);
    assert_eq!(breaker.succeed(Admission::Probe), Some(Change::Returns));
    assert_eq!(breaker.standing(now), Standing::default());
    // It starts afresh.
    for _ in 0..2 {
        assert_eq!(breaker.fail(now, Admission::Usual), None);
    }
    let wait = 10 * SECOND;
    let change = Change::Rests { failures: 3, wait };
    assert_eq!(breaker.fail(now, Admission::Usual), Some(change));
}

#[test]
fn a_probe_that_is_given_up_makes_room_for_another() {
    let mut breaker = Breaker::new(BreakerStyle::Waypost, &limits());
    let now = Instant::now();
    for _ in 0..3 {
        breaker.fail(now, Admission::Usual);
    }
    let later = now + 10 * SECOND;
    assert_eq!(breaker.admit(later), Ok(Admission::Probe));
    breaker.abandon(later, Admission::Usual);
    assert!(breaker.admit(later).is_err());
    breaker.abandon(later, Admission::Probe);
    assert_eq!(breaker.admit(later), Ok(Admission::Probe));
}

#[test]
fn retry_after_is_honoured_up_to_the_longest_cooling() {
    let mut breaker = Breaker::new(BreakerStyle::Waypost, &limits());
    let now = Instant::now();
    let wait = 5 * SECOND;
    assert_eq!(
        breaker.pause(now, wait, Admission::Usual),
        Some(Change::Rests { failures: 1, wait })
    );
    assert!(breaker.admit(now + 4 * SECOND).is_err());
    let later = now + 5 * SECOND;
    assert_eq!(breaker.admit(later), Ok(Admission::Probe));
    let change = breaker.pause(later, 99 * SECOND, Admission::Probe);
    let wait = 35 * SECOND;
    assert_eq!(change, Some(Change::Rests { failures: 2, wait }));
    // The failure itself is reported after it, and changes nothing.
    assert_eq!(breaker.fail(later, Admission::Probe), None);
    assert_eq!(breaker.standing(later).resting, Some(wait));
}

#[test]
fn as_memgator_everyone_asks_again_after_the_same_time() {
    let mut breaker = Breaker::new(BreakerStyle::MemGator, &limits());
    let mut now = Instant::now();
    for _ in 0..4 {
        for _ in 0..2 {
            assert_eq!(breaker.fail(now, Admission::Usual), None);
        }
        assert_eq!(
            breaker.fail(now, Admission::Usual),
            Some(Change::Rests {
                failures: 3,
                wait: 10 * SECOND
            })
        );
        assert!(breaker.admit(now).is_err());
        now += 10 * SECOND;
        assert_eq!(breaker.admit(now), Ok(Admission::Usual));
        assert_eq!(breaker.admit(now), Ok(Admission::Usual));
    }
    assert_eq!(breaker.pause(now, SECOND, Admission::Usual), None);
    let status = |style, status| verdict(style, &Reply::Status(status));
    for code in [429, 500, 503] {
        assert!(matches!(
            status(BreakerStyle::MemGator, code),
            Verdict::Success
        ));
        assert!(matches!(
            status(BreakerStyle::Waypost, code),
            Verdict::Failure
        ));
    }
    assert!(matches!(
        status(BreakerStyle::Waypost, 403),
        Verdict::Success
    ));
}

#[test]
fn with_no_number_of_failures_it_never_opens() {
    let limits = ArchiveLimits {
        max_failures: 0,
        ..limits()
    };
    for style in [BreakerStyle::Waypost, BreakerStyle::MemGator] {
        let mut breaker = Breaker::new(style, &limits);
        let now = Instant::now();
        (0..99).for_each(|_| assert_eq!(breaker.fail(now, Admission::Usual), None));
        assert_eq!(breaker.admit(now), Ok(Admission::Usual));
        assert_eq!(breaker.standing(now).failures, 99);
    }
}

proptest! {
    /// In any second there are at most as many requests as a burst and the rate allow, and no
    /// request waits if it comes late enough.
    #[test]
    fn no_more_requests_than_the_rate(
        rate in 0.2..50.0f64,
        pauses in prop::collection::vec(0..3000u64, 1..200),
    ) {
        let mut bucket = Bucket::new(Some(rate));
        let mut now = Instant::now();
        let mut turns = Vec::new();
        for pause in pauses {
            now += Duration::from_millis(pause);
            let turn = bucket.reserve(now, now + FOREVER).unwrap();
            prop_assert!(turn >= now);
            turns.push(turn);
        }
        prop_assert!(turns.is_sorted());
        let burst = rate.floor().max(1.0);
        for (place, &from) in turns.iter().enumerate() {
            for (count, &to) in turns[place..].iter().enumerate() {
                let allowed = burst + (to - from).as_secs_f64() * rate;
                prop_assert!(count as f64 + 1.0 <= allowed + 1e-3, "{count} {allowed}");
            }
        }
        // A full bucket makes nobody wait.
        let later = turns[turns.len() - 1] + Duration::from_secs_f64(burst / rate + 1.0);
        prop_assert_eq!(bucket.reserve(later, later), Some(later));
    }

    /// Whatever happens: only one probe at a time, no request while it rests, and an archive that
    /// works again is asked again.
    #[test]
    fn a_breaker_keeps_its_promises(
        steps in prop::collection::vec((0..5u8, 0..20u64, any::<prop::sample::Index>()), 1..300),
    ) {
        let mut breaker = Breaker::new(BreakerStyle::Waypost, &limits());
        let mut now = Instant::now();
        let mut open = Vec::new();
        for (step, seconds, which) in steps {
            match step {
                0 | 1 => match breaker.admit(now) {
                    Ok(admission) => {
                        open.push(admission);
                        prop_assert!(breaker.standing(now).resting.is_none());
                    }
                    Err(Refusal::Resting { wait, .. }) => prop_assert!(wait <= 35 * SECOND),
                    Err(Refusal::Busy) => prop_assert!(false, "a breaker is never busy"),
                },
                2 => now += Duration::from_secs(seconds),
                _ if open.is_empty() => {}
                _ => {
                    let admission = open.swap_remove(which.index(open.len()));
                    match (step, seconds % 3) {
                        (3, _) => {
                            breaker.fail(now, admission);
                        }
                        (_, 0) => breaker.abandon(now, admission),
                        (_, 1) => {
                            breaker.pause(now, SECOND, admission);
                            breaker.fail(now, admission);
                        }
                        _ => {
                            breaker.succeed(admission);
                        }
                    }
                }
            }
            let probes = open.iter().filter(|&&one| one == Admission::Probe).count();
            prop_assert!(probes <= 1);
            prop_assert_eq!(breaker.circuit == Circuit::HalfOpen, probes == 1);
        }
        open.into_iter().for_each(|admission| breaker.abandon(now, admission));
        now += 35 * SECOND;
        let admission = breaker.admit(now).unwrap();
        breaker.succeed(admission);
        prop_assert_eq!(breaker.admit(now), Ok(Admission::Usual));
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_at_the_deadline() {
    let manners = Manners::default();
    let one = ArchiveLimits {
        concurrency: 1,
        ..limits()
    };
    manners.update(&registry(&[("a", one)]));
    let start = Instant::now();
    let first = manners.enter("a", start + SECOND).await.unwrap();
    assert_eq!(manners.standing("a").running, 1);
    let second = manners.enter("a", start + SECOND).await;
    assert_eq!(second.unwrap_err(), Refusal::Busy);
    assert_eq!(start.elapsed(), SECOND);
    let waiting = manners.enter("a", start + 9 * SECOND);
    let giving_back = async {
        sleep_until(start + 3 * SECOND).await;
        drop(first);
    };
    let (third, ()) = tokio::join!(waiting, giving_back);
    assert!(third.is_ok());
    assert_eq!(start.elapsed(), 3 * SECOND);
    let unknown = manners.enter("b", start + SECOND).await;
    assert_eq!(unknown.unwrap_err(), Refusal::Busy);
}

#[tokio::test(start_paused = true)]
async fn turns_come_at_the_rate() {
    let manners = Manners::default();
    let slow = ArchiveLimits {
        rate: Some(0.5),
        ..limits()
    };
    manners.update(&registry(&[("a", slow)]));
    let start = Instant::now();
    let permit = manners.enter("a", start + SECOND).await.unwrap();
    for turn in 0..3 {
        permit.turn(start + 9 * SECOND).await.unwrap();
        assert_eq!(start.elapsed(), turn * 2 * SECOND);
    }
    // The next turn is at 6 s: it is refused at once, and still free for another.
    assert_eq!(permit.turn(start + 5 * SECOND).await, Err(Refusal::Busy));
    assert_eq!(start.elapsed(), 4 * SECOND);
    permit.turn(start + 6 * SECOND).await.unwrap();
    assert_eq!(start.elapsed(), 6 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn the_state_survives_a_change_of_the_registry() {
    let manners = Manners::default();
    let with = |concurrency| ArchiveLimits {
        concurrency,
        max_failures: 1,
        ..limits()
    };
    manners.update(&registry(&[("a", with(3)), ("b", with(3))]));
    let deadline = Instant::now() + SECOND;
    let permit = manners.enter("b", deadline).await.unwrap();
    let change = permit.report(&failed());
    assert!(matches!(change, Some(Change::Rests { failures: 1, .. })));
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(manners.enter("a", deadline).await.unwrap());
    }

    manners.update(&registry(&[("a", with(1)), ("b", with(9)), ("c", with(1))]));
    assert!(manners.standing("b").resting.is_some());
    assert_eq!(manners.standing("a").running, 3);
    for running in [2, 1] {
        held.pop();
        assert_eq!(manners.standing("a").running, running);
        let soon = Instant::now() + SECOND;
        assert_eq!(manners.enter("a", soon).await.unwrap_err(), Refusal::Busy);
    }
    held.pop();
    let soon = Instant::now() + SECOND;
    let one = manners.enter("a", soon).await.unwrap();
    assert_eq!(manners.enter("a", soon).await.unwrap_err(), Refusal::Busy);
    drop(one);

    manners.update(&registry(&[("a", with(2))]));
    // Who is taken out may come back.
    assert!(manners.standing("b").resting.is_some());
    let soon = Instant::now() + SECOND;
    let both = (
        manners.enter("a", soon).await.unwrap(),
        manners.enter("a", soon).await.unwrap(),
    );
    assert_eq!(manners.standing("a").running, 2);
    drop(both);
    assert_eq!(manners.standing("a").running, 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_says_nothing() {
    let manners = Manners::default();
    manners.update(&registry(&[("a", limits())]));
    let deadline = Instant::now() + 100 * SECOND;
    for _ in 0..9 {
        drop(manners.enter("a", deadline).await.unwrap());
    }
    assert_eq!(manners.standing("a"), Standing::default());
    for _ in 0..3 {
        let permit = manners.enter("a", deadline).await.unwrap();
        permit.report(&Reply::Late);
    }
    let refused = manners.enter("a", deadline).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "it failed 3 times and is left alone for 10 s"
    );
    tokio::time::sleep(10 * SECOND).await;
    let probe = manners.enter("a", deadline).await.unwrap();
    assert!(manners.enter("a", deadline).await.is_err());
    drop(probe);
    let probe = manners.enter("a", deadline).await.unwrap();
    assert_eq!(probe.report(&Reply::Nothing(404)), Some(Change::Returns));
    assert!(manners.enter("a", deadline).await.is_ok());
}
