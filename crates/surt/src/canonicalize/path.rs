//! Paths: dots and empty segments resolved, ASP.NET sessions and the last slash removed.

/// The normal form of `path`: it starts with `/`, has no `.` and no empty segments but the last, and
/// `..` removes the preceding segment, if there is one. Built in `buffer` if necessary.
pub(super) fn normalized<'a>(path: &'a [u8], buffer: &'a mut Vec<u8>) -> &'a [u8] {
    // The part before the first slash is not a segment.
    let path = match memchr::memchr(b'/', path) {
        Some(slash) => &path[slash..],
        None => b"/",
    };
    if is_normal(path) {
        return path;
    }
    let out = buffer;
    out.clear();
    for segment in path[1..].split(|&byte| byte == b'/') {
        match segment {
            b"." => {}
            b".." => pop_or_keep(out),
            _ => {
                out.push(b'/');
                out.extend_from_slice(segment);
            }
        }
    }
    // Empty segments are removed last: until then, `..` may remove one of them.
    out.dedup_by(|next, before| *next == b'/' && *before == b'/');
    if out.is_empty() {
        out.push(b'/');
    }
    out
}

/// Removes the last segment. At the root, `..` is kept as a segment.
fn pop_or_keep(out: &mut Vec<u8>) {
    match memchr::memrchr(b'/', out) {
        Some(slash) => out.truncate(slash),
        None => out.extend_from_slice(b"/.."),
    }
}

/// Whether a path that starts with a slash has no empty, `.` or `..` segment, except an empty last one.
/// Names with leading dots give `false`, too; the slow path handles them.
fn is_normal(path: &[u8]) -> bool {
    // Has no early exits, so that it is vectorised.
    !path.iter().zip(&path[1..]).fold(false, |odd, (&a, &b)| {
        odd | ((a == b'/') & ((b == b'/') | (b == b'.')))
    })
}

/// Removes ASP.NET's session segments from a lower-cased path, then one slash from its end.
pub(super) fn strip(path: &mut Vec<u8>, start: usize) {
    // No session without a parenthesis, which few paths have.
    if memchr::memchr(b'(', &path[start..]).is_some() {
        strip_session(path, start, nested_session);
        strip_session(path, start, plain_session);
    }
    if path.len() > start + 1 && path.last() == Some(&b'/') {
        path.pop();
    }
}

/// Removes the last segment of `path[start..]` that is a session followed by a page `….aspx`.
fn strip_session(path: &mut Vec<u8>, start: usize, session: fn(&[u8]) -> Option<usize>) {
    let text = &path[start..];
    let Some(page) = text
        .windows(5)
        .rposition(|w| w == b".aspx")
        .filter(|&at| at > 0)
    else {
        return;
    };
    for slash in memchr::memrchr_iter(b'/', &text[..page]) {
        let Some(length) = session(&text[slash + 1..]) else {
            continue;
        };
        // Between `(session)/` and `.aspx` there must be at least one byte and no `?`.
        let rest = slash + 1 + length;
        let question = memchr::memchr(b'?', &text[rest..]).unwrap_or(text.len() - rest);
        if text[rest..]
            .windows(5)
            .take(question + 1)
            .skip(1)
            .any(|w| w == b".aspx")
        {
            path.drain(start + slash + 1..start + rest);
            return;
        }
    }
}

/// The length of `(…24…)/` at the start of `text`.
fn plain_session(text: &[u8]) -> Option<usize> {
    let inner = text.strip_prefix(b"(")?;
    (is_token(inner) && inner[24..].starts_with(b")/")).then_some(27)
}

/// The length of `(x(…24…)y(…24…))/` at the start of `text`.
fn nested_session(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    text.strip_prefix(b"(")?;
    while text.get(at).is_some_and(u8::is_ascii_lowercase)
        && text.get(at + 1) == Some(&b'(')
        && is_token(&text[at + 2..])
        && text.get(at + 26) == Some(&b')')
    {
        at += 27;
    }
    (at > 1 && text[at..].starts_with(b")/")).then_some(at + 2)
}

/// Whether `text` starts with the 24 letters and digits of a session.
fn is_token(text: &[u8]) -> bool {
    text.len() >= 24
        && text[..24]
            .iter()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'z'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(path: &str) -> String {
        let mut buffer = Vec::new();
        String::from_utf8(normalized(path.as_bytes(), &mut buffer).to_vec()).unwrap()
    }

    fn stripped(path: &str) -> String {
        let mut out = path.as_bytes().to_vec();
        strip(&mut out, 0);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn dots_and_empty_segments_go() {
        assert_eq!(normal(""), "/");
        assert_eq!(normal("/a/./b//c/"), "/a/b/c/");
        assert_eq!(normal("/a/../b"), "/b");
        assert_eq!(normal("/a/b/.."), "/a");
        assert_eq!(normal("/a/b//../.."), "/a");
        assert_eq!(normal("/.hidden/..x"), "/.hidden/..x");
    }

    #[test]
    fn dots_that_would_leave_the_host_are_kept() {
        assert_eq!(normal("/../a"), "/../a");
    }

    #[test]
    fn sessions_of_aspnet_go_and_one_slash() {
        let session = "0123456789abcdefghijklmn";
        assert_eq!(stripped(&format!("/a/({session})/b.aspx")), "/a/b.aspx");
        assert_eq!(
            stripped(&format!("/a/(s({session})f({session}))/b.aspx")),
            "/a/b.aspx"
        );
        assert_eq!(
            stripped(&format!("/a/({session})/b.html")),
            format!("/a/({session})/b.html")
        );
        assert_eq!(stripped("/a//"), "/a/");
        assert_eq!(stripped("/"), "/");
    }
}
