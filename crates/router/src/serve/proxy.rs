//! Mementos that are passed on: as they were captured, without what archives add.

use http::HeaderMap;
use http::header::HeaderName;

/// The URI of a memento as it was captured: `…/20120615120000id_/…` for `…/20120615120000/…` and for
/// pywb's `…/20120615120000mp_/…`. Others are kept.
pub(crate) fn raw_uri(uri: &str) -> String {
    let mut start = 0;
    for segment in uri.split('/') {
        let (digits, modifier) = segment.split_at(segment.len().min(14).min(digits(segment)));
        let is_modifier = modifier.is_empty()
            || (modifier.len() == 3
                && modifier.ends_with('_')
                && modifier[..2].bytes().all(|byte| byte.is_ascii_lowercase()));
        let end = start + segment.len();
        if digits.len() == 14 && is_modifier && uri[end..].starts_with('/') {
            return format!("{}{digits}id_{}", &uri[..start], &uri[end..]);
        }
        start = end + 1;
    }
    uri.to_owned()
}

fn digits(segment: &str) -> usize {
    segment
        .bytes()
        .take_while(|byte| byte.is_ascii_digit())
        .count()
}

/// The headers of a memento that are passed on: not those that are about the connection, nor those
/// by which an archived page could change how clients treat this server.
pub(crate) fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let mut passed = HeaderMap::new();
    for (name, value) in headers {
        if !is_own(name) {
            passed.append(name, value.clone());
        }
    }
    passed
}

fn is_own(name: &HeaderName) -> bool {
    const OWN: [&str; 17] = [
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "server",
        "date",
        "vary",
        "set-cookie",
        "strict-transport-security",
        "public-key-pins",
        "clear-site-data",
        "alt-svc",
        "service-worker-allowed",
    ];
    OWN.contains(&name.as_str()) || name.as_str().starts_with("access-control-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mementos_are_asked_for_as_captured() {
        for (uri, raw) in [
            (
                "http://a/20120615120000/http://b/20100101000000/",
                "http://a/20120615120000id_/http://b/20100101000000/",
            ),
            (
                "http://a/web/20120615120000mp_/http://b/",
                "http://a/web/20120615120000id_/http://b/",
            ),
            (
                "http://a/20120615120000id_/http://b/",
                "http://a/20120615120000id_/http://b/",
            ),
            ("http://a/2012/http://b/", "http://a/2012/http://b/"),
            ("http://a/20120615120000", "http://a/20120615120000"),
            ("http://a/201206151200001/x", "http://a/201206151200001/x"),
            (
                "http://a/20120615120000éé_/x",
                "http://a/20120615120000éé_/x",
            ),
            ("http://a/abc123/XYZ", "http://a/abc123/XYZ"),
        ] {
            assert_eq!(raw_uri(uri), raw, "{uri}");
        }
    }

    #[test]
    fn headers_of_the_connection_and_cookies_stay_behind() {
        let mut headers = HeaderMap::new();
        for name in [
            "content-type",
            "memento-datetime",
            "set-cookie",
            "transfer-encoding",
            "access-control-allow-origin",
        ] {
            headers.insert(HeaderName::from_static(name), "x".parse().unwrap());
        }
        let passed = passed_on(&headers);
        let names: Vec<&str> = passed.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["content-type", "memento-datetime"]);
    }
}
