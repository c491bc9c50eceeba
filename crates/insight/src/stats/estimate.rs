//! Statistics in little memory: estimates of distinct counts, and of the rest from a sample.
//!
//! What is counted for each capture stays exact. Distinct counts are estimated by
//! [HyperLogLog](crate::numeric::distinct). Distributions, years and lists come from a
//! [sample](super::sample) of URI-Rs, scaled to the whole. The tree of keys and the most captured
//! URI-Rs cannot be estimated that way and are left out. An index whose URI-Rs fit into the sample has
//! exact statistics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use waypost_index::key::KeyCheck;
use waypost_index::scan::{At, Job};
use waypost_index::timestamp::Time;
use waypost_index::{Capture, Fields, Select, Span};
use waypost_io::partial::{Decoder, Encoder, Spill};
use waypost_io::{Resources, Result};
use waypost_summary::holdings::{Reading, Surts};
use waypost_surt::{Dialect, Kind, Surt};
use xxhash_rust::xxh3::xxh3_64;

use super::Options;
use super::assemble::assemble;
use super::collect::{Collected, collect_some};
use super::model::{Approximation, Laws, Statistics};
use super::sample::UrirSample;
use super::tallies::{Tallies, month_of};
use super::top::Top;
use crate::numeric::distinct::{Distinct, ERROR};
use crate::numeric::histogram::ratio;

/// Estimates statistics: the scan job of [`statistics`](super::statistics) with
/// [`approximate`](super::Options::approximate).
pub struct Estimating {
    dialect: Dialect,
    share: usize,
    spill: Arc<Spill>,
    /// The level of the sample so far: no later block needs what is above it.
    level: AtomicU32,
}

/// The estimates of some captures.
pub struct Estimated {
    tallies: Tallies,
    span: Span,
    keys: KeyCheck,
    captures: u64,
    sample: UrirSample,
    distinct: Sets,
    tools: Option<Box<Tools>>,
}

/// Sets whose sizes are estimated.
#[derive(Default)]
struct Sets {
    urirs: Distinct,
    keys: Distinct,
    hosts: Distinct,
    sites: Distinct,
    domains: Distinct,
    tlds: Distinct,
    addresses: Distinct,
}

/// What is remembered from one capture to the next.
struct Tools {
    surts: Surts,
    last: Last,
}

#[derive(Default)]
struct Last {
    surt: Vec<u8>,
    hash: u64,
    /// The length of its host and port.
    authority: usize,
    is_known: bool,
}

impl Sets {
    fn each(&mut self) -> [&mut Distinct; 7] {
        [
            &mut self.urirs,
            &mut self.keys,
            &mut self.hosts,
            &mut self.sites,
            &mut self.domains,
            &mut self.tlds,
            &mut self.addresses,
        ]
    }

    /// Adds a URI-R other than the last one.
    fn add(&mut self, text: &[u8], last: &mut Last) {
        let hash = xxh3_64(text);
        self.urirs.add(hash);
        let surt = Surt::new(text);
        let authority = surt.authority();
        let site = authority.len() + 1;
        let is_new_site = !last.is_known || last.surt[..last.authority] != *authority;
        if surt.kind() != Kind::Bare {
            let end = surt.path().iter().rposition(|byte| *byte != b'/');
            let key = end.map_or(site, |end| site + end + 1);
            self.keys.add(xxh3_64(&text[..key.min(text.len())]));
            if is_new_site {
                self.add_site(&surt);
            }
        }
        last.authority = match surt.kind() {
            // Not a site: what follows is one.
            Kind::Bare => 0,
            _ => authority.len(),
        };
        last.is_known = surt.kind() != Kind::Bare;
        last.surt.clear();
        last.surt.extend_from_slice(text);
        last.hash = hash;
    }

    fn add_site(&mut self, surt: &Surt<'_>) {
        self.sites.add(xxh3_64(surt.authority()));
        let host = surt.host();
        if host.is_empty() {
            return;
        }
        self.hosts.add(xxh3_64(host));
        if surt.kind() == Kind::Address {
            self.addresses.add(xxh3_64(host));
            return;
        }
        self.domains.add(xxh3_64(surt.registered_domain()));
        if let Some(tld) = surt.labels().next() {
            self.tlds.add(xxh3_64(tld));
        }
    }
}

impl Estimated {
    #[inline]
    fn add(&mut self, surt: &[u8], month: Option<u32>, last: &mut Last) {
        self.captures += 1;
        if last.surt != surt || surt.is_empty() {
            self.distinct.add(surt, last);
        }
        if self.sample.has_room_for(last.hash) {
            self.sample.add(surt, last.hash, 1, month.as_slice());
        }
    }
}

impl Estimating {
    /// Estimates with SURTs of this dialect.
    pub fn new(dialect: Dialect, resources: &Resources) -> Estimating {
        Estimating {
            dialect,
            share: resources.memory / 64,
            spill: Spill::new(&resources.temporary),
            level: AtomicU32::new(0),
        }
    }

    fn tools(&self, estimated: &mut Estimated) -> Box<Tools> {
        estimated.tools.take().unwrap_or_else(|| {
            Box::new(Tools {
                surts: Surts::new(self.dialect),
                last: Last::default(),
            })
        })
    }
}

impl Job for Estimating {
    type Partial = Estimated;

    fn fields(&self) -> Fields {
        Tallies::FIELDS.into_iter().collect()
    }

    fn empty(&self) -> Estimated {
        Estimated {
            tallies: Tallies::new(self.share, &self.spill),
            span: Span::default(),
            keys: KeyCheck::default(),
            captures: 0,
            sample: UrirSample::at_level(self.level.load(Ordering::Relaxed)),
            distinct: Sets::default(),
            tools: None,
        }
    }

    fn add(&self, estimated: &mut Estimated, capture: &Capture<'_>, _: At) {
        estimated.span.add(capture);
        estimated.tallies.add(capture);
        let mut tools = self.tools(estimated);
        let surt = tools.surts.of(capture);
        estimated.add(&surt, month_of(capture), &mut tools.last);
        drop(surt);
        estimated.tools = Some(tools);
    }

    fn add_uri(
        &self,
        estimated: &mut Estimated,
        line: &[u8],
        select: &Select,
    ) -> Result<bool, waypost_surt::Error> {
        let mut tools = self.tools(estimated);
        let surt = tools.surts.of_uri(line, select);
        let taken = surt.map(|surt| {
            if let Some(surt) = surt {
                estimated.add(surt, None, &mut tools.last);
            }
            surt.is_some()
        });
        estimated.tools = Some(tools);
        taken
    }

    fn seal(&self, estimated: &mut Estimated) -> Result<()> {
        if let Some(tools) = estimated.tools.take() {
            estimated.keys.merge(tools.surts.check());
        }
        Ok(())
    }

    fn merge(&self, earlier: &mut Estimated, mut later: Estimated, _: At) -> Result<()> {
        earlier.span.merge(&later.span);
        earlier.keys.merge(&later.keys);
        earlier.captures += later.captures;
        earlier.sample.merge(later.sample);
        self.level
            .fetch_max(earlier.sample.level(), Ordering::Relaxed);
        let sets = earlier.distinct.each().into_iter();
        for (ours, theirs) in sets.zip(later.distinct.each()) {
            ours.merge(std::mem::take(theirs));
        }
        earlier.tallies.merge(later.tallies)
    }

    fn to_bytes(&self, estimated: &Estimated) -> Result<Vec<u8>> {
        let mut out = Encoder::new("estimates", 1);
        out.option(estimated.span.first.map(Time::digits14));
        out.option(estimated.span.last.map(Time::digits14));
        out.text(&estimated.keys.to_bytes());
        out.number(estimated.captures);
        estimated.sample.encode(&mut out);
        let sets = &estimated.distinct;
        for set in [
            &sets.urirs,
            &sets.keys,
            &sets.hosts,
            &sets.sites,
            &sets.domains,
            &sets.tlds,
            &sets.addresses,
        ] {
            set.encode(&mut out);
        }
        estimated.tallies.encode(&mut out)?;
        Ok(out.finish())
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<Estimated> {
        let mut from = Decoder::new(bytes, "estimates", 1)?;
        let mut estimated = self.empty();
        estimated.span = Span::of(from.option()?, from.option()?);
        estimated.keys = KeyCheck::from_bytes(from.text()?)?;
        estimated.captures = from.number()?;
        estimated.sample = UrirSample::decode(&mut from)?;
        for set in estimated.distinct.each() {
            *set = Distinct::decode(&mut from)?;
        }
        estimated.tallies = Tallies::new(self.share, &self.spill).decode(&mut from)?;
        from.finish()?;
        Ok(estimated)
    }
}

/// How many times as much the whole has as the sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    urirs: f64,
    captures: f64,
}

impl Default for Scale {
    fn default() -> Scale {
        Scale {
            urirs: 1.0,
            captures: 1.0,
        }
    }
}

impl Scale {
    pub(super) fn urirs(self, sampled: u64) -> u64 {
        (sampled as f64 * self.urirs).round() as u64
    }

    pub(super) fn captures(self, sampled: u64) -> u64 {
        (sampled as f64 * self.captures).round() as u64
    }
}

/// What is known of the whole.
pub(super) struct Estimates {
    pub(super) scale: Scale,
    captures: u64,
    urirs: u64,
    keys: u64,
    hosts: u64,
    sites: u64,
    domains: u64,
    tlds: u64,
    addresses: u64,
}

impl Estimates {
    /// Scales what was counted in the sample. What cannot be scaled is removed.
    pub(super) fn scale(&self, found: &mut Collected<'_>) {
        let scale = self.scale;
        for urirs in found.month_new.iter_mut().chain(&mut found.year_urirs) {
            *urirs = scale.urirs(*urirs);
        }
        for captures in &mut found.path_query {
            *captures = scale.captures(*captures);
        }
        found.without_host = scale.urirs(found.without_host);
        (found.traps, found.top_urirs) = (0, Top::new(0));
        found.trap_examples.clear();
    }

    /// Replaces the totals of the sample by those of the whole.
    pub(super) fn correct(&self, found: &mut Statistics) {
        let scale = self.scale;
        let totals = &mut found.totals;
        totals.captures = self.captures;
        totals.urirs = self.urirs;
        totals.hxpx_keys = self.keys;
        totals.hosts = self.hosts;
        totals.sites = self.sites;
        totals.domains = self.domains;
        totals.tlds = self.tlds;
        totals.addresses = self.addresses;
        totals.address_urirs = scale.urirs(totals.address_urirs);
        totals.address_captures = scale.captures(totals.address_captures);
        let summary = &mut found.cdx_summary;
        (summary.captures, summary.urls) = (self.captures, self.urirs);
        summary.hosts = self.sites;
        found.distribution.mean = ratio(self.captures as f64, self.urirs as f64);
        for (_, urirs) in &mut found.distribution.histogram {
            *urirs = scale.urirs(*urirs);
        }
        found.depths.clear();
        found.host_tree.clear();
        found.path_tree.clear();
        found.laws = Laws::default();
    }
}

/// The statistics of captures that were estimated, in ranges or on other machines. Adds to `reading`
/// what the estimates say.
///
/// # Errors
/// When spilled counts cannot be read.
pub fn of_estimated(
    estimated: Estimated,
    reading: &mut Reading,
    options: &Options<'_>,
) -> Result<Statistics, waypost_summary::Error> {
    (reading.first, reading.last) = (estimated.span.first, estimated.span.last);
    reading.keys.merge(&estimated.keys);
    let sampled = estimated.sample.len() as u64;
    let is_whole = estimated.sample.level() == 0;
    let rounded = |set: &Distinct| set.estimate().round() as u64;
    let urirs = match is_whole {
        true => sampled,
        false => rounded(&estimated.distinct.urirs),
    };
    reading.urirs = urirs;
    let sorted = estimated.sample.sorted().into_iter();
    let found = collect_some(
        sorted.map(|(surt, sampled)| (surt, sampled.captures, sampled.months)),
        options,
    );
    let sets = &estimated.distinct;
    let estimates = Estimates {
        scale: Scale {
            urirs: ratio(urirs as f64, sampled as f64),
            captures: ratio(estimated.captures as f64, found.captures.sum() as f64),
        },
        captures: estimated.captures,
        urirs,
        keys: rounded(&sets.keys),
        hosts: rounded(&sets.hosts),
        sites: rounded(&sets.sites),
        domains: rounded(&sets.domains),
        tlds: rounded(&sets.tlds),
        addresses: rounded(&sets.addresses),
    };
    let estimates = Some(&estimates).filter(|_| !is_whole);
    let mut statistics = assemble(found, estimated.tallies, reading, options, estimates)?;
    statistics.approximation = Some(Approximation {
        distinct_error: if is_whole { 0.0 } else { ERROR },
        sampled_urirs: sampled,
        sampled_share: ratio(sampled as f64, urirs as f64),
    });
    Ok(statistics)
}
