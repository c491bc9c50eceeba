//! A real Redis server: uploads, lookups by ranges, the switch of generations, and the layout of
//! Orestes. Runs where `redis-server` is installed.
#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use waypost_archive::store::{RedisImport, Store, StoredFilter, import, upload};
use waypost_io::Source;
use waypost_summary::filter::orestes::{ClassicFilter, ExportOptions, Form, Method, Split, export};
use waypost_summary::filter::{self, Filter, Hash, Hasher, Keyer, Kind, Metadata, Recipe};
use waypost_summary::{LookupBuffer, Summary};
use waypost_surt::{Dialect, Policy};

#[path = "../../../tests/oracles.rs"]
mod oracles;

/// A server that is stopped when it is dropped.
struct Redis {
    process: Child,
    url: String,
    client: redis::Client,
    _folder: tempfile::TempDir,
}

impl Redis {
    fn start() -> Option<Redis> {
        let folder = tempfile::tempdir().unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let started = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--dir"])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(process) = started else {
            oracles::skip("redis-server is not installed");
            return None;
        };
        let url = format!("redis://127.0.0.1:{port}/");
        let client = redis::Client::open(&url[..]).unwrap();
        let redis = Redis {
            process,
            url,
            client,
            _folder: folder,
        };
        let started = Instant::now();
        while redis.client.get_connection().is_err() {
            assert!(started.elapsed() < Duration::from_secs(30), "no Redis");
            sleep(Duration::from_millis(20));
        }
        Some(redis)
    }

    fn store(&self) -> Arc<Store> {
        Arc::new(Store::new(&self.url).unwrap())
    }

    fn query<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let mut connection = self.client.get_connection().unwrap();
        let mut command = redis::cmd(words[0]);
        words[1..].iter().for_each(|word| {
            command.arg(word);
        });
        command.query(&mut connection).unwrap()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn write_filter(path: &Path, urls: usize, kind: Kind) {
    let list = path.with_extension("txt");
    let lines: String = (0..urls).map(|n| format!("http://in.hr/{n}\n")).collect();
    fs::write(&list, lines).unwrap();
    let sources = [Source::new(&list)];
    let recipe = Recipe {
        kind,
        ..Recipe::default()
    };
    filter::build(filter::Input::new(&sources), &recipe, path).unwrap();
}

fn hashes(prefix: &str, count: usize) -> Vec<Hash> {
    let mut keyer = Keyer::new(Dialect::Ia, Policy::Whole, Hasher::Public);
    (0..count)
        .map(|n| keyer.hash(format!("{prefix}{n}").as_bytes()).unwrap())
        .collect()
}

#[test]
fn lookups_in_redis_are_those_in_the_file() {
    let Some(redis) = Redis::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let store = redis.store();
    for (kind, urls) in [
        (Kind::Ribbon, 0),
        (Kind::Ribbon, 1),
        (Kind::Ribbon, 300),
        (Kind::Ribbon, 60_000),
        (Kind::Bloom, 0),
        (Kind::Bloom, 60_000),
    ] {
        let path = folder.path().join("a.filter");
        write_filter(&path, urls, kind);
        upload(&store, "haw", &path, None, |_| {}).unwrap();
        let (stored, local) = (
            StoredFilter::open(&store, "haw", None).unwrap(),
            Filter::open(&path).unwrap(),
        );
        let all = [
            hashes("http://in.hr/", urls),
            hashes("http://out.hr/", 20_000),
        ]
        .concat();
        let mut expected = Vec::new();
        local.contains_all(&all, &mut expected).unwrap();
        assert_eq!(stored.contains_all(&all).unwrap(), expected);
        assert!(expected[..urls].iter().all(|&found| found));
    }
    let stored = StoredFilter::open(&store, "haw", None).unwrap();
    let mut buffer = LookupBuffer::new(Dialect::Ia);
    let batch = buffer.fill(&[b"https://www.in.hr/7", b"http://out.hr/"]);
    let lookups: Vec<_> = batch.valid().collect();
    let answers = stored.answer_all(&lookups).unwrap();
    assert_eq!(
        answers[0].found().unwrap().key.as_deref(),
        Some(&b"hr,in)/7"[..])
    );
    assert_eq!(store.archives().unwrap(), ["haw"]);
}

#[test]
fn a_new_generation_is_switched_to_at_once_and_the_old_one_goes() {
    let Some(redis) = Redis::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let store = redis.store();
    let path = folder.path().join("a.filter");
    write_filter(&path, 100, Kind::Ribbon);
    let first = upload(&store, "haw", &path, None, |_| {}).unwrap();
    assert_eq!(first.before, None);
    let again = upload(&store, "haw", &path, None, |_| {}).unwrap();
    assert_eq!((again.before, &again.generation), (None, &first.generation));
    let reader = StoredFilter::open(&store, "haw", None).unwrap();
    let new = hashes("http://in.hr/", 200)[199];
    assert_eq!(reader.contains_all(&[new]).unwrap(), [false]);
    write_filter(&path, 200, Kind::Bloom);
    let second = upload(&store, "haw", &path, None, |_| {}).unwrap();
    assert_eq!(second.before.as_ref(), Some(&first.generation));
    let old = format!("waypost:{{haw}}:{}", first.generation);
    let kept = format!("waypost:{{haw}}:{}", second.generation);
    for suffix in ["", ":head", ":0"] {
        let ttl: i64 = redis.query(&["TTL", &format!("{old}{suffix}")]);
        assert!(ttl > 0 && ttl <= 3600, "{suffix}: {ttl}");
        let ttl: i64 = redis.query(&["TTL", &format!("{kept}{suffix}")]);
        assert_eq!(ttl, -1, "{suffix}");
    }
    // The old one is gone before its reader noticed: it goes on with the new one.
    for suffix in ["", ":head", ":0"] {
        redis.query::<()>(&["DEL", &format!("{old}{suffix}")]);
    }
    assert_eq!(reader.contains_all(&[new]).unwrap(), [true]);
    // Half a generation is an error, and never an answer.
    redis.query::<()>(&["DEL", &format!("{kept}:0")]);
    assert!(reader.contains_all(&[new]).is_err());
    assert!(StoredFilter::open(&store, "nobody", None).is_err());
}

#[test]
fn what_is_damaged_or_cannot_be_looked_up_by_ranges_is_not_uploaded() {
    let Some(redis) = Redis::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let store = redis.store();
    let path = folder.path().join("a.filter");
    write_filter(&path, 1000, Kind::Hashes);
    assert!(upload(&store, "haw", &path, None, |_| {}).is_err());
    write_filter(&path, 1000, Kind::Ribbon);
    assert!(upload(&store, "metrics", &path, None, |_| {}).is_err());
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert!(upload(&store, "haw", &path, None, |_| {}).is_err());
    let keys: Vec<String> = redis.query(&["KEYS", "*"]);
    assert!(keys.is_empty(), "{keys:?}");
    let nobody = Store::new("redis://127.0.0.1:1/").unwrap();
    assert!(
        nobody
            .archives()
            .unwrap_err()
            .to_string()
            .contains("127.0.0.1:1")
    );
    assert!(Store::new("http://127.0.0.1/").is_err());
}

#[test]
fn the_layout_of_orestes_is_imported() {
    let Some(redis) = Redis::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let urls: BTreeSet<String> = (0..500).map(|n| format!("http://in.hr/{n}")).collect();
    let list = folder.path().join("urls.txt");
    fs::write(
        &list,
        urls.iter()
            .map(|url| format!("{url}\n"))
            .collect::<String>(),
    )
    .unwrap();
    let sources = [Source::new(&list)];
    let options = ExportOptions {
        form: Form::Binary,
        ..ExportOptions::default()
    };
    let path = folder.path().join("exported");
    export(filter::Input::new(&sources), &options, &path).unwrap();
    let exported = ClassicFilter::open(&path).unwrap();
    // As Orestes does it: one SETBIT for each position.
    let mut connection = redis.client.get_connection().unwrap();
    for (number, array) in exported.arrays().iter().enumerate() {
        let name = format!("haw:{}", Split::Sixteen.name(number));
        let mut pipeline = redis::pipe();
        pipeline
            .cmd("HSET")
            .arg(&name)
            .arg(&["m", &array.shape.bits.to_string()])
            .arg(&[
                "k",
                "5",
                "p",
                "0.01",
                "hashmethod",
                Method::default().name(),
            ])
            .ignore();
        for at in 0..array.shape.bits {
            if exported.bits(number)[at as usize / 8] >> (at % 8) & 1 == 1 {
                let bits = format!("{name}:bits");
                pipeline.cmd("SETBIT").arg(bits).arg(at).arg(1).ignore();
            }
        }
        pipeline.query::<()>(&mut connection).unwrap();
    }
    let out = folder.path().join("imported");
    let options = RedisImport {
        name: "haw:{}".to_owned(),
        split: Split::Sixteen,
        metadata: Metadata::default(),
    };
    import(&redis.store(), &options, &out).unwrap();
    let imported = ClassicFilter::open(&out).unwrap();
    for number in 0..16 {
        assert_eq!(imported.bits(number), exported.bits(number));
    }
    for url in &urls {
        assert!(imported.contains(url.as_bytes()).unwrap());
    }
    let missing = RedisImport {
        name: "ia:{}".to_owned(),
        ..options
    };
    assert!(import(&redis.store(), &missing, &out).is_err());
}
