//! Which request is meant by a path.

use std::borrow::Cow;

use crate::query::Api;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The list of collections.
    Collections,
    /// A request to a collection.
    Collection(String, Request),
}

/// What is requested of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// A query of the CDX server.
    Cdx(Api),
    /// `/COLL/timemap/FORMAT/URL`.
    TimeMap { format: String, url: String },
    /// `/COLL/timegate/URL` or `/COLL/URL`.
    TimeGate { url: String },
}

impl Route {
    /// The route of a path and its query string, which may belong to the URL at the end of the path.
    pub(crate) fn of(path: &str, query: Option<&str>) -> Option<Route> {
        let path = path.strip_prefix('/')?;
        if path.is_empty() {
            return Some(Route::Collections);
        }
        let (collection, rest) = path.split_once('/')?;
        let collection = collection.to_owned();
        if collection.is_empty() {
            return None;
        }
        let api = match rest.trim_end_matches('/') {
            "index" | "cdx" => Some(Api::Pywb),
            "cdx/search/cdx" | "search/cdx" => Some(Api::Wayback),
            _ => None,
        };
        if let Some(api) = api {
            return Some(Route::Collection(collection, Request::Cdx(api)));
        }
        let whole = |url: &str| {
            let url = match query {
                Some(query) => format!("{url}?{query}"),
                None => url.to_owned(),
            };
            with_scheme(Cow::Owned(url)).map(Cow::into_owned)
        };
        if let Some(rest) = rest.strip_prefix("timemap/") {
            let (format, url) = rest.split_once('/')?;
            let request = Request::TimeMap {
                format: format.to_owned(),
                url: whole(url)?,
            };
            return Some(Route::Collection(collection, request));
        }
        let url = match rest.strip_prefix("timegate/") {
            Some(url) => whole(url)?,
            None => {
                let url = without_modifier(rest);
                // Anything else is not a URL but a page that does not exist.
                let encoded = url.to_ascii_lowercase();
                if !["http:", "https:", "http%3a", "https%3a"]
                    .iter()
                    .any(|scheme| encoded.starts_with(scheme))
                {
                    return None;
                }
                whole(url)?
            }
        };
        Some(Route::Collection(collection, Request::TimeGate { url }))
    }

    /// Its kind, for metrics.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Route::Collections => "collections",
            Route::Collection(_, Request::Cdx(_)) => "cdx",
            Route::Collection(_, Request::TimeMap { .. }) => "timemap",
            Route::Collection(_, Request::TimeGate { .. }) => "timegate",
        }
    }
}

/// pywb's `mp_/` and `id_/` before a URL.
fn without_modifier(rest: &str) -> &str {
    match rest.split_once('/') {
        Some((modifier, url))
            if modifier.len() == 3
                && modifier.ends_with('_')
                && modifier[..2].bytes().all(|byte| byte.is_ascii_lowercase()) =>
        {
            url
        }
        _ => rest,
    }
}

/// The URL, decoded if it was encoded as a whole; `None` if it is empty.
pub(crate) fn with_scheme(url: Cow<'_, str>) -> Option<Cow<'_, str>> {
    if url.is_empty() {
        return None;
    }
    let encoded = ["http%3a", "https%3a"].iter().any(|scheme| {
        let start = url.as_bytes().get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme.as_bytes()))
    });
    if !encoded {
        return Some(url);
    }
    let query = format!("url={}", url.replace('+', "%2B"));
    let url = crate::parameters::Parameters::parse(&query).text("url");
    url.map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timegate(url: &str) -> Option<Route> {
        let url = url.to_owned();
        Some(Route::Collection(
            "test".to_owned(),
            Request::TimeGate { url },
        ))
    }

    #[test]
    fn paths_name_a_collection_and_what_is_wanted_of_it() {
        let cdx = |api| Some(Route::Collection("test".to_owned(), Request::Cdx(api)));
        assert_eq!(Route::of("/", None), Some(Route::Collections));
        assert_eq!(Route::of("/test/index", Some("url=a")), cdx(Api::Pywb));
        assert_eq!(Route::of("/test/cdx", None), cdx(Api::Pywb));
        assert_eq!(Route::of("/test/cdx/search/cdx", None), cdx(Api::Wayback));
        let timemap = Request::TimeMap {
            format: "link".to_owned(),
            url: "http://a.com/?b=c".to_owned(),
        };
        let timemap = Route::Collection("test".to_owned(), timemap);
        let path = "/test/timemap/link/http://a.com/";
        assert_eq!(Route::of(path, Some("b=c")), Some(timemap));
        for path in [
            "/test",
            "/test/",
            "/test/favicon.ico",
            "//index",
            "/test/timemap/link/",
        ] {
            assert_eq!(Route::of(path, None), None, "{path}");
        }
    }

    #[test]
    fn a_timegate_is_asked_with_or_without_its_name() {
        let url = "http://a.com/x+y";
        for path in [
            "/test/http://a.com/x+y",
            "/test/mp_/http://a.com/x+y",
            "/test/timegate/http://a.com/x+y",
            "/test/timegate/http%3A%2F%2Fa.com%2Fx+y",
        ] {
            assert_eq!(Route::of(path, None), timegate(url), "{path}");
        }
        assert_eq!(Route::of("/test/timegate/a.com", None), timegate("a.com"));
    }
}
