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

/// The number of the range that a line is the result of.
fn number(line: &str) -> usize {
    let (_, rest) = line.split_once("\"number\":").unwrap();
    rest.split(',').next().unwrap().parse().unwrap()
}

#[test]
fn combined_results_merge_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = inputs(folder.path());
    let output = folder.path().join("out");
    let commands: [&[&str]; 4] = [
        &["map", "build", "-o", text(&output)],
        &["filter", "build", "-o", text(&output)],
        &["stats", "--approximate", "--format", "json"],
        &["index", "check", "--format", "json"],
    ];
    for command in commands {
        let whole = [command, &[text(&inputs[0]), text(&inputs[1])]].concat();
        let whole = run(&whole, b"");
        let expected = fs::read(&output).ok();
        let _ = fs::remove_file(&output);
        let mut lines = partials(&inputs, "20K", command);
        lines.sort_by_key(|line| number(line));
        lines.dedup_by_key(|line| number(line));
        for size in ["1G", "30K"] {
            let combined = (lines.join("\n") + "\n").into_bytes();
            let combined = run(&["worker", "combine", "--size", size], &combined);
            assert_eq!(combined.code, 0, "{}", combined.stderr);
            let mut combined: Vec<String> = combined.stdout.lines().map(str::to_owned).collect();
            // Each file in one line, or in several.
            match size {
                "1G" => assert_eq!(combined.len(), 2, "{command:?}"),
                _ => assert!(combined.len() < lines.len(), "{command:?}"),
            }
            // Results of some ranges are there again.
            combined.insert(1, lines[3].clone());
            combined.push(lines[0].clone());
            let merged = merge(&combined);
            assert_eq!(merged.code, whole.code, "{command:?} {}", merged.stderr);
            assert_eq!(merged.stdout, whole.stdout, "{command:?}");
            assert_eq!(fs::read(&output).ok(), expected, "{command:?}");
            let _ = fs::remove_file(&output);
        }
    }
}

#[test]
fn what_is_not_consecutive_stays_as_it_is_and_gaps_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = inputs(folder.path());
    let output = folder.path().join("map");
    let mut lines = partials(&inputs, "20K", &["map", "build", "-o", text(&output)]);
    lines.sort_by_key(|line| number(line));
    lines.dedup_by_key(|line| number(line));
    let even: Vec<String> = lines.iter().step_by(2).cloned().collect();
    let combined = run(&["worker", "combine"], (even.join("\n") + "\n").as_bytes());
    assert_eq!(combined.stdout, even.join("\n") + "\n");
    // Ranges 1 and 2 are combined, 3 is missing.
    let some = format!("{}\n{}\n", lines[1], lines[2]);
    let combined = run(&["worker", "combine"], some.as_bytes());
    let mut gap = lines.clone();
    gap.splice(1..4, [combined.stdout.trim_end().to_owned()]);
    let merged = merge(&gap);
    assert_eq!(merged.code, 2);
    assert!(merged.stderr.contains("is line 4 of"), "{}", merged.stderr);
    // Ranges 2 and 3 as well, but not 1 or 3 alone.
    let some = format!("{}\n{}\n", lines[2], lines[3]);
    let combined = run(&["worker", "combine"], some.as_bytes());
    gap.insert(2, combined.stdout.trim_end().to_owned());
    let merged = merge(&gap);
    assert_eq!(merged.code, 2);
    assert!(merged.stderr.contains("overlap"), "{}", merged.stderr);
    assert!(!output.exists());
    let wrong = run(&["worker", "combine"], b"no result\n");
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("-: line 1"), "{}", wrong.stderr);
}

#[test]
fn a_bad_line_has_its_number_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = inputs(folder.path());
    let whole = run(&["index", "check", "--strict", text(&inputs[0])], b"");
    let plan = ["worker", "plan", "--size", "7K", text(&inputs[0])];
    let plan = run(
        &[&plan[..], &["--", "index", "check", "--strict"]].concat(),
        b"",
    );
    let worked = run(&["worker"], plan.stdout.as_bytes());
    assert_eq!((whole.code, worked.code), (2, 2));
    let place = whole.stderr.lines().next().unwrap();
    let place = place.split("line ").nth(1).unwrap();
    let place = place.split([' ', ':']).next().unwrap();
    assert!(
        worked.stderr.contains(&format!("line {place}")),
        "{}\n{}",
        whole.stderr,
        worked.stderr
    );
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
