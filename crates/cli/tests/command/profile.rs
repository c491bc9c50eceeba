//! `waypost profile` and `waypost evaluate` as people use them.

use std::fs;
use std::path::Path;

use super::run;

const INDEX: &str = "\
com,example)/ 20200101000000 http://example.com/ text/html 200 AAAA - - 5 9 x.warc.gz
com,example)/a 20200101000000 http://example.com/a text/html 200 AAAA - - 5 9 x.warc.gz
com,example)/a 20210101000000 http://example.com/a text/html 404 AAAA - - 5 9 x.warc.gz
com,example)/robots.txt 20210101000000 http://example.com/robots.txt text/html 200 AAAA - - 5 9 x.warc.gz
org,example)/a/b 20220101000000 http://example.org/a/b image/png 200 AAAA - - 5 9 x.warc.gz
";

fn folder_with(index: &str) -> (tempfile::TempDir, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.cdx");
    fs::write(&path, index).unwrap();
    let out = folder.path().join("out");
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (path, out) = (text(&path), text(&out));
    (folder, path, out)
}

#[test]
fn a_profile_is_made_looked_up_and_judged() {
    let (folder, index, out) = folder_with(INDEX);
    let made = run(&["profile", &index, "-o", &out, "--id", "x"], b"");
    assert_eq!(made.code, 0, "{}", made.stderr);
    assert!(made.stdout.contains("H1P0"), "{}", made.stdout);
    assert_eq!(fs::read_dir(&out).unwrap().count(), 23);
    let profile = format!("{out}/x.HxP1.cdxj");
    let text = fs::read_to_string(&profile).unwrap();
    assert!(
        text.contains("com,example)/a {\"frequency\": 2, \"spread\": 1, \"urirs\": 1}\n"),
        "{text}"
    );

    let batch =
        b"http://example.com/a/z\nhttp://x.y:99999/\nexample.net\n\nhttp://WWW.example.org/a\n";
    let found = run(
        &[
            "profile", "lookup", &profile, "--batch", "-", "--format", "tsv",
        ],
        batch,
    );
    assert_eq!(
        found.stdout,
        "http://example.com/a/z\tpresent\tcom,example)/a\t2\nhttp://x.y:99999/\trejected\t-\t-\n\
         example.net\tabsent\t-\t-\n\trejected\t-\t-\nhttp://WWW.example.org/a\tpresent\torg,example)/a\t1\n"
    );
    assert_eq!(found.code, 0);
    assert_eq!(
        run(&["profile", "lookup", &profile, "http://example.net/"], b"").code,
        1
    );

    let lookups = folder.path().join("lookups.txt");
    fs::write(&lookups, "http://example.com/a\nhttp://example.com/a\nhttp://example.com/b\nhttp://example.org/\nhttp://x:99999/\n").unwrap();
    let lookups = lookups.to_str().unwrap();
    let tld = format!("{out}/x.H1P0.cdxj");
    let page = format!("{out}/page.html");
    let judged = run(
        &[
            "evaluate",
            &profile,
            &tld,
            "--holdings",
            &index,
            "--lookups",
            lookups,
            "--format",
            "json",
            "--html",
            &page,
        ],
        b"",
    );
    assert_eq!(judged.code, 0, "{}", judged.stderr);
    let rows: serde_json::Value = serde_json::from_str(&judged.stdout).unwrap();
    assert_eq!(rows[0]["summary"], profile.as_str());
    assert_eq!(
        (
            &rows[0]["true_positives"],
            &rows[0]["true_negatives"],
            &rows[0]["rejected"]
        ),
        (&1.into(), &2.into(), &1.into())
    );
    assert_eq!(
        (
            &rows[1]["false_positives"],
            &rows[1]["keys"],
            &rows[1]["relative_cost"]
        ),
        (&2.into(), &2.into(), &0.5.into())
    );
    assert!(fs::read_to_string(page).unwrap().contains("<svg"));
    let weighted = run(
        &[
            "evaluate",
            &profile,
            "--holdings",
            &index,
            "--lookups",
            lookups,
            "--format",
            "json",
            "--weighted",
        ],
        b"",
    );
    let rows: serde_json::Value = serde_json::from_str(&weighted.stdout).unwrap();
    assert_eq!(rows[0]["true_positives"], 2);
}

#[test]
fn a_profile_overwrites_neither_its_input_nor_another_output() {
    let (folder, index, _) = folder_with(INDEX);
    let input = folder.path().join("x.H3P1.cdxj");
    fs::rename(&index, &input).unwrap();
    let (input, out) = (input.to_str().unwrap(), folder.path().to_str().unwrap());
    let words = ["profile", input, "-o", out, "--id", "x", "--policy", "H3P1"];
    let refused = run(&words, b"");
    assert_eq!(refused.code, 2);
    let message = "is an input and an output";
    assert!(refused.stderr.contains(message), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(input).unwrap(), INDEX);
    let rejects = format!("{out}/y.H3P1.cdxj");
    let words = [
        "profile",
        input,
        "-o",
        out,
        "--id",
        "y",
        "--rejects",
        &rejects,
    ];
    let refused = run(&words, b"");
    assert_eq!(refused.code, 2);
    let message = "is named for two outputs";
    assert!(refused.stderr.contains(message), "{}", refused.stderr);
}

#[test]
fn what_is_held_and_called_absent_is_listed_and_is_a_no() {
    let (folder, index, out) = folder_with(INDEX);
    run(&["profile", &index, "-o", &out, "--id", "x"], b"");
    // A profile that lost its first row when someone edited it.
    let profile = format!("{out}/x.URIR.cdxj");
    let text = fs::read_to_string(&profile).unwrap();
    let kept: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with("com,example)/ ") && !line.starts_with("!rows "))
        .collect();
    fs::write(&profile, kept.join("\n") + "\n").unwrap();
    let lookups = folder.path().join("lookups.txt");
    fs::write(&lookups, "http://example.com/\n").unwrap();
    let judged = run(
        &[
            "evaluate",
            &format!("{out}/x.URIR.cdxj"),
            "--holdings",
            &index,
            "--lookups",
            lookups.to_str().unwrap(),
            "--format",
            "json",
        ],
        b"",
    );
    assert_eq!(judged.code, 1);
    assert!(
        judged
            .stderr
            .contains("held, but called absent: http://example.com/"),
        "{}",
        judged.stderr
    );
    assert!(
        judged.stdout.contains("\"false_negatives\": 1"),
        "{}",
        judged.stdout
    );
}

#[test]
fn the_preset_takes_successful_pages_only() {
    let (_folder, index, _) = folder_with(INDEX);
    let made = run(
        &[
            "profile",
            &index,
            "--dry-run",
            "--preset",
            "pages",
            "--format",
            "json",
        ],
        b"",
    );
    let report: serde_json::Value = serde_json::from_str(&made.stdout).unwrap();
    assert_eq!(report["captures"], 2);
}

#[test]
fn standard_input_and_lists_are_taken_and_dates_are_set() {
    let (_folder, _, out) = folder_with(INDEX);
    let made = run(
        &[
            "profile", "-", "-o", &out, "--policy", "H1P0", "--date", "2030",
        ],
        INDEX.as_bytes(),
    );
    assert_eq!(made.code, 0, "{}", made.stderr);
    let text = fs::read_to_string(format!("{out}/profile.H1P0.cdxj")).unwrap();
    assert!(
        text.contains("\"updated_at\": \"2030-01-01T00:00:00Z\""),
        "{text}"
    );
    assert!(
        text.contains("com)/ {\"frequency\": 4, \"spread\": 1, \"urirs\": 3}"),
        "{text}"
    );
    let list = b"http://example.com/\nhttp://example.com/a\nhttp://a:99999/\n";
    let made = run(&["profile", "-", "--dry-run", "--format", "json"], list);
    let report: serde_json::Value = serde_json::from_str(&made.stdout).unwrap();
    assert_eq!(
        (&report["captures"], &report["urirs"]),
        (&2.into(), &2.into()),
        "{}",
        made.stderr
    );
}

#[test]
fn bad_lines_of_a_list_are_kept() {
    let (folder, list, out) = folder_with("http://example.com/a\nhttp://x.y:99999/\nexample.net\n");
    let kept = folder.path().join("bad");
    let made = run(
        &[
            "profile",
            &list,
            "-o",
            &out,
            "--policy",
            "URIR",
            "--rejects",
            kept.to_str().unwrap(),
        ],
        b"",
    );
    assert_eq!(made.code, 0, "{}", made.stderr);
    assert!(made.stderr.contains("line 2"), "{}", made.stderr);
    assert_eq!(fs::read_to_string(kept).unwrap(), "http://x.y:99999/\n");
}

#[test]
fn profiles_of_different_policies_are_not_merged_without_being_asked() {
    let (_folder, index, out) = folder_with(INDEX);
    run(&["profile", &index, "-o", &out], b"");
    let (a, b, c) = (
        format!("{out}/a.HxP1.cdxj"),
        format!("{out}/a.H3P2.cdxj"),
        format!("{out}/c.cdxj.gz"),
    );
    let refused = run(&["profile", "merge", &a, &b, "-o", &c], b"");
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("hint: ") && refused.stderr.contains("--policy"),
        "{}",
        refused.stderr
    );
    assert!(!Path::new(&c).exists());
    let merged = run(
        &["profile", "merge", "--policy", "H3P0", &a, &b, "-o", &c],
        b"",
    );
    assert_eq!(merged.code, 0, "{}", merged.stderr);
    let found = run(
        &[
            "profile",
            "lookup",
            &c,
            "http://example.com/zzz",
            "--format",
            "json",
        ],
        b"",
    );
    assert!(
        found.stdout.contains("\"frequency\":\"8\"") && found.stdout.contains("\"urirs\":\"6-\""),
        "{}",
        found.stdout
    );
}

#[test]
fn growth_accumulates() {
    let (folder, index, _) = folder_with(INDEX);
    let more = folder.path().join("b.cdx");
    fs::write(
        &more,
        INDEX
            .replace("com,example)", "net,example)")
            .replace("example.com", "example.net"),
    )
    .unwrap();
    let grown = run(
        &[
            "profile",
            "growth",
            &index,
            more.to_str().unwrap(),
            "--policy",
            "H1P0",
            "--format",
            "json",
        ],
        b"",
    );
    let report: serde_json::Value = serde_json::from_str(&grown.stdout).unwrap();
    assert_eq!(
        (
            &report["steps"][1]["captures"],
            &report["steps"][1]["urirs"]
        ),
        (&10.into(), &7.into()),
        "{}",
        grown.stdout
    );
    assert_eq!(report["steps"][1]["keys"]["H1P0"], 3);
}

#[test]
fn broken_input_ends_with_an_error_and_a_hint() {
    let (folder, index, out) = folder_with(INDEX);
    let missing = run(&["profile", "/nonexistent/x.cdx", "-o", &out], b"");
    assert_eq!(missing.code, 2);
    assert!(missing.stderr.contains("hint: "), "{}", missing.stderr);
    let no_profile = run(&["profile", "lookup", &index, "http://example.com/"], b"");
    assert_eq!(no_profile.code, 2, "{}", no_profile.stderr);
    let no_summary = run(
        &[
            "evaluate",
            &index,
            "--holdings",
            &index,
            "--lookups",
            &index,
        ],
        b"",
    );
    assert_eq!(no_summary.code, 2);
    assert!(
        no_summary.stderr.contains("not a summary"),
        "{}",
        no_summary.stderr
    );
    let empty = folder.path().join("empty.cdx");
    fs::write(&empty, "").unwrap();
    let nothing = run(&["profile", empty.to_str().unwrap(), "--dry-run"], b"");
    assert_eq!(nothing.code, 1);
    assert!(
        nothing.stderr.contains("nothing was counted"),
        "{}",
        nothing.stderr
    );
}
