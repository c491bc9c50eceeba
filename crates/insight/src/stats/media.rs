//! Media types: groups, and those that are malformed.

/// The group that cdx-summary puts a media type in.
pub(super) fn group(mime: &str) -> &'static str {
    let mime = mime.to_lowercase();
    let (kind, subtype) = mime.split_once('/').unwrap_or((&mime, ""));
    let known = |part: &str| {
        Some(match part {
            "html" => "HTML",
            "image" => "Image",
            "css" => "CSS",
            "javascript" => "JavaScript",
            "json" => "JSON",
            "xml" => "XML",
            "plain" => "Text",
            "pdf" => "PDF",
            "font" => "Font",
            "audio" => "Audio",
            "video" => "Video",
            "revisit" => "Revisit",
            "other" => "Other",
            _ => return None,
        })
    };
    if let Some(group) = known(subtype).or_else(|| known(kind)) {
        group
    } else if subtype.starts_with("xhtml") {
        "HTML"
    } else if subtype.ends_with("+xml") || subtype.starts_with("xml-") {
        "XML"
    } else {
        "Other"
    }
}

/// The groups of cdx-summary.
pub(super) const GROUPS: [&str; 13] = [
    "HTML",
    "Image",
    "CSS",
    "JavaScript",
    "JSON",
    "XML",
    "Text",
    "PDF",
    "Font",
    "Audio",
    "Video",
    "Revisit",
    "Other",
];

/// The name of a media type, in lower case and without parameters.
pub(super) fn name(raw: &[u8]) -> String {
    let end = memchr::memchr2(b';', b' ', raw).unwrap_or(raw.len());
    let name = String::from_utf8_lossy(&raw[..end]).to_lowercase();
    if name.is_empty() {
        "-".to_owned()
    } else {
        name
    }
}

/// Whether it is a type and a subtype of the characters that RFC 9110 allows. A missing one (`-`)
/// and the types that indexers make up are not malformed.
pub(super) fn is_well_formed(name: &str) -> bool {
    let token = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    matches!(name, "-" | "unk" | "unknown" | "no-type")
        || name
            .split_once('/')
            .is_some_and(|(kind, subtype)| token(kind) && token(subtype))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_those_of_cdx_summary() {
        for (mime, expected) in [
            ("text/html", "HTML"),
            ("application/xhtml+xml", "HTML"),
            ("image/svg+xml", "Image"),
            ("application/rss+xml", "XML"),
            ("text/plain", "Text"),
            ("warc/revisit", "Revisit"),
            ("application/x-javascript", "Other"),
            ("-", "Other"),
        ] {
            assert_eq!(group(mime), expected, "{mime}");
        }
    }

    #[test]
    fn names_have_no_parameters_and_malformed_ones_are_found() {
        assert_eq!(name(b"Text/HTML; charset=utf-8"), "text/html");
        assert_eq!(name(b""), "-");
        assert!(is_well_formed("application/vnd.ms-excel") && is_well_formed("-"));
        for malformed in ["text", "text/", "/html", "text/html,text/html", "<a>/b"] {
            assert!(!is_well_formed(malformed), "{malformed}");
        }
    }
}
