//! Counting URI-Rs under many policies at once.
//!
//! Adjacent lines of a sorted index have most of their keys in common. Each key of a policy `HmPn`
//! is a prefix of the SURT, so it is enough to know where the key ends and how long the prefix
//! shared with the previous SURT is: keys that end within it are the same and are counted without
//! comparing them. Keys of `DDom` … `DIni` are counted one registered domain at a time.

use std::collections::HashMap;
use std::num::NonZeroU32;

use waypost_surt::{Detail, Kind, Limit, Policy, Surt};

use super::records::{Counts, Records};

/// The maximum number of labels and segments considered; policies that keep more are cut one by
/// one.
const MOST: usize = 8;

/// Keys of consecutive URI-Rs, under every policy.
pub(crate) struct Cut<'a> {
    policies: &'a [Policy],
    records: Vec<Records<Counts>>,
    /// The previous URI-R.
    before: Vec<u8>,
    /// Where its keys end.
    ends: Vec<End>,
    domain: Domain,
    buffer: Vec<u8>,
}

/// How a key is made from its SURT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    /// Not a prefix: computed separately.
    #[default]
    Other,
    /// A prefix of this many bytes.
    Plain(usize),
    /// A prefix of this many bytes, followed by `)/`.
    Host(usize),
}

/// A registered domain and its counts.
#[derive(Default)]
struct Domain {
    name: Vec<u8>,
    places: HashMap<DomainSuffix, Counts>,
}

/// The part of a `DIni` key after the domain.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct DomainSuffix {
    subdomains: u32,
    segments: u32,
    parameters: u32,
    initial: u8,
}

impl<'a> Cut<'a> {
    pub(crate) fn new(policies: &'a [Policy]) -> Cut<'a> {
        Cut {
            policies,
            records: policies.iter().map(|_| Records::default()).collect(),
            before: Vec::new(),
            ends: vec![End::Other; policies.len()],
            domain: Domain::default(),
            buffer: Vec::new(),
        }
    }

    /// Counts a URI-R with one or several second keys.
    pub(crate) fn add_by<'b>(
        &mut self,
        surt: &[u8],
        seconds: impl Iterator<Item = (&'b [u8], Counts)>,
    ) {
        let parsed = Surt::new(surt);
        let mut ends = vec![0; self.policies.len()];
        self.buffer.clear();
        for (policy, end) in self.policies.iter().zip(&mut ends) {
            policy.cut(&parsed, &mut self.buffer);
            *end = self.buffer.len();
        }
        let mut key = Vec::new();
        for (second, counts) in seconds {
            let mut start = 0;
            for (records, &end) in self.records.iter_mut().zip(&ends) {
                key.clear();
                key.extend_from_slice(&self.buffer[start..end]);
                key.push(b' ');
                key.extend_from_slice(second);
                records.push(&key, counts);
                start = end;
            }
        }
    }

    /// Counts a URI-R, which must differ from the previous one.
    pub(crate) fn add(&mut self, surt: &[u8], counts: Counts) {
        let common = common_prefix(&self.before, surt);
        let parsed = Surt::new(surt);
        let shape = Shape::of(&parsed);
        let mut has_domain = false;
        for (index, policy) in self.policies.iter().enumerate() {
            let end = match policy {
                Policy::Domain(_) => {
                    has_domain = true;
                    continue;
                }
                Policy::Whole => End::Plain(surt.len()),
                Policy::Prefix { hosts, paths } => shape.end(*hosts, *paths),
                _ => End::Other,
            };
            let records = &mut self.records[index];
            let same = match end {
                End::Plain(length) | End::Host(length) => {
                    end == self.ends[index] && length <= common
                }
                End::Other => false,
            };
            self.ends[index] = end;
            if same && let Some(last) = records.last_counts() {
                last.captures += counts.captures;
                last.urirs += counts.urirs;
                last.sources |= counts.sources;
                continue;
            }
            match end {
                End::Plain(length) => records.push_new(&surt[..length], b"", counts),
                End::Host(length) => records.push_new(&surt[..length], b")/", counts),
                End::Other => {
                    self.buffer.clear();
                    policy.cut(&parsed, &mut self.buffer);
                    records.push(&self.buffer, counts);
                }
            }
        }
        if has_domain {
            self.add_to_domain(&parsed, common, counts);
        }
        self.before.truncate(common);
        self.before.extend_from_slice(&surt[common..]);
    }

    fn add_to_domain(&mut self, surt: &Surt<'_>, common: usize, counts: Counts) {
        if surt.kind() != Kind::Host {
            // Addresses and bare schemes are rare.
            for (records, policy) in self.records.iter_mut().zip(self.policies) {
                if matches!(policy, Policy::Domain(_)) {
                    self.buffer.clear();
                    policy.cut(surt, &mut self.buffer);
                    records.push(&self.buffer, counts);
                }
            }
            return;
        }
        // As long as the host is the same, so is its domain: no need to consult the list.
        let host = surt.host();
        let same_host = !self.domain.name.is_empty()
            && common > host.len()
            && host.starts_with(&self.domain.name);
        let length = if same_host {
            self.domain.name.len()
        } else {
            surt.registered_domain().len()
        };
        if host[..length] != self.domain.name {
            self.end_domain();
            self.domain.name.extend_from_slice(&host[..length]);
        }
        let path = surt.path();
        let first = path.strip_prefix(b"/").unwrap_or(path).first();
        let place = DomainSuffix {
            subdomains: memchr::memchr_iter(b',', &host[length..]).count() as u32,
            segments: surt.segments().count() as u32,
            parameters: parameters(surt.query().unwrap_or_default()),
            initial: first
                .filter(|byte| byte.is_ascii_alphanumeric())
                .map_or(b'-', |&byte| byte),
        };
        let known = self.domain.places.entry(place).or_default();
        known.captures += counts.captures;
        known.urirs += counts.urirs;
        known.sources |= counts.sources;
    }

    /// Adds the keys of the registered domain.
    fn end_domain(&mut self) {
        for (records, policy) in self.records.iter_mut().zip(self.policies) {
            let Policy::Domain(detail) = policy else {
                continue;
            };
            for (place, counts) in &self.domain.places {
                self.buffer.clear();
                place.write(*detail, &mut self.buffer);
                if *detail == Detail::Domain
                    && records
                        .last_key()
                        .is_some_and(|last| last.strip_suffix(b")/") == Some(&self.domain.name))
                {
                    if let Some(last) = records.last_counts() {
                        last.captures += counts.captures;
                        last.urirs += counts.urirs;
                        last.sources |= counts.sources;
                    }
                } else {
                    records.push_new(&self.domain.name, &self.buffer, *counts);
                }
            }
        }
        self.domain.places.clear();
        self.domain.name.clear();
    }

    /// The records, sorted by key.
    pub(crate) fn finish(mut self) -> Vec<Records<Counts>> {
        self.end_domain();
        for records in &mut self.records {
            records.settle();
        }
        self.records
    }
}

impl DomainSuffix {
    fn write(&self, detail: Detail, out: &mut Vec<u8>) {
        out.extend_from_slice(b")/");
        if detail >= Detail::Subdomain {
            push_number(self.subdomains, out);
        }
        if detail >= Detail::Path {
            out.push(b'/');
            push_number(self.segments, out);
        }
        if detail >= Detail::Query {
            out.push(b'/');
            push_number(self.parameters, out);
        }
        if detail >= Detail::Initial {
            out.extend_from_slice(&[b'/', self.initial]);
        }
    }
}

fn push_number(number: u32, out: &mut Vec<u8>) {
    if number < 10 {
        out.push(b'0' + number as u8);
    } else {
        out.extend_from_slice(number.to_string().as_bytes());
    }
}

/// The number of parameters in a query; leading and trailing ampersands don't count.
fn parameters(query: &[u8]) -> u32 {
    let start = query.iter().position(|&byte| byte != b'&');
    let end = query.iter().rposition(|&byte| byte != b'&');
    match (start, end) {
        (Some(start), Some(end)) => {
            1 + memchr::memchr_iter(b'&', &query[start..=end]).count() as u32
        }
        _ => 0,
    }
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let length = a.len().min(b.len());
    let words = length / 8;
    for i in 0..words {
        let at = i * 8;
        let (x, y) = (&a[at..at + 8], &b[at..at + 8]);
        if x != y {
            return at + x.iter().zip(y).take_while(|(x, y)| x == y).count();
        }
    }
    let at = words * 8;
    at + a[at..length]
        .iter()
        .zip(&b[at..length])
        .take_while(|(x, y)| x == y)
        .count()
}

/// Where the labels and segments of a SURT end.
struct Shape {
    /// Whether its keys are prefixes of it.
    plain: bool,
    /// Where the commas of the host are.
    commas: [usize; MOST],
    comma_count: usize,
    /// Where the host ends.
    close: usize,
    /// Where the first, second, … segment ends, without trailing slashes; 0 if nothing is left.
    segments: [usize; MOST],
    segment_count: usize,
    /// Where the path ends, without trailing slashes; 0 if nothing is left.
    path: usize,
}

impl Shape {
    fn of(surt: &Surt<'_>) -> Shape {
        let mut shape = Shape {
            plain: surt.kind() == Kind::Host,
            commas: [0; MOST],
            comma_count: 0,
            close: surt.authority().len(),
            segments: [0; MOST],
            segment_count: 0,
            path: 0,
        };
        if !shape.plain {
            return shape;
        }
        for at in memchr::memchr_iter(b',', surt.host()).take(MOST) {
            shape.commas[shape.comma_count] = at;
            shape.comma_count += 1;
        }
        let start = shape.close + 1;
        let trimmed = |path: &[u8]| {
            let end = path.iter().rposition(|&byte| byte != b'/');
            end.map_or(0, |end| start + end + 1)
        };
        let path = surt.path();
        shape.path = trimmed(path);
        let path = &path[..shape.path.saturating_sub(start)];
        // The first slash is that of the root: the first segment ends at the second.
        for at in memchr::memchr_iter(b'/', path).skip(1).take(MOST) {
            shape.segments[shape.segment_count] = trimmed(&path[..at]);
            shape.segment_count += 1;
        }
        shape
    }

    fn end(&self, hosts: Limit<NonZeroU32>, paths: Limit<u32>) -> End {
        if !self.plain {
            return End::Other;
        }
        if let Limit::Most(most) = hosts {
            let most = most.get() as usize;
            if most <= self.comma_count {
                return End::Host(self.commas[most - 1]);
            }
            if most > MOST {
                return End::Other;
            }
        }
        let end = match paths {
            Limit::Most(0) => 0,
            Limit::Most(most) if most as usize <= self.segment_count => {
                self.segments[most as usize - 1]
            }
            Limit::Most(most) if most as usize > MOST => return End::Other,
            _ => self.path,
        };
        match end {
            0 => End::Host(self.close),
            end => End::Plain(end),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// SURTs that share much, with every byte that sorts oddly around separators.
    pub(crate) fn surts() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            8 => "(com|uk,co|org|com,x-a|com,x*)(,[ab]{0,1}[-*0b]?){0,3}(:81)?\\)/{0,2}([ab]{0,2}[-0.]?/?){0,4}(\\?[ab&=]{0,4})?",
            1 => "(1,0,0,127|::1|localhost|com)(:80)?\\)(/[ab])?",
            1 => "(urn:|mailto:|)[ab/?-]{0,5}",
        ]
        .prop_map(String::into_bytes)
    }

    proptest! {
        #[test]
        fn counting_many_at_once_equals_cutting_one_by_one(
            set in prop::collection::btree_map(surts(), 1..5u64, 0..40),
            extra in prop::collection::vec(("H(1|9|12|x)P(0|8|9|x)").prop_map(|name| name.parse::<Policy>().unwrap()), 0..3),
        ) {
            let policies: Vec<Policy> = Policy::ALL.into_iter().chain(extra).collect();
            let mut cut = Cut::new(&policies);
            for (surt, captures) in &set {
                cut.add(surt, Counts { captures: *captures, urirs: 1, sources: 1 });
            }
            let found = cut.finish();
            for (policy, records) in policies.iter().zip(found) {
                let mut expected: BTreeMap<Vec<u8>, (u64, u64)> = BTreeMap::new();
                for (surt, captures) in &set {
                    let mut key = Vec::new();
                    policy.cut(&Surt::new(surt), &mut key);
                    let counts = expected.entry(key).or_default();
                    counts.0 += captures;
                    counts.1 += 1;
                }
                let found: Vec<_> = records.iter().map(|(key, c)| (key.to_vec(), (c.captures, c.urirs))).collect();
                prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{}", policy);
            }
        }

        #[test]
        fn common_prefixes_are_found(a in prop::collection::vec(0..2u8, 0..40), b in prop::collection::vec(0..2u8, 0..40)) {
            let expected = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
            prop_assert_eq!(common_prefix(&a, &b), expected);
        }
    }
}
