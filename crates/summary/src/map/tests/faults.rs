//! Faults of the reference tool that maps do not have, by their numbers.

use super::*;

#[test]
fn b1_keys_behind_the_last_line_are_absent_and_end_nothing() {
    let (_folder, map) = opened("com,a)/ 1\n");
    assert!(is_present(&map, "com,a)/"));
    assert!(!is_present(&map, "zz,z)/"));
    // One without rows may have been cut.
    assert!(Map::from_bytes(Vec::new()).is_err());
    let whole = crate::ukvs::described(b"!meta {}\n", b"");
    assert!(!is_present(&Map::from_bytes(whole).unwrap(), "com,a)/"));
}

#[test]
fn b2_the_first_line_is_found() {
    let (_folder, map) = opened("br,com,* 5\ncom,a)/ 1\n");
    assert!(is_present(&map, "com,a)/"));
    assert!(is_present(&map, "br,com,x)/y"));
}

#[test]
fn b3_a_host_below_a_rolled_one_leaves_no_stale_lines() {
    let mut text = String::new();
    for i in 0..30 {
        text += &format!("com,a)/x{i:02} 1\n");
    }
    for i in 0..20 {
        text += &format!("com,a,b,h{i:02}) 1\n");
    }
    text += "com,b) 1\n";
    assert_eq!(
        by_papers(&text, papers(1.0, 1.0)),
        "com,a)/* 30\ncom,a,b,* 20\ncom,b) 1\n"
    );
}

#[test]
fn b4_children_are_counted_once() {
    let mut keys = Vec::new();
    for i in 0..10 {
        keys.extend([
            format!("com,a)/s{i}"),
            format!("com,a)/s{i}-1"),
            format!("com,a)/s{i}/1"),
        ]);
    }
    keys.sort();
    let text: String = keys.iter().map(|key| format!("{key} 1\n")).collect();
    assert_eq!(
        by_papers(&text, papers(1.0, 1.0)),
        text,
        "20 children are fewer than 24.5"
    );
}

#[test]
fn b5_queries_and_slashes_leave_no_disorder_and_no_key_twice() {
    let text = "com,a)/a 1\ncom,a)/a-b 1\ncom,a)/a/ 1\ncom,a)/a/b 1\ncom,a)/a?x 1\n";
    let out = by_papers(text, papers(f64::INFINITY, f64::INFINITY));
    assert_eq!(out, "com,a)/a 3\ncom,a)/a-b 1\ncom,a)/a/b 1\n");
}

#[test]
fn b6_double_slashes_skip_no_candidate() {
    let (_folder, map) = opened("com,example)/* 5\n");
    assert!(is_present(&map, "com,example)//a"));
    let (_folder, map) = opened("com,example,* 5\n");
    assert!(is_present(&map, "com,example)//a//b"));
}

#[test]
fn b7_single_labels_and_addresses_are_kept() {
    let text = "127.0.0.1) 1\n127.0.0.1)/a 1\nlocalhost)/a 2\nurn:x 3\n";
    assert_eq!(by_papers(text, papers(1.0, 1.0)), text);
    let (_folder, map) = opened("127.0.0.1)/* 1\nlocalhost)/* 2\n");
    assert!(is_present(&map, "127.0.0.1)/b"));
    assert!(is_present(&map, "localhost)/a/b"));
}

#[test]
fn b8_public_suffixes_can_be_kept() {
    let text: String = (10..21).map(|i| format!("uk,co,d{i}) 1\n")).collect();
    assert_eq!(
        by_papers(&text, papers(1.0, 1.0)),
        "uk,co,* 11\n",
        "as published"
    );
    let keep = Papers {
        keep_suffixes: true,
        ..papers(1.0, 1.0)
    };
    assert_eq!(by_papers(&text, keep), text);
}

#[test]
fn b9_headers_are_kept() {
    let out = compacted(
        "!meta {\"name\": \"A\"}\ncom,a)/ 1\n",
        &Rule::Papers(papers(1.0, 1.0)),
        Style::Published,
    );
    assert!(out.contains("\n!meta {\"name\": \"A\""), "{out}");
    assert!(out.ends_with("com,a)/ 1\n"));
}

#[test]
fn b10_and_b11_a_bad_line_is_an_error_with_its_place_and_leaves_no_file() {
    let folder = TempDir::new().unwrap();
    for (text, line) in [
        ("com,a)/ 1\ncom,b)/ -5\n", 2),
        ("com,a)/\n", 1),
        ("com,a)/ 1\n\0\u{1}\u{2}\n", 2),
    ] {
        let path = write_map(&folder, "bad.ukvs", text);
        let out = folder.path().join("out.ukvs");
        let error = compact(
            &mut given(&path),
            &Rule::Papers(papers(1.0, 1.0)),
            Style::Published,
            &out,
            false,
        )
        .unwrap_err();
        assert_eq!(error.place().line, Some(line), "{error}");
        assert!(!out.exists());
    }
}
