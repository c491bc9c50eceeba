//! Hosts: addresses in all their spellings, `www`, and the reversed form.

/// Appends the labels of `host` in reverse order, joined by commas.
pub(super) fn push_reversed(host: &[u8], out: &mut Vec<u8>) {
    let mut rest = host;
    while let Some(dot) = memchr::memrchr(b'.', rest) {
        out.extend_from_slice(&rest[dot + 1..]);
        out.push(b',');
        rest = &rest[..dot];
    }
    out.extend_from_slice(rest);
}

/// `host` without a leading `www`, digits and a dot; `None` if it has no such prefix.
pub(crate) fn without_www(host: &[u8]) -> Option<&[u8]> {
    let rest = host.strip_prefix(b"www")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    rest[digits..].strip_prefix(b".")
}

/// Appends `:` and the port, which in some dialects may be any number.
pub(super) fn push_port(port: i32, out: &mut Vec<u8>) {
    out.push(b':');
    if port < 0 {
        out.push(b'-');
    }
    let mut digits = [0; 10];
    let mut at = digits.len();
    let mut rest = port.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends an IPv4 address as a dotted quad.
pub(super) fn push_quad(address: u32, out: &mut Vec<u8>) {
    for (i, byte) in address.to_be_bytes().into_iter().enumerate() {
        if i > 0 {
            out.push(b'.');
        }
        if byte >= 100 {
            out.push(b'0' + byte / 100);
        }
        if byte >= 10 {
            out.push(b'0' + byte / 10 % 10);
        }
        out.push(b'0' + byte % 10);
    }
}

/// The IPv4 address of a host of digits and dots, by the rules of the C library: a leading zero means
/// octal, and the last of fewer than four parts fills the remaining bytes. A host of digits alone is
/// one decimal number, truncated to 32 bits.
pub(super) fn ipv4(host: &[u8]) -> Option<u32> {
    let first = *host.first()?;
    if !first.is_ascii_digit() {
        return None;
    }
    if host.iter().all(u8::is_ascii_digit) {
        return Some(host.iter().fold(0_u32, |value, digit| {
            value.wrapping_mul(10).wrapping_add(u32::from(digit - b'0'))
        }));
    }
    let mut parts = [0_u32; 4];
    let mut count = 0;
    for part in host.split(|&byte| byte == b'.') {
        // If the first part is octal, all must be.
        if part.is_empty() || count == 4 || (first == b'0' && part.iter().any(|&d| d > b'7')) {
            return None;
        }
        parts[count] = c_number(part)?;
        count += 1;
    }
    let (last, leading) = parts[..count].split_last()?;
    let room = 8 * (4 - leading.len() as u32);
    if leading.iter().any(|&part| part > 255) || u64::from(*last) >= 1 << room {
        return None;
    }
    let high = leading.iter().fold(0, |value, part| value << 8 | part);
    // `room` is 32 only for a host without dots, which was handled above.
    Some(high << room | last)
}

/// A number as C reads it: octal after a leading zero, else decimal; `None` above 32 bits.
fn c_number(digits: &[u8]) -> Option<u32> {
    let base = if digits[0] == b'0' { 8 } else { 10 };
    digits.iter().try_fold(0_u32, |value, &digit| {
        let digit = (digit as char).to_digit(base)?;
        value.checked_mul(base)?.checked_add(digit)
    })
}

/// The IPv4 address of a host of digits and dots, for dialects without short forms: one number of at
/// most 63 bits, or four parts, all octal if the first has a leading zero, else all decimal.
pub(super) fn ipv4_in_full(host: &[u8]) -> Option<u32> {
    if !host.first()?.is_ascii_digit() {
        return None;
    }
    let text = std::str::from_utf8(host).ok()?;
    if host.iter().all(u8::is_ascii_digit) {
        return text.parse::<i64>().ok().map(|address| address as u32);
    }
    let radix = if host[0] == b'0' { 8 } else { 10 };
    let mut address = 0;
    let mut parts = 0;
    for part in text.split('.') {
        if !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let part = u32::from_str_radix(part, radix).ok()?;
        if part > 255 {
            return None;
        }
        address = address << 8 | part;
        parts += 1;
    }
    (parts == 4).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quad(host: &str) -> Option<String> {
        let mut out = Vec::new();
        push_quad(ipv4(host.as_bytes())?, &mut out);
        Some(String::from_utf8(out).unwrap())
    }

    #[test]
    fn addresses_are_read_as_the_c_library_reads_them() {
        assert_eq!(quad("127.0.0.1").unwrap(), "127.0.0.1");
        assert_eq!(quad("127.1").unwrap(), "127.0.0.1");
        assert_eq!(quad("10.0.258").unwrap(), "10.0.1.2");
        assert_eq!(quad("3279880203").unwrap(), "195.127.0.11");
        assert_eq!(quad("017.0.0.1").unwrap(), "15.0.0.1");
        assert_eq!(quad("99999999999999999999"), quad("1661992959"));
        assert_eq!(quad("1.2.3.4.5"), None);
        assert_eq!(quad("1.2.3.256"), None);
        assert_eq!(quad("1.2.08.4"), None);
        assert_eq!(quad("0x7f.1"), None);
        assert_eq!(quad("1..2"), None);
        assert_eq!(quad("example.com"), None);
    }

    #[test]
    fn ports_are_written_in_full() {
        for port in [0, 7, 8080, 65_535, i32::MAX, -2, i32::MIN] {
            let mut out = Vec::new();
            push_port(port, &mut out);
            assert_eq!(out, format!(":{port}").into_bytes());
        }
    }

    #[test]
    fn one_www_is_taken_off() {
        assert_eq!(without_www(b"www.www.x"), Some(&b"www.x"[..]));
        assert_eq!(without_www(b"www23.com"), Some(&b"com"[..]));
        assert_eq!(without_www(b"wwwx.com"), None);
    }
}
