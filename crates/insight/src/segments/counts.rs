//! The counts of one property by segment, ready to be compared.
//!
//! They come from the tables of `segments tabulate`, or from a plain table: CSV or tab-separated, one
//! row per value, one column per segment. Only the most frequent values are kept, because rare ones
//! are missing in many segments.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::Read;

use waypost_io::{Error, ErrorKind, Result, Source};

use super::location::natural_order;
use super::property::{Property, least_of_class, length_class};
use super::table::{self, Header, Row, TableReader};
use super::tabulate::Counted;
use crate::numeric::percentile;

/// How lengths are divided into classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LengthCut {
    /// Into percentile ranges, each with about a hundredth of all captures.
    #[default]
    Percentile,
    /// Into eight classes for each power of two.
    Log,
}

/// Which values are kept.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The number of most frequent values.
    pub top: usize,
    /// How lengths are divided.
    pub cut: LengthCut,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            top: 100,
            cut: LengthCut::default(),
        }
    }
}

/// The counts of one property.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// The name of the crawl.
    pub crawl: String,
    /// The name of the property.
    pub property: String,
    /// The names of the segments, in order.
    pub segments: Vec<String>,
    /// The values, the most frequent first.
    pub values: Vec<String>,
    /// The count of each value in the whole.
    pub whole: Vec<f64>,
    /// The count of each value, for each segment; NaN if it does not occur.
    pub cells: Vec<Vec<f64>>,
}

impl Counts {
    /// The number of values that a segment lacks, in all segments.
    pub fn missing(&self) -> usize {
        self.cells.iter().flatten().filter(|c| c.is_nan()).count()
    }

    /// Puts together the counts of a property from its rows: value, whole, cells by segment.
    fn new(
        crawl: String,
        property: String,
        segments: Vec<String>,
        mut rows: Vec<(String, f64, Vec<f64>)>,
        top: usize,
    ) -> Counts {
        rows.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        rows.truncate(top);
        let mut cells: Vec<Vec<f64>> = vec![Vec::with_capacity(rows.len()); segments.len()];
        let (mut values, mut whole) = (Vec::new(), Vec::new());
        for (value, total, row) in rows {
            values.push(value);
            whole.push(total);
            for (column, cell) in cells.iter_mut().zip(row) {
                column.push(cell);
            }
        }
        // Segments in order, whatever the order of the columns was.
        let mut order: Vec<usize> = (0..segments.len()).collect();
        order.sort_by(|&a, &b| natural_order(&segments[a], &segments[b]));
        Counts {
            crawl,
            property,
            segments: order.iter().map(|&at| segments[at].clone()).collect(),
            values,
            whole,
            cells: order.iter().map(|&at| cells[at].clone()).collect(),
        }
    }
}

/// A value with its total and its counts by segment, ordered by total.
type Frequent = (u64, Reverse<Vec<u8>>, Vec<(usize, u64)>);

/// Collects the most frequent values of a property, or all of its lengths.
struct Collector {
    property: Property,
    options: Options,
    segments: usize,
    /// The most frequent values, the least frequent first.
    top: BinaryHeap<Reverse<Frequent>>,
    /// Lengths by class and segment.
    lengths: Vec<(u64, Vec<(usize, u64)>)>,
}

impl Collector {
    fn new(property: &str, options: Options, segments: usize) -> Collector {
        Collector {
            property: Property::parse(property),
            options,
            segments,
            top: BinaryHeap::new(),
            lengths: Vec::new(),
        }
    }

    fn add(&mut self, value: &[u8], cells: &[(usize, u64)]) {
        if self.property == Property::Length {
            let length = std::str::from_utf8(value).ok().and_then(|v| v.parse().ok());
            self.lengths
                .extend(length.map(|length| (length, cells.to_vec())));
            return;
        }
        let total = cells.iter().map(|cell| cell.1).sum();
        self.top
            .push(Reverse((total, Reverse(value.to_vec()), cells.to_vec())));
        if self.top.len() > self.options.top {
            self.top.pop();
        }
    }

    fn finish(mut self, crawl: String, header: &Header) -> Counts {
        let rows = match self.property {
            Property::Length => self.cut(),
            _ => std::mem::take(&mut self.top)
                .into_iter()
                .map(|Reverse((_, Reverse(value), cells))| {
                    (String::from_utf8_lossy(&value).into_owned(), cells)
                })
                .collect(),
        };
        let rows = rows
            .into_iter()
            .map(|(value, cells)| {
                let mut row = vec![f64::NAN; self.segments];
                for &(segment, count) in &cells {
                    if count > 0 {
                        row[segment] = count as f64;
                    }
                }
                let whole = cells.iter().map(|cell| cell.1).sum::<u64>() as f64;
                (value, whole, row)
            })
            .collect();
        let segments = header.segments.iter().map(|s| s.name.clone()).collect();
        let name = self.property.name().to_owned();
        Counts::new(crawl, name, segments, rows, self.options.top)
    }

    /// The lengths in classes, each named after its shortest length.
    fn cut(&mut self) -> Vec<(String, Vec<(usize, u64)>)> {
        self.lengths.sort_by_key(|(length, _)| *length);
        let numbers: Vec<u64> = match self.options.cut {
            LengthCut::Percentile => {
                let totals: Vec<u64> = self
                    .lengths
                    .iter()
                    .map(|(_, cells)| cells.iter().map(|cell| cell.1).sum())
                    .collect();
                percentile::ranges(&totals)
                    .into_iter()
                    .map(u64::from)
                    .collect()
            }
            LengthCut::Log => self
                .lengths
                .iter()
                .map(|(length, _)| u64::from(length_class(*length) / 16))
                .collect(),
        };
        let mut classes: Vec<(u64, HashMap<usize, u64>)> = Vec::new();
        for (number, (_, cells)) in numbers.iter().zip(&self.lengths) {
            if classes.last().is_none_or(|(last, _)| last != number) {
                classes.push((*number, HashMap::new()));
            }
            if let Some((_, sums)) = classes.last_mut() {
                for &(segment, count) in cells {
                    *sums.entry(segment).or_default() += count;
                }
            }
        }
        classes
            .into_iter()
            .map(|(number, sums)| {
                let name = match self.options.cut {
                    LengthCut::Percentile => format!("percentile {number:03}"),
                    LengthCut::Log => {
                        format!("from {}", least_of_class(number as u32 * 16))
                    }
                };
                (name, sums.into_iter().collect())
            })
            .collect()
    }
}

/// The counts in memory, without a file.
///
/// # Errors
/// If spilled counts cannot be read.
pub fn of_counted(counted: &mut Counted, options: Options, crawl: &str) -> Result<Vec<Counts>> {
    let header = &counted.header;
    let mut all = Vec::new();
    for (property, table) in &mut counted.tables {
        let mut collector = Collector::new(property.name(), options, header.segments.len());
        table.each(&header.segments, |value, cells| {
            collector.add(value, cells);
            Ok(())
        })?;
        all.push(collector.finish(header.crawl_or(crawl), header));
    }
    Ok(all)
}

/// Reads the counts of the properties of a table, or of a plain table, of which there is one. With
/// `wanted`, only those properties.
///
/// # Errors
/// If the file cannot be read or is not a table, or has no such property.
pub fn read(
    source: &Source,
    wanted: &[String],
    options: Options,
) -> Result<(Vec<Counts>, Option<Header>)> {
    let mut start = [0; 32];
    let (length, error) = source.open()?.read_full(&mut start);
    if let Some(error) = error {
        return Err(error);
    }
    let path = source.path();
    let stem = path.file_name().map_or_else(String::new, |name| {
        let name = name.to_string_lossy();
        name.split('.').next().unwrap_or_default().to_owned()
    });
    if !table::is_table(&start[..length]) {
        return Ok((vec![read_plain(source, &stem, options)?], None));
    }
    let mut reader = TableReader::open(source)?;
    let header = reader.header.clone();
    let (mut all, mut names) = (Vec::new(), Vec::new());
    let mut row = Row::default();
    while let Some(name) = reader.next_property()? {
        names.push(name.clone());
        if !wanted.is_empty() && !wanted.contains(&name) {
            continue;
        }
        let mut collector = Collector::new(&name, options, header.segments.len());
        while reader.next_row(&mut row)? {
            collector.add(&row.value, &row.cells);
        }
        all.push(collector.finish(header.crawl_or(&stem), &header));
    }
    // In the order in which they were asked for.
    all.sort_by_key(|counts| wanted.iter().position(|name| *name == counts.property));
    if let Some(lacking) = wanted.iter().find(|name| !names.contains(name)) {
        let message = format!(
            "no property {lacking} in this table; it has {}",
            names.join(", ")
        );
        return Err(Error::new(ErrorKind::Format(message)).in_file(source));
    }
    Ok((all, Some(header)))
}

/// The largest plain table: it is read at once.
const LARGEST_PLAIN: u64 = 256 << 20;

/// Reads a plain table.
fn read_plain(source: &Source, stem: &str, options: Options) -> Result<Counts> {
    let mut text = Vec::new();
    let mut stream = source.open()?.take(LARGEST_PLAIN + 1);
    let read = stream.read_to_end(&mut text);
    read.map_err(|error| Error::from_read(error).in_file(source))?;
    let wrong = |line: usize, message: String| {
        Error::new(ErrorKind::Format(message))
            .in_file(source)
            .at_line(line as u64)
    };
    if text.len() as u64 > LARGEST_PLAIN {
        return Err(wrong(
            1,
            format!("a plain table may have {LARGEST_PLAIN} bytes"),
        ));
    }
    let text = String::from_utf8_lossy(&text);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    let Some((number, line)) = lines.next() else {
        return Err(wrong(1, "the table is empty".to_owned()));
    };
    let separator = [',', '\t', ';']
        .into_iter()
        .max_by_key(|c| line.matches(*c).count())
        .unwrap_or(',');
    let header = cells(line, separator);
    if header.len() < 3 {
        return Err(wrong(number + 1, "not a table of segments: expected a column of values and one for each of two or more segments".to_owned()));
    }
    let is_whole = |name: &&String| {
        ["whole", "total", "all"].contains(&name.trim().to_ascii_lowercase().as_str())
    };
    let whole = header.iter().skip(1).position(|name| is_whole(&name));
    let mut segments: Vec<String> = header[1..]
        .iter()
        .map(|name| name.trim().to_owned())
        .collect();
    if let Some(at) = whole {
        segments.remove(at);
    }
    let mut rows = Vec::new();
    for (number, line) in lines {
        let row = cells(line, separator);
        if row.len() != header.len() {
            let message = format!("{} columns instead of {}", row.len(), header.len());
            return Err(wrong(number + 1, message));
        }
        let mut values = Vec::with_capacity(row.len());
        for cell in &row[1..] {
            values.push(number_of(cell).ok_or_else(|| {
                wrong(
                    number + 1,
                    format!("`{cell}` is not a number; leave a missing cell empty"),
                )
            })?);
        }
        let total = match whole {
            Some(at) => values.remove(at),
            None => values.iter().filter(|value| !value.is_nan()).sum(),
        };
        rows.push((row[0].trim().to_owned(), total, values));
    }
    let property = match header[0].trim() {
        "" => stem.to_owned(),
        name => name.to_owned(),
    };
    let crawl = stem.to_owned();
    Ok(Counts::new(crawl, property, segments, rows, options.top))
}

/// A number, with or without separators of thousands. NaN if the cell is empty.
fn number_of(cell: &str) -> Option<f64> {
    let cell = cell.trim();
    if cell.is_empty() || cell == "-" || cell.eq_ignore_ascii_case("nan") {
        return Some(f64::NAN);
    }
    let number: f64 = cell.replace([',', '_', ' '], "").parse().ok()?;
    number.is_finite().then_some(number)
}

/// The cells of a line, some of which may be quoted.
fn cells(line: &str, separator: char) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        let Some(cell) = cells.last_mut() else { break };
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                cell.push('"');
            }
            '"' if quoted || cell.is_empty() => quoted = !quoted,
            c if c == separator && !quoted => cells.push(String::new()),
            c => cell.push(c),
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_may_be_quoted_and_numbers_may_have_separators() {
        assert_eq!(cells("a,\"b,\"\"c\",,1", ','), ["a", "b,\"c", "", "1"]);
        assert_eq!(number_of("\u{20}1,234 "), Some(1234.0));
        assert!(number_of("nan").unwrap().is_nan() && number_of("").unwrap().is_nan());
        assert_eq!(number_of("x"), None);
        assert_eq!(number_of("inf"), None);
    }

    #[test]
    fn a_plain_table_is_read_with_or_without_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("2019-35.csv");
        std::fs::write(
            &path,
            "mime,seg10,total,seg9\nhtml,1,10,2\npdf,,\"1,000\",7\n",
        )
        .unwrap();
        let (counts, header) = read(&Source::new(&path), &[], Options::default()).unwrap();
        assert!(header.is_none());
        let counts = &counts[0];
        assert_eq!((&*counts.crawl, &*counts.property), ("2019-35", "mime"));
        assert_eq!(counts.segments, ["seg9", "seg10"]);
        assert_eq!((&counts.values[0][..], counts.whole[0]), ("pdf", 1000.0));
        assert_eq!(counts.cells[0], [7.0, 2.0]);
        assert!(counts.cells[1][0].is_nan());
        assert_eq!(counts.missing(), 1);
        std::fs::write(&path, "x\ty\tz\nhtml\t1\t2\nbad\t1\n").unwrap();
        let error = read(&Source::new(&path), &[], Options::default()).unwrap_err();
        assert_eq!(error.place().line, Some(3));
    }
}
