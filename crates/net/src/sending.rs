//! Disconnects clients that do not read their answers.
//!
//! A client may make the server wait for a while; how long grows again with what it reads. One that
//! reads nothing is disconnected after that while, and one that always reads a little, soon after.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// A connection that fails if its peer reads too slowly.
pub(crate) struct Sending<S> {
    stream: S,
    /// How long to wait at most.
    timeout: Duration,
    /// The time that it takes to read a byte at the least rate.
    per_byte: Duration,
    /// How long it may make us wait from now on.
    left: Duration,
    /// Since when the peer has been waited for, and when it has taken too long.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<S> Sending<S> {
    /// Waits for `timeout`, and for peers that read `least_rate` bytes a second or more for ever.
    pub(crate) fn new(stream: S, timeout: Duration, least_rate: u32) -> Sending<S> {
        Sending {
            stream,
            timeout,
            per_byte: Duration::from_secs(1) / least_rate.max(1),
            left: timeout,
            waiting: None,
        }
    }

    /// Passes on the result of a write, unless it has to be waited for too long.
    fn watch(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(written) => {
                if let Some((since, _)) = self.waiting.take() {
                    self.left = self.left.saturating_sub(since.elapsed());
                }
                if let Ok(bytes) = written {
                    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                    let earned = self.per_byte.saturating_mul(bytes);
                    self.left = self.left.saturating_add(earned).min(self.timeout);
                }
                Poll::Ready(written)
            }
            Poll::Pending => {
                let left = self.left;
                let (_, end) = self.waiting.get_or_insert_with(|| {
                    let now = Instant::now();
                    (now, Box::pin(sleep_until(now + left)))
                });
                ready!(end.as_mut().poll(context));
                Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the client reads too slowly",
                )))
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Sending<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Sending<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let sending = self.get_mut();
        let written = Pin::new(&mut sending.stream).poll_write(context, bytes);
        sending.watch(context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let sending = self.get_mut();
        let written = Pin::new(&mut sending.stream).poll_write_vectored(context, bytes);
        sending.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Sends a megabyte to a peer that reads `step` bytes every `pause`. Time is simulated.
    fn send(step: usize, pause: Duration) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let (ours, mut theirs) = tokio::io::duplex(4096);
            let reading = tokio::spawn(async move {
                let mut buffer = vec![0; step];
                loop {
                    tokio::time::sleep(pause).await;
                    if step > 0 && theirs.read(&mut buffer).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
            });
            let mut sending = Sending::new(ours, Duration::from_secs(30), 1000);
            let sent = sending.write_all(&vec![0; 1 << 20]).await;
            reading.abort();
            sent
        })
    }

    #[test]
    fn who_reads_too_slowly_is_disconnected_and_nobody_else() {
        let second = Duration::from_secs(1);
        assert!(send(1100, second).is_ok());
        assert!(send(4000, 3 * second).is_ok());
        for (step, pause) in [(0, second), (800, second), (100, second / 10 * 2)] {
            let error = send(step, pause).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{step}");
        }
    }
}
