//! Extracts the Last-Modified times of successful responses from WARC and WAT files.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use waypost_index::timestamp::Time;
use waypost_index::warc::{self, RecordStart, read_starts};
use waypost_io::{
    Error, ErrorKind, Format, LineWriter, Ordered, Phase, Progress, Resources, Result, Source,
    Written,
};

use super::date::{self, Form, Oddity, Rejection};
use super::file::MAGIC;

/// What to extract.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder to which the names of files are relative. Without it, a name starts at `crawl-data`,
    /// or at the subset, or is that of the file alone.
    pub root: Option<PathBuf>,
    /// How many seconds later than its capture a response may have been modified.
    pub late: i64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            root: None,
            late: date::LATEST,
        }
    }
}

/// How many examples of each kind are kept.
const EXAMPLES: usize = 3;

/// What was found.
#[derive(Debug, Default)]
pub struct Extracted {
    /// Records read.
    pub records: u64,
    /// Successful responses.
    pub responses: u64,
    /// Those with the header.
    pub with_header: u64,
    /// Those whose value was accepted.
    pub accepted: u64,
    /// Accepted values by form.
    pub forms: BTreeMap<Form, u64>,
    /// Accepted values that have exactly one of the three forms of HTTP.
    pub exact: u64,
    /// Accepted values by what is odd about them, with examples.
    pub oddities: BTreeMap<Oddity, Examples>,
    /// Rejected values by reason, with examples.
    pub rejections: BTreeMap<Rejection, Examples>,
    /// Responses without a time of capture, which are left out.
    pub without_time: u64,
    /// Damaged records, and records of WAT files that are not valid.
    pub damaged: u64,
    /// The first of them.
    pub damage: Vec<Error>,
    /// What was written.
    pub written: Written,
}

/// A count with the first values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examples {
    /// How many there are.
    pub count: u64,
    /// The first of them.
    pub first: Vec<String>,
}

impl Examples {
    fn add(&mut self, value: &[u8]) {
        self.count += 1;
        if self.first.len() < EXAMPLES {
            self.first.push(waypost_index::rejects::printable(
                &value[..value.len().min(80)],
            ));
        }
    }

    fn merge(&mut self, later: Examples) {
        self.count += later.count;
        let more = EXAMPLES.saturating_sub(self.first.len());
        self.first.extend(later.first.into_iter().take(more));
    }
}

impl Extracted {
    fn merge(&mut self, later: Extracted) {
        self.records += later.records;
        self.responses += later.responses;
        self.with_header += later.with_header;
        self.accepted += later.accepted;
        self.exact += later.exact;
        self.without_time += later.without_time;
        self.damaged += later.damaged;
        self.damage.extend(later.damage);
        self.damage.truncate(100);
        for (form, count) in later.forms {
            *self.forms.entry(form).or_default() += count;
        }
        for (oddity, examples) in later.oddities {
            self.oddities.entry(oddity).or_default().merge(examples);
        }
        for (rejection, examples) in later.rejections {
            self.rejections
                .entry(rejection)
                .or_default()
                .merge(examples);
        }
    }
}

/// The files that paths stand for: files as they are, folders with all WARC, ARC and WACZ files in them
/// and below, and with the WAT files of those WARC files that are not among them.
///
/// # Errors
/// If a folder cannot be read.
pub fn expand(paths: &[PathBuf]) -> Result<Vec<Source>> {
    let mut files = warc::expand(paths)?;
    let known: HashSet<String> = files.iter().map(|source| file_name(source, None)).collect();
    for folder in paths.iter().filter(|path| path.is_dir()) {
        let is_wat = |name: &str| name.ends_with(".wat.gz") || name.ends_with(".wat");
        let expanded = match waypost_io::expand([folder], is_wat) {
            Ok(expanded) => expanded,
            Err(error) if matches!(error.kind(), ErrorKind::NoIndex) => continue,
            Err(error) => return Err(error),
        };
        for wat in expanded.sources {
            let name = wat.path().file_name().unwrap_or_default().to_string_lossy();
            let warc = name.replace(".wat", "");
            if !known.contains(&beside_wat(&wat, &warc, None)) && !files.contains(&wat) {
                files.push(wat);
            }
        }
    }
    Ok(files)
}

/// Extracts from `files`, each on one thread, and writes to `out` in their order.
///
/// # Errors
/// If two files would have the same name, a file cannot be read or is neither WARC nor WAT, or `out` cannot
/// be written.
pub fn extract(
    files: &[Source],
    options: &Options,
    resources: &Resources,
    progress: &Progress,
    out: &Path,
) -> Result<Extracted> {
    warc::unique_names(files, |source| file_name(source, options.root.as_deref()))?;
    let threads = resources.threads.clamp(1, files.len().max(1));
    let sizes = files.iter().map(Source::size).sum::<Option<u64>>();
    progress.begin(Phase::Reading, sizes);
    let mut writer = LineWriter::create(out, &Format::of_name(out), resources.threads)?;
    writer.push(MAGIC.as_bytes())?;
    let options = Arc::new(options.clone());
    let temporary = Arc::new(resources.temporary.clone());
    let mut reading = Ordered::new(
        threads,
        || {
            let (options, temporary, progress) = (
                Arc::clone(&options),
                Arc::clone(&temporary),
                progress.clone(),
            );
            move |source: Source| read(&source, &options, &temporary, &progress)
        },
        (writer, Extracted::default()),
        |(writer, all), result: Result<(Vec<u8>, Extracted)>| {
            let (lines, found) = result?;
            all.merge(found);
            writer.push_lines(&lines)
        },
    )?;
    for source in files {
        reading.give(source.clone())?;
    }
    let (writer, mut extracted) = reading.finish()?;
    extracted.written = writer.finish()?;
    Ok(extracted)
}

/// Reads one file: the lines to write.
fn read(
    source: &Source,
    options: &Options,
    temporary: &Path,
    progress: &Progress,
) -> Result<(Vec<u8>, Extracted)> {
    let mut reading = Reading {
        options,
        name: file_name(source, options.root.as_deref()),
        source,
        current: String::new(),
        lines: Vec::new(),
        found: Extracted::default(),
        invalid: 0,
    };
    let report = read_starts(source, temporary, progress, |start| reading.add(start))?;
    let mut found = reading.found;
    found.records = report.records;
    found.damaged = report.damaged + reading.invalid;
    found.damage = report.damage;
    Ok((reading.lines, found))
}

struct Reading<'a> {
    options: &'a Options,
    name: String,
    source: &'a Source,
    /// The file of the last line.
    current: String,
    lines: Vec<u8>,
    found: Extracted,
    /// Records of WAT files that are not valid.
    invalid: u64,
}

impl Reading<'_> {
    fn add(&mut self, start: &RecordStart<'_>) {
        let kind = start.kind();
        if kind == Some(b"response") {
            let Some(http) = start.http() else { return };
            if !http
                .status()
                .is_some_and(|status| (200..300).contains(&status))
            {
                return;
            }
            self.found.responses += 1;
            if let Some(value) = http.get("Last-Modified") {
                let name = std::mem::take(&mut self.name);
                self.value(value, &name, start.offset(), start.timestamp().as_deref());
                self.name = name;
            }
        } else if kind == Some(b"metadata")
            && start
                .content_type()
                .is_some_and(|kind| kind.starts_with(b"application/json"))
        {
            match serde_json::from_slice::<Wat>(start.content()) {
                Ok(wat) => self.wat(&wat),
                Err(_) => self.invalid += 1,
            }
        }
    }

    fn wat(&mut self, wat: &Wat) {
        let envelope = &wat.envelope;
        let Some(http) = &envelope.payload.http else {
            return;
        };
        let status = http
            .message
            .as_ref()
            .and_then(|message| message.status.parse::<u16>().ok());
        if envelope.head.kind != "response"
            || !status.is_some_and(|status| (200..300).contains(&status))
        {
            return;
        }
        self.found.responses += 1;
        let mut headers = http.headers.iter();
        let Some((_, value)) = headers.find(|(name, _)| name.eq_ignore_ascii_case("Last-Modified"))
        else {
            return;
        };
        let value = match value {
            serde_json::Value::String(value) => value.clone(),
            // Of several headers, the first.
            serde_json::Value::Array(values) => values
                .first()
                .and_then(|value| value.as_str())
                .unwrap_or_default()
                .to_owned(),
            other => other.to_string(),
        };
        let Ok(offset) = wat.container.offset.parse() else {
            self.invalid += 1;
            return;
        };
        let name = beside_wat(
            self.source,
            &wat.container.file,
            self.options.root.as_deref(),
        );
        let captured = Time::parse(envelope.head.date.as_bytes())
            .map(|time| crate::generate::timestamp(time.unix()));
        self.value(value.as_bytes(), &name, offset, captured.as_deref());
    }

    /// Adds a value of a response.
    fn value(&mut self, value: &[u8], name: &str, offset: u64, captured: Option<&str>) {
        let found = &mut self.found;
        found.with_header += 1;
        let Some((digits, time)) =
            captured.and_then(|digits| Some((digits, Time::parse(digits.as_bytes())?)))
        else {
            found.without_time += 1;
            return;
        };
        match date::credible(value, time.unix(), self.options.late) {
            Err(rejection) => found.rejections.entry(rejection).or_default().add(value),
            Ok(parsed) => {
                found.accepted += 1;
                *found.forms.entry(parsed.form).or_default() += 1;
                found.exact += u64::from(parsed.oddities.is_empty());
                for oddity in parsed.oddities.iter() {
                    found.oddities.entry(oddity).or_default().add(value);
                }
                if self.current != name {
                    self.lines
                        .extend_from_slice(format!("!file {name}\n").as_bytes());
                    name.clone_into(&mut self.current);
                }
                let line = format!("{offset}\t{}\t{digits}\n", parsed.time);
                self.lines.extend_from_slice(line.as_bytes());
            }
        }
    }
}

/// The name of a file as indexes write it, as far as its path says.
fn file_name(source: &Source, root: Option<&Path>) -> String {
    if let Some(below) = root.and_then(|root| warc::path_below(root, source)) {
        return clean(&below.to_string_lossy());
    }
    let path = source.path().to_string_lossy();
    let parts: Vec<&str> = path.split('/').collect();
    let from = parts
        .iter()
        .rposition(|part| *part == "crawl-data")
        .unwrap_or_else(|| {
            // A file of successful responses and one of failed ones may have the same name.
            let is_subset =
                |part: &&str| matches!(*part, "warc" | "crawldiagnostics" | "robotstxt" | "wat");
            match parts.len() {
                0 | 1 => 0,
                length if is_subset(&parts[length - 2]) => length - 2,
                length => length - 1,
            }
        });
    clean(&parts[from..].join("/"))
}

/// The name of the WARC file that a WAT file describes: in the folder of that name beside its own.
fn beside_wat(source: &Source, file: &str, root: Option<&Path>) -> String {
    let own = file_name(source, root);
    let file = file.rsplit('/').next().unwrap_or(file);
    let folder = match own.rsplit_once('/') {
        Some((folder, _)) => folder,
        None => return clean(file),
    };
    let folder = match folder.strip_suffix("wat") {
        Some(before) if before.is_empty() || before.ends_with('/') => format!("{before}warc"),
        _ => folder.to_owned(),
    };
    clean(&format!("{folder}/{file}"))
}

/// A name that cannot end a line.
fn clean(name: &str) -> String {
    name.replace(['\n', '\r'], "_")
}

/// The parts of a record of a WAT file that are needed.
#[derive(Deserialize)]
struct Wat {
    #[serde(rename = "Container")]
    container: Container,
    #[serde(rename = "Envelope")]
    envelope: Envelope,
}

#[derive(Deserialize)]
struct Container {
    #[serde(rename = "Filename", default)]
    file: String,
    #[serde(rename = "Offset", default, deserialize_with = "text")]
    offset: String,
}

#[derive(Deserialize)]
struct Envelope {
    #[serde(rename = "WARC-Header-Metadata", default)]
    head: WarcHead,
    #[serde(rename = "Payload-Metadata", default)]
    payload: Payload,
}

#[derive(Default, Deserialize)]
struct WarcHead {
    #[serde(rename = "WARC-Type", default)]
    kind: String,
    #[serde(rename = "WARC-Date", default)]
    date: String,
}

#[derive(Default, Deserialize)]
struct Payload {
    #[serde(rename = "HTTP-Response-Metadata")]
    http: Option<HttpMetadata>,
}

#[derive(Deserialize)]
struct HttpMetadata {
    #[serde(rename = "Response-Message")]
    message: Option<Message>,
    #[serde(rename = "Headers", default)]
    headers: HashMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(rename = "Status", default, deserialize_with = "text")]
    status: String,
}

/// A string, or a number as one.
fn text<'de, D: serde::Deserializer<'de>>(from: D) -> std::result::Result<String, D::Error> {
    Ok(match serde_json::Value::deserialize(from)? {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_as_in_the_index_as_far_as_their_path_says() {
        let name = |path: &str| file_name(&Source::new(path), None);
        assert_eq!(
            name("/data/crawl-data/CC/segments/1/warc/x.warc.gz"),
            "crawl-data/CC/segments/1/warc/x.warc.gz"
        );
        assert_eq!(name("/data/warc/x.warc.gz"), "warc/x.warc.gz");
        assert_eq!(name("/data/x.warc.gz"), "x.warc.gz");
        assert_eq!(name("x.warc.gz"), "x.warc.gz");
        let wat = |path: &str| beside_wat(&Source::new(path), "x.warc.gz", None);
        assert_eq!(
            wat("crawl-data/CC/segments/1/wat/x.warc.wat.gz"),
            "crawl-data/CC/segments/1/warc/x.warc.gz"
        );
        assert_eq!(wat("wat/x.warc.wat.gz"), "warc/x.warc.gz");
        assert_eq!(wat("x.warc.wat.gz"), "x.warc.gz");
    }
}
