//! Detecting the kind of each source from its first bytes.

use waypost_index::kind::{self, FileKind};
use waypost_index::layout::FileLayout;
use waypost_io::Error as IndexError;
use waypost_io::Source;

use super::Input;
use crate::error::{Error, ErrorKind, Result};

/// The content of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Captures, in this layout.
    Index(String),
    /// URIs or SURTs, one per line.
    List,
    /// Rows of a profile or map.
    Summary,
    /// Nothing.
    Empty,
}

pub(super) struct Sniffed {
    pub(super) contents: Vec<(String, Content)>,
    /// Damage of sources of which nothing can be read.
    pub(super) damages: Vec<IndexError>,
}

pub(super) fn sniff(input: &Input) -> Result<Sniffed> {
    let mut contents = Vec::new();
    let mut damages = Vec::new();
    for source in &input.sources {
        let told = tell(source)?;
        let content = told.content;
        if let Some(damage) = told.damage.filter(|_| content == Content::Empty) {
            // None of it can be read, so nothing else would report the damage.
            if input.strict {
                return Err(damage.into());
            }
            damages.push(damage);
        }
        contents.push((source.to_string(), content));
    }
    Ok(Sniffed { contents, damages })
}

/// What was detected about a source.
pub(crate) struct Detected {
    pub(crate) content: Content,
    pub(crate) damage: Option<IndexError>,
}

/// The kind of a source, if holdings can be read from it.
///
/// # Errors
/// If it can't be read, or is of another kind.
pub(crate) fn tell(source: &Source) -> Result<Detected> {
    let told = kind::detect(source)?;
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
    Ok(Detected {
        content,
        damage: told.damage,
    })
}

fn shape_of(layout: &FileLayout) -> String {
    layout
        .shape()
        .map(|shape| shape.to_string())
        .unwrap_or_default()
}

/// The kind of a source that starts with these bytes.
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
