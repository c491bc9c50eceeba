//! What pywb finds instead of a URI that it does not have.
//!
//! By its general rule, pywb finds captures whose URL differs only in parameters that change with every
//! request (`utm_…`, `_`, callbacks, time stamps), and, for files and a few media types, in the query
//! altogether. A filter with such keys has, for each capture, up to two more:
//!
//! | key | of captures | found by |
//! |---|---|---|
//! | `com,a)/b?c=1`, without those parameters | that have some | lookups that are the same without them |
//! | `com,a)/b.css?` | whose query is ignored | lookups with the same path |
//!
//! For some sites pywb has rules of their own, which may find other paths and hosts. There, nothing is
//! ever absent.

use waypost_surt::Policy;

use crate::summary::{Kind, Summary};

/// The starts of SURTs for which pywb 2.10 has rules of their own.
const SITES: [&str; 32] = [
    "co,vine,cdn,",
    "com,blogspot,",
    "com,disqus)/embed/comments",
    "com,example)/matched",
    "com,facebook)/",
    "com,google,plus)/_/",
    "com,googleapis,plus)/u/0/_/widget/render/comments",
    "com,googlevideo,",
    "com,instagram)/",
    "com,readspeaker,app)/enterprise/iframeproxy",
    "com,sndcdn,cf-media)/",
    "com,staticflickr,",
    "com,twitter)/i/",
    "com,vimeo,av)/",
    "com,vimeo,player)/",
    "com,vimeocdn,",
    "com,yahooapis,yui)/combo",
    "com,yimg,l)/g/combo",
    "com,yimg,s)/pw/combo",
    "com,youtube)/comment_ajax",
    "com,youtube)/embed",
    "com,youtube)/get_video_info",
    "com,youtube)/watch_fragments_ajax",
    "com,youtube)/youtubei/v1",
    "com,youtube,c",
    "com,youtube,s)/api/stats/",
    "com,youtube-nocookie)/",
    "example,example,test)/",
    "example,example,test,",
    "metadata)/player.vimeo.com/",
    "net,akamaized,",
    "net,fastly,",
];

/// The ends of files whose query pywb does not ignore.
const PROGRAMS: [&[u8]; 7] = [b"asp", b"aspx", b"jsp", b"php", b"pl", b"exe", b"dll"];

/// The media types whose query it ignores.
const STREAMS: [&[u8]; 4] = [
    b"application/x-shockwave-flash",
    b"application/dash+xml",
    b"application/x-mpegURL",
    b"application/vnd.apple.mpegurl",
];

/// Whether a summary that has nothing for a lookup says that pywb does not find anything else either.
pub fn is_absent_in_pywb(summary: &dyn Summary, surt: &[u8]) -> bool {
    let has_own_rule = SITES.iter().any(|site| surt.starts_with(site.as_bytes()));
    let about = summary.about();
    let ignores_queries = match (summary.kind(), about.policy) {
        (_, Some(policy)) => matches!(policy, Policy::Prefix { .. }),
        (Kind::Map, None) => !summary.has_whole_uris(),
        _ => false,
    };
    !has_own_rule && (ignores_queries || about.scopes.is_fuzzy())
}

/// The other keys of a capture. `key` is its key in the index, which says whether it was sent with data.
pub(crate) fn keys_of_capture(surt: &[u8], url: &[u8], mime: &[u8], key: &[u8]) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let path = url.split(|&byte| byte == b'?').next().unwrap_or_default();
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let mut parts = name.rsplitn(2, |&byte| byte == b'.');
    let ending = parts.next().filter(|ending| !ending.is_empty());
    let is_file =
        parts.next().is_some() && ending.is_some_and(|ending| !PROGRAMS.contains(&ending));
    let is_sent = memchr::memmem::find(key, b"__wb_").is_some();
    let steady = without_ignored(surt);
    if steady != surt {
        keys.push(steady);
    }
    if is_file || is_sent || STREAMS.contains(&mime) {
        keys.push(any_query(surt));
    }
    keys
}

/// The other keys of a lookup.
pub(crate) fn keys_of_lookup(surt: &[u8]) -> [Vec<u8>; 2] {
    [without_ignored(surt), any_query(surt)]
}

/// The key of all captures with the path of a SURT whose query is ignored.
fn any_query(surt: &[u8]) -> Vec<u8> {
    let end = memchr::memchr(b'?', surt).unwrap_or(surt.len());
    [&surt[..end], b"?"].concat()
}

/// A SURT without the parameters that pywb ignores. It leaves out no less than pywb.
fn without_ignored(surt: &[u8]) -> Vec<u8> {
    let end = memchr::memchr(b'?', surt).unwrap_or(surt.len());
    let (path, query) = surt.split_at(end);
    let mut out = path.to_vec();
    let mut parameters = query
        .get(1..)
        .unwrap_or_default()
        .split(|&byte| byte == b'&');
    while let Some(parameter) = parameters.next() {
        // It ignores all that follows, too.
        if parameter.starts_with(b"fbclid=") {
            break;
        }
        if parameter.starts_with(b"utm_") && !parameter.contains(&b'=') {
            parameters.next();
        } else if !is_ignored(parameter) && !query.is_empty() {
            out.push(if out.len() == end { b'?' } else { b'&' });
            out.extend_from_slice(parameter);
        }
    }
    out
}

fn is_ignored(parameter: &[u8]) -> bool {
    let Some(equals) = memchr::memchr(b'=', parameter) else {
        return false;
    };
    let (name, value) = (&parameter[..equals], &parameter[equals + 1..]);
    let has = |part: &[u8]| memchr::memmem::find(name, part).is_some();
    let is_time = value.starts_with(b"1") && value.iter().all(u8::is_ascii_digit);
    matches!(name, b"_" | b"cb" | b"uncache")
        || name.starts_with(b"utm_")
        || value.starts_with(b"jsonp")
        || value.starts_with(b"jquery")
        || (is_time && (has(b"bust") || has(b"ts")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_that_change_with_every_request_are_left_out() {
        for (surt, expected) in [
            ("com,a)/", "com,a)/"),
            ("com,a)/b?c=1", "com,a)/b?c=1"),
            ("com,a)/b?_=1234", "com,a)/b"),
            ("com,a)/b?_=1234&c=1&utm_source=x&z=2", "com,a)/b?c=1&z=2"),
            ("com,a)/b?callback=jsonp7&c=1", "com,a)/b?c=1"),
            ("com,a)/b?callback=jquery17_12&c", "com,a)/b?c"),
            ("com,a)/b?c=1&fbclid=x&z=2", "com,a)/b?c=1"),
            ("com,a)/b?cachebust=1234567890123&x=12", "com,a)/b?x=12"),
            ("com,a)/b?c=?d", "com,a)/b?c=?d"),
        ] {
            assert_eq!(
                without_ignored(surt.as_bytes()),
                expected.as_bytes(),
                "{surt}"
            );
        }
    }

    #[test]
    fn queries_of_files_are_ignored() {
        let keys = |url: &str, mime: &str| {
            let surt = b"com,a)/b?c=1";
            keys_of_capture(surt, url.as_bytes(), mime.as_bytes(), surt).len()
        };
        assert_eq!(keys("http://a.com/b.css?c=1", "text/css"), 1);
        assert_eq!(keys("http://a.com/b.php?c=1.x", "text/html"), 0);
        assert_eq!(keys("http://a.com/b?c=1.x", "text/html"), 0);
        assert_eq!(keys("http://a.com/b?c=1", "application/dash+xml"), 1);
        assert_eq!(any_query(b"com,a)/b?c=1"), b"com,a)/b?");
    }
}
