//! Lookups in a ZipNum index on a server: the same lines as in its folder, and each block once.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../net/tests/server/mod.rs"]
mod server;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use server::{Files, Reply, Server};
use waypost_index::lookup::{Index, Lookup, Order, Query, Wanted};
use waypost_index::range::{Match, ranges};
use waypost_index::timestamp::Time;
use waypost_index::zipnum::{self, Flavour, Opener, Remote, ZipNum};
use waypost_io::{Error, ErrorKind, RangeRead, RemoteProblem};
use waypost_net::{Client, ClientOptions};
use waypost_surt::{Canonicalizer, Dialect};

fn opener() -> Opener {
    let client = Client::new(ClientOptions {
        stall_timeout: Duration::from_secs(5),
        attempts: 3,
        first_wait: Duration::from_millis(5),
        ..ClientOptions::default()
    })
    .unwrap();
    Arc::new(move |url| Ok(Arc::new(client.open(url)?) as Arc<dyn RangeRead>))
}

fn remote(url: &str, page: usize) -> Result<Index, Error> {
    let remote = Remote {
        url,
        copy: None,
        open: opener(),
        connections: 3,
    };
    Ok(Index::from(ZipNum::remote_in_pages(remote, page)?))
}

/// The captures of some sites: `number` of each page.
fn lines(pages: &[(u8, u8, u8)]) -> Vec<String> {
    let mut lines = Vec::new();
    for (site, page, number) in pages {
        for capture in 0..*number {
            lines.push(format!(
                "com,site{site})/{page} 20{:02}0101000000 {{\"url\": \"http://site{site}.com/{page}\", \"n\": \"{capture}\"}}",
                capture % 100
            ));
        }
    }
    lines.sort();
    lines.dedup();
    lines
}

fn write(folder: &Path, lines: &[String], options: &zipnum::Options) -> PathBuf {
    let path = folder.join("zipnum");
    let mut out = zipnum::create(&path, options, 2).unwrap();
    for line in lines {
        out.push(line.as_bytes()).unwrap();
    }
    out.finish().unwrap();
    path
}

fn query(uri: &str, kind: Match) -> Query {
    let mut surt = Vec::new();
    Canonicalizer::new(Dialect::default())
        .canonicalize(uri.as_bytes(), &mut surt)
        .unwrap();
    Query {
        ranges: ranges(uri.as_bytes(), &surt, kind),
    }
}

fn batch(
    index: &Index,
    queries: &[Query],
    wanted: &Wanted,
) -> Result<(Vec<u8>, Vec<usize>), Error> {
    let mut lookup = Lookup::new(index, wanted.clone());
    let mut found = Vec::new();
    lookup.batch(queries, |row| {
        found.extend_from_slice(row);
        Ok(())
    })?;
    Ok((found, lookup.stats().missing.clone()))
}

/// The bytes of data files that were requested more than once.
fn fetched_twice(server: &Server) -> Vec<String> {
    let mut ranges: HashMap<String, Vec<(usize, usize)>> = HashMap::new();
    for request in server.requests() {
        if request.path.ends_with(".gz") {
            let (from, to) = request.range().unwrap();
            // The first byte tells the size of the file, and so whether its last block is there.
            if (from, to) == (0, Some(1)) {
                continue;
            }
            ranges
                .entry(request.path)
                .or_default()
                .push((from, to.unwrap()));
        }
    }
    let mut twice = Vec::new();
    for (path, mut ranges) in ranges {
        ranges.sort_unstable();
        for pair in ranges.windows(2) {
            if pair[1].0 < pair[0].1 {
                twice.push(format!("{path}: {pair:?}"));
            }
        }
    }
    twice
}

fn kinds() -> impl Strategy<Value = Match> {
    prop_oneof![
        3 => Just(Match::Exact),
        1 => Just(Match::Prefix),
        1 => Just(Match::Host),
        1 => Just(Match::Domain),
    ]
}

fn orders() -> impl Strategy<Value = Order> {
    prop_oneof![
        Just(Order::Forward),
        Just(Order::Reverse),
        Just(Order::Closest(Time::parse(b"20050101000000").unwrap())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn remote_lookups_find_what_local_ones_find_and_fetch_each_block_once(
        pages in prop::collection::vec((0u8..20, 0u8..10, 1u8..6), 1..80),
        asked in prop::collection::vec((0u8..22, 0u8..11, kinds()), 1..12),
        block in 1u64..9,
        shards in 1u64..4,
        wacz: bool,
        named_parts: bool,
        page in 20usize..400,
        order in orders(),
        limit in prop::option::of(1u64..4),
        resolve: bool,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let options = zipnum::Options {
            lines: block,
            shards: if wacz { 1 } else { shards },
            flavour: if wacz { Flavour::Wacz } else { Flavour::Cluster },
            ..Default::default()
        };
        let path = write(folder.path(), &lines(&pages), &options);
        let files = Files::of_folder(&path);
        if !named_parts {
            files.remove("/cluster.loc");
        }
        let server = Server::of(&files);
        let name = if wacz { "/index.idx" } else { "/cluster.idx" };
        let queries: Vec<Query> = asked
            .iter()
            .map(|(site, page, kind)| query(&format!("http://site{site}.com/{page}"), *kind))
            .collect();
        let wanted = Wanted { order, limit, resolve, ..Wanted::default() };
        let local = Index::open(&path).unwrap();
        let expected = batch(&local, &queries, &wanted).unwrap();
        let index = remote(&server.at(name), page).unwrap();
        prop_assert_eq!(batch(&index, &queries, &wanted).unwrap(), expected);
        prop_assert_eq!(fetched_twice(&server), [] as [String; 0]);
        // One by one, on other connections.
        let mut one = Lookup::new(&index, wanted.clone());
        let mut expected = Lookup::new(&local, wanted);
        for query in &queries {
            let (mut a, mut b) = (Vec::new(), Vec::new());
            one.one(query, |row| { a.extend_from_slice(row); Ok(()) }).unwrap();
            expected.one(query, |row| { b.extend_from_slice(row); Ok(()) }).unwrap();
            prop_assert_eq!(a, b);
        }
        prop_assert_eq!(one.count_each(&queries).unwrap(), expected.count_each(&queries).unwrap());
        prop_assert_eq!(fetched_twice(&server), [] as [String; 0]);
        let check = |index: &Index| index.check_keys(Dialect::default()).unwrap();
        prop_assert_eq!(check(&index), check(&local));
    }
}

fn small(folder: &Path) -> (PathBuf, Files) {
    let pages: Vec<(u8, u8, u8)> = (0..20).map(|site| (site, 1, 5)).collect();
    let options = zipnum::Options {
        lines: 10,
        ..Default::default()
    };
    let path = write(folder, &lines(&pages), &options);
    let files = Files::of_folder(&path);
    (path, files)
}

fn find(index: &Index) -> Result<usize, Error> {
    let (found, _) = batch(
        index,
        &[query("http://site7.com/1", Match::Exact)],
        &Wanted::default(),
    )?;
    Ok(found.iter().filter(|&&byte| byte == b'\n').count())
}

#[test]
fn adjacent_blocks_come_in_one_request() {
    let folder = tempfile::tempdir().unwrap();
    let (_, files) = small(folder.path());
    let server = Server::of(&files);
    let index = remote(&server.at("/cluster.idx"), 1000).unwrap();
    server.forget();
    let all: Vec<Query> = (0..20)
        .map(|site| query(&format!("http://site{site}.com/1"), Match::Exact))
        .collect();
    batch(&index, &all, &Wanted::default()).unwrap();
    let data = |request: &server::Request| request.path.ends_with(".gz");
    assert_eq!(server.requests().into_iter().filter(data).count(), 1);
}

#[test]
fn shards_are_at_urls_that_the_loc_file_names() {
    let folder = tempfile::tempdir().unwrap();
    let (path, files) = small(folder.path());
    let data = fs::read(path.join("cdx-00000.gz")).unwrap();
    let far = Files::default();
    far.put("/far/data.gz", data);
    let far = Server::of(&far);
    files.remove("/cdx-00000.gz");
    let locations = format!(
        "cdx-00000.gz\t{}\t{}\n",
        far.at("/none.gz"),
        far.at("/far/data.gz")
    );
    files.put("/cluster.loc", locations.clone());
    let server = Server::of(&files);
    assert_eq!(
        find(&remote(&server.at("/cluster.idx"), 1000).unwrap()).unwrap(),
        5
    );
    // Also those of a local index.
    fs::remove_file(path.join("cdx-00000.gz")).unwrap();
    fs::write(path.join("cluster.loc"), locations).unwrap();
    let local = || Index::open(&path).unwrap();
    assert_eq!(find(&local().with_opener(opener(), 2)).unwrap(), 5);
    let error = find(&local()).unwrap_err();
    assert!(error.to_string().contains("only files are read"), "{error}");
}

#[test]
fn a_remote_index_names_no_local_file() {
    let folder = tempfile::tempdir().unwrap();
    let (path, files) = small(folder.path());
    let data = path.join("cdx-00000.gz").display().to_string();
    files.remove("/cdx-00000.gz");
    for name in [data.clone(), format!("file://{data}")] {
        files.put("/cluster.loc", format!("cdx-00000.gz\t{name}\n"));
        let server = Server::of(&files);
        let index = remote(&server.at("/cluster.idx"), 1000).unwrap();
        let error = find(&index.anywhere(true)).unwrap_err();
        assert!(
            error.to_string().contains("may not name the local file"),
            "{error}"
        );
    }
    // Nor do its rows.
    files.remove("/cluster.loc");
    let rows = fs::read_to_string(path.join("cluster.idx")).unwrap();
    files.put("/cluster.idx", rows.replace("cdx-00000.gz", &data));
    let server = Server::of(&files);
    let index = remote(&server.at("/cluster.idx"), 1000).unwrap();
    let error = find(&index.anywhere(true)).unwrap_err();
    assert!(
        error.to_string().contains("may not name the local file"),
        "{error}"
    );
}

#[test]
fn a_loc_file_that_may_not_be_read_is_treated_as_missing() {
    let folder = tempfile::tempdir().unwrap();
    let (_, files) = small(folder.path());
    for status in [403, 404] {
        let files = files.clone();
        let server = Server::start(move |request| match request.path.ends_with(".loc") {
            true => Reply::new(status, "no"),
            false => files.reply(request),
        });
        assert_eq!(
            find(&remote(&server.at("/cluster.idx"), 1000).unwrap()).unwrap(),
            5
        );
    }
}

#[test]
fn an_index_that_changes_during_the_run_is_an_error() {
    for changed in ["/cluster.idx", "/cdx-00000.gz"] {
        let folder = tempfile::tempdir().unwrap();
        let (_, files) = small(folder.path());
        let number = AtomicUsize::new(0);
        let server = Server::start(move |request| {
            let mut reply = files.reply(request);
            if request.path == changed {
                let number = number.fetch_add(1, Ordering::Relaxed);
                reply = reply.with("ETag", format!("\"{number}\""));
            }
            reply
        });
        let error = remote(&server.at("/cluster.idx"), 100)
            .and_then(|index| {
                find(&index)?;
                let other = query("http://site19.com/1", Match::Exact);
                batch(&index, &[other], &Wanted::default())
            })
            .unwrap_err();
        let ErrorKind::Remote { problem, .. } = error.kind() else {
            panic!("{error}");
        };
        assert_eq!(*problem, RemoteProblem::Changed);
        assert!(error.to_string().contains(changed), "{error}");
    }
}

#[test]
fn damaged_and_missing_data_is_reported_with_its_url() {
    let folder = tempfile::tempdir().unwrap();
    let (path, files) = small(folder.path());
    let data = fs::read(path.join("cdx-00000.gz")).unwrap();
    files.put("/cdx-00000.gz", &data[..data.len() / 3]);
    let server = Server::of(&files);
    let error = find(&remote(&server.at("/cluster.idx"), 1000).unwrap()).unwrap_err();
    assert!(error.is_damage(), "{error}");
    assert!(error.to_string().contains("/cdx-00000.gz: byte"), "{error}");
    files.remove("/cdx-00000.gz");
    let error = find(&remote(&server.at("/cluster.idx"), 1000).unwrap()).unwrap_err();
    assert!(error.is_missing(), "{error}");
    assert!(error.to_string().contains("/cdx-00000.gz"), "{error}");
    files.put("/cluster.idx", "<html>not found</html>\n");
    let error = remote(&server.at("/cluster.idx"), 1000).err().unwrap();
    assert!(error.to_string().contains("not a row of blocks"), "{error}");
}
