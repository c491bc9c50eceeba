//! Which request is meant by a request target, and what is wrong with it.
//!
//! The original URI comes last, with its own query string. To select archives or a range of dates,
//! it is given as a parameter instead, so that neither can be taken for the other:
//! `/timemap/link?url=http%3A%2F%2Fa.example%2F&archives=a,b&from=2010&limit=10`.

use waypost_archive::mementomap::MapPart;
use waypost_memento::{Datetime, Format};

use crate::Selection;
use crate::original::{self, percent_decoded};

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// `timemap/FORMAT/URI`.
    TimeMap(Format, Target),
    /// `timegate/URI`.
    TimeGate(Target),
    /// `memento/…/DATETIME/URI`, or `api/…`.
    Memento {
        form: Form,
        datetime: Datetime,
        /// Whether the path starts with `api`.
        api: bool,
        target: Target,
    },
    /// `prediction/json/URI`: which archives would be asked.
    Prediction(Target),
    /// `life`: how the router is doing.
    Life,
    /// `life/events`: the same, whenever it changes.
    LifeEvents,
    /// `holdings/ID` or `holdings/ID/report`: what an archive holds.
    Holdings {
        /// The id of the archive.
        id: String,
        /// Whether its report is asked for.
        report: bool,
    },
    /// `explain/URI` or `explain/json/URI`: which archives would be asked, and why.
    Explain {
        target: Target,
        /// Whether the path asks for JSON.
        json: bool,
    },
    /// `filters/…`: the lookup service, with what follows `filters`.
    Filters(String),
    /// `/.well-known/mementomap`, whatever the root is.
    MementoMap(MapPart),
    /// `about`.
    About,
    /// `monitor`.
    Monitor,
    /// The root of the service.
    Root,
    /// Another path under the root, without it and without a query.
    Other(String),
    /// A path that is not under the root.
    Outside,
}

/// How a memento is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// With a redirect to it.
    Redirect,
    /// With a description of it and those around it.
    Description(Format),
    /// With its body.
    Proxy,
}

/// The original URI, and which of its mementos.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) uri: String,
    pub(crate) archives: Selection,
    pub(crate) range: Range,
}

/// Which mementos of a TimeMap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    /// None before this datetime.
    pub(crate) from: Option<Datetime>,
    /// None after this datetime.
    pub(crate) until: Option<Datetime>,
    /// This many from the start, or from the end if negative.
    pub(crate) limit: Option<i64>,
}

/// What is wrong with a request, as the client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadRequest(pub(crate) String);

const TIMEMAP: &str = "/timemap/{FORMAT}/{URI-R} (FORMAT => link|json|cdxj)";
const TIMEGATE: &str = "/timegate/{URI-R}";
const MEMENTO: &str = "/memento[/{FORMAT}|proxy]/{DATETIME}/{URI-R} (FORMAT => link|json|cdxj, DATETIME => YYYY[MM[DD[hh[mm[ss]]]]])";
const EXPLAIN: &str = "/explain[/json]/{URI-R}";
const PREDICTION: &str = "/prediction/json/{URI-R}";

impl Route {
    /// What is asked for, in one word.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Route::TimeMap(..) => "timemap",
            Route::TimeGate(_) => "timegate",
            Route::Memento { .. } => "memento",
            Route::Prediction(_) => "prediction",
            Route::Explain { .. } => "explain",
            Route::MementoMap(_) => "mementomap",
            Route::Filters(_) => "filters",
            Route::Root | Route::Holdings { .. } => "page",
            Route::Life | Route::LifeEvents => "life",
            Route::About => "about",
            Route::Monitor => "monitor",
            Route::Other(_) | Route::Outside => "file",
        }
    }

    /// The route of a request target under a root, which starts and ends with a slash.
    pub(crate) fn of(root: &str, target: &str) -> Result<Route, BadRequest> {
        let (start, query) = match target.split_once('?') {
            Some((start, query)) => (start, Some(query)),
            None => (target, None),
        };
        if let Some(part) = MapPart::of(start.trim_start_matches('/'), query) {
            return Ok(Route::MementoMap(part));
        }
        let Some(path) = target.strip_prefix(root) else {
            return Ok(Route::Outside);
        };
        let malformed = |expected: &str| {
            BadRequest(format!("Malformed request: {target}\nExpected: {expected}"))
        };
        let (endpoint, rest) = Rest::after_segment(path);
        match endpoint {
            "timemap" => {
                let (format, rest) = rest.segment().ok_or_else(|| malformed(TIMEMAP))?;
                let format = format_of(format).ok_or_else(|| malformed(TIMEMAP))?;
                let (target, _) = rest.target(|| malformed(TIMEMAP))?;
                Ok(Route::TimeMap(format, target))
            }
            "timegate" => {
                let (target, _) = rest.target(|| malformed(TIMEGATE))?;
                Ok(Route::TimeGate(target))
            }
            "memento" | "api" => {
                memento(endpoint == "api", rest).map_err(|bad| bad.unwrap_or(malformed(MEMENTO)))
            }
            "prediction" => {
                let (format, rest) = rest.segment().ok_or_else(|| malformed(PREDICTION))?;
                if format != "json" {
                    return Err(malformed(PREDICTION));
                }
                let (target, _) = rest.target(|| malformed(PREDICTION))?;
                Ok(Route::Prediction(target))
            }
            "explain" => {
                let (json, rest) = match rest.segment() {
                    Some(("json", behind)) => (true, behind),
                    _ => (false, rest),
                };
                let (target, _) = rest.target(|| malformed(EXPLAIN))?;
                Ok(Route::Explain { target, json })
            }
            "life" => Ok(match path.split('?').next().unwrap_or_default() {
                "life" => Route::Life,
                "life/events" => Route::LifeEvents,
                other => Route::Other(other.to_owned()),
            }),
            "holdings" => {
                let path = path.split('?').next().unwrap_or_default();
                let name = path.strip_prefix("holdings/").unwrap_or_default();
                let (id, report) = match name.strip_suffix("/report") {
                    Some(id) => (id, true),
                    None => (name, false),
                };
                Ok(Route::Holdings {
                    id: id.to_owned(),
                    report,
                })
            }
            "filters" => Ok(Route::Filters(match &path["filters".len()..] {
                "" => "/".to_owned(),
                rest => rest.to_owned(),
            })),
            "about" => Ok(Route::About),
            "monitor" => Ok(Route::Monitor),
            "" => Ok(Route::Root),
            _ => {
                let path = path.split('?').next().unwrap_or_default();
                Ok(Route::Other(path.to_owned()))
            }
        }
    }
}

/// `Err(None)` if the request does not have the form of one.
fn memento(api: bool, rest: Rest<'_>) -> Result<Route, Option<BadRequest>> {
    let (form, rest) = match rest.segment() {
        Some((word, behind)) => match form_of(word) {
            Some(form) => (form, behind),
            None if api => return Err(None),
            None => (Form::Redirect, rest),
        },
        None if api => return Err(None),
        None => (Form::Redirect, rest),
    };
    let (text, target) = match rest {
        Rest::Path(_) => {
            let (datetime, rest) = rest.segment().ok_or(None)?;
            if !is_datetime(datetime) || matches!(rest, Rest::Query(_)) {
                return Err(None);
            }
            let (target, _) = rest.target_or()?;
            (datetime.to_owned(), target)
        }
        Rest::Query(_) => {
            let (target, datetime) = rest.target_or()?;
            (datetime.ok_or(None)?, target)
        }
        Rest::Nothing => return Err(None),
    };
    let datetime = datetime(&text)?;
    Ok(Route::Memento {
        form,
        datetime,
        api,
        target,
    })
}

fn form_of(word: &str) -> Option<Form> {
    match word {
        "proxy" => Some(Form::Proxy),
        _ => format_of(word).map(Form::Description),
    }
}

fn format_of(word: &str) -> Option<Format> {
    Format::ALL.into_iter().find(|format| format.name() == word)
}

fn is_datetime(text: &str) -> bool {
    matches!(text.len(), 4 | 6 | 8 | 10 | 12 | 14) && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn datetime(text: &str) -> Result<Datetime, BadRequest> {
    is_datetime(text)
        .then(|| Datetime::parse_timestamp(text).ok())
        .flatten()
        .ok_or_else(|| {
            let expected = "YYYY[MM[DD[hh[mm[ss]]]]]";
            BadRequest(format!(
                "Malformed datetime: {text}\nExpected format: {expected}"
            ))
        })
}

/// What follows a segment of a path.
#[derive(Clone, Copy)]
enum Rest<'a> {
    /// After `/`.
    Path(&'a str),
    /// After `?`.
    Query(&'a str),
    Nothing,
}

impl<'a> Rest<'a> {
    fn after_segment(text: &'a str) -> (&'a str, Rest<'a>) {
        match text.find(['/', '?']) {
            None => (text, Rest::Nothing),
            Some(at) if text.as_bytes()[at] == b'/' => (&text[..at], Rest::Path(&text[at + 1..])),
            Some(at) => (&text[..at], Rest::Query(&text[at + 1..])),
        }
    }

    /// The next segment, and what follows it.
    fn segment(self) -> Option<(&'a str, Rest<'a>)> {
        match self {
            Rest::Path(path) => Some(Rest::after_segment(path)),
            Rest::Query(_) | Rest::Nothing => None,
        }
    }

    /// The original URI, and the datetime if it is in a query; `malformed` if there is neither.
    fn target(
        self,
        malformed: impl FnOnce() -> BadRequest,
    ) -> Result<(Target, Option<String>), BadRequest> {
        self.target_or()
            .map_err(|bad| bad.unwrap_or_else(malformed))
    }

    fn target_or(self) -> Result<(Target, Option<String>), Option<BadRequest>> {
        match self {
            Rest::Nothing | Rest::Path("") => Err(None),
            Rest::Path(raw) => {
                let uri = original::from_path(raw);
                let uri = uri.ok_or_else(|| BadRequest(format!("Malformed URI-R: {raw}")))?;
                let target = Target {
                    uri,
                    ..Target::default()
                };
                Ok((target, None))
            }
            Rest::Query(query) => parameters(query),
        }
    }
}

/// The target that parameters name.
fn parameters(query: &str) -> Result<(Target, Option<String>), Option<BadRequest>> {
    let mut target = Target::default();
    let mut at = None;
    let mut has_uri = false;
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let decoded = percent_decoded(&value.replace('+', " "));
        let malformed = || BadRequest(format!("Malformed parameter: {parameter}"));
        let value = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
        let value = value.ok_or_else(malformed)?;
        match name {
            "url" => {
                let uri = original::original_uri(&value);
                target.uri = uri.ok_or_else(|| BadRequest(format!("Malformed URI-R: {value}")))?;
                has_uri = true;
            }
            "archives" => target.archives = Selection::parse(&value).ok_or_else(malformed)?,
            "datetime" => at = Some(value),
            "from" => target.range.from = Some(datetime(&value)?),
            "until" => target.range.until = Some(datetime(&value)?),
            "limit" => target.range.limit = Some(value.parse().map_err(|_| malformed())?),
            _ => {
                return Err(Some(BadRequest(format!(
                    "Unknown parameter: {name}\nExpected: url, archives, datetime, from, until, limit"
                ))));
            }
        }
    }
    if !has_uri {
        return Err(None);
    }
    Ok((target, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(uri: &str) -> Target {
        Target {
            uri: uri.to_owned(),
            ..Target::default()
        }
    }

    fn at(text: &str) -> Datetime {
        Datetime::parse_timestamp(text).unwrap()
    }

    fn bad(target: &str) -> String {
        Route::of("/", target).unwrap_err().0
    }

    #[test]
    fn endpoints_take_the_rest_of_the_path_as_a_uri() {
        let uri = "http://example.com/a//b?c=d/e";
        for (path, route) in [
            (
                "/timemap/link/http://example.com/a//b?c=d/e",
                Route::TimeMap(Format::Link, target(uri)),
            ),
            (
                "/timegate/http://example.com/a//b?c=d/e",
                Route::TimeGate(target(uri)),
            ),
            (
                "/memento/2015/http://example.com/a//b?c=d/e",
                Route::Memento {
                    form: Form::Redirect,
                    datetime: at("2015"),
                    api: false,
                    target: target(uri),
                },
            ),
            (
                "/api/proxy/20150203/http://example.com/a//b?c=d/e",
                Route::Memento {
                    form: Form::Proxy,
                    datetime: at("20150203"),
                    api: true,
                    target: target(uri),
                },
            ),
            (
                "/prediction/json/http://example.com/a//b?c=d/e",
                Route::Prediction(target(uri)),
            ),
            ("/filters", Route::Filters("/".to_owned())),
            ("/filters/lookup", Route::Filters("/lookup".to_owned())),
            (
                "/filters/a/http://example.com/?b=c",
                Route::Filters("/a/http://example.com/?b=c".to_owned()),
            ),
            ("/about", Route::About),
            ("/about/x", Route::About),
            ("/monitor?x", Route::Monitor),
            ("/", Route::Root),
            ("/?x", Route::Root),
            ("/page.html?x", Route::Other("page.html".to_owned())),
        ] {
            assert_eq!(Route::of("/", path), Ok(route), "{path}");
        }
        assert_eq!(Route::of("/mg/", "/mg/"), Ok(Route::Root));
        assert_eq!(Route::of("/mg/", "/timegate/a"), Ok(Route::Outside));
    }

    #[test]
    fn parameters_select_archives_and_dates() {
        let path = "/timemap/json?url=http%3A%2F%2Fa.example%2F%3Fb%3Dc%26d&archives=x,y&from=2010&until=201202&limit=-5";
        let target = Target {
            uri: "http://a.example/?b=c&d".to_owned(),
            archives: Selection::parse("x,y").unwrap(),
            range: Range {
                from: Some(at("2010")),
                until: Some(at("201202")),
                limit: Some(-5),
            },
        };
        assert_eq!(
            Route::of("/", path),
            Ok(Route::TimeMap(Format::Json, target))
        );
        let memento = Route::of("/", "/memento/cdxj?datetime=2012&url=a.example/+b").unwrap();
        assert_eq!(
            memento,
            Route::of("/", "/memento/cdxj/2012/a.example/%20b").unwrap()
        );
        let redirect = Route::of("/", "/memento?datetime=2012&url=a.example").unwrap();
        assert_eq!(redirect, Route::of("/", "/memento/2012/a.example").unwrap());
        assert_eq!(
            bad("/timegate?url=a.example&archive=x"),
            "Unknown parameter: archive\nExpected: url, archives, datetime, from, until, limit"
        );
        assert_eq!(
            bad("/timegate?url=a.example&limit=x"),
            "Malformed parameter: limit=x"
        );
    }

    #[test]
    fn what_is_malformed_is_said_in_the_words_of_memgator() {
        let timemap = "/timemap/{FORMAT}/{URI-R} (FORMAT => link|json|cdxj)";
        for path in [
            "/timemap",
            "/timemap/link",
            "/timemap/link/",
            "/timemap/xml/http://example.com/",
            "/timemap/JSON/http://example.com/",
            "/timemap/link?archives=a",
        ] {
            let text = format!("Malformed request: {path}\nExpected: {timemap}");
            assert_eq!(bad(path), text);
        }
        let timegate = "Malformed request: /timegate/\nExpected: /timegate/{URI-R}";
        assert_eq!(bad("/timegate/"), timegate);
        for path in [
            "/memento/json/201/http://example.com/",
            "/memento/20151/http://example.com/",
            "/memento/json/2015/",
            "/memento/2015",
            "/memento/json?url=a.example",
            "/api/20120615/http://example.com/",
            "/api?url=a.example&datetime=2012",
            "/memento",
        ] {
            let text = format!("Malformed request: {path}\nExpected: {MEMENTO}");
            assert_eq!(bad(path), text);
        }
        let text = "Malformed datetime: 20151301\nExpected format: YYYY[MM[DD[hh[mm[ss]]]]]";
        assert_eq!(bad("/memento/json/20151301/http://example.com/"), text);
        let text = "Malformed URI-R: http://exa%20mple.com:port/";
        assert_eq!(bad("/timemap/link/http://exa%20mple.com:port/"), text);
        let root = "Malformed request: /mg/timegate/\nExpected: /timegate/{URI-R}";
        assert_eq!(Route::of("/mg/", "/mg/timegate/").unwrap_err().0, root);
    }
}
