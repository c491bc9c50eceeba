//! Counting URI-Rs under many policies at once.
//!
//! Adjacent lines of a sorted index have most of their keys in common. Each key of a policy `HmPn`
//! is a prefix of the SURT, so it is enough to know where the key ends and how long the prefix
//! shared with the previous SURT is: keys that end within it are the same and are counted without
//! comparing them. Keys of `DDom` … `DIni` are counted one registered domain at a time.
//!
//! Many policies have the same keys: `HxP3` and `HxPx` wherever paths have no more than three segments.
//! As long as they have, they share a piece, which is counted and written once. The first URI-R with
//! different keys divides them.

use std::collections::HashMap;

use waypost_io::lines::common_prefix;
use waypost_io::pipeline::Pool;
use waypost_surt::{Detail, Policy, Surt};

use super::order::Piece;
use super::records::{Count, Counts};
use super::shape::{End, Forms, Shape};

/// The memory of pieces that are no longer used, by their number in a [`Cut`]: the pieces of one number
/// mostly have similar sizes.
pub(crate) type Used = [Pool<Piece<Counts>>];

/// Keys of consecutive URI-Rs, under every policy.
pub(crate) struct Cut<'a> {
    policies: &'a [Policy],
    /// For each policy, the number of its share.
    share_of: Vec<usize>,
    shares: Vec<Share>,
    /// The forms of SURTs that divide no share any more.
    known: Forms,
    used: &'a Used,
    /// The previous URI-R and its shape.
    before: Vec<u8>,
    shape: Shape,
    has_domain: bool,
    domain: Domain,
    buffer: Vec<u8>,
}

/// What policies with the same keys so far have in common.
struct Share {
    piece: Piece<Counts>,
    /// Where the last key ends.
    end: End,
    /// One of the policies.
    policy: usize,
    /// The share from which it was divided.
    from: usize,
}

impl Share {
    /// Counts a URI-R whose key is a prefix of its SURT.
    fn add(&mut self, end: End, surt: &[u8], before: &[u8], common: usize, counts: Counts) {
        let last = std::mem::replace(&mut self.end, end);
        let records = &mut self.piece.records;
        if end == last
            && end.length().is_some_and(|length| length <= common)
            && let Some(known) = records.last_counts()
        {
            known.add(&counts);
            return;
        }
        let (key, suffix) = match end {
            End::Plain(length) => (&surt[..length], &b""[..]),
            End::Host(length) => (&surt[..length], &b")/"[..]),
            End::Other => return,
        };
        // If both keys have the byte in which the SURTs differ, they are in the same order.
        let in_order = (end.length().min(last.length()))
            .is_some_and(|length| length > common && surt[common] > before[common]);
        match in_order {
            true => records.push_above(key, suffix, counts),
            false => records.push_new(key, suffix, counts),
        }
    }
}

/// A registered domain and its counts.
#[derive(Default)]
struct Domain {
    name: Vec<u8>,
    /// The number of labels below it that the last host has.
    subdomains: u32,
    places: HashMap<DomainSuffix, Counts>,
    /// The counts of the last URI-Rs, which often have the same place.
    last: Option<(DomainSuffix, Counts)>,
}

impl Domain {
    fn add(&mut self, place: DomainSuffix, counts: Counts) {
        match &mut self.last {
            Some((last, known)) if *last == place => known.add(&counts),
            _ => {
                self.end_last();
                self.last = Some((place, counts));
            }
        }
    }

    fn end_last(&mut self) {
        if let Some((place, counts)) = self.last.take() {
            self.places.entry(place).or_default().add(&counts);
        }
    }
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
    /// Policies share pieces, unless there are second keys.
    pub(crate) fn new(policies: &'a [Policy], by: bool, used: &'a Used) -> Cut<'a> {
        let mut cut = Cut {
            policies,
            share_of: Vec::new(),
            shares: Vec::new(),
            known: Forms::default(),
            used,
            before: Vec::new(),
            shape: Shape::default(),
            has_domain: policies
                .iter()
                .any(|policy| matches!(policy, Policy::Domain(_))),
            domain: Domain::default(),
            buffer: Vec::new(),
        };
        let mut shared = None;
        for (index, policy) in policies.iter().enumerate() {
            let may_share = !by && matches!(policy, Policy::Prefix { .. } | Policy::Whole);
            let share = match shared {
                Some(share) if may_share => share,
                _ => cut.new_share(index),
            };
            if may_share {
                shared = Some(share);
            }
            cut.share_of.push(share);
        }
        cut
    }

    fn new_share(&mut self, policy: usize) -> usize {
        let number = self.shares.len();
        self.shares.push(Share {
            piece: self.used.get(number).map(Pool::get).unwrap_or_default(),
            end: End::Other,
            policy,
            from: number,
        });
        number
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
            for (&share, &end) in self.share_of.iter().zip(&ends) {
                key.clear();
                key.extend_from_slice(&self.buffer[start..end]);
                key.push(b' ');
                key.extend_from_slice(second);
                self.shares[share].piece.records.push(&key, counts);
                start = end;
            }
        }
    }

    /// Counts a URI-R, which must differ from the previous one.
    pub(crate) fn add(&mut self, surt: &[u8], counts: Counts) {
        let common = common_prefix(&self.before, surt);
        let same_host = self.shape.advance(surt, common);
        if !self.known.contains(&self.shape) {
            self.divide();
            self.known.insert(&self.shape);
        }
        for share in &mut self.shares {
            let policy = &self.policies[share.policy];
            match self.shape.end_under(policy) {
                _ if matches!(policy, Policy::Domain(_)) => {}
                End::Other => {
                    share.end = End::Other;
                    self.buffer.clear();
                    policy.cut(&Surt::new(surt), &mut self.buffer);
                    share.piece.records.push(&self.buffer, counts);
                }
                end => share.add(end, surt, &self.before, common, counts),
            }
        }
        if self.has_domain {
            self.add_to_domain(surt, same_host, counts);
        }
        self.before.truncate(common);
        self.before.extend_from_slice(&surt[common..]);
    }

    /// Divides all shares whose policies do not have the same key of the SURT.
    fn divide(&mut self) {
        let divided = self.shares.len();
        for (index, policy) in self.policies.iter().enumerate() {
            let old = self.share_of[index];
            if self.shares[old].policy == index {
                continue;
            }
            let end = self.shape.end_under(policy);
            let has_end = |share: &Share| {
                end != End::Other && self.shape.end_under(&self.policies[share.policy]) == end
            };
            if has_end(&self.shares[old]) {
                continue;
            }
            let alike = |share: &Share| share.from == old && has_end(share);
            let known = self.shares[divided..].iter().position(alike);
            self.share_of[index] = match known {
                Some(at) => divided + at,
                None => {
                    let number = self.new_share(index);
                    let (before, new) = self.shares.split_at_mut(number);
                    new[0].piece.records.copy_from(&before[old].piece.records);
                    new[0].end = before[old].end;
                    new[0].from = old;
                    number
                }
            };
        }
    }

    fn add_to_domain(&mut self, surt: &[u8], same_host: bool, counts: Counts) {
        if !self.shape.plain {
            // Addresses and bare schemes are rare.
            for (&share, policy) in self.share_of.iter().zip(self.policies) {
                if matches!(policy, Policy::Domain(_)) {
                    self.buffer.clear();
                    policy.cut(&Surt::new(surt), &mut self.buffer);
                    (self.shares[share].piece.records).push(&self.buffer, counts);
                }
            }
            return;
        }
        // As long as the host is the same, so is its domain: no need to consult the list.
        let host = &surt[..self.shape.host];
        let same_host = same_host && !self.domain.name.is_empty();
        if !same_host {
            let length = Surt::new(surt).registered_domain().len();
            if host[..length] != self.domain.name {
                self.end_domain();
                self.domain.name.extend_from_slice(&host[..length]);
            }
            self.domain.subdomains = memchr::memchr_iter(b',', &host[length..]).count() as u32;
        }
        let (path, query) = self.shape.path_and_query(surt);
        let first = path.strip_prefix(b"/").unwrap_or(path).first();
        let place = DomainSuffix {
            subdomains: self.domain.subdomains,
            segments: self.shape.segments(surt) as u32,
            parameters: parameters(query),
            initial: first
                .filter(|byte| byte.is_ascii_alphanumeric())
                .map_or(b'-', |&byte| byte),
        };
        self.domain.add(place, counts);
    }

    /// Adds the keys of the registered domain.
    fn end_domain(&mut self) {
        self.domain.end_last();
        for (&share, policy) in self.share_of.iter().zip(self.policies) {
            let Policy::Domain(detail) = policy else {
                continue;
            };
            let records = &mut self.shares[share].piece.records;
            for (place, counts) in &self.domain.places {
                self.buffer.clear();
                place.write(*detail, &mut self.buffer);
                if *detail == Detail::Domain
                    && records
                        .last_key()
                        .is_some_and(|last| last.strip_suffix(b")/") == Some(&self.domain.name))
                {
                    if let Some(last) = records.last_counts() {
                        last.add(counts);
                    }
                } else {
                    records.push_new(&self.domain.name, &self.buffer, *counts);
                }
            }
        }
        self.domain.places.clear();
        self.domain.name.clear();
    }

    /// The pieces, sorted by key, and for each policy the number of its piece.
    pub(crate) fn finish(mut self) -> (Vec<Piece<Counts>>, Vec<usize>) {
        self.end_domain();
        let mut pieces: Vec<_> = self.shares.into_iter().map(|share| share.piece).collect();
        for piece in &mut pieces {
            piece.records.settle();
        }
        (pieces, self.share_of)
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// SURTs that share much, with every byte that sorts oddly around separators.
    pub(crate) fn surts() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            8 => "(com|uk,co|org|com,x-a|com,x*)(,[ab]{0,1}[-*0b]?){0,3}(:8(1|,b)?)?\\)/{0,2}([ab]{0,2}[-0.]?/?){0,4}(\\?[ab&=]{0,4})?",
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
            let mut cut = Cut::new(&policies, false, &[]);
            for (surt, captures) in &set {
                cut.add(surt, Counts { captures: *captures, urirs: 1, sources: 1 });
            }
            let (pieces, piece_of) = cut.finish();
            for (policy, piece) in policies.iter().zip(piece_of) {
                let records = &pieces[piece].records;
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
    }

    #[test]
    fn policies_share_a_piece_until_their_keys_differ() {
        let policies = ["HxP1", "HxP2", "HxPx", "URIR", "DDom"].map(|name| name.parse().unwrap());
        let pieces_of = |surts: &[&str]| {
            let mut cut = Cut::new(&policies, false, &[]);
            for surt in surts {
                cut.add(surt.as_bytes(), Counts::of_captures(1));
            }
            let (pieces, piece_of) = cut.finish();
            let keys = |piece: usize| pieces[piece].records.len();
            let keys: Vec<usize> = piece_of.iter().map(|&piece| keys(piece)).collect();
            (pieces.len(), keys)
        };
        let shallow = ["com,a)/b", "com,a)/c"];
        assert_eq!(pieces_of(&shallow), (2, vec![2, 2, 2, 2, 1]));
        let deeper = ["com,a)/b", "com,a)/c", "com,a)/c/d", "com,a)/c/e"];
        assert_eq!(pieces_of(&deeper), (3, vec![2, 4, 4, 4, 1]));
        let query = ["com,a)/b", "com,a)/c", "com,a)/c/d", "com,a)/c/d?e"];
        assert_eq!(pieces_of(&query), (4, vec![2, 3, 3, 4, 1]));
        let separate = Cut::new(&policies, true, &[]);
        assert_eq!(separate.finish().0.len(), 5);
    }
}
