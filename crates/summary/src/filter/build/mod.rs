//! Building filters: from captures and URIs, from hashes, from other filters.
//!
//! | file | subject |
//! |---|---|
//! | `ribbons.rs`, `blooms.rs`, `hashes.rs` | the shards of each kind |
//! | `change.rs` | filters from other filters |

mod blooms;
mod change;
mod hashes;
mod ribbons;

use std::io;
use std::path::Path;

use waypost_index::Select;
use waypost_index::timestamp::Time;
use waypost_io::Resources;
use waypost_io::progress::Progress;
use waypost_surt::{Dialect, Policy};

use super::format::{self, Destination, Head, Kind, Metadata};
use super::hash::{HashFunction, Hasher};
use super::input::{self, Hashed, Hashing, Input, Reading};
use super::read::Filter;
use super::ribbon;
use super::run::Run;
use super::size::{self, Budget};
use super::summary::YEAR;
use crate::error::{Error, Result};
use crate::scope::Scopes;

pub(crate) use blooms::blocks_entry;
pub use change::{add, exclude, merge};
pub(crate) use ribbons::ribbons;

/// Options for a filter.
#[derive(Clone, Debug, Default)]
pub struct Recipe {
    /// The kind.
    pub kind: Kind,
    /// The size or the rate.
    pub budget: Budget,
    /// The number of keys that a Bloom filter is sized for, if it is more than there are now.
    pub capacity: u64,
    /// Metadata given by the user.
    pub metadata: Metadata,
    /// Limits on memory and threads, and the folder for temporary files.
    pub resources: Resources,
    /// Where to report progress.
    pub progress: Progress,
}

/// The result of building a filter.
#[derive(Clone, Debug, PartialEq)]
pub struct BuildReport {
    /// Its head.
    pub head: Head,
    /// Its size.
    pub bytes: u64,
}

impl BuildReport {
    /// Bits per key.
    pub fn bits_per_key(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.head.count.max(1) as f64
    }
}

/// How keys are made: what a filter and its lookups must agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    hash: HashFunction,
    fingerprint: Option<super::Fingerprint>,
    dialect: Dialect,
    policy: Policy,
}

impl Keys {
    /// Keys with this hash, dialect and policy.
    pub fn new(hasher: Hasher, dialect: Dialect, policy: Policy) -> Keys {
        let hash = hasher.function();
        Keys {
            hash,
            fingerprint: (hash == HashFunction::SipHash).then(|| hasher.fingerprint()),
            dialect,
            policy,
        }
    }

    fn of(filter: &Filter) -> Keys {
        let head = filter.head();
        Keys {
            hash: head.hash,
            fingerprint: head.fingerprint,
            dialect: head.dialect,
            policy: head.policy,
        }
    }

    pub(crate) fn head(self, kind: Kind, count: u64) -> Head {
        Head {
            kind,
            hash: self.hash,
            fingerprint: self.fingerprint,
            dialect: self.dialect,
            policy: self.policy,
            count,
            estimated: false,
            rate: 0.0,
            capacity: count,
        }
    }
}

/// Builds a filter of the whole input.
///
/// # Errors
/// If the input can't be read, the filter can't be written, or the recipe is invalid.
pub fn build(input: Input<'_>, recipe: &Recipe, out: &Path) -> Result<(BuildReport, Reading)> {
    // Reports invalid options before hours are spent.
    if recipe.kind == Kind::Ribbon && !matches!(recipe.budget, Budget::Bytes(_)) {
        size::width(recipe.budget, 1)?;
    }
    format::check_place(out)?;
    let keys = Keys::new(input.hasher, input.dialect, input.policy);
    let scopes = Scopes::of(&input.select);
    let (run, reading) = input::read(input)?;
    let mut recipe = recipe.clone();
    describe(&reading, &scopes, keys.hash, &mut recipe.metadata)?;
    let made = encode(&run, keys, &recipe, out)?;
    Ok((made, reading))
}

/// Builds a filter from hashes that were gathered with these capture filters.
///
/// # Errors
/// If the filter can't be written, or the recipe is invalid.
pub fn write(
    hashing: &Hashing,
    hashed: Hashed,
    reading: &Reading,
    select: &Select,
    keys: Keys,
    recipe: &Recipe,
    out: &Path,
) -> Result<BuildReport> {
    format::check_place(out)?;
    let mut recipe = recipe.clone();
    describe(
        reading,
        &Scopes::of(select),
        keys.hash,
        &mut recipe.metadata,
    )?;
    encode(&hashed.finish(hashing)?, keys, &recipe, out)
}

/// Builds a filter from hashes, as [`Hashing::collect`] gathers them, and writes it to `out`.
///
/// ```
/// use waypost_io::Resources;
/// use waypost_summary::filter::{self, Filter, Hasher, Hashing, Keyer, Keys, Recipe};
/// use waypost_summary::holdings::Counts;
/// use waypost_surt::{Dialect, Policy, Surt};
///
/// let keyer = Keyer::new(Dialect::Ia, Policy::Whole, Hasher::Public);
/// let hashing = Hashing::new(keyer, Dialect::Ia, &Resources::default());
/// let held = [(Surt::new(b"com,example)/"), Counts::of_captures(3))];
/// let hashed = hashing.collect(held)?;
/// let keys = Keys::new(Hasher::Public, Dialect::Ia, Policy::Whole);
/// let mut bytes = Vec::new();
/// filter::write_to(&hashing, hashed, keys, &Recipe::default(), &mut bytes)?;
///
/// let filter = Filter::from_bytes(bytes)?;
/// let mut keyer = Keyer::of(&filter)?;
/// assert!(filter.contains(keyer.hash(b"http://www.example.com/")?)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the filter can't be written, or the recipe is invalid.
pub fn write_to(
    hashing: &Hashing,
    hashed: Hashed,
    keys: Keys,
    recipe: &Recipe,
    mut out: impl io::Write,
) -> Result<BuildReport> {
    let run = hashed.finish(hashing)?;
    encode(&run, keys, recipe, Destination::Writer(&mut out))
}

/// Fills in metadata from the input where the user gave none: dates come from captures, never from
/// the clock. Keyed filters, which anyone may read, name only years.
pub(crate) fn describe(
    reading: &Reading,
    scopes: &Scopes,
    hash: HashFunction,
    metadata: &mut Metadata,
) -> Result<()> {
    let is_keyed = hash == HashFunction::SipHash;
    if let (Some(first), Some(last)) = (reading.first, reading.last) {
        let to = |length: usize, time: Time| match is_keyed {
            true => time.to_string()[..YEAR].to_owned(),
            false => time.to_string()[..length].replace(' ', "T"),
        };
        if metadata.get("date").is_empty() {
            metadata.add("date", &to("2021-12-15".len(), last))?;
        }
        if metadata.get("coverage").is_empty() {
            // To the second: the newer of two summaries of an archive decides.
            let zone = if is_keyed { "" } else { "Z" };
            let second = |time| to("2021-12-15 10:00:00".len(), time) + zone;
            let span = format!("{}/{}", second(first), second(last));
            metadata.add("coverage", &span)?;
        }
    }
    describe_scopes(scopes, metadata)
}

/// Records the scope of a filter.
fn describe_scopes(scopes: &Scopes, metadata: &mut Metadata) -> Result<()> {
    for scope in scopes.iter() {
        metadata.add("coverage", &format!("{}{scope}", super::summary::SCOPE))?;
    }
    Ok(())
}

/// Writes the filter of a run.
pub(crate) fn encode<'a>(
    run: &Run,
    keys: Keys,
    recipe: &Recipe,
    out: impl Into<Destination<'a>>,
) -> Result<BuildReport> {
    let mut head = keys.head(recipe.kind, run.count());
    let metadata = recipe.metadata.encode().len() as u64;
    let bytes = match recipe.kind {
        Kind::Ribbon => {
            let budget = match recipe.budget {
                Budget::Bytes(most) => Budget::Bytes(most.saturating_sub(metadata)),
                budget => budget,
            };
            let mut width = size::width(budget, run.count())?;
            let (writer, rate) = loop {
                let (writer, rate) = ribbons(&[(width, run)], recipe)?;
                let size = writer.size(Kind::Ribbon, &recipe.metadata)?;
                let over = match recipe.budget {
                    Budget::Bytes(most) => size.saturating_sub(most),
                    _ => 0,
                };
                if over == 0 {
                    break (writer, rate);
                }
                // The number of keys in each shard, and so its size, was not known before.
                let less = over as f64 * 8.0 / run.count().max(1) as f64 + 0.002;
                width = ribbon::Width::of_bits(width.bits() - less).ok_or_else(|| {
                    Error::invalid(format!(
                        "{} keys do not fit in {} bytes: the smallest filter takes {size}",
                        run.count(),
                        size - over
                    ))
                })?;
            };
            head.rate = rate;
            writer.finish(&head, &recipe.metadata, out)?
        }
        Kind::Bloom => {
            head.capacity = run.count().max(recipe.capacity);
            let mut blocks = size::blocks(recipe.budget, head.capacity, metadata)?;
            let filled = loop {
                let filled = blooms::fill(run, blocks, None, recipe)?;
                match recipe.budget {
                    Budget::Rate(most) if filled.rate > most => blocks += blocks / 64 + 1,
                    _ => break filled,
                }
            };
            head.rate = filled.rate;
            filled.writer.finish(&head, &recipe.metadata, out)?
        }
        Kind::Hashes => {
            head.rate = run.count() as f64 * 0.5f64.powi(128);
            hashes::write(run, &head, recipe, out)?
        }
    };
    Ok(BuildReport { head, bytes })
}
