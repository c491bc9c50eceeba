//! Python's `surt` package itself against ours, over generated URIs.
//! Runs where `WAYPOST_PYTHON` names a Python that has the package.
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
const PEER: &str = r"
import sys, surt
for line in sys.stdin.buffer:
    try:
        print(surt.surt(bytes.fromhex(line.decode())).hex())
    except Exception:
        print('!')
";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What the package answers, in hexadecimal, or `None` where there is no Python to ask.
fn python_surt(uris: &[Vec<u8>]) -> Option<Vec<String>> {
    let python = oracles::python()?;
    let mut peer = Command::new(python)
        .args(["-c", PEER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the Python of WAYPOST_PYTHON starts");
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

fn assert_equal_to_python(uris: &[Vec<u8>]) {
    let Some(answers) = python_surt(uris) else {
        return;
    };
    let mut canonicalizer = Canonicalizer::new(Dialect::Ia);
    let mut surt = Vec::new();
    let mut differences = Vec::new();
    for (uri, expected) in uris.iter().zip(&answers) {
        surt.clear();
        let got = match canonicalizer.canonicalize(uri, &mut surt) {
            Ok(()) => hex(&surt),
            // The package gives the empty string the key `-`; we call it an error.
            Err(_) if uri.is_empty() => hex(b"-"),
            Err(_) => "!".to_owned(),
        };
        if got != *expected {
            differences.push(format!(
                "{:?}: python {expected}, ours {got} {:?}",
                String::from_utf8_lossy(uri),
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

#[test]
fn surts_of_200_000_odd_uris_equal_those_of_the_python_package() {
    let mut generator = generated::Uris::new(20_261_115);
    let uris: Vec<Vec<u8>> = (0..220_000).map(|_| generator.next_uri()).collect();
    assert_equal_to_python(&uris);
}

#[test]
fn a_host_with_any_letter_of_unicode_equals_that_of_the_python_package() {
    let letters = (0x80..0x3_0000).chain(0xE_0000..0xE_0200);
    let uris: Vec<Vec<u8>> = letters
        .filter_map(char::from_u32)
        .map(|c| format!("http://{c}a{c}.com/").into_bytes())
        .collect();
    assert_equal_to_python(&uris);
}
