//! What an archive has served with success, according to its access log.

/// The original URI of a line in common or combined log format whose request was for a memento and
/// was answered with 200.
///
/// ```
/// use waypost_router::harvest::served_uri;
///
/// let line = "::1 - - [17/Nov/2026:02:00:00 +0000] \"GET /web/20040102030405id_/http://a.example/x HTTP/1.1\" 200 512";
/// assert_eq!(served_uri(line), Some("http://a.example/x"));
/// assert_eq!(served_uri(&line.replace(" 200 ", " 404 ")), None);
/// ```
pub fn served_uri(line: &str) -> Option<&str> {
    let (_, request) = line.split_once("] \"").or_else(|| line.split_once(" \""))?;
    let (request, rest) = request.split_once("\" ")?;
    let status = rest.split_whitespace().next()?;
    if status != "200" {
        return None;
    }
    let mut words = request.split(' ');
    if words.next()? != "GET" {
        return None;
    }
    original_in(words.next()?)
}

/// The original URI in the path of a memento: what follows a segment of 14 digits, with or without a
/// modifier such as `id_`.
pub(crate) fn original_in(path: &str) -> Option<&str> {
    let mut from = 0;
    loop {
        let slash = from + path.get(from..)?.find('/')?;
        let segment = &path[slash + 1..];
        let digits = segment.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 14 {
            let modifier = segment[14..].split('/').next().unwrap_or_default();
            let plain = modifier
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            let uri = segment.get(14 + modifier.len() + 1..);
            if let Some(uri) = uri.filter(|uri| plain && !uri.is_empty()) {
                return Some(uri);
            }
        }
        from = slash + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mementos_that_were_served_count() {
        let line = |request: &str, status: u16| {
            format!(
                "1.2.3.4 - - [17/Nov/2026:02:00:00 +0000] \"{request} HTTP/1.1\" {status} 5 \"-\" \"agent\""
            )
        };
        for (request, status, expected) in [
            (
                "GET /web/20040102030405/http://a.example/",
                200,
                Some("http://a.example/"),
            ),
            (
                "GET /all/20040102030405mp_/https://a.example/x?y=1",
                200,
                Some("https://a.example/x?y=1"),
            ),
            ("GET /20040102030405/a.example/", 200, Some("a.example/")),
            ("GET /web/20040102030405/http://a.example/", 404, None),
            ("GET /web/20040102030405/http://a.example/", 302, None),
            ("HEAD /web/20040102030405/http://a.example/", 200, None),
            ("GET /web/timemap/link/http://a.example/", 200, None),
            ("GET /web/2004/http://a.example/", 200, None),
            ("GET /", 200, None),
        ] {
            assert_eq!(
                served_uri(&line(request, status)),
                expected,
                "{request} {status}"
            );
        }
        assert_eq!(served_uri("not a log line"), None);
    }
}
