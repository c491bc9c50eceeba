//! Maps whose keys carry filters, as a newcomer makes and uses them.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use assert_cmd::Command;
use tempfile::TempDir;

use super::{example, waypost};

struct Place(TempDir);

impl Place {
    /// A folder with the full map of the example and a filtered one.
    fn new() -> Place {
        let place = Place(TempDir::new().unwrap());
        waypost(&[])
            .args(["map", "build"])
            .arg(example("small.cdxj"))
            .arg("-o")
            .arg(place.at("full.ukvs"))
            .assert()
            .code(0);
        place.compact(&["--bytes", "1K"], "small.ukvs");
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn compact(&self, budget: &[&str], out: &str) {
        Command::from(self.compaction(budget, out)).assert().code(0);
    }

    fn compaction(&self, budget: &[&str], out: &str) -> std::process::Command {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_waypost"));
        command
            .args(["--quiet", "map", "compact", "--filters"])
            .arg(self.at("full.ukvs"))
            .args(budget)
            .arg("--holdings")
            .arg(example("small.cdxj"))
            .arg("--lookups")
            .arg(example("lookups.txt"))
            .arg("-o")
            .arg(self.at(out));
        command
    }

    /// Whether a map with its filter calls everything present that is held.
    fn prove(&self, map: &str) {
        waypost(&[])
            .args(["map", "check"])
            .arg(self.at(map))
            .arg("--holdings")
            .arg(example("small.cdxj"))
            .assert()
            .code(0);
    }

    /// The names of the filters beside a map.
    fn filters_of(&self, map: &str) -> Vec<String> {
        let files = std::fs::read_dir(self.0.path()).unwrap();
        let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name.starts_with(map) && name.ends_with(".filter"))
            .collect()
    }

    fn size(&self, name: &str) -> u64 {
        std::fs::metadata(self.at(name)).unwrap().len()
    }
}

#[test]
fn every_budget_makes_a_map_that_the_holdings_prove() {
    let place = Place::new();
    for (budget, name) in [
        (&["--bytes", "1K"][..], "a.ukvs.gz"),
        (&["--accuracy", "99%"], "b.ukvs"),
        (&["--lambda", "20", "--max-width", "4"], "c.ukvs"),
    ] {
        place.compact(budget, name);
        for ignored in [&[][..], &["--ignore-filter"]] {
            waypost(&[])
                .args(["map", "check"])
                .arg(place.at(name))
                .arg("--holdings")
                .arg(example("small.cdxj"))
                .args(ignored)
                .assert()
                .code(0);
        }
    }
    let shipped = place.size("a.ukvs.gz") + place.size(&place.filters_of("a.ukvs")[0]);
    assert!((970..=1000).contains(&shipped), "{shipped}");
}

#[test]
fn a_filter_turns_lookups_away_and_can_be_ignored() {
    let place = Place::new();
    std::fs::write(place.at("rows.ukvs"), "* 757/484 {\"filter\": 12}\n").unwrap();
    waypost(&[])
        .args(["map", "merge"])
        .arg(place.at("rows.ukvs"))
        .arg("--holdings")
        .arg(example("small.cdxj"))
        .arg("-o")
        .arg(place.at("small.ukvs"))
        .assert()
        .code(0);
    let asked = [
        "http://library.example.org/",
        "http://nowhere.example.org/x",
    ];
    let lookup = |more: &[&str]| {
        let output = waypost(&[])
            .args(["map", "lookup", "--format", "tsv"])
            .arg(place.at("small.ukvs"))
            .args(asked)
            .args(more)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let cells = text
            .lines()
            .map(|line| line.split('\t').nth(1).unwrap().to_owned());
        cells.collect::<Vec<_>>()
    };
    assert_eq!(lookup(&[]), ["present", "absent"]);
    assert_eq!(lookup(&["--ignore-filter"]), ["present", "present"]);
}

#[test]
fn a_compaction_that_is_killed_leaves_a_pair_that_the_holdings_prove() {
    let place = Place::new();
    let budgets = [["--bytes", "800"], ["--bytes", "1K"]];
    let start = Instant::now();
    place.compact(&budgets[1], "small.ukvs");
    let whole = start.elapsed();
    // Early and late, and as soon as the next filter is there.
    for step in 0..24u32 {
        let before = place.filters_of("small.ukvs");
        let mut child = place
            .compaction(&budgets[step as usize % 2], "small.ukvs")
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        if step < 12 {
            std::thread::sleep(whole * step / 10);
        } else {
            while place.filters_of("small.ukvs") == before && child.try_wait().unwrap().is_none() {
                std::thread::yield_now();
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        place.prove("small.ukvs");
    }
    place.compact(&budgets[1], "small.ukvs");
    place.prove("small.ukvs");
    assert_eq!(place.filters_of("small.ukvs").len(), 1);
}

#[test]
fn without_its_filter_a_map_is_refused_with_a_hint() {
    let place = Place::new();
    std::fs::remove_file(place.at(&place.filters_of("small.ukvs")[0])).unwrap();
    let refused = |command: &mut Command| {
        let output = command.assert().code(2).get_output().stderr.clone();
        let text = String::from_utf8(output).unwrap();
        assert!(
            text.contains("hint: ") && text.contains("--ignore-filter"),
            "{text}"
        );
    };
    refused(
        waypost(&[])
            .args(["map", "lookup"])
            .arg(place.at("small.ukvs"))
            .arg("http://a.com/"),
    );
    refused(
        waypost(&[])
            .args(["map", "check"])
            .arg(place.at("small.ukvs")),
    );
    let evaluate = |command: &mut Command| {
        command
            .arg("evaluate")
            .arg(place.at("small.ukvs"))
            .arg("--holdings")
            .arg(example("small.cdxj"))
            .arg("--lookups")
            .arg(example("lookups.txt"));
    };
    let mut command = waypost(&[]);
    evaluate(&mut command);
    refused(&mut command);
    let mut command = waypost(&[]);
    evaluate(&mut command);
    command.arg("--ignore-filter").assert().code(0);
}

#[test]
fn filters_are_made_anew_when_maps_are_merged_or_compacted_again() {
    let place = Place::new();
    let both = [place.at("small.ukvs"), place.at("full.ukvs")];
    let merge = || {
        let mut command = waypost(&[]);
        command
            .args(["map", "merge"])
            .args(&both)
            .arg("-o")
            .arg(place.at("both.ukvs"));
        command
    };
    let output = merge().assert().code(2).get_output().stderr.clone();
    assert!(
        String::from_utf8(output)
            .unwrap()
            .contains("--holdings INPUT")
    );
    merge().arg("--ignore-filter").assert().code(0);
    assert!(place.filters_of("both.ukvs").is_empty());
    merge()
        .arg("--holdings")
        .arg(example("small.cdxj"))
        .assert()
        .code(0);
    assert_eq!(place.filters_of("both.ukvs").len(), 1);
    let again = |more: &[&str]| {
        let mut command = waypost(&[]);
        command
            .args(["map", "compact"])
            .arg(place.at("small.ukvs"))
            .args(["--lambda", "0.5"])
            .args(more)
            .arg("-o")
            .arg(place.at("again.ukvs"));
        command
    };
    let output = again(&[]).assert().code(2).get_output().stderr.clone();
    assert!(
        String::from_utf8(output)
            .unwrap()
            .contains("--ignore-filter")
    );
    again(&["--ignore-filter"]).assert().code(0);
    let text = std::fs::read_to_string(place.at("again.ukvs")).unwrap();
    assert!(!text.contains("\"filter\""), "{text}");
    again(&["--filters"]).assert().code(2);
    let holdings = example("small.cdxj");
    again(&["--filters", "--holdings", holdings.to_str().unwrap()])
        .assert()
        .code(0);
    waypost(&[])
        .args(["map", "show"])
        .arg(place.at("small.ukvs"))
        .assert()
        .code(0);
}

/// Makes hashes of the example's URIs.
fn hashes(place: &Place, options: &[&str], name: &str) {
    waypost(&[])
        .args(["filter", "build"])
        .args(options)
        .arg(example("small.cdxj"))
        .arg("-o")
        .arg(place.at(name))
        .assert()
        .code(0);
}

#[test]
fn filters_are_not_made_from_less_than_the_map_holds() {
    let place = Place::new();
    let index = std::fs::read_to_string(example("small.cdxj")).unwrap();
    let half: Vec<&str> = index.lines().take(300).collect();
    std::fs::write(place.at("half.cdxj"), half.join("\n") + "\n").unwrap();
    std::fs::write(place.at("secret"), "07".repeat(16)).unwrap();
    let secret = place.at("secret");
    let secret = ["--kind", "hashes", "--key-file", secret.to_str().unwrap()];
    hashes(&place, &secret, "keyed");
    hashes(&place, &["--kind", "hashes", "--policy", "HxPx"], "cut");
    hashes(&place, &[], "ribbon");
    for (holdings, why) in [
        ("half.cdxj", "the holdings only"),
        ("keyed", "--kind hashes"),
        ("cut", "--kind hashes"),
        ("ribbon", "--kind hashes"),
    ] {
        let output = waypost(&[])
            .args(["map", "compact", "--filters", "--bytes", "1K"])
            .arg(place.at("full.ukvs"))
            .arg("--holdings")
            .arg(place.at(holdings))
            .arg("-o")
            .arg(place.at("less.ukvs"))
            .assert()
            .code(2)
            .get_output()
            .stderr
            .clone();
        let said = String::from_utf8(output).unwrap();
        assert!(said.contains(why), "{said}");
        assert!(!place.at("less.ukvs").exists());
    }
}

#[test]
fn hashes_say_what_is_held_to_lookups_filters_and_merges_but_prove_nothing() {
    let place = Place::new();
    hashes(&place, &["--kind", "hashes"], "hashes");
    let holdings = |command: &[&str], holdings: &Path| {
        let mut run = waypost(&[]);
        run.arg("map").args(command);
        run.arg("--holdings").arg(holdings);
        run
    };
    let (small, merged) = (place.at("by hashes.ukvs"), place.at("merged.ukvs"));
    holdings(
        &["compact", "--filters", "--lambda", "20"],
        &place.at("hashes"),
    )
    .arg(place.at("full.ukvs"))
    .arg("--lookups")
    .arg(example("lookups.txt"))
    .arg("-o")
    .arg(&small)
    .assert()
    .code(0);
    holdings(&["merge"], &place.at("hashes"))
        .arg(&small)
        .arg(place.at("small.ukvs"))
        .arg("-o")
        .arg(&merged)
        .assert()
        .code(0);
    for map in [&small, &merged] {
        let name = map.file_name().unwrap().to_str().unwrap();
        assert_eq!(place.filters_of(name).len(), 1);
        holdings(&["check"], &example("small.cdxj"))
            .arg(map)
            .assert()
            .code(0);
    }
    let output = holdings(&["check"], &place.at("hashes"))
        .arg(&small)
        .assert()
        .code(2)
        .get_output()
        .stderr
        .clone();
    let said = String::from_utf8(output).unwrap();
    assert!(said.contains("hint: name the index"), "{said}");
}

#[test]
fn what_grows_stays_open_when_newcomers_have_a_price() {
    let place = Place::new();
    let index = std::fs::read_to_string(example("small.cdxj")).unwrap();
    // Half a year earlier the newspaper had a third of its pages.
    let earlier: String = index
        .lines()
        .enumerate()
        .filter(|(at, line)| !line.starts_with("com,example,gazette)/") || at % 3 == 0)
        .map(|(_, line)| format!("{line}\n"))
        .collect();
    std::fs::write(place.at("earlier.cdxj"), earlier).unwrap();
    let later: String = (0..50)
        .map(|n| format!("http://gazette.example.com/2019/new-{n}\n"))
        .collect();
    std::fs::write(place.at("later.txt"), later).unwrap();
    place.compact(&["--lambda", "3000"], "exact.ukvs");
    let earlier = place.at("earlier.cdxj");
    place.compact(
        &[
            "--lambda",
            "3000",
            "--earlier",
            earlier.to_str().unwrap(),
            "--miss-price",
            "10",
        ],
        "open.ukvs",
    );
    let output = waypost(&[])
        .arg("evaluate")
        .args([place.at("exact.ukvs"), place.at("open.ukvs")])
        .arg("--holdings")
        .arg(example("small.cdxj"))
        .arg("--lookups")
        .arg(example("lookups.txt"))
        .arg("--later")
        .arg(place.at("later.txt"))
        .args(["--format", "json"])
        .output()
        .unwrap();
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let recall = |at: usize| rows[at]["newcomers_recall"].as_f64().unwrap();
    assert_eq!(rows[0]["newcomers"], 50);
    assert!(recall(0) < 0.5, "{}", recall(0));
    assert!(recall(1) > 0.9, "{}", recall(1));
    assert_eq!(rows[1]["recall"], 1.0);
}

#[test]
fn options_that_make_no_sense_are_refused_with_a_hint() {
    let place = Place::new();
    for wrong in [
        &["--filters"][..],
        &["--filters", "--lambda", "5"],
        &["--filters", "--accuracy", "99%", "--holdings", "-"],
        &["--filters", "--keys", "5%"],
        &["--filters", "--lambda", "5", "--rule", "papers"],
        &["--accuracy", "99%"],
    ] {
        let output = waypost(&[])
            .args(["map", "compact"])
            .arg(place.at("full.ukvs"))
            .args(wrong)
            .arg("-o")
            .arg(place.at("no.ukvs"))
            .assert()
            .code(2);
        let text = String::from_utf8(output.get_output().stderr.clone()).unwrap();
        assert!(text.contains("hint: "), "{wrong:?}: {text}");
        assert!(!place.at("no.ukvs").exists());
    }
}
