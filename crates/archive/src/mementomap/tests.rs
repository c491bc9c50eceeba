use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;

use flate2::read::GzDecoder;
use waypost_net::{Cache, Client, ClientOptions};

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

/// A server of a map in pages of 2,000 bytes, whose answers `change` may alter, and its URL.
fn serve(
    text: &str,
    change: impl Fn(&str, &mut Vec<String>, &mut String) + Send + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}/", listener.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.ukvs");
    fs::write(&path, text).unwrap();
    let map = ServedMap::open(&path, 2000).unwrap();
    std::thread::spawn(move || {
        let _folder = folder;
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let request = lines.next().unwrap().unwrap();
            for _ in lines
                .map(Result::unwrap)
                .take_while(|line| !line.is_empty())
            {}
            let path = request.split(' ').nth(1).unwrap().trim_start_matches('/');
            let answer = get(&map, path, &[]);
            let mut links = vec![format!("Link: {}", header(&answer, LINK))];
            links.push(format!("Last-Modified: {}", header(&answer, LAST_MODIFIED)));
            let mut body = String::from_utf8(answer.body().to_vec()).unwrap();
            change(path, &mut links, &mut body);
            let head = links.join("\r\n");
            let length = body.len();
            // A client that has what it wants hangs up.
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nConnection: close\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}"
            );
        }
    });
    format!("{base}{WELL_KNOWN}")
}

fn downloaded(url: &str, most: u64) -> Result<String> {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::new(ClientOptions::default()).unwrap();
    let cache = Cache::new(client.clone(), folder.path());
    let fetched = download(&client, &cache, url, most, |_| Ok(()));
    if fetched.is_err() {
        assert!(!cache.path_of(url).unwrap().exists(), "nothing is left");
    }
    Ok(fs::read_to_string(fetched?.path).unwrap())
}

#[test]
fn all_pages_are_downloaded_or_nothing() {
    let text = rows(500);
    assert_eq!(
        downloaded(&serve(&text, |_, _, _| {}), 1 << 20).unwrap(),
        text
    );
    type Change = fn(&str, &mut Vec<String>, &mut String);
    let faults: [(&str, Change); 8] = [
        ("is not the last page", |path, links, _| {
            if path.ends_with("=4") {
                links[0] = links[0].replace("\"next\"", "\"other\"");
            }
        }),
        ("changed while", |path, _, body| {
            if path.ends_with("=3") {
                *body = body.replace("frequency", "freq");
            }
        }),
        ("changed while", |path, links, _| {
            if path.ends_with("=3") {
                links[1] = "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT".to_owned();
            }
        }),
        ("a page without rows", |path, _, body| {
            if path.ends_with("=3") {
                body.truncate(body.find('\n').unwrap() + 1);
            }
        }),
        ("in the middle of a line", |path, _, body| {
            if path.ends_with("=3") {
                body.truncate(body.len() - 5);
            }
        }),
        ("in the middle of a line", |_, links, body| {
            if !links[0].contains("\"next\"") {
                body.truncate(body.len() - 5);
            }
        }),
        ("a link to another host", |path, links, _| {
            if path.ends_with("=2") {
                links[0] = links[0].replace("</.well-known", "<http://10.0.0.1/.well-known");
            }
        }),
        ("the file has more than", |_, _, _| {}),
    ];
    for (expected, change) in faults {
        let most = if expected.starts_with("the file") {
            4096
        } else {
            1 << 20
        };
        let error = downloaded(&serve(&text, change), most).unwrap_err();
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    }
}

#[test]
fn the_filter_of_a_map_is_served_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.ukvs.gz");
    let text = "!fields {}\n!meta {\"filter\": \"0123456789abcdef\"}\ncom,a)/* 2/1\n";
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(text.as_bytes()).unwrap();
    fs::write(&path, packed.finish().unwrap()).unwrap();
    assert!(
        ServedMap::open(&path, PAGE).is_err(),
        "its filter is missing"
    );
    let filter = folder.path().join("own.ukvs.0123456789abcdef.filter");
    fs::write(filter, "a filter").unwrap();
    let map = ServedMap::open(&path, PAGE).unwrap();
    let answer = get(&map, &format!("{WELL_KNOWN}.0123456789abcdef.filter"), &[]);
    assert_eq!(&answer.body()[..], b"a filter");
    let other = get(&map, &format!("{WELL_KNOWN}.0123456789abcdee.filter"), &[]);
    assert_eq!(other.status(), 404);
}
