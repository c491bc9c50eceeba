//! Why a URI has no SURT.

/// Why a URI cannot be canonicalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing but white space.
    #[error("the URI is empty")]
    Empty,
    /// A port that is not a decimal number up to 65,535.
    #[error("the port is not a number from 0 to 65535")]
    BadPort,
    /// The host is invalid.
    #[error("the host is not one")]
    BadHost,
}
