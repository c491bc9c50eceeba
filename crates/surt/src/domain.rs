//! The registered domain of a host, by the list of public suffixes.

use psl::{List, Psl, Type};

use crate::{Kind, Surt};

/// The version of crate `psl`, whose list of public suffixes is compiled in. Keys of the D-policies
/// depend on it, so summaries record it. `unknown` if the build finds no lock file.
pub const PSL_VERSION: &str = env!("WAYPOST_PSL_VERSION");

impl<'a> Surt<'a> {
    /// The registered domain, as a prefix of the SURT: `uk,co,bbc` of `uk,co,bbc,news)/`.
    ///
    /// Only suffixes of registries count (the list's ICANN section), not those of companies:
    /// `io,github` is a registered domain. Without one, the whole host is used: for
    /// addresses, single labels and hosts that are a public suffix themselves. Empty without a host.
    pub fn registered_domain(&self) -> &'a [u8] {
        let host = self.host();
        if self.kind() != Kind::Host {
            return host;
        }
        // Labels of the suffix, and one more.
        let mut rest = suffix_labels(self) + 1;
        let end = memchr::memchr_iter(b',', host).find(|_| {
            rest -= 1;
            rest == 0
        });
        &host[..end.unwrap_or(host.len())]
    }
}

/// How many labels the registry's suffix has.
fn suffix_labels(surt: &Surt<'_>) -> usize {
    let mut most = usize::MAX;
    loop {
        let info = List.find(surt.labels().take(most));
        let labels = labels_in(surt, info.len);
        match info.typ {
            // A company's suffix lies below a registry's: look again without its last label.
            Some(Type::Private) if labels > 1 => most = labels - 1,
            _ => return labels,
        }
    }
}

/// How many labels the first `length` bytes of a host hold.
fn labels_in(surt: &Surt<'_>, length: usize) -> usize {
    let host = surt.host();
    1 + memchr::memchr_iter(b',', &host[..length.min(host.len())]).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(surt: &str) -> String {
        String::from_utf8(Surt::new(surt.as_bytes()).registered_domain().to_vec()).unwrap()
    }

    #[test]
    fn the_registered_domain_is_one_label_below_the_suffix() {
        assert_eq!(domain("uk,co,bbc,news)/"), "uk,co,bbc");
        assert_eq!(domain("com,example:8080)/"), "com,example");
        assert_eq!(domain("jp,kawasaki,city,www)/"), "jp,kawasaki,city");
        assert_eq!(domain("jp,kawasaki,x,y,z)/"), "jp,kawasaki,x,y");
        assert_eq!(domain("local,printer,a)/"), "local,printer");
    }

    #[test]
    fn suffixes_of_companies_do_not_count() {
        assert_eq!(domain("io,github,someone)/"), "io,github");
        assert_eq!(domain("com,blogspot,x)/"), "com,blogspot");
        assert_eq!(domain("com,amazonaws,s3,bucket)/"), "com,amazonaws");
    }

    #[test]
    fn hosts_without_one_stand_for_themselves() {
        assert_eq!(domain("uk,co)/"), "uk,co");
        assert_eq!(domain("com)/"), "com");
        assert_eq!(domain("localhost:81)/"), "localhost");
        assert_eq!(domain("1,0,0,127)/"), "1,0,0,127");
        assert_eq!(domain("::1)/"), "::1");
        assert_eq!(domain("mailto:a@b.c"), "");
        assert_eq!(domain(")/"), "");
    }

    #[test]
    fn the_version_named_is_the_one_compiled_in() {
        let lock = include_str!("../../../Cargo.lock");
        let (_, entry) = lock.split_once("name = \"psl\"\nversion = \"").unwrap();
        assert_eq!(entry.split('"').next(), Some(PSL_VERSION));
    }
}
