//! Files of a folder, for paths that are not endpoints.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::body::{AnswerBody, CHUNK};
use crate::original::percent_decoded;

/// A file to be sent.
pub(crate) struct Found {
    file: File,
    length: u64,
    pub(crate) media_type: &'static str,
}

/// Opens the file of a path in a folder; `index.html` for a folder. `None` if there is none, or if it
/// is outside the folder.
pub(crate) async fn open(folder: &Path, path: &str) -> Option<Found> {
    let path = String::from_utf8(percent_decoded(path)?).ok()?;
    let folder = folder.to_owned();
    spawn_blocking(move || open_now(&folder, &path))
        .await
        .ok()?
}

fn open_now(folder: &Path, path: &str) -> Option<Found> {
    let folder = folder.canonicalize().ok()?;
    // Links lead where they lead: only the result counts.
    let path = folder
        .join(path.trim_start_matches('/'))
        .canonicalize()
        .ok()?;
    let path: PathBuf = match path.is_dir() {
        true => path.join("index.html").canonicalize().ok()?,
        false => path,
    };
    if !path.starts_with(&folder) {
        return None;
    }
    let about = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
    Some(Found {
        file: File::open(&path).ok()?,
        length: about.len(),
        media_type: media_type(&path),
    })
}

impl Found {
    /// The body, read while it is sent.
    pub(crate) fn body(self) -> AnswerBody {
        let (send, chunks) = mpsc::channel(2);
        tokio::spawn(async move {
            let mut file = self.file.take(self.length);
            loop {
                let read = spawn_blocking(move || {
                    let mut chunk = Vec::with_capacity(CHUNK);
                    let read = (&mut file).take(CHUNK as u64).read_to_end(&mut chunk);
                    (read.map(|_| Bytes::from(chunk)), file)
                });
                let Ok((chunk, rest)) = read.await else {
                    return;
                };
                file = rest;
                let is_end = chunk.as_ref().map_or(true, Bytes::is_empty);
                let is_error = chunk.is_err();
                if (!is_end || is_error) && send.send(chunk).await.is_err() {
                    return;
                }
                if is_end {
                    return;
                }
            }
        });
        AnswerBody::chunks(chunks)
    }
}

fn media_type(path: &Path) -> &'static str {
    let extension = path.extension().and_then(|extension| extension.to_str());
    match &extension.unwrap_or_default().to_ascii_lowercase()[..] {
        "html" | "htm" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "json" => "application/json",
        "txt" | "md" => "text/plain; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        "xml" => "text/xml; charset=utf-8",
        "woff2" => "font/woff2",
        "pdf" => "application/pdf",
        "wasm" => "application/wasm",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_below_the_folder_are_found() -> std::io::Result<()> {
        let outer = tempfile::tempdir()?;
        let folder = outer.path().join("static");
        fs::create_dir_all(folder.join("sub"))?;
        fs::write(outer.path().join("secret.txt"), "x")?;
        fs::write(folder.join("index.html"), "start")?;
        fs::write(folder.join("a.css"), "css")?;
        let found =
            |path: &str| open_now(&folder, path).map(|found| (found.length, found.media_type));
        assert_eq!(found("a.css"), Some((3, "text/css; charset=utf-8")));
        assert_eq!(found(""), Some((5, "text/html; charset=utf-8")));
        for path in [
            "../secret.txt",
            "/../secret.txt",
            "sub/../../secret.txt",
            "nothing",
            "sub",
            "a.css/",
        ] {
            assert_eq!(found(path), None, "{path}");
        }
        std::os::unix::fs::symlink(outer.path().join("secret.txt"), folder.join("link.txt"))?;
        assert_eq!(found("link.txt"), None);
        Ok(())
    }
}
