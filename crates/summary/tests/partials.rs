//! However the input is cut into ranges, and however the partials are grouped and serialised, the
//! summaries have the same bytes as those built in one go.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use waypost_index::Select;
use waypost_index::scan::Ranges;
use waypost_io::{Progress, Resources, Source};
use waypost_summary::evaluate::{Lookups, truth_of_held};
use waypost_summary::filter::{self, Hasher, Hashing, Keyer, Keys, Kind, Recipe};
use waypost_summary::holdings::{Gather, Held, Holdings, Input, Reading};
use waypost_summary::profile::{self, Options};
use waypost_summary::{Archive, By, map};
use waypost_surt::{Dialect, Policy};

/// Members of about this size. The first line stays in one piece, because the end of a member ends a
/// line, and half a line of an index may look like a list of URIs.
fn gzip(text: &[u8], member: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let line = memchr::memchr(b'\n', text).map_or(text.len(), |end| end + 1);
    let (first, rest) = text.split_at(line.max(member).min(text.len()));
    for some in std::iter::once(first).chain(rest.chunks(member.max(1))) {
        let level = flate2::Compression::default();
        let mut one = flate2::write::GzEncoder::new(Vec::new(), level);
        one.write_all(some).unwrap();
        out.extend(one.finish().unwrap());
    }
    out
}

#[derive(Clone, Debug)]
struct World {
    files: Vec<Vec<(String, u32)>>,
    sorted: bool,
    list: bool,
    /// The size of a gzip member in bytes; 0 for plain files.
    member: usize,
    memory: usize,
    random: u64,
}

fn worlds() -> impl Strategy<Value = World> {
    let surt =
        "(com|uk,co|org)(,[ab]{1,2}[-0b]?){0,2}(:81)?\\)/([ab]{0,2}[-0.]?/?){0,3}(\\?[ab=]{1,3})?";
    let captures = prop::collection::vec((surt, 2000..2003u32), 1..40);
    (
        prop::collection::vec(captures, 1..4),
        any::<bool>(),
        any::<bool>(),
        prop_oneof![Just(0usize), Just(1 << 20), 40usize..400],
        prop_oneof![Just(0usize), Just(1 << 26)],
        any::<u64>(),
    )
        .prop_map(|(files, sorted, list, member, memory, random)| World {
            files,
            sorted,
            list,
            member,
            memory,
            random,
        })
}

impl World {
    fn write(&self, folder: &Path) -> Vec<PathBuf> {
        let line = |(surt, year): &(String, u32)| match self.list {
            true => format!("{surt}\n"),
            false => format!(
                "{surt} {year}0102030405 http://example.com/ text/html 200 AAAA - - 5 9 x.warc.gz\n"
            ),
        };
        let mut paths = Vec::new();
        for (number, captures) in self.files.iter().enumerate() {
            let mut lines: Vec<String> = captures.iter().map(line).collect();
            if self.sorted {
                lines.sort();
            }
            let text = lines.concat().into_bytes();
            let path = folder.join(format!("{number}.cdx"));
            let bytes = match self.member {
                0 => text,
                member => gzip(&text, member),
            };
            fs::write(&path, bytes).unwrap();
            paths.push(path);
        }
        paths
    }

    fn input(&self, paths: &[PathBuf], by: Option<By>) -> Input {
        let mut input = Input::new(paths.iter().map(Source::new).collect());
        input.by = by;
        input.resources.memory = self.memory;
        input
    }

    fn gather(&self, paths: &[PathBuf], input: &Input) -> (Held, Reading) {
        let job = Gather::new(input.dialect, input.by, &input.resources);
        let scan = Ranges::new(&job, Select::default());
        let scan = if self.list { scan.of_lists() } else { scan };
        let (mut held, outcome) = scan.read_at_random(paths, self.random).unwrap();
        let reading = Reading::of_ranges(outcome, self.list, &mut held).unwrap();
        (held, reading)
    }
}

fn bytes_of(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(folder)
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn profiles_have_the_same_bytes(world in worlds(), by_month: bool) {
        let folder = tempfile::tempdir().unwrap();
        let paths = world.write(folder.path());
        let input = world.input(&paths, by_month.then_some(By::Month));
        let options = |name: &str| Options {
            policies: Policy::ALL.to_vec(),
            archive: Archive::default(),
            date: None,
            folder: Some(folder.path().join(name)),
            name: "a".into(),
            gzip: false,
        };
        profile::build(&input, &options("whole"), None).unwrap();
        let (mut held, reading) = world.gather(&paths, &input);
        profile::write(&mut held, reading, &input, &options("ranges")).unwrap();
        prop_assert_eq!(bytes_of(&folder.path().join("ranges")), bytes_of(&folder.path().join("whole")));
    }

    #[test]
    fn maps_have_the_same_bytes(world in worlds(), by_year: bool) {
        let folder = tempfile::tempdir().unwrap();
        let paths = world.write(folder.path());
        let input = world.input(&paths, by_year.then_some(By::Year));
        let (whole, ranges) = (folder.path().join("whole.ukvs"), folder.path().join("ranges.ukvs"));
        map::build(&input, &Archive::default(), None, &whole).unwrap();
        let (mut held, reading) = world.gather(&paths, &input);
        map::write_held(&mut held, reading, &input, &Archive::default(), &ranges).unwrap();
        prop_assert_eq!(fs::read(ranges).unwrap(), fs::read(whole).unwrap());
    }

    #[test]
    fn filters_have_the_same_bytes(world in worlds(), whole_keys: bool) {
        let folder = tempfile::tempdir().unwrap();
        let paths = world.write(folder.path());
        let sources: Vec<Source> = paths.iter().map(Source::new).collect();
        let policy: Policy = if whole_keys { "URIR" } else { "H3P1" }.parse().unwrap();
        let (whole, ranges) = (folder.path().join("whole"), folder.path().join("ranges"));
        let resources = Resources {
            memory: world.memory,
            temporary: folder.path().to_owned(),
            ..Resources::default()
        };
        let recipe = Recipe { kind: Kind::Hashes, resources: resources.clone(), ..Recipe::default() };
        let mut input = filter::Input::new(&sources);
        input.resources.memory = world.memory;
        input.policy = policy;
        filter::build(input, &recipe, &whole).unwrap();
        let keyer = Keyer::new(Dialect::Ia, policy, Hasher::Public);
        let hashing = Hashing::new(keyer, Dialect::Ia, &resources);
        let scan = Ranges::new(&hashing, Select::default());
        let scan = if world.list { scan.of_lists() } else { scan };
        let (hashed, outcome) = scan.read_at_random(&paths, world.random).unwrap();
        let reading = filter::Reading::of_ranges(outcome, world.list, &hashed);
        let keys = Keys::new(Hasher::Public, Dialect::Ia, policy);
        filter::write(&hashing, hashed, &reading, &Select::default(), keys, &recipe, &ranges).unwrap();
        prop_assert_eq!(fs::read(ranges).unwrap(), fs::read(whole).unwrap());
    }

    #[test]
    fn truths_are_the_same(world in worlds(), asked in prop::collection::vec("com,[ab]\\)/[ab]{0,2}", 0..30)) {
        let folder = tempfile::tempdir().unwrap();
        let paths = world.write(folder.path());
        let input = world.input(&paths, None);
        let list = folder.path().join("asked.txt");
        let held: BTreeSet<&String> = world.files.iter().flatten().map(|(surt, _)| surt).collect();
        let lines: Vec<&String> = asked.iter().chain(held.iter().copied().step_by(3)).collect();
        fs::write(&list, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
        let lookups = [Lookups::read(&Source::new(&list), Dialect::Ia).unwrap()];
        let (whole, whole_reading) = Holdings::new(input.clone()).truth(&lookups).unwrap();
        let (mut held, reading) = world.gather(&paths, &input);
        prop_assert_eq!(reading.urirs, whole_reading.urirs);
        prop_assert_eq!(reading.captures, whole_reading.captures);
        prop_assert_eq!(truth_of_held(&mut held, &lookups, world.memory, &Progress::default()).unwrap(), whole);
    }
}
