//! Inputs of every kind: pipes, marked texts, damaged and mistaken files; what a run leaves behind.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{Run, run};

fn waypost() -> &'static str {
    env!("CARGO_BIN_EXE_waypost")
}

/// Runs a line of Bash in `folder`; `$W` is the command.
fn bash(folder: &Path, line: &str) -> Run {
    let output = Command::new("bash")
        .args(["-c", line])
        .env("W", waypost())
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Run {
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code().unwrap_or(-1),
    }
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(data).unwrap();
    out.finish().unwrap()
}

/// A capture of `com,example)/…`.
fn capture(key: &str) -> String {
    let url = key.replace("com,example)", "http://example.com");
    format!("{key} 20200101000000 {{\"url\": \"{url}\", \"status\": \"200\"}}\n")
}

fn captures(count: usize) -> String {
    (0..count)
        .map(|n| capture(&format!("com,example)/{n:06}")))
        .collect()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = captures(5000);
    fs::write(folder.path().join("a.cdxj"), &text).unwrap();
    fs::write(folder.path().join("a.cdxj.gz"), gzip(text.as_bytes())).unwrap();
    folder
}

/// What is in a folder.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_pipe_gives_what_the_file_gives() {
    let folder = folder();
    let made = bash(
        folder.path(),
        "$W -q map build a.cdxj -o map && $W -q filter build a.cdxj -o filter \
         && $W -q profile a.cdxj --policy H3P1 -o profiles > report && ls profiles",
    );
    assert_eq!(made.code, 0, "{}", made.stderr);
    let profile = format!("profiles/{}", made.stdout.trim());
    for (through_pipe, of_file) in [
        ("$W -q map build <(cat a.cdxj) -o x && cmp x map", "true"),
        ("$W -q map build <(cat a.cdxj.gz) -o x && cmp x map", "true"),
        (
            "cat a.cdxj | $W -q map build /dev/stdin -o x && cmp x map",
            "true",
        ),
        ("$W -q map build - -o x < a.cdxj.gz && cmp x map", "true"),
        (
            "mkfifo f; cat a.cdxj > f & $W -q map build f -o x && cmp x map",
            "true",
        ),
        (
            "$W -q filter build <(cat a.cdxj.gz) -o x && $W filter lookup x com,example\\)/004999",
            "$W filter lookup filter com,example\\)/004999",
        ),
        (
            "$W map lookup <(cat map) com,example\\)/004999 com,other\\)/",
            "$W map lookup map com,example\\)/004999 com,other\\)/",
        ),
        (
            "$W index lookup <(cat a.cdxj) http://example.com/004999",
            "$W index lookup a.cdxj http://example.com/004999",
        ),
        (
            "$W map check map --holdings <(cat a.cdxj)",
            "$W map check map --holdings a.cdxj",
        ),
        (
            "$W map lookup map --format tsv --batch <(printf 'http://example.com/000001\\n')",
            "$W map lookup map --format tsv http://example.com/000001",
        ),
        ("$W index sort <(cat a.cdxj.gz)", "cat a.cdxj"),
    ] {
        let (pipe, file) = (
            bash(folder.path(), through_pipe),
            bash(folder.path(), of_file),
        );
        assert_eq!(pipe.code, file.code, "{through_pipe}: {}", pipe.stderr);
        assert_eq!(pipe.stdout, file.stdout, "{through_pipe}");
    }
    let ask = |profile: &str| {
        bash(
            folder.path(),
            &format!("$W profile lookup {profile} http://example.com/004999"),
        )
    };
    let (pipe, file) = (ask(&format!("<(cat {profile})")), ask(&profile));
    assert_eq!((pipe.code, file.code), (0, 0), "{}", pipe.stderr);
    assert_eq!(pipe.stdout, file.stdout);
}

#[test]
fn the_kind_of_an_input_is_told_by_its_first_readable_line_wherever_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.cdxj");
    let held = "com,example)/held";
    let long = format!(
        "com,example)/ 20200101000000 {{\"url\": \"http://example.com/{}\"}}\n",
        "x".repeat(80_000)
    );
    for start in [
        long,
        "\n".repeat(70_000),
        "bad line\n".repeat(10_000),
        "\u{feff}".to_owned(),
    ] {
        fs::write(&path, format!("{start}{}", capture(held))).unwrap();
        for build in [
            "$W -q map build a.cdxj -o m && $W map lookup m com,example\\)/held",
            "$W -q filter build a.cdxj -o f && $W filter lookup f com,example\\)/held",
            "$W -q map build <(cat a.cdxj) -o m && $W map lookup m com,example\\)/held",
        ] {
            let run = bash(folder.path(), build);
            assert_eq!(run.code, 0, "{build}: {} {}", run.stdout, run.stderr);
        }
    }
    fs::write(&path, b"\xff\xfec\0o\0m\0").unwrap();
    let run = bash(folder.path(), "$W map build a.cdxj -o m");
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("UTF-16"), "{}", run.stderr);
}

#[test]
fn damage_in_the_first_bytes_is_reported_by_every_command() {
    let folder = folder();
    let mut bytes = gzip(captures(10).as_bytes());
    for byte in &mut bytes[12..20] {
        *byte ^= 0x5a;
    }
    fs::write(folder.path().join("bad.cdxj.gz"), bytes).unwrap();
    let made = bash(folder.path(), "$W -q filter build a.cdxj --kind bloom -o f");
    assert_eq!(made.code, 0, "{}", made.stderr);
    for line in [
        "$W filter build --strict bad.cdxj.gz -o x",
        "$W filter build --strict a.cdxj bad.cdxj.gz -o x",
        "$W map build --strict a.cdxj bad.cdxj.gz -o x",
    ] {
        let run = bash(folder.path(), line);
        assert_eq!(run.code, 2, "{line}: {}", run.stderr);
        assert!(run.stderr.contains("bad.cdxj.gz"), "{line}: {}", run.stderr);
    }
    for line in [
        "$W filter build a.cdxj bad.cdxj.gz -o x",
        "$W map build a.cdxj bad.cdxj.gz -o x",
        "$W filter add f bad.cdxj.gz -o x",
        "$W filter check f --holdings bad.cdxj.gz",
    ] {
        let run = bash(folder.path(), line);
        assert!(
            run.stderr.contains("bad.cdxj.gz"),
            "{line} says nothing of the damage: {}",
            run.stderr
        );
    }
}

#[test]
fn files_of_other_kinds_are_refused_with_what_to_do() {
    let folder = folder();
    fs::write(
        folder.path().join("w"),
        "WARC/1.0\r\nWARC-Type: response\r\n",
    )
    .unwrap();
    fs::write(folder.path().join("z"), b"PK\x03\x04rest").unwrap();
    fs::write(folder.path().join("h"), "<!doctype html>\n<a href=x>\n").unwrap();
    fs::write(folder.path().join("p"), b"\x89PNG\r\n\x1a\n\0\0").unwrap();
    fs::write(folder.path().join("t"), "it was\na dark night\n").unwrap();
    for name in ["w", "z", "h", "p", "t"] {
        for build in ["map build", "filter build"] {
            let run = bash(folder.path(), &format!("$W {build} {name} -o x"));
            assert_eq!(run.code, 2, "{build} {name}: {}", run.stderr);
            assert!(
                run.stderr.contains("hint: "),
                "{build} {name}: {}",
                run.stderr
            );
            assert!(!folder.path().join("x").exists());
        }
    }
    for command in ["map show", "map lookup", "map compact --keys 10"] {
        let rest = match command {
            "map lookup" => "http://example.com/",
            "map compact --keys 10" => "-o x",
            _ => "",
        };
        let run = bash(folder.path(), &format!("$W {command} a.cdxj {rest}"));
        assert_eq!(run.code, 2, "{command}: {}", run.stderr);
        assert!(run.stderr.contains("an index, not a map"), "{}", run.stderr);
    }
    let run = bash(
        folder.path(),
        "$W -q map build a.cdxj -o map && $W -q index zipnum a.cdxj -o zip \
         && $W -q map build zip/cluster.idx -o map2 && cmp map map2",
    );
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
}

#[test]
fn a_byte_order_mark_hides_nothing_in_a_summary() {
    let folder = folder();
    let made = bash(
        folder.path(),
        "printf 'http://first.example/\\n' > list; $W -q profile list --policy HxPx --id p -o . \
         && $W -q map build list -o map \
         && for f in map p.HxPx.cdxj; do (printf '\\xef\\xbb\\xbf'; cat $f) > marked.$f; done",
    );
    assert_eq!(made.code, 0, "{}", made.stderr);
    // A map of the published tool has no headers, so its first line is a row.
    fs::write(
        folder.path().join("marked.rows"),
        b"\xef\xbb\xbfexample,first)/ 1/1\n",
    )
    .unwrap();
    for lookup in [
        "map lookup marked.map",
        "map lookup marked.rows",
        "profile lookup marked.p.HxPx.cdxj",
        "profile lookup <(cat marked.p.HxPx.cdxj)",
    ] {
        let found = bash(folder.path(), &format!("$W {lookup} http://first.example/"));
        assert_eq!(found.code, 0, "{lookup}: {}{}", found.stdout, found.stderr);
    }
}

#[test]
fn a_summary_of_endless_headers_is_refused() {
    let folder = folder();
    let headers: String = (0..20_000)
        .map(|n| format!("!h{n} {{\"a\": {n}}}\n"))
        .collect();
    fs::write(folder.path().join("map"), headers + "com,a)/ 1/1\n").unwrap();
    let run = bash(folder.path(), "$W map lookup map http://a.com/");
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.contains("more than 10,000 header lines"),
        "{}",
        run.stderr
    );
}

#[test]
fn the_end_of_a_gzip_member_ends_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let lines = captures(40);
    let members: Vec<u8> = lines
        .lines()
        .collect::<Vec<_>>()
        .chunks(7)
        .flat_map(|lines| gzip(lines.join("\n").as_bytes()))
        .collect();
    fs::write(folder.path().join("a.cdxj.gz"), members).unwrap();
    fs::write(folder.path().join("a.cdxj"), &lines).unwrap();
    let run = bash(
        folder.path(),
        "$W -q index sort a.cdxj.gz | cmp - a.cdxj && $W -q map build a.cdxj.gz -o x \
         && $W -q map build a.cdxj -o y && cmp x y && $W -q map build <(cat a.cdxj.gz) -o z && cmp z y \
         && $W index check a.cdxj.gz",
    );
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
}

#[test]
fn an_output_that_is_also_an_input_is_refused_unless_in_place_makes_sense() {
    let folder = folder();
    let before = fs::read(folder.path().join("a.cdxj")).unwrap();
    let line = "mkdir d; ln a.cdxj hard; ln -s a.cdxj soft; ln a.cdxj d/b.cdxj; \
                for o in a.cdxj ./a.cdxj hard soft; do for c in 'filter build' 'map build' 'index merge'; do \
                $W $c a.cdxj -o $o; echo $?; done; done; $W filter build d -o a.cdxj; echo $?";
    let run = bash(folder.path(), line);
    assert_eq!(run.stdout, "2\n".repeat(13), "{}", run.stderr);
    assert!(run.stderr.contains("an input and"), "{}", run.stderr);
    assert_eq!(fs::read(folder.path().join("a.cdxj")).unwrap(), before);
    let run = bash(folder.path(), "$W -q index sort a.cdxj -o a.cdxj");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(fs::read(folder.path().join("a.cdxj")).unwrap(), before);
}

/// A run of a command that waits for more input and has created something in `folder`.
fn waiting(command: &[&str], folder: &Path) -> Child {
    let before = names(folder);
    let mut child = Command::new(waypost())
        .arg("-q")
        .args(command)
        .args(["-", "-o"])
        .arg(folder.join("out"))
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Never closed by us, so that the run cannot end by itself.
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(captures(10).as_bytes()).unwrap();
    std::mem::forget(stdin);
    let since = Instant::now();
    while names(folder) == before {
        assert!(since.elapsed() < Duration::from_secs(60), "no sign of life");
        thread::sleep(Duration::from_millis(5));
    }
    child
}

pub(crate) fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .args([name, &child.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}

#[test]
fn an_interrupted_run_leaves_nothing_and_says_by_its_code_why_it_ended() {
    for command in [&["index", "zipnum"][..], &["profile"]] {
        for (name, code) in [("-INT", 130), ("-TERM", 143)] {
            let folder = tempfile::tempdir().unwrap();
            let mut child = waiting(command, folder.path());
            signal(&child, name);
            assert_eq!(child.wait().unwrap().code(), Some(code), "{name}");
            let left = names(folder.path());
            assert_eq!(left, Vec::<String>::new(), "{command:?} {name}");
        }
    }
}

#[test]
fn what_a_killed_run_leaves_is_removed_by_the_next_but_not_what_a_living_one_uses() {
    let folder = tempfile::tempdir().unwrap();
    let input: PathBuf = folder.path().join("a.cdxj");
    fs::write(&input, captures(10)).unwrap();
    let mut killed = waiting(&["index", "zipnum"], folder.path());
    signal(&killed, "-KILL");
    killed.wait().unwrap();
    assert_eq!(names(folder.path()).len(), 2, "something is left");
    let work = folder.path().join("work");
    fs::create_dir(&work).unwrap();
    let mut living = waiting(&["index", "zipnum"], &work);
    let used = names(&work);
    for out in [folder.path().join("out"), work.join("out")] {
        let path = out.to_str().unwrap();
        let run = run(
            &["-q", "index", "zipnum", input.to_str().unwrap(), "-o", path],
            b"",
        );
        assert_eq!(run.code, 0, "{}", run.stderr);
    }
    assert_eq!(names(folder.path()), ["a.cdxj", "out", "work"]);
    assert!(used.iter().all(|name| names(&work).contains(name)));
    signal(&living, "-TERM");
    assert_eq!(living.wait().unwrap().code(), Some(143));
    assert_eq!(names(&work), ["out"]);
}

#[test]
fn a_file_in_a_folder_that_is_read_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir(at("warcs")).unwrap();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/crawl.warc.gz");
    fs::copy(example, at("warcs/crawl.warc.gz")).unwrap();
    let made = run(
        &["index", "warc", &at("warcs"), "-o", &at("warcs/crawl.cdxj")],
        b"",
    );
    assert_eq!(made.code, 0, "{}", made.stderr);
    let made = run(
        &["index", "zipnum", &at("warcs/crawl.cdxj"), "-o", &at("z")],
        b"",
    );
    assert_eq!(made.code, 0, "{}", made.stderr);
    let uri = "http://www.example.com/";
    for arguments in [
        vec![
            "index",
            "warc",
            &at("warcs"),
            "-o",
            &at("warcs/crawl.warc.gz"),
        ],
        vec![
            "index",
            "fetch",
            &at("warcs/crawl.cdxj"),
            uri,
            "-o",
            &at("warcs/crawl.warc.gz"),
        ],
        vec![
            "index",
            "convert",
            &at("z/cluster.idx"),
            "--to",
            "cdxj",
            "-o",
            &at("z/cdx-00000.gz"),
        ],
        vec![
            "index",
            "lookup",
            &at("z"),
            uri,
            "--misses",
            &at("z/cluster.idx"),
        ],
        vec![
            "index",
            "rekey",
            &at("z"),
            "--dialect",
            "ia",
            "-o",
            &at("z/cluster.idx"),
        ],
    ] {
        let refused = run(&arguments, b"");
        assert_eq!(refused.code, 2, "{arguments:?}: {}", refused.stderr);
        assert!(
            refused.stderr.contains("hint: write to another file"),
            "{}",
            refused.stderr
        );
    }
    assert_eq!(
        fs::read(at("warcs/crawl.warc.gz")).unwrap(),
        fs::read(example).unwrap()
    );
    assert_eq!(run(&["index", "lookup", &at("z"), uri], b"").code, 0);
}
