//! Files in HDFS, read through WebHDFS: `webhdfs://NAMENODE:PORT/PATH`, or `swebhdfs:` over HTTPS.
//!
//! The name node is asked for each range, and redirects to a data node that has it. `HADOOP_USER_NAME` is
//! who asks; Kerberos is not supported.

use std::sync::OnceLock;

use reqwest::header::HeaderMap;
use reqwest::{StatusCode, Url};
use serde::Deserialize;
use waypost_io::{Error, ErrorKind, RangeRead, RemoteProblem, Result, Stamp};

use crate::client::{Client, invalid, problem};
use crate::retry::Failure;
use crate::s3::escaped;

/// A file in HDFS.
pub(crate) struct HdfsFile {
    client: Client,
    name: String,
    url: Url,
    status: OnceLock<FileStatus>,
}

/// What the name node knows about a file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileStatus {
    length: u64,
    modification_time: u64,
    #[serde(default)]
    file_id: u64,
    r#type: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StatusAnswer {
    file_status: FileStatus,
}

/// The longest answer that describes a file.
const LONGEST_STATUS: usize = 1 << 16;

impl HdfsFile {
    pub(crate) fn new(client: Client, name: &str) -> Result<HdfsFile> {
        let wrong = |why: &str| invalid(format!("invalid URL: {why}")).in_file(name);
        let (scheme, rest) = name.split_once("://").unwrap_or_default();
        let scheme = match scheme.eq_ignore_ascii_case("swebhdfs") {
            true => "https",
            false => "http",
        };
        let Some((authority, path)) = rest.split_once('/').filter(|(_, path)| !path.is_empty())
        else {
            return Err(wrong("use webhdfs://NAMENODE:PORT/PATH"));
        };
        let url = format!("{scheme}://{authority}/webhdfs/v1/{}", escaped(path));
        Ok(HdfsFile {
            client,
            name: name.to_owned(),
            url: Url::parse(&url).map_err(|error| wrong(&error.to_string()))?,
            status: OnceLock::new(),
        })
    }

    /// The URL of an operation.
    fn operation(&self, operation: &str, parameters: &[(&str, u64)]) -> Url {
        let mut url = self.url.clone();
        {
            let mut query = url.query_pairs_mut();
            query.append_pair("op", operation);
            for (name, value) in parameters {
                query.append_pair(name, &value.to_string());
            }
            if let Some(user) = std::env::var("HADOOP_USER_NAME")
                .ok()
                .filter(|user| !user.is_empty())
            {
                query.append_pair("user.name", &user);
            }
        }
        url
    }

    /// Asks the name node about the file.
    fn ask(&self) -> Result<FileStatus> {
        let url = self.operation("GETFILESTATUS", &[]);
        let answer = self.client.get(url.as_str(), LONGEST_STATUS);
        let answer = answer.map_err(|error| error.in_file(&self.name))?;
        let status = serde_json::from_slice::<StatusAnswer>(&answer).map_err(|error| {
            invalid(format!("the name node sent an invalid status: {error}")).in_file(&self.name)
        })?;
        if status.file_status.r#type != "FILE" {
            return Err(invalid("this is a folder").in_file(&self.name));
        }
        Ok(status.file_status)
    }

    fn status(&self) -> Result<&FileStatus> {
        if let Some(status) = self.status.get() {
            return Ok(status);
        }
        let status = self.ask()?;
        Ok(self.status.get_or_init(|| status))
    }

    /// Requests a range that is in the file, and returns its bytes.
    async fn request(&self, offset: u64, length: u64) -> Result<Vec<u8>, Failure> {
        let url = self.operation("OPEN", &[("offset", offset), ("length", length)]);
        let mut response = self.client.send(&url, HeaderMap::new()).await?;
        if response.status() != StatusCode::OK {
            return Err(self.client.refusal(&response));
        }
        self.client.body(&mut response, length).await
    }
}

impl RangeRead for HdfsFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> Result<u64> {
        Ok(self.status()?.length)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        if buffer.is_empty() {
            return Ok(());
        }
        let length = buffer.len() as u64;
        let end = offset.checked_add(length);
        if end.is_none_or(|end| self.status().is_ok_and(|status| status.length < end)) {
            return Err(Error::new(ErrorKind::EndsEarly).in_file(&self.name));
        }
        let body = self
            .client
            .run_within(length, async || self.request(offset, length).await);
        buffer.copy_from_slice(&body.map_err(|error| error.in_file(&self.name))?);
        Ok(())
    }

    fn stamp(&self) -> Result<Stamp> {
        let now = self.ask()?;
        if self.status.get().is_some_and(|known| *known != now) {
            let detail = "the file changed during the run";
            return Err(problem(RemoteProblem::Changed, detail).in_file(&self.name));
        }
        Ok(Stamp {
            size: now.length,
            tag: format!("{}-{}", now.file_id, now.modification_time),
        })
    }

    fn is_remote(&self) -> bool {
        true
    }
}
