//! Answers of CDX servers: rows of CDXJ as pywb's, lines of fields as OutbackCDX's and the Wayback
//! Machine's, and the latter's JSON, an array of rows.

use memchr::memchr_iter;
use waypost_memento::{Datetime, Memento, Replay};

/// The mementos in lines of an index, and the first problem with a line. Lines of CDX start with the
/// key, the timestamp and the original URI, whatever follows; those of CDXJ have a JSON object.
pub(super) fn lines(document: &[u8], replay: Option<&Replay>) -> (Vec<Memento>, Option<String>) {
    let mut mementos = Vec::new();
    let mut problem = None;
    let mut start = 0;
    for end in memchr_iter(b'\n', document).chain([document.len()]) {
        let line = document[start..end].trim_ascii();
        start = end + 1;
        // The header of a CDX file names its fields.
        if line.is_empty() || line.starts_with(b"CDX ") {
            continue;
        }
        let mut fields = line.split(|byte| *byte == b' ').filter(|f| !f.is_empty());
        let mut field = || fields.next().and_then(|field| str::from_utf8(field).ok());
        let found = match (field(), field(), field()) {
            (Some(_), Some(timestamp), Some(original)) => row(timestamp, original, replay),
            _ => Err("expected a key, a timestamp and a URI".to_owned()),
        };
        match found {
            Ok(memento) => mementos.push(memento),
            Err(why) if problem.is_none() => {
                let line = memchr_iter(b'\n', &document[..end]).count() + 1;
                problem = Some(format!("{why} in line {line}"));
            }
            Err(_) => {}
        }
    }
    (mementos, problem)
}

/// The mementos in an array of rows, of which the first names the fields.
///
/// # Errors
/// If it is not such an array.
pub(super) fn table(
    document: &[u8],
    replay: Option<&Replay>,
) -> Result<(Vec<Memento>, Option<String>), String> {
    let rows: Vec<Vec<Option<String>>> =
        serde_json::from_slice(document).map_err(|error| format!("invalid JSON: {error}"))?;
    let mut rows = rows.into_iter();
    let names = rows.next().unwrap_or_default();
    let place = |name: &str| {
        names
            .iter()
            .position(|known| known.as_deref() == Some(name))
    };
    let (timestamp, original) = (place("timestamp"), place("original").or(place("url")));
    let (Some(timestamp), Some(original)) = (timestamp, original) else {
        return match names.is_empty() {
            true => Ok((Vec::new(), None)),
            false => Err("rows without `timestamp` and `original`".to_owned()),
        };
    };
    let mut mementos = Vec::new();
    let mut problem = None;
    // Behind an empty row is the key at which to resume, which was not asked for.
    for fields in rows.take_while(|fields| !fields.is_empty()) {
        let field = |place: usize| fields.get(place).and_then(|field| field.as_deref());
        let found = match (field(timestamp), field(original)) {
            (Some(timestamp), Some(original)) => row(timestamp, original, replay),
            _ => Err("row without `timestamp` and `original`".to_owned()),
        };
        match found {
            Ok(memento) => mementos.push(memento),
            Err(why) => problem = problem.or(Some(why)),
        }
    }
    Ok((mementos, problem))
}

fn row(timestamp: &str, original: &str, replay: Option<&Replay>) -> Result<Memento, String> {
    let datetime = Datetime::parse_timestamp(timestamp).map_err(|error| error.to_string())?;
    let replay = replay.ok_or("memento without a URI, and the archive has no replay template")?;
    Ok(Memento::new(replay.uri(datetime, original), datetime))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay() -> Replay {
        "http://a.example/{timestamp}/{url}".parse().unwrap()
    }

    #[test]
    fn lines_of_any_number_of_fields_are_read() {
        let document = b" CDX N b a m s k r M S V g\n\
            com,b)/ 20100102030405 http://b.com/ text/html 200 SHA - - 12 34 x.warc.gz\r\n\
            com,b)/ 2011 http://b.com/?x=%7B text/html 200 SHA 12\n\
            \n\
            com,b)/ 20101399 http://b.com/ text/html\n\
            nonsense\n";
        let (mementos, problem) = lines(document, Some(&replay()));
        let uris: Vec<&str> = mementos.iter().map(|m| &m.uri[..]).collect();
        assert_eq!(
            uris,
            [
                "http://a.example/20100102030405/http://b.com/",
                "http://a.example/20110101000000/http://b.com/?x=%7B"
            ]
        );
        assert_eq!(
            problem.as_deref(),
            Some("invalid datetime `20101399` in line 5")
        );
        let (mementos, problem) = lines(document, None);
        assert!(mementos.is_empty());
        assert!(problem.unwrap().contains("no replay template"));
    }

    #[test]
    fn a_table_names_its_fields() {
        let document = br#"[["urlkey","timestamp","original","length"],
            ["com,b)/","20100102030405","http://b.com/","1"],
            ["com,b)/","x","http://b.com/",null],
            [],["com,b)/+20110101000000"]]"#;
        let (mementos, problem) = table(document, Some(&replay())).unwrap();
        assert_eq!(
            mementos[0].uri,
            "http://a.example/20100102030405/http://b.com/"
        );
        assert_eq!(mementos.len(), 1);
        assert_eq!(problem.as_deref(), Some("invalid datetime `x`"));
        assert_eq!(table(b"[]", None).unwrap().0, []);
        assert!(table(b"[[\"a\"]]", None).is_err());
        assert!(table(b"[1]", None).is_err());
    }
}
