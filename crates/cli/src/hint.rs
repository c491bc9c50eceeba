//! Errors that say what to do: `error: …` is followed by `hint: …`.
//!
//! ```ignore
//! File::open(path).with_context(|| format!("cannot open {path}")).hint("check the path")?;
//! ```

use std::fmt;

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
}

/// The hint of an error, if it or one of its causes carries one.
pub(crate) fn of(error: &anyhow::Error) -> Option<&str> {
    error.chain().find_map(|cause| {
        if let Some(hinted) = cause.downcast_ref::<Hinted>() {
            return Some(hinted.hint.as_str());
        }
        if let Some(error) = cause.downcast_ref::<waypost_summary::Error>() {
            return match error.kind() {
                waypost_summary::ErrorKind::Index(error) => of_input(error),
                _ => error.hint(),
            };
        }
        cause.downcast_ref::<waypost_io::Error>().and_then(of_input)
    })
}

/// What to do about an unsuitable input.
fn of_input(error: &waypost_io::Error) -> Option<&'static str> {
    let waypost_io::ErrorKind::WrongKind { found, wanted } = error.kind() else {
        return error.hint();
    };
    Some(match (*found, *wanted) {
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
        ("a summary", _) => {
            "use `waypost map lookup` or `waypost profile lookup`, or name the index that it was built from"
        }
        ("a filter", _) => "use `waypost filter lookup`, or name the index that it was built from",
        ("the index of a ZipNum", "a map") => {
            "build a map with `waypost map build cluster.idx -o MAP`"
        }
        ("a WARC file", _) => "index it first, for example with `cdxj-indexer`, and name the index",
        ("a zip archive", _) => {
            "if it is a WACZ file, unzip it and name the index in it: indexes/index.cdx.gz"
        }
        ("text whose lines are mostly not URIs", _) => {
            "a list has one URI or SURT per line, such as http://example.com/ or com,example)/"
        }
        _ => "name an index (CDX, CDXJ, ZipNum), or a list with one URI per line",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

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
