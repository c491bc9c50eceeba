//! The gzipped size of a map, measured on all rows in the order in which they are written.

use std::fs::File;
use std::io::{BufRead, BufReader};

use waypost_io::gzip::{self, MEMBER};
use waypost_io::{Phase, Progress, temporary};

use super::assemble::write_pieces;
use super::queue::{Finished, Queue};
use super::{Style, Summed, Writer};
use crate::error::{Error, Result};
use crate::map::compact::SourceMap;
use crate::map::solve::{Loan, Outline, Solution};
use crate::map::tree::sample::Sample;
use crate::map::tree::spooled;
use crate::ukvs::RowSum;

/// The gzipped size in bytes of the map of a solution, and the statistics of its rows.
pub(crate) fn measure(
    given: &SourceMap,
    outline: &Outline,
    solution: &Solution,
    sample: Option<&Sample>,
    has_ports: bool,
    head: &[u8],
    style: Style,
) -> Result<(u64, Summed)> {
    if outline.is_in_pieces() {
        return measure_pieces(given, outline, solution, sample, head);
    }
    let choices = &solution.choices(outline, 0, &given.room.temporary)?;
    let walk = |queue: Queue| {
        let mut writer = Writer::new(Loan::Kept(choices), style, given.counting, queue);
        given.walk_again(Phase::Solving, sample, &mut writer)?;
        given.progress.begin(Phase::Solving, None);
        choices.intact()?;
        writer.queue.flush();
        Ok::<_, Error>(writer)
    };
    if !has_ports || style == Style::Reference {
        let writer = walk(Queue::to_measure(head, style)?)?;
        if !writer.queue.gave_up {
            let (finished, written) = writer.finish()?;
            return match finished {
                Finished::Measured(bytes) => Ok((bytes, written)),
                _ => Err(Error::invalid("rows were not measured")),
            };
        }
    }
    // Too many rows are queued, or their order is broken: they are sorted first, as they are when
    // the map is written.
    let (finished, written) = walk(Queue::to_spool(&given.room, style)?)?.finish()?;
    let Finished::Spool(spool) = finished else {
        return Err(Error::invalid("rows were not measured"));
    };
    let folder = &given.room.temporary;
    let failed = |source| Error::io("write", folder, source);
    let file = temporary::file_in(folder)?.into_temp_path();
    let (spools, progress) = (vec![spool.finish()?], Progress::default());
    spooled::write(spools, given.keys, head, &given.room, &progress, &file)?;
    let mut text = BufReader::new(File::open(&file).map_err(failed)?);
    if !head.is_empty() {
        // The header of the rows, which is not compressed.
        text.skip_until(b'\n').map_err(failed)?;
    }
    let size = gzip::size_of(text).map_err(failed)?;
    Ok((RowSum::size(head)?.bytes() + size, written))
}

fn measure_pieces(
    given: &SourceMap,
    outline: &Outline,
    solution: &Solution,
    sample: Option<&Sample>,
    head: &[u8],
) -> Result<(u64, Summed)> {
    let mut size = RowSum::size(head)?;
    let mut member = head.to_vec();
    let phase = Phase::Solving;
    let written = write_pieces(given, outline, solution, sample, phase, |lines| {
        for line in lines.split_inclusive(|&byte| byte == b'\n') {
            member.extend_from_slice(line);
            if member.len() > MEMBER {
                size.add(&member);
                member.clear();
            }
        }
        Ok(())
    })?;
    size.add(&member);
    given.progress.begin(phase, None);
    Ok((size.bytes(), written))
}
