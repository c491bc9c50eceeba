//! Where captures come from: files, folders, standard input; plain or compressed.
//!
//! [`expand`] turns what a user named into [`Source`]s. [`Source::open`] gives the decompressed
//! bytes of one as a [`Stream`], whatever the compression, which is told by the first bytes and
//! not by the name. A stream reads one file on one thread; [`scan`](crate::scan) is the fast way
//! to read many captures and uses all cores on plain files and on gzip files of many members.

mod codec;
pub(crate) mod members;
mod source;
mod stream;

pub use codec::Compression;
pub use source::{Expanded, Source, expand};
pub use stream::Stream;
