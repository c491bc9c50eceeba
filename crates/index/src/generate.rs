//! Generates an index of any size that resembles Common Crawl's, deterministically from a seed.
//!
//! For benchmarks and experiments. The index is sorted, with hosts of very different sizes, several
//! captures of some URI-Rs, redirects, errors and revisits. Its keys are the SURTs of its URLs.

use std::io::{self, Write};

/// The format of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// CDXJ with the fields of Common Crawl.
    Cdxj,
    /// CDX of eleven columns, with its header.
    Cdx11,
}

/// A generator of lines.
#[derive(Clone, Debug)]
pub struct Generator {
    kind: Kind,
    lines: u64,
    random: Random,
}

/// Top-level domains and their shares of captures, in thousandths. Sorted like the keys.
const TLDS: [(&str, u64); 12] = [
    ("au", 25),
    ("br", 30),
    ("com", 470),
    ("de", 85),
    ("edu", 25),
    ("fr", 50),
    ("jp", 55),
    ("net", 60),
    ("org", 90),
    ("pl", 30),
    ("ru", 60),
    ("uk,co", 20),
];

const WORDS: [&str; 16] = [
    "about", "article", "blog", "catalog", "category", "download", "forum", "images", "item",
    "news", "page", "product", "search", "tag", "user", "wiki",
];

impl Generator {
    /// Generates `lines` captures; the same `seed` gives the same captures.
    pub fn new(kind: Kind, lines: u64, seed: u64) -> Generator {
        Generator {
            kind,
            lines,
            random: Random(seed),
        }
    }

    /// Writes all lines.
    ///
    /// # Errors
    /// If writing to `out` fails.
    pub fn write(mut self, out: &mut impl Write) -> io::Result<()> {
        if self.kind == Kind::Cdx11 {
            out.write_all(b" CDX N b a m s k r M S V g\n")?;
        }
        let mut given = 0;
        let mut weight = 0;
        for (tld, share) in TLDS {
            weight += share;
            let until = self.lines * weight / 1000;
            self.top_level(tld, until - given, out)?;
            given = until;
        }
        Ok(())
    }

    fn top_level(&mut self, tld: &str, mut lines: u64, out: &mut impl Write) -> io::Result<()> {
        // Names count up in letters, with gaps so that they end near `zzzzz`.
        let gap = (26u64.pow(5) * 20 / lines.max(1)).clamp(1, 100_000);
        let mut name = 0;
        while lines > 0 {
            name = (name + 1 + self.random.below(gap)).min(26u64.pow(5) - 1);
            let letters = 1 + self.random.below(6);
            let label = format!("{}{}", counted(name), self.random.letters(letters));
            // Most hosts are small, some are large.
            let size = (20.0 / self.random.fraction().max(0.0005).powf(0.7)) as u64;
            let size = size.min(lines);
            self.host(&format!("{tld},{label}"), size, out)?;
            lines -= size;
            if name == 26u64.pow(5) - 1 && lines > 0 {
                // Out of names: one more host, which sorts last, gets the rest.
                self.host(&format!("{tld},zzzzzzzzzzzz"), lines, out)?;
                lines = 0;
            }
        }
        Ok(())
    }

    fn host(&mut self, surt: &str, mut captures: u64, out: &mut impl Write) -> io::Result<()> {
        let host: Vec<&str> = surt.split(',').rev().collect();
        let scheme = if self.random.below(4) == 0 {
            "http"
        } else {
            "https"
        };
        let www = if self.random.below(2) == 0 {
            "www."
        } else {
            ""
        };
        let base = format!("{scheme}://{www}{}", host.join("."));
        let mut number = 0;
        let mut first = true;
        while captures > 0 {
            let path = if first {
                "/".to_owned()
            } else {
                number += 1 + self.random.below(9);
                let word = WORDS[((number >> 8) as usize).min(WORDS.len() - 1)];
                let mut path = format!("/{word}/{}-{}", counted(number), self.random.letters(9));
                match self.random.below(8) {
                    0 => path.push_str(&format!(
                        "?id={}&p={}",
                        self.random.below(100_000),
                        1 + self.random.below(9)
                    )),
                    1 => path.push_str(".html"),
                    2 => path.push_str(&format!("/{}", self.random.letters(12))),
                    _ => {}
                }
                path
            };
            first = false;
            let times = match self.random.below(10) {
                0 => 1 + self.random.below(4),
                _ => 1,
            };
            let mut second = self.random.below(86_400);
            for _ in 0..times.min(captures) {
                self.capture(surt, &base, &path, second, out)?;
                second += 1 + self.random.below(86_400);
                captures -= 1;
            }
        }
        Ok(())
    }

    fn capture(
        &mut self,
        host: &str,
        base: &str,
        path: &str,
        second: u64,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let (day, clock) = (18 + second / 86_400, second % 86_400);
        let timestamp = format!(
            "202405{day:02}{:02}{:02}{:02}",
            clock / 3600,
            clock / 60 % 60,
            clock % 60
        );
        let (mime, detected, status) = match self.random.below(100) {
            0..=79 => ("text/html", "text/html", "200"),
            80..=82 => ("text/html", "application/xhtml+xml", "200"),
            83..=84 => ("application/pdf", "application/pdf", "200"),
            85..=87 => ("text/html", "text/html", "301"),
            88..=90 => ("text/html", "text/html", "302"),
            91..=95 => ("text/html", "text/html", "404"),
            96 => ("unk", "text/plain", "404"),
            97 => ("text/plain", "text/plain", "200"),
            98 => ("warc/revisit", "", "304"),
            _ => ("text/html", "text/html", "503"),
        };
        let digest = self.random.digest();
        let length = 500 + self.random.below(60_000);
        let offset = self.random.below(1_200_000_000);
        let (segment, part) = (self.random.below(100), self.random.below(800));
        let folder = if status == "200" {
            "warc"
        } else {
            "crawldiagnostics"
        };
        let file = format!(
            "crawl-data/CC-MAIN-2024-22/segments/17159710572{segment:02}.{:02}/{folder}/CC-MAIN-20240517233122-20240518023122-{part:05}.warc.gz",
            segment * 7 % 100
        );
        match self.kind {
            Kind::Cdx11 => {
                let status = if mime == "warc/revisit" { "-" } else { status };
                writeln!(
                    out,
                    "{host}){path} {timestamp} {base}{path} {mime} {status} {digest} - - {length} {offset} {file}"
                )
            }
            Kind::Cdxj => {
                write!(
                    out,
                    "{host}){path} {timestamp} {{\"url\": \"{base}{path}\", \"mime\": \"{mime}\""
                )?;
                if !detected.is_empty() {
                    write!(out, ", \"mime-detected\": \"{detected}\"")?;
                }
                write!(
                    out,
                    ", \"status\": \"{status}\", \"digest\": \"{digest}\", \"length\": \"{length}\", \"offset\": \"{offset}\", \"filename\": \"{file}\""
                )?;
                if status == "200" {
                    let language = ["eng", "deu", "fra", "spa,eng", "rus", "zho", "jpn"]
                        [(self.random.below(7) * self.random.below(7) / 7) as usize];
                    write!(
                        out,
                        ", \"charset\": \"UTF-8\", \"languages\": \"{language}\""
                    )?;
                } else if status.starts_with("30") && mime != "warc/revisit" {
                    write!(out, ", \"redirect\": \"{base}/{}\"", self.random.letters(8))?;
                }
                out.write_all(b"}\n")
            }
        }
    }
}

/// Encodes a number as five letters that sort like the number.
fn counted(number: u64) -> String {
    let mut letters = [b'a'; 5];
    let mut rest = number;
    for letter in letters.iter_mut().rev() {
        *letter = b'a' + (rest % 26) as u8;
        rest /= 26;
    }
    letters.iter().map(|letter| char::from(*letter)).collect()
}

/// SplitMix64: small, fast and portable.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The same `seed` gives the same numbers.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// A number from 0 to 1.
    pub fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Some letters.
    pub fn letters(&mut self, count: u64) -> String {
        let mut bits = self.next();
        (0..count)
            .map(|_| {
                let letter = char::from(b'a' + (bits % 26) as u8);
                bits = (bits / 26).wrapping_add(bits << 47);
                letter
            })
            .collect()
    }

    /// Something that looks like a SHA-1 in base 32.
    pub fn digest(&mut self) -> String {
        let (mut low, mut high) = (self.next(), self.next());
        (0..32)
            .map(|place| {
                if place == 16 {
                    std::mem::swap(&mut low, &mut high);
                }
                let digit = (low & 31) as u8;
                low >>= 4;
                char::from(if digit < 26 {
                    b'A' + digit
                } else {
                    b'2' + digit - 26
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Fields;
    use crate::layout::{FileLayout, Line};
    use waypost_surt::{Canonicalizer, Dialect};

    fn generate(kind: Kind, lines: u64, seed: u64) -> Vec<u8> {
        let mut out = Vec::new();
        Generator::new(kind, lines, seed).write(&mut out).unwrap();
        out
    }

    #[test]
    fn the_same_seed_gives_the_same_sorted_lines_and_every_key_is_the_surt() {
        for kind in [Kind::Cdxj, Kind::Cdx11] {
            let text = generate(kind, 20_000, 7);
            assert_eq!(text, generate(kind, 20_000, 7));
            assert_ne!(text, generate(kind, 20_000, 8));
            let lines: Vec<&[u8]> = text
                .split(|b| *b == b'\n')
                .filter(|l| !l.is_empty())
                .collect();
            assert!(lines.is_sorted());
            let layout = FileLayout::detect(&text[..FileLayout::SAMPLE]);
            let mut canonicalizer = Canonicalizer::new(Dialect::Ia);
            let mut captures = 0;
            for line in lines {
                if let Line::Capture(capture, _) = layout.read(line, Fields::ALL, true) {
                    captures += 1;
                    let mut surt = Vec::new();
                    canonicalizer
                        .canonicalize(&capture.url().unwrap(), &mut surt)
                        .unwrap();
                    assert_eq!(capture.key(), surt, "{}", String::from_utf8_lossy(line));
                }
            }
            assert_eq!(captures, 20_000);
        }
    }
}
