//! Generates crawls like those of Common Crawl, deterministically from a seed: an index, and for small
//! ones the WARC and WAT files behind it.
//!
//! For tests and benchmarks. Values of properties are distributed by Zipf's law. Segments can be skewed
//! on purpose: their values have other frequencies than those of all others.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use waypost_index::generate::Random;
use waypost_io::gzip::Gzip;

use crate::calendar::{DAY, Date};

/// What to generate.
#[derive(Clone, Debug)]
pub struct Crawl {
    /// The name, such as `CC-MAIN-2019-35`.
    pub name: String,
    /// The number of segments.
    pub segments: u64,
    /// The number of captures.
    pub captures: u64,
    /// The numbers of segments with another distribution.
    pub skewed: Vec<u64>,
    /// The time of the first capture.
    pub start: i64,
    /// The same seed gives the same crawl.
    pub seed: u64,
}

impl Default for Crawl {
    fn default() -> Crawl {
        Crawl {
            name: "CC-MAIN-2019-35".to_owned(),
            segments: 100,
            captures: 100_000,
            skewed: Vec::new(),
            // 2019-08-17 20:30:56.
            start: 1_566_073_856,
            seed: 1,
        }
    }
}

/// One capture of a generated archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// The line of the index, without its newline.
    pub line: String,
    /// The value of the Last-Modified header of the response, as sent.
    pub header: Option<String>,
    /// The time that it means, if it is credible.
    pub lastmod: Option<i64>,
}

/// Values with frequencies by Zipf's law.
struct Zipf {
    /// Sums of the frequencies up to each value.
    sums: Vec<f64>,
}

impl Zipf {
    fn new(values: usize) -> Zipf {
        let mut sum = 0.0;
        let sums = (1..=values)
            .map(|rank| {
                sum += (rank as f64).powf(-1.1);
                sum
            })
            .collect();
        Zipf { sums }
    }

    fn draw(&self, random: &mut Random, skewed: bool) -> usize {
        let last = self.sums.len() - 1;
        let point = random.fraction() * self.sums[last];
        let value = self.sums.partition_point(|sum| *sum < point).min(last);
        if skewed {
            (value * 37 + 11) % self.sums.len()
        } else {
            value
        }
    }
}

const TLDS: [&str; 6] = ["com", "de", "fr", "net", "org", "ru"];

/// The distributions from which captures are drawn.
struct Draw<'a> {
    crawl: &'a Crawl,
    random: Random,
    mimes: Zipf,
    languages: Zipf,
}

/// What is drawn of a capture.
struct Drawn {
    key: String,
    url: String,
    segment: u64,
    mime: String,
    detected: String,
    language: String,
    length: u64,
    status: u16,
    subset: &'static str,
    time: i64,
    digest: String,
}

impl<'a> Draw<'a> {
    fn new(crawl: &'a Crawl) -> Draw<'a> {
        Draw {
            crawl,
            random: Random::new(crawl.seed),
            mimes: Zipf::new(120),
            languages: Zipf::new(110),
        }
    }

    /// The capture with this number. Keys grow with it.
    fn capture(&mut self, number: u64) -> Drawn {
        let crawl = self.crawl;
        let random = &mut self.random;
        let tld = TLDS[(number * TLDS.len() as u64 / crawl.captures.max(1)) as usize];
        let host = number / 20;
        let path = match random.below(4) {
            0 => format!(
                "page{number:09}?id={}&q=%C3%A9{}",
                random.below(1000),
                random.letters(5)
            ),
            1 => format!("page{number:09}/{}", random.letters(12)),
            _ => format!("page{number:09}"),
        };
        let segment = random.below(crawl.segments);
        let skewed = crawl.skewed.contains(&segment);
        let mime = self.mimes.draw(random, skewed);
        let language = self.languages.draw(random, skewed);
        let shape = random.fraction() + random.fraction() + random.fraction() - 1.5;
        let shape = if skewed { shape + 1.5 } else { shape };
        let (status, subset) = match random.below(20) {
            0 => (301, "crawldiagnostics"),
            1 => (404, "crawldiagnostics"),
            2 => (200, "robotstxt"),
            _ => (200, "warc"),
        };
        let path = if subset == "robotstxt" {
            format!("page{number:09}robots.txt")
        } else {
            path
        };
        Drawn {
            key: format!("{tld},site{host:07})/{}", path.to_lowercase()),
            url: format!("https://www.site{host:07}.{tld}/{path}"),
            segment,
            mime: match mime {
                0 => "text/html".to_owned(),
                mime => format!("application/x-type{}", mime / 3),
            },
            detected: match mime {
                0 => "text/html".to_owned(),
                mime if mime % 3 == 0 => format!("application/x-type{}", mime / 3),
                mime => format!("application/x-other{}", mime % 3),
            },
            language: format!("l{language:02x}"),
            length: (8000.0 * (1.8 * shape).exp()) as u64 + 300,
            status,
            subset,
            time: crawl.start + random.below(10 * DAY as u64) as i64,
            digest: random.digest(),
        }
    }
}

/// 14 digits.
pub fn timestamp(time: i64) -> String {
    let (date, clock) = (Date::of_unix(time), time.rem_euclid(DAY));
    let Date { year, month, day } = date;
    format!(
        "{year:04}{month:02}{day:02}{:02}{:02}{:02}",
        clock / 3600,
        clock / 60 % 60,
        clock % 60
    )
}

/// The date as HTTP requires it.
pub fn http_date(time: i64) -> String {
    const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (date, clock) = (Date::of_unix(time), time.rem_euclid(DAY));
    format!(
        "{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT",
        DAYS[usize::from(date.weekday())],
        date.day,
        MONTHS[usize::from(date.month) - 1],
        date.year,
        clock / 3600,
        clock / 60 % 60,
        clock % 60
    )
}

impl Crawl {
    /// The name of a segment.
    pub fn segment_name(&self, segment: u64) -> String {
        format!(
            "{}.{:02}",
            1_566_027_312_025 + segment * 103,
            segment * 7 % 100
        )
    }

    fn file_name(&self, segment: u64, subset: &str) -> String {
        format!(
            "crawl-data/{}/segments/{}/{subset}/{}-20190817203056-20190817225056-{segment:05}.warc.gz",
            self.name,
            self.segment_name(segment),
            self.name
        )
    }

    fn line(&self, drawn: &Drawn, length: u64, offset: u64, lastmod: Option<i64>) -> String {
        let mut line = format!(
            "{} {} {{\"url\": \"{}\", \"mime\": \"{}\", \"mime-detected\": \"{}\", \"status\": \"{}\", \"digest\": \"{}\", \"length\": \"{length}\", \"offset\": \"{offset}\", \"filename\": \"{}\"",
            drawn.key,
            timestamp(drawn.time),
            drawn.url,
            drawn.mime,
            drawn.detected,
            drawn.status,
            drawn.digest,
            self.file_name(drawn.segment, drawn.subset)
        );
        if drawn.subset == "warc" {
            line += &format!(
                ", \"charset\": \"UTF-8\", \"languages\": \"{},eng\"",
                drawn.language
            );
        }
        if let Some(lastmod) = lastmod {
            line += &format!(", \"lastmod\": \"{lastmod}\"");
        }
        line + "}"
    }

    /// Writes only the index, sorted. With `lastmod`, a fifth of the successful captures have one.
    ///
    /// # Errors
    /// If writing to `out` fails.
    pub fn write_index(&self, lastmod: bool, out: &mut impl Write) -> io::Result<()> {
        let mut draw = Draw::new(self);
        let mut ages = Random::new(self.seed ^ 0x5eed);
        for number in 0..self.captures {
            let drawn = draw.capture(number);
            let time = (lastmod && drawn.subset == "warc" && ages.below(5) == 0)
                .then(|| last_modified(drawn.time, &mut ages));
            let offset = draw.random.below(1_000_000_000);
            writeln!(out, "{}", self.line(&drawn, drawn.length, offset, time))?;
        }
        Ok(())
    }

    /// Writes the WARC files of every segment and subset below `folder`, the WAT files of the subset
    /// `warc`, and returns the captures in the order of the index.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write_archive(&self, folder: &Path) -> io::Result<Vec<Generated>> {
        let mut draw = Draw::new(self);
        let mut ages = Random::new(self.seed ^ 0x5eed);
        let mut all = Vec::new();
        let mut files: std::collections::BTreeMap<(u64, &str), Files> = Default::default();
        let mut gzip = Gzip::new(6);
        for number in 0..self.captures {
            let drawn = draw.capture(number);
            let files = files.entry((drawn.segment, drawn.subset)).or_default();
            let (header, lastmod) = match ages.below(4) {
                0 => header_of(drawn.time, number, &mut ages),
                _ => (None, None),
            };
            let (offset, length) = files.add(self, &drawn, header.as_deref(), &mut gzip)?;
            let is_kept = drawn.subset == "warc";
            all.push(Generated {
                line: self.line(&drawn, length, offset, None),
                header,
                lastmod: lastmod.filter(|_| is_kept),
            });
        }
        for ((segment, subset), files) in files {
            let name = folder.join(self.file_name(segment, subset));
            write_file(&name, &files.warc)?;
            if subset == "warc" {
                let name = self
                    .file_name(segment, "wat")
                    .replace(".warc.gz", ".warc.wat.gz");
                write_file(&folder.join(name), &files.wat)?;
            }
        }
        Ok(all)
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, bytes)
}

/// Most pages are made for the request; others are older the rarer they are.
fn last_modified(time: i64, random: &mut Random) -> i64 {
    match random.below(10) {
        0..=4 => time,
        5 => time - 1 - random.below(3) as i64,
        6 => time + [3600, 7200, -3600, -14_400, -18_000][random.below(5) as usize],
        _ => time - (random.fraction().powi(3) * 20.0 * 365.0 * DAY as f64) as i64,
    }
}

/// A header and what it means, in several forms, of which some mean nothing.
fn header_of(time: i64, number: u64, random: &mut Random) -> (Option<String>, Option<i64>) {
    let value = last_modified(time, random);
    let exact = http_date(value);
    let (header, value) = match number % 12 {
        0 => (exact.replace(" GMT", ""), Some(value)),
        1 => (exact.replace(" GMT", " +0000"), Some(value)),
        2 => (exact.to_lowercase(), Some(value)),
        3 => (
            http_date(value + 2 * 3600).replace("GMT", "+0200"),
            Some(value),
        ),
        4 => ("yesterday".to_owned(), None),
        5 => ("Thu, 01 Jan 1970 00:00:00 GMT".to_owned(), None),
        6 => (http_date(time + 400 * DAY), None),
        _ => (exact, Some(value)),
    };
    (Some(header), value)
}

/// The files of one segment and subset.
#[derive(Default)]
struct Files {
    warc: Vec<u8>,
    wat: Vec<u8>,
}

impl Files {
    /// Adds the records of a capture. Returns offset and length of the response.
    fn add(
        &mut self,
        crawl: &Crawl,
        drawn: &Drawn,
        lastmod: Option<&str>,
        gzip: &mut Gzip,
    ) -> io::Result<(u64, u64)> {
        let date = {
            let t = timestamp(drawn.time);
            format!(
                "{}-{}-{}T{}:{}:{}Z",
                &t[..4],
                &t[4..6],
                &t[6..8],
                &t[8..10],
                &t[10..12],
                &t[12..]
            )
        };
        let mut add = |to: &mut Vec<u8>, kind: &str, content_type: &str, content: &str| {
            let offset = to.len() as u64;
            let record = format!(
                "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Date: {date}\r\nWARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-{offset:012}>\r\nContent-Length: {}\r\nContent-Type: {content_type}\r\nWARC-Target-URI: {}\r\n\r\n{content}\r\n\r\n",
                content.len(),
                drawn.url
            );
            let mut packed = Vec::new();
            gzip.compress(record.as_bytes(), &mut packed)?;
            to.extend_from_slice(&packed);
            Ok::<_, waypost_io::Error>((offset, packed.len() as u64, record.len()))
        };
        let request = "GET / HTTP/1.1\r\nUser-Agent: CCBot/2.0\r\nAccept: */*\r\n\r\n";
        add(
            &mut self.warc,
            "request",
            "application/http; msgtype=request",
            request,
        )?;
        let lastmod_line =
            lastmod.map_or(String::new(), |value| format!("Last-Modified: {value}\r\n"));
        let body = "<p>a page</p>\n".repeat((drawn.length / 100) as usize);
        let head = format!(
            "HTTP/1.1 {} OK\r\nServer: example\r\nContent-Type: {}\r\n{lastmod_line}X-Crawler-Content-Length: {}\r\n\r\n",
            drawn.status,
            drawn.mime,
            body.len()
        );
        let response = format!("{head}{body}");
        let (offset, length, inflated) = add(
            &mut self.warc,
            "response",
            "application/http; msgtype=response",
            &response,
        )?;
        add(
            &mut self.warc,
            "metadata",
            "application/warc-fields",
            "fetchTimeMs: 100\r\n",
        )?;
        let mut headers = serde_json::json!({"Server": "example", "Content-Type": drawn.mime});
        if let Some(value) = lastmod {
            headers["Last-Modified"] = value.into();
        }
        let name = crawl.file_name(drawn.segment, drawn.subset);
        let name = name.rsplit('/').next().unwrap_or_default().to_owned();
        let wat = serde_json::json!({
            "Container": {"Filename": name, "Compressed": true, "Offset": offset.to_string(), "Gzip-Metadata": {
                "Deflate-Length": (length - 18).to_string(), "Header-Length": "10", "Footer-Length": "8",
                "Inflated-Length": inflated.to_string()}},
            "Envelope": {"Format": "WARC", "WARC-Header-Metadata": {"WARC-Type": "response", "WARC-Date": date, "WARC-Target-URI": drawn.url},
                "Payload-Metadata": {"Actual-Content-Type": "application/http; msgtype=response", "HTTP-Response-Metadata": {
                    "Response-Message": {"Status": drawn.status.to_string(), "Version": "HTTP/1.1", "Reason": "OK"},
                    "Headers": headers,
                    "HTML-Metadata": {"Head": {"Title": "a page"}, "Links": [{"path": "A@/href", "url": "/x?\"y\""}]}}}}
        });
        add(
            &mut self.wat,
            "metadata",
            "application/json",
            &wat.to_string(),
        )?;
        Ok((offset, length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_sorted_index() {
        let crawl = Crawl {
            captures: 2000,
            ..Crawl::default()
        };
        let write = |crawl: &Crawl| {
            let mut out = Vec::new();
            crawl.write_index(true, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = write(&crawl);
        assert!(text.lines().is_sorted());
        assert_eq!(text, write(&crawl));
        assert_ne!(text, write(&Crawl { seed: 2, ..crawl }));
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
    }
}
