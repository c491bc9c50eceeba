//! The rows of an `.idx` file.

use memchr::memchr;

use waypost_io::{Error, ErrorKind, Result};

/// The two kinds of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flavour {
    /// `cluster.idx`: tab-separated fields, as used by Common Crawl, the Internet Archive and pywb.
    Cluster,
    /// `index.idx`: the location as JSON and one data file, as used in WACZ.
    Wacz,
}

/// The location of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row<'a> {
    /// The start of the block's first line. Never larger than that line.
    pub(crate) key: &'a [u8],
    /// The name of the data file; empty if there is only one.
    pub(crate) part: &'a [u8],
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl Flavour {
    /// The name of the `.idx` file.
    pub(crate) fn file_name(self) -> &'static str {
        match self {
            Flavour::Cluster => "cluster.idx",
            Flavour::Wacz => "index.idx",
        }
    }

    /// The part of a row that is compared with lines.
    pub(crate) fn key(self, row: &[u8]) -> &[u8] {
        match self {
            Flavour::Cluster => &row[..memchr(b'\t', row).unwrap_or(row.len())],
            Flavour::Wacz => {
                let json = memchr::memmem::rfind(row, b" {").unwrap_or(row.len());
                &row[..json]
            }
        }
    }

    /// Parses a row.
    pub(crate) fn parse(self, row: &[u8]) -> Result<Row<'_>> {
        let row = row.strip_suffix(b"\r").unwrap_or(row);
        let parsed = match self {
            Flavour::Cluster => parse_cluster(row),
            Flavour::Wacz => parse_wacz(row),
        };
        parsed.ok_or_else(|| {
            let shown = String::from_utf8_lossy(&row[..row.len().min(120)]);
            Error::new(ErrorKind::Format(format!("not a row of blocks: {shown}")))
        })
    }

    /// Writes a row. `number` is that of the block, from 1.
    pub(crate) fn write(self, row: &Row<'_>, number: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(row.key);
        match self {
            Flavour::Cluster => {
                out.push(b'\t');
                out.extend_from_slice(row.part);
                let rest = format!("\t{}\t{}\t{number}\n", row.offset, row.length);
                out.extend_from_slice(rest.as_bytes());
            }
            Flavour::Wacz => {
                let (offset, length) = (row.offset, row.length);
                let json = format!(" {{\"offset\":{offset},\"length\":{length}}}\n");
                out.extend_from_slice(json.as_bytes());
            }
        }
    }
}

fn parse_cluster(row: &[u8]) -> Option<Row<'_>> {
    let mut fields = row.split(|&byte| byte == b'\t');
    Some(Row {
        key: fields.next()?,
        part: fields.next()?,
        offset: number(fields.next()?)?,
        length: number(fields.next()?)?,
    })
}

fn parse_wacz(row: &[u8]) -> Option<Row<'_>> {
    let key = Flavour::Wacz.key(row);
    let json: serde_json::Value = serde_json::from_slice(row.get(key.len() + 1..)?).ok()?;
    Some(Row {
        key,
        part: b"",
        offset: json.get("offset")?.as_u64()?,
        length: json.get("length")?.as_u64()?,
    })
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The part of a line that its row contains: key and timestamp, up to a tab if there is one.
pub(crate) fn key_of(line: &[u8]) -> &[u8] {
    let line = &line[..memchr(b'\t', line).unwrap_or(line.len())];
    let end = memchr::memchr_iter(b' ', line).nth(1);
    &line[..end.unwrap_or(line.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_both_flavours_are_read_as_they_were_written() {
        for flavour in [Flavour::Cluster, Flavour::Wacz] {
            let row = Row {
                key: b"com,example)/{a} 20200101000000",
                part: if flavour == Flavour::Cluster {
                    b"cdx-00000.gz"
                } else {
                    b""
                },
                offset: 17,
                length: 181_223,
            };
            let mut out = Vec::new();
            flavour.write(&row, 3, &mut out);
            let line = out.strip_suffix(b"\n").unwrap();
            assert_eq!(flavour.parse(line).unwrap(), row);
            assert_eq!(flavour.key(line), row.key);
        }
    }

    #[test]
    fn rows_of_others_without_a_number_or_with_spaces_in_json_are_read() {
        let row = b"com,a)/ 2020\tpart-a\t0\t5";
        assert_eq!(Flavour::Cluster.parse(row).unwrap().part, b"part-a");
        let row = b"com,a)/ 2020 {\"offset\": 7, \"length\": 9, \"digest\": \"sha256:00\"}";
        assert_eq!(Flavour::Wacz.parse(row).unwrap().length, 9);
    }

    #[test]
    fn a_row_that_is_none_is_an_error_that_shows_it() {
        for row in [&b"com,a)/ 2020"[..], b"k\tp\t-1\t5", b"k\tp\t1", b""] {
            let error = Flavour::Cluster.parse(row).unwrap_err();
            assert!(error.to_string().contains("not a row"), "{error}");
        }
        assert!(Flavour::Wacz.parse(b"com,a)/ 2020 {\"offset\":1}").is_err());
    }
}
