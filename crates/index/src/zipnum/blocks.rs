//! Passes all blocks of a ZipNum index through a function: to read them, or to rewrite their lines in
//! blocks with the same borders.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use waypost_io::gzip::Gzip;
use waypost_io::{AtomicFolder, IoContext, Ordered, Phase, Progress, Result, Written};

use super::idx::{Flavour, Row};
use super::reader::{Blocks, ZipNum};

/// What a function makes of a block, given its number, from 0, and its lines.
pub type BlockWork<O> = Arc<dyn Fn(u64, &[u8]) -> O + Send + Sync>;

/// Appends the rewritten lines of a block to a buffer, given its number and its lines.
pub type BlockRewrite<O> = Arc<dyn Fn(u64, &[u8], &mut Vec<u8>) -> O + Send + Sync>;

impl ZipNum {
    /// The number of compressed bytes of all blocks.
    fn stored(&self) -> Result<u64> {
        let mut stored = 0;
        for at in self.row_starts() {
            let at = at?;
            if let Some((row, _)) = self.row(at)? {
                stored += self.parse(row, at)?.length;
            }
        }
        Ok(stored)
    }
}

/// Passes every block to `work`, on `threads` threads, and the results in order to `take`.
///
/// # Errors
/// If a block cannot be read, if the rows are out of order or do not cover all of the data, or those of
/// `take`.
pub fn each_block<O: Send + 'static, T: Send + 'static>(
    zipnum: &Arc<ZipNum>,
    threads: usize,
    progress: &Progress,
    work: &BlockWork<O>,
    state: T,
    mut take: impl FnMut(&mut T, O) -> Result<()> + Send + 'static,
) -> Result<T> {
    zipnum.check_rows()?;
    progress.begin(Phase::Reading, Some(zipnum.stored()?));
    let mut reading = Ordered::new(
        threads,
        || {
            let (zipnum, progress, work) = (Arc::clone(zipnum), progress.clone(), Arc::clone(work));
            let (mut blocks, mut lines) = (Blocks::new(), Vec::new());
            move |(number, at): (u64, usize)| -> Result<Option<O>> {
                let Some((row, _)) = zipnum.row(at)? else {
                    return Ok(None);
                };
                let row = zipnum.parse(row, at)?;
                blocks.read(&zipnum, &row, &mut lines)?;
                progress.add(row.length);
                Ok(Some(work(number, &lines)))
            }
        },
        state,
        move |state, result: Result<Option<O>>| match result? {
            Some(result) => take(state, result),
            None => Ok(()),
        },
    )?;
    for (number, at) in zipnum.row_starts().enumerate() {
        reading.give((number as u64, at?))?;
    }
    reading.finish()
}

/// Writes the index again to the new folder `out`, with the lines that `rewrite` makes of those of each
/// block: the same data files with the same blocks, and rows with their new offsets. The first line of
/// a block must keep its key. Results go in order to `take`.
///
/// # Errors
/// If a block cannot be read, if the rows are out of order or do not cover all of the data, or if
/// nothing can be written.
#[expect(clippy::too_many_arguments, reason = "they are different things")]
pub fn rewrite<O: Send + 'static, T: Send + 'static>(
    zipnum: &Arc<ZipNum>,
    out: &Path,
    level: u8,
    threads: usize,
    progress: &Progress,
    rewrite: &BlockRewrite<O>,
    state: T,
    mut take: impl FnMut(&mut T, O) -> Result<()> + Send + 'static,
) -> Result<(T, Written)> {
    zipnum.check_rows()?;
    progress.begin(Phase::Writing, Some(zipnum.stored()?));
    let sink = Sink::create(out, zipnum.flavour())?;
    let mut writing = Ordered::new(
        threads,
        || {
            let (zipnum, progress) = (Arc::clone(zipnum), progress.clone());
            let rewrite = Arc::clone(rewrite);
            let (mut blocks, mut lines) = (Blocks::new(), Vec::new());
            let (mut gzip, mut rewritten) = (Gzip::new(level), Vec::new());
            move |(number, at): (u64, usize)| -> Result<Option<(usize, Packed, O)>> {
                let Some((row, _)) = zipnum.row(at)? else {
                    return Ok(None);
                };
                let row = zipnum.parse(row, at)?;
                blocks.read(&zipnum, &row, &mut lines)?;
                progress.add(row.length);
                rewritten.clear();
                let result = rewrite(number, &lines, &mut rewritten);
                let mut bytes = Vec::new();
                gzip.compress(&rewritten, &mut bytes)?;
                let packed = Packed {
                    bytes,
                    lines: memchr::memchr_iter(b'\n', &rewritten).count() as u64,
                    inflated: rewritten.len() as u64,
                };
                Ok(Some((at, packed, result)))
            }
        },
        (sink, state),
        {
            let zipnum = Arc::clone(zipnum);
            move |(sink, state), result: Result<Option<(usize, Packed, O)>>| {
                let Some((at, packed, result)) = result? else {
                    return Ok(());
                };
                if let Some((row, _)) = zipnum.row(at)? {
                    sink.write(row, &zipnum.parse(row, at)?, &packed)?;
                }
                take(state, result)
            }
        },
    )?;
    for (number, at) in zipnum.row_starts().enumerate() {
        writing.give((number as u64, at?))?;
    }
    let (sink, state) = writing.finish()?;
    Ok((state, sink.commit()?))
}

/// A compressed block.
struct Packed {
    bytes: Vec<u8>,
    lines: u64,
    inflated: u64,
}

/// The data file that is written.
struct Current {
    part: Vec<u8>,
    out: BufWriter<File>,
}

/// Writes data files and their rows to a new folder.
struct Sink {
    folder: AtomicFolder,
    flavour: Flavour,
    idx: BufWriter<File>,
    current: Option<Current>,
    /// The name and the length of each data file, in the order of their first blocks.
    parts: Vec<(Vec<u8>, String)>,
    lengths: HashMap<Vec<u8>, u64>,
    row: Vec<u8>,
    written: Written,
}

impl Sink {
    fn create(out: &Path, flavour: Flavour) -> Result<Sink> {
        let folder = AtomicFolder::create(out)?;
        let path = folder.inside().join(flavour.file_name());
        let mut idx = BufWriter::new(File::create(&path).doing("write", &path)?);
        if flavour == Flavour::Wacz {
            let meta = "!meta 0 {\"format\":\"cdxj-gzip-1.0\",\"filename\":\"index.cdx.gz\"}\n";
            idx.write_all(meta.as_bytes()).doing("write", &path)?;
        }
        Ok(Sink {
            folder,
            flavour,
            idx,
            current: None,
            parts: Vec::new(),
            lengths: HashMap::new(),
            row: Vec::new(),
            written: Written::default(),
        })
    }

    /// The file name for a part: its own, without folders.
    fn file_name(&self, part: &[u8]) -> String {
        if self.flavour == Flavour::Wacz {
            return "index.cdx.gz".to_owned();
        }
        let name = String::from_utf8_lossy(part);
        let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
        let mut name = match name {
            "" | "." | ".." => "part".to_owned(),
            name => name.to_owned(),
        };
        if !name.ends_with(".gz") {
            name += ".gz";
        }
        // Parts in different folders may have the same name.
        while self.parts.iter().any(|(_, known)| *known == name) {
            name = format!("_{name}");
        }
        name
    }

    fn open(&mut self, part: &[u8]) -> Result<()> {
        if self
            .current
            .as_ref()
            .is_some_and(|current| current.part == part)
        {
            return Ok(());
        }
        self.close()?;
        let known = self.parts.iter().find(|(known, _)| known == part);
        let name = match known {
            Some((_, name)) => name.clone(),
            None => {
                let name = self.file_name(part);
                self.parts.push((part.to_vec(), name.clone()));
                name
            }
        };
        let path = self.folder.inside().join(name);
        let file = OpenOptions::new().create(true).append(true).open(&path);
        self.current = Some(Current {
            part: part.to_vec(),
            out: BufWriter::with_capacity(1 << 18, file.doing("write", &path)?),
        });
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        let folder = self.folder.inside();
        if let Some(mut current) = self.current.take() {
            current.out.flush().doing("write", folder)?;
            current.out.get_ref().sync_all().doing("write", folder)?;
        }
        Ok(())
    }

    fn write(&mut self, text: &[u8], row: &Row<'_>, packed: &Packed) -> Result<()> {
        self.open(row.part)?;
        let length = self.lengths.entry(row.part.to_vec()).or_default();
        let offset = *length;
        *length += packed.bytes.len() as u64;
        self.written.blocks += 1;
        self.row.clear();
        let row = Row {
            offset,
            length: packed.bytes.len() as u64,
            ..row.clone()
        };
        match self.flavour {
            Flavour::Wacz => self.flavour.write(&row, self.written.blocks, &mut self.row),
            // All other columns stay as they are.
            Flavour::Cluster => {
                for (number, column) in text.split(|&byte| byte == b'\t').enumerate() {
                    if number > 0 {
                        self.row.push(b'\t');
                    }
                    let ends = if column.ends_with(b"\r") { "\r" } else { "" };
                    match number {
                        2 => self
                            .row
                            .extend_from_slice(row.offset.to_string().as_bytes()),
                        3 => self
                            .row
                            .extend_from_slice(format!("{}{ends}", row.length).as_bytes()),
                        _ => self.row.extend_from_slice(column),
                    }
                }
                self.row.push(b'\n');
            }
        }
        let folder = self.folder.inside();
        self.idx.write_all(&self.row).doing("write", folder)?;
        if let Some(current) = &mut self.current {
            current
                .out
                .write_all(&packed.bytes)
                .doing("write", folder)?;
        }
        self.written.lines += packed.lines;
        self.written.bytes_in += packed.inflated;
        self.written.bytes_out += packed.bytes.len() as u64;
        Ok(())
    }

    fn commit(mut self) -> Result<Written> {
        self.close()?;
        let folder = self.folder.inside().to_owned();
        self.idx.flush().doing("write", &folder)?;
        self.idx.get_ref().sync_all().doing("write", &folder)?;
        if self.flavour == Flavour::Cluster {
            let path = folder.join("cluster.loc");
            let mut lines = Vec::new();
            for (part, name) in &self.parts {
                lines.extend_from_slice(part);
                lines.extend_from_slice(format!("\t{name}\n").as_bytes());
            }
            let mut file = File::create(&path).doing("write", &path)?;
            file.write_all(&lines).doing("write", &path)?;
            file.sync_all().doing("write", &path)?;
        }
        self.written.shards = self.parts.len() as u64;
        self.folder.commit()?;
        Ok(self.written)
    }
}
