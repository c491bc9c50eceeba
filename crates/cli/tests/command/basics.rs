//! Help, version, completions, man pages, exit codes.

use std::io::Read;
use std::process::{Command, Stdio};

use super::{run, waypost};

/// The help of a command, on a terminal of 80 columns.
pub(crate) fn help(words: &[String]) -> String {
    let mut args: Vec<&str> = words.iter().map(String::as_str).collect();
    args.push("--help");
    let help = waypost(&args).env("COLUMNS", "80").output().unwrap();
    assert!(help.status.success(), "{words:?}");
    // MemGator's goes to stderr.
    let text = [help.stdout, help.stderr].concat();
    String::from_utf8(text).unwrap()
}

/// Every command, with the words that reach it, from the help texts themselves.
pub(crate) fn commands() -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut open = vec![Vec::<String>::new()];
    while let Some(words) = open.pop() {
        if let Some((_, list)) = help(&words).split_once("Commands:\n") {
            for line in list.lines().take_while(|line| !line.is_empty()) {
                // A command stands two columns in; the rest of its description further.
                if let Some(name) = line
                    .strip_prefix("  ")
                    .filter(|rest| !rest.starts_with(' '))
                {
                    let name = name.split_whitespace().next().unwrap();
                    if name != "help" {
                        open.push([words.clone(), vec![name.to_owned()]].concat());
                    }
                }
            }
        }
        found.push(words);
    }
    found.retain(|words| !words.is_empty());
    found
}

#[test]
fn the_version_names_the_list_of_public_suffixes() {
    let version = run(&["--version"], b"").stdout;
    assert!(version.starts_with("waypost "), "{version}");
    assert!(version.contains("psl 2."), "{version}");
}

#[test]
fn misuse_is_an_error_on_stderr() {
    let misuse = run(&["keys", "--nonsense"], b"");
    assert_eq!((misuse.code, misuse.stdout.as_str()), (2, ""));
    assert!(misuse.stderr.starts_with("error:"), "{}", misuse.stderr);
}

#[test]
fn completions_know_the_commands_and_the_values_of_options() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell], b"").stdout;
        for word in ["keys", "commoncrawl-legacy", "bloom", "domain", "tsv"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn man_pages_are_written_for_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("new/man");
    let done = run(&["man", target.to_str().unwrap()], b"");
    assert_eq!(done.code, 0, "{}", done.stderr);
    for words in commands() {
        let page = target.join(format!("waypost-{}.1", words.join("-")));
        assert!(page.exists(), "{}", page.display());
    }
}

#[test]
fn man_pages_that_cannot_be_written_are_an_error_with_a_hint() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let failed = run(&["man", file.path().to_str().unwrap()], b"");
    assert_eq!(failed.code, 2);
    assert!(failed.stderr.contains("\nhint: "), "{}", failed.stderr);
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("waypost"))
        .args(["keys", "--format", "tsv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    let feed = std::thread::spawn(move || {
        for i in 0..100_000 {
            if std::io::Write::write_all(&mut stdin, format!("http://example.com/{i}\n").as_bytes())
                .is_err()
            {
                break;
            }
        }
    });
    let status = child.wait().unwrap();
    feed.join().unwrap();
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
}

#[test]
fn the_script_of_all_tests_runs_on_after_a_failure() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    for tool in ["cargo", "python3"] {
        let tool = folder.path().join(tool);
        std::fs::write(&tool, "#!/bin/sh\nexit 1\n").unwrap();
        std::fs::set_permissions(tool, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", folder.path().display());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../test");
    let output = Command::new(script)
        .args(["lint", "unit"])
        .env("PATH", path)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let (_, failed) = said.split_once("== failed").unwrap();
    for command in [
        "cargo fmt",
        "cargo clippy",
        "cargo doc",
        "scripts/check-documents",
        "cargo test --workspace --doc",
        "cargo test --workspace --no-fail-fast",
    ] {
        assert!(failed.contains(command), "{command}: {said}");
    }
}
