//! Building a map of exact keys from an archive's holdings.
//!
//! URI-Rs arrive in the order of their SURTs. Removing queries and trailing slashes breaks that
//! order: `/a`, `/a-b`, `/a?x` have the keys `/a`, `/a-b`, `/a`. SURTs that equal their keys stay
//! in order; the others are sorted separately, and the two are merged.

use std::fs::File;
use std::io;
use std::path::Path;

use waypost_index::rejects::RejectsFile;
use waypost_index::select::Select;
use waypost_io::{Phase, Progress, Resources, Source, temporary};
use waypost_surt::Surt;

use super::tree::row::{self, write_exact};
use super::tree::spool::{Spool, push_head};
use super::tree::spooled::{self, Spooled};
use super::tree::tidy::push_tidy;
use crate::about::{About, Archive, By, Texts};
use crate::error::{Error, ErrorKind, Result};
use crate::frequency::Number;
use crate::holdings::{self, Content, Held, Input, Pass, Reading, Reduce, Run, reduce};
use crate::scope::Scopes;
use crate::ukvs::{Header, Headers, Reader, Value, push_digits};

/// The result of building a map.
#[derive(Debug)]
pub struct BuildReport {
    /// What was read.
    pub reading: Reading,
    /// Rows written.
    pub rows: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Number of profiles read.
    pub profiles: usize,
}

/// Builds a map from captures, lists of URIs and `HxPx` profiles.
///
/// # Errors
/// When the input cannot be read, or the map cannot be written.
pub fn build(
    input: &Input,
    archive: &Archive,
    rejects: Option<&mut RejectsFile>,
    out: &Path,
) -> Result<BuildReport> {
    let room = input.resources.with_memory(input.resources.memory / 2);
    let mut profiles = Vec::new();
    let mut others = Vec::new();
    for source in &input.sources {
        match profile_keys(source)? {
            Some(keys) => profiles.push((source.clone(), keys)),
            None => others.push(source.clone()),
        }
    }
    let mut state = State::new(&room)?;
    let reading = if others.is_empty() {
        Reading::default()
    } else {
        let input = Input {
            sources: others,
            ..input.clone()
        };
        let (mut held, reading) = holdings::gather(&input, rejects)?;
        state.take(&mut held, &input)?;
        // Giving back a large file takes long. It has no name, so nothing is left of it in any case.
        rayon::spawn(|| drop(held));
        reading
    };
    let keys = 1 + usize::from(input.by.is_some());
    let mut about = about(input, archive, &reading);
    for (source, profile) in &profiles {
        if *profile != keys {
            return Err(Error::new(ErrorKind::SecondKeys).in_file(source));
        }
        holdings::check_filters(&input.select, source)?;
        let mut select = input.select.clone();
        select.dialect(input.dialect);
        read_profile(source, keys, &select, &mut state.rest, &mut about)?;
    }
    let mut head = Vec::new();
    headers(&about, about.by.map(By::field)).write(&mut head);
    let (rows, bytes) = state.write(&head, keys, input, out)?;
    Ok(BuildReport {
        reading,
        rows,
        bytes,
        profiles: profiles.len(),
    })
}

/// Builds a map from gathered holdings.
///
/// # Errors
/// When the map cannot be written.
pub fn write_held(
    held: &mut Held,
    reading: Reading,
    input: &Input,
    archive: &Archive,
    out: &Path,
) -> Result<BuildReport> {
    let mut state = State::new(&input.resources.with_memory(input.resources.memory / 2))?;
    state.take(held, input)?;
    let about = about(input, archive, &reading);
    let mut head = Vec::new();
    headers(&about, about.by.map(By::field)).write(&mut head);
    let keys = 1 + usize::from(input.by.is_some());
    let (rows, bytes) = state.write(&head, keys, input, out)?;
    Ok(BuildReport {
        reading,
        rows,
        bytes,
        profiles: 0,
    })
}

/// The same, to a writer.
///
/// # Errors
/// When the map cannot be written.
pub fn write_to(
    held: &mut Held,
    reading: Reading,
    input: &Input,
    archive: &Archive,
    mut out: impl std::io::Write,
) -> Result<BuildReport> {
    // The first line is known only at the end.
    let file = temporary::file_in(&input.resources.temporary)?.into_temp_path();
    let report = write_held(held, reading, input, archive, &file)?;
    let copied = File::open(&file).and_then(|mut file| io::copy(&mut file, &mut out));
    copied
        .and_then(|_| out.flush())
        .map_err(|error| Error::io("write", Path::new("the map"), error))?;
    Ok(report)
}

/// The number of key fields in the rows of an `HxPx` profile. `None` if it is something else.
fn profile_keys(source: &Source) -> Result<Option<usize>> {
    let mut start = [0];
    if source.open()?.read_full(&mut start).0 == 0 || !matches!(start[0], b'!' | b'@') {
        return Ok(None);
    }
    let Ok(reader) = Reader::new(source.to_string(), source.open()?.text()) else {
        return Ok(None);
    };
    let Ok(about) = About::from_headers(reader.headers()) else {
        return Ok(None);
    };
    match about.policy {
        Some(policy) if policy.to_string() == "HxPx" => {
            Ok(Some(1 + usize::from(about.by.is_some())))
        }
        Some(policy) => Err(Error::invalid(format!(
            "a map is made of exact keys, but this is a profile of {policy}; only HxPx has them"
        ))
        .in_file(source)),
        None => Ok(None),
    }
}

fn read_profile(
    source: &Source,
    keys: usize,
    select: &Select,
    spool: &mut Spool,
    about: &mut About,
) -> Result<()> {
    let mut reader = Reader::new(source.to_string(), source.open()?.text())?;
    let mut text = Vec::new();
    let mut key = Vec::new();
    loop {
        let parsed = match reader.next_line()? {
            None => break,
            Some(line) => crate::profile::Row::parse(line, keys, &mut text),
        };
        let found = parsed.map_err(|error| reader.error(error))?;
        let mut fields = text.splitn(2, |&byte| byte == b' ');
        let row = row::Row {
            key: fields.next().unwrap_or_default().into(),
            second: fields.next().map(Into::into),
            frequency: found.frequency,
            filter: None,
        };
        if select.accepts_uri(&row.key, &row.key) {
            push_tidy(spool, &row, &mut key)?;
        }
    }
    let said = About::from_headers(reader.headers())?;
    let fresh = about.sources == 0;
    let merged = if fresh {
        said
    } else {
        std::mem::take(about).merged(said)
    };
    *about = About {
        policy: None,
        ..merged
    };
    Ok(())
}

fn about(input: &Input, archive: &Archive, reading: &Reading) -> About {
    let lists = reading
        .contents
        .iter()
        .any(|(_, content)| matches!(content, Content::List));
    let read = !reading.contents.is_empty();
    About {
        archive: archive.clone(),
        policy: None,
        by: input.by,
        dialect: input.dialect,
        scopes: if read {
            Scopes::of(&input.select)
        } else {
            Scopes::default()
        },
        source: if !read {
            Texts::default()
        } else {
            Texts::from(if lists { "uris" } else { "cdx" }.to_owned())
        },
        sources: u64::from(read),
        first: reading.first,
        last: reading.last,
        until: None,
        updated: reading.last,
        captures: read.then(|| Number::exact(reading.captures)),
        urirs: read.then(|| Number::exact(reading.urirs)),
    }
}

/// The headers of a map with this second key.
pub fn headers(about: &About, second: Option<&str>) -> Headers {
    let mut headers = Headers::default();
    let mut keys: Vec<Value> = vec!["surt".into()];
    keys.extend(second.map(Value::from));
    for (name, content) in about.headers().iter() {
        match name {
            "keys" => {
                let fields = vec![
                    ("keys".into(), Value::List(keys.clone())),
                    ("values".into(), Value::List(vec!["frequency".into()])),
                ];
                headers.add(Header::new("fields", Value::Object(fields)));
            }
            "meta" => {
                let meta = vec![
                    ("type".into(), "MementoMap".into()),
                    ("wildcards".into(), "partition".into()),
                ];
                headers.add(Header::new("meta", Value::Object(meta)));
                headers.add(Header {
                    old: false,
                    name: name.to_owned(),
                    content: content.clone(),
                });
            }
            "context" => {
                let context = Value::List(vec!["https://oduwsdl.github.io/contexts/ukvs".into()]);
                headers.add(Header::new("context", context));
            }
            _ => headers.add(Header {
                old: false,
                name: name.to_owned(),
                content: content.clone(),
            }),
        }
    }
    headers
}

/// Turns URI-Rs into rows.
struct Maker {
    by: bool,
}

struct State {
    /// URI-Rs that equal their keys, in order.
    main: Spool,
    /// Keys of the others.
    rest: Spool,
}

impl State {
    fn new(room: &Resources) -> Result<State> {
        Ok(State {
            main: Spool::new(room)?,
            rest: Spool::new(room)?,
        })
    }

    /// Merges everything and writes it. Returns the number of rows, and of bytes.
    fn write(self, head: &[u8], keys: usize, input: &Input, out: &Path) -> Result<(u64, u64)> {
        let (room, progress) = (&input.resources, &input.progress);
        spooled::write(self.finish(progress)?, keys, head, room, progress, out)
    }

    /// Sorts everything. The next phase writes it.
    fn finish(self, progress: &Progress) -> Result<Vec<Spooled>> {
        progress.begin(Phase::Sorting, None);
        let spools = vec![self.main.finish()?, self.rest.finish()?];
        let size = spools.iter().map(Spooled::size).sum();
        progress.begin(Phase::Writing, Some(size));
        Ok(spools)
    }

    /// Adds the rows of the holdings.
    fn take(&mut self, held: &mut Held, input: &Input) -> Result<()> {
        let maker = Maker {
            by: input.by.is_some(),
        };
        let pass = Pass {
            memory: input.resources.memory / 8,
            piece: 1 << 18,
            phase: Phase::Sorting,
            progress: &input.progress,
        };
        reduce(held, &maker, pass, |mut part, _| {
            part.flush();
            self.main.push_lines(part.main, true)?;
            self.rest.push_lines(part.rest, false)
        })
    }
}

/// Rows of consecutive URI-Rs, as lines.
#[derive(Default)]
struct Rows {
    main: Vec<u8>,
    rest: Vec<u8>,
    /// The last key of the others, which may recur.
    key: Vec<u8>,
    captures: u64,
    urirs: u64,
    scratch: Vec<u8>,
}

impl Rows {
    fn flush(&mut self) {
        if self.urirs > 0 {
            push_line(&mut self.rest, &self.key, b"", self.captures, self.urirs);
            self.urirs = 0;
            self.captures = 0;
        }
    }
}

fn push_line(out: &mut Vec<u8>, key: &[u8], second: &[u8], captures: u64, urirs: u64) {
    push_head(key, second, out);
    push_digits(captures, out);
    out.push(b'/');
    push_digits(urirs, out);
    out.push(b'\n');
}

impl Reduce for Maker {
    type Part = Rows;

    fn part(&self) -> Rows {
        Rows::default()
    }

    #[inline]
    fn run(&self, rows: &mut Rows, run: &Run) {
        let mut key = std::mem::take(&mut rows.scratch);
        key.clear();
        write_exact(Surt::new(&run.surt).without_query(), &mut key);
        if self.by {
            let mut seconds: Vec<_> = run.seconds.iter().collect();
            seconds.sort_unstable_by(|a, b| a.0.cmp(&b.0));
            let out = if key == run.surt {
                &mut rows.main
            } else {
                &mut rows.rest
            };
            for (second, counts) in seconds {
                push_line(out, &key, second, counts.captures, counts.urirs);
            }
        } else if key == run.surt {
            push_line(&mut rows.main, &key, b"", run.counts.captures, 1);
        } else {
            if key != rows.key {
                rows.flush();
                rows.key.clear();
                rows.key.extend_from_slice(&key);
            }
            rows.captures += run.counts.captures;
            rows.urirs += 1;
        }
        rows.scratch = key;
    }
}
