//! Queries: session parameters removed, the others sorted.

use std::sync::LazyLock;

use memchr::memmem;

/// Removes sessions from the lower-cased query `out[start..]` and sorts its parameters.
///
/// `ranges` is scratch, so that nothing is allocated per URI.
pub(super) fn strip_and_sort(out: &mut Vec<u8>, start: usize, ranges: &mut Vec<(usize, usize)>) {
    strip_sessions(out, start);
    sort(out, start, ranges);
}

/// Removes each kind of session once: its last occurrence that ends at `&` or at the end. It need not
/// start at a parameter, so `mysid=…` loses its end, as in the keys of archives.
fn strip_sessions(query: &mut Vec<u8>, start: usize) {
    // The shortest that can match: `sid=` with 32 letters, and `cfid=1&cftoken=2`. Each has an `id`.
    if query.len() < start + 16 || ID.find(&query[start..]).is_none() {
        return;
    }
    if query.len() >= start + 36 {
        strip_token(query, start, b"jsessionid=", 32);
        strip_token(query, start, b"phpsessid=", 32);
        strip_token(query, start, b"sid=", 32);
        strip_asp_session(query, start);
    }
    strip_cold_fusion(query, start);
}

/// Created once, which takes longer than most searches.
static ID: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(b"id"));

fn strip_token(query: &mut Vec<u8>, start: usize, name: &[u8], length: usize) {
    let text = &query[start..];
    let found = memmem::rfind_iter(text, name).find(|&at| {
        let value = &text[at + name.len()..];
        value.len() >= length
            && value[..length].iter().all(u8::is_ascii_alphanumeric)
            && ends_parameter(&value[length..])
    });
    if let Some(at) = found {
        remove(query, start + at, name.len() + length);
    }
}

/// `aspsessionid` and eight letters, `=`, 24 letters.
fn strip_asp_session(query: &mut Vec<u8>, start: usize) {
    const NAME: &[u8] = b"aspsessionid";
    const LENGTH: usize = NAME.len() + 8 + 1 + 24;
    let text = &query[start..];
    let found = memmem::rfind_iter(text, NAME).find(|&at| {
        let session = &text[at..];
        session.len() >= LENGTH
            && session[12..20].iter().all(u8::is_ascii_alphabetic)
            && session[20] == b'='
            && session[21..LENGTH].iter().all(u8::is_ascii_alphabetic)
            && ends_parameter(&session[LENGTH..])
    });
    if let Some(at) = found {
        remove(query, start + at, LENGTH);
    }
}

/// `cfid=…&cftoken=…`, neither of them empty.
fn strip_cold_fusion(query: &mut Vec<u8>, start: usize) {
    let text = &query[start..];
    // The ampersand after the current occurrence: searched only up to the previous occurrence, so that
    // `cfid=cfid=…` takes linear time.
    let mut ampersand = None;
    let mut searched = text.len();
    let found = memmem::rfind_iter(text, b"cfid=").find_map(|at| {
        ampersand = memchr::memchr(b'&', &text[at..searched])
            .map(|offset| at + offset)
            .or(ampersand);
        searched = at;
        let end_of_id = ampersand?;
        let token = text[end_of_id..].strip_prefix(b"&cftoken=")?;
        let length = memchr::memchr(b'&', token).unwrap_or(token.len());
        (end_of_id > at + 5 && length > 0).then_some((at, end_of_id + 9 + length - at))
    });
    if let Some((at, length)) = found {
        remove(query, start + at, length);
    }
}

fn ends_parameter(rest: &[u8]) -> bool {
    matches!(rest.first(), None | Some(b'&'))
}

/// Removes `length` bytes at `at`, and the `&` after them; one before them stays.
fn remove(query: &mut Vec<u8>, at: usize, length: usize) {
    let ampersand = usize::from(query.len() > at + length);
    query.drain(at..at + length + ampersand);
}

/// Sorts the parameters of `out[start..]` by name, then value; `a` comes before `a=`.
fn sort(out: &mut Vec<u8>, start: usize, ranges: &mut Vec<(usize, usize)>) {
    let Some(first) = memchr::memchr(b'&', &out[start..]) else {
        return;
    };
    let length = out.len() - start;
    if length < 2 {
        return;
    }
    ranges.clear();
    let mut from = 0;
    for at in std::iter::once(first)
        .chain(memchr::memchr_iter(b'&', &out[start + first + 1..]).map(|at| first + 1 + at))
        .chain(std::iter::once(length))
    {
        ranges.push((from, at));
        from = at + 1;
    }
    let text = &out[start..];
    let parameter = |range: &(usize, usize)| split(&text[range.0..range.1]);
    if ranges.is_sorted_by_key(parameter) {
        return;
    }
    // Equal parameters are equal bytes, so an unstable sort, which needs no memory, is enough.
    ranges.sort_unstable_by_key(parameter);
    reorder(out, start, ranges);
}

/// The name and the value of a parameter, which is what it is sorted by.
fn split(parameter: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'=', parameter) {
        Some(equals) => (&parameter[..equals], Some(&parameter[equals + 1..])),
        None => (parameter, None),
    }
}

/// Whether the parameters of a query are sorted.
pub(super) fn is_sorted(query: &[u8]) -> bool {
    query.split(|byte| *byte == b'&').is_sorted_by_key(split)
}

/// Puts the parameters of `out[start..]` in the order of `ranges`, which are relative to `start`.
pub(super) fn reorder(out: &mut Vec<u8>, start: usize, ranges: &[(usize, usize)]) {
    let length = out.len() - start;
    out.reserve(length);
    for (i, &(from, to)) in ranges.iter().enumerate() {
        if i > 0 {
            out.push(b'&');
        }
        out.extend_from_within(start + from..start + to);
    }
    out.drain(start..start + length);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(query: &str) -> String {
        let mut out = query.as_bytes().to_vec();
        strip_and_sort(&mut out, 0, &mut Vec::new());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn parameters_are_sorted_by_name_then_value() {
        assert_eq!(canonical("b=2&a=1&a"), "a&a=1&b=2");
        assert_eq!(canonical("a=1&"), "&a=1");
        assert_eq!(canonical("a-b=1&a=2"), "a=2&a-b=1");
        assert_eq!(canonical("&"), "&");
    }

    #[test]
    fn sessions_go_and_leave_the_ampersand_before_them() {
        let id = "0123456789abcdefghijklmnopqrstuv";
        assert_eq!(canonical(&format!("one=two&jsessionid={id}")), "&one=two");
        assert_eq!(canonical(&format!("phpsessid={id}&x=y")), "x=y");
        assert_eq!(canonical(&format!("mysid={id}&x=y")), "myx=y");
        assert_eq!(
            canonical("aspsessionidaaaabbbb=aaaabbbbccccddddeeeeffff&x=y"),
            "x=y"
        );
        assert_eq!(canonical("cfid=12&cftoken=34&x=y"), "x=y");
        assert_eq!(
            canonical(&format!("sid={id}x&x=y")),
            format!("sid={id}x&x=y")
        );
    }
}
