//! Shards on the Web are tabulated like those on disk.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../net/tests/server/mod.rs"]
mod server;

use std::fs;
use std::sync::Arc;

use server::{Files, Server};
use waypost_index::zipnum::{self, Remote, ZipNum};
use waypost_insight::generate::Crawl;
use waypost_insight::segments::tabulate::{Options, tabulate};
use waypost_io::{RangeRead, Source};
use waypost_net::{Client, ClientOptions};

#[test]
fn a_zipnum_index_on_a_server_gives_the_table_of_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = folder.path().join("blocks");
    let options = zipnum::Options {
        lines: 300,
        shards: 3,
        ..zipnum::Options::default()
    };
    let mut writer = zipnum::create(&blocks, &options, 2).unwrap();
    let crawl = Crawl {
        captures: 3000,
        segments: 11,
        ..Crawl::default()
    };
    let mut text = Vec::new();
    crawl.write_index(true, &mut text).unwrap();
    writer.push_lines(&text).unwrap();
    writer.finish().unwrap();

    let table = |sources: &[Source], name: &str| {
        let out = folder.path().join(name);
        let tabulated = tabulate(sources, Options::default(), &out).unwrap();
        assert!(tabulated.outcome.damage.is_empty());
        fs::read_to_string(out).unwrap()
    };
    let local = ZipNum::open(&blocks).unwrap().sources().unwrap();
    assert_eq!(local.len(), 3);
    let server = Server::of(&Files::of_folder(&blocks));
    let client = Client::new(ClientOptions::default()).unwrap();
    let url = server.at("/cluster.idx");
    let remote = ZipNum::remote(Remote {
        url: &url,
        copy: None,
        open: Arc::new(move |url| Ok(Arc::new(client.open(url)?) as Arc<dyn RangeRead>)),
        connections: 3,
    })
    .unwrap()
    .sources()
    .unwrap();
    assert_eq!(remote.len(), 3);
    assert!(
        remote
            .iter()
            .all(|source| source.to_string().starts_with("http"))
    );
    assert_eq!(table(&remote, "remote"), table(&local, "local"));
    // What is not on this machine can be kept and read again.
    remote[0].keep(folder.path()).unwrap();
    assert_eq!(remote[0].size(), local[0].size());
    assert_eq!(table(&remote, "again"), table(&local, "local again"));
}
