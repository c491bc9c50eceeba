//! Any bytes that an archive sends are a document or an error, and any headers are a TimeGate's answer;
//! what is found in them is on the Web.
#![no_main]

use http::header::{HeaderMap, HeaderName, HeaderValue};
use libfuzzer_sys::fuzz_target;
use url::Url;
use waypost_router::ask::{document, timegate};

const NAMES: [&str; 4] = ["link", "location", "content-location", "memento-datetime"];

fuzz_target!(|input: (u16, &[u8])| {
    let (choice, bytes) = input;
    let types = [
        "application/link-format",
        "application/json",
        "text/x-cdxj",
        "text/plain",
    ];
    let content_type = types.get(usize::from(choice % 5)).copied();
    let base = Url::parse("http://a.example/timemap/link/http://b.example/").expect("a URL");
    let replay = "http://a.example/{timestamp}/{url}".parse().ok();
    if let Ok(document) = document::read(content_type, bytes, &base, replay.as_ref()) {
        assert!(document.mementos.iter().all(|m| is_web(&m.uri)));
        assert!(!document.pages.contains(&base));
    }

    let mut headers = HeaderMap::new();
    for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let name = NAMES[(number + usize::from(choice)) % NAMES.len()];
        if let Ok(value) = HeaderValue::from_bytes(line) {
            headers.append(HeaderName::from_static(name), value);
        }
    }
    for status in [200, 302, 404, choice] {
        let gate = timegate::read(status, &headers, &base, "http://b.example/");
        assert!(gate.mementos.iter().all(|m| is_web(&m.uri)));
    }
});

fn is_web(uri: &str) -> bool {
    let uri = uri.to_ascii_lowercase();
    uri.starts_with("http://") || uri.starts_with("https://")
}
