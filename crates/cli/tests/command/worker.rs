//! Commands whose input is read by many workers: the same bytes as by one machine.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::{Run, example, run};

/// Two indexes and a list: plain, and gzipped in small members.
fn inputs(folder: &Path) -> Vec<PathBuf> {
    let text = fs::read(example("small.cdxj")).unwrap();
    let half = text.len() / 2
        + text[text.len() / 2..]
            .iter()
            .position(|&b| b == b'\n')
            .unwrap()
        + 1;
    let plain = folder.join("b.cdxj");
    // In the wrong order, with a bad line and without a newline at the end.
    fs::write(
        &plain,
        [&text[half..], b"no capture at all\n", &text[..half - 1]].concat(),
    )
    .unwrap();
    let packed = folder.join("a.cdxj.gz");
    let mut members = Vec::new();
    for chunk in text.chunks(10_000) {
        let mut member = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        member.write_all(chunk).unwrap();
        members.extend(member.finish().unwrap());
    }
    fs::write(&packed, members).unwrap();
    vec![plain, packed]
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Every file of a folder, or one file.
fn contents(path: &Path) -> Vec<(String, Vec<u8>)> {
    if path.is_file() {
        return vec![(String::new(), fs::read(path).unwrap())];
    }
    let mut files: Vec<_> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// The partials of a plan: workers get its lines in turn, and one line twice.
fn partials(inputs: &[PathBuf], size: &str, command: &[&str]) -> Vec<String> {
    let mut plan = vec!["worker", "plan", "--size", size];
    plan.extend(inputs.iter().map(|path| text(path)));
    plan.push("--");
    plan.extend(command);
    let plan = run(&plan, b"");
    assert_eq!(plan.code, 0, "{}", plan.stderr);
    let ranges: Vec<&str> = plan.stdout.lines().collect();
    assert!(ranges.len() > 5, "{}", plan.stdout);
    let mut lines = Vec::new();
    for worker in (0..3).rev() {
        let mut mine: Vec<&str> = ranges.iter().skip(worker).step_by(3).copied().collect();
        mine.push(ranges[1]);
        let worked = run(&["worker"], (mine.join("\n") + "\n").as_bytes());
        assert_eq!(worked.code, 0, "{}", worked.stderr);
        lines.extend(worked.stdout.lines().map(str::to_owned));
    }
    lines
}

fn merge(lines: &[String]) -> Run {
    run(
        &["worker", "merge", "-"],
        (lines.join("\n") + "\n").as_bytes(),
    )
}

#[test]
fn results_have_the_same_bytes_as_without_workers() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = inputs(folder.path());
    let commands: [&[&str]; 7] = [
        &["profile", "--by", "month", "--sources", "-o"],
        &[
            "profile",
            "--preset",
            "pages",
            "--gzip",
            "--policy",
            "H3P0,DDom,URIR",
            "-o",
        ],
        &["map", "build", "--format", "json", "-o"],
        &[
            "map",
            "build",
            "--by",
            "year",
            "--status",
            "200",
            "--dialect",
            "webrecorder",
            "-o",
        ],
        &["filter", "build", "--policy", "H3P1", "-o"],
        &[
            "filter",
            "build",
            "--kind",
            "bloom",
            "--mime",
            "text/html",
            "-o",
        ],
        &["index", "check", "--keys", "--format", "json"],
    ];
    for (number, command) in commands.iter().enumerate() {
        let output = folder.path().join(number.to_string());
        let mut command = command.to_vec();
        let writes = command.last() == Some(&"-o");
        if writes {
            command.push(text(&output));
        }
        let mut whole = command.clone();
        whole.extend(inputs.iter().map(|path| text(path)));
        let whole = run(&whole, b"");
        let expected = writes.then(|| contents(&output));
        if output.is_dir() {
            fs::remove_dir_all(&output).unwrap();
        } else if writes {
            fs::remove_file(&output).unwrap();
        }
        let merged = merge(&partials(&inputs, "7K", &command));
        assert_eq!(merged.code, whole.code, "{command:?} {}", merged.stderr);
        assert_eq!(writes.then(|| contents(&output)), expected, "{command:?}");
        // What a profile prints contains how long it took.
        if command[0] != "profile" {
            assert_eq!(merged.stdout, whole.stdout, "{command:?}");
        }
        assert_eq!(merged.stderr, whole.stderr, "{command:?}");
    }
}

#[test]
fn lists_of_uris_are_divided_too() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("map");
    let list = [example("lookups.txt")];
    let command = ["map", "build", "-o", text(&output)];
    assert_eq!(
        run(&[&command[..], &[text(&list[0])]].concat(), b"").code,
        0
    );
    let expected = fs::read(&output).unwrap();
    fs::remove_file(&output).unwrap();
    let merged = merge(&partials(&list, "1K", &command));
    assert_eq!(merged.code, 0, "{}", merged.stderr);
    assert_eq!(fs::read(&output).unwrap(), expected);
}

#[test]
fn segments_are_tabulated_in_ranges() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("crawl.segments");
    let index = [example("segments.cdxj")];
    let command = [
        "segments",
        "tabulate",
        "--by",
        "mime,tld",
        "-o",
        text(&output),
    ];
    let whole = run(&[&command[..], &[text(&index[0])]].concat(), b"");
    assert_eq!(whole.code, 0, "{}", whole.stderr);
    let expected = fs::read(&output).unwrap();
    fs::remove_file(&output).unwrap();
    let size = (fs::metadata(&index[0]).unwrap().len() / 9).to_string();
    let merged = merge(&partials(&index, &size, &command));
    assert_eq!(
        (merged.code, merged.stdout),
        (0, whole.stdout),
        "{}",
        merged.stderr
    );
    assert_eq!(fs::read(&output).unwrap(), expected);
}

#[test]
fn a_missing_or_incomplete_partial_is_an_error_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("map");
    let inputs = inputs(folder.path());
    let command = ["map", "build", "-o", text(&output)];
    let mut lines = partials(&inputs, "20K", &command);
    let first = |line: &String| line.contains("\"number\":0,");
    let whole = lines.iter().find(|line| first(line)).unwrap().clone();
    lines.retain(|line| !first(line));
    let merged = merge(&lines);
    assert_eq!(merged.code, 2);
    assert!(
        merged.stderr.contains("1 range are missing")
            || merged.stderr.contains("1 range is missing"),
        "{}",
        merged.stderr
    );
    assert!(merged.stderr.contains("hint: "), "{}", merged.stderr);
    // A worker was killed while it wrote the last line.
    let killed = lines.join("\n") + "\n" + &whole[..whole.len() / 2];
    let merged = run(&["worker", "merge", "-"], killed.as_bytes());
    assert_eq!(merged.code, 2, "{}", merged.stderr);
    // A damaged partial.
    let (head, tail) = whole.split_at(whole.len() - 40);
    lines.push(format!("{head}!{}", &tail[1..]));
    let merged = merge(&lines);
    assert_eq!(merged.code, 2, "{}", merged.stderr);
    assert!(merged.stderr.contains("b.cdxj"), "{}", merged.stderr);
    assert!(!output.exists());
}

#[test]
fn what_cannot_be_divided_is_refused() {
    let cases: [(&[&str], &str); 5] = [
        (
            &["small.cdxj", "--", "index", "sort"],
            "`waypost index sort` cannot be divided",
        ),
        (
            &["crawl.wacz", "--", "map", "build", "-o", "x"],
            "cannot be divided",
        ),
        (&["-", "--", "map", "build", "-o", "x"], "cannot be divided"),
        (&["small.cdxj", "--", "map", "build"], "--output"),
        (
            &["small.cdxj", "--", "profile", "-o", "x", "--statu", "200"],
            "--statu",
        ),
    ];
    for (words, message) in cases {
        let path = example(words[0]);
        let input = if words[0] == "-" { "-" } else { text(&path) };
        let mut args = vec!["worker", "plan", input];
        args.extend(&words[1..]);
        let plan = run(&args, b"com,example)/ 2004 {}\n");
        assert_eq!((plan.code, plan.stdout.as_str()), (2, ""), "{words:?}");
        assert!(plan.stderr.contains(message), "{words:?} {}", plan.stderr);
    }
    let worked = run(&["worker"], b"{\"number\": 1}\n");
    assert_eq!(worked.code, 2);
    assert!(worked.stderr.contains("-: line 1"), "{}", worked.stderr);
}
