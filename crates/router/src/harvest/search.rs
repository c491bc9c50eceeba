//! URIs in what a full-text search answers, whatever its format is.

use super::access_log::original_in;

/// The original URIs in a document, JSON or HTML: memento URIs give what they are mementos of, and
/// other URIs of the archive's own `hosts` are ignored.
pub fn uris_in(document: &str, hosts: &[String]) -> Vec<String> {
    // JSON escapes slashes, HTML ampersands.
    let document = document
        .replace("\\/", "/")
        .replace("\\u0026", "&")
        .replace("&amp;", "&");
    let mut found = Vec::new();
    let mut rest = &document[..];
    while let Some(at) = rest.find("http") {
        rest = &rest[at..];
        let is_uri = rest.starts_with("http://") || rest.starts_with("https://");
        let end = rest
            .find(|c: char| c.is_whitespace() || c.is_control() || "\"'<>\\`{}".contains(c))
            .unwrap_or(rest.len());
        let uri = &rest[..end];
        rest = &rest[end.max(4)..];
        if !is_uri {
            continue;
        }
        let host = host_of(uri);
        let own = hosts.iter().any(|own| own.eq_ignore_ascii_case(host));
        let original = match original_in(uri) {
            Some(original) => Some(original),
            None => (!own).then_some(uri),
        };
        if let Some(original) = original.and_then(crate::original_uri)
            && !found.contains(&original)
        {
            found.push(original);
        }
    }
    found
}

fn host_of(uri: &str) -> &str {
    let rest = uri.split_once("://").map_or(uri, |(_, rest)| rest);
    let end = rest.find(['/', '?', '#', ':']);
    &rest[..end.unwrap_or(rest.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_found_in_json_and_html() {
        let hosts = ["archive.example".to_owned()];
        let json = r#"{"next": "https:\/\/archive.example\/search?q=a&page=2", "items": [
            {"originalURL": "http:\/\/a.example\/x?a=1\u0026b=2", "link": "https://archive.example/wayback/20040102030405/http://b.example/"}]}"#;
        assert_eq!(
            uris_in(json, &hosts),
            ["http://a.example/x?a=1&b=2", "http://b.example/"]
        );
        let html = "<a href='http://c.example/?x&amp;y'>http</a> <a href=\"https://archive.example/about\">";
        assert_eq!(uris_in(html, &hosts), ["http://c.example/?x&y"]);
        assert!(uris_in("httphttp://", &hosts).is_empty());
    }
}
