//! Which addresses are contacted.
//!
//! The hosts and ports that the registry names are contacted whatever their addresses. All others,
//! to which an archive redirects or links, must have public addresses: otherwise an archive could
//! make the router ask services of its own network. The check is part of resolving the name for the
//! connection, so that a name cannot have another address by then.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::Url;

use crate::{Archive, Registry};

/// The hosts and ports that a registry names.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedHosts(Arc<HashSet<(String, u16)>>);

/// Whether the addresses of a host are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Check {
    /// Only public addresses are contacted.
    PublicOnly,
    /// The registry names the host, or allows the archive everything.
    Unchecked,
}

impl NamedHosts {
    pub(crate) fn new(registry: &Registry) -> NamedHosts {
        let uris = registry.archives.iter().flat_map(|archive| {
            let Archive {
                timemap,
                timegate,
                cdx,
                replay,
                ..
            } = archive;
            let replay = replay.as_ref().map(ToString::to_string);
            let uris = [timemap.clone(), timegate.clone(), cdx.clone(), replay];
            uris.into_iter().flatten()
        });
        let hosts = uris.filter_map(|uri| authority(&Url::parse(&uri).ok()?));
        NamedHosts(Arc::new(hosts.collect()))
    }

    /// How a URI is checked on behalf of an archive.
    ///
    /// # Errors
    /// If it must not be contacted: why.
    pub(crate) fn check(&self, url: &Url, archive: &Archive) -> Result<Check, String> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("`{url}` is neither HTTP nor HTTPS"));
        }
        let authority = authority(url).ok_or_else(|| format!("`{url}` has no host"))?;
        if archive.allow_private || self.0.contains(&authority) {
            return Ok(Check::Unchecked);
        }
        // Addresses are not resolved. IPv6 addresses are in brackets.
        let host = authority.0.trim_matches(['[', ']']);
        match host.parse::<IpAddr>() {
            Ok(address) if !is_public(address) => {
                Err(format!("the address {address} is not public"))
            }
            _ => Ok(Check::PublicOnly),
        }
    }
}

fn authority(url: &Url) -> Option<(String, u16)> {
    Some((url.host_str()?.to_owned(), url.port_or_known_default()?))
}

/// Resolves names to their public addresses.
pub(crate) struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let all = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = all.filter(|address| is_public(address.ip())).collect();
            if public.is_empty() {
                return Err(format!("{} has no public address", name.as_str()).into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

/// Whether an address is one of the public Internet.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Not one of the special-purpose addresses of RFC 6890 and its updates.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || a == 0
        || (a == 100 && b & 0xC0 == 64)
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && b & 0xFE == 18)
        // Multicast, reserved, broadcast.
        || a >= 224)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match segments {
        // IPv4-mapped, and translated by NAT64.
        [0, 0, 0, 0, 0, 0xFFFF, high, low] | [0x64, 0xFF9B, 0, 0, 0, 0, high, low] => {
            is_public_v4(v4(high, low))
        }
        // 6to4 has an IPv4 address inside.
        [0x2002, high, low, ..] => is_public_v4(v4(high, low)),
        // Teredo, benchmarking, ORCHID and others that are for special purposes.
        [0x2001, second, ..] if second < 0x200 => false,
        // Documentation.
        [0x2001, 0xDB8, ..] => false,
        [0x3FFF, second, ..] if second < 0x1000 => false,
        // Everything else outside global unicast: loopback, link-local, unique-local, multicast.
        [first, ..] => first & 0xE000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_internet_are_public() {
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "172.31.0.1",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.1.1",
            "198.19.0.1",
            "203.0.113.9",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:a00:1::",
            "3fff:1::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "ff02::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in [
            "8.8.8.8",
            "100.128.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.20.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2001:4860:4860::8888",
            "2002:808:808::",
            "2606:4700::1",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn a_named_host_is_trusted_on_its_port_only() {
        let registry = Registry::new(vec![Archive {
            timemap: Some("http://127.0.0.1:8080/timemap/".to_owned()),
            ..Archive::new("a")
        }]);
        let hosts = NamedHosts::new(&registry);
        let check = |uri: &str| hosts.check(&Url::parse(uri).unwrap(), &registry.archives[0]);
        assert_eq!(check("http://127.0.0.1:8080/x"), Ok(Check::Unchecked));
        assert_eq!(check("http://a.example/"), Ok(Check::PublicOnly));
        assert_eq!(check("http://8.8.8.8/"), Ok(Check::PublicOnly));
        for uri in [
            "http://127.0.0.1:8081/x",
            "http://0x7f.1:8081/x",
            "http://[::1]:8080/",
            "http://[::ffff:10.0.0.1]/",
            "ftp://127.0.0.1:8080/",
            "data:text/plain,x",
        ] {
            assert!(check(uri).is_err(), "{uri}");
        }
    }
}
