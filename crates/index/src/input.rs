//! Which files are indexes: [`expand`] turns the names given by a user into [`Source`]s.

use std::path::PathBuf;
use std::sync::Arc;

use waypost_io::{Expanded, InputKind, Result, Source, adapters};

use crate::kind::{self, FileKind};
use crate::wacz::{self, Wacz};
use crate::zipnum::{Remote, ZipNum};

/// Expands names to sources. Folders are searched recursively for files that are named like indexes:
/// `*.cdx`, `*.cdxj`, `*.ndjson`, `*.jsonl`, `cdx-00000` and `part-00000`, each optionally with
/// `.gz`, `.zst` or `.bz2`, `*.wacz`, and tables for which there is an
/// [adapter](waypost_io::adapters). Hidden files are skipped. The `.idx` file of a ZipNum index, which may
/// be on the Web, stands for its data files, and a WACZ file for the indexes in it.
///
/// # Errors
/// If a name does not exist, a folder contains no index, or standard input is named twice.
pub fn expand<I>(names: I) -> Result<Expanded>
where
    I: IntoIterator,
    I::Item: Into<PathBuf>,
{
    let names: Vec<PathBuf> = names.into_iter().map(Into::into).collect();
    // The data files of a ZipNum index are read without its `.idx` file, but they belong together.
    for folder in names.iter().filter(|name| name.is_dir()) {
        if let Ok(zipnum) = ZipNum::open(folder)
            && let Err(error) = zipnum.check_end()
            && error.is_damage()
        {
            return Err(error);
        }
    }
    let is_wanted =
        |name: &str| is_index_name(name) || is_wacz_name(name) || adapters::is_table_name(name);
    let mut expanded = waypost_io::expand(names, is_wanted)?;
    let mut sources = Vec::new();
    for source in expanded.sources {
        match inner(&source)? {
            Some(inner) => sources.extend(inner),
            None => sources.push(source),
        }
    }
    expanded.sources = sources;
    Ok(expanded)
}

/// The files that a source stands for, if it is the `.idx` file of a ZipNum index or a WACZ file.
fn inner(source: &Source) -> Result<Option<Vec<Source>>> {
    let path = source.path();
    if let Some((url, adapter)) = adapters::url_of(path) {
        if !is_idx(url) {
            return Ok(None);
        }
        let remote = Remote {
            url,
            copy: None,
            open: Arc::new(adapter.open),
            connections: adapter.connections,
        };
        return ZipNum::remote(remote)?.sources().map(Some);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if is_index_name(&name) || source.kind()? != InputKind::Regular {
        return Ok(None);
    }
    match kind::detect(source).map(|told| told.kind) {
        kind if matches!(kind, Ok(FileKind::ZipNumIndex))
            || (matches!(kind, Ok(FileKind::Empty)) && is_idx(&name)) =>
        {
            let parts = ZipNum::open(path)?.parts()?;
            Ok(Some(parts.into_iter().map(Source::new).collect()))
        }
        Ok(FileKind::Wacz | FileKind::Zip) => Wacz::open(source)?.indexes().map(Some),
        // Other files and errors are reported when the source is read.
        _ => Ok(None),
    }
}

/// Whether a URL is that of the `.idx` file of a ZipNum index.
pub fn is_idx(url: &str) -> bool {
    let name = url.split(['?', '#']).next().unwrap_or(url);
    name.ends_with(".idx") || name.ends_with(".summary")
}

/// Whether all of some sources are in WACZ files.
pub fn are_wacz(sources: &[Source]) -> bool {
    !sources.is_empty() && sources.iter().all(|source| source.container().is_some())
}

/// Whether a file is named like a WACZ file.
pub(crate) fn is_wacz_name(name: &str) -> bool {
    name.to_ascii_lowercase().ends_with(wacz::EXTENSION)
}

/// Whether a file is named like an index.
pub(crate) fn is_index_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let bare = [".gz", ".zst", ".bz2"]
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
        .unwrap_or(&name);
    let numbered = |prefix: &str| {
        bare.strip_prefix(prefix)
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    };
    [".cdx", ".cdxj", ".ndjson", ".jsonl"]
        .iter()
        .any(|suffix| bare.ends_with(suffix))
        || numbered("cdx-")
        || numbered("part-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_an_index_are_told_by_name_from_those_beside_them() {
        for name in [
            "a.cdx",
            "A.CDX.GZ",
            "b.cdxj.zst",
            "cdx-00012.gz",
            "part-00001",
            "x.ndjson.bz2",
        ] {
            assert!(is_index_name(name), "{name}");
        }
        for name in [
            "cluster.idx",
            "cluster.loc",
            "a.warc.gz",
            "cdx-.gz",
            "readme.txt",
            "metadata.yaml",
        ] {
            assert!(!is_index_name(name), "{name}");
        }
    }
}
