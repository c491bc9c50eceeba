//! Writes distinct URIs to standard output, for measurements: `uris COUNT [FIRST]`.

use std::io::{BufWriter, Write};

type Done = Result<(), Box<dyn std::error::Error>>;

fn main() -> Done {
    let mut words = std::env::args().skip(1);
    let count: u64 = words.next().ok_or("usage: uris COUNT [FIRST]")?.parse()?;
    let first: u64 = words.next().map_or(Ok(0), |first| first.parse())?;
    let mut out = BufWriter::with_capacity(1 << 20, std::io::stdout().lock());
    let mut line = Vec::new();
    for n in first..first + count {
        line.clear();
        uri(n, &mut line)?;
        line.push(b'\n');
        out.write_all(&line)?;
    }
    out.flush()?;
    Ok(())
}

/// SplitMix64.
fn mixed(n: u64) -> u64 {
    let mut z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The URI of a number: about 65 bytes, on one of two million hosts, all distinct.
fn uri(n: u64, out: &mut Vec<u8>) -> std::io::Result<()> {
    const SCHEMES: [(&str, &str); 4] = [
        ("https", "www."),
        ("https", ""),
        ("http", "www."),
        ("http", ""),
    ];
    const TLDS: [&str; 8] = ["com", "org", "de", "co.uk", "hr", "net", "fr", "gov"];
    const WORDS: [&str; 8] = [
        "news", "article", "images", "Product", "wiki", "download", "user", "category",
    ];
    let r = mixed(n);
    let (scheme, www) = SCHEMES[(r & 3) as usize];
    let (tld, word) = (TLDS[(r >> 2 & 7) as usize], WORDS[(r >> 5 & 7) as usize]);
    let host = r >> 8 & 0x1f_ffff;
    write!(
        out,
        "{scheme}://{www}site{host:x}.{tld}/{word}/{:08x}/page-{n}",
        r >> 32
    )?;
    match r >> 29 & 7 {
        0 => write!(out, ".html?id={}&lang=en", r >> 40),
        1 => write!(out, "?utm_source=feed&View=full"),
        2 => write!(out, "/index.php"),
        _ => write!(out, ".html"),
    }
}
