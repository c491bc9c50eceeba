//! A TimeMap written memento by memento.

use std::io::{self, Write};

use super::{Format, Memento, Relations, TimeMap, cdxj, json, link};

/// Writes a TimeMap memento by memento, for TimeMaps that are sent while they are written. The
/// result is that of [`TimeMap::write`].
///
/// ```
/// use waypost_memento::{Datetime, Format, Memento, TimeMap, TimeMapWriter};
///
/// let memento = Memento::new("http://a/2014/http://b/", Datetime::parse_timestamp("2014")?);
/// let mut timemap = TimeMap { original: "http://b/".to_owned(), ..TimeMap::default() };
/// let mut pieces = Vec::new();
/// let mut writer = TimeMapWriter::start(timemap.clone(), Format::Json, &mut pieces)?;
/// writer.memento(&memento, true, true, &mut pieces)?;
/// writer.finish(&mut pieces)?;
///
/// timemap.mementos.push(memento);
/// timemap.sort();
/// let mut whole = Vec::new();
/// timemap.write(Format::Json, &mut whole)?;
/// assert_eq!(pieces, whole);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TimeMapWriter {
    /// What JSON names after the list is kept: the first and the last memento.
    links: TimeMap,
    format: Format,
    is_empty: bool,
}

impl TimeMapWriter {
    /// Writes what comes before the mementos. Those of `links` are ignored.
    ///
    /// # Errors
    /// If writing fails.
    pub fn start(
        mut links: TimeMap,
        format: Format,
        out: &mut impl Write,
    ) -> io::Result<TimeMapWriter> {
        links.mementos.clear();
        match format {
            Format::Link => link::write_head(&links, out)?,
            Format::Json => json::write_head(&links, out)?,
            Format::Cdxj => cdxj::write_head(&links, out)?,
        }
        Ok(TimeMapWriter {
            links,
            format,
            is_empty: true,
        })
    }

    /// Writes a memento, and whether it is the first or last. Other relations are ignored.
    ///
    /// # Errors
    /// If writing fails.
    pub fn memento(
        &mut self,
        memento: &Memento,
        first: bool,
        last: bool,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let relations = Relations {
            first,
            last,
            ..Relations::default()
        };
        match self.format {
            Format::Link => link::write_memento(memento, relations, out)?,
            Format::Cdxj => cdxj::write_memento(memento, relations, out)?,
            Format::Json => {
                json::write_memento(memento, self.is_empty, out)?;
                if first || last {
                    self.links.mementos.push(Memento {
                        relations,
                        parameters: Vec::new(),
                        ..memento.clone()
                    });
                }
            }
        }
        self.is_empty = false;
        Ok(())
    }

    /// Writes what comes after the mementos.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(self, out: &mut impl Write) -> io::Result<()> {
        match self.format {
            Format::Link => link::write_tail(&self.links, out),
            Format::Json => json::write_tail(&self.links, self.is_empty, out),
            Format::Cdxj => Ok(()),
        }
    }
}
