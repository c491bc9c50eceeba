//! The examples in the help texts: pasted into a shell, they run.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::basics::{commands, help};

/// The commands under `Example:` or `Examples:`, as a terminal of 80 columns shows them.
fn examples(help: &str) -> Vec<String> {
    let mut lines = help
        .lines()
        .skip_while(|line| *line != "Example:" && *line != "Examples:")
        .skip(1)
        .take_while(|line| line.starts_with("  "));
    let mut examples = Vec::new();
    while let Some(line) = lines.next() {
        let mut example = line.to_owned();
        while example.ends_with('\\') {
            example += "\n";
            example += lines.next().expect("a line that goes on");
        }
        examples.push(example);
    }
    examples
}

#[test]
fn every_example_of_every_help_runs() {
    let folder = tempfile::tempdir().unwrap();
    let binary = Path::new(assert_cmd::cargo::cargo_bin!("waypost"));
    let path = format!(
        "{}:{}",
        binary.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let prepare = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/prepare");
    let prepared = folder.path().join("prepared");
    let made = Command::new(prepare)
        .arg(&prepared)
        .env("PATH", &path)
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let archive = Archive::start(&prepared, binary);
    let list = prepared.join("archives.json");
    let text = fs::read_to_string(&list).unwrap();
    let named = text.replace("127.0.0.1:8080", &archive.address);
    assert_ne!(text, named);
    fs::write(list, named).unwrap();
    let mut all = 0;
    for words in commands() {
        let help = help(&words);
        if help.contains("Commands:\n") && !help.contains("Example") {
            continue;
        }
        let examples = examples(&help);
        assert!(!examples.is_empty(), "{words:?} shows no example:\n{help}");
        // The examples of one help build on each other, and on nothing else but the prepared files.
        let here = folder.path().join(words.join("-"));
        let copied = Command::new("cp")
            .arg("-r")
            .arg(&prepared)
            .arg(&here)
            .status()
            .unwrap();
        assert!(copied.success());
        for example in examples {
            assert!(
                example.lines().all(|line| line.chars().count() <= 80),
                "{example}"
            );
            // A server is asked to stop as soon as it listens.
            let name = words.last().map_or("", |word| &word[..]);
            let serves = name == "serve" || name == "demo" && !example.contains("--once");
            let example = match serves {
                false => example,
                true => format!(
                    "rm -f said; {example} --listen 127.0.0.1:0 2>said & server=$!
                     for _ in $(seq 200); do grep -qs ^listening said && break; sleep 0.1; done
                     kill $server; wait $server; cat said >&2; grep -q ^stopped said"
                ),
            };
            let ran = Command::new("bash")
                .args(["-e", "-o", "pipefail", "-c", &example])
                .current_dir(&here)
                .env("PATH", &path)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&ran.stderr);
            assert!(
                ran.status.success(),
                "{words:?}:\n{example}\n{:?} {said}",
                ran.status
            );
            all += 1;
        }
    }
    assert!(all > 40, "{all} examples were found");
}

/// The archive that examples/archives.json names, on a free port.
struct Archive {
    process: Child,
    address: String,
}

impl Archive {
    fn start(folder: &Path, binary: &Path) -> Archive {
        let mut process = Command::new(binary)
            .args(["index", "serve", "sorted.cdxj", "--listen", "127.0.0.1:0"])
            .args(["--replay", "http://replay.example/{timestamp}/{url}"])
            .current_dir(folder)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stderr.take().unwrap()).lines();
        let address = said.map(Result::unwrap).find_map(|line| {
            let address = line.strip_prefix("listening on http://")?;
            Some(address.trim_end_matches('/').to_owned())
        });
        Archive {
            process,
            address: address.expect("the archive listens"),
        }
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
