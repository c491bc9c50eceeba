//! The body of an HTTP message without its transfer and content encodings.

use std::borrow::Cow;
use std::io::Read;

use memchr::memchr;
use waypost_io::{Error, ErrorKind, Result};

use super::fetch::too_large;
use super::head::Head;

/// Decodes a body. Some crawlers store bodies decoded and keep the headers: a body that does not look
/// encoded stays as it is.
///
/// # Errors
/// If an encoding is unknown or damaged, or the result has more than `limit` bytes.
pub(super) fn decode<'a>(head: &Head<'_>, body: &'a [u8], limit: usize) -> Result<Cow<'a, [u8]>> {
    let mut decoded = Cow::Borrowed(body);
    let codings = |name| {
        let value = head.get(name).unwrap_or_default().to_ascii_lowercase();
        let mut codings: Vec<String> = String::from_utf8_lossy(&value)
            .split(',')
            .map(|coding| coding.trim().to_owned())
            .collect();
        // The last one was applied last.
        codings.reverse();
        codings
    };
    for coding in codings("Transfer-Encoding") {
        if coding == "chunked" {
            if let Some(joined) = dechunk(&decoded)? {
                decoded = Cow::Owned(joined);
            }
        } else {
            undo(&coding, &mut decoded, limit)?;
        }
    }
    for coding in codings("Content-Encoding") {
        undo(&coding, &mut decoded, limit)?;
    }
    Ok(decoded)
}

/// Undoes one coding.
fn undo(coding: &str, body: &mut Cow<'_, [u8]>, limit: usize) -> Result<()> {
    if body.is_empty() {
        return Ok(());
    }
    let bytes = &body[..];
    let stream: Box<dyn Read + '_> = match coding {
        "" | "identity" => return Ok(()),
        "gzip" | "x-gzip" => match bytes.starts_with(b"\x1f\x8b") {
            true => Box::new(flate2::bufread::MultiGzDecoder::new(bytes)),
            false => return Ok(()),
        },
        // Officially with the header of zlib, which some servers leave out.
        "deflate" => match is_zlib(bytes) {
            true => Box::new(flate2::bufread::ZlibDecoder::new(bytes)),
            false => Box::new(flate2::bufread::DeflateDecoder::new(bytes)),
        },
        "br" => Box::new(brotli_decompressor::Decompressor::new(bytes, 1 << 16)),
        "zstd" => match bytes.starts_with(b"\x28\xb5\x2f\xfd") {
            true => Box::new(
                zstd::stream::read::Decoder::with_buffer(bytes).map_err(|e| bad(coding, &e))?,
            ),
            false => return Ok(()),
        },
        other => {
            let message = format!("the encoding `{other}` of the body is not supported");
            return Err(Error::new(ErrorKind::Encoding(message)));
        }
    };
    let mut decoded = Vec::new();
    stream
        .take(limit as u64 + 1)
        .read_to_end(&mut decoded)
        .map_err(|error| bad(coding, &error))?;
    if decoded.len() > limit {
        return Err(too_large(limit));
    }
    *body = Cow::Owned(decoded);
    Ok(())
}

fn bad(coding: &str, error: &std::io::Error) -> Error {
    let message = format!("the {coding} encoding of the body is damaged: {error}");
    Error::new(ErrorKind::Encoding(message))
}

fn is_zlib(bytes: &[u8]) -> bool {
    let [first, second, ..] = bytes else {
        return false;
    };
    first & 15 == 8 && (u16::from(*first) << 8 | u16::from(*second)).is_multiple_of(31)
}

/// Joins the chunks of a body. `None` if it does not start with a chunk.
fn dechunk(body: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut rest = body;
    let mut joined = Vec::new();
    loop {
        let Some((size, after)) = chunk_size(rest) else {
            if rest.len() == body.len() {
                return Ok(None);
            }
            let message = "the chunks of the body are damaged or incomplete".to_owned();
            return Err(Error::new(ErrorKind::Encoding(message)));
        };
        if size == 0 {
            return Ok(Some(joined));
        }
        let Some(chunk) = after.get(..size) else {
            let message = "the last chunk of the body is incomplete".to_owned();
            return Err(Error::new(ErrorKind::Encoding(message)));
        };
        joined.extend_from_slice(chunk);
        rest = &after[size..];
        rest = rest.strip_prefix(b"\r").unwrap_or(rest);
        rest = rest.strip_prefix(b"\n").unwrap_or(rest);
    }
}

/// The size of a chunk, and what follows that line.
fn chunk_size(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let end = memchr(b'\n', &bytes[..bytes.len().min(4096)])?;
    let line = &bytes[..end];
    let digits = &line[..memchr(b';', line).unwrap_or(line.len())];
    let digits = std::str::from_utf8(digits.trim_ascii()).ok()?;
    // `from_str_radix` alone accepts a sign.
    let is_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let size = is_hex.then(|| usize::from_str_radix(digits, 16).ok())??;
    Some((size, &bytes[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::read::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use proptest::prelude::*;

    fn encoded(coding: &str, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let level = Compression::fast();
        let read = match coding {
            "gzip" => GzEncoder::new(body, level).read_to_end(&mut out),
            "deflate" => ZlibEncoder::new(body, level).read_to_end(&mut out),
            "raw" => DeflateEncoder::new(body, level).read_to_end(&mut out),
            _ => {
                out = zstd::encode_all(body, 1).unwrap();
                Ok(0)
            }
        };
        read.unwrap();
        out
    }

    fn chunked(body: &[u8], size: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for chunk in body.chunks(size) {
            out.extend_from_slice(format!("{:X};a=b\r\n", chunk.len()).as_bytes());
            out.extend_from_slice(chunk);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"0\r\nTrailer: x\r\n\r\n");
        out
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(
            body in prop::collection::vec(any::<u8>(), 1..300),
            codings in prop::collection::vec(prop::sample::select(vec!["gzip", "deflate", "zstd", "raw"]), 0..3),
            chunk in prop::option::of(1usize..50),
        ) {
            let mut stored = body.clone();
            for coding in &codings {
                stored = encoded(coding, &stored);
            }
            let mut head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {}\r\n", codings.join(", "));
            head = head.replace("raw", "deflate");
            if let Some(size) = chunk {
                stored = chunked(&stored, size);
                head += "Transfer-Encoding: Chunked\r\n";
            }
            let head = Head::parse(head.as_bytes());
            prop_assert_eq!(&decode(&head, &stored, 1 << 20).unwrap()[..], &body[..]);
            // Cut anywhere, it is an error or a part, never a panic.
            for end in 0..stored.len() {
                let _ = decode(&head, &stored[..end], 1 << 20);
            }
        }
    }

    fn decoded(head: &str, body: &[u8]) -> Result<Vec<u8>> {
        Ok(decode(&Head::parse(head.as_bytes()), body, 1000)?.into_owned())
    }

    #[test]
    fn brotli_is_decoded() {
        // "hello" as an uncompressed brotli stream.
        let stored = b"\x0b\x02\x80hello\x03";
        let head = "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n";
        assert_eq!(decoded(head, stored).unwrap(), b"hello");
        assert!(decoded(head, b"hello").is_err());
    }

    #[test]
    fn bodies_that_are_not_encoded_stay_as_they_are() {
        for head in [
            "Content-Encoding: gzip",
            "Transfer-Encoding: chunked",
            "A: b",
        ] {
            let head = format!("HTTP/1.1 200 OK\r\n{head}\r\n");
            assert_eq!(decoded(&head, b"<html>").unwrap(), b"<html>");
            assert_eq!(decoded(&head, b"").unwrap(), b"");
        }
    }

    #[test]
    fn what_cannot_be_decoded_is_an_error_and_bombs_are_too_large() {
        let error = decoded("HTTP/1.1 200 OK\r\nContent-Encoding: compress\r\n", b"x").unwrap_err();
        assert!(error.to_string().contains("`compress`"), "{error}");
        let head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n";
        let error = decoded(head, &encoded("gzip", &[0; 1001])).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::TooLarge { bytes: 1000 }),
            "{error}"
        );
        let whole = encoded("gzip", b"hello");
        assert!(decoded(head, &whole[..whole.len() - 1]).is_err());
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n";
        assert!(decoded(head, b"5\r\nhel").is_err());
        assert!(decoded(head, b"5\r\nhello\r\nx").is_err());
    }
}
