//! Files in S3 and in stores that are compatible with it: `s3://BUCKET/KEY`.
//!
//! Requests are signed (AWS Signature Version 4) with the keys in the environment; without keys,
//! they are anonymous. Keys are taken from nowhere else.

use std::fmt::Write;
use std::time::SystemTime;

use jiff::Timestamp;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use ring::{digest, hmac};
use waypost_io::Result;

use crate::client::invalid;

/// The hash of an empty body.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Where the store is, and who asks: the variables that all S3 clients know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`: a store other than Amazon's.
    endpoint: Option<String>,
    /// `AWS_REGION` or `AWS_DEFAULT_REGION`.
    region: String,
    keys: Option<Keys>,
}

#[derive(Clone, PartialEq, Eq)]
struct Keys {
    id: String,
    secret: String,
    session: Option<String>,
}

/// Without the secrets.
impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

impl Account {
    /// The account in the environment.
    pub(crate) fn of_environment() -> Account {
        Account::new(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn new(variable: impl Fn(&str) -> Option<String>) -> Account {
        let first = |names: [&str; 2]| names.into_iter().find_map(&variable);
        let keys = variable("AWS_ACCESS_KEY_ID").zip(variable("AWS_SECRET_ACCESS_KEY"));
        Account {
            endpoint: first(["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]),
            region: first(["AWS_REGION", "AWS_DEFAULT_REGION"])
                .unwrap_or_else(|| "us-east-1".to_owned()),
            keys: keys.map(|(id, secret)| Keys {
                id,
                secret,
                session: variable("AWS_SESSION_TOKEN"),
            }),
        }
    }

    /// The URL of `s3://BUCKET/KEY`.
    pub(crate) fn url(&self, name: &str) -> Result<Url> {
        let place = name
            .get("s3://".len()..)
            .and_then(|rest| rest.split_once('/'));
        let Some((bucket, key)) =
            place.filter(|(bucket, key)| !bucket.is_empty() && !key.is_empty())
        else {
            return Err(invalid("invalid URL: use s3://BUCKET/KEY").in_file(name));
        };
        let key = escaped(key);
        let url = match &self.endpoint {
            Some(endpoint) => format!("{}/{bucket}/{key}", endpoint.trim_end_matches('/')),
            // The certificate is only for one more label.
            None if bucket.contains('.') => {
                format!("https://s3.{}.amazonaws.com/{bucket}/{key}", self.region)
            }
            None => format!("https://{bucket}.s3.{}.amazonaws.com/{key}", self.region),
        };
        Url::parse(&url).map_err(|error| invalid(format!("invalid URL: {error}")).in_file(name))
    }

    /// The headers that sign a request for a URL now.
    pub(crate) fn headers(&self, url: &Url) -> Result<HeaderMap> {
        self.headers_at(url, SystemTime::now())
    }

    fn headers_at(&self, url: &Url, now: SystemTime) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        let Some(keys) = &self.keys else {
            return Ok(headers);
        };
        let now = Timestamp::try_from(now).map_err(invalid)?;
        let time = now.strftime("%Y%m%dT%H%M%SZ").to_string();
        let (day, _) = time.split_once('T').unwrap_or((&time, ""));
        let host = match (url.host_str(), url.port()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            (host, _) => host.unwrap_or_default().to_owned(),
        };
        let mut signed = vec![
            ("host", host),
            ("x-amz-content-sha256", EMPTY.to_owned()),
            ("x-amz-date", time.clone()),
        ];
        if let Some(session) = &keys.session {
            signed.push(("x-amz-security-token", session.clone()));
        }
        let mut request = format!("GET\n{}\n{}\n", url.path(), url.query().unwrap_or_default());
        for (name, value) in &signed {
            request += &format!("{name}:{value}\n");
        }
        let names: Vec<&str> = signed.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        request += &format!("\n{names}\n{EMPTY}");
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let hash = digest::digest(&digest::SHA256, request.as_bytes());
        let text = format!("{ALGORITHM}\n{time}\n{scope}\n{}", hex(hash.as_ref()));
        let mut key = format!("AWS4{}", keys.secret).into_bytes();
        for part in [day, &self.region, "s3", "aws4_request"] {
            key = keyed(&key, part);
        }
        let signature = hex(&keyed(&key, &text));
        let credential = format!("{}/{scope}", keys.id);
        signed.push((
            "authorization",
            format!(
                "{ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}"
            ),
        ));
        for (name, value) in signed.into_iter().filter(|(name, _)| *name != "host") {
            let mut value = HeaderValue::from_str(&value).map_err(invalid)?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(name), value);
        }
        Ok(headers)
    }
}

fn keyed(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Never fails for a string.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A key or path in a URL: everything but unreserved characters and slashes is escaped.
pub(crate) fn escaped(key: &str) -> String {
    let mut url = String::with_capacity(key.len());
    for byte in key.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                url.push(byte.into());
            }
            _ => {
                // Never fails for a string.
                let _ = write!(url, "%{byte:02X}");
            }
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn account(pairs: &[(&str, &str)]) -> Account {
        Account::new(|name| {
            let found = pairs.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    /// The keys are those of Amazon's documentation, and the signatures are botocore's.
    #[test]
    fn requests_are_signed_as_other_clients_sign_them() {
        let keys = [
            ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
            (
                "AWS_SECRET_ACCESS_KEY",
                "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            ),
            ("AWS_SESSION_TOKEN", "TOKEN"),
            ("AWS_ENDPOINT_URL", "http://127.0.0.1:9000"),
        ];
        let other = account(&keys);
        let account = account(&keys[..2]);
        let url = account.url("s3://examplebucket/test.txt").unwrap();
        assert_eq!(
            url.as_str(),
            "https://examplebucket.s3.us-east-1.amazonaws.com/test.txt"
        );
        let now = UNIX_EPOCH + Duration::from_secs(1_369_353_600);
        let headers = account.headers_at(&url, now).unwrap();
        assert_eq!(headers["x-amz-date"], "20130524T000000Z");
        let said = headers["authorization"].to_str().unwrap();
        assert!(said.starts_with(
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
             SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature="
        ));
        let signature = "2e46714501b0d9bc603dc14b792d5c58689e101d7de843b268d12fa638eb4bda";
        assert!(said.ends_with(signature), "{said}");
        let url = other.url("s3://crawl.a/cdx 1/ä+b%.gz").unwrap();
        let headers = other.headers_at(&url, now).unwrap();
        let said = headers["authorization"].to_str().unwrap();
        let signature = "32c3da6087c0b15dafb09b1d40039f694a491ec32b8ed8d340d79ed34d5a4b5f";
        assert!(said.ends_with(signature), "{said}");
        assert!(!format!("{other:?}").contains("wJal"), "no secret is shown");
    }

    #[test]
    fn keys_are_escaped_and_stores_are_chosen_by_the_environment() {
        let ours = account(&[
            ("AWS_ENDPOINT_URL", "http://127.0.0.1:9000/"),
            ("AWS_REGION", "eu-1"),
        ]);
        let url = ours.url("s3://crawl.a/cdx 1/ä+b%.gz").unwrap();
        assert_eq!(
            url.as_str(),
            "http://127.0.0.1:9000/crawl.a/cdx%201/%C3%A4%2Bb%25.gz"
        );
        assert!(ours.headers(&url).unwrap().is_empty(), "anonymous");
        let url = account(&[]).url("s3://a.b/c").unwrap();
        assert_eq!(url.as_str(), "https://s3.us-east-1.amazonaws.com/a.b/c");
        for bad in ["s3://", "s3://bucket", "s3://bucket/", "s3:///key"] {
            assert!(ours.url(bad).is_err(), "{bad}");
        }
    }
}
