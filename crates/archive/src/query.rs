//! What a client asks for: the parameters of pywb's and of the Wayback Machine's CDX server.
//!
//! Both servers share most parameters. Where the same parameter means different things, the
//! [`Api`] decides, which is chosen by the path of the request.

use waypost_index::lookup::{Filter, Order};
use waypost_index::range::Match;
use waypost_index::timestamp::Time;

use crate::collapse::Collapse;
use crate::parameters::Parameters;
use crate::resume::Resume;

/// Whose parameters and answers are meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Api {
    /// Those of pywb and of Common Crawl's index server.
    #[default]
    Pywb,
    /// Those of the Wayback Machine's CDX server.
    Wayback,
}

/// The format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// `key timestamp {json}`.
    Cdxj,
    /// One JSON object per line.
    Json,
    /// One JSON array of arrays; the first has the names of the fields.
    Arrays,
    /// Fields separated by spaces.
    Text,
    /// link-format.
    Link,
}

impl Output {
    /// Its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Output::Cdxj => "text/x-cdxj",
            Output::Json => "text/x-ndjson",
            Output::Arrays => "application/json",
            Output::Text => "text/plain",
            Output::Link => "application/link-format",
        }
    }
}

/// How many rows are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The first rows.
    First(u64),
    /// The last rows, in order.
    Last(u64),
}

/// Which part of a large answer is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// From 0.
    pub number: u64,
    /// In blocks.
    pub size: u64,
}

/// The number of blocks in a page unless the client says otherwise.
const PAGE_SIZE: u64 = 10;

/// A validated query.
#[derive(Clone, Debug)]
pub struct Query {
    /// Whose parameters they are.
    pub api: Api,
    /// The URL, without the stars of a wildcard.
    pub url: Vec<u8>,
    /// Which keys match the URL.
    pub kind: Match,
    /// Earliest time.
    pub from: Option<Time>,
    /// Latest time.
    pub to: Option<Time>,
    /// Filters, all of which a capture must pass.
    pub filters: Vec<Filter>,
    /// Adjacent captures that are alike are reduced to the first.
    pub collapse: Vec<Collapse>,
    /// The order of captures.
    pub order: Order,
    /// How many rows to skip.
    pub offset: u64,
    /// How many rows to return.
    pub limit: Limit,
    /// Whether revisits get the media type, status and location of the capture that they repeat.
    pub resolve: bool,
    /// Whether rows that are not captures are left out: TimeMaps and TimeGates have only mementos.
    pub mementos: bool,
    /// The fields to return; `None` returns all of them.
    pub fields: Option<Vec<String>>,
    /// The format.
    pub output: Output,
    /// The page to return.
    pub page: Option<Page>,
    /// Whether only the number of pages is wanted.
    pub count_pages: bool,
    /// Where to continue.
    pub resume: Option<Resume>,
    /// Whether to end an incomplete answer with the key to continue with.
    pub show_resume: bool,
    /// Whether to name the index that a capture is from.
    pub source: bool,
    /// Whether the answer may be compressed.
    pub gzip: bool,
}

/// A query that cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadQuery(pub String);

impl Query {
    /// Parses and validates a query string.
    ///
    /// # Errors
    /// If the URL is missing, or a parameter has an invalid value.
    pub fn parse(api: Api, query: &str) -> Result<Query, BadQuery> {
        let given = Parameters::parse(query);
        let url = given
            .bytes("url")
            .ok_or_else(|| BadQuery("The \"url\" param is required".to_owned()))?;
        let (kind, url) = kind(&given, url)?;
        let order = order(&given)?;
        let limit = limit(&given)?;
        let output = output(&given, api)?;
        Ok(Query {
            api,
            kind,
            url: url.to_vec(),
            from: time(&given, "from", Time::first_of)?,
            to: time(&given, "to", Time::last_of)?,
            filters: filters(&given, api)?,
            collapse: collapse(&given)?,
            order,
            offset: number(&given, "offset")?.unwrap_or(0),
            limit,
            resolve: given.is_set("resolveRevisits"),
            mementos: output == Output::Link,
            fields: fields(&given)?,
            output,
            page: page(&given)?,
            count_pages: given.is_set("showNumPages"),
            resume: resume(&given)?,
            show_resume: given.is_set("showResumeKey"),
            source: !given.is_set("nosource"),
            gzip: given.text("gzip").is_none() || given.is_set("gzip"),
        })
    }

    /// The captures of one URL, as a TimeMap lists them.
    pub(crate) fn of_url(url: &[u8], output: Output) -> Query {
        Query {
            api: Api::Pywb,
            url: url.to_vec(),
            kind: Match::Exact,
            from: None,
            to: None,
            filters: Vec::new(),
            collapse: Vec::new(),
            order: Order::Forward,
            offset: 0,
            limit: Limit::First(u64::MAX),
            resolve: false,
            mementos: true,
            fields: None,
            output,
            page: None,
            count_pages: false,
            resume: None,
            show_resume: false,
            source: true,
            gzip: true,
        }
    }
}

fn bad(name: &str, value: &str) -> BadQuery {
    BadQuery(format!("Invalid value for {name}= param: {value}"))
}

fn number(given: &Parameters, name: &str) -> Result<Option<u64>, BadQuery> {
    match given.text(name) {
        None => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| bad(name, &text)),
    }
}

fn kind<'u>(given: &Parameters, url: &'u [u8]) -> Result<(Match, &'u [u8]), BadQuery> {
    match given.text("matchType") {
        Some(name) => {
            let kind = name.parse();
            Ok((
                kind.map_err(|_| BadQuery(format!("Invalid match_type: {name}")))?,
                url,
            ))
        }
        None => Ok(Match::of_wildcard(url).unwrap_or((Match::Exact, url))),
    }
}

fn time(
    given: &Parameters,
    name: &str,
    parse: fn(&[u8]) -> Option<Time>,
) -> Result<Option<Time>, BadQuery> {
    match given.text(name) {
        None => Ok(None),
        Some(text) => match parse(text.as_bytes()) {
            Some(time) => Ok(Some(time)),
            None => Err(bad(name, &text)),
        },
    }
}

/// Refuses more values of a parameter than anybody needs.
fn at_most(most: usize, name: &str, count: usize) -> Result<(), BadQuery> {
    match count <= most {
        true => Ok(()),
        false => Err(BadQuery(format!("more than {most} values of {name}="))),
    }
}

fn filters(given: &Parameters, api: Api) -> Result<Vec<Filter>, BadQuery> {
    at_most(16, "filter", given.all("filter").count())?;
    let parse = match api {
        Api::Pywb => Filter::parse,
        Api::Wayback => Filter::parse_wayback,
    };
    let parsed = given
        .all("filter")
        .map(|text| parse(&text).map_err(|error| BadQuery(error.to_string())));
    parsed.collect()
}

fn collapse(given: &Parameters) -> Result<Vec<Collapse>, BadQuery> {
    at_most(8, "collapse", given.all("collapse").count())?;
    let mut collapse = Vec::new();
    if let Some(digits) = number(given, "collapseTime")? {
        collapse.push(Collapse::time_and_status(digits as usize));
    }
    for text in given.all("collapse") {
        collapse.push(Collapse::parse(&text).ok_or_else(|| bad("collapse", &text))?);
    }
    Ok(collapse)
}

fn order(given: &Parameters) -> Result<Order, BadQuery> {
    let sort = given.text("sort").unwrap_or_default();
    match given.text("closest") {
        Some(text) => {
            let time = match &text[..] {
                "now" => Some(now()),
                _ => Time::first_of(text.as_bytes()),
            };
            return time
                .map(Order::Closest)
                .ok_or_else(|| bad("closest", &text));
        }
        // pywb as a client sends an empty `closest` for the latest capture.
        None if sort == "closest" && given.is_empty("closest") => return Ok(Order::Forward),
        None if sort == "closest" => {
            return Err(BadQuery("sort=closest needs closest=TIME".to_owned()));
        }
        None => {}
    }
    match &sort[..] {
        "reverse" => Ok(Order::Reverse),
        _ if given.is_set("reverse") => Ok(Order::Reverse),
        "" | "default" | "regular" => Ok(Order::Forward),
        _ => Err(bad("sort", &sort)),
    }
}

/// The current time.
pub(crate) fn now() -> Time {
    let digits = jiff::Timestamp::now().strftime("%Y%m%d%H%M%S").to_string();
    Time::first_of(digits.as_bytes()).unwrap_or(Time::MAX)
}

fn limit(given: &Parameters) -> Result<Limit, BadQuery> {
    let Some(text) = given.text("limit") else {
        return Ok(Limit::First(u64::MAX));
    };
    let parsed = match text.strip_prefix('-') {
        Some(digits) => digits.parse().map(Limit::Last),
        None => text.parse().map(Limit::First),
    };
    match parsed {
        // As in pywb.
        Ok(Limit::First(0)) => Ok(Limit::First(u64::MAX)),
        Ok(Limit::Last(0)) | Err(_) => Err(bad("limit", &text)),
        Ok(limit) => Ok(limit),
    }
}

fn fields(given: &Parameters) -> Result<Option<Vec<String>>, BadQuery> {
    let Some(list) = given.text("fields").or_else(|| given.text("fl")) else {
        return Ok(None);
    };
    let names = list.split(',').map(str::trim);
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    at_most(64, "fl", names.len())?;
    Ok(Some(names.into_iter().map(str::to_owned).collect()))
}

fn output(given: &Parameters, api: Api) -> Result<Output, BadQuery> {
    let name = given.text("output").unwrap_or_default();
    Ok(match (&name[..], api) {
        ("", Api::Pywb) | ("cdxj", _) => Output::Cdxj,
        ("json", Api::Pywb) => Output::Json,
        ("json", Api::Wayback) => Output::Arrays,
        ("", Api::Wayback) | ("text" | "csv", _) => Output::Text,
        ("link", _) => Output::Link,
        _ => return Err(BadQuery(format!("output={name} not supported"))),
    })
}

fn page(given: &Parameters) -> Result<Option<Page>, BadQuery> {
    let size = number(given, "pageSize")?;
    if size == Some(0) {
        return Err(bad("pageSize", "0"));
    }
    let size = size.unwrap_or(PAGE_SIZE);
    let number = number(given, "page")?;
    if number.is_none() && !given.is_set("showNumPages") {
        return Ok(None);
    }
    Ok(Some(Page {
        number: number.unwrap_or(0),
        size,
    }))
}

fn resume(given: &Parameters) -> Result<Option<Resume>, BadQuery> {
    match given.bytes("resumeKey") {
        None => Ok(None),
        Some(text) => Resume::parse(text)
            .map(Some)
            .ok_or_else(|| bad("resumeKey", &String::from_utf8_lossy(text))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_parameter_means_what_each_server_means() {
        let query = "url=*.example.com&output=json&limit=-5&filter=statuscode:2..&fl=original,x";
        let pywb = Query::parse(Api::Pywb, query).unwrap();
        let wayback = Query::parse(Api::Wayback, query).unwrap();
        assert_eq!(
            (pywb.kind, &pywb.url[..]),
            (Match::Domain, &b"example.com"[..])
        );
        assert_eq!(pywb.output, Output::Json);
        assert_eq!(wayback.output, Output::Arrays);
        assert_eq!(wayback.limit, Limit::Last(5));
        assert_eq!(pywb.fields.unwrap(), ["original", "x"]);
    }

    #[test]
    fn a_limit_of_zero_is_none_as_in_pywb() {
        let query = Query::parse(Api::Pywb, "url=a&limit=0").unwrap();
        assert_eq!(query.limit, Limit::First(u64::MAX));
    }

    #[test]
    fn an_invalid_parameter_is_named() {
        for (query, message) in [
            ("", "The \"url\" param is required"),
            ("url=", "The \"url\" param is required"),
            ("url=a&output=xml", "output=xml not supported"),
            ("url=a&matchType=near", "Invalid match_type: near"),
            ("url=a&limit=x", "Invalid value for limit= param: x"),
            ("url=a&limit=-0", "Invalid value for limit= param: -0"),
            ("url=a&sort=closest", "sort=closest needs closest=TIME"),
            ("url=a&sort=closest&closest=", ""),
            (
                "url=a&from=yesterday",
                "Invalid value for from= param: yesterday",
            ),
            ("url=a&page=-1", "Invalid value for page= param: -1"),
            (
                "url=a&pageSize=0&page=0",
                "Invalid value for pageSize= param: 0",
            ),
            ("url=a&sort=random", "Invalid value for sort= param: random"),
            ("url=a&collapse=", ""),
        ] {
            match Query::parse(Api::Pywb, query) {
                Err(error) => assert_eq!(error.0, message, "{query}"),
                Ok(_) => assert_eq!("", message, "{query}"),
            }
        }
        assert!(Query::parse(Api::Pywb, "url=a&filter=~url:(").is_err());
    }
}
