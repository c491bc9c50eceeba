//! The spellings of a URL that are tried in a filter of URLs.
//!
//! These filters contain URLs as the archive spelled them. A lookup may spell the same page
//! differently, so the most frequent differences are tried as well: the scheme, `www.`, capitals in
//! the host, the slash of an empty path, the fragment.

/// Appends the spellings of a URL that are worth trying, the given one first.
pub(super) fn spellings(url: &[u8], out: &mut Vec<Vec<u8>>) {
    let url = url.trim_ascii();
    let mut add = |spelling: Vec<u8>| {
        if !out.contains(&spelling) {
            out.push(spelling);
        }
    };
    add(url.to_vec());
    let (scheme, rest) = match memchr::memmem::find(url, b"://") {
        Some(at) => (url[..at].to_ascii_lowercase(), &url[at + 3..]),
        None => (b"http".to_vec(), url),
    };
    if scheme != b"http" && scheme != b"https" {
        return;
    }
    let rest = rest.split(|&byte| byte == b'#').next().unwrap_or_default();
    let end = rest
        .iter()
        .position(|byte| matches!(byte, b'/' | b'?'))
        .unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let mut host = host.to_ascii_lowercase();
    for port in [&b":80"[..], b":443"] {
        if host.ends_with(port) {
            host.truncate(host.len() - port.len());
        }
    }
    let bare = host.strip_prefix(b"www.").unwrap_or(&host).to_vec();
    let www = [b"www.", &bare[..]].concat();
    let path = match path.first() {
        Some(b'/') => path.to_vec(),
        _ => [b"/", path].concat(),
    };
    let other = match &scheme[..] {
        b"http" => &b"https"[..],
        _ => b"http",
    };
    for scheme in [&scheme[..], other] {
        for host in [&host, &bare, &www] {
            add([scheme, b"://", host, &path].concat());
            if path == b"/" {
                add([scheme, b"://", host].concat());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_spellings_of_a_page_are_tried() {
        let of = |url: &str| {
            let mut all = Vec::new();
            spellings(url.as_bytes(), &mut all);
            all.into_iter()
                .map(|url| String::from_utf8(url).unwrap())
                .collect::<Vec<_>>()
        };
        for asked in [
            "http://www.Example.com:80",
            "https://example.com/#top",
            "example.com",
        ] {
            let all = of(asked);
            assert_eq!(all[0], asked);
            for held in [
                "http://example.com/",
                "https://www.example.com/",
                "http://example.com",
            ] {
                assert!(all.iter().any(|url| url == held), "{asked}: {all:?}");
            }
        }
        assert!(of("http://a.example/B?C").contains(&"https://www.a.example/B?C".to_owned()));
        assert_eq!(of("dns:example.com://x"), ["dns:example.com://x"]);
    }
}
