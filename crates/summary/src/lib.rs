//! What a web archive holds, written small, and the judge of how well that was done.
mod about;
mod error;
pub mod evaluate;
pub mod frequency;
pub mod holdings;
pub mod map;
pub mod profile;
mod summary;
pub mod ukvs;

pub use about::{About, Archive, By, Texts};
pub use error::{Error, ErrorKind, Place, Result};
pub use frequency::{Frequency, Number, Sureness};
pub use summary::{Answer, Kind, Lookup, Match, Size, Summary};
