//! Real clients and a real peer: pywb replays through our index, cdx_toolkit queries it, and pywb's
//! own index server gives the same rows. Runs where `WAYPOST_PYTHON` names a Python that has the
//! packages.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod serving;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use peers::{Peer, run};
use serde_json::Value;
use serving::{Running, ask, encode, write_flat, write_zipnum};
use waypost_archive::Options;
use waypost_archive::publish::{PublishOptions, publish};

#[path = "../../../tests/oracles.rs"]
mod oracles;
#[path = "../../../tests/peers.rs"]
mod peers;

fn example_warc() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/crawl.warc.gz")
}

#[test]
fn pywb_replays_pages_through_our_index() {
    let Some(python) = oracles::python() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let warcs = folder.path().join("warcs");
    fs::create_dir(&warcs).unwrap();
    fs::copy(example_warc(), warcs.join("crawl.warc.gz")).unwrap();
    let indexed = Command::new(python.with_file_name("cdxj-indexer"))
        .args(["--sort", "crawl.warc.gz"])
        .current_dir(&warcs)
        .output()
        .unwrap();
    let index = folder.path().join("index.cdxj");
    fs::write(&index, indexed.stdout).unwrap();
    let server = Running::start(&[("all", &[index])], Options::default());
    let config = format!(
        "collections:\n  web:\n    index: cdx+http://{}/all/cdx\n    archive_paths: {}/\n",
        server.address,
        warcs.display()
    );
    fs::write(folder.path().join("config.yaml"), config).unwrap();
    let pywb = Peer::start(&python, "wayback", folder.path());
    let page = ask(
        pywb.address,
        "GET",
        "/web/20200301120000id_/http://www.example.com/",
        &[],
    );
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.header("memento-datetime").is_some(), "{page:?}");
    assert!(
        String::from_utf8_lossy(&page.body).contains('<'),
        "{page:?}"
    );
    // The closest capture of another page, and one that there is not.
    let about = ask(
        pywb.address,
        "GET",
        "/web/2019id_/http://example.com/About/",
        &[],
    );
    assert_eq!(
        about.header("memento-datetime"),
        Some("Sun, 01 Mar 2020 12:00:01 GMT")
    );
    let missing = ask(
        pywb.address,
        "GET",
        "/web/2020id_/http://example.com/nothing",
        &[],
    );
    assert_eq!(missing.status, 404);
}

/// Captures of several hosts, with all that queries look at.
fn captures() -> Vec<String> {
    let mut lines = Vec::new();
    for site in 0..40 {
        for page in 0..3 {
            for year in 2015..2020 {
                let (mime, status) = match (site + page + year) % 5 {
                    0 => ("text/html", "404"),
                    1 => ("image/png", "200"),
                    2 => ("warc/revisit", "-"),
                    _ => ("text/html", "200"),
                };
                let url = format!("http://host.site{site:02}.com/page{page}?b=2&a=1");
                let key = format!("com,site{site:02},host)/page{page}?a=1&b=2");
                let digest = (site * 3 + page) * 10 + year % 2;
                lines.push(format!(
                    "{key} {year}0{}01000000 {{\"url\": \"{url}\", \"mime\": \"{mime}\", \"status\": \"{status}\", \"digest\": \"D{digest}\", \"length\": \"100\", \"offset\": \"{}\", \"filename\": \"a.warc.gz\"}}",
                    1 + page + site % 5,
                    lines.len()
                ));
            }
        }
    }
    lines.sort();
    lines
}

fn rows(text: &str) -> Vec<Value> {
    let rows = text.lines().filter(|line| !line.is_empty()).map(|line| {
        let mut row: Value = serde_json::from_str(line).unwrap();
        // How an index is named is up to its server.
        let object = row.as_object_mut().unwrap();
        object.remove("source");
        // Given by pywb only for some kinds of collections.
        object.remove("access");
        // Given by pywb to captures that are no revisits, too.
        object.retain(|name, value| !name.starts_with("orig.") || value != "-");
        row
    });
    rows.collect()
}

#[test]
fn rows_and_pages_are_those_of_pywb() {
    let Some(python) = oracles::python() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let lines = captures();
    let indexes = folder.path().join("collections/flat/indexes");
    fs::create_dir_all(&indexes).unwrap();
    let flat = write_flat(&indexes.join("index.cdxj"), &lines);
    let zipnum = write_zipnum(&folder.path().join("zipnum"), &lines, 20);
    let part = zipnum.join("cdx-00000.gz");
    fs::write(
        zipnum.join("cluster.loc"),
        format!("cdx-00000.gz\t{}\n", part.display()),
    )
    .unwrap();
    let config = format!(
        "collections:\n  zipnum:\n    index_paths: {}\n",
        zipnum.join("cluster.idx").display()
    );
    fs::write(folder.path().join("config.yaml"), config).unwrap();
    let server = Running::start(
        &[("flat", &[flat]), ("zipnum", &[zipnum])],
        Options::default(),
    );
    let pywb = Peer::start(&python, "warcserver", folder.path());
    let page = "http://host.site07.com/page1?a=1&b=2";
    let queries: Vec<Vec<(&str, &str)>> = vec![
        vec![("url", page)],
        vec![("url", page), ("sort", "reverse"), ("limit", "2")],
        vec![("url", page), ("closest", "20170203"), ("limit", "3")],
        vec![("url", page), ("from", "2016"), ("to", "201803")],
        vec![("url", page), ("filter", "=status:200")],
        vec![
            ("url", page),
            ("filter", "!mime:html"),
            ("filter", "~url:http://[^/]*07"),
        ],
        vec![("url", page), ("resolveRevisits", "true")],
        vec![("url", page), ("fl", "timestamp,digest,nothing")],
        vec![("url", page), ("collapseTime", "4")],
        vec![("url", "http://host.site07.com/*"), ("limit", "4")],
        vec![
            ("url", "http://host.site07.com/page"),
            ("matchType", "prefix"),
        ],
        vec![("url", "*.site07.com"), ("filter", "404")],
        vec![
            ("url", "host.site07.com"),
            ("matchType", "host"),
            ("sort", "reverse"),
        ],
        vec![("url", "http://nothing.example.com/")],
    ];
    let mut found = 0;
    for query in &queries {
        let mut parameters: Vec<(&str, String)> = query
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect();
        parameters.push(("output", "json".to_owned()));
        for collection in ["flat", "zipnum"] {
            let path = format!("/{collection}/index?{}", encode(&parameters));
            let theirs = ask(pywb.address, "GET", &path, &[]);
            assert_eq!(theirs.status, 200, "{path}: {theirs:?}");
            let ours = rows(&server.lines(&path).join("\n"));
            assert_eq!(ours, rows(theirs.text()), "{path}");
            found += ours.len();
        }
    }
    assert!(found > 120, "{found}");
    for (url, size) in [
        ("*.com", 3),
        ("*.site07.com", 1),
        (page, 10),
        ("nothing.com", 10),
    ] {
        let parameters = [
            ("url", url.to_owned()),
            ("showNumPages", "true".to_owned()),
            ("pageSize", size.to_string()),
        ];
        let path = format!("/zipnum/index?{}", encode(&parameters));
        let theirs: Value =
            serde_json::from_str(ask(pywb.address, "GET", &path, &[]).text()).unwrap();
        let ours: Value = serde_json::from_str(server.get(&path).text()).unwrap();
        assert_eq!(ours, theirs, "{path}");
    }
}

#[test]
fn cdx_toolkit_finds_all_captures() {
    let Some(python) = oracles::python() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let lines = captures();
    let flat = write_flat(&folder.path().join("index.cdxj"), &lines);
    let zipnum = write_zipnum(&folder.path().join("zipnum"), &lines, 20);
    let server = Running::start(
        &[("flat", &[flat]), ("zipnum", &[zipnum])],
        Options::default(),
    );
    let program = "
import sys
import cdx_toolkit, cdx_toolkit.myrequests
cdx_toolkit.myrequests.retry_info['default']['minimum_interval'] = 0
cdx = cdx_toolkit.CDXFetcher(source=sys.argv[1])
print(len(list(cdx.iter('*.com'))))
print(len(cdx.get('host.site07.com/*', limit=1000, filter='statuscode:200')))
print(len(cdx.get('http://host.site07.com/page1?a=1&b=2', from_ts='2016', to='2018')))
print(len(cdx.get('nothing.example.org')))
print(len(list(cdx.iter('nothing.example.org'))))
print(cdx.get_size_estimate('*.com', as_pages=True) > 0)
";
    for name in ["flat", "zipnum"] {
        let source = format!("http://{}/{name}/cdx", server.address);
        let ok = lines
            .iter()
            .filter(|line| line.starts_with("com,site07,host)/") && line.contains("\"200\""))
            .count();
        let expected = format!("{}\n{ok}\n3\n0\n0\nTrue\n", lines.len());
        assert_eq!(run(&python, program, &[&source]), expected, "{name}");
    }
}

#[test]
fn our_sitemaps_are_valid_by_the_schema() {
    let Some(python) = oracles::python() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a & b.ukvs"), "hr,* 5\nuk,co,* 7\n").unwrap();
    let options = PublishOptions {
        url: "https://archive.example/summaries".to_owned(),
        publisher: Some("Tom & \"Jerry\" <x>\u{1}".to_owned()),
        description: Some("žena".to_owned()),
        ..PublishOptions::default()
    };
    publish(folder.path(), &options).unwrap();
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/schema/sitemap.xsd");
    let program = "import sys, xmlschema\n\
                   schema = xmlschema.XMLSchema(sys.argv[1])\n\
                   schema.validate(sys.argv[2])\n\
                   wrong = open(sys.argv[2]).read().replace('<lastmod>', '<lastmod>x')\n\
                   assert not schema.is_valid(wrong)\n\
                   print(len(schema.to_dict(sys.argv[2])['url']))";
    let sitemap = folder.path().join("sitemap.xml");
    let valid = run(&python, program, &[schema, sitemap.to_str().unwrap()]);
    assert_eq!(valid.trim(), "1");
    // Two sitemaps and their index.
    fs::write(folder.path().join("c.ukvs"), "hr,* 5\n").unwrap();
    let options = PublishOptions {
        most_entries: 1,
        ..options
    };
    publish(folder.path(), &options).unwrap();
    for part in ["sitemap-1.xml", "sitemap-2.xml"] {
        let part = folder.path().join(part);
        let valid = run(&python, program, &[schema, part.to_str().unwrap()]);
        assert_eq!(valid.trim(), "1");
    }
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/schema/siteindex.xsd");
    let program = program.replace("['url']", "['sitemap']");
    let valid = run(&python, &program, &[schema, sitemap.to_str().unwrap()]);
    assert_eq!(valid.trim(), "2");
}
