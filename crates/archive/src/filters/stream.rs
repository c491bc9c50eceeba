//! Bodies of requests: batches that are answered while they arrive, or read as a whole.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http_body::Body;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};

use super::batch::{self, Answered};
use super::metrics::Metrics;
use super::snapshot::Snapshot;
use crate::failure::Failure;
use crate::reply::cores;

/// Blocks of this size are answered at once.
pub(super) const BLOCK: usize = 256 << 10;

/// The next bytes of a body; `None` at its end.
async fn next<B>(body: &mut B) -> Result<Option<Bytes>, Failure>
where
    B: Body<Data = Bytes> + Unpin,
{
    loop {
        let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
        match frame {
            None => return Ok(None),
            Some(Err(_)) => return Err(Failure::Gone),
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    return Ok(Some(bytes));
                }
            }
        }
    }
}

/// All bytes of a body.
pub(super) async fn read_all<B>(mut body: B, most: usize) -> Result<Vec<u8>, Failure>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut all = Vec::new();
    while let Some(bytes) = next(&mut body).await? {
        if all.len() + bytes.len() > most {
            return Err(Failure::TooMany);
        }
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

type Answering = JoinHandle<Answered>;

/// A batch that is being answered.
pub(super) struct BatchTask {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) most_bytes: usize,
    /// Blocks in order.
    pub(super) running: VecDeque<Answering>,
    pub(super) sender: mpsc::Sender<Result<Bytes, Failure>>,
}

impl BatchTask {
    pub(super) async fn run<B>(mut self, mut body: B) -> Result<(), Failure>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let mut block: Vec<u8> = Vec::with_capacity(BLOCK + (64 << 10));
        let (mut all, mut first) = (0, 1);
        while let Some(bytes) = next(&mut body).await? {
            all += bytes.len();
            if all > self.most_bytes {
                return Err(Failure::TooMany);
            }
            block.extend_from_slice(&bytes);
            if block.len() >= BLOCK
                && let Some(end) = memchr::memrchr(b'\n', &block)
            {
                let rest = block.split_off(end + 1);
                let whole = std::mem::replace(&mut block, rest);
                first = self.start(whole, first);
                while self.running.len() > 2 * cores() {
                    self.finish_one().await?;
                }
            }
        }
        self.start(block, first);
        while !self.running.is_empty() {
            self.finish_one().await?;
        }
        Ok(())
    }

    /// Starts to answer a block. Returns the number of the line after it.
    fn start(&mut self, block: Vec<u8>, first: u64) -> u64 {
        let after = first + memchr::memchr_iter(b'\n', &block).count() as u64;
        let snapshot = Arc::clone(&self.snapshot);
        self.running.push_back(spawn_blocking(move || {
            batch::answer(&snapshot, &block, first)
        }));
        after
    }

    async fn finish_one(&mut self) -> Result<(), Failure> {
        let Some(answering) = self.running.pop_front() else {
            return Ok(());
        };
        match answering.await {
            Ok(answered) => {
                self.metrics.lookups.inc_by(answered.lookups);
                self.metrics.present.inc_by(answered.present);
                if answered.text.is_empty() {
                    return Ok(());
                }
                let sent = self.sender.send(Ok(answered.text.into())).await;
                sent.map_err(|_| Failure::Gone)
            }
            Err(_) => Err(Failure::CutOff),
        }
    }
}
