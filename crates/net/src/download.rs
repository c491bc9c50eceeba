//! Downloads of whole files that resume.
//!
//! A download is written to a `.part` file, with its version in a file next to it. What an interrupted
//! download has left is continued if the server still has the same version (`If-Range`), in the same
//! run or in a later one.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use reqwest::header::{
    HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, RANGE,
};
use reqwest::{Response, StatusCode, Url};
use waypost_io::{IoContext, Phase, Result};

use crate::client::{Client, invalid, shown};
use crate::response::{ContentRange, Version, check_encoding};
use crate::retry::Failure;

/// A download that got so much further is worth another series of attempts.
const FURTHER: u64 = 64 * 1024;

/// The result of a download.
#[derive(Debug)]
pub(crate) enum Downloaded {
    /// The version that is known already is the current one.
    Unchanged,
    /// The `.part` file is complete and synced; the headers of the answer.
    Complete(Version, HeaderMap),
}

/// A download into `part`.
pub(crate) struct Download<'a> {
    pub(crate) client: &'a Client,
    pub(crate) url: &'a Url,
    pub(crate) part: &'a Path,
    /// A version that need not be downloaded.
    pub(crate) known: Option<&'a Version>,
    /// Maximum number of bytes.
    pub(crate) most: u64,
}

impl Download<'_> {
    /// Downloads the file, unless the known version is the current one.
    pub(crate) fn run(&self) -> Result<Downloaded> {
        self.client.run(async || {
            let (have, version) = self.left().map_err(Failure::Final)?;
            let headers = self.headers(have, version.as_ref())?;
            let response = self.client.send(self.url, headers).await?;
            match (response.status(), version) {
                (StatusCode::NOT_MODIFIED, _) if have == 0 && self.known.is_some() => {
                    Ok(Downloaded::Unchanged)
                }
                (StatusCode::PARTIAL_CONTENT, Some(version)) if have > 0 => {
                    let content = ContentRange::of(response.headers());
                    let size = content.and_then(|content| content.size).or(version.size);
                    let start = content
                        .and_then(|content| content.range)
                        .map(|range| range.0);
                    let now = Version::of(response.headers(), size);
                    if start != Some(have) || version.check(&now).is_err() {
                        return Err(self.start_over());
                    }
                    self.receive(response, have, now).await
                }
                (StatusCode::RANGE_NOT_SATISFIABLE, _) if have > 0 => Err(self.start_over()),
                (StatusCode::OK, _) => {
                    let version = Version::of(response.headers(), response.content_length());
                    self.receive(response, 0, version).await
                }
                _ => Err(self.client.refusal(&response)),
            }
        })
    }

    /// What an interrupted download of a version that can be identified has left.
    fn left(&self) -> Result<(u64, Option<Version>)> {
        let Ok(text) = fs::read_to_string(meta_of(self.part)) else {
            return Ok((0, None));
        };
        let Some(version) = read_version(&text, self.url) else {
            return Ok((0, None));
        };
        let have = fs::metadata(self.part).map_or(0, |metadata| metadata.len());
        if version.validator().is_none() || version.size.is_some_and(|size| have >= size) {
            return Ok((0, None));
        }
        Ok((have, Some(version)))
    }

    fn headers(&self, have: u64, version: Option<&Version>) -> Result<HeaderMap, Failure> {
        let mut headers = HeaderMap::new();
        let mut insert = |name: HeaderName, value: &str| -> Result<(), Failure> {
            let value = HeaderValue::from_str(value).map_err(|e| Failure::Final(invalid(e)))?;
            headers.insert(name, value);
            Ok(())
        };
        if have > 0 {
            insert(RANGE, &format!("bytes={have}-"))?;
            if let Some(validator) = version.and_then(Version::validator) {
                insert(IF_RANGE, validator)?;
            }
        } else if let Some(known) = self.known {
            match (&known.etag, &known.modified) {
                (Some(etag), _) => insert(IF_NONE_MATCH, etag)?,
                (None, Some(modified)) => insert(IF_MODIFIED_SINCE, modified)?,
                (None, None) => {}
            }
        }
        Ok(headers)
    }

    /// Writes the body of an answer behind the first `have` bytes.
    async fn receive(
        &self,
        mut response: Response,
        have: u64,
        mut version: Version,
    ) -> Result<Downloaded, Failure> {
        check_encoding(response.headers()).map_err(Failure::Final)?;
        let too_large = || {
            let most = self.most;
            Failure::Final(invalid(format!("the file has more than {most} bytes")))
        };
        if version.size.is_some_and(|size| size > self.most) {
            return Err(too_large());
        }
        let begin = || -> Result<File> {
            let meta = meta_of(self.part);
            let file = File::options()
                .write(true)
                .create(true)
                .truncate(false)
                .open(self.part)
                .doing("write", self.part)?;
            file.set_len(have).doing("write", self.part)?;
            fs::write(&meta, write_version(&version, self.url)).doing("write", meta)?;
            Ok(file)
        };
        let file = begin().map_err(Failure::Final)?;
        let headers = response.headers().clone();
        let mut out = std::io::BufWriter::with_capacity(1 << 18, AtEnd::new(file, have));
        let progress = self.client.progress().clone();
        progress.begin(Phase::Fetching, version.size);
        progress.add(have);
        let mut at = have;
        let failed = loop {
            let chunk = match self.client.chunk(&mut response).await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break None,
                Err(failure) => break Some(failure),
            };
            if at + chunk.len() as u64 > self.most {
                return Err(too_large());
            }
            let written = out.write_all(&chunk).doing("write", self.part);
            written.map_err(Failure::Final)?;
            at += chunk.len() as u64;
        };
        out.flush()
            .doing("write", self.part)
            .map_err(Failure::Final)?;
        let failed = match (failed, version.size) {
            (None, Some(size)) if at != size => Some(Failure::Again {
                error: invalid(format!("the answer ended after {at} of {size} bytes")),
                after: None,
            }),
            (failed, _) => failed,
        };
        match failed {
            // Without a validator, the next attempt starts from the beginning again.
            Some(Failure::Again { error, .. })
                if at >= have + FURTHER && version.validator().is_some() =>
            {
                Err(Failure::Further(error))
            }
            Some(failure) => Err(failure),
            None => {
                let file = &out.get_ref().file;
                let synced = file.sync_all().doing("write", self.part);
                synced.map_err(Failure::Final)?;
                version.size = Some(at);
                Ok(Downloaded::Complete(version, headers))
            }
        }
    }

    /// Discards what was left.
    fn start_over(&self) -> Failure {
        // If it stays, the next attempt ends here again, and their number is limited.
        let _ = fs::remove_file(meta_of(self.part));
        Failure::Again {
            error: invalid("the file changed while it was downloaded"),
            after: None,
        }
    }
}

/// Writes to a file from an offset on.
struct AtEnd {
    file: File,
    at: u64,
}

impl AtEnd {
    fn new(file: File, at: u64) -> AtEnd {
        AtEnd { file, at }
    }
}

impl Write for AtEnd {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        use std::os::unix::fs::FileExt;
        let written = self.file.write_at(bytes, self.at)?;
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The file with the version of another file.
pub(crate) fn meta_of(path: &Path) -> PathBuf {
    suffixed(path, ".meta")
}

/// A path with something appended to its name.
pub(crate) fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The lines that record the version of the file at a URL, which is written without a password.
pub(crate) fn write_version(version: &Version, url: &Url) -> String {
    let mut text = format!("url {}\n", shown(url));
    let mut add = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            text += &format!("{name} {value}\n");
        }
    };
    add("etag", version.etag.as_deref());
    add("modified", version.modified.as_deref());
    add("size", version.size.map(|size| size.to_string()).as_deref());
    text
}

/// Reads those lines. `None` if they are of another URL.
pub(crate) fn read_version(text: &str, url: &Url) -> Option<Version> {
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value.to_owned())
    };
    if field("url")? != shown(url) {
        return None;
    }
    Some(Version {
        etag: field("etag"),
        modified: field("modified"),
        size: field("size").and_then(|size| size.parse().ok()),
    })
}
