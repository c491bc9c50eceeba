//! Code that is compiled several times: for any processor, and for those that count the bits of
//! several words at once. The only module of this crate with `unsafe` code.
//!
//! A lookup counts bits, and the x86-64 baseline has no instruction for it. Most processors in use
//! have one, which is found out when the program runs. All versions are compiled from the same
//! source, apart from how the parity of words is computed, and a test compares their answers.
#![allow(
    unsafe_code,
    reason = "the compiler cannot know that the processor was checked"
)]

/// How the parity of words is computed.
pub(crate) trait Parity {
    /// Whether any of these words has an odd number of bits.
    fn any_odd<const N: usize>(words: [u64; N]) -> bool;
}

/// Work that needs [`Parity`].
pub(crate) trait Work {
    type Output;
    /// Does the work. Must be inlined, and so must everything that it calls: what is not inlined is
    /// compiled for any processor.
    fn run<P: Parity>(self) -> Self::Output;
}

/// What a processor can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Processor {
    /// Private, so that it says more than `Any` only if that was checked.
    level: Level,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Any,
    /// Counts the bits of words, and works on four words at once.
    #[cfg(target_arch = "x86_64")]
    Four,
    /// Counts the bits of eight words at once.
    #[cfg(target_arch = "x86_64")]
    Eight,
}

impl Processor {
    /// What the processor that runs this can do.
    pub(crate) fn detect() -> Processor {
        Processor::all()
            .last()
            .unwrap_or(Processor { level: Level::Any })
    }

    /// All that the processor that runs this can be used as, in ascending order.
    pub(crate) fn all() -> impl Iterator<Item = Processor> {
        let levels = [
            Some(Level::Any),
            #[cfg(target_arch = "x86_64")]
            has_four().then_some(Level::Four),
            #[cfg(target_arch = "x86_64")]
            (has_four() && has_eight()).then_some(Level::Eight),
        ];
        levels
            .into_iter()
            .flatten()
            .map(|level| Processor { level })
    }

    /// Does the work as this processor does it best.
    #[inline(always)]
    pub(crate) fn run<W: Work>(self, work: W) -> W::Output {
        match self.level {
            Level::Any => any(work),
            // SAFETY: `all` checked that the processor has these features.
            #[cfg(target_arch = "x86_64")]
            Level::Four => unsafe { four(work) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Eight => unsafe { eight(work) },
        }
    }
}

#[inline(never)]
fn any<W: Work>(work: W) -> W::Output {
    work.run::<Folded>()
}

#[cfg(target_arch = "x86_64")]
fn has_four() -> bool {
    is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("avx2")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt,bmi1,bmi2,avx2")]
fn four<W: Work>(work: W) -> W::Output {
    work.run::<Counted>()
}

#[cfg(target_arch = "x86_64")]
fn has_eight() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vpopcntdq")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt,bmi1,bmi2,avx2,avx512f,avx512vl,avx512vpopcntdq")]
fn eight<W: Work>(work: W) -> W::Output {
    work.run::<Counted>()
}

/// By an instruction that counts bits.
#[cfg(target_arch = "x86_64")]
struct Counted;

#[cfg(target_arch = "x86_64")]
impl Parity for Counted {
    #[inline(always)]
    fn any_odd<const N: usize>(words: [u64; N]) -> bool {
        let mut any = 0;
        for word in words {
            any |= word.count_ones();
        }
        any & 1 == 1
    }
}

/// By folding words until one bit is left.
pub(crate) struct Folded;

impl Parity for Folded {
    #[inline(always)]
    fn any_odd<const N: usize>(words: [u64; N]) -> bool {
        // Every step halves the bits whose parity matters; they end up in the highest bit.
        let mut lanes = words.map(|word| (word ^ word >> 32) as u32);
        for shift in [16, 8, 4, 2, 1] {
            lanes = lanes.map(|lane| lane ^ lane << shift);
        }
        lanes.into_iter().fold(0, |all, lane| all | lane) >> 31 == 1
    }
}
