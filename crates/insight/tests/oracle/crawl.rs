//! warcio reads the generated WARC and WAT files, and pywb queries the index with Last-Modified times.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use waypost_index::zipnum::{self, ZipNum};
use waypost_insight::generate::Crawl;
use waypost_insight::lastmod::add::{self, Index};
use waypost_insight::lastmod::extract::{self, extract};
use waypost_io::{Progress, Resources, Source};

use super::{oracles, peers};

/// Prints file, offset and header of every successful response with one, from WARC and WAT files.
const WARCIO: &str = r#"
import json, os, sys
from warcio.archiveiterator import ArchiveIterator
def warc(path):
    with open(path, 'rb') as stream:
        records = ArchiveIterator(stream)
        for record in records:
            if record.rec_type == 'response' and record.http_headers.get_statuscode()[:1] == '2':
                value = record.http_headers.get_header('Last-Modified')
                if value is not None:
                    yield records.get_record_offset(), record.rec_headers.get_header('WARC-Date'), value
def wat(path):
    with open(path, 'rb') as stream:
        for record in ArchiveIterator(stream):
            data = json.loads(record.content_stream().read())
            envelope = data['Envelope']
            http = envelope['Payload-Metadata'].get('HTTP-Response-Metadata')
            if http and http['Response-Message']['Status'][:1] == '2' and 'Last-Modified' in http['Headers']:
                yield int(data['Container']['Offset']), envelope['WARC-Header-Metadata']['WARC-Date'], http['Headers']['Last-Modified']
for path in sys.argv[1:]:
    for offset, date, value in (wat if path.endswith('.wat.gz') else warc)(path):
        print(os.path.basename(path).replace('.warc.wat.gz', '.warc.gz'), offset, ''.join(c for c in date if c.isdigit()), value, sep='\t')
"#;

/// Queries a ZipNum index with pywb: the Last-Modified time of every URL, or a dash.
const PYWB: &str = r#"
import warnings
warnings.filterwarnings('ignore')
from gevent import monkey
monkey.patch_all()
import json, os, sys
from pywb.warcserver.basewarcserver import BaseWarcServer
from pywb.warcserver.handlers import DefaultResourceHandler
from pywb.warcserver.index.aggregator import SimpleAggregator
from pywb.warcserver.index.zipnum import ZipNumIndexSource
from werkzeug.test import Client
folder, urls = sys.argv[1:]
index = ZipNumIndexSource(os.path.join(folder, 'cluster.idx'), {'loc': os.path.join(folder, 'cluster.loc')})
app = BaseWarcServer()
app.add_route('/a', DefaultResourceHandler(SimpleAggregator({'a': index}), []))
client = Client(app)
for url in open(urls):
    response = client.get('/a/index', query_string={'url': url.strip(), 'output': 'json', 'allowFuzzy': '0'})
    rows = [json.loads(row) for row in response.get_data(as_text=True).splitlines()]
    assert response.status_code == 200 and len(rows) == 1, (url, rows)
    print(rows[0].get('lastmod', '-'))
"#;

/// The files in the folders of this name of every segment.
fn files(folder: &Path, kind: &str) -> Vec<Source> {
    let segments = fs::read_dir(folder.join("crawl-data/CC-MAIN-2019-35/segments")).unwrap();
    let mut folders: Vec<PathBuf> = segments
        .map(|entry| entry.unwrap().path().join(kind))
        .collect();
    folders.sort();
    extract::expand(&folders).unwrap()
}

#[test]
fn warcio_finds_the_headers_that_are_extracted_and_pywb_finds_the_times_that_are_added() {
    let Some(python) = oracles::python() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let crawl = Crawl {
        captures: 600,
        segments: 3,
        ..Crawl::default()
    };
    let captures = crawl.write_archive(folder.path()).unwrap();

    let mut extracted = Vec::new();
    for kind in ["warc", "wat"] {
        let sources = files(folder.path(), kind);
        assert_eq!(sources.len(), 3);
        let paths: Vec<String> = sources.iter().map(ToString::to_string).collect();
        let arguments: Vec<&str> = paths.iter().map(String::as_str).collect();
        let mut theirs: Vec<String> = peers::run(&python, WARCIO, &arguments)
            .lines()
            .map(str::to_owned)
            .collect();
        theirs.sort();
        // Every header that was generated, as warcio reads it.
        let mut expected: Vec<String> = captures
            .iter()
            .filter(|capture| capture.line.contains("/warc/"))
            .filter_map(|capture| {
                let json: serde_json::Value =
                    serde_json::from_str(&capture.line[capture.line.find('{').unwrap()..]).unwrap();
                let file = json["filename"]
                    .as_str()
                    .unwrap()
                    .rsplit('/')
                    .next()
                    .unwrap()
                    .to_owned();
                let time = capture.line.split(' ').nth(1).unwrap().to_owned();
                let offset = json["offset"].as_str().unwrap().to_owned();
                Some(format!(
                    "{file}\t{offset}\t{time}\t{}",
                    capture.header.as_ref()?
                ))
            })
            .collect();
        expected.sort();
        assert_eq!(theirs, expected, "{kind}");
        let out = folder.path().join(format!("{kind}.lastmod"));
        let found = extract(
            &sources,
            &extract::Options::default(),
            &Resources::default(),
            &Progress::default(),
            &out,
        )
        .unwrap();
        assert_eq!(found.with_header, theirs.len() as u64);
        extracted.push(fs::read_to_string(out).unwrap());
    }
    assert_eq!(extracted[0], extracted[1]);
    // Of a folder with both, the WARC files are read.
    let all = extract::expand(&[folder.path().join("crawl-data")]).unwrap();
    assert!(
        all.iter()
            .all(|source| !source.to_string().ends_with(".wat.gz"))
    );

    let blocks = folder.path().join("blocks");
    let options = zipnum::Options {
        lines: 40,
        shards: 2,
        ..zipnum::Options::default()
    };
    let mut writer = zipnum::create(&blocks, &options, 1).unwrap();
    for capture in &captures {
        writer.push(capture.line.as_bytes()).unwrap();
    }
    writer.finish().unwrap();
    let dated = folder.path().join("dated");
    let index = Index::ZipNum(Arc::new(ZipNum::open(&blocks).unwrap()));
    let from = [Source::new(folder.path().join("warc.lastmod"))];
    add::add(&index, &from, &add::Options::default(), &dated).unwrap();
    let urls = folder.path().join("urls");
    let list: Vec<String> = captures
        .iter()
        .map(|capture| {
            capture
                .line
                .split("\"url\": \"")
                .nth(1)
                .unwrap()
                .split('"')
                .next()
                .unwrap()
                .to_owned()
        })
        .collect();
    fs::write(&urls, list.join("\n")).unwrap();
    let answers = peers::run(
        &python,
        PYWB,
        &[dated.to_str().unwrap(), urls.to_str().unwrap()],
    );
    let expected: Vec<String> = captures
        .iter()
        .map(|capture| {
            capture
                .lastmod
                .map_or("-".to_owned(), |time| time.to_string())
        })
        .collect();
    assert_eq!(answers.lines().collect::<Vec<_>>(), expected);
}
