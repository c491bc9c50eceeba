use super::*;
use std::io::{Cursor, Write};

const TEXT: &[u8] = b"com,example)/ 20200101000000 {}\norg,example)/ 20200101000000 {}\n";

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(data).unwrap();
    out.finish().unwrap()
}

fn bzip2(data: &[u8]) -> Vec<u8> {
    let mut out = ::bzip2::write::BzEncoder::new(Vec::new(), ::bzip2::Compression::fast());
    out.write_all(data).unwrap();
    out.finish().unwrap()
}

#[test]
fn all_bytes_of_the_source_are_reported() {
    let text = TEXT.repeat(20_000);
    for bytes in [text.clone(), gzip(&text)] {
        let progress = Progress::new();
        let stored = bytes.len() as u64;
        let stream = Stream::new("test", Box::new(Cursor::new(bytes))).unwrap();
        let mut out = Vec::new();
        let mut stream = stream.reporting_to(&progress);
        io::Read::read_to_end(&mut stream, &mut out).unwrap();
        assert_eq!((out.len(), progress.snapshot().done), (text.len(), stored));
    }
}

fn read(bytes: Vec<u8>) -> (Compression, Vec<u8>, Option<Error>) {
    let mut stream = Stream::new("test", Box::new(Cursor::new(bytes))).unwrap();
    let mut out = Vec::new();
    let mut buffer = vec![0; 10];
    loop {
        let (read, error) = stream.read_full(&mut buffer);
        out.extend_from_slice(&buffer[..read]);
        assert_eq!(stream.position(), out.len() as u64);
        if error.is_some() || read == 0 {
            assert_eq!(stream.read_full(&mut buffer).0, 0, "a stream ends once");
            return (stream.compression(), out, error);
        }
    }
}

#[test]
fn every_compression_is_detected_and_may_have_several_members() {
    let many = [TEXT; 3].concat();
    let cases = [
        (Compression::Plain, many.clone()),
        (
            Compression::Gzip,
            [gzip(TEXT), gzip(b""), gzip(&[TEXT; 2].concat())].concat(),
        ),
        (
            Compression::Zstd,
            [
                vec![0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9],
                zstd::encode_all(TEXT, 3).unwrap(),
                zstd::encode_all(&*[TEXT; 2].concat(), 3).unwrap(),
            ]
            .concat(),
        ),
        (
            Compression::Bzip2,
            [bzip2(TEXT), bzip2(&[TEXT; 2].concat())].concat(),
        ),
    ];
    for (compression, bytes) in cases {
        let (found, out, error) = read(bytes);
        assert!(error.is_none(), "{compression:?}: {error:?}");
        assert_eq!(found, compression);
        assert_eq!(out, many, "{compression:?}");
    }
    assert_eq!(read(Vec::new()).1, b"");
}

fn read_text(bytes: Vec<u8>, size: usize) -> (Vec<u8>, Option<Error>) {
    let mut stream = Stream::new("test", Box::new(Cursor::new(bytes)))
        .unwrap()
        .text();
    let mut out = Vec::new();
    let mut buffer = vec![0; size];
    loop {
        let (read, error) = stream.read_full(&mut buffer);
        out.extend_from_slice(&buffer[..read]);
        if error.is_some() || read == 0 {
            return (out, error);
        }
    }
}

#[test]
fn a_text_loses_its_byte_order_mark_and_nothing_else() {
    for size in [1, 2, 3, 100] {
        for text in [
            &b""[..],
            b"a",
            b"ab",
            b"abc\n",
            b"\xef\xbb",
            b"\xef\xbbx\xbf",
        ] {
            for bytes in [text.to_vec(), gzip(text), bzip2(text)] {
                let gzipped = bytes.first() == Some(&0x1f);
                let mut expected = text.to_vec();
                if gzipped && !text.is_empty() && !text.ends_with(b"\n") {
                    expected.push(b'\n');
                }
                assert_eq!(read_text(bytes, size).0, expected, "{text:?} by {size}");
            }
            let marked = [BYTE_ORDER_MARK, text].concat();
            assert_eq!(read_text(marked, size).0, text, "{text:?} by {size}");
        }
        for utf16 in [&b"\xff\xfea\0"[..], b"\xfe\xff\0a", b"\xff\xfe"] {
            for bytes in [utf16.to_vec(), gzip(utf16)] {
                let (out, error) = read_text(bytes, size);
                assert!(out.is_empty());
                assert!(matches!(error.unwrap().kind(), ErrorKind::Utf16));
            }
        }
    }
}

#[test]
fn the_end_of_a_gzip_member_ends_a_line_unless_it_is_a_block_of_blocked_gzip() {
    let members = [gzip(b"a\nb"), gzip(b""), gzip(b"c\n"), gzip(b"d")].concat();
    for size in [1, 2, 100] {
        assert_eq!(read_text(members.clone(), size).0, b"a\nb\nc\nd\n");
    }
    // BGZF has an extra field in every header, and cuts lines.
    let blocked = |data: &[u8]| {
        let plain = gzip(data);
        let mut bytes = plain[..10].to_vec();
        bytes[3] = 4;
        bytes.extend([6, 0, b'B', b'C', 2, 0, 0, 0]);
        bytes.extend(&plain[10..]);
        bytes
    };
    let blocks = [blocked(b"a\nb"), blocked(b"c\n")].concat();
    assert_eq!(read_text(blocks, 100).0, b"a\nbc\n");
    let frames = [
        zstd::encode_all(&b"a\nb"[..], 1).unwrap(),
        zstd::encode_all(&b"c\n"[..], 1).unwrap(),
    ];
    assert_eq!(read_text(frames.concat(), 100).0, b"a\nbc\n");
}

#[test]
fn truncated_data_is_read_up_to_the_end_and_the_byte_is_named() {
    for (name, bytes) in [
        ("gzip", gzip(TEXT)),
        ("zstd", zstd::encode_all(TEXT, 3).unwrap()),
        ("bzip2", bzip2(TEXT)),
    ] {
        for cut in 4..bytes.len() {
            let (_, out, error) = read(bytes[..cut].to_vec());
            let error = error.unwrap_or_else(|| panic!("{name} cut at {cut} seems whole"));
            assert!(error.is_damage(), "{name} {cut}: {error}");
            assert_eq!(error.place().byte, Some(cut as u64), "{name}: {error}");
            assert!(TEXT.starts_with(&out), "{name} {cut}");
        }
        let second = [bytes.clone(), bytes[..bytes.len() - 3].to_vec()].concat();
        let (_, out, error) = read(second);
        assert!(error.is_some_and(|e| e.is_damage()), "{name}");
        assert!(out.starts_with(TEXT), "{name}: the first member is kept");
    }
}

#[test]
fn the_lines_before_the_end_of_a_truncated_gzip_member_are_read() {
    let text: Vec<u8> = (0..20_000u32)
        .flat_map(|n| {
            format!(
                "com,example)/{} 20200101000000 {{}}\n",
                n.wrapping_mul(2_654_435_761)
            )
            .into_bytes()
        })
        .collect();
    let bytes = gzip(&text);
    let (_, out, error) = read(bytes[..bytes.len() / 2].to_vec());
    assert!(matches!(error.unwrap().kind(), ErrorKind::Truncated { .. }));
    assert!(
        out.len() > text.len() / 3,
        "{} of {}",
        out.len(),
        text.len()
    );
    assert!(text.starts_with(&out));
}

#[test]
fn flipped_bits_are_detected_and_everything_before_them_is_read() {
    let text: Vec<u8> = (0..50_000u32)
        .flat_map(|n| {
            format!(
                "com,example)/{} 20200101000000 {{}}\n",
                n.wrapping_mul(2_654_435_761)
            )
            .into_bytes()
        })
        .collect();
    let mut bytes = gzip(&text);
    let middle = bytes.len() / 2;
    for byte in &mut bytes[middle..middle + 64] {
        *byte ^= 0x55;
    }
    let (_, out, error) = read(bytes);
    let error = error.unwrap();
    assert!(matches!(error.kind(), ErrorKind::Corrupt { .. }), "{error}");
    assert!(error.place().byte.unwrap() >= middle as u64);
    let common = out.iter().zip(&text).take_while(|(a, b)| a == b).count();
    assert!(common > text.len() / 3, "{common}");
}

#[test]
fn trailing_garbage_is_reported_and_zeros_are_padding() {
    let (_, out, error) = read([gzip(TEXT), b"garbage".to_vec()].concat());
    let error = error.unwrap();
    assert_eq!(out, TEXT);
    assert!(
        matches!(error.kind(), ErrorKind::TrailingGarbage { .. }),
        "{error}"
    );
    assert_eq!(error.place().byte, Some(gzip(TEXT).len() as u64));
    let (_, out, error) = read([gzip(TEXT), vec![0; 1000]].concat());
    assert_eq!(out, TEXT);
    assert!(error.is_none(), "{error:?}");
}

#[test]
fn a_header_with_every_optional_part_is_read() {
    let plain = gzip(TEXT);
    let mut bytes = plain[..10].to_vec();
    bytes[3] = 2 | 4 | 8 | 16;
    bytes.extend([3, 0, b'a', b'b', b'c']);
    bytes.extend(b"name\0comment\0\x12\x34");
    bytes.extend(&plain[10..]);
    let (_, out, error) = read(bytes);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(out, TEXT);
}
