//! What each source is, by how it begins.

use waypost_index::input::Source;
use waypost_index::key::Rekeyer;
use waypost_index::kind::{self, FileKind};
use waypost_index::layout::{FileLayout, Line};
use waypost_index::{Error as IndexError, Field};

use super::{Input, escaped};
use crate::error::{Error, ErrorKind, Result};

/// What a source holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Captures, in this layout.
    Index(String),
    /// URIs or SURTs, one a line.
    List,
    /// Rows of a profile or map.
    Summary,
    /// Nothing.
    Empty,
}

pub(super) struct Sniffed {
    pub(super) contents: Vec<(String, Content)>,
    /// Whether it looks as if all were indexes, in order.
    pub(super) in_order: bool,
    /// Damage of sources of which nothing can be read.
    pub(super) damages: Vec<IndexError>,
}

pub(super) fn sniff(input: &Input) -> Result<Sniffed> {
    let mut contents = Vec::new();
    let mut in_order = true;
    let mut damages = Vec::new();
    let mut last: Vec<u8> = Vec::new();
    for source in &input.sources {
        let told = tell(source)?;
        let content = told.content;
        if let Some(damage) = told.damage.filter(|_| content == Content::Empty) {
            // Nothing of it can be read, so nobody else would find the damage.
            if input.strict {
                return Err(damage.into());
            }
            damages.push(damage);
        }
        let start = told.lines;
        if let Content::Index(_) = content {
            in_order &= is_in_order(input, &start, &mut last);
        } else if content != Content::Empty {
            in_order = false;
        }
        contents.push((source.to_string(), content));
    }
    Ok(Sniffed {
        contents,
        in_order,
        damages,
    })
}

/// What was told about a source.
pub(crate) struct Told {
    pub(crate) content: Content,
    /// The first readable lines.
    pub(crate) lines: Vec<u8>,
    pub(crate) damage: Option<IndexError>,
}

/// What a source holds, if holdings can be read from it.
///
/// # Errors
/// When it cannot be read, or is of another kind.
pub(crate) fn tell(source: &Source) -> Result<Told> {
    let told = kind::tell(source)?;
    let content = match &told.kind {
        FileKind::Empty => Content::Empty,
        FileKind::Index(layout) => Content::Index(shape_of(layout)),
        FileKind::List => Content::List,
        FileKind::Summary => Content::Summary,
        FileKind::Filter => {
            return Err(Error::new(ErrorKind::FilterAsHoldings(
                "this is a filter, which does not tell which URIs are held",
            ))
            .in_file(source));
        }
        other => {
            return Err(other
                .instead_of("an index or a list of URIs")
                .in_file(source)
                .into());
        }
    };
    Ok(Told {
        content,
        lines: told.lines,
        damage: told.damage,
    })
}

fn shape_of(layout: &FileLayout) -> String {
    layout
        .shape()
        .map(|shape| shape.to_string())
        .unwrap_or_default()
}

/// What begins like this.
pub(crate) fn content_of(start: &[u8]) -> Content {
    if start.trim_ascii().is_empty() {
        return Content::Empty;
    }
    // Headers of a summary name its keys; those of an index do not.
    let lines = || start.split(|&byte| byte == b'\n');
    let marked = |line: &&[u8]| matches!(line.first(), Some(b'!' | b'@'));
    let is_summary = lines().take_while(marked).any(|line| {
        [&b"!keys"[..], b"@keys", b"!fields", b"@fields", b"@about"]
            .iter()
            .any(|name| line.starts_with(name))
    });
    if is_summary {
        return Content::Summary;
    }
    let layout = FileLayout::detect(start);
    match layout.shape() {
        Some(shape) => Content::Index(shape.to_string()),
        None => Content::List,
    }
}

fn is_in_order(input: &Input, start: &[u8], last: &mut Vec<u8>) -> bool {
    let layout = FileLayout::detect(start);
    let mut rekeyer = Rekeyer::new(input.dialect);
    let whole = memchr::memrchr(b'\n', start).map_or(start, |end| &start[..end]);
    let first = last.clone();
    for line in whole.split(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let fields = Field::Url | Field::Mime;
        let Line::Capture(capture, _) = layout.read(line, fields, false) else {
            continue;
        };
        if waypost_index::web::non_web(&capture).is_some() {
            continue;
        }
        let surt = escaped(rekeyer.surt(&capture));
        if *surt < last[..] {
            return false;
        }
        last.clear();
        last.extend_from_slice(&surt);
    }
    *last >= first
}
