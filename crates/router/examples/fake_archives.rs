//! Archives for benchmarks: `fake_archives MILLISECONDS…` serves one on a free port for each number,
//! prints MemGator's list of them, and answers every TimeMap with three mementos after that time.
//! `--mementos N` changes how many, `--descending` lists the latest first, and `--first-port N` uses
//! this port and the next ones.
#![allow(
    clippy::print_stdout,
    reason = "the list of archives is the result of this program"
)]

use std::error::Error;
use std::time::Duration;

use http::{Request, Response, header};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use waypost_memento::Datetime;
use waypost_net::server::{Limits, serve};

/// Links to mementos, one a day from 2000 on, of a URI that is filled in for `{}`.
fn links(number: usize, count: i64, descending: bool) -> Vec<String> {
    let start = jiff::Timestamp::from_second(946_684_800).ok();
    let day = |day: i64| {
        let at = start?
            .checked_add(jiff::SignedDuration::from_hours(day))
            .ok()?;
        let at = Datetime::new(at)?;
        let stamp = at.timestamp();
        Some(format!(
            "<http://archive{number}.example/{stamp}/{{}}>; rel=\"memento\"; datetime=\"{}\"",
            at.http()
        ))
    };
    let mut links: Vec<String> = (0..count).filter_map(day).collect();
    if descending {
        links.reverse();
    }
    links
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut delays = Vec::new();
    let (mut count, mut descending, mut port) = (3, false, 0_u16);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match &word[..] {
            "--mementos" => count = words.next().ok_or("--mementos needs a number")?.parse()?,
            "--first-port" => port = words.next().ok_or("--first-port needs a number")?.parse()?,
            "--descending" => descending = true,
            delay => delays.push(Duration::from_millis(delay.parse()?)),
        }
    }
    let mut entries = Vec::new();
    for (number, delay) in delays.into_iter().enumerate() {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        port += u16::from(port > 0);
        let base = format!("http://{}", listener.local_addr()?);
        entries.push(format!(
            "{{\"id\": \"archive{number}\", \"timemap\": \"{base}/timemap/link/\", \"timegate\": \"{base}/timegate/\"}}"
        ));
        let template = links(number, count, descending).join(",\n");
        let handler = move |request: Request<Incoming>, _| {
            let path = request.uri().path();
            let uri = path.strip_prefix("/timemap/link/").unwrap_or(path);
            let body = template.replace("{}", uri);
            async move {
                tokio::time::sleep(delay).await;
                let mut response = Response::new(body);
                let link_format = header::HeaderValue::from_static("application/link-format");
                let headers = response.headers_mut();
                headers.insert(header::CONTENT_TYPE, link_format);
                response
            }
        };
        tokio::spawn(serve(
            listener,
            Limits::default(),
            handler,
            std::future::pending(),
        ));
    }
    println!("[{}]", entries.join(",\n"));
    std::future::pending().await
}
