use std::fs;

use proptest::prelude::*;

use super::section::Names;
use super::*;

const EXAMPLE: &str = include_str!("../../../../docs/waypost.example.toml");

fn read(text: &str) -> waypost_io::Result<Config> {
    Config::parse(text, Path::new("/etc"), "waypost.toml")
}

fn error(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

#[test]
fn the_example_shows_the_defaults() {
    let config = read(EXAMPLE).unwrap();
    let archive = Archive {
        timemap: Some("https://archive.example/timemap/link/".to_owned()),
        ..Archive::new("archive.example")
    };
    let expected = Config {
        registry: Registry::new(vec![archive]),
        ..Config::default()
    };
    assert_eq!(config, expected);
}

#[test]
fn the_example_has_every_key_and_no_other() {
    // Comments start with a space, settings that are commented out do not.
    let set = |line: &str| match line.strip_prefix('#') {
        Some(rest) if !rest.starts_with(' ') && !rest.starts_with("archives") => rest.to_owned(),
        _ => line.to_owned(),
    };
    let text: Vec<String> = EXAMPLE.lines().map(set).collect();
    let text = text.join("\n");
    let config = read(&text).unwrap();
    assert_eq!(
        config.log.benchmark.as_deref(),
        Some(Path::new("/etc/benchmark.log"))
    );
    let table: toml::Table = text.parse().unwrap();
    for section in SECTIONS {
        let mut names = Names::default();
        Config::default().visit(section, &mut names);
        for name in names.0 {
            assert!(table[section].get(name).is_some(), "[{section}] {name}");
        }
    }
    let mut names = Names(vec!["id", "ignore"]);
    Archive::new("").visit(&mut names);
    for name in names.0 {
        assert!(
            table["archive"][0].get(name).is_some(),
            "[[archive]] {name}"
        );
    }
    assert!(EXAMPLE.contains("\n#archives = "));
}

#[test]
fn errors_name_file_line_and_key() {
    let cases = [
        (
            "[server]\nlistn = \"127.0.0.1:80\"",
            "line 2: unknown key `listn` in [server]; did you mean `listen`?",
        ),
        (
            "\n[sever]\n",
            "line 2: unknown key `sever` in the file; did you mean `server`?",
        ),
        (
            "[server]\nqwertyuiop = 1",
            "line 2: unknown key `qwertyuiop` in [server]",
        ),
        (
            "[client]\n\ndeadline = \"15\"",
            "line 3: deadline: invalid duration `15`: write 500ms, 15s, 5m, 2h or 7d",
        ),
        (
            "[client]\ndeadline = 15",
            "line 2: deadline: expected a string such as \"15s\", not an integer",
        ),
        (
            "[client]\ndeadline = \"0s\"",
            "line 2: deadline: must be more than 0",
        ),
        (
            "[limits]\nconcurrency = 0",
            "line 2: concurrency: must be at least 1",
        ),
        (
            "[limits]\nmax_body = \"0\"",
            "line 2: max_body: invalid size `0`: write 200K, 512M or 4GiB",
        ),
        ("[limits]\nrate = 0", "line 2: rate: must be more than 0"),
        (
            "[limits]\nretries = -1",
            "line 2: retries: must be between 0 and 4294967295",
        ),
        (
            "[server]\nlisten = \"localhost\"",
            "line 2: listen: invalid address `localhost`: write 127.0.0.1:1208 or [::1]:1208",
        ),
        (
            "[server]\npublic_url = \"aggregator.example\"",
            "line 2: public_url: invalid URL `aggregator.example`: \
             relative URL without a base",
        ),
        (
            "[[archive]]\nid = \"a\"\ntimemap = \"ftp://a/\"",
            "line 3: timemap: `ftp://a/` is not an HTTP URL but `ftp`",
        ),
        (
            "[[archive]]\nid = \"a\"",
            "line 1: id: archive `a` has no address: give timemap, timegate or cdx",
        ),
        (
            "[[archive]]\nid = \"a\"\ncdx = \"http://a/cdx\"",
            "line 1: id: archive `a` has cdx without replay: \
             CDX servers do not name memento URIs",
        ),
        (
            "[[archive]]\ntimemap = \"http://a/\"",
            "line 1: id: missing from this [[archive]]",
        ),
        (
            "[[archive]]\nid = \"a\"\ntimemap = \"http://a/\"\n\
             [[archive]]\nid = \"a\"\ntimemap = \"http://b/\"",
            "line 5: id: another archive has the id `a`",
        ),
        (
            "[[archive]]\nid = \"a\"\ntimemap = \"http://a/\"\ndialect = \"x\"",
            "line 4: dialect: `x` is not a dialect: use ia, commoncrawl, commoncrawl-legacy, \
             webrecorder or webrecorder-legacy",
        ),
        (
            "[archive]\nid = \"a\"",
            "line 1: archive: write [[archive]] for each archive",
        ),
        ("server = 1", "line 1: server: expected a table"),
        (
            "[log]\nformat = \"xml\"",
            "line 2: format: unknown format `xml`: write json or memgator",
        ),
        (
            "[client]\ncontact = \"a\\nb\"",
            "line 2: contact: must be printable ASCII, because it is sent in a header",
        ),
        (
            "[server]\nroot = ",
            "line 2: string values must be quoted, expected literal string",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(error(text), format!("waypost.toml: {expected}"), "{text}");
    }
}

#[test]
fn a_table_changes_the_archive_of_the_list() {
    let folder = tempfile::tempdir().unwrap();
    let list = r#"[{"id": "a", "timemap": "http://a.example/"}, {"id": "b", "timemap": "http://b.example/"}]"#;
    fs::write(folder.path().join("archives.json"), list).unwrap();
    let path = folder.path().join("waypost.toml");
    let text = "archives = \"archives.json\"\n[limits]\nretries = 3\n\
                [[archive]]\nid = \"b\"\nrate = 2\npriority = 1\n\
                [[archive]]\nid = \"a\"\nignore = true\n\
                [[archive]]\nid = \"c\"\ntimegate = \"http://c.example/x?u=\"\nsummaries = [\"c.ukvs\"]\n";
    fs::write(&path, text).unwrap();
    let registry = Config::read(&path).unwrap().registry;
    let ids: Vec<&str> = registry
        .archives
        .iter()
        .map(|archive| &archive.id[..])
        .collect();
    assert_eq!(ids, ["b", "c"]);
    let [b, c] = &registry.archives[..] else {
        panic!("two archives");
    };
    assert_eq!((b.limits.rate, b.limits.retries), (Some(2.0), 3));
    assert_eq!(b.timemap.as_deref(), Some("http://b.example/"));
    assert_eq!(c.timegate.as_deref(), Some("http://c.example/x?u="));
    assert_eq!(c.summaries, [folder.path().join("c.ukvs")]);

    fs::write(folder.path().join("archives.json"), "[\n1]").unwrap();
    let text = Config::read(&path).unwrap_err().to_string();
    let list = folder.path().join("archives.json");
    let expected = format!("{}: line 2: not a list of archives", list.display());
    assert!(text.starts_with(&expected), "{text}");
    fs::write(&path, b"[server]\n# \xFF").unwrap();
    let text = Config::read(&path).unwrap_err().to_string();
    assert!(text.ends_with("waypost.toml: line 2: not UTF-8"), "{text}");
}

#[test]
fn the_agent_names_the_contact() {
    let mut client = ClientConfig::default();
    assert_eq!(client.user_agent(), AGENT);
    client.contact = Some("me@library.example".to_owned());
    assert_eq!(client.user_agent(), format!("{AGENT} <me@library.example>"));
    client.agent = Some("Us (+{contact})".to_owned());
    assert_eq!(client.user_agent(), "Us (+me@library.example)");
}

proptest! {
    #[test]
    fn a_description_means_the_same(
        (millis, bytes, count, rate) in (1..u64::MAX >> 32, 1..1u64 << 50, 1..100usize, 0.001..1e6),
        name in "\\PC{1,20}",
    ) {
        let mut config = Config::default();
        config.client.deadline = Duration::from_millis(millis);
        config.cache.memory = bytes;
        config.server.root = "/a/".to_owned();
        config.server.metrics = "[::1]:80".parse().ok();
        config.log.format = LogFormat::MemGator;
        config.registry = Registry::new(vec![Archive {
            name: Some(name.clone()),
            cdx: Some("http://a.example/cdx".to_owned()),
            replay: "http://a.example/{timestamp}/{url}".parse().ok(),
            limits: ArchiveLimits { concurrency: count, rate: Some(rate), ..ArchiveLimits::default() },
            summaries: vec![PathBuf::from("/a b\"c")],
            ..Archive::new(name)
        }]);
        let text = config.describe();
        prop_assert_eq!(read(&text).unwrap(), config, "{}", text);
    }

    #[test]
    fn no_file_makes_it_panic(text in "\\PC*", key in "[a-z_]{1,10}", value in "\\PC{0,20}") {
        let _ = read(&text);
        let _ = read(&format!("[server]\n{key} = {value}\n[[archive]]\n{key} = {value}"));
    }
}
