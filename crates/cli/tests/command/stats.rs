//! `waypost stats`, and classes in profiles and maps.

use std::fs;

use serde_json::Value;

use super::{example, run};

#[test]
fn statistics_are_tables_json_csv_and_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let index = example("small.cdxj");
    let index = index.to_str().unwrap();
    let page = folder.path().join("small.html");
    let table = run(
        &[
            "stats",
            index,
            "--top",
            "2",
            "--html",
            page.to_str().unwrap(),
        ],
        b"",
    );
    assert_eq!(table.code, 0, "{}", table.stderr);
    assert!(table.stdout.starts_with("Totals\n") && table.stdout.contains("\nYears\nyear  URI-R"));
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("What small.cdxj holds") && html.contains("757 captures of 484 URIs"));
    let json = run(&["stats", index, "--format", "json"], b"");
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(
        (&json["format"], &json["version"]),
        (&"waypost-stats".into(), &1.into())
    );
    assert_eq!(json["totals"]["urirs"], 484);
    let csv = run(&["stats", index, "--format", "csv"], b"").stdout;
    assert!(
        csv.starts_with("# Totals\nattribute,value\nfiles,1\n") && csv.contains("\nURI-Rs,484\n")
    );
    let summary = run(&["stats", index, "--format", "cdx-summary"], b"").stdout;
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(
        (&summary["captures"], &summary["hosts"]),
        (&757.into(), &5.into())
    );
    // From a pipe, and nothing at all.
    let piped = run(
        &["stats", "-", "--format", "json"],
        &fs::read(index).unwrap(),
    );
    let piped: Value = serde_json::from_str(&piped.stdout).unwrap();
    assert_eq!(piped["years"], json["years"]);
    let none = run(&["stats", index, "--status", "599"], b"");
    assert_eq!(none.code, 1);
    assert!(
        none.stderr.contains("warning: nothing was counted"),
        "{}",
        none.stderr
    );
}

#[test]
fn statistics_do_not_depend_on_threads_memory_order_or_number_of_files() {
    let folder = tempfile::tempdir().unwrap();
    // Several blocks, in which URI-Rs recur.
    let mut lines: Vec<String> = (0..12_000u64)
        .map(|n| {
            let (site, page) = (n * 7 % 97, n * 31 % 4);
            let year = 2001 + n % 13;
            format!("com,site{site})/a{}/p{page} {year}0203040506 {{\"url\": \"http://site{site}.com/a{}/p{page}\", \"mime\": \"text/html\", \"status\": \"200\", \"length\": \"{n}\"}}\n", n % 5, n % 5)
        })
        .collect();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("unsorted.cdxj"), lines.concat()).unwrap();
    fs::write(path("odd.cdxj"), lines[6_000..].concat()).unwrap();
    fs::write(path("even.cdxj"), lines[..6_000].concat()).unwrap();
    lines.sort();
    fs::write(path("sorted.cdxj"), lines.concat()).unwrap();
    let statistics = |files: &[&str], options: &[&str]| {
        let files: Vec<String> = files.iter().map(|name| path(name)).collect();
        let files: Vec<&str> = files.iter().map(|name| &name[..]).collect();
        let words = [
            &["stats", "--format", "json", "--name", "x"],
            &files[..],
            options,
        ]
        .concat();
        let found = run(&words, b"");
        assert_eq!(found.code, 0, "{}", found.stderr);
        let mut found: Value = serde_json::from_str(&found.stdout).unwrap();
        found["totals"]["files"] = 1.into();
        found
    };
    let whole = statistics(&["sorted.cdxj"], &["--threads", "1"]);
    assert_eq!(whole["totals"]["captures"], 12_000);
    for files in [
        &["sorted.cdxj"][..],
        &["unsorted.cdxj"],
        &["odd.cdxj", "even.cdxj"],
    ] {
        for threads in ["1", "2", "5"] {
            for memory in ["64M", "1G"] {
                let options = ["--threads", threads, "--memory", memory];
                let found = statistics(files, &options);
                assert!(found == whole, "{files:?} {options:?}");
            }
        }
        let mut estimated = statistics(files, &["--approximate", "--threads", "3"]);
        let approximation = estimated.as_object_mut().unwrap().remove("approximation");
        assert_eq!(approximation.unwrap()["distinct_error"], 0.0);
        assert!(estimated == whole, "{files:?} --approximate");
    }
    let wrong = run(
        &[
            "stats",
            &path("sorted.cdxj"),
            "--approximate",
            "--classes",
            "x",
        ],
        b"",
    );
    assert_eq!(wrong.code, 2);
}

#[test]
fn statistics_are_compared_and_other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let index = example("small.cdxj");
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (name, to) in [("a.json", "2019"), ("b.json", "2024")] {
        let found = run(
            &[
                "stats",
                index.to_str().unwrap(),
                "--to",
                to,
                "--format",
                "json",
            ],
            b"",
        );
        fs::write(path(name), found.stdout).unwrap();
    }
    let page = path("both.html");
    let both = run(
        &[
            "stats",
            "compare",
            &path("a.json"),
            &path("b.json"),
            "--html",
            &page,
        ],
        b"",
    );
    assert_eq!(both.code, 0, "{}", both.stderr);
    assert!(
        both.stdout.contains("captures") && both.stdout.contains("+132.9%"),
        "{}",
        both.stdout
    );
    assert!(
        fs::read_to_string(page)
            .unwrap()
            .contains("Archives side by side")
    );
    fs::write(path("other.json"), "{\"format\": 1}").unwrap();
    let wrong = run(
        &["stats", "compare", &path("a.json"), &path("other.json")],
        b"",
    );
    assert_eq!(wrong.code, 2);
    assert!(
        wrong
            .stderr
            .contains("other.json: not the statistics of an archive"),
        "{}",
        wrong.stderr
    );
    assert!(
        wrong
            .stderr
            .contains("hint: make it with `waypost stats INDEX --format json`")
    );
}

#[test]
fn a_memgator_log_gives_lookups_and_rates_by_archive() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("memgator.log");
    let line = |text: &str| format!("INFO: 2026/11/15 18:20:43.609860 {text}\n");
    let lines = [
        line("Aggregating Mementos for http://library.example.org/"),
        line("ia => Success: 12 mementos"),
        line("pt => Response error: 404 Not Found"),
        line("Aggregating Mementos for http://nothing.example.net/"),
        line("ia => Response error: 404 Not Found"),
        line("pt => Dormant after 1 consecutive failures"),
    ];
    fs::write(&log, lines.concat()).unwrap();
    let index = example("small.cdxj");
    let words = [
        "stats",
        index.to_str().unwrap(),
        "--format",
        "json",
        "--lookups",
    ];
    let found = run(&[&words[..], &[log.to_str().unwrap()]].concat(), b"");
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(
        (&found["lookups"]["urirs"], &found["lookups"]["held"]),
        (&2.into(), &1.into())
    );
    assert_eq!(
        found["lookups"]["seeds"][0]["uri"],
        "http://nothing.example.net/"
    );
    let archives = found["memgator"].as_array().unwrap();
    let of = |at: usize, name: &str| archives[at][name].clone();
    assert_eq!(
        (of(0, "archive"), of(0, "requests"), of(0, "hits")),
        ("ia".into(), 2.into(), 1.into())
    );
    assert_eq!((of(1, "misses"), of(1, "sleeps")), (1.into(), 1.into()));
}

#[test]
fn classes_are_counted_and_are_a_second_key_of_profiles_and_maps() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap().to_owned();
    let (index, classes) = (example("small.cdxj"), example("classes.txt"));
    let (index, classes) = (index.to_str().unwrap(), classes.to_str().unwrap());
    let found = run(
        &["stats", index, "--classes", classes, "--format", "json"],
        b"",
    );
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    let captures: u64 = found["classes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|class| class["captures"].as_u64().unwrap())
        .sum();
    assert_eq!(captures, 757);
    let by = ["--by", "class", "--classes", classes];
    let made = run(
        &[&["profile", index, "-o", &out, "--policy", "H3P0"][..], &by].concat(),
        b"",
    );
    assert_eq!(made.code, 0, "{}", made.stderr);
    let profile = fs::read_to_string(format!("{out}/small.H3P0.class.cdxj")).unwrap();
    assert!(
        profile.contains("\ncom,example,gazette)/ news "),
        "{profile}"
    );
    assert!(profile.contains("\nnet,example,blog)/ - "), "{profile}");
    let map = format!("{out}/small.ukvs");
    let made = run(
        &[&["map", "build", index, "-o", &map][..], &by].concat(),
        b"",
    );
    assert_eq!(made.code, 0, "{}", made.stderr);
    assert!(
        fs::read_to_string(&map)
            .unwrap()
            .contains("\ncom,example,gazette)/ news 3/1\n")
    );
    // On a cluster, the classes are the same.
    let plan = [
        "worker", "plan", index, "--size", "64K", "--", "map", "build", "-o",
    ];
    let other = format!("{out}/cluster.ukvs");
    let ranges = run(&[&plan[..], &[&other], &by].concat(), b"");
    assert_eq!(ranges.code, 0, "{}", ranges.stderr);
    let partials = run(&["worker"], ranges.stdout.as_bytes());
    let file = format!("{out}/partials");
    fs::write(&file, partials.stdout).unwrap();
    let merged = run(&["worker", "merge", &file], b"");
    assert_eq!(merged.code, 0, "{}", merged.stderr);
    assert_eq!(fs::read(other).unwrap(), fs::read(map).unwrap());

    let whole = run(&["stats", index, "--format", "json"], b"").stdout;
    let plan = [
        "worker", "plan", index, "--size", "64K", "--", "stats", "--format", "json",
    ];
    let partials = run(&["worker"], run(&plan, b"").stdout.as_bytes());
    fs::write(&file, partials.stdout).unwrap();
    assert_eq!(run(&["worker", "merge", &file], b"").stdout, whole);

    let bad = format!("{out}/bad.txt");
    fs::write(&bad, "a.com news\nb.com\n").unwrap();
    let wrong = run(&["stats", index, "--classes", &bad], b"");
    assert_eq!(wrong.code, 2);
    assert!(
        wrong
            .stderr
            .contains("bad.txt: line 2: expected a domain or SURT prefix"),
        "{}",
        wrong.stderr
    );
    assert!(
        wrong.stderr.contains("hint: a line is a domain"),
        "{}",
        wrong.stderr
    );
    for words in [&["--by", "class"][..], &["--classes", classes]] {
        let wrong = run(&[&["profile", index, "--dry-run"][..], words].concat(), b"");
        assert_eq!(wrong.code, 2);
        assert!(wrong.stderr.contains("hint: "), "{}", wrong.stderr);
    }
}

#[test]
fn names_of_any_letters_are_shown_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (index, page, kept) = (path("über.cdxj"), path("page.html"), path("kept.json"));
    fs::copy(example("small.cdxj"), &index).unwrap();
    let json = run(&["stats", &index, "--html", &page, "--format", "json"], b"");
    assert_eq!(json.code, 0, "{}", json.stderr);
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("über.cdxj holds 757 captures"));
    // A file that somebody edited.
    let mut json: Value = serde_json::from_str(&json.stdout).unwrap();
    json["host_tree"][0]["depth"] = "é".into();
    json["path_tree"][0]["depth"] = "".into();
    fs::write(&kept, json.to_string()).unwrap();
    let compared = run(&["stats", "compare", &kept, &kept], b"");
    assert_eq!(compared.code, 0, "{}", compared.stderr);
}
