//! The first 128 bytes: the kind of the filter, how its keys were made, and how much follows.

use std::fmt;
use std::str::FromStr;

use waypost_surt::{Dialect, Policy};
use xxhash_rust::xxh3::Xxh3Default;

use crate::error::{Error, Result};
use crate::filter::hash::{Fingerprint, HashFunction};

/// The magic number.
pub(crate) const MAGIC: [u8; 8] = *b"WPFILTER";
/// The version that is written, and the only one that is read.
pub(crate) const VERSION: u16 = 4;
/// The length of the head.
pub(crate) const LENGTH: usize = 128;
/// The offset of its checksum.
const CHECKSUM: usize = 120;
/// The maximum length of metadata: nobody needs more, and a hostile file must not demand more.
pub(crate) const LONGEST_METADATA: u32 = 1 << 20;

/// The kinds of filters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Homogeneous ribbon: the smallest, can't be changed.
    #[default]
    Ribbon,
    /// Blocked Bloom: can be added to and merged.
    Bloom,
    /// The sorted hashes themselves: every other filter can be built from them.
    Hashes,
}

impl Kind {
    /// All of them, the default first.
    pub const ALL: [Kind; 3] = [Kind::Ribbon, Kind::Bloom, Kind::Hashes];

    /// The name used in options.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ribbon => "ribbon",
            Kind::Bloom => "bloom",
            Kind::Hashes => "hashes",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Kind> {
        Kind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| {
                Error::invalid(format!(
                    "invalid kind of filter `{name}`: one of ribbon, bloom, hashes"
                ))
            })
    }
}

/// The properties of a filter, without its metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// Which kind it is.
    pub kind: Kind,
    /// The hash function.
    pub hash: HashFunction,
    /// The fingerprint of the secret key; `None` without one.
    pub fingerprint: Option<Fingerprint>,
    /// The dialect of the SURTs.
    pub dialect: Dialect,
    /// The policy of the keys.
    pub policy: Policy,
    /// Number of distinct held keys.
    pub count: u64,
    /// Whether `count` is an estimate, as for Bloom filters that were merged or added to.
    pub estimated: bool,
    /// The false positive rate. With several widths, that of the narrowest.
    pub rate: f64,
    /// The number of keys that a Bloom filter was sized for; for other kinds, `count`.
    pub capacity: u64,
}

/// The rest of the head: how much follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) metadata: u32,
    pub(crate) shards: u32,
    /// The size in bytes of the starts of the buckets of all shards.
    pub(crate) starts: u32,
    pub(crate) padded: bool,
}

impl Extent {
    /// The offset of the shards, before padding.
    pub(crate) fn end(self) -> u64 {
        LENGTH as u64
            + u64::from(self.metadata)
            + u64::from(self.shards) * super::table::ENTRY as u64
            + u64::from(self.starts)
    }
}

impl Head {
    /// The bytes of the head. `rest` is metadata, table and starts of buckets, which the checksum
    /// also covers.
    pub(crate) fn encode(&self, extent: Extent, rest: &[&[u8]]) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &MAGIC);
        put(8, &VERSION.to_le_bytes());
        put(
            10,
            &[match self.kind {
                Kind::Bloom => 2,
                Kind::Hashes => 3,
                Kind::Ribbon => 4,
            }],
        );
        put(
            11,
            &[match self.hash {
                HashFunction::Xxh3 => 1,
                HashFunction::SipHash => 2,
            }],
        );
        put(
            12,
            &[Dialect::ALL
                .iter()
                .position(|dialect| *dialect == self.dialect)
                .map_or(0, |place| place as u8 + 1)],
        );
        put(
            13,
            &[u8::from(self.estimated) | u8::from(extent.padded) << 1],
        );
        put(16, &self.count.to_le_bytes());
        put(24, &self.capacity.to_le_bytes());
        put(32, &self.rate.to_le_bytes());
        put(40, &self.fingerprint.unwrap_or(Fingerprint::NONE).0);
        put(56, &extent.metadata.to_le_bytes());
        put(60, &extent.shards.to_le_bytes());
        put(64, self.policy.to_string().as_bytes());
        put(96, &extent.starts.to_le_bytes());
        let checksum = checksum(&bytes, rest);
        bytes[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Parses a head without verifying its checksum, which also needs the rest.
    pub(crate) fn decode(bytes: &[u8; LENGTH]) -> Result<(Head, Extent)> {
        if bytes[..8] != MAGIC {
            return Err(Error::format("not a filter"));
        }
        let version = u16::from_le_bytes(array(bytes, 8));
        if version != VERSION {
            return Err(Error::format(format!(
                "filter of version {version}: only version {VERSION} is supported"
            )));
        }
        let damaged = |what: &str| Error::format(format!("the head is damaged: {what}"));
        let kind = match bytes[10] {
            2 => Kind::Bloom,
            3 => Kind::Hashes,
            4 => Kind::Ribbon,
            _ => return Err(damaged("unknown kind")),
        };
        let hash = match bytes[11] {
            1 => HashFunction::Xxh3,
            2 => HashFunction::SipHash,
            _ => return Err(damaged("unknown hash")),
        };
        let dialect = match bytes[12] {
            1 => Dialect::Ia,
            2 => Dialect::CommonCrawl,
            3 => Dialect::CommonCrawlLegacy,
            4 => Dialect::Webrecorder,
            5 => Dialect::WebrecorderLegacy,
            _ => return Err(damaged("unknown dialect")),
        };
        let reserved = [&bytes[14..16], &bytes[100..CHECKSUM]].concat();
        if bytes[13] & !3 != 0 || reserved.iter().any(|&byte| byte != 0) {
            return Err(damaged("reserved bytes are not zero"));
        }
        let fingerprint = Fingerprint(array(bytes, 40));
        let keyed = fingerprint != Fingerprint::NONE;
        if keyed != (hash == HashFunction::SipHash) {
            return Err(damaged(
                "a key without a keyed hash, or the other way round",
            ));
        }
        let name = bytes[64..96]
            .split(|&byte| byte == 0)
            .next()
            .unwrap_or_default();
        let policy = std::str::from_utf8(name)
            .ok()
            .and_then(|name| name.parse().ok())
            .ok_or_else(|| damaged("unknown policy"))?;
        let rate = f64::from_le_bytes(array(bytes, 32));
        if !(0.0..=1.0).contains(&rate) {
            return Err(damaged("invalid false positive rate"));
        }
        let extent = Extent {
            metadata: u32::from_le_bytes(array(bytes, 56)),
            shards: u32::from_le_bytes(array(bytes, 60)),
            starts: u32::from_le_bytes(array(bytes, 96)),
            padded: bytes[13] & 2 != 0,
        };
        if extent.metadata > LONGEST_METADATA {
            return Err(damaged("more than 1 MiB of metadata"));
        }
        let head = Head {
            kind,
            hash,
            fingerprint: keyed.then_some(fingerprint),
            dialect,
            policy,
            count: u64::from_le_bytes(array(bytes, 16)),
            estimated: bytes[13] & 1 != 0,
            rate,
            capacity: u64::from_le_bytes(array(bytes, 24)),
        };
        Ok((head, extent))
    }
}

/// The expected checksum of the head.
pub(crate) fn checksum(head: &[u8; LENGTH], rest: &[&[u8]]) -> u64 {
    let mut hasher = Xxh3Default::new();
    hasher.update(&head[..CHECKSUM]);
    for part in rest {
        hasher.update(part);
    }
    hasher.digest()
}

/// The stored checksum of the head.
pub(crate) fn stated_checksum(head: &[u8; LENGTH]) -> u64 {
    u64::from_le_bytes(array(head, CHECKSUM))
}

/// `N` bytes at an offset that is always within bounds.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}
