//! Writing HTML pages.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use waypost_io::AtomicFile;

/// Writes a page, which appears whole or not at all.
pub(crate) fn write_html(path: &Path, html: &str) -> anyhow::Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(html.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))?;
    file.commit()?;
    Ok(())
}
