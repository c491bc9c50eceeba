//! Tells clients what happens, as server-sent events.
//!
//! Events are sent through a buffer of fixed size that all clients share. A client that does not read
//! loses the oldest events; nobody waits for it.

use bytes::Bytes;
use futures_util::Stream;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};

/// How many events are kept for clients that are slow.
const BUFFERED: usize = 1024;

/// Sends events to all clients.
#[derive(Debug)]
pub struct Monitor(Sender<Bytes>);

impl Default for Monitor {
    fn default() -> Monitor {
        Monitor(Sender::new(BUFFERED))
    }
}

impl Monitor {
    /// Sends an event to those who listen. The event is not made if nobody does.
    pub(crate) fn send(&self, event: impl FnOnce() -> String) {
        if self.clients() > 0 {
            // The last client may have left meanwhile.
            let _ = self.0.send(event().into());
        }
    }

    /// The events from now on.
    pub fn subscribe(&self) -> Events {
        Events(self.0.subscribe())
    }

    /// The number of clients.
    pub fn clients(&self) -> usize {
        self.0.receiver_count()
    }
}

/// The events for a client.
#[derive(Debug)]
pub struct Events(Receiver<Bytes>);

impl Events {
    /// The events as a stream.
    pub(crate) fn stream(self) -> impl Stream<Item = Bytes> {
        futures_util::stream::unfold(self, |mut events| async move {
            let event = events.next().await?;
            Some((event, events))
        })
    }

    /// The next event; `None` when there are no more.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.0.recv().await {
                Ok(event) => return Some(event),
                // It was too slow: it goes on with the oldest event that is left.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_that_does_not_read_slows_nobody() {
        let monitor = Monitor::default();
        monitor.send(|| unreachable!("nobody listens"));
        let (mut stalled, mut reading) = (monitor.subscribe(), monitor.subscribe());
        for number in 0..100_000 {
            monitor.send(|| number.to_string());
            assert_eq!(reading.next().await.unwrap(), number.to_string());
        }
        let first: usize = std::str::from_utf8(&stalled.next().await.unwrap())
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!(first, 100_000 - BUFFERED);
        drop((stalled, reading));
        assert_eq!(monitor.clients(), 0);
    }
}
