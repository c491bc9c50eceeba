//! The smallest key that can still follow.
//!
//! Sorted SURTs do not give sorted keys. `/a`, `/a-b`, `/a/c`, `/a0`, `/a?x` is the order of an
//! index, because `-` and digits sort around `/` and below `?`: under `HxP1` the key `/a` recurs
//! twice. And under `H2P1` the key `com,x)/` recurs after all of the host's paths, when its
//! subdomains follow. But a key that recurs is always a prefix of the previous SURT. So for every
//! SURT there is a smallest key that it and all following SURTs can have, and all smaller keys are
//! complete.
//!
//! Hosts that can't be registered (a port on a public suffix) are ignored here: their keys may
//! arrive late, below the bound, and all rows have to wait then.

use waypost_surt::{Kind, Limit, Policy, Surt};

/// A lower bound of the keys of `surt` and of all SURTs after it.
pub(crate) fn low(policy: Policy, surt: &[u8], out: &mut Vec<u8>) {
    plain_low(policy, surt, out);
    // Hosts that contain these bytes sort around their prefixes.
    let authority = Surt::new(surt).authority();
    let odd = authority
        .iter()
        .position(|byte| matches!(byte, b'*' | b'+'));
    if let Some(at) = odd.filter(|_| policy != Policy::Whole)
        && authority[..at] < out[..]
    {
        out.clear();
        out.extend_from_slice(&authority[..at]);
    }
}

/// The same for regular hosts.
fn plain_low(policy: Policy, surt: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let parsed = Surt::new(surt);
    if let Policy::Whole = policy {
        out.extend_from_slice(surt);
        return;
    }
    if parsed.kind() == Kind::Bare {
        let end = surt.iter().position(|&byte| byte <= b'?');
        out.extend_from_slice(&surt[..end.unwrap_or(surt.len())]);
        return;
    }
    let authority = parsed.authority();
    match policy {
        Policy::Domain(_) => {
            // `com,x:81` comes after `com,x-y` and `com,x0`.
            let domain = parsed.registered_domain();
            let torn = domain.iter().enumerate().position(|(at, byte)| {
                matches!(byte, b'-'..=b'9') && at > 0 && domain[at - 1] != b','
            });
            out.extend_from_slice(&domain[..torn.unwrap_or(domain.len())]);
        }
        Policy::Prefix { hosts, paths } => {
            let commas = memchr::memchr_iter(b',', parsed.host()).count();
            if let (Limit::Most(most), Kind::Host) = (hosts, parsed.kind()) {
                let most = most.get() as usize;
                let nth = memchr::memchr_iter(b',', authority).nth(most.saturating_sub(1));
                if let Some(at) = nth.filter(|_| most <= commas) {
                    out.extend_from_slice(&authority[..at]);
                    out.extend_from_slice(b")/");
                    return;
                }
                // The root of this host is a key of its subdomains.
                if most == commas + 1 {
                    out.extend_from_slice(authority);
                    out.extend_from_slice(b")/");
                    return;
                }
            }
            out.extend_from_slice(authority);
            out.push(b')');
            if paths == Limit::Most(0) {
                out.push(b'/');
                return;
            }
            let path = &surt[authority.len() + 1..];
            let end = path
                .iter()
                .skip(1)
                .position(|&byte| byte <= b'?')
                .map_or(path.len(), |at| at + 1);
            out.extend_from_slice(&path[..end]);
        }
        // Nothing sorts below the empty key.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn surts() -> impl Strategy<Value = Vec<u8>> {
        "(com|uk,co|org|com,x-a|com,x\\*)(,[ab]{1,2}[-*0b]?){1,3}(:81)?\\)/([ab]{0,2}[-0.]?/?){0,4}(\\?[ab&=]{0,4})?"
            .prop_map(String::into_bytes)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn no_key_below_it_comes(set in prop::collection::btree_set(surts(), 1..12)) {
            let set: BTreeSet<Vec<u8>> = set;
            let surts: Vec<_> = set.into_iter().collect();
            let (mut bound, mut key) = (Vec::new(), Vec::new());
            for policy in Policy::ALL {
                for (at, surt) in surts.iter().enumerate() {
                    low(policy, surt, &mut bound);
                    for later in &surts[at..] {
                        key.clear();
                        policy.cut(&Surt::new(later), &mut key);
                        prop_assert!(key >= bound, "{policy}: {} < {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&bound));
                    }
                }
            }
        }
    }
}
