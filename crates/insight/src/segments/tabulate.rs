//! Counts properties by segment, in one pass over an index.
//!
//! The captures of a block become a list of numbers, which are counted when the block is merged: see
//! `Block`. Counts that exceed the memory are spilled in sorted runs. The table is written from the
//! runs, so its size is limited by nothing.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use waypost_index::rejects::RejectsFile;
use waypost_index::scan::{self, At, Job, Outcome};
use waypost_index::{Capture, Field, Fields, Select};
use waypost_io::partial::RowBlock;
use waypost_io::partial::{Decoder, Encoder, Runs, Spill, push_number, take_number};
use waypost_io::{Error, ErrorKind, Phase, Progress, Resources, Result, Source};

use super::block::{Block, Memory, Whole};
use super::cells::Cells;
use super::location::{Subset, natural_order};
use super::names::Names;
use super::property::{Property, least_of_class};
use super::table::{Header, Segment, TableWriter};

/// What to count.
pub struct Options<'a> {
    /// The properties.
    pub properties: Vec<Property>,
    /// The subset whose captures are counted; `None` for all.
    pub subset: Option<Subset>,
    /// The capture filters.
    pub select: Select,
    /// Whether to stop at the first bad line or damaged file.
    pub strict: bool,
    /// Saves the bad lines.
    pub rejects: Option<&'a mut RejectsFile>,
    /// Limits.
    pub resources: Resources,
    /// Where to report progress.
    pub progress: Progress,
    /// What other machines have read, to be merged instead of reading the sources.
    pub pieces: Option<scan::Pieces>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            properties: Property::USUAL.to_vec(),
            subset: Some(Subset::Warc),
            select: Select::new(),
            strict: false,
            rejects: None,
            resources: Resources::default(),
            progress: Progress::default(),
            pieces: None,
        }
    }
}

/// The result of a tabulation.
#[derive(Debug)]
pub struct Tabulated {
    /// What the table says about the crawl and its segments.
    pub header: Header,
    /// Captures that were counted: those of the subset that have a segment.
    pub counted: u64,
    /// The number of distinct values of each property.
    pub values: Vec<(Property, u64)>,
    /// What was read.
    pub outcome: Outcome,
}

/// Counts the properties of `sources` and writes the table to `out`.
///
/// # Errors
/// If a source cannot be read or the table cannot be written.
pub fn tabulate(sources: &[Source], options: Options<'_>, out: &Path) -> Result<Tabulated> {
    let threads = options.resources.threads;
    let progress = options.progress.clone();
    let (partial, outcome) = count(sources, options)?;
    progress.begin(Phase::Writing, None);
    let Counted {
        header,
        counted,
        mut tables,
    } = partial;
    let mut writer = TableWriter::create(out, &header, threads)?;
    let mut values = Vec::new();
    for (property, table) in &mut tables {
        writer.property(property.name())?;
        let mut distinct = 0;
        table.each(&header.segments, |value, cells| {
            distinct += 1;
            writer.row(value, cells)
        })?;
        values.push((property.clone(), distinct));
    }
    writer.finish()?;
    Ok(Tabulated {
        header,
        counted,
        values,
        outcome,
    })
}

/// The counts of a crawl, before they are written.
pub struct Counted {
    /// What is known about the crawl and its segments.
    pub header: Header,
    /// Captures that were counted.
    pub counted: u64,
    /// The counts of each property.
    pub tables: Vec<(Property, CountedTable)>,
}

/// The counts of one property.
pub struct CountedTable {
    runs: Runs,
}

/// Scans `sources` and counts.
///
/// # Errors
/// If a source cannot be read, or a temporary file cannot be written.
pub fn count(sources: &[Source], options: Options<'_>) -> Result<(Counted, Outcome)> {
    let job = Tabulating::new(options.properties, options.subset, &options.resources);
    options.progress.read(sources);
    let scanning = scan::Options {
        select: options.select,
        strict: options.strict,
        rejects: options.rejects,
        progress: options.progress,
        pieces: options.pieces,
        ..scan::Options::default()
    };
    let (partial, outcome) = scan::scan(sources, &job, scanning)?;
    Ok((job.finish(partial)?, outcome))
}

impl CountedTable {
    /// Passes every value with its counts by segment to `take`, in the order of the values.
    ///
    /// # Errors
    /// If spilled counts cannot be read, or `take` fails.
    pub fn each(
        &mut self,
        segments: &[Segment],
        mut take: impl FnMut(&[u8], &[(usize, u64)]) -> Result<()>,
    ) -> Result<()> {
        let numbers: HashMap<&[u8], usize> = segments
            .iter()
            .enumerate()
            .map(|(number, segment)| (segment.name.as_bytes(), number))
            .collect();
        let mut reader = self.runs.reader()?;
        let mut rows = RowBlock::default();
        let (mut value, mut cells) = (Vec::new(), Vec::<(usize, u64)>::new());
        while reader.next(&mut rows)? {
            rows.open()?;
            for (key, payload) in rows.iter() {
                let (name, segment) = split_key(key)?;
                let count = take_number(payload).map_or(0, |(count, _)| count);
                if !cells.is_empty() && name != value {
                    take(&value, &tidy(&mut cells))?;
                    cells.clear();
                }
                if cells.is_empty() {
                    value.clear();
                    value.extend_from_slice(name);
                }
                let number = numbers.get(segment).copied().ok_or_else(damaged)?;
                cells.push((number, count));
            }
        }
        if !cells.is_empty() {
            take(&value, &tidy(&mut cells))?;
        }
        Ok(())
    }
}

/// Sorts cells by segment and adds those of the same one.
fn tidy(cells: &mut [(usize, u64)]) -> Vec<(usize, u64)> {
    cells.sort_unstable();
    let mut tidied: Vec<(usize, u64)> = Vec::with_capacity(cells.len());
    for &(segment, count) in cells.iter() {
        match tidied.last_mut() {
            Some(last) if last.0 == segment => last.1 += count,
            _ => tidied.push((segment, count)),
        }
    }
    tidied
}

fn damaged() -> Error {
    Error::new(ErrorKind::Format(
        "the bytes of a partial are damaged".to_owned(),
    ))
}

/// The value and the segment of the key of a run. Names of segments have no NUL.
fn split_key(key: &[u8]) -> Result<(&[u8], &[u8])> {
    let nul = memchr::memrchr(0, key).ok_or_else(damaged)?;
    Ok((&key[..nul], &key[nul + 1..]))
}

/// The job of a scan that counts properties by segment.
pub struct Tabulating {
    properties: Vec<Property>,
    subset: Option<Subset>,
    /// Bytes of counts of a property that stay in memory.
    share: usize,
    spill: Arc<Spill>,
    /// What workers remember, while they do not use it.
    memories: Mutex<Vec<Memory>>,
    /// The number of the next whole: see [`Partial::number`].
    next: AtomicU64,
}

/// The counts of some captures.
pub struct Partial {
    crawls: BTreeSet<Vec<u8>>,
    segments: Names,
    /// Captures by segment and subset.
    subsets: Vec<[u64; Subset::COUNT]>,
    /// Captures without a segment.
    without: u64,
    counted: u64,
    tables: Vec<PropertyCells>,
    /// Identifies the numbers of names; they change when names are moved to runs.
    number: u64,
    /// Captures that are not in the counts yet.
    block: Option<Block>,
}

#[derive(Default)]
struct PropertyCells {
    values: Names,
    cells: Cells,
    /// What exceeded the memory.
    runs: Option<Runs>,
}

impl Whole for Partial {
    fn segment(&mut self, name: &[u8], crawl: Option<&[u8]>) -> u32 {
        if let Some(crawl) = crawl
            && !self.crawls.contains(crawl)
        {
            self.crawls.insert(crawl.to_vec());
        }
        let number = self.segments.number(name);
        if number as usize == self.subsets.len() {
            self.subsets.push([0; Subset::COUNT]);
        }
        number
    }

    fn subsets(&mut self, segment: u32, counts: &[u64; Subset::COUNT]) {
        for (sum, count) in self.subsets[segment as usize].iter_mut().zip(counts) {
            *sum += count;
        }
    }

    fn value(&mut self, property: usize, name: &[u8]) -> u32 {
        self.tables[property].values.number(name)
    }

    #[inline]
    fn count(&mut self, property: usize, captures: impl Iterator<Item = (u32, u32)>) {
        let cells = &mut self.tables[property].cells;
        captures.for_each(|(value, segment)| cells.add(value, segment, 1));
    }
}

impl Tabulating {
    /// A job for these properties.
    pub fn new(
        properties: Vec<Property>,
        subset: Option<Subset>,
        resources: &Resources,
    ) -> Tabulating {
        Tabulating {
            share: resources.memory / 2 / properties.len().max(1),
            spill: Spill::new(&resources.temporary),
            properties,
            subset,
            memories: Mutex::default(),
            next: AtomicU64::new(1),
        }
    }

    fn next_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn new_block(&self) -> Block {
        let remembered = self.memories.lock().ok().and_then(|mut all| all.pop());
        Block::new(remembered.unwrap_or_default(), self.properties.len())
    }

    fn new_table(&self) -> PropertyCells {
        PropertyCells {
            cells: Cells::new(self.share / 4),
            ..PropertyCells::default()
        }
    }

    /// Counts the captures of a block.
    fn settle(&self, partial: &mut Partial, block: Option<Block>) -> Result<()> {
        let Some(block) = block else {
            return Ok(());
        };
        partial.counted += block.counted;
        partial.without += block.without;
        partial
            .tables
            .resize_with(self.properties.len(), || self.new_table());
        let number = partial.number;
        let memory = block.add_to(partial, number, &self.properties);
        if let Ok(mut all) = self.memories.lock() {
            all.push(memory);
        }
        self.spill_large(partial)
    }

    /// Moves the counts of properties that take too much memory to their runs.
    fn spill_large(&self, partial: &mut Partial) -> Result<()> {
        for at in 0..partial.tables.len() {
            let table = &partial.tables[at];
            if table.cells.size() + table.values.size() > self.share / 2 {
                self.flush(at, partial)?;
            }
        }
        Ok(())
    }

    /// Moves the counts of a property to its runs.
    fn flush(&self, at: usize, partial: &mut Partial) -> Result<()> {
        let table = &mut partial.tables[at];
        let is_length = self.properties[at] == Property::Length;
        let mut run = Runs::new(self.share / 2, &self.spill);
        // In the order of the keys as far as it is known, so that they need not be sorted.
        let segment_name = |segment: u32| partial.segments.get(segment as usize);
        let mut segments: Vec<u32> = (0..partial.segments.len() as u32).collect();
        segments.sort_unstable_by(|a, b| segment_name(*a).cmp(segment_name(*b)));
        let value_name = |value: u32| table.values.get(value as usize);
        let mut values: Vec<u32> = table.cells.rows().collect();
        match is_length {
            true => values.sort_by_cached_key(|class| least_of_class(*class).to_string()),
            false => values.sort_unstable_by(|a, b| value_name(*a).cmp(value_name(*b))),
        }
        let (mut key, mut payload) = (Vec::new(), Vec::new());
        // The value at the start of the key, and the length of that start.
        let mut start = (None, 0);
        table
            .cells
            .each(&values, &segments, |value, segment, count| {
                if start.0 != Some(value) {
                    key.clear();
                    match is_length {
                        true => key.extend_from_slice(least_of_class(value).to_string().as_bytes()),
                        false => key.extend_from_slice(value_name(value)),
                    }
                    key.push(0);
                    start = (Some(value), key.len());
                }
                key.truncate(start.1);
                key.extend_from_slice(segment_name(segment));
                payload.clear();
                push_number(&mut payload, count);
                run.push(&key, &payload);
            });
        run.seal()?;
        let mut empty = self.new_table();
        empty.runs = table.runs.take();
        match &mut empty.runs {
            Some(runs) => runs.merge(run)?,
            none => *none = Some(run),
        }
        *table = empty;
        partial.number = self.next_number();
        Ok(())
    }

    /// The bytes of a partial without its block.
    fn encode(&self, partial: &Partial) -> Result<Vec<u8>> {
        let mut out = Encoder::new("segments", 1);
        out.number(partial.without);
        out.number(partial.counted);
        out.number(partial.crawls.len() as u64);
        partial.crawls.iter().for_each(|crawl| out.text(crawl));
        out.number(partial.segments.len() as u64);
        for (name, counts) in partial.segments.iter().zip(&partial.subsets) {
            out.text(name);
            counts.iter().for_each(|count| out.number(*count));
        }
        let none = PropertyCells::default();
        for at in 0..self.properties.len() {
            let table = partial.tables.get(at).unwrap_or(&none);
            out.number(table.values.len() as u64);
            table.values.iter().for_each(|value| out.text(value));
            let mut cells: Vec<(u64, u64)> = table
                .cells
                .iter()
                .map(|(value, segment, n)| (u64::from(segment) << 32 | u64::from(value), n))
                .collect();
            cells.sort_unstable();
            out.number(cells.len() as u64);
            for (cell, count) in cells {
                out.number(cell);
                out.number(count);
            }
            out.number(u64::from(table.runs.is_some()));
            if let Some(runs) = &table.runs {
                runs.encode(&mut out)?;
            }
        }
        Ok(out.finish())
    }

    /// The counts of a merged partial.
    ///
    /// # Errors
    /// If a temporary file cannot be written.
    pub fn finish(&self, mut partial: Partial) -> Result<Counted> {
        let block = partial.block.take();
        self.settle(&mut partial, block)?;
        partial
            .tables
            .resize_with(self.properties.len(), || self.new_table());
        let mut tables = Vec::new();
        for (at, property) in self.properties.iter().enumerate() {
            self.flush(at, &mut partial)?;
            let runs = partial.tables[at].runs.take();
            let runs = runs.unwrap_or_else(|| Runs::new(0, &self.spill));
            tables.push((property.clone(), CountedTable { runs }));
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut segments: Vec<Segment> = partial
            .segments
            .iter()
            .zip(&partial.subsets)
            .map(|(name, captures)| Segment {
                name: text(name),
                captures: *captures,
            })
            .collect();
        segments.sort_by(|a, b| natural_order(&a.name, &b.name));
        Ok(Counted {
            header: Header {
                crawls: partial.crawls.iter().map(|name| text(name)).collect(),
                subset: self.subset,
                segments,
                without: partial.without,
            },
            counted: partial.counted,
            tables,
        })
    }
}

impl Job for Tabulating {
    type Partial = Partial;

    fn fields(&self) -> Fields {
        self.properties
            .iter()
            .fold(Field::Filename | Field::Status, |fields, property| {
                fields | property.fields()
            })
    }

    fn empty(&self) -> Partial {
        Partial {
            crawls: BTreeSet::new(),
            segments: Names::default(),
            subsets: Vec::new(),
            without: 0,
            counted: 0,
            tables: Vec::new(),
            number: self.next_number(),
            block: None,
        }
    }

    #[inline]
    fn add(&self, partial: &mut Partial, capture: &Capture<'_>, _: At) {
        let block = partial.block.get_or_insert_with(|| self.new_block());
        block.add(capture, &self.properties, self.subset);
    }

    fn merge(&self, earlier: &mut Partial, mut later: Partial, _: At) -> Result<()> {
        let (own, block) = (earlier.block.take(), later.block.take());
        self.settle(earlier, own)?;
        self.settle(earlier, block)?;
        earlier.without += later.without;
        earlier.counted += later.counted;
        earlier.crawls.extend(later.crawls);
        let segments: Vec<u32> = later
            .segments
            .iter()
            .zip(&later.subsets)
            .map(|(name, counts)| {
                let number = earlier.segment(name, None);
                earlier.subsets(number, counts);
                number
            })
            .collect();
        if later.tables.is_empty() {
            return Ok(());
        }
        earlier
            .tables
            .resize_with(self.properties.len(), || self.new_table());
        for (at, table) in later.tables.into_iter().enumerate() {
            let into = &mut earlier.tables[at];
            let is_length = self.properties[at] == Property::Length;
            let values: Vec<u32> = table
                .values
                .iter()
                .map(|value| into.values.number(value))
                .collect();
            for (value, segment, count) in table.cells.iter() {
                let value = if is_length {
                    value
                } else {
                    values[value as usize]
                };
                into.cells.add(value, segments[segment as usize], count);
            }
            if let Some(runs) = table.runs {
                match &mut into.runs {
                    Some(into) => into.merge(runs)?,
                    none => *none = Some(runs),
                }
            }
        }
        self.spill_large(earlier)
    }

    fn to_bytes(&self, partial: &Partial) -> Result<Vec<u8>> {
        let Some(block) = &partial.block else {
            return self.encode(partial);
        };
        let mut whole = self.from_bytes(&self.encode(partial)?)?;
        self.settle(&mut whole, Some(block.clone()))?;
        self.encode(&whole)
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<Partial> {
        let mut from = Decoder::new(bytes, "segments", 1)?;
        let mut partial = self.empty();
        partial.without = from.number()?;
        partial.counted = from.number()?;
        for _ in 0..from.count()? {
            partial.crawls.insert(from.text()?.to_vec());
        }
        for number in 0..from.count()? {
            if partial.segments.number(from.text()?) as usize != number {
                return Err(damaged());
            }
            let mut counts = [0; Subset::COUNT];
            for count in &mut counts {
                *count = from.number()?;
            }
            partial.subsets.push(counts);
        }
        for property in &self.properties {
            let mut table = self.new_table();
            for number in 0..from.count()? {
                if table.values.number(from.text()?) as usize != number {
                    return Err(damaged());
                }
            }
            for _ in 0..from.count()? {
                let (cell, count) = (from.number()?, from.number()?);
                let is_known =
                    *property == Property::Length || (cell as u32 as usize) < table.values.len();
                if !is_known || (cell >> 32) as usize >= partial.segments.len() {
                    return Err(damaged());
                }
                table.cells.add(cell as u32, (cell >> 32) as u32, count);
            }
            if from.number()? == 1 {
                table.runs = Some(Runs::new(self.share / 2, &self.spill).decode(&mut from)?);
            }
            partial.tables.push(table);
        }
        from.finish()?;
        Ok(partial)
    }
}
