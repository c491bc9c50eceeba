//! Writes ZipNum.
//!
//! Blocks arrive in order and compressed. Their number is not known in advance, so with several
//! shards they are first written to one file, which is split into shards with the same number of
//! blocks at the end. The compressed bytes are a fifth of the lines, so reading them again is cheap.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use waypost_io::{
    AtomicFolder, Block, BlockSink, Error, ErrorKind, IoContext, LineWriter, Result, Written,
};

use super::Options;
use super::idx::{Flavour, Row, key_of};

/// Creates a ZipNum index in the new folder `path`.
///
/// # Errors
/// If the folder exists and is not empty, or cannot be written.
pub fn create(path: &Path, options: &Options, threads: usize) -> Result<LineWriter> {
    let writer = Writer::create(path, options)?;
    LineWriter::to_sink(Box::new(writer), options.lines, options.level, threads)
}

/// Writes the blocks, the `.idx` file and the `.loc` file to a new folder.
struct Writer {
    folder: AtomicFolder,
    options: Options,
    data: BufWriter<File>,
    idx: BufWriter<File>,
    row: Vec<u8>,
    key: Vec<u8>,
    blocks: u64,
    offset: u64,
}

/// The names of the files before they are split into shards.
const WHOLE: &str = "whole.gz";
const WHOLE_ROWS: &str = "whole.idx";

impl Writer {
    fn create(path: &Path, options: &Options) -> Result<Writer> {
        if options.flavour == Flavour::Wacz && options.shards > 1 {
            return Err(Error::new(ErrorKind::Invalid(
                "the index of a WACZ file cannot have several data files".to_owned(),
            )));
        }
        let folder = AtomicFolder::create(path)?;
        let (data, idx) = if options.shards > 1 {
            (WHOLE.to_owned(), WHOLE_ROWS)
        } else {
            (part_name(options.flavour, 0), options.flavour.file_name())
        };
        let mut writer = Writer {
            data: create_file(&folder.inside().join(data))?,
            idx: create_file(&folder.inside().join(idx))?,
            folder,
            options: options.clone(),
            row: Vec::new(),
            key: Vec::new(),
            blocks: 0,
            offset: 0,
        };
        if options.flavour == Flavour::Wacz {
            let name = part_name(Flavour::Wacz, 0);
            let meta =
                format!("!meta 0 {{\"format\":\"cdxj-gzip-1.0\",\"filename\":\"{name}\"}}\n");
            let idx = writer.path(Flavour::Wacz.file_name());
            writer.idx.write_all(meta.as_bytes()).doing("write", idx)?;
        }
        Ok(writer)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.inside().join(name)
    }

    /// Splits the data into shards. Returns their number.
    fn cut(&mut self) -> Result<u64> {
        let whole_rows = self.path(WHOLE_ROWS);
        let mut rows = BufReader::new(File::open(&whole_rows).doing("read", &whole_rows)?);
        let idx_path = self.path(Flavour::Cluster.file_name());
        let mut idx = create_file(&idx_path)?;
        let shards = self.options.shards.min(self.blocks).max(1);
        let (mut line, mut number, mut start) = (Vec::new(), 0, 0);
        let mut starts = Vec::new();
        for shard in 0..shards {
            let part = part_name(Flavour::Cluster, shard);
            let end = self.blocks as u128 * (u128::from(shard) + 1) / u128::from(shards);
            let mut length = 0;
            while u128::from(number) < end {
                line.clear();
                rows.read_until(b'\n', &mut line)
                    .doing("read", &whole_rows)?;
                let row = Flavour::Cluster.parse(line.strip_suffix(b"\n").unwrap_or(&line))?;
                number += 1;
                self.row.clear();
                let row = Row {
                    part: part.as_bytes(),
                    offset: length,
                    ..row
                };
                Flavour::Cluster.write(&row, number, &mut self.row);
                length += row.length;
                idx.write_all(&self.row).doing("write", &idx_path)?;
            }
            starts.push(start);
            start += length;
        }
        sync(idx, &idx_path)?;
        std::fs::remove_file(&whole_rows).doing("remove", &whole_rows)?;
        self.cut_data(&starts)?;
        Ok(shards)
    }

    /// Moves the data from each of these offsets on to its shard: from the last one to the first, so
    /// that never more than one shard takes space twice.
    fn cut_data(&self, starts: &[u64]) -> Result<()> {
        let whole = self.path(WHOLE);
        let options = File::options().read(true).write(true).open(&whole);
        let mut data = options.doing("read", &whole)?;
        for (shard, &start) in starts.iter().enumerate().skip(1).rev() {
            let path = self.path(&part_name(Flavour::Cluster, shard as u64));
            let mut out = File::create(&path).doing("write", &path)?;
            data.seek(SeekFrom::Start(start)).doing("read", &whole)?;
            io::copy(&mut data, &mut out).doing("write", &path)?;
            out.sync_all().doing("write", &path)?;
            data.set_len(start).doing("write", &whole)?;
        }
        data.sync_all().doing("write", &whole)?;
        let first = self.path(&part_name(Flavour::Cluster, 0));
        std::fs::rename(&whole, &first).doing("rename to", &first)
    }

    /// Writes the locations of the shards: next to the index.
    fn write_locations(&self, shards: u64) -> Result<()> {
        let path = self.path("cluster.loc");
        let mut loc = create_file(&path)?;
        for shard in 0..shards {
            let part = part_name(Flavour::Cluster, shard);
            writeln!(loc, "{part}\t{part}").doing("write", &path)?;
        }
        sync(loc, &path)
    }
}

impl BlockSink for Writer {
    fn take(&mut self, block: &Block, packed: &[u8]) -> Result<()> {
        let first = block.bytes.split(|&byte| byte == b'\n').next();
        let key = key_of(first.unwrap_or_default());
        // Rows contain only the keys of lines, and bytes smaller than a space can change their order.
        // Rows must be sorted; the larger of two is never larger than its line.
        if key > &self.key[..] {
            self.key.clear();
            self.key.extend_from_slice(key);
        }
        self.row.clear();
        let part = part_name(self.options.flavour, 0);
        let row = Row {
            key: &self.key,
            part: part.as_bytes(),
            offset: self.offset,
            length: packed.len() as u64,
        };
        self.blocks += 1;
        self.options.flavour.write(&row, self.blocks, &mut self.row);
        self.offset += packed.len() as u64;
        let folder = self.folder.inside();
        self.data.write_all(packed).doing("write", folder)?;
        self.idx.write_all(&self.row).doing("write", folder)
    }

    fn commit(mut self: Box<Self>, written: &mut Written) -> Result<()> {
        let folder = self.folder.inside().to_owned();
        self.data.flush().doing("write", &folder)?;
        self.idx.flush().doing("write", &folder)?;
        let shards = if self.options.shards > 1 {
            self.cut()?
        } else {
            self.data.get_ref().sync_all().doing("write", &folder)?;
            self.idx.get_ref().sync_all().doing("write", &folder)?;
            1
        };
        if self.options.flavour == Flavour::Cluster {
            self.write_locations(shards)?;
        }
        written.blocks = self.blocks;
        written.shards = shards;
        written.bytes_out = self.offset;
        self.folder.commit()
    }
}

/// The name of a data file.
fn part_name(flavour: Flavour, shard: u64) -> String {
    match flavour {
        Flavour::Cluster => format!("cdx-{shard:05}.gz"),
        Flavour::Wacz => "index.cdx.gz".to_owned(),
    }
}

fn create_file(path: &Path) -> Result<BufWriter<File>> {
    let file = File::create(path).doing("write", path)?;
    Ok(BufWriter::with_capacity(256 * 1024, file))
}

fn sync(mut out: BufWriter<File>, path: &Path) -> Result<()> {
    out.flush().doing("write", path)?;
    out.get_ref().sync_all().doing("write", path)
}
