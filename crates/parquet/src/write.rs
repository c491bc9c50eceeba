//! Writes rows to part files, on all cores.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, unbounded};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use waypost_index::key::Rekeyer;
use waypost_index::rejects::RejectsFile;
use waypost_index::scan::{self, At, Job, Outcome};
use waypost_index::select::Select;
use waypost_index::{Capture, Fields};
use waypost_io::{AtomicFolder, Error, ErrorKind, IoContext, Progress, Resources, Result, Source};
use waypost_surt::Dialect;

use crate::row::{Rows, Values, place_of};
use crate::schema::{self, COLUMNS, Kind};
use crate::sort;

/// Options of [`write()`].
#[derive(Default)]
pub struct Options<'a> {
    /// Which captures to write.
    pub select: Select,
    /// The dialect of keys that are not SURTs.
    pub dialect: Dialect,
    /// The crawl of captures whose file name does not tell it.
    pub crawl: String,
    /// Whether offsets and lengths have 64 bits.
    pub wide: bool,
    /// The number of rows of a row group; `None` for 100,000.
    pub rows: Option<usize>,
    /// Limits on memory and threads.
    pub resources: Resources,
    /// Whether to stop at the first bad line or damaged file.
    pub strict: bool,
    /// Saves the bad lines.
    pub rejects: Option<&'a mut RejectsFile>,
    /// Where to report progress.
    pub progress: Progress,
}

impl Options<'_> {
    /// How the sources are read.
    fn scan(&mut self) -> scan::Options<'_> {
        scan::Options {
            select: self.select.clone(),
            strict: self.strict,
            rejects: self.rejects.as_deref_mut(),
            progress: self.progress.clone(),
            ..scan::Options::default()
        }
    }
}

/// What was written.
#[derive(Debug, Default)]
pub struct Report {
    /// What was read.
    pub outcome: Outcome,
    /// Rows.
    pub rows: u64,
    /// Files.
    pub files: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Whether the input was not sorted, and was sorted first.
    pub sorted: bool,
}

/// The subset of captures whose file name does not tell it.
const SUBSET: &[u8] = b"warc";
/// The size of the rows of a file before they are encoded, if the memory allows it.
const PART: usize = 256 << 20;

/// Writes the captures of indexes to a new folder. If they are not sorted by SURT, they are sorted first.
///
/// # Errors
/// If a source cannot be read, a file cannot be written, or an offset has more than 31 bits and the columns
/// are not [wide](Options::wide).
pub fn write(sources: &[Source], mut options: Options<'_>, out: &Path) -> Result<Report> {
    let temporary = &options.resources.temporary.clone();
    options.select.dialect(options.dialect);
    for source in sources {
        // What is found to be out of order is read again.
        if !source.is_lasting()? {
            source.keep(temporary)?;
        }
    }
    match attempt(sources, &mut options, out) {
        Err(error) if matches!(error.kind(), ErrorKind::NotSorted { .. }) => {}
        done => return done,
    }
    if let Some(rejects) = &mut options.rejects {
        rejects.restart()?;
    }
    let folder = waypost_io::temporary::folder_in(temporary)?;
    let (dialect, resources) = (options.dialect, options.resources.clone());
    let scanning = options.scan();
    let (path, outcome) = sort::sorted(sources, dialect, scanning, &resources, folder.path())?;
    // Only what passed the filters is in the file.
    options.select = Select::new();
    options.select.include_non_web(true);
    options.rejects = None;
    let sorted = [Source::new(path)];
    let mut report = attempt(&sorted, &mut options, out)?;
    report.outcome = outcome;
    report.sorted = true;
    Ok(report)
}

/// Writes captures that are expected to be sorted.
fn attempt(sources: &[Source], options: &mut Options<'_>, out: &Path) -> Result<Report> {
    let folder = AtomicFolder::create(out)?;
    // Some parts are encoded while the next one is collected.
    let part = (options.resources.memory / 6).clamp(4 << 20, PART);
    let most = (options.resources.memory / 3 / part).clamp(1, rayon::current_num_threads());
    let (sender, receiver) = unbounded();
    let job = Writing {
        dialect: options.dialect,
        crawl: options.crawl.clone().into_bytes(),
        output: Mutex::new(Output {
            partitions: BTreeMap::new(),
            folder: folder.inside().to_owned(),
            wide: options.wide,
            group: options.rows.unwrap_or(100_000).max(1),
            part,
            most,
            running: 0,
            sender,
            receiver,
            report: Report::default(),
        }),
    };
    options.progress.read(sources);
    let (_, outcome) = scan::scan(sources, &job, options.scan())?;
    let output = job.output.into_inner();
    let mut report = output.unwrap_or_else(PoisonError::into_inner).finish()?;
    report.outcome = outcome;
    folder.commit()?;
    Ok(report)
}

/// Crawl and subset.
type Partition = (Vec<u8>, Vec<u8>);

/// The scan job.
struct Writing {
    dialect: Dialect,
    crawl: Vec<u8>,
    output: Mutex<Output>,
}

/// The rows of a block.
struct Block {
    partitions: Vec<(Partition, Rows)>,
    rekeyer: Option<Rekeyer>,
}

impl Block {
    fn rows(&mut self, crawl: &[u8], subset: &[u8]) -> &mut Rows {
        let known = self
            .partitions
            .iter()
            .position(|((one, other), _)| one == crawl && other == subset);
        let at = known.unwrap_or_else(|| {
            let partition = (crawl.to_vec(), subset.to_vec());
            self.partitions.push((partition, Rows::new()));
            self.partitions.len() - 1
        });
        &mut self.partitions[at].1
    }
}

impl Job for Writing {
    type Partial = Block;

    fn fields(&self) -> Fields {
        Fields::ALL
    }

    fn empty(&self) -> Block {
        Block {
            partitions: Vec::new(),
            rekeyer: None,
        }
    }

    fn add(&self, block: &mut Block, capture: &Capture<'_>, _: At) {
        let mut rekeyer = block
            .rekeyer
            .take()
            .unwrap_or_else(|| Rekeyer::new(self.dialect));
        let filename = capture
            .text(waypost_index::Field::Filename)
            .unwrap_or_default();
        let (crawl, segment, subset) = place_of(&filename).unwrap_or((&self.crawl, b"", SUBSET));
        let surt = rekeyer.surt(capture);
        block.rows(crawl, subset).add(surt, capture, segment);
        block.rekeyer = Some(rekeyer);
    }

    fn merge(&self, _: &mut Block, later: Block, _: At) -> Result<()> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        for (partition, rows) in later.partitions {
            output.take(partition, rows)?;
        }
        Ok(())
    }

    fn to_bytes(&self, _: &Block) -> Result<Vec<u8>> {
        Err(not_sent())
    }

    fn from_bytes(&self, _: &[u8]) -> Result<Block> {
        Err(not_sent())
    }
}

/// Rows are written by the machine that reads them: there is nothing to merge.
pub(crate) fn not_sent() -> Error {
    let message = "rows are written by the machine that reads them";
    Error::new(ErrorKind::Invalid(message.to_owned()))
}

/// A partition that is being written.
struct Open {
    rows: Rows,
    parts: usize,
    last: Vec<u8>,
}

struct Output {
    partitions: BTreeMap<Partition, Open>,
    folder: PathBuf,
    wide: bool,
    group: usize,
    part: usize,
    /// The most parts that are encoded at a time.
    most: usize,
    running: usize,
    sender: Sender<Result<u64>>,
    receiver: Receiver<Result<u64>>,
    report: Report,
}

impl Output {
    fn take(&mut self, partition: Partition, rows: Rows) -> Result<()> {
        let open = self
            .partitions
            .entry(partition.clone())
            .or_insert_with(|| Open {
                rows: Rows::new(),
                parts: 0,
                last: Vec::new(),
            });
        for row in 0..rows.length {
            let key = rows.key(row);
            if key < &open.last[..] {
                return Err(Error::not_sorted(&open.last, key));
            }
            if key > &open.last[..] {
                open.last.clear();
                open.last.extend_from_slice(key);
            }
        }
        self.report.rows += rows.length as u64;
        open.rows.append(&rows);
        // Partitions share the memory; the largest one is written first.
        let held: usize = self.partitions.values().map(|open| open.rows.size).sum();
        if held >= self.part {
            let largest = self
                .partitions
                .iter()
                .max_by_key(|(_, open)| open.rows.size);
            if let Some(largest) = largest.map(|(partition, _)| partition.clone()) {
                self.start(&largest)?;
            }
        }
        Ok(())
    }

    /// Encodes the rows of a partition on another thread.
    fn start(&mut self, partition: &Partition) -> Result<()> {
        while self.running >= self.most {
            self.wait()?;
        }
        let Some(open) = self.partitions.get_mut(partition) else {
            return Ok(());
        };
        let rows = std::mem::replace(&mut open.rows, Rows::new());
        let name = |name: &str, value: &[u8]| format!("{name}={}", escaped(value));
        let folder = self.folder.join(name("crawl", &partition.0));
        let folder = folder.join(name("subset", &partition.1));
        std::fs::create_dir_all(&folder).doing("make the folder", &folder)?;
        let path = folder.join(format!("part-{:05}.zstd.parquet", open.parts));
        open.parts += 1;
        self.running += 1;
        let (sender, wide, group) = (self.sender.clone(), self.wide, self.group);
        rayon::spawn(move || {
            // The receiver is gone if another part failed.
            let _ = sender.send(encode(&rows, wide, group, &path));
        });
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        let done = self.receiver.recv();
        self.running -= 1;
        self.report.bytes += done.map_err(|_| Error::new(ErrorKind::Panicked))??;
        self.report.files += 1;
        Ok(())
    }

    fn finish(mut self) -> Result<Report> {
        let open: Vec<Partition> = self.partitions.keys().cloned().collect();
        for partition in open {
            if self
                .partitions
                .get(&partition)
                .is_some_and(|open| open.rows.length > 0)
            {
                self.start(&partition)?;
            }
        }
        while self.running > 0 {
            self.wait()?;
        }
        Ok(self.report)
    }
}

/// A value of a partition in the name of its folder, as Hive writes it.
fn escaped(value: &[u8]) -> String {
    let mut text = String::new();
    for &byte in value {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => text.push(byte.into()),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    if text.is_empty() {
        text.push_str("__HIVE_DEFAULT_PARTITION__");
    }
    text
}

/// Writes a file. Returns its size.
fn encode(rows: &Rows, wide: bool, group: usize, path: &Path) -> Result<u64> {
    let fail = |error: parquet::errors::ParquetError| {
        let error = std::io::Error::other(error);
        Error::io("write", path, error)
    };
    let file = File::create(path).doing("write", path)?;
    let schema = schema::schema(wide).map_err(fail)?;
    let properties = schema::properties(group.min(rows.length) as u64).map_err(fail)?;
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).map_err(fail)?;
    let texts: Vec<Bytes> = rows
        .columns
        .iter()
        .map(|values| Bytes::copy_from_slice(&values.bytes))
        .collect();
    for start in (0..rows.length).step_by(group) {
        let end = (start + group).min(rows.length);
        let mut columns = writer.next_row_group().map_err(fail)?;
        for ((values, text), (name, kind, nullable)) in rows.columns.iter().zip(&texts).zip(COLUMNS)
        {
            let chunk = Chunk {
                values,
                text,
                rows: start..end,
                nullable,
            };
            match kind {
                Kind::Text => chunk.texts(&mut columns).map_err(fail)?,
                Kind::Time => chunk.wide_numbers(&mut columns).map_err(fail)?,
                Kind::Place if wide => chunk.wide_numbers(&mut columns).map_err(fail)?,
                Kind::Int16 | Kind::Int32 | Kind::Place => {
                    if values.numbers[start..end]
                        .iter()
                        .any(|number| i32::try_from(*number).is_err())
                    {
                        let message = format!("{name} needs more than 31 bits");
                        return Err(Error::new(ErrorKind::Invalid(message)).in_file(path.display()));
                    }
                    chunk.numbers(&mut columns).map_err(fail)?;
                }
            }
        }
        columns.close().map_err(fail)?;
    }
    let file = writer.into_inner().map_err(fail)?;
    file.sync_all().doing("write", path)?;
    Ok(file.metadata().doing("write", path)?.len())
}

/// Some rows of a column.
struct Chunk<'a> {
    values: &'a Values,
    text: &'a Bytes,
    rows: std::ops::Range<usize>,
    nullable: bool,
}

impl Chunk<'_> {
    fn levels(&self) -> Option<Vec<i16>> {
        let valid = &self.values.valid[self.rows.clone()];
        self.nullable
            .then(|| valid.iter().map(|valid| i16::from(*valid)).collect())
    }

    fn valid_rows(&self) -> impl Iterator<Item = usize> + '_ {
        self.rows
            .clone()
            .filter(|row| !self.nullable || self.values.valid[*row])
    }

    fn texts(&self, group: &mut SerializedRowGroupWriter<'_, File>) -> parquet::errors::Result<()> {
        let ends = &self.values.ends;
        let texts: Vec<ByteArray> = self
            .valid_rows()
            .map(|row| {
                let start = if row == 0 { 0 } else { ends[row - 1] };
                ByteArray::from(self.text.slice(start..ends[row]))
            })
            .collect();
        let levels = self.levels();
        if let Some(mut column) = group.next_column()? {
            column
                .typed::<ByteArrayType>()
                .write_batch(&texts, levels.as_deref(), None)?;
            column.close()?;
        }
        Ok(())
    }

    fn wide_numbers(
        &self,
        group: &mut SerializedRowGroupWriter<'_, File>,
    ) -> parquet::errors::Result<()> {
        let numbers: Vec<i64> = self
            .valid_rows()
            .map(|row| self.values.numbers[row])
            .collect();
        let levels = self.levels();
        if let Some(mut column) = group.next_column()? {
            column
                .typed::<Int64Type>()
                .write_batch(&numbers, levels.as_deref(), None)?;
            column.close()?;
        }
        Ok(())
    }

    fn numbers(
        &self,
        group: &mut SerializedRowGroupWriter<'_, File>,
    ) -> parquet::errors::Result<()> {
        let numbers = self.valid_rows().map(|row| self.values.numbers[row] as i32);
        let numbers: Vec<i32> = numbers.collect();
        let levels = self.levels();
        if let Some(mut column) = group.next_column()? {
            column
                .typed::<Int32Type>()
                .write_batch(&numbers, levels.as_deref(), None)?;
            column.close()?;
        }
        Ok(())
    }
}
