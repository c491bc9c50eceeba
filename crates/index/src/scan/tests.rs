//! What a scan must give, whatever the threads, the blocks and the compression.

use std::fs;
use std::io::Write;
use std::path::Path;

use proptest::prelude::*;
use waypost_io::ErrorKind;

use super::*;
use crate::capture::Field;
use crate::rejects::Bad;

/// Keeps all that it sees, with absolute places.
struct Everything;

#[derive(Debug, Default, PartialEq, Clone)]
struct Seen {
    lines: Vec<(At, Vec<u8>)>,
    captures: Vec<(At, Vec<u8>, Option<u16>)>,
}

impl Job for Everything {
    type Partial = Seen;

    fn fields(&self) -> Fields {
        Field::Status | Field::Mime
    }
    fn whole(&self) -> bool {
        true
    }
    fn empty(&self) -> Seen {
        Seen::default()
    }
    fn add(&self, seen: &mut Seen, capture: &Capture<'_>, at: At) {
        seen.captures
            .push((at, capture.key().to_vec(), capture.status()));
    }
    fn line(&self, seen: &mut Seen, line: &[u8], _: Option<&[u8]>, at: At) {
        seen.lines.push((at, line.to_vec()));
    }
    fn merge(&self, earlier: &mut Seen, later: Seen, base: At) -> Result<()> {
        let lines = later.lines.into_iter();
        earlier
            .lines
            .extend(lines.map(|(at, line)| (at.from_base(base), line)));
        let captures = later.captures.into_iter();
        earlier
            .captures
            .extend(captures.map(|(at, key, status)| (at.from_base(base), key, status)));
        Ok(())
    }
    fn to_bytes(&self, seen: &Seen) -> Result<Vec<u8>> {
        Ok(serde_json::to_vec(&(&seen.lines, &seen.captures)).unwrap())
    }
    fn from_bytes(&self, bytes: &[u8]) -> Result<Seen> {
        let (lines, captures) = serde_json::from_slice(bytes).unwrap();
        Ok(Seen { lines, captures })
    }
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(data).unwrap();
    out.finish().unwrap()
}

/// A member of blocked gzip, which may end in the middle of a line: its header has an extra field.
fn blocked_gzip(data: &[u8]) -> Vec<u8> {
    let plain = gzip(data);
    let mut bytes = plain[..10].to_vec();
    bytes[3] |= 4;
    bytes.extend([6, 0, b'B', b'C', 2, 0, 0, 0]);
    bytes.extend(&plain[10..]);
    bytes
}

/// Writes a file and scans it with blocks of a size.
fn scan_file(path: &Path, block: Option<usize>) -> (Seen, Outcome) {
    let options = Options {
        block,
        ..Options::default()
    };
    scan(&[Source::new(path.to_owned())], &Everything, options).unwrap()
}

fn scan_bytes(bytes: &[u8], block: Option<usize>) -> (Seen, Outcome) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.cdx");
    fs::write(&path, bytes).unwrap();
    let (seen, mut outcome) = scan_file(&path, block);
    for file in &mut outcome.files {
        file.name.clear();
    }
    (seen, outcome)
}

fn lines(count: u32) -> Vec<u8> {
    (0..count)
        .flat_map(|n| {
            format!("com,example)/{n:08} 20200101000000 {{\"url\": \"http://example.com/{n:08}\", \"mime\": \"text/html\", \"status\": \"200\"}}\n")
                .into_bytes()
        })
        .collect()
}

fn bad(outcome: &Outcome) -> Vec<(Bad, u64)> {
    outcome.rejects.kinds().collect()
}

#[test]
fn an_empty_file_has_no_lines() {
    for bytes in [Vec::new(), gzip(b"")] {
        let (seen, outcome) = scan_bytes(&bytes, None);
        assert_eq!(seen, Seen::default());
        assert_eq!(outcome.tally, Tally::default());
        assert_eq!(outcome.files.len(), 1);
    }
}

#[test]
fn one_line_without_an_end_is_a_capture_if_it_is_whole_and_cut_if_not() {
    let line = &lines(1)[..lines(1).len() - 1];
    let (seen, outcome) = scan_bytes(line, None);
    assert_eq!((outcome.tally.captures, outcome.tally.lines), (1, 1));
    assert_eq!(seen.lines[0].1, line);
    let (_, outcome) = scan_bytes(&line[..line.len() - 5], None);
    assert_eq!(bad(&outcome), [(Bad::Cut, 1)]);
}

#[test]
fn windows_line_ends_nul_bytes_and_blank_lines_are_known() {
    let text = b"com,a)/ 2004 {}\r\n\r\ncom,b)/ 2004 {\0}\ncom,c)/ 2004 {}\r\n";
    let (seen, outcome) = scan_bytes(text, None);
    assert_eq!(outcome.tally.captures, 2);
    assert_eq!(seen.lines[0].1, b"com,a)/ 2004 {}");
    assert_eq!(bad(&outcome), [(Bad::Blank, 1), (Bad::Nul, 1)]);
    assert_eq!(outcome.rejects.examples()[1].line, 3);
    assert_eq!(outcome.rejects.examples()[1].byte, 19);
}

#[test]
fn a_line_of_ten_megabytes_is_read_and_one_of_twenty_is_bad_and_not_kept() {
    let long = |size: usize| {
        let mut line = b"com,a)/ 2004 {\"url\": \"http://a.com/".to_vec();
        line.resize(size, b'x');
        line.extend_from_slice(b"\"}\n");
        line
    };
    let bytes = [lines(1), long(10_000_000), long(20_000_000), lines(1)].concat();
    for bytes in [bytes.clone(), gzip(&bytes)] {
        let (_, outcome) = scan_bytes(&bytes, None);
        assert_eq!(outcome.tally.captures, 3);
        assert_eq!(outcome.tally.lines, 4);
        assert_eq!(bad(&outcome), [(Bad::TooLong, 1)]);
        assert_eq!(outcome.rejects.examples()[0].line, 3);
    }
}

#[test]
fn a_gzip_bomb_is_read_in_bounded_memory() {
    let zeros = vec![b'0'; 64 * 1024 * 1024];
    let mut bomb = gzip(&zeros);
    assert!(bomb.len() < 100_000);
    bomb.extend(gzip(&lines(10)));
    // One line of 64 MiB, then ten more.
    let (_, outcome) = scan_bytes(&bomb, None);
    assert_eq!(bad(&outcome), [(Bad::TooLong, 1)]);
    assert_eq!(outcome.tally.captures, 10);
    assert!(outcome.damage.is_empty());
}

#[test]
fn members_one_member_and_plain_text_give_the_same() {
    let text = lines(20_000);
    let (plain, _) = scan_bytes(&text, None);
    let one = gzip(&text);
    // Cut anywhere: members of blocked gzip need not end where lines do.
    let many: Vec<u8> = text.chunks(7_001).flat_map(blocked_gzip).collect();
    let zst = zstd::encode_all(&*text, 1).unwrap();
    for bytes in [one, many, zst] {
        let (seen, outcome) = scan_bytes(&bytes, None);
        assert!(outcome.damage.is_empty(), "{:?}", outcome.damage);
        assert!(seen == plain);
        assert_eq!(outcome.tally.bytes, text.len() as u64);
    }
}

#[test]
fn damage_keeps_what_came_before_and_names_the_byte() {
    let text = lines(20_000);
    let many: Vec<u8> = text.chunks(7_001).flat_map(blocked_gzip).collect();
    let whole = many.len();
    let (all, _) = scan_bytes(&many, None);
    // Cut in the middle of a member.
    let (seen, outcome) = scan_bytes(&many[..whole / 2], None);
    assert!(matches!(
        outcome.damage[0].kind(),
        ErrorKind::Truncated { .. }
    ));
    assert_eq!(outcome.damage[0].place().byte, Some(whole as u64 / 2));
    assert!(seen.captures.len() > 9_000);
    assert!(all.captures.starts_with(&seen.captures));
    // Garbage behind the last member.
    let (seen, outcome) = scan_bytes(&[many.clone(), b"garbage".to_vec()].concat(), None);
    assert!(matches!(
        outcome.damage[0].kind(),
        ErrorKind::TrailingGarbage { .. }
    ));
    assert_eq!(outcome.damage[0].place().byte, Some(whole as u64));
    assert!(seen == all);
    // Zeros behind it are padding.
    let (seen, outcome) = scan_bytes(&[many.clone(), vec![0; 5000]].concat(), None);
    assert!(outcome.damage.is_empty() && seen == all);
    // Flipped bits in the middle.
    let mut flipped = many.clone();
    for byte in &mut flipped[whole / 2..whole / 2 + 100] {
        *byte ^= 0x5a;
    }
    let (seen, outcome) = scan_bytes(&flipped, None);
    assert_eq!(outcome.damage.len(), 1);
    assert!(seen.captures.len() > 9_000);
    let strict = Options {
        strict: true,
        ..Options::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.gz");
    fs::write(&path, &flipped).unwrap();
    assert!(scan(&[Source::new(path)], &Everything, strict).is_err());
}

#[test]
fn a_header_between_the_lines_holds_for_those_after_it() {
    let text = b" CDX N b a m s k r M S V g\n\
com,a)/ 2004 http://a.com/ text/html 200 X - - 5 6 a.warc.gz\n \
CDX a b a m s k r M V g u\n\
http://b.com/ 2004 http://b.com/ text/html 404 X - - 848 b.warc.gz <urn:x>\n \
CDX N b m a s\n\
com,c)/ 2004 text/html http://c.com/ 301\n";
    for block in [None, Some(1), Some(7), Some(60)] {
        let (seen, outcome) = scan_bytes(text, block);
        let statuses: Vec<_> = seen.captures.iter().map(|(_, _, status)| *status).collect();
        assert_eq!(statuses, [Some(200), Some(404), Some(301)], "{block:?}");
        assert_eq!(outcome.tally.headers, 3);
        assert_eq!(bad(&outcome), []);
    }
}

#[test]
fn many_files_are_read_in_order_and_lines_count_from_each() {
    let folder = tempfile::tempdir().unwrap();
    let mut sources = Vec::new();
    for n in 0..20 {
        let path = folder.path().join(format!("{n:02}.cdxj"));
        // Every second one lacks its last end of line.
        let text = lines(n);
        let text = if n % 2 == 0 {
            &text[..]
        } else {
            &text[..text.len() - 1]
        };
        fs::write(&path, text).unwrap();
        sources.push(Source::new(path));
    }
    let (seen, outcome) = scan(&sources, &Everything, Options::default()).unwrap();
    let expected: Vec<(usize, u64)> = (0..20)
        .flat_map(|n| (0..n as u64).map(move |line| (n, line)))
        .collect();
    let places: Vec<(usize, u64)> = seen
        .lines
        .iter()
        .map(|(at, _)| (at.source, at.line))
        .collect();
    assert_eq!(places, expected);
    assert_eq!(outcome.files[7].lines, 7);
    sources.push(Source::new(folder.path().join("missing")));
    assert!(scan(&sources, &Everything, Options::default()).is_err());
}

#[test]
fn strict_stops_at_the_first_bad_line_and_rejects_keep_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.cdxj");
    fs::write(
        &path,
        "com,a)/ 2004 {}\nError -3 while decompressing\ncom,b)/ x {}\n",
    )
    .unwrap();
    let sources = [Source::new(path)];
    let options = Options {
        strict: true,
        ..Options::default()
    };
    let error = scan(&sources, &Everything, options).unwrap_err();
    assert_eq!(
        (error.place().line, error.place().byte),
        (Some(2), Some(16))
    );
    let kept = folder.path().join("bad");
    let mut file = RejectsFile::create(&kept).unwrap();
    let options = Options {
        rejects: Some(&mut file),
        ..Options::default()
    };
    scan(&sources, &Everything, options).unwrap();
    file.finish().unwrap();
    assert_eq!(
        fs::read_to_string(&kept).unwrap(),
        "Error -3 while decompressing\ncom,b)/ x {}\n"
    );
}

#[test]
fn revisits_are_resolved_over_the_borders_of_blocks() {
    let mut text = b"com,a)/ 2004 {\"url\": \"http://a.com/\", \"mime\": \"text/html\", \"status\": \"200\", \"digest\": \"A\"}\n".to_vec();
    for n in 5..9 {
        text.extend_from_slice(
            format!("com,a)/ 200{n} {{\"url\": \"http://a.com/\", \"mime\": \"warc/revisit\", \"digest\": \"sha1:A\"}}\n").as_bytes(),
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.cdxj");
    fs::write(&path, &text).unwrap();
    for block in [None, Some(50)] {
        let mut options = Options {
            block,
            ..Options::default()
        };
        options.select.revisits(crate::select::Revisits::Resolve);
        let (seen, _) = scan(&[Source::new(path.clone())], &Everything, options).unwrap();
        assert!(seen.captures.iter().all(|capture| capture.2 == Some(200)));
        assert_eq!(seen.captures.len(), 5);
    }
}

/// Lines of all kinds, good and bad.
fn any_line() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => (0u32..50).prop_map(|n| lines(n + 1)[..].split(|b| *b == b'\n').nth(n as usize).unwrap().to_vec()),
        2 => (0u32..50).prop_map(|n| format!("com,b)/{n} 2004 http://b.com/{n} text/html 200 X - - 5 6 a.warc.gz").into_bytes()),
        1 => Just(b" CDX N b m a s k r M S V g".to_vec()),
        1 => Just(b" CDX N b a m s k r M S V g".to_vec()),
        1 => Just(b"com,c)/ 2004 text/html http://c.com/ 200 X - - 5 6 a.warc.gz".to_vec()),
        1 => Just(b"dns:a.com 2004 dns:a.com text/dns - X - - 5 6 a.warc.gz".to_vec()),
        2 => proptest::collection::vec(any::<u8>().prop_filter("newline", |b| *b != b'\n'), 0..40),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn results_do_not_depend_on_threads_blocks_or_compression(
        lines in proptest::collection::vec(any_line(), 0..60),
        end in any::<bool>(),
        block in 1usize..500,
        member in 1usize..2000,
    ) {
        let mut text = lines.join(&b'\n');
        if end && !text.is_empty() { text.push(b'\n'); }
        // Bytes that look like a compression's would be taken for one.
        prop_assume!(Compression::detect(&text) == Compression::Plain);
        let (expected, outcome) = scan_bytes(&text, None);
        let same = |(seen, other): (Seen, Outcome)| {
            seen == expected && other.tally == outcome.tally && other.rejects.kinds().eq(outcome.rejects.kinds())
                && other.rejects.examples().iter().map(|e| (e.line, e.byte)).eq(outcome.rejects.examples().iter().map(|e| (e.line, e.byte)))
                && other.damage.is_empty()
        };
        prop_assert!(same(scan_bytes(&text, Some(block))), "blocks of {}", block);
        let members: Vec<u8> = text.chunks(member).flat_map(blocked_gzip).collect();
        if !members.is_empty() {
            prop_assert!(same(scan_bytes(&members, Some(block))), "members of {}", member);
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        prop_assert!(same(pool.install(|| scan_bytes(&text, Some(block)))), "one thread");
    }
}

/// A file in gzip members of these many bytes, decompressed.
pub(crate) fn members(data: &[u8], sizes: &[usize]) -> Vec<u8> {
    let (mut rest, mut out) = (data, Vec::new());
    for size in sizes.iter().cycle() {
        let (some, more) = rest.split_at(rest.len().min(*size));
        out.extend(gzip(some));
        rest = more;
        if rest.is_empty() {
            return out;
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_ranges_in_any_grouping_give_what_a_scan_gives(
        files in prop::collection::vec((0u32..40, prop::collection::vec(0usize..4000, 0..6), any::<bool>()), 1..4),
        sizes in prop::collection::vec(1usize..900, 1..5),
        zipped: bool,
        random: u64,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut paths = Vec::new();
        for (number, (count, blanks, ends)) in files.iter().enumerate() {
            let mut text = lines(*count);
            for at in blanks {
                // Bad lines, some of them blank.
                let at = text.len().min(*at);
                text.splice(at..at, b"\nx\n".iter().copied());
            }
            if !ends {
                text.pop();
            }
            let path = folder.path().join(format!("{number}.cdxj"));
            fs::write(&path, if zipped { members(&text, &sizes) } else { text }).unwrap();
            paths.push(path);
        }
        let sources: Vec<Source> = paths.iter().cloned().map(Source::new).collect();
        let (whole, outcome) = scan(&sources, &Everything, Options::default()).unwrap();
        let ranges = Ranges::new(&Everything, Select::default());
        let paths: Vec<&Path> = paths.iter().map(|path| &**path).collect();
        let (seen, found) = ranges.read_at_random(&paths, random).unwrap();
        prop_assert_eq!(seen, whole);
        prop_assert_eq!(&found.tally, &outcome.tally);
        prop_assert_eq!(&found.rejects, &outcome.rejects);
        let counts = |outcome: &Outcome| {
            let files = outcome.files.iter();
            files.map(|file| (file.name.clone(), file.lines, file.bytes)).collect::<Vec<_>>()
        };
        prop_assert_eq!(counts(&found), counts(&outcome));
    }
}

/// Runs of revisits and of what they repeat, and columns in changing orders.
fn dependent_line() -> impl Strategy<Value = String> {
    let capture = |key: &'static str| {
        (0..3_u32, 200..203_u32).prop_map(move |(digest, status)| {
            format!("com,{key})/ 2004 {{\"url\": \"http://{key}.com/\", \"mime\": \"text/html\", \"status\": \"{status}\", \"digest\": \"{digest}\"}}")
        })
    };
    let revisit = |key: &'static str| {
        (0..3_u32).prop_map(move |digest| {
            format!("com,{key})/ 2005 {{\"url\": \"http://{key}.com/\", \"mime\": \"warc/revisit\", \"digest\": \"sha1:{digest}\"}}")
        })
    };
    prop_oneof![
        3 => capture("a"),
        4 => revisit("a"),
        1 => capture("b"),
        1 => revisit("b"),
        1 => Just(" CDX N b a m s k r M S V g".to_owned()),
        1 => Just(" CDX N b a m k s r M S V g".to_owned()),
        2 => (0..3_u32).prop_map(|digest| format!("com,a)/ 2004 http://a.com/ text/html 20{digest} {digest} - - 5 6 a.warc.gz")),
        1 => (0..3_u32).prop_map(|digest| format!("com,a)/ 2005 http://a.com/ warc/revisit - {digest} - - 5 6 a.warc.gz")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn what_precedes_a_range_counts(
        files in prop::collection::vec((prop::collection::vec(dependent_line(), 0..40), any::<bool>()), 1..4),
        sizes in prop::collection::vec(1usize..900, 1..5),
        zipped: bool, resolve: bool, random: u64,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut paths = Vec::new();
        for (number, (lines, ends)) in files.iter().enumerate() {
            let mut text = lines.join("\n");
            if *ends && !text.is_empty() {
                text.push('\n');
            }
            let text = text.into_bytes();
            let path = folder.path().join(format!("{number}.cdxj"));
            fs::write(&path, if zipped { members(&text, &sizes) } else { text }).unwrap();
            paths.push(path);
        }
        let mut select = Select::default();
        if resolve {
            select.revisits(crate::select::Revisits::Resolve);
        }
        let sources: Vec<Source> = paths.iter().cloned().map(Source::new).collect();
        let options = Options { select: select.clone(), ..Options::default() };
        let (whole, outcome) = scan(&sources, &Everything, options).unwrap();
        let ranges = Ranges::new(&Everything, select);
        let paths: Vec<&Path> = paths.iter().map(|path| &**path).collect();
        let (seen, found) = ranges.read_at_random(&paths, random).unwrap();
        prop_assert_eq!(seen, whole);
        prop_assert_eq!(&found.tally, &outcome.tally);
        prop_assert_eq!(&found.rejects, &outcome.rejects);
    }
}

#[test]
fn ranges_that_do_not_follow_each_other_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.cdxj");
    fs::write(&path, lines(20)).unwrap();
    let scan = Ranges::new(&Everything, Select::default());
    let cut = ranges(&path, 500).unwrap();
    let read = |number: usize| scan.read(&cut[number]).unwrap();
    assert!(scan.merge(read(0), read(2)).is_err());
    assert!(scan.merge(read(1), read(0)).is_err());
    assert!(scan.finish(read(0)).is_err());
    let bytes = scan.to_bytes(&read(1)).unwrap();
    assert!(scan.from_bytes(&bytes[..bytes.len() - 1]).is_err());
    assert!(scan.from_bytes(b"something else").is_err());
}

#[test]
fn three_hundred_thousand_headers_are_read_in_linear_time() {
    let letters = b"NbamskrMSVgceFQRYZ";
    let mut text = String::new();
    for n in 0..300_000u32 {
        text.push_str(" CDX N b a");
        for bit in 0..15 {
            if n & (1 << bit) != 0 {
                text.push(' ');
                text.push(letters[3 + bit] as char);
            }
        }
        text.push_str(if n % 2 == 0 { "\n" } else { " \n" });
    }
    let start = std::time::Instant::now();
    let (_, outcome) = scan_bytes(text.as_bytes(), None);
    assert_eq!(outcome.tally.headers, 300_000);
    assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
}
