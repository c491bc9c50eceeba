//! Profiles equal those of a short script that uses the Python packages surt and tldextract.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use waypost_io::Source;
use waypost_summary::Archive;
use waypost_summary::holdings::Input;
use waypost_summary::profile::{self, Options, Row};
use waypost_surt::Policy;

#[path = "../../../tests/oracles.rs"]
mod oracles;

/// URIs that share hosts, paths and unusual bytes; the same in every run.
fn uris(count: u64) -> Vec<String> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move |most: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % most
    };
    // Suffixes that have been on the list for many years.
    let suffixes = [
        "com",
        "co.uk",
        "org",
        "gov.uk",
        "com.au",
        "de",
        "kawasaki.jp",
        "github.io",
        "ac.jp",
        "nom.br",
    ];
    let labels = ["a", "b", "a-b", "b0", "www", "news", "x1", "xn--mnchen-3ya"];
    let segments = [
        "a",
        "a-b",
        "a0",
        "b.html",
        "page",
        "page1",
        "2010",
        "%C3%A9",
        "A",
        "foo_(bar)",
        "-x",
        "~u",
    ];
    (0..count)
        .map(|_| {
            let mut host = String::new();
            for _ in 0..=next(3) {
                host += labels[next(labels.len() as u64) as usize];
                host.push('.');
            }
            host += suffixes[next(suffixes.len() as u64) as usize];
            let port = ["", "", "", "", ":8080", ":80"][next(6) as usize];
            let mut path = String::from("/");
            for _ in 0..next(6) {
                path += segments[next(segments.len() as u64) as usize];
                path.push('/');
            }
            if next(2) == 0 {
                path.pop();
            }
            let query = ["", "", "?x=1", "?b=2&a=1", "?a", "?&a=&", "?q=%26"][next(7) as usize];
            format!("http://{host}{port}{path}{query}")
        })
        .collect()
}

#[test]
fn all_profiles_equal_those_of_a_dictionary_in_python() {
    let Some(python) = oracles::python() else {
        return;
    };
    let mut uris = uris(20_000);
    // Repeated captures.
    uris.extend_from_within(..3_000);
    let list = uris.join("\n") + "\n";
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peer.py");
    let mut peer = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = peer.stdin.take().unwrap();
    let text = list.clone();
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()).unwrap());
    let output = peer.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("uris.txt");
    fs::write(&path, &list).unwrap();
    let options = Options {
        policies: Policy::ALL.to_vec(),
        archive: Archive::default(),
        date: None,
        folder: Some(folder.path().to_owned()),
        name: "a".into(),
        gzip: false,
    };
    profile::build(&Input::new(vec![Source::new(path)]), &options, None).unwrap();
    let mut lines: Vec<Vec<u8>> = Vec::new();
    let mut key = Vec::new();
    for policy in Policy::ALL {
        let text = fs::read(folder.path().join(format!("a.{policy}.cdxj"))).unwrap();
        for line in text
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty() && line[0] != b'!')
        {
            let row = Row::parse(line, 1, &mut key).unwrap();
            let mut found = format!("{policy}\t").into_bytes();
            found.extend_from_slice(&key);
            let (captures, urirs) = (
                row.frequency.captures.unwrap(),
                row.frequency.urirs.unwrap(),
            );
            found.extend_from_slice(format!("\t{captures}\t{urirs}\n").as_bytes());
            lines.push(found);
        }
    }
    lines.sort();
    let ours = lines.concat();
    let difference = ours
        .split(|&byte| byte == b'\n')
        .zip(output.stdout.split(|&byte| byte == b'\n'))
        .find(|(ours, theirs)| ours != theirs)
        .map(|(ours, theirs)| {
            format!(
                "ours {}, theirs {}",
                String::from_utf8_lossy(ours),
                String::from_utf8_lossy(theirs)
            )
        });
    assert_eq!(difference, None);
    assert_eq!(ours.len(), output.stdout.len());
}
