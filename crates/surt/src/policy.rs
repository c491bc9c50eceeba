//! Cutting a SURT into the key of a policy.
//!
//! | policy | key of `uk,co,bbc,news)/images/logo.png?height=80&rotate=90&width=200` |
//! |---|---|
//! | `H1P0` | `uk)/` |
//! | `H3P0` | `uk,co,bbc)/` |
//! | `H3P1` | `uk,co,bbc)/` |
//! | `HxP1` | `uk,co,bbc,news)/images` |
//! | `DDom` | `uk,co,bbc)/` |
//! | `DSub` | `uk,co,bbc)/1` |
//! | `DPth` | `uk,co,bbc)/1/2` |
//! | `DQry` | `uk,co,bbc)/1/2/3` |
//! | `DIni` | `uk,co,bbc)/1/2/3/i` |
//! | `URIR` | all of it |
//!
//! Path segments are kept only when no host label had to go: `uk,co)/images` would name a place that
//! does not exist. The port belongs to the last label and goes with it. The labels of an address are
//! no hierarchy and are kept together under every policy. A bare scheme stands where the host would:
//! `urn:` is the key of `urn:uuid:…` under `H1P0`.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use crate::surt::trim_slash;
use crate::{Kind, Surt};

/// How much of a SURT a key keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// `HmPn`: at most `m` host labels and `n` path segments, no query.
    Prefix {
        /// Host labels, from the top. At least one: a key without any would be that of everything.
        hosts: Limit<NonZeroU32>,
        /// Path segments.
        paths: Limit<u32>,
    },
    /// `DDom` … `DIni`: the registered domain, then counts.
    Domain(Detail),
    /// `URIR`: all of it.
    Whole,
}

/// How many of something a policy keeps: a number, or `x` for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit<N> {
    /// At most this many.
    Most(N),
    /// All (`x`).
    All,
}

/// How far the key of a D-policy goes. Each holds all that those before it hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Detail {
    /// `DDom`: the registered domain.
    Domain,
    /// `DSub`: and the number of labels below it.
    Subdomain,
    /// `DPth`: and the number of path segments.
    Path,
    /// `DQry`: and the number of query parameters.
    Query,
    /// `DIni`: and the first character of the path, `-` if that is no letter or digit.
    Initial,
}

impl Policy {
    /// The 23 policies of the profiling paper: 17 `HmPn`, five of the registered domain, `URIR`.
    pub const ALL: [Policy; 23] = {
        const fn prefix(hosts: u32, paths: u32) -> Policy {
            let hosts = match NonZeroU32::new(hosts) {
                Some(hosts) => Limit::Most(hosts),
                None => Limit::All,
            };
            let paths = Limit::Most(paths);
            Policy::Prefix { hosts, paths }
        }
        const fn all_hosts(paths: u32) -> Policy {
            Policy::Prefix {
                hosts: Limit::All,
                paths: Limit::Most(paths),
            }
        }
        [
            prefix(1, 0),
            prefix(2, 0),
            prefix(2, 1),
            prefix(2, 2),
            prefix(3, 0),
            prefix(3, 1),
            prefix(3, 2),
            prefix(3, 3),
            prefix(4, 0),
            prefix(5, 0),
            all_hosts(0),
            all_hosts(1),
            all_hosts(2),
            all_hosts(3),
            all_hosts(4),
            all_hosts(5),
            Policy::Prefix {
                hosts: Limit::All,
                paths: Limit::All,
            },
            Policy::Domain(Detail::Domain),
            Policy::Domain(Detail::Subdomain),
            Policy::Domain(Detail::Path),
            Policy::Domain(Detail::Query),
            Policy::Domain(Detail::Initial),
            Policy::Whole,
        ]
    };

    /// Whether every key of this policy can be cut from the key of `finer`.
    pub fn is_coarser_or_equal(self, finer: Policy) -> bool {
        match (self, finer) {
            (
                Policy::Prefix { hosts, paths },
                Policy::Prefix {
                    hosts: finer_hosts,
                    paths: finer_paths,
                },
            ) => hosts <= finer_hosts && paths <= finer_paths,
            (Policy::Domain(detail), Policy::Domain(finer)) => detail <= finer,
            (_, Policy::Whole) => true,
            _ => false,
        }
    }

    /// Appends the key of `surt` to `out`. Never allocates but in `out`.
    ///
    /// ```
    /// use waypost_surt::{Policy, Surt};
    ///
    /// let surt = Surt::new(b"uk,co,bbc,news)/images/logo.png?height=80");
    /// let mut key = Vec::new();
    /// "HxP1".parse::<Policy>()?.cut(&surt, &mut key);
    /// assert_eq!(key, b"uk,co,bbc,news)/images");
    /// # Ok::<(), waypost_surt::UnknownPolicy>(())
    /// ```
    pub fn cut(self, surt: &Surt<'_>, out: &mut Vec<u8>) {
        match self {
            Policy::Prefix { hosts, paths } => cut_prefix(surt, hosts, paths, out),
            Policy::Domain(detail) => cut_domain(surt, detail, out),
            Policy::Whole => out.extend_from_slice(surt.as_bytes()),
        }
    }
}

fn cut_prefix(surt: &Surt<'_>, hosts: Limit<NonZeroU32>, paths: Limit<u32>, out: &mut Vec<u8>) {
    if surt.kind() == Kind::Host
        && let Limit::Most(most) = hosts
        && let Some(end) = nth(b',', surt.host(), most.get())
    {
        out.extend_from_slice(&surt.host()[..end]);
        out.extend_from_slice(b")/");
        return;
    }
    let before_path = surt.before_path();
    if before_path.is_empty() {
        // Neither a host nor a scheme: nothing that could be cut.
        out.extend_from_slice(surt.without_query());
        return;
    }
    out.extend_from_slice(before_path);
    let path = trim_slash(surt.path());
    let is_bare = surt.kind() == Kind::Bare;
    // Behind a scheme there is no leading slash, so one slash fewer is passed.
    let kept = match paths {
        Limit::Most(0) => b"",
        Limit::Most(most) => {
            let slashes = most.saturating_add(u32::from(!is_bare));
            trim_slash(&path[..nth(b'/', path, slashes).unwrap_or(path.len())])
        }
        Limit::All => path,
    };
    out.extend_from_slice(kept);
    if kept.is_empty() && !is_bare {
        out.push(b'/');
    }
}

/// Where the `n`-th `byte` stands in `text`, counted from 1.
fn nth(byte: u8, text: &[u8], n: u32) -> Option<usize> {
    memchr::memchr_iter(byte, text).nth((n as usize).checked_sub(1)?)
}

fn cut_domain(surt: &Surt<'_>, detail: Detail, out: &mut Vec<u8>) {
    let domain = surt.registered_domain();
    if surt.kind() == Kind::Bare {
        out.extend_from_slice(surt.before_path());
    } else {
        out.extend_from_slice(domain);
        out.extend_from_slice(b")/");
    }
    if detail >= Detail::Subdomain {
        push_count(
            memchr::memchr_iter(b',', &surt.host()[domain.len()..]).count(),
            out,
        );
    }
    if detail >= Detail::Path {
        out.push(b'/');
        push_count(surt.segments().count(), out);
    }
    if detail >= Detail::Query {
        out.push(b'/');
        push_count(parameters(surt.query().unwrap_or_default()), out);
    }
    if detail >= Detail::Initial {
        let path = surt.path();
        let first = path.strip_prefix(b"/").unwrap_or(path).first();
        out.push(b'/');
        out.push(
            first
                .filter(|byte| byte.is_ascii_alphanumeric())
                .map_or(b'-', |&byte| byte),
        );
    }
}

/// How many parameters a query has; ampersands at its ends add none.
fn parameters(query: &[u8]) -> usize {
    let start = query.iter().position(|&byte| byte != b'&');
    let end = query.iter().rposition(|&byte| byte != b'&');
    match (start, end) {
        (Some(start), Some(end)) => 1 + memchr::memchr_iter(b'&', &query[start..=end]).count(),
        _ => 0,
    }
}

fn push_count(count: usize, out: &mut Vec<u8>) {
    if count < 10 {
        out.push(b'0' + count as u8);
    } else {
        out.extend_from_slice(count.to_string().as_bytes());
    }
}

impl<N: fmt::Display> fmt::Display for Limit<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Most(n) => write!(f, "{n}"),
            Limit::All => f.write_str("x"),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Policy::Prefix { hosts, paths } => format!("H{hosts}P{paths}"),
            Policy::Domain(Detail::Domain) => "DDom".to_owned(),
            Policy::Domain(Detail::Subdomain) => "DSub".to_owned(),
            Policy::Domain(Detail::Path) => "DPth".to_owned(),
            Policy::Domain(Detail::Query) => "DQry".to_owned(),
            Policy::Domain(Detail::Initial) => "DIni".to_owned(),
            Policy::Whole => "URIR".to_owned(),
        };
        f.pad(&text)
    }
}

/// The error for an unknown policy name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a policy: use HmPn with numbers or x (H3P0, HxP1), DDom, DSub, DPth, DQry, DIni or URIR"
)]
pub struct UnknownPolicy(String);

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Policy, UnknownPolicy> {
        let prefix = || {
            let (hosts, paths) = name.strip_prefix('H')?.split_once('P')?;
            Some(Policy::Prefix {
                hosts: limit(hosts)?,
                paths: limit(paths)?,
            })
        };
        let policy = match name {
            "DDom" => Some(Policy::Domain(Detail::Domain)),
            "DSub" => Some(Policy::Domain(Detail::Subdomain)),
            "DPth" => Some(Policy::Domain(Detail::Path)),
            "DQry" => Some(Policy::Domain(Detail::Query)),
            "DIni" => Some(Policy::Domain(Detail::Initial)),
            "URIR" => Some(Policy::Whole),
            _ => prefix(),
        };
        policy.ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}

fn limit<N: FromStr>(text: &str) -> Option<Limit<N>> {
    match text {
        "x" => Some(Limit::All),
        // `parse` accepts a plus sign, names have none.
        _ if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok().map(Limit::Most),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(policy: &str, surt: &str) -> String {
        let mut out = Vec::new();
        let policy: Policy = policy.parse().unwrap();
        policy.cut(&Surt::new(surt.as_bytes()), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn keys_are_those_of_the_papers_second_figure() {
        let surt = "uk,co,bbc,news)/images/logo.png?height=80&rotate=90&width=200";
        assert_eq!(key("H1P0", surt), "uk)/");
        assert_eq!(key("H3P0", surt), "uk,co,bbc)/");
        assert_eq!(key("H3P1", surt), "uk,co,bbc)/");
        assert_eq!(key("HxP1", surt), "uk,co,bbc,news)/images");
        assert_eq!(key("HxPx", surt), "uk,co,bbc,news)/images/logo.png");
        assert_eq!(key("DDom", surt), "uk,co,bbc)/");
        assert_eq!(key("DSub", surt), "uk,co,bbc)/1");
        assert_eq!(key("DPth", surt), "uk,co,bbc)/1/2");
        assert_eq!(key("DQry", surt), "uk,co,bbc)/1/2/3");
        assert_eq!(key("DIni", surt), "uk,co,bbc)/1/2/3/i");
        assert_eq!(key("URIR", surt), surt);
    }

    #[test]
    fn a_root_has_a_slash_no_segments_and_no_initial() {
        assert_eq!(key("HxPx", "com,example)/"), "com,example)/");
        assert_eq!(key("HxP2", "com,example)"), "com,example)/");
        assert_eq!(key("DIni", "com,example)/?&"), "com,example)/0/0/0/-");
    }

    #[test]
    fn a_port_goes_with_the_last_label() {
        assert_eq!(key("H1P0", "com,example:81)/a"), "com)/");
        assert_eq!(key("H2P1", "com,example:81)/a/b"), "com,example:81)/a");
        assert_eq!(key("DSub", "com,example,a:81)/a/b"), "com,example)/1");
    }

    #[test]
    fn an_address_is_never_cut() {
        assert_eq!(key("H1P0", "1,0,0,127)/a"), "1,0,0,127)/");
        assert_eq!(key("H2P1", "1,0,0,127:81)/a/b"), "1,0,0,127:81)/a");
        assert_eq!(key("DPth", "1,0,0,127)/a"), "1,0,0,127)/0/1");
    }

    #[test]
    fn a_bare_scheme_stands_for_the_host() {
        assert_eq!(key("H1P0", "urn:uuid:1/2?3"), "urn:");
        assert_eq!(key("HxP1", "urn:uuid:1/2?3"), "urn:uuid:1");
        assert_eq!(key("HxPx", "urn:uuid:1/2?3"), "urn:uuid:1/2");
        assert_eq!(key("DPth", "urn:uuid:1/2"), "urn:0/2");
        assert_eq!(key("H1P0", "filedesc"), "filedesc");
    }

    #[test]
    fn names_are_read_and_printed_alike() {
        for policy in Policy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert_eq!("H12P34".parse::<Policy>().unwrap().to_string(), "H12P34");
        for name in [
            "",
            "H0P0",
            "H+1P0",
            "HP",
            "h1p0",
            "H1P",
            "DXyz",
            "H1P0 ",
            "H99999999999P0",
        ] {
            assert!(name.parse::<Policy>().is_err(), "{name}");
        }
    }
}
