//! What is requested by a path.

use std::borrow::Cow;

use crate::route::with_scheme;

/// What is requested.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route<'a> {
    Archives,
    Batch,
    Aggregate(Cow<'a, str>),
    Add(&'a str),
    Lookup(&'a str, Cow<'a, str>),
}

impl<'a> Route<'a> {
    /// The route of a path and its query string, which belongs to the URI at the end of the path.
    pub(super) fn of(target: &'a str) -> Option<Route<'a>> {
        let path = target.split('?').next().unwrap_or_default();
        let rest = target.strip_prefix('/')?;
        match path {
            "/" => return Some(Route::Archives),
            "/lookup" => return Some(Route::Batch),
            _ => {}
        }
        if let Some(uri) = rest.strip_prefix("bloom/agg/") {
            return Some(Route::Aggregate(whole(uri)?));
        }
        match rest.split_once('/')? {
            (archive, _) if archive.contains('?') => None,
            (archive, uri) if uri.split('?').next() == Some("add") => Some(Route::Add(archive)),
            (archive, uri) => Some(Route::Lookup(archive, whole(uri)?)),
        }
    }

    /// Its kind, for metrics.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Route::Archives => "archives",
            Route::Batch => "batch",
            Route::Aggregate(_) => "aggregate",
            Route::Add(_) => "add",
            Route::Lookup(..) => "lookup",
        }
    }

    /// The methods that are allowed.
    pub(super) fn methods(&self) -> &'static str {
        match self {
            Route::Batch | Route::Add(_) => "POST",
            _ => "GET, HEAD",
        }
    }
}

/// The URI at the end of a path, with its query string; `None` if it is empty.
fn whole(uri: &str) -> Option<Cow<'_, str>> {
    // A query string alone is not a URI.
    match uri.starts_with('?') {
        true => None,
        false => with_scheme(with_slashes(uri)),
    }
}

/// Some proxies merge the slashes of `http://`.
fn with_slashes(uri: &str) -> Cow<'_, str> {
    for scheme in ["http:/", "https:/"] {
        if let Some(rest) = uri.strip_prefix(scheme)
            && !rest.starts_with('/')
        {
            return Cow::Owned(format!("{scheme}/{rest}"));
        }
    }
    Cow::Borrowed(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_an_archive_and_a_uri() {
        let lookup = |uri: &'static str| Some(Route::Lookup("haw", uri.into()));
        for (path, route) in [
            ("/haw/http://a.hr/b", lookup("http://a.hr/b")),
            ("/haw/http://a.hr/?c=d", lookup("http://a.hr/?c=d")),
            ("/haw/https:/a.hr/", lookup("https://a.hr/")),
            ("/haw/http%3A%2F%2Fa.hr%2F", lookup("http://a.hr/")),
            ("/haw/a.hr", lookup("a.hr")),
            ("/haw/add", Some(Route::Add("haw"))),
            ("/lookup", Some(Route::Batch)),
            ("/", Some(Route::Archives)),
            (
                "/bloom/agg/http://a.hr/",
                Some(Route::Aggregate("http://a.hr/".into())),
            ),
            ("/haw/", None),
            ("/haw/?a=b", None),
            ("/haw?a=/b", None),
            ("/lookup?x", Some(Route::Batch)),
            ("/haw/add?x", Some(Route::Add("haw"))),
            ("/haw", None),
            ("/bloom/agg/", None),
        ] {
            assert_eq!(Route::of(path), route, "{path}");
        }
    }
}
