//! py-wacz: reading the files that it makes.

use std::fs;
use std::process::Command;

use waypost_index::input;
use waypost_index::lookup::{Index, Lookup, Query, Wanted};
use waypost_index::range::{Match, ranges};
use waypost_index::wacz::Wacz;
use waypost_index::warc::{self, Options};
use waypost_io::sort::{self, sort};
use waypost_io::{Format, LineWriter, Progress, Resources, Source};
use waypost_surt::{Canonicalizer, Dialect};

use super::oracles;

/// Writes a WARC with many pages to FOLDER/a.warc.gz, makes FOLDER/a.wacz of it with every option that
/// changes the layout, and writes the lines of its index to FOLDER/lines.
const MAKE: &str = r#"
import gzip, subprocess, sys, zipfile
from io import BytesIO
from os.path import dirname, join
from warcio.warcwriter import WARCWriter
from warcio.statusandheaders import StatusAndHeaders
folder = sys.argv[1]
with open(join(folder, 'a.warc.gz'), 'wb') as out:
    writer = WARCWriter(out, gzip=True)
    for n in range(2500):
        headers = StatusAndHeaders('200 OK', [('Content-Type', 'text/html')], protocol='HTTP/1.1')
        url = 'https://www.example.com/%s/%d?b=2&a=1' % (chr(97 + n % 26), n)
        writer.write_record(writer.create_warc_record(
            url, 'response', payload=BytesIO(b'<title>%d</title>' % n), http_headers=headers,
            warc_headers_dict={'WARC-Date': '2020-01-01T00:00:%02dZ' % (n % 60)}))
wacz = join(dirname(sys.executable), 'wacz')
subprocess.run([wacz, 'create', join(folder, 'a.warc.gz'), '--detect-pages', '-o', join(folder, 'a.wacz')],
               check=True, stdout=subprocess.DEVNULL)
with zipfile.ZipFile(join(folder, 'a.wacz')) as archive, open(join(folder, 'lines'), 'wb') as out:
    out.write(gzip.decompress(archive.read('indexes/index.cdx.gz')))
"#;

#[test]
fn wacz_files_of_py_wacz_are_read() {
    let Some(python) = oracles::python() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let made = Command::new(python)
        .args(["-c", MAKE])
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let expected = fs::read_to_string(at("lines")).unwrap();
    assert_eq!(expected.lines().count(), 2500);

    let sources = input::expand([at("a.wacz")]).unwrap().sources;
    let out = at("sorted");
    let mut writer = LineWriter::create(&out, &Format::Plain, 1).unwrap();
    sort(&sources, &sort::Options::default(), &mut writer).unwrap();
    writer.finish().unwrap();
    assert_eq!(fs::read_to_string(&out).unwrap(), expected);

    let wacz = Wacz::open(&Source::new(at("a.wacz"))).unwrap();
    assert_eq!(wacz.dialect(), Dialect::Ia);
    let index = Index::of_wacz(&wacz).unwrap();
    assert!(
        index
            .zipnum()
            .is_some_and(|zipnum| zipnum.blocks().is_ok_and(|blocks| blocks > 1))
    );
    assert!(index.check_keys(Dialect::Ia).unwrap().fits());
    let mut search = Lookup::new(&index, Wanted::default());
    let mut canonicalizer = Canonicalizer::new(Dialect::Ia);
    for line in expected.lines() {
        let url = line
            .split("\"url\": \"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        let mut surt = Vec::new();
        canonicalizer
            .canonicalize(url.as_bytes(), &mut surt)
            .unwrap();
        let query = Query {
            ranges: ranges(url.as_bytes(), &surt, Match::Exact),
        };
        let mut found = Vec::new();
        search
            .one(&query, |row| {
                found.extend_from_slice(row);
                Ok(())
            })
            .unwrap();
        assert_eq!(String::from_utf8(found).unwrap(), format!("{line}\n"));
    }

    // The index of its WARC files is the same index.
    let warcs = warc::expand(&[at("a.wacz")]).unwrap();
    let lines = at("indexed");
    let resources = Resources::default();
    warc::index(
        &warcs,
        &Options::default(),
        &resources,
        &Progress::default(),
        &lines,
    )
    .unwrap();
    let text = fs::read_to_string(lines).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let theirs: Vec<String> = expected.lines().map(without_record_digest).collect();
    assert_eq!(lines, theirs);
}

/// py-wacz always adds the digest of the record.
fn without_record_digest(line: &str) -> String {
    match line.split_once(", \"recordDigest\"") {
        Some((before, after)) => {
            let rest = after.find([',', '}']).map_or("", |at| &after[at..]);
            format!("{before}{rest}")
        }
        None => line.to_owned(),
    }
}
