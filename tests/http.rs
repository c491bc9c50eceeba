//! Asks servers over plain sockets: included by the test files of several crates.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, reason = "no test file needs all of it")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// As sent, names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether the answer came to its end.
    pub(crate) complete: bool,
}

impl Reply {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(known, _)| known == name)
            .map(|(_, value)| &value[..])
    }
}

/// Asks a server, and reads the answer to its end.
pub(crate) fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Reply {
    ask_with_body(address, method, path, headers, None)
}

/// Asks a server with a body, and reads the answer to its end.
pub(crate) fn ask_with_body(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&[u8]>,
) -> Reply {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let mut request =
        format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    if let Some(body) = body {
        request += &format!("Content-Length: {}\r\n", body.len());
    }
    request += "\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    // The server may have refused it already.
    let _ = stream.write_all(body.unwrap_or_default());
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    parse(&bytes, method)
}

pub(crate) fn parse(bytes: &[u8], method: &str) -> Reply {
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let status = lines
        .next()
        .unwrap()
        .split(' ')
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    let headers: Vec<(String, String)> = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let mut reply = Reply {
        status,
        headers,
        body: Vec::new(),
        complete: true,
    };
    let mut rest = &bytes[end + 4..];
    if reply.header("transfer-encoding") == Some("chunked") {
        reply.complete = false;
        while let Some(line) = rest.windows(2).position(|two| two == b"\r\n") {
            let size = std::str::from_utf8(&rest[..line]).unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            rest = &rest[line + 2..];
            if size == 0 {
                reply.complete = true;
                break;
            }
            reply.body.extend_from_slice(&rest[..size.min(rest.len())]);
            if rest.len() < size + 2 {
                break;
            }
            rest = &rest[size + 2..];
        }
    } else {
        reply.body = rest.to_vec();
        let length = reply.header("content-length").map(|n| n.parse().unwrap());
        reply.complete =
            method == "HEAD" || length.is_none_or(|length: usize| length == rest.len());
    }
    reply
}
