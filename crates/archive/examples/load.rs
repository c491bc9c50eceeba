//! Asks an HTTP server many times at once, and prints how many answers it gives in a second and how
//! long they take: `load ADDRESS FILE CONNECTIONS SECONDS [RATE]`, with a path in each line of the file.
//!
//! Without a rate, every connection asks again as soon as it has an answer. With one, requests are
//! sent at fixed times, and the time that a request waits for a connection counts, too. Prints the
//! requests a second, the median and the 99th percentile in milliseconds, the bytes of all bodies, and
//! how many answers were not 200.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What one connection found.
#[derive(Default)]
struct Tally {
    milliseconds: Vec<f64>,
    bytes: u64,
    failed: u64,
}

fn main() -> Result<(), Failure> {
    let usage = "usage: load ADDRESS FILE CONNECTIONS SECONDS [RATE]";
    let mut arguments = std::env::args().skip(1);
    let address: SocketAddr = arguments.next().ok_or(usage)?.parse()?;
    let paths = std::fs::read_to_string(arguments.next().ok_or(usage)?)?;
    let paths: Arc<Vec<String>> = Arc::new(paths.lines().map(str::to_owned).collect());
    let connections: usize = arguments.next().ok_or(usage)?.parse()?;
    let seconds: f64 = arguments.next().ok_or(usage)?.parse()?;
    let rate: Option<f64> = arguments.next().map(|rate| rate.parse()).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let next = Arc::new(AtomicUsize::new(0));
    let start = Instant::now();
    let end = start + Duration::from_secs_f64(seconds);
    let tallies = runtime.block_on(async {
        let mut tasks = Vec::new();
        for _ in 0..connections {
            let (paths, next) = (Arc::clone(&paths), Arc::clone(&next));
            tasks.push(tokio::spawn(ask(address, paths, next, start, end, rate)));
        }
        let mut tallies = Vec::new();
        for task in tasks {
            tallies.push(task.await??);
        }
        Ok::<_, Failure>(tallies)
    })?;
    let elapsed = start.elapsed().as_secs_f64();
    let mut times: Vec<f64> = tallies
        .iter()
        .flat_map(|tally| tally.milliseconds.iter().copied())
        .collect();
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times.get((times.len() as f64 * part) as usize).copied();
    let bytes: u64 = tallies.iter().map(|tally| tally.bytes).sum();
    let failed: u64 = tallies.iter().map(|tally| tally.failed).sum();
    writeln!(
        io::stdout(),
        "{:.1} {:.3} {:.3} {bytes} {failed}",
        times.len() as f64 / elapsed,
        at(0.5).unwrap_or_default(),
        at(0.99).unwrap_or_default()
    )?;
    Ok(())
}

/// Asks over one connection, which is opened again when the server closes it.
async fn ask(
    address: SocketAddr,
    paths: Arc<Vec<String>>,
    next: Arc<AtomicUsize>,
    start: Instant,
    end: Instant,
    rate: Option<f64>,
) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    let mut stream: Option<TcpStream> = None;
    let mut buffer = Vec::new();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let due = match rate {
            Some(rate) => start + Duration::from_secs_f64(number as f64 / rate),
            None => Instant::now(),
        };
        if due >= end || Instant::now() >= end {
            return Ok(tally);
        }
        tokio::time::sleep_until(due.into()).await;
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {address}\r\n\r\n",
            paths[number % paths.len()]
        );
        let mut open = match stream.take() {
            Some(open) => open,
            None => {
                let open = TcpStream::connect(address).await?;
                open.set_nodelay(true)?;
                open
            }
        };
        open.write_all(request.as_bytes()).await?;
        let (status, bytes, keep) = answer(&mut open, &mut buffer).await?;
        if keep {
            stream = Some(open);
        }
        tally
            .milliseconds
            .push(due.elapsed().as_secs_f64() * 1000.0);
        tally.bytes += bytes;
        tally.failed += u64::from(status != 200);
    }
}

/// Reads an answer: its status, the size of its body, and whether the connection stays open.
async fn answer(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<(u16, u64, bool), Failure> {
    buffer.clear();
    let head = loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(buffer).await? == 0 {
            return Err("the server closed the connection".into());
        }
    };
    let text = String::from_utf8_lossy(&buffer[..head]).to_ascii_lowercase();
    let status = text.split(' ').nth(1).ok_or("no status")?.parse()?;
    let header = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line[name.len()..].trim().to_owned())
    };
    let keep = header("connection:").as_deref() != Some("close");
    if let Some(length) = header("content-length:") {
        let length: usize = length.parse()?;
        while buffer.len() < head + length {
            if stream.read_buf(buffer).await? == 0 {
                return Err("the answer ended early".into());
            }
        }
        return Ok((status, length as u64, keep));
    }
    // Chunks: the body ends with one that is empty. Their sizes are not counted.
    buffer.drain(..head);
    let mut bytes = 0;
    loop {
        let line = loop {
            if let Some(end) = buffer.windows(2).position(|two| two == b"\r\n") {
                break end;
            }
            if stream.read_buf(buffer).await? == 0 {
                return Err("the answer ended early".into());
            }
        };
        let size = usize::from_str_radix(std::str::from_utf8(&buffer[..line])?, 16)?;
        while buffer.len() < line + 2 + size + 2 {
            if stream.read_buf(buffer).await? == 0 {
                return Err("the answer ended early".into());
            }
        }
        buffer.drain(..line + 2 + size + 2);
        if size == 0 {
            return Ok((status, bytes, keep));
        }
        bytes += size as u64;
    }
}
