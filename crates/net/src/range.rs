//! A remote file, read by range requests.

use std::sync::{Mutex, MutexGuard, PoisonError};

use reqwest::header::{HeaderMap, HeaderValue, RANGE};
use reqwest::{StatusCode, Url};
use waypost_io::{Error, ErrorKind, RangeRead, RemoteProblem, Result, Stamp};

use crate::client::{Client, invalid, problem, shown};
use crate::response::{ContentRange, Version, check_encoding};
use crate::retry::Failure;
use crate::s3::Account;

/// A file on a server. The first answer determines its version; an answer of another version is an
/// error.
pub struct RemoteFile {
    client: Client,
    url: Url,
    name: String,
    /// Who signs requests, if the file is in S3.
    account: Option<Account>,
    version: Mutex<Option<Version>>,
}

impl RemoteFile {
    pub(crate) fn new(client: Client, url: Url) -> Result<RemoteFile> {
        Ok(RemoteFile {
            client,
            name: shown(&url),
            url,
            account: None,
            version: Mutex::default(),
        })
    }

    /// A file in S3, named `s3://BUCKET/KEY`.
    pub(crate) fn in_s3(client: Client, name: &str, account: Account) -> Result<RemoteFile> {
        Ok(RemoteFile {
            client,
            name: name.to_owned(),
            url: account.url(name)?,
            account: Some(account),
            version: Mutex::default(),
        })
    }

    fn version(&self) -> MutexGuard<'_, Option<Version>> {
        self.version.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares the version of an answer with those before, and remembers it.
    fn check(&self, version: Version) -> Result<()> {
        let mut known = self.version();
        match &mut *known {
            Some(known) => {
                known.check(&version)?;
                known.learn(version);
            }
            None => *known = Some(version),
        }
        Ok(())
    }

    /// Requests a range, and returns its bytes. They are fewer if the file ends before.
    async fn request(&self, offset: u64, length: u64) -> Result<Vec<u8>, Failure> {
        let end = offset + length;
        let mut headers = match &self.account {
            Some(account) => account.headers(&self.url).map_err(Failure::Final)?,
            None => HeaderMap::new(),
        };
        let range = format!("bytes={offset}-{}", end - 1);
        let range = HeaderValue::from_str(&range).map_err(|e| Failure::Final(invalid(e)))?;
        headers.insert(RANGE, range);
        let mut response = self.client.send(&self.url, headers).await?;
        let status = response.status();
        let content = ContentRange::of(response.headers());
        let expected = match status {
            StatusCode::PARTIAL_CONTENT => {
                check_encoding(response.headers()).map_err(Failure::Final)?;
                let got = content.and_then(|content| content.range);
                // A server may send less only where the file ends.
                let expected = got.filter(|got| {
                    got.0 == offset
                        && (got.1 == end
                            || got.1 < end && content.and_then(|c| c.size) == Some(got.1))
                });
                let Some((_, got_end)) = expected else {
                    let said = response.headers().get("content-range");
                    let said = said.map_or("no Content-Range".to_owned(), |said| {
                        format!("`{}`", String::from_utf8_lossy(said.as_bytes()))
                    });
                    return Err(Failure::Final(invalid(format!(
                        "the server answered a request for bytes {offset}-{} with {said}",
                        end - 1
                    ))));
                };
                got_end - offset
            }
            StatusCode::RANGE_NOT_SATISFIABLE => 0,
            StatusCode::OK => {
                return Err(Failure::Final(problem(
                    RemoteProblem::NoRanges,
                    "the server does not support range requests: it sends the whole file",
                )));
            }
            _ => return Err(self.client.refusal(&response)),
        };
        let size = content.and_then(|content| content.size);
        let version = match status {
            // Describes an error, not the file.
            StatusCode::RANGE_NOT_SATISFIABLE => Version {
                size,
                ..Version::default()
            },
            _ => Version::of(response.headers(), size),
        };
        self.check(version).map_err(Failure::Final)?;
        if expected == 0 {
            return Ok(Vec::new());
        }
        self.client.body(&mut response, expected).await
    }

    /// Requests a range until it is received, or fails for good.
    fn fetch(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        let done = self
            .client
            .run_within(length, async || self.request(offset, length).await);
        done.map_err(|error| error.in_file(&self.name))
    }
}

impl RangeRead for RemoteFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> Result<u64> {
        let known = |version: &Option<Version>| version.as_ref().and_then(|version| version.size);
        if let Some(size) = known(&self.version()) {
            return Ok(size);
        }
        self.fetch(0, 1)?;
        known(&self.version()).ok_or_else(|| {
            let error = problem(
                RemoteProblem::NoRanges,
                "the server does not say how large the file is",
            );
            error.in_file(&self.name)
        })
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let length = buffer.len() as u64;
        if length == 0 {
            return Ok(());
        }
        let ends_early = || Error::new(ErrorKind::EndsEarly).in_file(&self.name);
        if offset.checked_add(length).is_none() {
            return Err(ends_early());
        }
        let body = self.fetch(offset, length)?;
        if body.len() < buffer.len() {
            return Err(ends_early());
        }
        buffer.copy_from_slice(&body);
        Ok(())
    }

    fn stamp(&self) -> Result<Stamp> {
        self.fetch(0, 1)?;
        let version = self.version();
        Ok(version.as_ref().map(Version::stamp).unwrap_or(Stamp {
            size: 0,
            tag: String::new(),
        }))
    }

    fn is_remote(&self) -> bool {
        true
    }
}
