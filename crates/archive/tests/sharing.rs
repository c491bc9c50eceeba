//! Publishing summaries and discovering them: what is published is found, and nothing hostile is.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use server::{Files, Reply, Server};
use waypost_archive::discover::{self, DiscoverOptions, Outcome};
use waypost_archive::publish::{self, PublishOptions};
use waypost_archive::sitemap::{Listing, parse};
use waypost_io::Source;
use waypost_net::{Client, ClientOptions};
use waypost_summary::filter::{self, Kind, Recipe};

#[path = "../../net/tests/server/mod.rs"]
mod server;

fn write_filter(path: &Path, urls: usize, kind: Kind) {
    let list = path.with_extension("txt");
    let lines: String = (0..urls)
        .map(|n| format!("http://example.com/{n}\n"))
        .collect();
    fs::write(&list, lines).unwrap();
    let sources = [Source::new(&list)];
    let mut recipe = Recipe {
        kind,
        ..Recipe::default()
    };
    recipe.metadata.add("title", "Tom & \"Jerry\" <x>").unwrap();
    filter::build(filter::Input::new(&sources), &recipe, path).unwrap();
    fs::remove_file(list).unwrap();
}

fn client() -> Client {
    Client::new(ClientOptions {
        attempts: 2,
        first_wait: Duration::from_millis(1),
        stall_timeout: Duration::from_secs(5),
        same_host: true,
        ..ClientOptions::default()
    })
    .unwrap()
}

fn discovered(start: &str, folder: &Path, options: &DiscoverOptions) -> Vec<Outcome> {
    let client = client();
    let mut total = 0;
    let found = discover::find(&client, start, options).unwrap();
    let fetch = |file| discover::fetch(&client, folder, start, file, options, &mut total);
    found.iter().map(fetch).collect()
}

fn options(url: &str) -> PublishOptions {
    PublishOptions {
        url: url.to_owned(),
        publisher: Some("Library".to_owned()),
        ..PublishOptions::default()
    }
}

/// A folder with two filters, served at `/sub/` without a manifest yet.
fn published(files: &Files, url: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("more")).unwrap();
    write_filter(&folder.path().join("a b.filter"), 100, Kind::Ribbon);
    write_filter(&folder.path().join("more/c.filter"), 50_000, Kind::Bloom);
    fs::write(folder.path().join("notes.pdf"), b"%PDF-1.4\x00\x01\x02").unwrap();
    let published = publish::publish(folder.path(), &options(url)).unwrap();
    assert_eq!(published.skipped, [folder.path().join("notes.pdf")]);
    put(files, folder.path());
    folder
}

fn put(files: &Files, folder: &Path) {
    for name in [
        "sitemap.xml",
        "manifest.json",
        "SHA256SUMS",
        "more/c.filter",
    ] {
        files.put(
            &format!("/sub/{name}"),
            fs::read(folder.join(name)).unwrap(),
        );
    }
    files.put(
        "/sub/a%20b.filter",
        fs::read(folder.join("a b.filter")).unwrap(),
    );
}

fn copies(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(copies(&path));
        } else if !waypost_net::cache::is_own(&path) {
            found.push(path);
        }
    }
    found
}

#[test]
fn what_is_published_is_discovered_once_and_again_when_it_changes() {
    let files = Files::default();
    let server = Server::of(&files);
    let folder = published(&files, &server.at("/sub"));
    let copy = tempfile::tempdir().unwrap();
    let defaults = DiscoverOptions::default();
    for start in ["/sub/sitemap.xml", "/sub/"] {
        let all = discovered(&server.at(start), copy.path(), &defaults);
        let fresh = start == "/sub/sitemap.xml";
        assert_eq!(all.len(), 2);
        for outcome in &all {
            match outcome {
                Outcome::Downloaded(_) => assert!(fresh),
                Outcome::Unchanged(_) => assert!(!fresh),
                Outcome::Refused(error) => panic!("{error}"),
            }
        }
    }
    let copies = copies(copy.path());
    assert_eq!(copies.len(), 2);
    for path in &copies {
        let name = match path.to_str().unwrap() {
            path if path.ends_with("a%20b.filter") => "a b.filter",
            _ => "more/c.filter",
        };
        assert_eq!(
            fs::read(path).unwrap(),
            fs::read(folder.path().join(name)).unwrap()
        );
    }
    // One file changes: only it is downloaded again.
    write_filter(&folder.path().join("a b.filter"), 200, Kind::Ribbon);
    publish::publish(folder.path(), &options(&server.at("/sub"))).unwrap();
    put(&files, folder.path());
    let all = discovered(&server.at("/sub/"), copy.path(), &defaults);
    let changed = all
        .iter()
        .filter(|outcome| matches!(outcome, Outcome::Downloaded(_)));
    assert_eq!(changed.count(), 1);
}

#[test]
fn a_host_is_searched_by_robots_txt_and_by_the_usual_name() {
    let files = Files::default();
    let server = Server::of(&files);
    let _folder = published(&files, &server.at("/sub"));
    let robots = format!(
        "User-agent: *\nSitemap: {}\nsitemap: /missing.xml\n",
        server.at("/sub/sitemap.xml")
    );
    files.put("/robots.txt", robots);
    let defaults = DiscoverOptions::default();
    let found = discover::find(&client(), &server.at("/"), &defaults).unwrap();
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|file| file.sha256.is_some()));
    files.remove("/robots.txt");
    let index = format!(
        "<sitemapindex><sitemap><loc>{}</loc></sitemap></sitemapindex>",
        server.at("/sub/sitemap.xml")
    );
    files.put("/sitemap.xml", index);
    let found = discover::find(&client(), &server.at("/"), &defaults).unwrap();
    assert_eq!(found.len(), 2);
    // Other pages in a sitemap are ignored.
    files.put(
        "/sitemap.xml",
        "<urlset><url><loc>/about.html</loc></url></urlset>",
    );
    let found = discover::find(&client(), &server.at("/"), &defaults).unwrap();
    assert!(found.is_empty());
    files.remove("/sitemap.xml");
    assert!(discover::find(&client(), &server.at("/"), &defaults).is_err());
}

#[test]
fn an_interrupted_download_resumes_and_no_half_file_appears() {
    let files = Files::default();
    let folder = published(&files, "http://127.0.0.1/sub");
    let bytes = fs::read(folder.path().join("more/c.filter")).unwrap();
    let requests = AtomicUsize::new(0);
    let from: &'static AtomicUsize = Box::leak(Box::new(AtomicUsize::new(0)));
    let served = files.clone();
    let server = Server::start(move |request| {
        let mut reply = served.reply(request);
        if request.path == "/sub/more/c.filter" {
            from.store(
                request.range().map_or(0, |range| range.0),
                Ordering::Relaxed,
            );
            // Cut for the first two requests, which are all attempts of the first run.
            if requests.fetch_add(1, Ordering::Relaxed) < 2 {
                reply.cut = Some(20_000);
            }
        }
        reply
    });
    let copy = tempfile::tempdir().unwrap();
    publish::publish(folder.path(), &options(&server.at("/sub"))).unwrap();
    put(&files, folder.path());
    let run = || {
        discovered(
            &server.at("/sub/"),
            copy.path(),
            &DiscoverOptions::default(),
        )
    };
    let refused = run();
    assert!(matches!(refused[1], Outcome::Refused(_)), "{refused:?}");
    assert_eq!(copies(copy.path()).len(), 1);
    let done = run();
    let Outcome::Downloaded(path) = &done[1] else {
        panic!("{done:?}")
    };
    assert_eq!(from.load(Ordering::Relaxed), 40_000);
    assert_eq!(fs::read(path).unwrap(), bytes);
}

#[test]
fn hostile_entries_are_refused_and_leave_nothing() {
    let files = Files::default();
    let served = files.clone();
    let server = Server::start(move |request| match &request.path[..] {
        "/elsewhere.filter" => {
            Reply::new(302, "").with("Location", "http://localhost:1/secret.filter")
        }
        "/inside.filter" => Reply::new(302, "").with("Location", "/good.filter"),
        _ => served.reply(request),
    });
    let folder = tempfile::tempdir().unwrap();
    write_filter(&folder.path().join("good.filter"), 1000, Kind::Ribbon);
    let good = fs::read(folder.path().join("good.filter")).unwrap();
    files.put("/good.filter", &good[..]);
    files.put("/page.filter", "<html>not a summary</html>");
    let dc = "xmlns:dc='http://purl.org/dc/elements/1.1/'";
    let wrong_sum = format!("<dc:identifier>sha256:{}</dc:identifier>", "0".repeat(64));
    let huge = "<dc:format>Size 99999999999999B</dc:format>".to_owned();
    let short = "<dc:format>Size 17B</dc:format>".to_owned();
    let cases = [
        ("/good.filter", String::new(), true),
        ("/inside.filter", String::new(), true),
        ("/a/../%2e%2e/good.filter", String::new(), true),
        ("/good.filter?1", wrong_sum, false),
        ("/good.filter?2", huge, false),
        ("/good.filter?3", short, false),
        ("/page.filter", String::new(), false),
        ("/elsewhere.filter", String::new(), false),
        ("/missing.filter", String::new(), false),
        ("http://localhost:1/x.filter", String::new(), false),
        ("http://169.254.169.254/x.filter", String::new(), false),
        ("file:///etc/passwd.filter", String::new(), false),
        ("ftp://127.0.0.1/x.filter", String::new(), false),
        (
            "http://user:secret@127.0.0.1/x.filter",
            String::new(),
            false,
        ),
    ];
    for (location, elements, accepted) in cases {
        let sitemap = format!("<urlset {dc}><url><loc>{location}</loc>{elements}</url></urlset>");
        files.put("/sitemap.xml", sitemap);
        let copy = tempfile::tempdir().unwrap();
        let start = server.at("/sitemap.xml");
        let all = discovered(&start, copy.path(), &DiscoverOptions::default());
        let refused = matches!(all[0], Outcome::Refused(_));
        assert_eq!(refused, !accepted, "{location}: {all:?}");
        let copies = copies(copy.path());
        assert_eq!(copies.len(), usize::from(accepted), "{copies:?}");
        assert!(copies.iter().all(|path| path.starts_with(copy.path())));
    }
}

#[test]
fn sizes_are_limited_also_where_nothing_is_said() {
    let files = Files::default();
    let served = files.clone();
    let server = Server::start(move |request| {
        let mut reply = served.reply(request);
        reply.unsized_body = request.path.ends_with(".filter");
        reply
    });
    let folder = tempfile::tempdir().unwrap();
    write_filter(&folder.path().join("a.filter"), 20_000, Kind::Bloom);
    files.put(
        "/a.filter",
        fs::read(folder.path().join("a.filter")).unwrap(),
    );
    files.put(
        "/sitemap.xml",
        "<urlset><url><loc>/a.filter</loc></url><url><loc>/a.filter?2</loc></url></urlset>",
    );
    let copy = tempfile::tempdir().unwrap();
    let start = server.at("/sitemap.xml");
    let refused = |options: &DiscoverOptions| {
        let all = discovered(&start, copy.path(), options);
        let refused = all
            .iter()
            .filter(|outcome| matches!(outcome, Outcome::Refused(_)));
        refused.count()
    };
    let defaults = DiscoverOptions::default();
    assert_eq!(
        refused(&DiscoverOptions {
            most_bytes: 1000,
            ..defaults.clone()
        }),
        2
    );
    assert!(copies(copy.path()).is_empty());
    // Room for one of them.
    assert_eq!(
        refused(&DiscoverOptions {
            most_total: 40_000,
            ..defaults.clone()
        }),
        1
    );
    assert_eq!(refused(&defaults), 0);
    let most_files = DiscoverOptions {
        most_files: 1,
        ..defaults
    };
    assert!(discover::find(&client(), &start, &most_files).is_err());
}

#[test]
fn a_manifest_and_a_sitemap_that_contradict_each_other_are_refused() {
    let files = Files::default();
    let server = Server::of(&files);
    let folder = published(&files, &server.at("/sub"));
    let manifest = fs::read_to_string(folder.path().join("manifest.json")).unwrap();
    let sum = publish::Manifest::parse(manifest.as_bytes()).unwrap().files[0]
        .sha256
        .clone();
    files.put(
        "/sub/manifest.json",
        manifest.replace(&sum, &"f".repeat(64)),
    );
    let found = discover::find(&client(), &server.at("/sub/"), &DiscoverOptions::default());
    assert!(found.unwrap_err().to_string().contains("checksum"));
    files.put("/sub/manifest.json", "[]");
    assert!(discover::find(&client(), &server.at("/sub/"), &DiscoverOptions::default()).is_err());
}

#[test]
fn files_that_should_not_be_published_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let publish = |url: &str, hashes: bool| {
        let options = PublishOptions {
            hashes,
            ..options(url)
        };
        publish::publish(folder.path(), &options)
    };
    let url = "https://archive.example/x/";
    assert!(publish(url, false).is_err());
    write_filter(&folder.path().join("all.hashes"), 10, Kind::Hashes);
    assert!(publish(url, false).is_err());
    assert!(publish("archive.example", true).is_err());
    assert!(publish("https://archive.example/?q", true).is_err());
    let published = publish(url, true).unwrap();
    assert_eq!(published.manifest.files[0].urls, Some(10));
    let sitemap = fs::read(folder.path().join("sitemap.xml")).unwrap();
    let Listing::Files(entries) = parse(&sitemap).unwrap() else {
        panic!("a list of files")
    };
    assert_eq!(entries[0].location, "https://archive.example/x/all.hashes");
    assert_eq!(entries[0].get("title").next(), Some("Tom & \"Jerry\" <x>"));
    // A damaged filter is not published.
    let mut bytes = fs::read(folder.path().join("all.hashes")).unwrap();
    bytes.truncate(bytes.len() - 1);
    fs::write(folder.path().join("all.hashes"), bytes).unwrap();
    assert!(publish(url, true).is_err());
}

#[test]
fn many_summaries_are_listed_by_an_index_of_sitemaps() {
    let files = Files::default();
    let server = Server::of(&files);
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.filter", "b.filter", "c.filter"] {
        write_filter(&folder.path().join(name), 100, Kind::Ribbon);
    }
    let most_two = PublishOptions {
        most_entries: 2,
        ..options(&server.at("/sub"))
    };
    let put = || {
        for entry in fs::read_dir(folder.path()).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            files.put(&format!("/sub/{name}"), fs::read(&path).unwrap());
        }
    };
    assert_eq!(
        publish::publish(folder.path(), &most_two).unwrap().sitemaps,
        2
    );
    put();
    let local = folder.path().join("sitemap.xml");
    let index = fs::read_to_string(&local).unwrap();
    assert!(index.contains("<sitemapindex"), "{index}");
    assert!(index.contains(&server.at("/sub/sitemap-2.xml")), "{index}");
    let copy = tempfile::tempdir().unwrap();
    let defaults = DiscoverOptions::default();
    let all = discovered(&server.at("/sub/"), copy.path(), &defaults);
    assert_eq!(all.len(), 3);
    assert!(all.iter().all(|one| matches!(one, Outcome::Downloaded(_))));
    assert_eq!(copies(copy.path()).len(), 3);
    // The manifest is read once, and all sitemaps are.
    let asked = |path: &str| {
        server
            .requests()
            .iter()
            .filter(|one| one.path == path)
            .count()
    };
    assert_eq!(asked("/sub/manifest.json"), 1);
    assert_eq!(asked("/sub/sitemap-1.xml"), 1);
    let found = discover::find(&client(), local.to_str().unwrap(), &defaults).unwrap();
    assert_eq!(found.len(), 3);
    let few = DiscoverOptions {
        most_files: 2,
        ..defaults.clone()
    };
    for start in [server.at("/sub/"), local.to_str().unwrap().to_owned()] {
        let error = discover::find(&client(), &start, &few).unwrap_err();
        assert!(
            error.to_string().contains("more than 2 summaries"),
            "{error}"
        );
    }
    // Published again as one: nothing is left of the parts.
    fs::remove_file(folder.path().join("c.filter")).unwrap();
    let again = publish::publish(folder.path(), &most_two).unwrap();
    assert_eq!((again.sitemaps, again.skipped.len()), (1, 0));
    assert!(!folder.path().join("sitemap-1.xml").exists());
    assert!(!folder.path().join("sitemap-2.xml").exists());
}

#[test]
fn hostile_indexes_of_sitemaps_are_refused() {
    let files = Files::default();
    let server = Server::of(&files);
    let index = |urls: &[String]| {
        let sitemaps: String = urls
            .iter()
            .map(|url| format!("<sitemap><loc>{url}</loc></sitemap>"))
            .collect();
        format!("<sitemapindex>{sitemaps}</sitemapindex>").into_bytes()
    };
    let many: Vec<String> = (0..101)
        .map(|number| server.at(&format!("/{number}.xml")))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret"), "x").unwrap();
    for (name, urls, problem) in [
        (
            "loop",
            vec![server.at("/s/loop.xml")],
            "in an index of sitemaps",
        ),
        ("many", many, "more than 100 sitemaps"),
        (
            "elsewhere",
            vec!["http://127.0.0.2:1/s.xml".to_owned()],
            "another host",
        ),
        (
            "file",
            vec!["file:///etc/passwd".to_owned()],
            "only http and https",
        ),
    ] {
        files.put(&format!("/s/{name}.xml"), index(&urls));
        let start = server.at(&format!("/s/{name}.xml"));
        let error = discover::find(&client(), &start, &DiscoverOptions::default()).unwrap_err();
        assert!(error.to_string().contains(problem), "{name}: {error}");
    }
    // A local index leads to files beside it and nowhere else.
    for (url, problem) in [
        ("http://h/../..", "invalid URL"),
        ("http://h/.hidden", "invalid URL"),
        ("http://h/secret", "not a sitemap"),
        ("http://h/local.xml", "in an index of sitemaps"),
    ] {
        let local = folder.path().join("local.xml");
        fs::write(&local, index(&[url.to_owned()])).unwrap();
        let start = local.to_str().unwrap();
        let error = discover::find(&client(), start, &DiscoverOptions::default()).unwrap_err();
        assert!(error.to_string().contains(problem), "{url}: {error}");
    }
}
