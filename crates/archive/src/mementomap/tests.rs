use std::fs;

use flate2::read::GzDecoder;
use std::io::Read;

use super::*;

const BASE: &str = "http://archive.example/";

fn rows(count: usize) -> String {
    let mut text = String::from("!fields {keys: [\"surt\"], values: [\"frequency\"]}\n");
    for number in 0..count {
        text.push_str(&format!("com,host{number:04})/* {}/{}\n", number + 2, 1));
    }
    text
}

fn get(map: &ServedMap, path: &str, headers: &[(HeaderName, &str)]) -> Response<Bytes> {
    let (path, query) = match path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path, None),
    };
    let mut request = HeaderMap::new();
    for (name, value) in headers {
        request.insert(name, value.parse().unwrap());
    }
    let part = MapPart::of(path, query).unwrap();
    map.answer(part, &request, BASE).unwrap()
}

fn header(answer: &Response<Bytes>, name: HeaderName) -> String {
    let value = answer.headers().get(name).unwrap();
    value.to_str().unwrap().to_owned()
}

#[test]
fn a_small_map_is_served_whole_gzipped_and_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.ukvs");
    let text = rows(20);
    fs::write(&path, &text).unwrap();
    let map = ServedMap::open(&path, PAGE).unwrap();
    let answer = get(&map, WELL_KNOWN, &[]);
    assert_eq!(answer.status(), 200);
    assert_eq!(&answer.body()[..], text.as_bytes());
    let etag = header(&answer, ETAG);
    let again = get(
        &map,
        WELL_KNOWN,
        &[(IF_NONE_MATCH, &format!("\"x\", {etag}"))],
    );
    assert_eq!(
        (again.status(), again.body().len()),
        (StatusCode::NOT_MODIFIED, 0)
    );
    let part = get(&map, WELL_KNOWN, &[(RANGE, "bytes=5-9"), (IF_RANGE, &etag)]);
    assert_eq!(part.status(), 206);
    assert_eq!(&part.body()[..], &text.as_bytes()[5..10]);
    assert_eq!(
        header(&part, CONTENT_RANGE),
        format!("bytes 5-9/{}", text.len())
    );
    let beyond = get(&map, WELL_KNOWN, &[(RANGE, "bytes=999999-")]);
    assert_eq!(beyond.status(), 416);
    let packed = get(&map, ".well-known/mementomap.gz", &[]);
    let mut inflated = String::new();
    GzDecoder::new(&packed.body()[..])
        .read_to_string(&mut inflated)
        .unwrap();
    assert_eq!(inflated, text);
    assert_eq!(
        header(&packed, LINK),
        "<http://archive.example/.well-known/mementomap>; rel=\"mementomap\""
    );
    assert_eq!(MapPart::of(".well-known/other", None), None);
}

#[test]
fn pages_of_a_large_map_are_maps_that_make_up_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.ukvs");
    let text = rows(500);
    fs::write(&path, &text).unwrap();
    let map = ServedMap::open(&path, 2000).unwrap();
    let first_line = text.lines().next().unwrap();
    let (mut page, mut seen) = (1, Vec::new());
    loop {
        let answer = get(&map, &format!("{WELL_KNOWN}?page={page}"), &[]);
        assert_eq!(answer.status(), 200);
        let body = String::from_utf8(answer.body().to_vec()).unwrap();
        let mut lines = body.lines();
        assert_eq!(lines.next(), Some(first_line));
        let rows: Vec<String> = lines.map(str::to_owned).collect();
        assert!(waypost_summary::from_bytes(body.clone().into_bytes()).is_ok());
        let links = header(&answer, LINK);
        assert!(
            links.contains("rel=\"first\"; from=\"com,host0000)/*\""),
            "{links}"
        );
        assert_eq!(links.contains("rel=\"prev\""), page > 1);
        seen.extend(rows);
        if !links.contains("rel=\"next\"") {
            assert!(links.contains(&format!("page={page}>; rel=\"last\"")));
            assert!(links.contains("until=\"com,host0499)/*\""));
            break;
        }
        page += 1;
    }
    assert!(page > 3);
    let all: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
    assert_eq!(seen, all);
    assert_eq!(
        get(&map, &format!("{WELL_KNOWN}?page={}", page + 1), &[]).status(),
        404
    );
    assert_eq!(
        get(&map, &format!("{WELL_KNOWN}?page=x"), &[]).status(),
        404
    );
}

#[test]
fn a_new_map_is_served_and_garbage_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.ukvs");
    fs::write(&path, rows(3)).unwrap();
    let map = ServedMap::open(&path, PAGE).unwrap();
    let before = header(&get(&map, WELL_KNOWN, &[]), ETAG);
    let other = folder.path().join("new");
    fs::write(&other, rows(4)).unwrap();
    fs::rename(&other, &path).unwrap();
    let answer = get(&map, WELL_KNOWN, &[]);
    assert_ne!(header(&answer, ETAG), before);
    assert_eq!(answer.body().len(), rows(4).len());
    fs::write(&path, b"\x00garbage").unwrap();
    assert_eq!(get(&map, WELL_KNOWN, &[]).body().len(), rows(4).len());
    fs::remove_file(&path).unwrap();
    assert_eq!(get(&map, WELL_KNOWN, &[]).body().len(), rows(4).len());
    fs::write(&path, b"\x00garbage").unwrap();
    assert!(ServedMap::open(&path, PAGE).is_err());
}
