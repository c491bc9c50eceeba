//! Manners towards archives: so many requests at a time, so many a second, and leaving an archive
//! alone that fails.
//!
//! ```text
//!            max_failures in a row, or Retry-After
//!   closed ────────────────────────────────────────► open: nobody asks
//!     ▲                                               │      ▲
//!     │ the probe succeeds               cooling ends │      │ the probe fails: cooling doubles
//!     └───────────────────────────── half open: one request is the probe
//! ```
//!
//! The state of an archive is kept by its id, so that it survives a change of the registry.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{ArchiveLimits, Registry, Reply};

/// What counts as a failure, and how an archive comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BreakerStyle {
    /// Network errors, 429 and 5xx count, `Retry-After` is honoured, and one request at a time probes
    /// whether the archive is back.
    #[default]
    Waypost,
    /// Only network errors count, and everyone asks again after the same time.
    MemGator,
}

/// The manners towards all archives.
#[derive(Debug, Default)]
pub struct Manners {
    style: BreakerStyle,
    states: Mutex<HashMap<String, Arc<State>>>,
}

/// How an archive is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// How many requests in a row have failed.
    pub failures: u32,
    /// How long it is still left alone.
    pub resting: Option<Duration>,
    /// How many requests are under way.
    pub running: usize,
}

/// Why an archive may not be asked now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It failed, and is left alone.
    #[error("it failed {failures} times and is left alone for {} s", wait.as_secs().max(1))]
    Resting {
        /// How often it failed in a row.
        failures: u32,
        /// For how long.
        wait: Duration,
    },
    /// It would be the turn of this request after its deadline.
    #[error("too many requests are waiting for it")]
    Busy,
}

/// A change that is worth a line in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The archive is left alone.
    Rests {
        /// How often it failed in a row.
        failures: u32,
        /// For how long.
        wait: Duration,
    },
    /// The archive is asked again by everyone.
    Returns,
}

impl Manners {
    /// Manners with no archives yet.
    pub fn new(style: BreakerStyle) -> Manners {
        Manners {
            style,
            states: Mutex::default(),
        }
    }

    /// Takes the limits of a registry. The state of archives that stay is kept, and so is that of those
    /// that go: lookups under way still ask them, and they may come back.
    pub fn update(&self, registry: &Registry) {
        let mut states = lock(&self.states);
        for archive in &registry.archives {
            match states.get(&archive.id) {
                Some(state) => state.set_limits(&archive.limits),
                None => {
                    let state = State::new(self.style, &archive.limits);
                    states.insert(archive.id.clone(), Arc::new(state));
                }
            }
        }
    }

    /// Waits until an archive may be asked, at most until the deadline.
    ///
    /// # Errors
    /// If the archive is left alone, or it would be too late.
    pub async fn enter(&self, id: &str, deadline: Instant) -> Result<Permit, Refusal> {
        let state = lock(&self.states).get(id).cloned();
        match state {
            Some(state) => state.enter(deadline).await,
            // It was never in a registry.
            None => Err(Refusal::Busy),
        }
    }

    /// How an archive is doing.
    pub fn standing(&self, id: &str) -> Standing {
        let state = lock(&self.states).get(id).cloned();
        state.map_or_else(Standing::default, |state| {
            let inner = lock(&state.inner);
            let used = inner.concurrency + inner.surplus;
            let mut standing = inner.breaker.standing(Instant::now());
            standing.running = used.saturating_sub(state.permits.available_permits());
            standing
        })
    }
}

/// The state of an archive.
#[derive(Debug)]
struct State {
    style: BreakerStyle,
    permits: Arc<Semaphore>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    breaker: Breaker,
    bucket: Bucket,
    concurrency: usize,
    /// Permits that are to be destroyed when they come back, because the limit was lowered.
    surplus: usize,
}

impl State {
    fn new(style: BreakerStyle, limits: &ArchiveLimits) -> State {
        State {
            style,
            permits: Arc::new(Semaphore::new(most(limits.concurrency))),
            inner: Mutex::new(Inner {
                breaker: Breaker::new(style, limits),
                bucket: Bucket::new(limits.rate),
                concurrency: most(limits.concurrency),
                surplus: 0,
            }),
        }
    }

    fn set_limits(&self, limits: &ArchiveLimits) {
        let mut inner = lock(&self.inner);
        inner.breaker.set_limits(limits);
        if inner.bucket.rate != limits.rate {
            inner.bucket = Bucket::new(limits.rate);
        }
        let (old, new) = (inner.concurrency, most(limits.concurrency));
        inner.concurrency = new;
        // Permits that were to be destroyed are kept first.
        let mut more = new.saturating_sub(old);
        let kept = more.min(inner.surplus);
        inner.surplus -= kept;
        more -= kept;
        self.permits.add_permits(more);
        let fewer = old.saturating_sub(new);
        inner.surplus += fewer - self.permits.forget_permits(fewer);
    }

    async fn enter(self: Arc<State>, deadline: Instant) -> Result<Permit, Refusal> {
        // Those who would be refused anyway do not wait.
        lock(&self.inner).breaker.check(Instant::now())?;
        let waiting = timeout_at(deadline, Arc::clone(&self.permits).acquire_owned());
        let permit = waiting.await.map_err(|_| Refusal::Busy)?;
        let permit = permit.map_err(|_| Refusal::Busy)?;
        let admission = lock(&self.inner).breaker.admit(Instant::now());
        let permit = Permit {
            state: self,
            permit: Some(permit),
            admission: *admission.as_ref().unwrap_or(&Admission::Usual),
            reported: admission.is_err(),
        };
        admission.map(|_| permit)
    }
}

/// The right to ask an archive. Given back when it is dropped.
#[derive(Debug)]
pub struct Permit {
    state: Arc<State>,
    permit: Option<OwnedSemaphorePermit>,
    admission: Admission,
    reported: bool,
}

impl Permit {
    /// Waits for the turn of one request, so that there are no more in a second than the rate.
    ///
    /// # Errors
    /// If that would be after the deadline.
    pub async fn turn(&self, deadline: Instant) -> Result<(), Refusal> {
        let turn = lock(&self.state.inner)
            .bucket
            .reserve(Instant::now(), deadline)
            .ok_or(Refusal::Busy)?;
        // The timer counts in milliseconds: even a time that is past would cost one.
        if turn > Instant::now() {
            sleep_until(turn).await;
        }
        Ok(())
    }

    /// The archive asked not to be asked for a while.
    pub fn retry_after(&self, wait: Duration) -> Option<Change> {
        lock(&self.state.inner)
            .breaker
            .pause(Instant::now(), wait, self.admission)
    }

    /// Reports how the conversation went. Without a report, nothing is concluded from it.
    pub fn report(mut self, reply: &Reply) -> Option<Change> {
        self.reported = true;
        let now = Instant::now();
        let breaker = &mut lock(&self.state.inner).breaker;
        match verdict(self.state.style, reply) {
            Verdict::Success => breaker.succeed(self.admission),
            Verdict::Failure => breaker.fail(now, self.admission),
            Verdict::Nothing => {
                breaker.abandon(now, self.admission);
                None
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut inner = lock(&self.state.inner);
        if !self.reported {
            inner.breaker.abandon(Instant::now(), self.admission);
        }
        if let Some(permit) = self.permit.take()
            && inner.surplus > 0
        {
            inner.surplus -= 1;
            permit.forget();
        }
    }
}

enum Verdict {
    Success,
    Failure,
    Nothing,
}

fn verdict(style: BreakerStyle, reply: &Reply) -> Verdict {
    match reply {
        Reply::Status(429 | 500..) if style == BreakerStyle::Waypost => Verdict::Failure,
        Reply::Late | Reply::Failed(_) => Verdict::Failure,
        Reply::Spared(_) => Verdict::Nothing,
        _ => Verdict::Success,
    }
}

/// Leaves an archive alone that fails.
#[derive(Debug)]
struct Breaker {
    style: BreakerStyle,
    max_failures: u32,
    first_cooling: Duration,
    max_cooling: Duration,
    /// In a row.
    failures: u32,
    /// How long it was last left alone; zero since it last worked.
    cooling: Duration,
    circuit: Circuit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Circuit {
    Closed,
    Open {
        until: Instant,
    },
    /// A probe is under way.
    HalfOpen,
}

/// How a request was let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    Usual,
    Probe,
}

impl Breaker {
    fn new(style: BreakerStyle, limits: &ArchiveLimits) -> Breaker {
        Breaker {
            style,
            max_failures: limits.max_failures,
            first_cooling: limits.cooling,
            max_cooling: limits.max_cooling.max(limits.cooling),
            failures: 0,
            cooling: Duration::ZERO,
            circuit: Circuit::Closed,
        }
    }

    fn set_limits(&mut self, limits: &ArchiveLimits) {
        self.max_failures = limits.max_failures;
        self.first_cooling = limits.cooling;
        self.max_cooling = limits.max_cooling.max(limits.cooling);
    }

    fn standing(&self, now: Instant) -> Standing {
        let resting = match self.circuit {
            Circuit::Open { until } => until.checked_duration_since(now),
            Circuit::Closed | Circuit::HalfOpen => None,
        };
        Standing {
            failures: self.failures,
            resting: resting.filter(|wait| !wait.is_zero()),
            running: 0,
        }
    }

    /// Whether a request would be let in.
    fn check(&self, now: Instant) -> Result<Admission, Refusal> {
        let failures = self.failures;
        match self.circuit {
            Circuit::Closed => Ok(Admission::Usual),
            Circuit::Open { until } if now < until => Err(Refusal::Resting {
                failures,
                wait: until - now,
            }),
            Circuit::Open { .. } => Ok(Admission::Probe),
            Circuit::HalfOpen => Err(Refusal::Resting {
                failures,
                wait: Duration::ZERO,
            }),
        }
    }

    /// Lets a request in.
    fn admit(&mut self, now: Instant) -> Result<Admission, Refusal> {
        match self.check(now)? {
            Admission::Probe if self.style == BreakerStyle::MemGator => {
                self.failures = 0;
                self.circuit = Circuit::Closed;
                Ok(Admission::Usual)
            }
            Admission::Probe => {
                self.circuit = Circuit::HalfOpen;
                Ok(Admission::Probe)
            }
            Admission::Usual => Ok(Admission::Usual),
        }
    }

    fn succeed(&mut self, admission: Admission) -> Option<Change> {
        match (self.circuit, admission) {
            (Circuit::Closed, _) => {
                self.failures = 0;
                self.cooling = Duration::ZERO;
                None
            }
            (Circuit::HalfOpen, Admission::Probe) => {
                self.failures = 0;
                self.cooling = Duration::ZERO;
                self.circuit = Circuit::Closed;
                Some(Change::Returns)
            }
            // It was asked before it was left alone: only a probe says that it is back.
            _ => None,
        }
    }

    fn fail(&mut self, now: Instant, admission: Admission) -> Option<Change> {
        let counts = match self.circuit {
            Circuit::Closed => true,
            Circuit::HalfOpen => admission == Admission::Probe,
            Circuit::Open { .. } => false,
        };
        if !counts {
            return None;
        }
        self.failures = self.failures.saturating_add(1);
        let enough = self.max_failures > 0 && self.failures >= self.max_failures;
        (enough || self.circuit == Circuit::HalfOpen).then(|| {
            let doubled = self.cooling.saturating_mul(2).max(self.first_cooling);
            self.cooling = match self.style {
                BreakerStyle::Waypost => doubled.min(self.max_cooling),
                BreakerStyle::MemGator => self.first_cooling,
            };
            self.open(now, self.cooling)
        })
    }

    /// The archive asked not to be asked for a while.
    fn pause(&mut self, now: Instant, wait: Duration, admission: Admission) -> Option<Change> {
        let stays = match self.circuit {
            Circuit::Open { .. } => true,
            Circuit::HalfOpen => admission == Admission::Usual,
            Circuit::Closed => false,
        };
        if stays || wait.is_zero() || self.style == BreakerStyle::MemGator {
            return None;
        }
        self.failures = self.failures.saturating_add(1);
        Some(self.open(now, wait.min(self.max_cooling)))
    }

    fn open(&mut self, now: Instant, wait: Duration) -> Change {
        self.circuit = Circuit::Open { until: now + wait };
        Change::Rests {
            failures: self.failures,
            wait,
        }
    }

    /// A request ended without saying anything about the archive: another one may be the probe.
    fn abandon(&mut self, now: Instant, admission: Admission) {
        if self.circuit == Circuit::HalfOpen && admission == Admission::Probe {
            self.circuit = Circuit::Open { until: now };
        }
    }
}

/// Spreads requests over time: a second's worth may come at once, then they come one by one.
#[derive(Debug)]
struct Bucket {
    rate: Option<f64>,
    /// When the bucket is full.
    full: Option<Instant>,
}

impl Bucket {
    fn new(rate: Option<f64>) -> Bucket {
        Bucket { rate, full: None }
    }

    /// The turn of a request that comes now; `None`, and nothing is reserved, if it is after the
    /// deadline.
    fn reserve(&mut self, now: Instant, deadline: Instant) -> Option<Instant> {
        let Some(rate) = self.rate else {
            return Some(now);
        };
        let one = Duration::try_from_secs_f64(1.0 / rate).unwrap_or(Duration::MAX);
        let burst = Duration::try_from_secs_f64((rate.floor() - 1.0).max(0.0) / rate);
        let full = self.full.map_or(now, |full| full.max(now));
        let turn = full.checked_sub(burst.unwrap_or_default()).unwrap_or(now);
        let turn = turn.max(now);
        if turn > deadline {
            return None;
        }
        // A rate of one in a century: there is no second one.
        self.full = Some(full.checked_add(one).unwrap_or(full + FOREVER));
        Some(turn)
    }
}

/// Longer than any server runs.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 86400);

fn most(concurrency: usize) -> usize {
    concurrency.clamp(1, Semaphore::MAX_PERMITS)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
