//! The identity of a text: its length, and the hash of all of it.

use std::ops::Range;
use std::sync::mpsc::sync_channel;
use std::thread;

use waypost_io::Mapped;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// The identity of a text.
pub(super) type Stamp = [u8; 24];

/// How many parts of a text wait to be hashed. They should still be in the cache of the processor.
const WAITING: usize = 4;

/// Computes the identity of a text.
pub(super) fn of(text: &[u8]) -> Stamp {
    stamp(text.len(), xxh3_128(text))
}

/// Computes the identity of a text on another thread while `read` reads it. `read` passes on each part
/// of the text that it has read, in order, and leaves it to the other thread to release its memory.
/// Unless every part was passed on, the stamp is wrong.
pub(super) fn while_reading<T>(
    text: &Mapped,
    read: impl FnOnce(&mut dyn FnMut(Range<usize>)) -> T,
) -> (T, Stamp) {
    let (send, parts) = sync_channel::<Range<usize>>(WAITING);
    thread::scope(|scope| {
        let hashing = scope.spawn(move || {
            let (mut hash, mut length) = (Xxh3::new(), 0);
            for part in parts {
                hash.update(&text[part.clone()]);
                length += part.len();
                text.release(part);
            }
            stamp(length, hash.digest128())
        });
        let done = read(&mut |part| {
            // The other thread is there until `send` is gone.
            let _ = send.send(part);
        });
        drop(send);
        match hashing.join() {
            Ok(stamp) => (done, stamp),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn stamp(length: usize, hash: u128) -> Stamp {
    let mut stamp = [0; 24];
    stamp[..8].copy_from_slice(&(length as u64).to_le_bytes());
    stamp[8..].copy_from_slice(&hash.to_le_bytes());
    stamp
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_give_the_identity_of_the_whole(
            text in prop::collection::vec(any::<u8>(), 0..3000),
            size in 1..700usize,
        ) {
            let text = Mapped::from(text);
            let starts = || (0..text.len()).step_by(size);
            let pass = |start, passed: &mut dyn FnMut(Range<usize>)| passed(start..text.len().min(start + size));
            let ((), whole) = while_reading(&text, |passed| starts().for_each(|start| pass(start, passed)));
            prop_assert_eq!(whole, of(&text));
            let ((), rest) = while_reading(&text, |passed| starts().skip(1).for_each(|start| pass(start, passed)));
            prop_assert_eq!(rest == whole, text.is_empty());
        }
    }
}
