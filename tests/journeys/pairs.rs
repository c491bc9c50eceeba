//! Every kind of summary, however it was made, in whatever uses it.
//!
//! All summaries are of one archive. Whatever a journey reports about a pair is a row of
//! `docs/pairs.md`; `WAYPOST_WRITE_PAIRS=1` writes that page anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::world::{Served, World, eventually};

/// The kinds of summaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sort {
    Map,
    LargeMap,
    FilteredMap,
    Profile,
    Filter,
    KeyedFilter,
    ClassicText,
    ClassicBinary,
}

/// How a summary was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Made {
    Whole,
    Pages,
    Period,
    Takedown,
    Merged,
}

const SORTS: [Sort; 8] = [
    Sort::Map,
    Sort::LargeMap,
    Sort::FilteredMap,
    Sort::Profile,
    Sort::Filter,
    Sort::KeyedFilter,
    Sort::ClassicText,
    Sort::ClassicBinary,
];

const WAYS: [Made; 5] = [
    Made::Whole,
    Made::Pages,
    Made::Period,
    Made::Takedown,
    Made::Merged,
];

impl Sort {
    fn name(self) -> &'static str {
        match self {
            Sort::Map => "map",
            Sort::LargeMap => "map above 4 MiB",
            Sort::FilteredMap => "map with filters",
            Sort::Profile => "profile",
            Sort::Filter => "filter",
            Sort::KeyedFilter => "keyed filter",
            Sort::ClassicText => "classic filter, CSV",
            Sort::ClassicBinary => "classic filter, `.orestes`",
        }
    }

    /// The end of its file names.
    fn ending(self) -> &'static str {
        match self {
            Sort::Map | Sort::LargeMap | Sort::FilteredMap => "ukvs",
            Sort::Profile => "cdxj",
            Sort::Filter | Sort::KeyedFilter => "filter",
            Sort::ClassicText => "csv",
            Sort::ClassicBinary => "orestes",
        }
    }

    /// The option by which a command gets the secret.
    fn key(self) -> &'static str {
        match self {
            Sort::KeyedFilter => " --key-file secret",
            _ => "",
        }
    }

    /// The folder of the indexes that it is made from.
    fn indexes(self) -> &'static str {
        match self {
            Sort::LargeMap => "large",
            _ => "small",
        }
    }
}

impl Made {
    fn name(self) -> &'static str {
        match self {
            Made::Whole => "whole",
            Made::Pages => "`--preset pages`",
            Made::Period => "`--from` and `--to`",
            Made::Takedown => "`--exclude-list`",
            Made::Merged => "merged",
        }
    }

    fn options(self) -> &'static str {
        match self {
            Made::Whole | Made::Merged => "",
            Made::Pages => " --preset pages",
            Made::Period => " --from 2015 --to 2020",
            Made::Takedown => " --exclude-list takedown.txt",
        }
    }
}

/// A summary of the world's archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    sort: Sort,
    made: Made,
}

impl Pair {
    fn all() -> impl Iterator<Item = Pair> {
        let of = |sort| WAYS.into_iter().map(move |made| Pair { sort, made });
        SORTS.into_iter().flat_map(of)
    }

    /// The id of the archive that has only this summary.
    fn id(self) -> String {
        format!("{:?}-{:?}", self.sort, self.made).to_lowercase()
    }

    fn file(self) -> String {
        format!("{}.{}", self.id(), self.sort.ending())
    }
}

/// What is looked up.
struct Lookups {
    /// Captured as HTML with status 200 in 2018.
    pages: Vec<String>,
    /// Images, captured in 2018.
    images: Vec<String>,
    /// Pages that were captured in 2011 only.
    old: Vec<String>,
    /// Pages of 2018 under takedown.
    taken: Vec<String>,
    /// Never captured.
    others: Vec<String>,
}

impl Lookups {
    /// Of an archive whose URIs all have this in their paths.
    fn new(filler: &str, count: usize) -> Lookups {
        let uris = |name: &str, count: usize, end: &str| -> Vec<String> {
            (0..count)
                .map(|n| format!("http://a{}.example.org/{filler}{name}/{n}{end}", n % 7))
                .collect()
        };
        Lookups {
            pages: uris("page", count, ""),
            images: uris("image", 20, ".png"),
            old: uris("old", 20, ""),
            taken: (0..20)
                .map(|n| format!("http://gone.example.net/{filler}{n}"))
                .collect(),
            others: (0..40)
                .map(|n| format!("http://b{}.example.com/{filler}none/{n}", n % 7))
                .collect(),
        }
    }

    /// Of the indexes in a folder.
    fn of(folder: &str) -> Lookups {
        match folder {
            "large" => Lookups::new(&"long/".repeat(180), 5000),
            _ => Lookups::new("", 60),
        }
    }

    /// Some of all of them, by group.
    fn groups(&self) -> [(&'static str, &[String]); 5] {
        let pages = &self.pages[..60];
        [
            ("pages", pages),
            ("images", &self.images),
            ("old", &self.old),
            ("taken", &self.taken),
            ("others", &self.others),
        ]
    }
}

/// The presences that were answered to each group of lookups.
type Answers = BTreeMap<&'static str, BTreeSet<String>>;

/// What became of a summary in something that uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Answered(Answers),
    /// Why it was refused.
    Refused(String),
}

/// The line of an error that says what is wrong.
fn reason(stderr: &str) -> String {
    let mut errors = stderr.lines().filter(|line| !line.starts_with("hint"));
    let error = errors.next_back().unwrap_or_default();
    let text = error.trim_start_matches("error: ").trim();
    let text = text.split(": ").last().unwrap_or_default();
    text.to_owned()
}

/// Asks about all groups of lookups. What is asked answers each URI, or says why it refuses.
fn ask_all(
    lookups: &Lookups,
    mut ask: impl FnMut(&[String]) -> Result<Vec<String>, String>,
) -> Outcome {
    let mut answers = Answers::new();
    for (group, uris) in lookups.groups() {
        let given = match ask(uris) {
            Ok(given) => given,
            Err(reason) => return Outcome::Refused(reason),
        };
        assert_eq!(given.len(), uris.len());
        // A filter may be wrong about a few.
        let absent = given.iter().filter(|answer| *answer == "absent").count();
        let may_err = group == "others" || group == "taken";
        let mostly = may_err && absent * 10 >= uris.len() * 8;
        let given = match mostly {
            true => BTreeSet::from(["absent".to_owned()]),
            false => given.into_iter().collect(),
        };
        answers.insert(group, given);
    }
    Outcome::Answered(answers)
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answers = match self {
            Outcome::Refused(reason) => return write!(f, "refused: {reason}"),
            Outcome::Answered(answers) => answers,
        };
        let text = |group: &str| {
            let words: Vec<&str> = answers[group].iter().map(String::as_str).collect();
            words.join(" or ")
        };
        write!(
            f,
            "{}; {}; {}; {}; {}",
            text("pages"),
            text("images"),
            text("old"),
            text("taken"),
            text("others")
        )
    }
}

/// A line of an index.
fn line(uri: &str, time: &str, mime: &str) -> String {
    format!(
        "x)/ {time} {{\"url\": \"{uri}\", \"mime\": \"{mime}\", \"status\": \"200\", \"digest\": \"A\"}}\n"
    )
}

/// A world with indexes of one archive and its summaries, and why some were refused.
fn world() -> (World, BTreeMap<Pair, Outcome>) {
    let world = World::new();
    for folder in ["small", "large"] {
        let lookups = Lookups::of(folder);
        let mut first = String::new();
        let mut second = String::new();
        for uri in &lookups.old {
            first += &line(uri, "20110301000000", "text/html");
        }
        for uri in lookups.pages.iter().chain(&lookups.taken) {
            second += &line(uri, "20180301000000", "text/html");
        }
        for uri in &lookups.images {
            second += &line(uri, "20180301000000", "image/png");
        }
        for (name, text) in [("first", first), ("second", second)] {
            world.write("unkeyed.cdxj", text);
            fs::create_dir_all(world.at(folder)).unwrap();
            world.ok(&format!(
                "--quiet index rekey --dialect ia unkeyed.cdxj -o {folder}/{name}.cdxj"
            ));
        }
    }
    world.write("secret", "00112233445566778899aabbccddeeff");
    world.write("takedown.txt", "http://gone.example.net/\n");
    fs::create_dir(world.at("summaries")).unwrap();
    let mut refused = BTreeMap::new();
    for pair in Pair::all() {
        if let Err(reason) = make(&world, pair) {
            refused.insert(pair, Outcome::Refused(reason));
        }
    }
    (world, refused)
}

/// Runs a command that makes a summary.
fn attempt(world: &World, words: &str) -> Result<(), String> {
    let run = world.run(&format!("--quiet {words}"));
    match run.code {
        0 => Ok(()),
        _ => Err(reason(&run.stderr)),
    }
}

/// Makes a summary in the folder `summaries`.
fn make(world: &World, pair: Pair) -> Result<(), String> {
    let Pair { sort, made } = pair;
    let output = format!("summaries/{}", pair.file());
    let folder = sort.indexes();
    if made == Made::Merged && sort != Sort::FilteredMap {
        let parts = ["first", "second"];
        for part in parts {
            let input = format!("{folder}/{part}.cdxj");
            let mergeable = match sort {
                Sort::Filter | Sort::KeyedFilter => "--kind hashes",
                _ => "",
            };
            build(world, sort, &input, mergeable, &format!("{part}.part"))?;
        }
        let merge = match sort {
            Sort::Map | Sort::LargeMap => "map merge first.part second.part",
            Sort::Profile => "profile merge first.part second.part",
            Sort::Filter | Sort::KeyedFilter => "filter merge --kind ribbon first.part second.part",
            _ => "filter merge first.part second.part",
        };
        return attempt(world, &format!("{merge} -o {output}"));
    }
    let input = format!("{folder}/first.cdxj {folder}/second.cdxj");
    build(world, sort, &input, made.options(), &output)
}

fn build(
    world: &World,
    sort: Sort,
    input: &str,
    options: &str,
    output: &str,
) -> Result<(), String> {
    match sort {
        Sort::Map | Sort::LargeMap => {
            attempt(world, &format!("map build {input} {options} -o {output}"))
        }
        Sort::FilteredMap => {
            attempt(world, &format!("map build {input} {options} -o full.ukvs"))?;
            let words = format!("map compact full.ukvs --filters --bytes 2K {options} -o {output}");
            let holdings = input.split(' ').map(|input| format!(" --holdings {input}"));
            attempt(world, &(words + &holdings.collect::<String>()))
        }
        Sort::Profile => {
            let words = format!("profile {input} {options} --policy URIR --id part -o profiles");
            attempt(world, &words)?;
            let made = fs::rename(world.at("profiles/part.URIR.cdxj"), world.at(output));
            made.map_err(|error| error.to_string())
        }
        Sort::Filter | Sort::KeyedFilter => {
            let key = sort.key();
            attempt(
                world,
                &format!("filter build {input} {options}{key} -o {output}"),
            )
        }
        Sort::ClassicText => attempt(
            world,
            &format!("filter export {input} {options} -o {output}"),
        ),
        Sort::ClassicBinary => {
            let words = format!("filter export {input} {options} --form binary -o {output}");
            attempt(world, &words)
        }
    }
}

/// Checks what can never be otherwise, whoever uses the summary.
fn check(pair: Pair, used: &str, outcome: &Outcome) {
    let Outcome::Answered(answers) = outcome else {
        return;
    };
    let context = format!(
        "{} {} in {used}: {answers:?}",
        pair.sort.name(),
        pair.made.name()
    );
    for held in ["pages", "images", "old"] {
        assert!(!answers[held].contains("absent"), "{held} of {context}");
    }
    let taken = match pair.made {
        Made::Takedown => "absent",
        _ => "present",
    };
    let unknown = matches!(pair.made, Made::Pages | Made::Period);
    assert!(
        unknown || answers["taken"] == BTreeSet::from([taken.to_owned()]),
        "taken of {context}"
    );
    assert!(
        unknown || answers["others"] == BTreeSet::from(["absent".to_owned()]),
        "others of {context}"
    );
}

/// Asks something about each summary that was made, and compares it with the page in docs.
fn compare(used: &str, refused: BTreeMap<Pair, Outcome>, mut ask: impl FnMut(Pair) -> Outcome) {
    let mut rows = String::new();
    for pair in Pair::all() {
        let outcome = match refused.get(&pair) {
            Some(refused) => refused.clone(),
            None => ask(pair),
        };
        check(pair, used, &outcome);
        rows += &format!(
            "| {} | {} | {outcome} |\n",
            pair.sort.name(),
            pair.made.name()
        );
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pairs.md");
    let page = fs::read_to_string(&path).unwrap();
    let start = format!("<!-- {used} -->\n| summary | made | answers |\n|---|---|---|\n");
    let begin = page
        .find(&start)
        .unwrap_or_else(|| panic!("no table {used}"))
        + start.len();
    let end = begin
        + page[begin..]
            .find("\n\n")
            .map_or(page.len() - begin, |at| at + 1);
    if std::env::var_os("WAYPOST_WRITE_PAIRS").is_some() {
        fs::write(path, format!("{}{rows}{}", &page[..begin], &page[end..])).unwrap();
    } else {
        assert_eq!(&page[begin..end], rows, "docs/pairs.md, table {used}");
    }
}

#[test]
fn in_lookup() {
    let (world, refused) = world();
    compare("lookup", refused, |pair| {
        let (file, key) = (pair.file(), pair.sort.key());
        let lookups = Lookups::of(pair.sort.indexes());
        ask_all(&lookups, |uris| {
            Ok(world.lookup(&format!("summaries/{file}{key}"), uris))
        })
    });
}

#[test]
fn in_evaluate() {
    let (world, refused) = world();
    compare("evaluate", refused, |pair| {
        let (file, key) = (pair.file(), pair.sort.key());
        let folder = pair.sort.indexes();
        let options = match pair.made {
            Made::Takedown => pair.made.options(),
            _ => "",
        };
        ask_all(&Lookups::of(folder), |uris| {
            world.write("asked.txt", uris.join("\n"));
            let run = world.run(&format!(
                "--quiet evaluate summaries/{file}{key} --holdings {folder}/first.cdxj \
                 --holdings {folder}/second.cdxj {options} --lookups asked.txt --format json"
            ));
            match run.code {
                2 => Err(reason(&run.stderr)),
                _ => Ok(counted(&run.stdout)),
            }
        })
    });
}

/// The presences that an evaluation counted.
fn counted(json: &str) -> Vec<String> {
    let json: Value = serde_json::from_str(json).unwrap();
    let count = |name: &str| json[0][name].as_u64().unwrap() as usize;
    // What is unknown counts as present, too.
    let unknown = count("unknown");
    let counts = [
        (
            count("true_positives") + count("false_positives") - unknown,
            "present",
        ),
        (count("true_negatives") + count("false_negatives"), "absent"),
        (unknown, "unknown"),
    ];
    let of = |(count, presence): (usize, &str)| vec![presence.to_owned(); count];
    counts.into_iter().flat_map(of).collect()
}

/// A router of archives with one summary each.
fn config(pairs: &[Pair], archive: &Served, summary: impl Fn(Pair) -> String) -> String {
    let mut text = "[server]\nlisten = \"127.0.0.1:0\"\n[cache]\nenabled = false\n".to_owned();
    text += "[routing]\ndownloads = \"downloads\"\n";
    for &pair in pairs {
        let timemap = archive.url(&format!("/{}/timemap/link/", pair.sort.indexes()));
        text += &format!(
            "[[archive]]\nid = \"{}\"\ntimemap = \"{timemap}\"\n{}\n",
            pair.id(),
            summary(pair)
        );
        if pair.sort == Sort::KeyedFilter {
            text += "key_file = \"secret\"\n";
        }
    }
    text
}

/// The archive itself.
fn archive(world: &World) -> Served {
    world.serve(
        "index serve -c small=small/first.cdxj -c small=small/second.cdxj -c large=large/first.cdxj \
         -c large=large/second.cdxj --replay https://archive.example/{timestamp}/{url} --listen 127.0.0.1:0",
    )
}

fn made(refused: &BTreeMap<Pair, Outcome>) -> Vec<Pair> {
    Pair::all()
        .filter(|pair| !refused.contains_key(pair))
        .collect()
}

/// The decisions in lines that `route --batch` prints, or in answers of `/explain`.
fn decision(json: &Value, pair: Pair) -> String {
    let archives = json["archives"].as_array().unwrap();
    let archive = archives.iter().find(|archive| archive["id"] == pair.id());
    archive.unwrap()["decision"].as_str().unwrap().to_owned()
}

#[test]
fn in_route() {
    let (world, refused) = world();
    let archive = archive(&world);
    let pairs = made(&refused);
    let summary = |pair: Pair| format!("summaries = [\"summaries/{}\"]", pair.file());
    world.write("waypost.toml", config(&pairs, &archive, summary));
    compare("route", refused, |pair| {
        let lookups = Lookups::of(pair.sort.indexes());
        ask_all(&lookups, |uris| {
            world.write("asked.txt", uris.join("\n"));
            let text = world.ok("--quiet route --batch asked.txt --config waypost.toml");
            let lines = text.lines();
            let decisions = lines.map(|line| decision(&serde_json::from_str(line).unwrap(), pair));
            Ok(decisions.collect())
        })
    });
}

/// What a running router decides.
fn explained(router: &Served, pair: Pair) -> Outcome {
    let lookups = Lookups::of(pair.sort.indexes());
    ask_all(&lookups, |uris| {
        let explain = |uri: &String| {
            let reply = router.get_with(
                &format!("/explain/{uri}"),
                &[("Accept", "application/json")],
            );
            assert_eq!(reply.status, 200, "{}", reply.text());
            decision(&serde_json::from_str(reply.text()).unwrap(), pair)
        };
        Ok(uris.iter().map(explain).collect())
    })
}

#[test]
fn in_a_router_with_summaries() {
    let (world, refused) = world();
    let archive = archive(&world);
    let pairs = made(&refused);
    let summary = |pair: Pair| format!("summaries = [\"summaries/{}\"]", pair.file());
    world.write("waypost.toml", config(&pairs, &archive, summary));
    let router = world.serve("serve --config waypost.toml");
    // What is held is found, whatever the summaries say.
    for folder in ["small", "large"] {
        let lookups = Lookups::of(folder);
        for uri in [&lookups.pages[1], &lookups.images[1], &lookups.old[1]] {
            let reply = router.get(&format!("/timemap/json/{uri}"));
            assert_eq!(reply.status, 200, "{uri}");
        }
    }
    compare("serve with summaries", refused, |pair| {
        explained(&router, pair)
    });
}

#[test]
fn in_a_router_with_sources() {
    let (world, refused) = world();
    let archive = archive(&world);
    let pairs = made(&refused);
    // A server for the files, which serves the large map in pages, too.
    world.write(
        "files.toml",
        "[server]\nlisten = \"127.0.0.1:0\"\nstatic_files = \"summaries\"\n\
         mementomap = \"summaries/largemap-whole.ukvs\"\n\
         [[archive]]\nid = \"none\"\ntimemap = \"http://127.0.0.1:9/\"\n",
    );
    let files = world.serve("serve --config files.toml");
    let source = |pair: Pair| match (pair.sort, pair.made) {
        (Sort::LargeMap, Made::Whole) => files.url("/.well-known/mementomap"),
        _ => files.url(&format!("/{}", pair.file())),
    };
    let summary = |pair: Pair| format!("sources = [\"{}\"]", source(pair));
    world.write("waypost.toml", config(&pairs, &archive, summary));
    let router = world.serve("serve --config waypost.toml");
    let uri = &Lookups::of("small").others[0];
    eventually("all sources are downloaded or refused", || {
        let reply = router.get_with(
            &format!("/explain/{uri}"),
            &[("Accept", "application/json")],
        );
        let json: Value = serde_json::from_str(reply.text()).unwrap();
        let log = router.log();
        let settled = |pair: &Pair| {
            let archives = json["archives"].as_array().unwrap();
            let archive = archives.iter().find(|archive| archive["id"] == pair.id());
            let archive = archive.unwrap();
            let is_read = !archive["summary"].is_null() && archive["problem"].is_null();
            is_read || log.contains(&format!("archive {}:", pair.id()))
        };
        pairs.iter().all(settled).then_some(())
    });
    compare("serve with sources", refused, |pair| {
        explained(&router, pair)
    });
}

#[test]
fn in_filter_serve() {
    let (world, refused) = world();
    let service = world.serve("filter serve summaries --key-file secret --listen 127.0.0.1:0");
    compare("filter serve", refused, |pair| {
        let lookups = Lookups::of(pair.sort.indexes());
        ask_all(&lookups, |uris| {
            let ask = |uri: &String| match service.get(&format!("/{}/{uri}", pair.id())).status {
                200 => "present".to_owned(),
                404 => "absent".to_owned(),
                503 => "unknown".to_owned(),
                status => status.to_string(),
            };
            Ok(uris.iter().map(ask).collect())
        })
    });
}

#[test]
fn in_publish_and_discover() {
    let (world, refused) = world();
    world.write(
        "files.toml",
        "[server]\nlisten = \"127.0.0.1:0\"\nstatic_files = \"summaries\"\n\
         [[archive]]\nid = \"none\"\ntimemap = \"http://127.0.0.1:9/\"\n",
    );
    let files = world.serve("serve --config files.toml");
    let url = files.url("/");
    world.ok(&format!(
        "publish summaries --url {url} --publisher Library"
    ));
    let found = world.run(&format!("discover {url}sitemap.xml -o copies"));
    assert_eq!(found.code, 0, "{}{}", found.stdout, found.stderr);
    let host = url.trim_start_matches("http://").trim_end_matches('/');
    compare("publish and discover", refused, |pair| {
        let (file, key) = (pair.file(), pair.sort.key());
        let copy = format!("copies/{}/{file}", host.replace(':', "+"));
        if !world.at(&copy).exists() {
            return Outcome::Refused("not copied".to_owned());
        }
        let lookups = Lookups::of(pair.sort.indexes());
        ask_all(&lookups, |uris| {
            Ok(world.lookup(&format!("{copy}{key}"), uris))
        })
    });
}
