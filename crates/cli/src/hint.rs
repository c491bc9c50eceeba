//! Errors that say what to do: `error: …` is followed by `hint: …`.
//!
//! ```ignore
//! File::open(path).with_context(|| format!("cannot open {path}")).hint("check the path")?;
//! ```

use std::fmt;

/// An error with a remedy. Prints as the error itself; [`of`] finds the remedy.
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
    /// What the user can do about it.
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
            return error.hint();
        }
        cause
            .downcast_ref::<waypost_index::Error>()
            .and_then(waypost_index::Error::hint)
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
