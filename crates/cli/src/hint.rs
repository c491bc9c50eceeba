//! Errors that say what to do: `error: …` is followed by `hint: …`.
//!
//! ```ignore
//! File::open(path).with_context(|| format!("cannot open {path}")).hint("check the path")?;
//! ```

use std::fmt;
use std::io;

use waypost_io::{LONGEST_LINE, Place};

/// An error with a hint. Prints like the error itself; [`of`] returns the hint.
#[derive(Debug)]
struct Hinted {
    error: anyhow::Error,
    hint: String,
}

impl fmt::Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Hinted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.chain().nth(1)
    }
}

/// Adds a hint to the error of a result.
pub(crate) trait Hint<T> {
    /// Adds what the user can do about the error.
    fn hint(self, hint: impl Into<String>) -> anyhow::Result<T>;

    /// Adds what the user can do about the error, unless [`of`] knows something better.
    fn hint_otherwise(self, hint: impl Into<String>) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> Hint<T> for Result<T, E> {
    fn hint(self, hint: impl Into<String>) -> anyhow::Result<T> {
        self.map_err(|error| {
            anyhow::Error::new(Hinted {
                error: error.into(),
                hint: hint.into(),
            })
        })
    }

    fn hint_otherwise(self, hint: impl Into<String>) -> anyhow::Result<T> {
        match self.map_err(Into::into) {
            Err(error) if of(&error).is_none() => Err(error).hint(hint),
            result => result,
        }
    }
}

/// The hint of an error: one that was added to it or to one of its causes, or the usual one for its
/// kind.
pub(crate) fn of(error: &anyhow::Error) -> Option<&str> {
    error.chain().find_map(|cause| {
        if let Some(hinted) = cause.downcast_ref::<Hinted>() {
            // The chain continues below the error that was hinted.
            return Some(hinted.hint.as_str());
        }
        if let Some(error) = cause.downcast_ref::<waypost_summary::Error>() {
            return of_summary(error.kind());
        }
        let error = cause.downcast_ref::<waypost_io::Error>()?;
        of_file(error.kind())
    })
}

/// Where the error happened, if a library knows it.
pub(crate) fn place_of(error: &anyhow::Error) -> Option<&Place> {
    error.chain().find_map(|cause| {
        if let Some(hinted) = cause.downcast_ref::<Hinted>() {
            return place_of(&hinted.error);
        }
        if let Some(error) = cause.downcast_ref::<waypost_summary::Error>() {
            return Some(error.place());
        }
        Some(cause.downcast_ref::<waypost_io::Error>()?.place())
    })
}

/// What to do about a summary.
fn of_summary(kind: &waypost_summary::ErrorKind) -> Option<&'static str> {
    use waypost_summary::ErrorKind;
    Some(match kind {
        ErrorKind::Io(kind) => return of_file(kind),
        ErrorKind::Syntax(_) => {
            "a line is `key {json}` or `key frequency`; headers start with ! or @"
        }
        ErrorKind::NotSorted { .. } => "sort it by bytes: `LC_ALL=C sort`",
        ErrorKind::PoliciesDiffer { .. } => {
            "merge profiles of the same policy, or convert finer ones to a coarser one with `--policy H3P0`"
        }
        ErrorKind::SecondKeys => "give --by if and only if the profiles have a second key",
        ErrorKind::Companion(_) => {
            "keep the map and its filter in one folder under their original names, rebuild them with `waypost map compact --filters`, or read the rows alone with --ignore-filter"
        }
        ErrorKind::NotWhole(_) => {
            "copy or build the file again; if you changed its rows yourself, remove the line `!rows`"
        }
        ErrorKind::Table(_) => "rebuild the table with `waypost map index MAP`, or remove it",
        ErrorKind::Untidy => "sort it with `waypost map merge MAP -o ORDERED`",
        ErrorKind::FiltersToMerge => {
            "rebuild the filters with --holdings INPUT, where INPUT is what all the maps hold, or merge only the rows with --ignore-filter"
        }
        ErrorKind::Holdings(_) => {
            "build the map from these holdings: `waypost map build HOLDINGS -o full.ukvs`"
        }
        ErrorKind::NeedsSecret(_) => "name the key file that it was built with: --key-file FILE",
        ErrorKind::FilterAsHoldings(_) => {
            "name the index or a list of URIs; lookups, `map compact --filters` and `map merge` take unkeyed hashes of whole URIs, too: `waypost filter build --kind hashes`"
        }
        ErrorKind::LookupsTooLarge(_) => {
            "raise --memory, or use a random sample: `shuf -n 100000 LIST`"
        }
        _ => return None,
    })
}

/// What to do about a file that cannot be read or written.
fn of_file(kind: &waypost_io::ErrorKind) -> Option<&'static str> {
    use waypost_io::ErrorKind;
    Some(match kind {
        ErrorKind::Io { source, .. } => match source.kind() {
            io::ErrorKind::NotFound => "check the path",
            io::ErrorKind::PermissionDenied => "check who may read and write there",
            io::ErrorKind::StorageFull => {
                "free some space, or choose another folder for temporary files with --temporary FOLDER"
            }
            _ => return None,
        },
        ErrorKind::Truncated { .. } | ErrorKind::EndsEarly => {
            "the file was cut while it was written or copied; copy it again"
        }
        ErrorKind::Corrupt { .. } => "copy the file again and compare checksums",
        ErrorKind::TrailingGarbage { .. } => "cut the file at that byte, or copy it again",
        ErrorKind::Remote { problem, .. } => return of_remote(*problem),
        ErrorKind::SameName { .. } => {
            "write their paths below a folder that has all of them: --dir-root FOLDER"
        }
        ErrorKind::NoIndex => {
            "name the files themselves; in folders, names like *.cdx, *.cdxj, cdx-*.gz are read"
        }
        ErrorKind::BadLine { .. } => {
            "leave --strict out to count bad lines and go on, or keep them with --rejects FILE"
        }
        ErrorKind::NotSorted { .. } => "sort it first with `waypost index sort`",
        // Not the limit that is the same for every file.
        ErrorKind::LineTooLong { bytes } if *bytes != LONGEST_LINE => "raise --memory",
        ErrorKind::NotSearchable { .. } => {
            "convert it with `waypost index zipnum`, or decompress it"
        }
        ErrorKind::TooLarge { .. } => "raise --memory",
        ErrorKind::Encoding(_) => "write the body as it was captured with --as http",
        ErrorKind::TooManyResults => "limit them with --limit",
        ErrorKind::Utf16 => "convert it first: `iconv -f UTF-16 -t UTF-8`",
        ErrorKind::WrongKind { found, wanted } => of_wrong_kind(found, wanted),
        _ => return None,
    })
}

/// What to do about a remote file.
fn of_remote(problem: waypost_io::RemoteProblem) -> Option<&'static str> {
    use waypost_io::RemoteProblem;
    Some(match problem {
        RemoteProblem::Missing => "check the URL",
        RemoteProblem::Denied => {
            "check the URL; some servers also answer like this when they get too many requests: try again later with --connections 1"
        }
        RemoteProblem::Changed => "run the command again",
        RemoteProblem::NoRanges => {
            "download the files and use them here, or find a server that supports range requests"
        }
        RemoteProblem::Unreachable => {
            "check the URL and the network; proxies are taken from the environment (HTTPS_PROXY, HTTP_PROXY, NO_PROXY)"
        }
        RemoteProblem::Busy => "try again later, with fewer --connections",
        _ => return None,
    })
}

/// What to do about a file of the wrong kind.
fn of_wrong_kind(found: &str, wanted: &str) -> &'static str {
    match (found, wanted) {
        ("an index", "a map") => {
            "build a map with `waypost map build INDEX -o MAP`, or search the index itself with `waypost index lookup`"
        }
        ("an index", "a profile") => {
            "build profiles with `waypost profile INDEX -o FOLDER`, or search the index itself with `waypost index lookup`"
        }
        ("an index", "a filter") => {
            "build a filter with `waypost filter build INDEX -o FILTER`, or search the index itself with `waypost index lookup`"
        }
        ("a summary", "a filter") => {
            "use `waypost lookup FILE URI`, which detects the kind of FILE"
        }
        ("a summary", "an index or a list") => {
            "merge summaries with `waypost profile merge` or `waypost map merge`, or name the index that it was built from"
        }
        ("a filter", "an index or a list") => {
            "build filters from a file of hashes with `waypost filter merge`, or name the index that it was built from"
        }
        ("a summary", _) => {
            "use `waypost map lookup` or `waypost profile lookup`, or name the index that it was built from"
        }
        ("a filter", _) => "use `waypost filter lookup`, or name the index that it was built from",
        ("the index of a ZipNum", "a map") => {
            "build a map with `waypost map build cluster.idx -o MAP`"
        }
        ("an index without a column for keys", _) => {
            "convert it first with `waypost index convert FILE --to cdxj -o OUT`, and rekey OUT"
        }
        ("a WARC file", _) => "index it first with `waypost index warc FILE -o OUT`",
        ("a WACZ file without an index", _) => {
            "index its WARC files with `waypost index warc FILE -o OUT`"
        }
        ("a WACZ file", "a map") => "build a map with `waypost map build FILE -o MAP`",
        ("a WACZ file", "a profile") => "build profiles with `waypost profile FILE -o FOLDER`",
        ("a WACZ file", "a filter") => "build a filter with `waypost filter build FILE -o FILTER`",
        ("a WACZ file", _) => "name the file itself: a WACZ file cannot be read from a pipe",
        ("a Parquet file", _) => {
            "use a build with `--features parquet`, or the Python package, which read Parquet"
        }
        ("a zip archive", _) => {
            "WACZ files, which have the folders indexes/ and archive/, are read; unzip other archives"
        }
        ("text whose lines are mostly not URIs", _) => {
            "a list has one URI or SURT per line, such as http://example.com/ or com,example)/"
        }
        _ => "name an index (CDX, CDXJ, ZipNum), or a list with one URI per line",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn errors_of_the_libraries_have_hints_that_name_options() {
        let of_file = |kind| of(&waypost_io::Error::new(kind).into()).map(str::to_owned);
        let too_long = |bytes| of_file(waypost_io::ErrorKind::LineTooLong { bytes });
        assert_eq!(too_long(1 << 22).as_deref(), Some("raise --memory"));
        assert_eq!(too_long(LONGEST_LINE), None);
        let full = waypost_io::ErrorKind::Io {
            doing: "write",
            source: io::ErrorKind::StorageFull.into(),
        };
        assert!(of_file(full).unwrap().contains("--temporary"));
        let companion = waypost_summary::ErrorKind::Companion("missing".to_owned());
        let companion = anyhow::Error::new(waypost_summary::Error::new(companion));
        assert!(of(&companion).unwrap().contains("--ignore-filter"));
        // A file below a summary's error, and a better hint that was added by hand.
        let unsorted = waypost_io::Error::not_sorted(b"b", b"a");
        let unsorted = anyhow::Error::new(waypost_summary::Error::from(unsorted));
        assert!(of(&unsorted).unwrap().contains("index sort"));
        let other = Err::<(), _>(unsorted)
            .hint_otherwise("something else")
            .unwrap_err();
        assert!(of(&other).unwrap().contains("index sort"));
        let other = Err::<(), _>(other).hint("by hand").unwrap_err();
        assert_eq!(of(&other), Some("by hand"));
    }

    #[test]
    fn a_hint_is_found_under_context_and_the_causes_are_kept() {
        let error = Err::<(), _>(std::io::Error::other("disk on fire"))
            .context("cannot write x")
            .hint("use another disk")
            .context("sorting failed")
            .unwrap_err();
        assert_eq!(of(&error), Some("use another disk"));
        let chain: Vec<String> = error.chain().map(ToString::to_string).collect();
        assert_eq!(chain, ["sorting failed", "cannot write x", "disk on fire"]);
    }
}
