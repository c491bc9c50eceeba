//! Classic Bloom filters: whatever form they take, every URL is found again.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use waypost_io::Source;
use waypost_summary::filter::orestes::{
    ClassicFilter, ExportOptions, Form, ImportOptions, Method, Shape, Split, export, import,
};
use waypost_summary::filter::{Input, Metadata};
use waypost_summary::{Lookup, Presence, Summary};

fn write_list(folder: &Path, urls: &BTreeSet<String>) -> [Source; 1] {
    let list = folder.join("urls.txt");
    let lines: String = urls.iter().map(|url| format!("{url}\n")).collect();
    fs::write(&list, lines).unwrap();
    [Source::new(list)]
}

fn exported(folder: &Path, urls: &BTreeSet<String>, options: &ExportOptions) -> ClassicFilter {
    let sources = write_list(folder, urls);
    let out = folder.join("exported");
    let (report, reading) = export(Input::new(&sources), options, &out).unwrap();
    assert_eq!(report.urls, urls.len() as u64);
    assert_eq!(reading.without_url, 0);
    let file = match options.form {
        Form::Binary => out,
        Form::Text | Form::Json => {
            let file = folder.join("imported");
            import(&out, &ImportOptions::default(), &file).unwrap();
            file
        }
    };
    ClassicFilter::open(&file).unwrap()
}

fn urls() -> impl Strategy<Value = BTreeSet<String>> {
    let url = "https?://[a-z]{1,8}\\.example/[a-zA-Z0-9/._-]{0,20}(\\?[a-z=&]{1,8})?";
    proptest::collection::btree_set(url, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn every_exported_url_is_found_in_every_form(
        urls in urls(),
        split in proptest::sample::select(Split::ALL.to_vec()),
        form in proptest::sample::select(vec![Form::Text, Form::Json, Form::Binary]),
        hashes in proptest::option::of(1u32..9),
        rate in 0.0001f64..0.5,
        capacity in 0u64..2000,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let options = ExportOptions { split, form, hashes, rate, capacity, ..Default::default() };
        let filter = exported(folder.path(), &urls, &options);
        prop_assert_eq!(filter.split(), split);
        for url in &urls {
            prop_assert!(filter.contains(url.as_bytes()).unwrap());
            let mut buffer = Vec::new();
            let lookup = Lookup::new(url.as_bytes(), Default::default(), &mut buffer).unwrap();
            prop_assert_eq!(filter.lookup(&lookup).unwrap().presence(), Presence::Present);
        }
    }

    #[test]
    fn a_damaged_file_is_an_error_or_gives_the_same_answers(
        urls in urls(),
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
        cut in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let options = ExportOptions { form: Form::Binary, ..Default::default() };
        drop(exported(folder.path(), &urls, &options));
        let mut bytes = fs::read(folder.path().join("exported")).unwrap();
        let at = at.index(bytes.len());
        match cut {
            true => bytes.truncate(at),
            false => bytes[at] ^= 1 << bit,
        }
        if let Ok(filter) = ClassicFilter::from_bytes(bytes) {
            for url in &urls {
                prop_assert!(filter.contains(url.as_bytes()).unwrap_or(true));
            }
        }
    }
}

#[test]
fn the_rate_is_that_of_the_formula() {
    let folder = tempfile::tempdir().unwrap();
    let urls: BTreeSet<String> = (0..20_000)
        .map(|n| format!("http://in.example/{n}"))
        .collect();
    let options = ExportOptions {
        form: Form::Binary,
        ..Default::default()
    };
    let filter = exported(folder.path(), &urls, &options);
    let tries = 200_000;
    let found = (0..tries)
        .filter(|n| {
            filter
                .contains(format!("http://out.example/{n}").as_bytes())
                .unwrap()
        })
        .count() as f64;
    let expected = filter.rate() * f64::from(tries);
    // The fullest filter has 1%, the others have fewer URLs.
    assert!(
        (0.006..=0.0101).contains(&filter.rate()),
        "{}",
        filter.rate()
    );
    assert!(
        (found - expected).abs() < 4.0 * expected.sqrt(),
        "{found} for {expected}"
    );
}

#[test]
fn a_filter_larger_than_the_memory_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let urls: BTreeSet<String> = (0..3000)
        .map(|n| format!("http://in.example/{n}"))
        .collect();
    let sources = write_list(folder.path(), &urls);
    let options = ExportOptions {
        split: Split::One,
        // 4.5 MB, in windows of 1 MB.
        capacity: 4_000_000,
        ..Default::default()
    };
    let mut written = Vec::new();
    for memory in [1, 1 << 30] {
        let out = folder.path().join(memory.to_string());
        let mut input = Input::new(&sources);
        input.resources.memory = memory;
        export(input, &options, &out).unwrap();
        written.push(fs::read(out).unwrap());
    }
    assert!(written[0].len() > 4_000_000);
    assert!(written[0] == written[1]);
}

#[test]
fn metadata_and_counts_survive_the_text_form() {
    let folder = tempfile::tempdir().unwrap();
    let urls = BTreeSet::from(["http://a.example/".to_owned()]);
    let mut metadata = Metadata::default();
    metadata.add("title", "A, \"B\" and\nC").unwrap();
    let options = ExportOptions {
        metadata,
        ..Default::default()
    };
    let filter = exported(folder.path(), &urls, &options);
    assert_eq!(filter.metadata().get("title"), ["A, \"B\" and C"]);
    assert_eq!(filter.urls(), Some(1));
    assert_eq!(filter.about().archive.name.first(), Some("A, \"B\" and C"));
}

#[test]
fn files_of_others_and_nonsense() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("in"), folder.path().join("out"));
    let import_text = |text: &str, options: &ImportOptions| {
        fs::write(&path, text).unwrap();
        import(&path, options, &out)
    };
    let default = ImportOptions::default();
    // Bit 3 and bit 9 of 16, as Java's BitSet has them; Gson may escape the padding.
    for json in [
        r#"{"m":16,"h":1,"b":"CAI="}"#,
        r#"{"b":"CAI\u003d","h":1,"m":16}"#,
        r#"{"m":16,"h":1,"b":"CAI"}"#,
    ] {
        import_text(json, &default).unwrap();
        let filter = ClassicFilter::open(&out).unwrap();
        assert_eq!(filter.bits(0), [0b1000, 0b10]);
        assert_eq!(filter.urls(), None);
    }
    // A short prefix and base64: what the published file probably is.
    let shape = Shape {
        bits: 16,
        hashes: 1,
    };
    let given = ImportOptions {
        shape: Some(shape),
        method: Some(Method::Md5),
        ..Default::default()
    };
    for text in ["x,16,1,CAI=\n", "CAI=", "1;\"CAI=\"\n"] {
        import_text(text, &given).unwrap();
        assert_eq!(
            ClassicFilter::open(&out).unwrap().bits(0),
            [0b1000, 0b10],
            "{text}"
        );
    }
    fs::remove_file(&out).unwrap();
    let row = |row: &str| format!("name,hash,m,k,n,bits\n{row}\n");
    for wrong in [
        String::new(),
        "CAI=".to_owned(),
        r#"{"m":16,"h":1}"#.to_owned(),
        r#"{"m":0,"h":1,"b":""}"#.to_owned(),
        r#"{"m":16,"h":1,"b":"CAIC"}"#.to_owned(),
        r#"{"m":9,"h":1,"b":"CAI="}"#.replace("CAI=", "AAQ="),
        r#"{"m":99999999999,"h":1,"b":""}"#.to_owned(),
        r#"{"m":16,"h":0,"b":""}"#.to_owned(),
        r#"{"m":16,"h":1,"b":"C*I="}"#.to_owned(),
        row("all,Murmur3,16,1,0"),
        row("all,SHA1,16,1,0,CAI="),
        row("b,Murmur3,16,1,0,CAI="),
        row("all,Murmur3,16,1,0,CAI=\nall,Murmur3,16,1,0,CAI="),
    ] {
        let error = import_text(&wrong, &default).unwrap_err();
        assert!(
            error.to_string().contains(path.to_str().unwrap()),
            "{error}"
        );
        assert!(!out.exists(), "{wrong}");
    }
}

#[test]
fn a_file_that_is_shorter_than_its_head_is_an_error() {
    let mut bytes = b"WPORESTE\x01\x00".to_vec();
    bytes.resize(44, 0);
    // Where the table starts, in the trailer.
    bytes[28..36].copy_from_slice(&0u64.to_le_bytes());
    bytes.extend_from_slice(b"WPORESTE");
    assert!(ClassicFilter::from_bytes(bytes).is_err());
}
