//! Merges sorted indexes with [`waypost_io::merge`], and adds a field to every line.

use waypost_io::error::excerpt;
use waypost_io::sort::{Options, Report};
use waypost_io::{Error, ErrorKind, LineWriter, Result, Source, merge as lines};

/// A JSON field to add to every CDXJ line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addition {
    name: String,
    /// `"name": "value"`, as JSON.
    json: String,
    /// `"name"`, as JSON.
    quoted: String,
}

impl Addition {
    /// Parses `name=value`.
    ///
    /// # Errors
    /// If the `=` or the name is missing.
    pub fn parse(text: &str) -> Result<Addition> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                let quoted = serde_json::Value::from(name).to_string();
                let value = serde_json::Value::from(value);
                Ok(Addition {
                    name: name.to_owned(),
                    json: format!("{quoted}: {value}"),
                    quoted,
                })
            }
            _ => Err(Error::new(ErrorKind::Invalid(format!(
                "`{text}` is not NAME=VALUE"
            )))),
        }
    }

    /// Writes `line` with the field to `out`. The field is added at the start of the JSON, so that
    /// sorted lines stay sorted.
    fn add(&self, line: &[u8], out: &mut Vec<u8>) -> Result<()> {
        if matches!(line.first(), None | Some(b'!' | b' ')) {
            // Headers have no fields.
            out.extend_from_slice(line);
            return Ok(());
        }
        let json = memchr::memchr_iter(b' ', line)
            .nth(1)
            .map(|space| space + 1);
        let Some(json) = json.filter(|&json| line.get(json) == Some(&b'{')) else {
            let message = format!("a field can be added only to CDXJ: {}", excerpt(line));
            return Err(Error::new(ErrorKind::Invalid(message)));
        };
        let (head, fields) = line.split_at(json + 1);
        if memchr::memmem::find(fields, self.quoted.as_bytes()).is_some() {
            self.check_absent(&line[json..])?;
        }
        out.extend_from_slice(head);
        out.extend_from_slice(self.json.as_bytes());
        if fields.trim_ascii_start().first() != Some(&b'}') {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(fields);
        Ok(())
    }

    fn check_absent(&self, json: &[u8]) -> Result<()> {
        let object: serde_json::Result<serde_json::Map<String, serde_json::Value>> =
            serde_json::from_slice(json);
        match object {
            Ok(object) if !object.contains_key(&self.name) => Ok(()),
            _ => {
                let message = format!(
                    "the line already has a field {}: {}",
                    self.quoted,
                    excerpt(json)
                );
                Err(Error::new(ErrorKind::Invalid(message)))
            }
        }
    }
}

/// Merges sorted `sources` into `out`, and adds a field to each line.
///
/// # Errors
/// If a source is not sorted or cannot be read, the output cannot be written, or the field cannot be
/// added to a line. Damaged compression is not an error: see [`Report::damaged`].
pub fn merge(
    sources: &[Source],
    options: &Options,
    addition: Option<&Addition>,
    out: &mut LineWriter,
) -> Result<Report> {
    match addition {
        Some(addition) => {
            let change = |line: &[u8], out: &mut Vec<u8>| addition.add(line, out);
            lines::merge(sources, options, Some(&change), out)
        }
        None => lines::merge(sources, options, None, out),
    }
}
