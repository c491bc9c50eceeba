//! When a failed request is repeated: after a wait that doubles, or when the server says.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use waypost_io::{Error, ErrorKind};

use crate::client::ClientOptions;

/// Why an attempt failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Another attempt would fail, too.
    Final(Error),
    /// Another attempt may succeed, after a wait if the server asks for one.
    Again {
        error: Error,
        after: Option<Duration>,
    },
    /// The attempt failed after it got further than those before. Attempts are counted anew.
    Further(Error),
}

/// The waits between the attempts of one request.
pub(crate) struct Waits {
    attempts: u32,
    most_attempts: u32,
    next: Duration,
    left: Duration,
    /// The wait that was asked for and would be too long.
    refused: Option<Duration>,
}

impl Waits {
    pub(crate) fn new(options: &ClientOptions) -> Waits {
        Waits {
            attempts: 1,
            most_attempts: options.attempts.max(1),
            next: options.first_wait,
            left: options.longest_wait,
            refused: None,
        }
    }

    /// How long to wait before the next attempt. `None` if there should be no other one. `after` is
    /// what the server asks for.
    pub(crate) fn next(&mut self, after: Option<Duration>) -> Option<Duration> {
        if self.attempts >= self.most_attempts {
            return None;
        }
        if let Some(after) = after.filter(|after| *after > self.left) {
            self.refused = Some(after);
            return None;
        }
        // Never sooner than the server asks for, and not all clients at the same moment.
        let wait = jittered(self.next).max(after.unwrap_or_default());
        let wait = wait.min(self.left);
        self.next = self.next.saturating_mul(2);
        self.left = self.left.saturating_sub(wait);
        self.attempts += 1;
        Some(wait)
    }

    /// The last error, with the number of attempts.
    pub(crate) fn given_up(&self, error: Error) -> Error {
        let (kind, place) = error.into_parts();
        let ErrorKind::Remote { problem, detail } = kind else {
            return Error::at(kind, place);
        };
        let detail = match (self.refused, self.attempts) {
            (Some(wait), _) => format!("{detail}, and asks to wait {} s", wait.as_secs()),
            (None, 1) => detail,
            (None, attempts) => format!("{detail} ({attempts} attempts)"),
        };
        Error::at(ErrorKind::Remote { problem, detail }, place)
    }
}

/// Between three quarters and five quarters of `wait`.
fn jittered(wait: Duration) -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let noise = now.map_or(0, |now| now.subsec_micros() % 512);
    wait.mul_f64(0.75 + f64::from(noise) / 1024.0)
}

/// A time until which no request is sent, because the server asked for it.
#[derive(Default)]
pub(crate) struct Pause {
    until: Mutex<Option<Instant>>,
}

impl Pause {
    pub(crate) fn extend(&self, wait: Duration) {
        let end = Instant::now() + wait;
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = Some(until.map_or(end, |until| until.max(end)));
    }

    pub(crate) async fn wait(&self) {
        loop {
            let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
            match until.filter(|until| *until > Instant::now()) {
                Some(until) => tokio::time::sleep_until(until).await,
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_are_bounded_in_number_and_time() {
        let options = ClientOptions {
            attempts: 20,
            first_wait: Duration::from_secs(1),
            longest_wait: Duration::from_secs(60),
            ..ClientOptions::default()
        };
        let mut waits = Waits::new(&options);
        let mut all = Vec::new();
        while let Some(wait) = waits.next(None) {
            all.push(wait);
        }
        assert_eq!(all.len(), 19);
        assert!(all[0] >= Duration::from_millis(750) && all[0] <= Duration::from_millis(1250));
        assert!(all[3] > all[0]);
        assert!(all.iter().sum::<Duration>() <= options.longest_wait);
    }

    #[test]
    fn the_server_decides_how_long_to_wait_unless_that_is_too_long() {
        let mut waits = Waits::new(&ClientOptions::default());
        let asked = Duration::from_secs(7);
        assert_eq!(waits.next(Some(asked)), Some(asked));
        assert_eq!(waits.next(Some(Duration::from_secs(3600))), None);
    }
}
