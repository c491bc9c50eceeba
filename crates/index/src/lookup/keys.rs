//! Compares a sample of keys with their URLs before a lookup.
//!
//! A lookup searches for the SURT of a URI. In an index whose keys are not the SURTs of its URLs, or
//! are spelled differently (`com,example,)/`, `example.com/`), it would silently miss captures.

use memchr::memchr;
use waypost_io::Result;
use waypost_surt::Dialect;

use super::index::Index;
use crate::capture::Field;
use crate::key::{KeyCheck, KeyForm, NewKey, Rekeyer};
use crate::layout::{FileLayout, Line};
use crate::web;

/// Number of positions sampled in a flat file, and number of lines at each.
const PLACES: usize = 64;
const LINES: usize = 32;

/// Number of blocks sampled in a ZipNum index. Inflating one takes longer than a lookup.
const BLOCKS: usize = 4;

impl Index {
    /// Compares the keys of a sample of captures with the SURTs of their URLs under `dialect`.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn check_keys(&self, dialect: Dialect) -> Result<KeyCheck> {
        let layout = self.layout()?;
        let mut sampler = Sampler {
            layout,
            rekeyer: Rekeyer::new(dialect),
            misspelled: KeyCheck::default(),
        };
        match self.zipnum() {
            None => {
                let lines = self.flat();
                // In a small file, samples may overlap; lines are counted once.
                let mut seen = 0;
                for place in 0..PLACES {
                    let at = (lines.len() as u128 * place as u128 / PLACES as u128) as usize;
                    let start = match at {
                        0 => 0,
                        at => memchr(b'\n', &lines[at..]).map_or(lines.len(), |end| at + end + 1),
                    };
                    let start = start.max(seen);
                    seen = start + sampler.see(&lines[start..], LINES);
                }
            }
            Some(zipnum) => {
                let near = |place| zipnum.row_near(place, BLOCKS);
                let rows = (0..BLOCKS).map(near).collect::<Result<Vec<usize>>>()?;
                zipnum.fetch_rows(&rows)?;
                for row in rows {
                    sampler.see(&zipnum.block(row)?, usize::MAX);
                }
            }
        }
        let mut check = sampler.rekeyer.check().clone();
        check.merge(&sampler.misspelled);
        Ok(check)
    }
}

struct Sampler {
    layout: FileLayout,
    rekeyer: Rekeyer,
    /// Keys that are not spelled like SURTs. Scans convert them, but no lookup finds them.
    misspelled: KeyCheck,
}

impl Sampler {
    /// Samples the first `most` lines. Returns their length in bytes.
    fn see(&mut self, lines: &[u8], most: usize) -> usize {
        let mut rest = lines;
        for _ in 0..most {
            if rest.is_empty() {
                break;
            }
            let end = memchr(b'\n', rest).unwrap_or(rest.len());
            let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
            if let Line::Capture(capture, _) =
                self.layout.read(line, Field::Url | Field::Mime, false)
                && web::non_web(&capture).is_none()
            {
                let key = capture.key();
                let is_surt = KeyForm::of(key).is_surt();
                self.misspelled.compared += u64::from(!is_surt);
                // A host may end with a comma: `com,example,)/` is the SURT of `http://,example.com/`.
                if is_surt || self.rekeyer.new_key(&capture) != NewKey::Same {
                    let surt = self.rekeyer.surt(&capture);
                    if !is_surt && surt != key {
                        let url = capture.url().unwrap_or_default();
                        let fits = std::iter::empty();
                        self.misspelled.add_different(key, surt, &url, fits);
                    }
                }
            }
            rest = &rest[(end + 1).min(rest.len())..];
        }
        lines.len() - rest.len()
    }
}
