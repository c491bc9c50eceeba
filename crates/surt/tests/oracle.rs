//! The packages whose keys the dialects equal, run over generated URIs: Python's `surt`, and `warcio`
//! from npm. Runs where `WAYPOST_PYTHON` names a Python that has the one and `WAYPOST_NODE` a folder
//! that has the other.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test may panic and say that it is skipped"
)]

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::process::{Command, Stdio};

use waypost_surt::{Canonicalizer, Dialect};

mod generated;

#[path = "../../../tests/oracles.rs"]
mod oracles;

/// Reads URIs and writes their SURTs, both in hexadecimal because they may be any bytes; `!` for
/// an exception.
const PYTHON: &str = r"
import sys, surt
for line in sys.stdin.buffer:
    try:
        print(surt.surt(bytes.fromhex(line.decode())).hex())
    except Exception:
        print('!')
";

/// The same in JavaScript. Bytes that are not UTF-8 become U+FFFD, as they do in its strings.
///
/// Node's URL parser departs from the standard: it does not resolve dots behind a segment that starts
/// with one, and checks the direction of letters by old tables. Where the reference implementation of
/// the standard answers otherwise, both answers are written, with a space between them. A `^` in a
/// path is escaped by newer editions of the standard only. Nothing is written for letters that
/// Node's Unicode does not know.
const NODE: &str = r"
import { getSurt } from 'warcio/utils';
import { URL as Reference } from 'whatwg-url';
import { createInterface } from 'node:readline';
const Native = globalThis.URL;
const surt = (parser, url) => {
    globalThis.URL = parser;
    return getSurt(url);
};
const hex = (text) => Buffer.from(text, 'utf8').toString('hex');
const out = [];
for await (const line of createInterface({ input: process.stdin })) {
    const url = Buffer.from(line, 'hex').toString('utf8');
    const native = surt(Native, url);
    const reference = surt(Reference, url).replaceAll('%5E', '^');
    const known = !/\p{Cn}/u.test(url);
    const answers = native === reference ? [native] : [native, reference];
    out.push((known ? answers.map(hex).join(' ') : '') + '\n');
}
process.stdout.write(out.join(''));
";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The program that answers for a dialect, or `None` where it is not installed.
fn peer(dialect: Dialect) -> Option<Command> {
    match dialect {
        Dialect::Ia => {
            let mut command = Command::new(oracles::python()?);
            command.args(["-c", PYTHON]);
            Some(command)
        }
        Dialect::Webrecorder => {
            let mut command = Command::new("node");
            command.current_dir(oracles::node_packages()?).args([
                "--input-type=module",
                "-e",
                NODE,
            ]);
            Some(command)
        }
        other => panic!("no peer for {other}"),
    }
}

/// What the package answers, in hexadecimal, or `None` where there is no peer to ask.
fn answers(dialect: Dialect, uris: &[Vec<u8>]) -> Option<Vec<String>> {
    let mut peer = peer(dialect)?
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the peer starts");
    let mut stdin = BufWriter::new(peer.stdin.take().unwrap());
    let answers = std::thread::scope(|scope| {
        scope.spawn(move || {
            for uri in uris {
                writeln!(stdin, "{}", hex(uri)).unwrap();
            }
        });
        BufReader::new(peer.stdout.take().unwrap())
            .lines()
            .collect::<Result<Vec<String>, _>>()
            .unwrap()
    });
    assert!(peer.wait().unwrap().success(), "the peer failed");
    assert_eq!(answers.len(), uris.len(), "the peer answers every line");
    Some(answers)
}

fn assert_equal_to_peer(dialect: Dialect, uris: &[Vec<u8>]) {
    let Some(answers) = answers(dialect, uris) else {
        return;
    };
    let mut canonicalizer = Canonicalizer::new(dialect);
    let mut surt = Vec::new();
    let mut differences = Vec::new();
    for (uri, expected) in uris.iter().zip(&answers) {
        surt.clear();
        let got = match canonicalizer.canonicalize(uri, &mut surt) {
            Ok(()) => {
                assert!(
                    canonicalizer.matches(uri, &surt),
                    "{uri:?} is its own SURT's"
                );
                hex(&surt)
            }
            // The packages give the empty string a key; we call it an error.
            Err(_) if uri.is_empty() => continue,
            Err(_) => "!".to_owned(),
        };
        if !expected.is_empty() && expected.split(' ').all(|expected| got != expected) {
            differences.push(format!(
                "{:?}: peer {:?}, ours {:?}",
                String::from_utf8_lossy(uri),
                expected.split(' ').map(unhex).collect::<Vec<_>>(),
                String::from_utf8_lossy(&surt)
            ));
        }
    }
    assert!(
        differences.is_empty(),
        "{} of {} differ:\n{}",
        differences.len(),
        uris.len(),
        differences[..differences.len().min(20)].join("\n")
    );
}

fn unhex(text: &str) -> String {
    let bytes: Vec<u8> = text
        .as_bytes()
        .chunks(2)
        .filter_map(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn odd_uris() -> Vec<Vec<u8>> {
    let mut generator = generated::Uris::new(20_261_115);
    (0..220_000).map(|_| generator.next_uri()).collect()
}

/// A host with each letter of Unicode in it.
fn hosts_with_any_letter() -> Vec<Vec<u8>> {
    (0x80..0x3_0000)
        .chain(0xE_0000..0xE_0200)
        .filter_map(char::from_u32)
        .map(|c| format!("http://{c}a{c}.com/").into_bytes())
        .collect()
}

#[test]
fn surts_of_200_000_odd_uris_equal_those_of_the_python_package() {
    assert_equal_to_peer(Dialect::Ia, &odd_uris());
}

#[test]
fn a_host_with_any_letter_of_unicode_equals_that_of_the_python_package() {
    assert_equal_to_peer(Dialect::Ia, &hosts_with_any_letter());
}

#[test]
fn surts_of_200_000_odd_uris_equal_those_of_the_npm_package() {
    assert_equal_to_peer(Dialect::Webrecorder, &odd_uris());
}

#[test]
fn a_host_with_any_letter_of_unicode_equals_that_of_the_npm_package() {
    assert_equal_to_peer(Dialect::Webrecorder, &hosts_with_any_letter());
}
