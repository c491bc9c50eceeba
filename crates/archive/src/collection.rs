//! A collection: one or more indexes that are searched as one, and reopened when they change.

use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use waypost_index::layout::FileLayout;
use waypost_index::lookup::{BlockCache, Index};
use waypost_io::{Result, Stamp};
use waypost_surt::Dialect;

use crate::row::Origin;

/// An index of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// A sorted file, the folder of a ZipNum index, or its `.idx` file.
    pub path: PathBuf,
    /// The dialect of its keys.
    pub dialect: Dialect,
    /// Whether data files outside the folder of a ZipNum index may be read.
    pub anywhere: bool,
}

impl Source {
    /// The name that clients see: the path if it is below the working directory, else only the name of
    /// the file, because the folders of a server are nobody else's business.
    fn name(&self) -> String {
        let plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        match !self.path.components().all(plain) {
            true => self.path.file_name().map(Path::new).unwrap_or(&self.path),
            false => &self.path,
        }
        .display()
        .to_string()
    }
}

/// Indexes that are searched as one.
#[derive(Debug)]
pub struct Collection {
    name: String,
    sources: Vec<Source>,
    cache: Arc<BlockCache>,
    open: RwLock<Vec<Arc<OpenIndex>>>,
}

/// An index, as it was when it was opened.
pub(crate) struct OpenIndex {
    pub(crate) index: Index,
    pub(crate) layout: FileLayout,
    pub(crate) dialect: Dialect,
    pub(crate) origin: Origin,
    /// Its files, by which a change is noticed.
    stamps: Vec<(PathBuf, Option<Stamp>)>,
}

impl std::fmt::Debug for OpenIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenIndex")
            .field("origin", &self.origin)
            .field("stamps", &self.stamps)
            .finish_non_exhaustive()
    }
}

impl Collection {
    /// Opens all indexes of a collection.
    ///
    /// # Errors
    /// If one of them cannot be opened.
    pub fn open(name: &str, sources: Vec<Source>, cache: &Arc<BlockCache>) -> Result<Collection> {
        let open = sources
            .iter()
            .map(|source| open(name, source, cache))
            .collect::<Result<_>>()?;
        Ok(Collection {
            name: name.to_owned(),
            sources,
            cache: Arc::clone(cache),
            open: RwLock::new(open),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The indexes, as they are now. Whoever holds them can finish with them, even if they are replaced.
    pub(crate) fn indexes(&self) -> Vec<Arc<OpenIndex>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.clone()
    }

    /// Reopens the indexes whose files have changed. Returns how many, and why others could not be: they
    /// stay as they were.
    pub fn refresh(&self) -> (usize, Vec<waypost_io::Error>) {
        let mut reopened = 0;
        let mut errors = Vec::new();
        for (at, (source, old)) in self.sources.iter().zip(self.indexes()).enumerate() {
            if old.is_current() {
                continue;
            }
            match open(&self.name, source, &self.cache) {
                Ok(new) => {
                    self.open.write().unwrap_or_else(PoisonError::into_inner)[at] = new;
                    reopened += 1;
                }
                Err(error) => errors.push(error),
            }
        }
        (reopened, errors)
    }
}

impl OpenIndex {
    fn is_current(&self) -> bool {
        let mut stamps = self.stamps.iter();
        stamps.all(|(path, stamp)| Stamp::of_path(path).ok() == *stamp)
    }
}

/// How often an index is opened again that changes meanwhile.
const ATTEMPTS: usize = 3;

fn open(collection: &str, source: &Source, cache: &Arc<BlockCache>) -> Result<Arc<OpenIndex>> {
    let mut attempt = 0;
    loop {
        // Stamps from before and after: what was opened is what they say.
        let before = stamps(&Index::open(&source.path)?);
        let index = Index::open(&source.path)?
            .anywhere(source.anywhere)
            .cached(cache);
        // The data files of a ZipNum index stay open, if they are replaced one after the other.
        index.keep_open()?;
        let layout = index.layout()?;
        let after = stamps(&index);
        attempt += 1;
        if before == after || attempt == ATTEMPTS {
            return Ok(Arc::new(OpenIndex {
                layout,
                index,
                dialect: source.dialect,
                origin: Origin::new(source.name(), collection.to_owned()),
                stamps: before,
            }));
        }
    }
}

fn stamps(index: &Index) -> Vec<(PathBuf, Option<Stamp>)> {
    let stamp = |path: PathBuf| {
        let stamp = Stamp::of_path(&path).ok();
        (path, stamp)
    };
    index.own_files().into_iter().map(stamp).collect()
}
