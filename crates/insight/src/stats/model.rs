//! The statistics of an archive, as they are printed, written and compared.
//!
//! docs/formats/stats.md describes the JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use waypost_summary::PowerFit;

/// What an archive holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// `waypost-stats`.
    pub format: String,
    /// The version of the format.
    pub version: u32,
    /// The name of the archive or of the first input.
    pub name: String,
    /// How exact the numbers are, if they are estimates.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approximation: Option<Approximation>,
    /// Totals.
    pub totals: Totals,
    /// Lines that are not captures, by kind.
    pub bad_lines: Vec<Kind>,
    /// Rows that are not captures of the Web, by kind.
    pub non_web: Vec<Kind>,
    /// Captures per URI-R.
    pub distribution: Distribution,
    /// The most captured URI-Rs.
    pub top_urirs: Vec<Place>,
    /// The most captured subtrees at or below registered domains.
    pub top_subtrees: Vec<Place>,
    /// Top-level domains by captures. Addresses and hosts beyond the list are totals.
    pub tlds: Vec<Place>,
    /// Registered domains by captures.
    pub domains: Vec<Place>,
    /// Hosts by captures.
    pub hosts: Vec<Place>,
    /// Years.
    pub years: Vec<Year>,
    /// Months that have captures.
    pub months: Vec<Month>,
    /// Media types as servers sent them, by captures.
    pub media_types: Vec<MediaType>,
    /// Media types detected from the content, where the index has them.
    pub detected_types: Vec<MediaType>,
    /// Statuses.
    pub statuses: Vec<Count>,
    /// Languages, where the index has them.
    pub languages: Vec<Language>,
    /// Captures by segments of the path and parameters of the query.
    pub path_query: Vec<PathQuery>,
    /// Hosts and keys by depth.
    pub depths: Vec<Depth>,
    /// The tree of keys by depth of hosts: `H1`, `H2`, ….
    pub host_tree: Vec<Layer>,
    /// The tree of keys by depth of paths: `P0`, `P1`, ….
    pub path_tree: Vec<Layer>,
    /// The fitted laws of mean numbers of children, which `map compact --rule papers` takes.
    pub laws: Laws,
    /// How the archive grows.
    pub growth: Growth,
    /// What may be wrong.
    pub defects: Vec<Defect>,
    /// What was looked up, if lookups were given.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lookups: Option<Lookups>,
    /// Archives by their answers, if a MemGator log was given.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub memgator: Vec<Upstream>,
    /// Classes, if they were given.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub classes: Vec<Class>,
    /// The same shape as cdx-summary's.
    pub cdx_summary: CdxSummary,
}

/// How exact estimates are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Approximation {
    /// The standard error of the numbers of distinct things, as a share; 0 if they are exact.
    pub distinct_error: f64,
    /// URI-Rs in the sample that distributions and lists are estimated from.
    pub sampled_urirs: u64,
    /// Their share of all URI-Rs.
    pub sampled_share: f64,
}

/// Totals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Files read.
    pub files: u64,
    /// Bytes of the files as stored, if known.
    pub stored_bytes: Option<u64>,
    /// Bytes, decompressed.
    pub bytes: u64,
    /// Lines.
    pub lines: u64,
    /// Captures.
    pub captures: u64,
    /// Captures that are revisits.
    pub revisits: u64,
    /// URI-Rs.
    pub urirs: u64,
    /// Keys with all host labels and path segments, without query.
    pub hxpx_keys: u64,
    /// Hosts, by name or address, without ports.
    pub hosts: u64,
    /// Hosts with their ports.
    pub sites: u64,
    /// Registered domains.
    pub domains: u64,
    /// Top-level domains.
    pub tlds: u64,
    /// Hosts that are IP addresses.
    pub addresses: u64,
    /// URI-Rs of addresses.
    pub address_urirs: u64,
    /// Captures of addresses.
    pub address_captures: u64,
    /// URI-Rs without a host, which are in no tree.
    pub without_host: u64,
    /// Bytes of all records, as stored in WARC files, where the index has lengths.
    pub record_bytes: u64,
    /// Captures without a valid time.
    pub undated: u64,
    /// The first capture, fourteen digits.
    pub first: Option<String>,
    /// The last capture, fourteen digits.
    pub last: Option<String>,
}

/// A kind of line and how often it occurs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kind {
    /// The kind.
    pub kind: String,
    /// What it is.
    pub meaning: String,
    /// Lines.
    pub count: u64,
}

/// How captures are distributed over URI-Rs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// The most captures of a URI-R.
    pub max: u64,
    /// The fewest.
    pub min: u64,
    /// The median.
    pub median: f64,
    /// γ, the mean.
    pub mean: f64,
    /// The standard deviation.
    pub deviation: f64,
    /// The Gini coefficient.
    pub gini: f64,
    /// The share p of URI-Rs that has 1 - p of the captures.
    pub pareto: Option<f64>,
    /// Shares of URI-Rs, the most captured first, and the share of captures that they have.
    pub curve: Vec<(f64, f64)>,
    /// How many URI-Rs have how many captures: at most this many, and more than the one before.
    pub histogram: Vec<(u64, u64)>,
}

/// A place in the tree with its counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// Its key or name.
    pub key: String,
    /// URI-Rs.
    pub urirs: u64,
    /// Captures.
    pub captures: u64,
}

/// One year.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Year {
    /// The year.
    pub year: u16,
    /// URI-Rs captured in it.
    pub urirs: u64,
    /// URI-Rs captured in it or before.
    pub urirs_so_far: u64,
    /// Captures in it.
    pub captures: u64,
    /// Captures in it or before.
    pub captures_so_far: u64,
    /// The share of its URI-Rs that were captured in an earlier year.
    pub seen_before: f64,
    /// Captures per URI-R.
    pub gamma: f64,
    /// The same over all years so far.
    pub gamma_so_far: f64,
    /// Captures by status: 2xx, 3xx, 4xx, 5xx, any other, none.
    pub statuses: StatusClasses,
    /// Bytes of records.
    pub record_bytes: u64,
}

/// One month.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Month {
    /// `2004-01`.
    pub month: String,
    /// Captures in it.
    pub captures: u64,
    /// URI-Rs captured in it for the first time.
    pub new_urirs: u64,
}

/// Captures by class of status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusClasses {
    /// 200 to 299.
    #[serde(rename = "2xx")]
    pub success: u64,
    /// 300 to 399.
    #[serde(rename = "3xx")]
    pub redirect: u64,
    /// 400 to 499.
    #[serde(rename = "4xx")]
    pub client_error: u64,
    /// 500 to 599.
    #[serde(rename = "5xx")]
    pub server_error: u64,
    /// Any other number.
    pub other: u64,
    /// None, as revisits often have.
    pub none: u64,
}

impl StatusClasses {
    /// The names of the classes.
    pub const NAMES: [&'static str; 6] = ["2xx", "3xx", "4xx", "5xx", "other", "none"];

    pub(super) fn of(counts: [u64; 6]) -> StatusClasses {
        let [success, redirect, client_error, server_error, other, none] = counts;
        StatusClasses {
            success,
            redirect,
            client_error,
            server_error,
            other,
            none,
        }
    }

    /// The counts, in the order of the names.
    pub fn counts(&self) -> [u64; 6] {
        [
            self.success,
            self.redirect,
            self.client_error,
            self.server_error,
            self.other,
            self.none,
        ]
    }

    /// All captures.
    pub fn total(&self) -> u64 {
        self.counts().iter().sum()
    }
}

/// A media type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MediaType {
    /// Its name, in lower case and without parameters; `-` if there is none.
    pub name: String,
    /// Captures by status.
    pub statuses: StatusClasses,
}

/// A name and how often it occurs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Count {
    /// The name.
    pub name: String,
    /// Captures.
    pub captures: u64,
}

/// A language.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Language {
    /// Its code.
    pub code: String,
    /// Captures of which it is the first language.
    pub first: u64,
    /// Captures of which it is one of the languages.
    pub any: u64,
}

/// Captures with so many path segments and query parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathQuery {
    /// Segments of the path.
    pub path: u64,
    /// Parameters of the query.
    pub query: u64,
    /// Captures.
    pub captures: u64,
}

/// What has exactly this depth.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Depth {
    /// The depth: labels of a host, or segments of a path.
    pub depth: usize,
    /// Hosts with so many labels.
    pub hosts: u64,
    /// HxPx keys whose host has so many labels.
    pub host_keys: u64,
    /// HxPx keys whose path has so many segments.
    pub path_keys: u64,
}

/// The nodes of one depth of the tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    /// `H1`, `P0`.
    pub depth: String,
    /// Distinct prefixes of this depth.
    pub count: u64,
    /// HxPx keys no shorter than this.
    pub sum: u64,
    /// The most HxPx keys below one prefix.
    pub max: u64,
    /// The mean number of HxPx keys below a prefix.
    pub mean: f64,
    /// The median.
    pub median: f64,
    /// The standard deviation.
    pub deviation: f64,
    /// The share of all HxPx keys that cutting them at this depth would save.
    pub redq: f64,
    /// Nodes of the depth above that have children here.
    pub parents: u64,
    /// Nodes of this depth.
    pub children: u64,
    /// Children per parent.
    pub mean_children: f64,
    /// Shares of prefixes rolled up, the largest first, and the share of all keys saved.
    pub global_reduction: Vec<(f64, f64)>,
    /// Shares of parents rolled up, those with most children first, and the share of the children
    /// of this depth saved.
    pub incremental_reduction: Vec<(f64, f64)>,
}

/// Fitted laws: mean children = a · depth^-k.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Laws {
    /// Of hosts.
    pub host: Option<Law>,
    /// Of paths.
    pub path: Option<Law>,
}

/// A law of mean numbers of children.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Law {
    /// The mean at depth 1.
    pub a: f64,
    /// How fast it falls.
    pub k: f64,
}

/// How the archive grows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Growth {
    /// α, bytes per line.
    pub bytes_per_line: f64,
    /// Heaps' law, URI-Rs = factor · captures^exponent, over years (over months, if there are
    /// fewer than three years).
    pub heaps: Option<PowerFit>,
    /// Captures and URI-Rs after each of these years or months.
    pub points: Vec<(u64, u64)>,
}

/// Something that may be wrong.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Defect {
    /// A short name.
    pub kind: String,
    /// What it is.
    pub title: String,
    /// What was found.
    pub evidence: String,
    /// What to do.
    pub advice: String,
}

/// What was looked up and what is held.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lookups {
    /// Lookups.
    pub requests: u64,
    /// Distinct URI-Rs among them.
    pub urirs: u64,
    /// Those that are held.
    pub held: u64,
    /// Requests for those that are held.
    pub held_requests: u64,
    /// Lookups without a SURT.
    pub rejected: u64,
    /// URI-Rs by captures (rows: none, 1–9, 10–99, …) and requests (columns, the same). `None` for
    /// those that are neither held nor looked up.
    pub grid: Vec<Vec<Option<u64>>>,
    /// What is looked up most and not held.
    pub seeds: Vec<Seed>,
}

/// A URI that is looked up and not held.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seed {
    /// The URI as it was looked up.
    pub uri: String,
    /// Its SURT.
    pub key: String,
    /// Lookups.
    pub requests: u64,
    /// Whether the archive has other pages of the host.
    pub host_is_held: bool,
}

/// An archive that MemGator asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Upstream {
    /// Its identifier.
    pub archive: String,
    /// Requests.
    pub requests: u64,
    /// Answers with mementos.
    pub hits: u64,
    /// Answers without.
    pub misses: u64,
    /// Failures.
    pub errors: u64,
    /// How often it was left alone after failures.
    pub sleeps: u64,
}

/// A class of hosts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Class {
    /// Its name; `-` for everything else.
    pub name: String,
    /// Hosts.
    pub hosts: u64,
    /// URI-Rs.
    pub urirs: u64,
    /// Captures.
    pub captures: u64,
}

/// The summary that cdx-summary's web component shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CdxSummary {
    /// Captures.
    pub captures: u64,
    /// URI-Rs.
    pub urls: u64,
    /// Hosts with their ports.
    pub hosts: u64,
    /// Bytes of records.
    pub bytes: u64,
    /// The first capture.
    pub first: String,
    /// The last capture.
    pub last: String,
    /// Hosts and captures, the largest first.
    #[serde(with = "ordered")]
    pub tophosts: Vec<(String, u64)>,
    /// Captures by group of media types and of statuses.
    pub mimestatus: BTreeMap<String, BTreeMap<String, u64>>,
    /// Captures by path segments and query parameters.
    pub pathquery: BTreeMap<String, BTreeMap<String, u64>>,
    /// Captures by year and month.
    pub yearmonth: BTreeMap<String, BTreeMap<String, u64>>,
    /// A sample of pages: timestamp and URL.
    pub samples: Vec<(String, String)>,
}

/// A JSON object whose members keep their order.
mod ordered {
    use std::fmt;

    use serde::de::{MapAccess, Visitor};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        entries: &[(String, u64)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(entries.iter().map(|(name, count)| (name, count)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(String, u64)>, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Vec<(String, u64)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of counts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(entries)
            }
        }
        deserializer.deserialize_map(Entries)
    }
}
