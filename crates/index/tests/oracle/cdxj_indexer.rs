//! cdxj-indexer and pywb beside us, on generated WARCs and on those that the packages ship.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use waypost_index::warc::{self, Options, Records};
use waypost_io::{Progress, Resources, Source};

use super::oracles;

/// Writes a WARC of many kinds of records, and the keys of pywb for its POST requests, one URL a
/// line: `pywb.tsv`.
const GENERATOR: &str = r#"
import json, random, sys
from io import BytesIO
from urllib.parse import urlencode
import surt
from warcio.warcwriter import WARCWriter
from warcio.statusandheaders import StatusAndHeaders
from pywb.warcserver.inputrequest import MethodQueryCanonicalizer

folder, seed = sys.argv[1], int(sys.argv[2])
random.seed(seed)
pick = random.choice

def scalar(whole):
    words = ['x', 'a b', 'é&=', '', 7, -3, 10**30, 1.5, 2.5e-7]
    return pick(words + ([True, False, None, 44.0, 1e22, -0.0] if whole else []))

def value(whole, depth=0):
    if depth < 3 and random.random() < 0.3:
        return {pick('abcé'): value(whole, depth + 1) for _ in range(random.randrange(4))}
    if depth < 3 and random.random() < 0.2:
        return [value(whole, depth + 1) for _ in range(random.randrange(4))]
    return scalar(whole)

def body(whole):
    kind = pick(['form', 'json', 'text', 'plain', 'binary', 'multi', 'bad', 'none'])
    if kind == 'form':
        return 'application/x-www-form-urlencoded', urlencode([(pick('abc'), pick(['1', 'x y', 'é'])) for _ in range(3)]).encode()
    if kind == 'json':
        return 'application/json; charset=utf-8', json.dumps({'q': value(whole), 'r': value(whole)}, ensure_ascii=pick([True, False])).encode()
    if kind == 'text':
        return 'text/plain', json.dumps({'q': value(whole)}).encode()
    if kind == 'plain':
        return 'text/plain;charset=UTF-8', b'some text, not JSON'
    if kind == 'binary':
        return pick(['image/png', 'application/octet-stream']), bytes(random.randrange(256) for _ in range(pick([1, 2, 50, 5000] + ([0] if whole else []))))
    if kind == 'multi':
        parts = ''.join('--xYz\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n' % (pick(['a', 'b c']), pick(['', '; filename="f.txt"']), pick(['1', 'x\r\ny', 'é'])) for _ in range(2))
        return 'multipart/form-data; boundary=xYz', (parts + '--xYz--\r\n').encode()
    if kind == 'bad':
        return 'application/json', b'{"a": '
    return None, b'anything'

pywb = {}
def write(path, whole, keys=False):
    with open(path, 'wb') as out:
        writer = WARCWriter(out, gzip=path.endswith('.gz'))
        out_record = writer.write_record
        out_record(writer.create_warcinfo_record('x.warc', {'software': 'é'}))
        for n in range(150):
            url = pick(['http://', 'https://www.']) + pick(['example.com', 'bücher.example', 'a.b.example:8080']) + pick(['/', '/A/b/', '/é?x=1', '/q?b=2&a=1', '/a b']) + str(n)
            date = {'WARC-Date': '20%02d-0%d-1%dT0%d:00:00Z' % (random.randrange(25), 1 + random.randrange(9), random.randrange(10), random.randrange(10))}
            headers = [('Content-Type', pick(['text/html', 'text/html; charset=utf-8', 'image/png', ' text/plain ;x', '']))] if random.random() < 0.8 else []
            http = StatusAndHeaders(pick(['200 OK', '404 Not Found', '302', '200 ']), headers + [('X-A', 'é')], protocol='HTTP/1.1')
            payload = BytesIO(b'x' * pick([0, 1, 1000, 70000]))
            kind = pick(['response'] * 4 + ['revisit', 'resource', 'metadata', 'fields', 'dns', 'head'])
            if kind == 'response' or kind == 'head':
                response = writer.create_warc_record(url, 'response', payload=payload, http_headers=http, warc_headers_dict=dict(date))
                if random.random() < 0.7:
                    mime, data = body(whole)
                    method = 'HEAD' if kind == 'head' else pick(['GET', 'POST', 'PUT'])
                    fields = [('Host', 'x'), ('Content-Length', str(len(data)))] + ([('Content-Type', mime)] if mime else [])
                    request = writer.create_warc_record(url, 'request', payload=BytesIO(data), warc_headers_dict=dict(date), http_headers=StatusAndHeaders('/x HTTP/1.1', fields, protocol=method, is_http_request=False))
                    if random.random() < 0.5:
                        writer.write_request_response_pair(request, response)
                    else:
                        response.rec_headers.replace_header('WARC-Concurrent-To', request.rec_headers.get_header('WARC-Record-ID'))
                        out_record(request); out_record(response)
                    if keys and method in ('POST', 'PUT'):
                        q = MethodQueryCanonicalizer(method, mime, len(data), BytesIO(data))
                        pywb[str(url)] = surt.surt(q.append_query(url.replace(' ', '%20')))
                else:
                    out_record(response)
            elif kind == 'revisit':
                out_record(writer.create_revisit_record(url, 'sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ', 'http://o/', '2014-01-01T00:00:00Z', http_headers=pick([http, None]), warc_headers_dict=dict(date)))
            elif kind == 'dns':
                out_record(writer.create_warc_record('dns:example.com', 'response', payload=BytesIO(b'1'), warc_content_type='text/dns', warc_headers_dict=dict(date)))
            else:
                out_record(writer.create_warc_record(pick([url, 'urn:X:1', 'metadata://a/B']), 'metadata' if kind == 'fields' else kind, payload=payload, warc_content_type='application/warc-fields' if kind == 'fields' else pick(['text/plain; x', 'application/json']), warc_headers_dict=dict(date)))

write(folder + '/a.warc.gz', False)
write(folder + '/b.warc', False)
write(folder + '/pywb.warc.gz', True, True)
with open(folder + '/pywb.tsv', 'w') as out:
    for url, key in pywb.items():
        out.write(json.dumps(url.replace(' ', '%20')) + '\t' + key + '\n')
"#;

/// Indexes files in every mode, into `FOLDER/FILE-MODE`, by their numbers.
const PEER: &str = r#"
import sys
from cdxj_indexer.main import write_cdx_index
folder, *files = sys.argv[1:]
for n, file in enumerate(files):
    for m, options in enumerate([{}, {'records': 'all'}, {'post_append': True},
                                {'post_append': True, 'digest_records': True}]):
        try:
            write_cdx_index('%s/%d-%d' % (folder, n, m), [file], dict(options, sort=True))
        except Exception as error:
            sys.stderr.write('%s: %s\n' % (file, error))
"#;

fn ours(file: &Path, options: &Options) -> (Vec<String>, u64) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("lines");
    let files = [Source::new(file)];
    let report = warc::index(
        &files,
        options,
        &Resources::default(),
        &Progress::default(),
        &out,
    )
    .unwrap();
    (sorted(&fs::read_to_string(out).unwrap()), report.damaged)
}

fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines.dedup();
    lines
}

/// The lines of cdxj-indexer for each file and mode.
fn theirs(python: &Path, files: &[PathBuf]) -> Vec<[Vec<String>; 4]> {
    let folder = tempfile::tempdir().unwrap();
    let status = Command::new(python)
        .args(["-c", PEER])
        .arg(folder.path())
        .args(files)
        .status()
        .expect("the Python of WAYPOST_PYTHON starts");
    assert!(status.success(), "the peer failed");
    (0..files.len())
        .map(|file| {
            [0, 1, 2, 3].map(|mode| {
                let path = folder.path().join(format!("{file}-{mode}"));
                sorted(&fs::read_to_string(path).unwrap_or_default())
            })
        })
        .collect()
}

fn modes() -> [Options; 4] {
    let all = Options {
        records: Records::All,
        ..Options::default()
    };
    let post = Options {
        post_append: true,
        ..Options::default()
    };
    let digest = Options {
        digest: true,
        ..post.clone()
    };
    [Options::default(), all, post, digest]
}

fn generate(python: &Path, folder: &Path, seed: u64) {
    let status = Command::new(python)
        .args(["-c", GENERATOR])
        .arg(folder)
        .arg(seed.to_string())
        .status()
        .expect("the Python of WAYPOST_PYTHON starts");
    assert!(status.success(), "the generator failed");
}

#[test]
fn generated_warcs_give_the_lines_of_cdxj_indexer() {
    let Some(python) = oracles::python() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for seed in 1..4 {
        generate(&python, folder.path(), seed);
        let files = ["a.warc.gz", "b.warc"].map(|name| folder.path().join(name));
        for (file, expected) in files.iter().zip(theirs(&python, &files)) {
            for (options, expected) in modes().iter().zip(&expected) {
                let (lines, damaged) = ours(file, options);
                assert_eq!(damaged, 0, "{options:?}");
                assert!(lines.len() > 100);
                assert_same(
                    &lines,
                    expected,
                    &format!("{seed} {} {options:?}", file.display()),
                );
            }
        }
    }
}

/// Removes the media types of requests: we write `warc/request`.
fn without_mime_of_requests(ours: &mut [String], theirs: &mut [String]) {
    let offset = |line: &str| {
        let (_, rest) = line.split_once("\"offset\": ").unwrap();
        rest[..rest.find(',').unwrap()].to_owned()
    };
    let requests = ours.iter().filter(|line| line.contains("\"warc/request\""));
    let requests: Vec<String> = requests.map(|line| offset(line)).collect();
    for line in ours.iter_mut().chain(theirs) {
        if requests.contains(&offset(line))
            && let Some(start) = line.find("\"mime\": ")
        {
            let end = start + line[start..].find(", ").unwrap() + 2;
            line.replace_range(start..end, "");
        }
    }
}

fn assert_same(ours: &[String], theirs: &[String], what: &str) {
    let (mut ours, mut theirs) = (ours.to_vec(), theirs.to_vec());
    without_mime_of_requests(&mut ours, &mut theirs);
    let missing: Vec<_> = theirs
        .iter()
        .filter(|line| !ours.contains(line))
        .take(3)
        .collect();
    let added: Vec<_> = ours
        .iter()
        .filter(|line| !theirs.contains(line))
        .take(3)
        .collect();
    assert!(
        missing.is_empty() && added.is_empty(),
        "{what}\ntheirs: {missing:#?}\nours: {added:#?}"
    );
}

#[test]
fn keys_of_post_requests_are_those_of_pywb() {
    let Some(python) = oracles::python() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    generate(&python, folder.path(), 7);
    let [_, _, options, _] = modes();
    let (lines, _) = ours(&folder.path().join("pywb.warc.gz"), &options);
    let table = fs::read_to_string(folder.path().join("pywb.tsv")).unwrap();
    let mut compared = 0;
    for row in table.lines() {
        let (url, key) = row.split_once('\t').unwrap();
        // The forms in parts are read by another parser there.
        if key.contains("filename") {
            continue;
        }
        let line = lines
            .iter()
            .find(|line| line.contains(&format!("\"url\": {url},")));
        let line = line.unwrap_or_else(|| panic!("no line for {url}"));
        assert_eq!(line.split(' ').next().unwrap(), key, "{url}");
        compared += 1;
    }
    assert!(compared > 20, "{compared}");
}

/// The files that pywb and cdxj-indexer ship for their own tests.
fn shipped(python: &Path) -> Vec<PathBuf> {
    let venv = python.parent().and_then(Path::parent).unwrap();
    let mut folders = vec![venv.join("sample_archive/warcs")];
    if let Some(shared) = oracles::shared() {
        folders.push(shared.join("vectors/cdx/cdxj_indexer_apache2"));
        folders.push(shared.join("vectors/cdx/whirlwind_apache2"));
    }
    folders.retain(|folder| folder.is_dir());
    let sources = warc::expand(&folders).unwrap();
    sources
        .iter()
        .map(|source| source.path().to_owned())
        .collect()
}

#[test]
fn shipped_warcs_give_the_lines_of_cdxj_indexer() {
    let Some(python) = oracles::python() else {
        return;
    };
    let files = shipped(&python);
    for (file, expected) in files.iter().zip(theirs(&python, &files)) {
        let name = file.file_name().unwrap().to_str().unwrap();
        for (options, mut expected) in modes().into_iter().zip(expected) {
            let (mut lines, damaged) = ours(file, &options);
            // docs/index-warc.md lists these.
            match name {
                // Two of its lengths are not numbers.
                "bad.arc" => {
                    expected.retain(|line| line.starts_with("com,example)/ 20140102"));
                    assert_eq!(damaged, 3);
                }
                // Its last record is too short: three bytes stand behind it.
                "example.warc" => assert_eq!(damaged, 1),
                _ => assert_eq!(damaged, 0, "{name}"),
            }
            // The first record of an ARC file is two lines longer there than its length says.
            if name.contains(".arc") {
                lines.retain(|line| !line.starts_with("- "));
                expected.retain(|line| !line.starts_with("- "));
            }
            // There, a digest that is missing is that of nothing with -p.
            if options.post_append {
                const EMPTY: &str = "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ";
                for line in &mut lines {
                    let start = line.find("\"digest\": \"").unwrap() + 11;
                    let end = start + line[start..].find('"').unwrap();
                    let mut other = line.clone();
                    other.replace_range(start..end, EMPTY);
                    if expected.contains(&other) {
                        *line = other;
                    }
                }
            }
            assert_same(&lines, &expected, &format!("{name} {options:?}"));
        }
    }
    assert!(files.len() > 10, "{files:?}");
}
