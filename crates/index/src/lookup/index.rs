//! A sorted index that can be searched.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use waypost_io::{Compression, Error, ErrorKind, Mapped, Result, Source};
use waypost_surt::Dialect;

use super::cache::BlockCache;
use super::cursor::{Buffers, cut};
use crate::kind::{self, FileKind};
use crate::layout::FileLayout;
use crate::range::Range;
use crate::search::line_around;
use crate::wacz::{self, Search, Wacz};
use crate::zipnum::{Opener, Remote, ZipNum};

/// A sorted index that can be searched.
pub struct Index {
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
    /// The dialect of a WACZ file.
    dialect: Option<Dialect>,
    /// Inflated blocks, and the number of this index in the cache.
    pub(super) cache: Option<(Arc<BlockCache>, u64)>,
    pub(super) buffers: Mutex<Vec<Buffers>>,
    /// Set when all lines are known to be in order.
    pub(super) checked: OnceLock<()>,
}

/// A ZipNum index that was opened in another way.
impl From<ZipNum> for Index {
    fn from(zipnum: ZipNum) -> Index {
        Index {
            path: zipnum.path().to_owned(),
            kind: Kind::ZipNum(Box::new(zipnum)),
            dialect: None,
            cache: None,
            buffers: Mutex::default(),
            checked: OnceLock::new(),
        }
    }
}

pub(super) enum Kind {
    Flat(Mapped),
    ZipNum(Box<ZipNum>),
}

impl Index {
    /// Opens a sorted, uncompressed file, the folder or `.idx` file of a ZipNum index, or the index in a
    /// WACZ file.
    ///
    /// # Errors
    /// If the file cannot be read or is compressed, or the folder is not a ZipNum index.
    pub fn open(path: &Path) -> Result<Index> {
        Index::of(&Source::new(path))
    }

    /// Opens the index that a source stands for.
    ///
    /// # Errors
    /// Like [`open`](Index::open).
    pub fn of(source: &Source) -> Result<Index> {
        let path = source.path();
        let is_idx = path
            .extension()
            .is_some_and(|extension| extension == "idx" || extension == "summary");
        let kind = if path.is_dir() {
            Kind::ZipNum(Box::new(ZipNum::open(path)?))
        } else if is_idx {
            Kind::ZipNum(Box::new(ZipNum::of(source)?))
        } else {
            match wacz::is_zip(source)? {
                true => return Index::of_wacz(&Wacz::open(source)?),
                false => Kind::Flat(flat(source)?),
            }
        };
        Ok(Index {
            path: path.to_owned(),
            kind,
            dialect: None,
            cache: None,
            buffers: Mutex::default(),
            checked: OnceLock::new(),
        })
    }

    /// The index in a WACZ file.
    ///
    /// # Errors
    /// If it has no index or several, or the index cannot be searched.
    pub fn of_wacz(wacz: &Wacz) -> Result<Index> {
        let kind = match wacz.search()? {
            Search::Flat(source) => Kind::Flat(flat(&source)?),
            Search::ZipNum(remote, open) => {
                let zipnum = ZipNum::remote(Remote {
                    url: &remote,
                    copy: None,
                    open,
                    connections: 1,
                })?;
                Kind::ZipNum(Box::new(zipnum))
            }
        };
        Ok(Index {
            path: wacz.path().to_owned(),
            kind,
            dialect: Some(wacz.dialect()),
            cache: None,
            buffers: Mutex::default(),
            checked: OnceLock::new(),
        })
    }

    /// Reads data files of a ZipNum index that are at URLs, at most `connections` at a time.
    #[must_use]
    pub fn with_opener(self, open: Opener, connections: usize) -> Index {
        let kind = match self.kind {
            // Those of a WACZ file are in it.
            Kind::ZipNum(zipnum) if self.dialect.is_none() => {
                Kind::ZipNum(Box::new(zipnum.with_opener(open, connections)))
            }
            other => other,
        };
        Index { kind, ..self }
    }

    /// The dialect that its keys are likely to be of, judging by the kind of file that it is in.
    pub fn usual_dialect(&self) -> Dialect {
        self.dialect.unwrap_or_default()
    }

    /// Allows ZipNum data files outside the folder of the index.
    #[must_use]
    pub fn anywhere(self, anywhere: bool) -> Index {
        let kind = match self.kind {
            Kind::ZipNum(zipnum) => Kind::ZipNum(Box::new(zipnum.anywhere(anywhere))),
            flat @ Kind::Flat(_) => flat,
        };
        Index { kind, ..self }
    }

    /// Keeps inflated blocks in a cache, which several indexes may share. For servers: blocks that are
    /// read only once are inflated only as far as needed.
    #[must_use]
    pub fn cached(self, cache: &Arc<BlockCache>) -> Index {
        let cache = Some((Arc::clone(cache), cache.next_index()));
        Index { cache, ..self }
    }

    /// The files by which a change of the index is noticed: a sorted file, a WACZ file, or the `.idx` and
    /// `.loc` files of a ZipNum index, which are replaced after its data files.
    pub fn own_files(&self) -> Vec<PathBuf> {
        match &self.kind {
            Kind::ZipNum(zipnum) if self.dialect.is_none() => zipnum.own_files(),
            _ => vec![self.path.clone()],
        }
    }

    /// Opens the data files of a ZipNum index now, and keeps them open.
    ///
    /// # Errors
    /// If a row is invalid, or a data file is missing or remote.
    pub fn keep_open(&self) -> Result<()> {
        match &self.kind {
            Kind::ZipNum(zipnum) if self.dialect.is_none() => zipnum.parts().map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Whether a lookup reads only from a mapped file, without inflating anything.
    pub fn is_flat(&self) -> bool {
        matches!(self.kind, Kind::Flat(_))
    }

    /// The layout of its lines, detected from the first ones.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn layout(&self) -> Result<FileLayout> {
        Ok(FileLayout::detect(&self.sample(FileLayout::SAMPLE)?))
    }

    /// The ZipNum index, if it is one.
    pub fn zipnum(&self) -> Option<&ZipNum> {
        match &self.kind {
            Kind::ZipNum(zipnum) => Some(zipnum),
            Kind::Flat(_) => None,
        }
    }

    /// Visits where a range can be split into parts of about equal size: the first lines of its blocks,
    /// or the starts of them, without the first block. A flat file has blocks of `size` bytes. Returns
    /// whether any block has lines of the range; one of a ZipNum index only may have some.
    ///
    /// # Errors
    /// If the index cannot be read, or `visit` fails.
    pub fn each_split<E: From<Error>>(
        &self,
        range: &Range,
        size: usize,
        mut visit: impl FnMut(&[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<bool, E> {
        // The same line again would make an empty part.
        let mut last = range.start.clone();
        let mut see = |line: &[u8]| match line > &last[..] {
            true => {
                last.clear();
                last.extend_from_slice(line);
                visit(line)
            }
            false => Ok(()),
        };
        match &self.kind {
            Kind::Flat(map) => {
                let lines = self.flat();
                let bounds = cut(lines, range);
                map.check()?;
                let (from, to) = bounds.map_err(|error| error.in_file(self.path.display()))?;
                let mut at = from + size;
                while at < to {
                    let (_, end) = line_around(lines, at);
                    let start = end + 1;
                    if start >= to {
                        break;
                    }
                    let (_, end) = line_around(lines, start);
                    see(&lines[start..end])?;
                    at = start + size;
                }
                map.check()?;
                Ok(from < to)
            }
            Kind::ZipNum(zipnum) => {
                let mut at = zipnum.first_row(&range.start)?;
                let mut any = false;
                while let Some((_, next)) = zipnum.row(at)? {
                    let key = zipnum.key(at)?;
                    if key >= &range.end[..] {
                        break;
                    }
                    if any {
                        see(key)?;
                    }
                    any = true;
                    at = next;
                }
                Ok(any)
            }
        }
    }

    /// The lines of a flat file, without a byte-order mark; nothing for ZipNum.
    pub(crate) fn flat(&self) -> &[u8] {
        match &self.kind {
            Kind::Flat(map) => map.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(map),
            Kind::ZipNum(_) => &[],
        }
    }

    /// The first bytes, to detect the layout.
    pub(crate) fn sample(&self, size: usize) -> Result<Vec<u8>> {
        match &self.kind {
            Kind::Flat(_) => {
                let lines = self.flat();
                Ok(lines[..lines.len().min(size)].to_vec())
            }
            Kind::ZipNum(zipnum) => {
                let mut lines = zipnum.block(zipnum.row_near(0, 1)?)?;
                lines.truncate(size);
                Ok(lines)
            }
        }
    }
}

/// The lines of a sorted file.
fn flat(source: &Source) -> Result<Mapped> {
    let map = Mapped::of(source)?;
    let compression = Compression::detect(&map[..map.len().min(16)]);
    if compression != Compression::Plain {
        let kind = ErrorKind::NotSearchable {
            compression: compression.name(),
        };
        return Err(Error::new(kind).in_file(source));
    }
    // Nothing would be found in a file of another kind, and everything called absent.
    match kind::detect(source)?.kind {
        FileKind::Index(_) | FileKind::Empty => Ok(map),
        other => Err(other.instead_of("an index").in_file(source)),
    }
}
