//! What maps answer: examples, voids, wildcards and frequencies.

use super::*;

#[test]
fn examples_of_the_papers_figures_answer_as_meant() {
    let figure = "!context [\"http://oduwsdl.github.io/contexts/ukvs\"]\n\
        !id {uri: \"http://archive.example.org/\"}\n\
        !fields {keys: [\"surt\"], values: [\"frequency\"]}\n\
        !meta {type: \"MementoMap\", name: \"A Test Web Archive\", year: 1996}\n\
        * 54321/20000\ncom,* 10000+\ncom,twitter)/ 250\ncom,twitter)/* 100\norg,arxiv)/ 100\norg,arxiv)/* 2500~/900\norg,arxiv)/pdf/* 0\nuk,co,bbc)/images/* 300+/20-\n";
    let (_folder, map) = opened(figure);
    let key = |surt: &str| {
        String::from_utf8(
            map.find(&Surt::new(surt.as_bytes()), None)
                .unwrap()
                .key
                .into_owned(),
        )
        .unwrap()
    };
    assert_eq!(key("com,twitter)/"), "com,twitter)/");
    assert_eq!(key("com,twitter)/a"), "com,twitter)/*");
    assert_eq!(key("com,other)/a"), "com,*");
    assert_eq!(key("net,other)/a"), "*");
    assert_eq!(key("org,arxiv)/pdf/1"), "org,arxiv)/pdf/*");
    assert!(
        !is_present(&map, "org,arxiv)/pdf/1"),
        "a void wins over the wildcard above it"
    );
    assert!(is_present(&map, "org,arxiv)/abs/1"));

    let dated = "!fields {keys: [\"surt\", \"datetime\"], values: [\"frequency\"]}\n\
        com,cnn)/* 2008 20\ncom,cnn)/* 2010:2012 30\norg,x)/ : 1\n";
    let (_folder, map) = opened(dated);
    let at = |surt: &str, time: &str| {
        let span = crate::map::Span::parse(time.as_bytes()).unwrap();
        map.find(&Surt::new(surt.as_bytes()), Some(&span))
            .map(|found| found.frequency.to_string())
    };
    assert_eq!(at("com,cnn)/a", "2008").as_deref(), Some("20"));
    assert_eq!(at("com,cnn)/a", "200805").as_deref(), Some("20"));
    assert_eq!(at("com,cnn)/a", "2009"), None);
    assert_eq!(at("com,cnn)/a", "2011").as_deref(), Some("30"));
    assert_eq!(at("com,cnn)/a", "2008:2011").as_deref(), Some("50"));
    assert_eq!(at("org,x)/", "1999").as_deref(), Some("1"));
}

#[test]
fn both_spellings_of_the_root_are_found_and_the_order_of_rows_does_not_matter() {
    for text in ["com,x) 1\n", "com,x)/ 1\n", "org,a)/ 2\ncom,x) 1\n"] {
        let (_folder, map) = opened(text);
        assert!(is_present(&map, "com,x)/"), "{text}");
        assert!(is_present(&map, "com,x)/?q"), "{text}");
        assert!(!is_present(&map, "com,x)/a"), "{text}");
    }
}

#[test]
fn voids_that_the_map_came_with_are_never_swallowed() {
    let mut text = String::new();
    for i in 10..60 {
        text += &format!("com,a)/b{i}/x 1\n");
    }
    text += "com,a)/c/* 0\ncom,a)/c/held 2\ncom,a)/d 0\n";
    for rule in [
        Rule::Papers(papers(0.0, 0.0)),
        least(Budget::Lambda(1e-9), None, false),
        least(Budget::Keys(4), None, false),
    ] {
        let out = compacted(&text, &rule, Style::Published);
        let (_folder, map) = opened(&out);
        assert!(is_present(&map, "com,a)/b10/x"));
        assert!(!is_present(&map, "com,a)/c/other"), "{out}");
        assert!(is_present(&map, "com,a)/c/held"), "{out}");
        assert!(!is_present(&map, "com,a)/d"), "{out}");
    }
}

#[test]
fn the_wildcard_of_the_empty_label_is_not_the_wildcard_of_everything() {
    let rules = [
        Rule::Papers(papers(0.0, 0.0)),
        least(Budget::Lambda(0.0), None, false),
        least(Budget::Lambda(5.0), None, false),
        least(Budget::Keys(1), None, false),
    ];
    for rule in &rules {
        let out = compacted("* 600/600\n,* 0\n", rule, Style::Published);
        assert_eq!(rows(&out), ["* 600/600", ",* 0"]);
        let out = compacted("* 0\n,* 600/600\n", rule, Style::Published);
        assert_eq!(rows(&out), ["* 0", ",* 600/600"]);
        let folder = TempDir::new().unwrap();
        let path = write_map(&folder, "a.ukvs", ",* 2/2\n::1)/a 1/1\ncom,a)/ 1/1\n");
        let small = folder.path().join("b.ukvs");
        compact(&mut given(&path), rule, Style::Published, &small, false).unwrap();
        let answers = answers(&small);
        for held in ["::1)/a", ")/x", ",a)/", "::2)/b", "com,a)/"] {
            assert!(is_present_in(&answers, held), "{held}: {answers:?}");
        }
    }
}

#[test]
fn frequencies_add_up_when_rows_partition_and_when_they_accumulate() {
    let text = "!meta {\"wildcards\": \"partition\"}\ncom,a)/ 1/1\ncom,a)/x 2/1\ncom,a)/y/* 30/9\ncom,a)/y/z 4/1\n";
    let out = compacted(
        text,
        &least(Budget::Lambda(0.0), None, false),
        Style::Published,
    );
    assert_eq!(rows(&out), ["com,a)/* 37/12"], "{out}");
    let cumulative = text.replace("partition", "accumulate");
    let out = compacted(
        &cumulative,
        &least(Budget::Lambda(0.0), None, false),
        Style::Published,
    );
    assert_eq!(rows(&out), ["com,a)/* 33/11"], "{out}");
}

#[test]
fn a_host_whose_wildcard_reads_like_a_bare_scheme_is_not_rolled_up_and_found_if_others_did() {
    let host = "a:00?b,c,d";
    let held = format!("{host},e)/ 1/1\n{host},f)/ 1/1\n");
    let small = by_papers(&held, papers(0.0, 0.0));
    assert!(!rows(&small).iter().any(|row| row.starts_with("a:00?b,*")));
    let (_folder, small) = opened(&small);
    let (_folder, given) = opened("a:00?b,* 2/2\n");
    for map in [small, given] {
        assert!(is_present(&map, "a:00?b,c,d,e)/"));
        assert!(is_present(&map, "a:00?b,c,d,f)/"));
    }
}
