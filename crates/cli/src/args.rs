//! Groups of options that many commands share: inputs, filters of captures, bad lines, memory.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};
use waypost_index::input::{self, Source};
use waypost_index::rejects::RejectsFile;
use waypost_index::select::{Revisits, Select};

use crate::printer::Printer;

/// Which indexes to read.
#[derive(Args)]
pub(crate) struct Inputs {
    /// Indexes: files, folders, or `-` for standard input; plain, gz, zst or bz2
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
}

impl Inputs {
    /// The files that the names stand for. Says which files of folders are left out.
    pub(crate) fn sources(&self, out: &Printer) -> anyhow::Result<Vec<Source>> {
        let expanded = input::expand(&self.inputs)?;
        match &expanded.skipped[..] {
            [] => {}
            [one] => out.note(format_args!(
                "not read, by its name no index: {}",
                one.display()
            )),
            [first, rest @ ..] => out.note(format_args!(
                "not read, by their names no indexes: {} and {} more",
                first.display(),
                rest.len()
            )),
        }
        Ok(expanded.sources)
    }
}

/// Which captures to look at.
#[derive(Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct Filters {
    /// Only captures with these statuses: 200,3xx
    #[arg(long, value_name = "LIST")]
    status: Option<String>,
    /// Only captures of these media types: text/html,image/*
    #[arg(long, value_name = "LIST")]
    mime: Option<String>,
    /// Only captures at this time or later: 2004, 20040131, …
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Only captures at this time or earlier; 2004 is the end of 2004
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Only captures whose key begins so: com,example) or com,example,; or ~REGEX over the URL.
    /// May be repeated: one is enough
    #[arg(long, value_name = "SURT|~REGEX")]
    include: Vec<String>,
    /// No captures whose key begins so, or whose URL matches ~REGEX. May be repeated
    #[arg(long, value_name = "SURT|~REGEX")]
    exclude: Vec<String>,
    /// Take rows that are no captures of the Web (dns:, warcinfo, screenshots, …), too
    #[arg(long)]
    include_non_web: bool,
    /// What to do with revisits
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = RevisitsArgument::Keep)]
    revisits: RevisitsArgument,
}

#[derive(Clone, Copy, ValueEnum)]
enum RevisitsArgument {
    /// They are captures like others
    Keep,
    /// Leave them out
    Drop,
    /// Give them status and media type of the capture that they repeat
    Resolve,
}

impl Filters {
    pub(crate) fn select(&self) -> anyhow::Result<Select> {
        let mut select = Select::new();
        if let Some(list) = &self.status {
            select.status(list).context("--status")?;
        }
        if let Some(list) = &self.mime {
            select.mime(list).context("--mime")?;
        }
        if let Some(digits) = &self.from {
            select.from(digits).context("--from")?;
        }
        if let Some(digits) = &self.to {
            select.to(digits).context("--to")?;
        }
        for pattern in &self.include {
            select.include(pattern).context("--include")?;
        }
        for pattern in &self.exclude {
            select.exclude(pattern).context("--exclude")?;
        }
        select
            .include_non_web(self.include_non_web)
            .revisits(match self.revisits {
                RevisitsArgument::Keep => Revisits::Keep,
                RevisitsArgument::Drop => Revisits::Drop,
                RevisitsArgument::Resolve => Revisits::Resolve,
            });
        Ok(select)
    }
}

/// What to do with bad lines.
#[derive(Args)]
#[command(next_help_heading = "Bad lines")]
pub(crate) struct BadLines {
    /// Stop at the first bad line or damaged file
    #[arg(long)]
    pub(crate) strict: bool,
    /// Write the bad lines to a file
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
}

impl BadLines {
    /// The file for bad lines, if one was named.
    pub(crate) fn file(&self) -> anyhow::Result<Option<RejectsFile>> {
        Ok(match &self.rejects {
            Some(path) => Some(RejectsFile::create(path)?),
            None => None,
        })
    }
}

/// Reads a size of memory: `512M`, `4G`; K, M, G and T are powers of 1,024.
pub(crate) fn memory(text: &str) -> Result<usize, String> {
    let wrong = || format!("`{text}` is no size: write 512M or 4G");
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let power = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 1,
        "M" | "MB" | "MIB" => 2,
        "G" | "GB" | "GIB" => 3,
        "T" | "TB" | "TIB" => 4,
        _ => return Err(wrong()),
    };
    let number: usize = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1024usize.pow(power)).ok_or_else(wrong)
}

/// How much memory to use.
#[derive(Args)]
pub(crate) struct Memory {
    /// How much memory to use; more is put in temporary files. K, M, G are powers of 1,024
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = memory)]
    pub(crate) memory: usize,
}

/// How results look.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// For programs
    Json,
}

/// Reads a size of files: `200K`, `1.04M`; K, M and G are powers of 1,000.
pub(crate) fn file_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no size: write 200K or 1.5M");
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let times = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 1.0,
        "K" | "KB" => 1e3,
        "M" | "MB" => 1e6,
        "G" | "GB" => 1e9,
        _ => return Err(wrong()),
    };
    let number: f64 = digits
        .replace([',', '_'], "")
        .parse()
        .map_err(|_| wrong())?;
    let bytes = number * times;
    if !bytes.is_finite() || !(1.0..1e18).contains(&bytes) {
        return Err(wrong());
    }
    Ok(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(memory("512"), Ok(512));
        assert_eq!(memory("1K"), Ok(1024));
        assert_eq!(memory("256m"), Ok(256 << 20));
        assert_eq!(memory("4GiB"), Ok(4 << 30));
        for wrong in ["", "M", "1.5G", "-1", "1X", "99999999999T"] {
            assert!(memory(wrong).is_err(), "{wrong}");
        }
    }
}
