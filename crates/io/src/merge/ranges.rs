//! Merges sorted files, each thread a range of the output at a time.
//!
//! Only what is usual is done here. If a range has anything unusual, such as a line out of order or
//! damage, everything from its start on is left to the merge by one thread, which says exactly what is
//! wrong and where.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::Change;
use super::file::{MARK, Mark, SortedFile};
use crate::error::{Error, Result};
use crate::pipeline::{self, Pool, Width};
use crate::plain;
use crate::sort::{Options, Report, Tournament, drain};
use crate::source::Source;
use crate::writer::LineWriter;

/// A range has at most about so many bytes, unless there are many files: so few that they are written
/// while still in the cache.
const RANGE: usize = 1 << 20;

/// A range should have so many bytes of each plain file, so that finding them takes little of the time.
const PLAIN: usize = 64 << 10;

/// The same for gzip files, some of whose members are inflated for two ranges.
const GZIP: usize = 4 << 20;

/// Memory for reading one gzip file, besides the buffers of its lines: two streams.
const STREAMS: usize = 1 << 20;

/// How much of a file is read at a time.
const BUFFER: usize = 64 << 10;

/// Each range has this many marks.
const MARKS: usize = 4;

/// Marks are looked for in batches of this many.
const BATCH: usize = 16;

/// How much is merged at a time.
pub(super) struct Plan {
    /// About how many bytes of text a range has, and a mark stands for.
    pub(super) range: usize,
    pub(super) share: usize,
    pub(super) threads: usize,
}

impl Plan {
    /// `None` if there is too little memory or text for several threads.
    pub(super) fn new(files: &[SortedFile], options: &Options) -> Option<Plan> {
        let (memory, threads) = (options.resources.memory, options.resources.threads);
        let gzip = files.iter().filter(|file| file.is_gzip()).count();
        let least = (files.len() - gzip) * PLAIN + gzip * GZIP;
        let text: u64 = files.iter().map(SortedFile::text).sum();
        let marks = (memory / 16 / MARK).max(1);
        let least_share = usize::try_from(text / marks as u64).ok()?;
        // Each thread has a range in work and one that waits for its turn.
        let queued = plain::BUFFERS;
        let range = memory / 2 / (2 * threads + queued);
        let range = range.min(RANGE).max(least);
        let share = (range / MARKS).max(least_share);
        let range = range.max(2 * share);
        let worker = 2 * range + files.len() * 2 * BUFFER + gzip * STREAMS;
        let threads = threads.min((memory / 2).saturating_sub(queued * range) / worker);
        (threads > 1 && text > range as u64).then_some(Plan {
            range,
            share,
            threads,
        })
    }
}

/// What was merged.
pub(super) struct Merged {
    /// The counts so far.
    pub(super) report: Report,
    /// The start of what is left to one thread, if anything is.
    pub(super) rest: Option<Vec<u8>>,
}

/// Opens all sources, if they can be read by ranges.
pub(super) fn open(sources: &[Source]) -> Result<Option<Vec<SortedFile>>> {
    sources.iter().map(SortedFile::open).collect()
}

/// Why the merge of ranges stops.
enum Stop {
    /// The range of this number is unusual.
    Unusual(usize),
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}

/// Merges files.
pub(super) fn merge(
    mut files: Vec<SortedFile>,
    plan: &Plan,
    options: &Options,
    change: Option<&Change<'_>>,
    out: &mut LineWriter,
) -> Result<Merged> {
    let Ok(Some(bounds)) = bounds(&mut files, plan) else {
        return Ok(Merged {
            report: Report::default(),
            rest: Some(Vec::new()),
        });
    };
    let ranges = Ranges {
        files,
        bounds,
        unique: options.unique,
        change,
        most: 8 * plan.range,
    };
    let buffers = Pool::<Vec<u8>>::new();
    let next = AtomicUsize::new(0);
    let mut report = Report::default();
    let ended = pipeline::run(
        Width {
            threads: plan.threads,
            pieces: plan.threads + 1,
        },
        || {
            let number = next.fetch_add(1, Ordering::Relaxed);
            Ok((number <= ranges.bounds.len()).then_some(number))
        },
        || {
            |number| {
                let merged = ranges.merge(number, buffers.get());
                merged.map_err(|_| Stop::Unusual(number))
            }
        },
        |mut range: Range| {
            options.progress.add(range.stored);
            report.lines_in += range.lines_in;
            report.lines_out += range.lines_out;
            out.push_buffer(&mut range.lines, range.lines_out)?;
            buffers.put(range.lines);
            Ok(())
        },
    );
    let rest = match ended {
        Ok(()) => None,
        Err(Stop::Unusual(number)) => Some(ranges.start(number).to_vec()),
        Err(Stop::Failed(error)) => return Err(error),
    };
    Ok(Merged { report, rest })
}

/// Lines that cut the output into ranges, in order: quantiles of a sample. `None` if a file cannot be
/// read by ranges.
fn bounds(files: &mut [SortedFile], plan: &Plan) -> Result<Option<Vec<Vec<u8>>>> {
    let text: u64 = files.iter().map(SortedFile::text).sum();
    let share = plan.share as u64;
    let places = files.iter().enumerate();
    let mut places =
        places.flat_map(|(number, file)| file.places(share).map(move |at| (number, at)));
    let mut marks: Vec<Vec<Mark>> = files.iter().map(|_| Vec::new()).collect();
    let searched = &*files;
    pipeline::run(
        Width {
            threads: plan.threads,
            pieces: 4 * plan.threads,
        },
        || {
            let batch: Vec<_> = places.by_ref().take(BATCH).collect();
            Ok((!batch.is_empty()).then_some(batch))
        },
        || {
            |batch: Vec<(usize, u64)>| {
                let found = batch.into_iter().map(|(number, at)| {
                    let mark = searched[number].mark_after(at)?;
                    Ok::<_, Error>((number, mark))
                });
                found.collect::<Result<Vec<_>>>()
            }
        },
        |found| {
            for (number, mark) in found {
                marks[number].extend(mark);
            }
            Ok(())
        },
    )?;
    for (file, marks) in files.iter_mut().zip(marks) {
        if !file.set_marks(marks, plan.range as u64) {
            return Ok(None);
        }
    }
    let sample = files.iter().flat_map(|file| file.marks()).map(Mark::head);
    let mut sample: Vec<&[u8]> = sample.filter(|head| !head.is_empty()).collect();
    sample.sort_unstable();
    let ranges = text.div_ceil(plan.range as u64);
    let quantile = |number: u64| {
        let at = number * sample.len() as u64 / ranges;
        sample.get(at as usize).map(|head| head.to_vec())
    };
    let mut bounds: Vec<_> = (1..ranges).filter_map(quantile).collect();
    bounds.dedup();
    Ok(Some(bounds))
}

/// The ranges of a merge.
struct Ranges<'a> {
    files: Vec<SortedFile>,
    /// Where all ranges but the first begin.
    bounds: Vec<Vec<u8>>,
    unique: bool,
    change: Option<&'a Change<'a>>,
    /// A range with more bytes is unusual: a line may be very frequent.
    most: usize,
}

/// The merged lines of a range.
struct Range {
    lines: Vec<u8>,
    lines_in: u64,
    lines_out: u64,
    /// Bytes of the files.
    stored: u64,
}

impl Ranges<'_> {
    fn start(&self, number: usize) -> &[u8] {
        number.checked_sub(1).map_or(b"", |at| &self.bounds[at])
    }

    /// Merges the range of this number into an empty buffer.
    fn merge(&self, number: usize, mut lines: Vec<u8>) -> Result<Range> {
        let (from, to) = (self.start(number), self.bounds.get(number));
        let sources = self.files.iter();
        let sources = sources.map(|file| file.lines(from, to.map(Vec::as_slice), BUFFER));
        let mut sources = Tournament::new(sources.collect::<Result<Vec<_>>>()?);
        let mut changed = Vec::new();
        let lines_out = drain(&mut sources, self.unique, |line| {
            let line = match self.change {
                Some(change) => {
                    changed.clear();
                    change(line, &mut changed)?;
                    &changed
                }
                None => line,
            };
            if lines.len() + line.len() > self.most {
                return Err(Error::line_too_long(self.most));
            }
            lines.extend_from_slice(line);
            lines.push(b'\n');
            Ok(())
        })?;
        let sources = sources.into_sources();
        Ok(Range {
            lines,
            lines_in: sources.iter().map(|source| source.count()).sum(),
            lines_out,
            stored: sources.iter().map(|source| source.stored()).sum(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{merge_all, merge_planned};
    use super::*;
    use crate::gzip::Gzip;
    use crate::resources::Resources;
    use crate::writer::Format;
    use proptest::prelude::*;
    use std::path::Path;

    /// Lines that often agree in more bytes than a mark keeps.
    fn lines() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let line = ("(com,a{0,150}b?)?", "[a-c]{0,3}")
            .prop_map(|(start, end)| [start, end].concat().into_bytes());
        prop::collection::vec(line, 0..80)
    }

    /// How a file is written.
    #[derive(Clone, Debug)]
    enum Kind {
        Plain,
        /// In members of this many lines, with or without the last line feed; blocked or not.
        Gzip(usize, bool, bool),
    }

    fn kind() -> impl Strategy<Value = Kind> {
        prop_oneof![
            Just(Kind::Plain),
            (1usize..40, any::<bool>(), Just(false)).prop_map(|(n, end, b)| Kind::Gzip(n, end, b)),
            (1usize..40).prop_map(|lines| Kind::Gzip(lines, false, true)),
        ]
    }

    fn member(text: &[u8], blocked: bool) -> Vec<u8> {
        let mut packed = Vec::new();
        Gzip::new(1).compress(text, &mut packed).unwrap();
        if blocked {
            packed[3] |= 4;
            packed.splice(10..10, *b"\x06\0BC\x02\0\0\0");
        }
        packed
    }

    fn written(lines: &[Vec<u8>], kind: &Kind, ended: bool) -> Vec<u8> {
        let text = |lines: &[Vec<u8>], ended: bool| {
            let mut text = lines.join(&b'\n');
            if ended && !lines.is_empty() {
                text.push(b'\n');
            }
            text
        };
        match *kind {
            Kind::Plain => text(lines, ended),
            // Members that end in the middle of lines.
            Kind::Gzip(count, _, true) => {
                let pieces = text(lines, ended);
                pieces
                    .chunks(3 * count)
                    .map(|piece| member(piece, true))
                    .collect::<Vec<_>>()
                    .concat()
            }
            Kind::Gzip(count, feed, false) => {
                let members = lines
                    .chunks(count)
                    .map(|lines| member(&text(lines, feed), false));
                members.collect::<Vec<_>>().concat()
            }
        }
    }

    /// Merges by ranges or not. Returns the output, the counts and what was damaged or wrong.
    fn merged(
        folder: &Path,
        sources: &[Source],
        unique: bool,
        plan: Option<Plan>,
    ) -> Result<(Vec<u8>, u64, u64, Vec<String>), String> {
        let options = Options {
            resources: Resources {
                temporary: folder.to_owned(),
                ..Resources::default()
            },
            unique,
            ..Options::default()
        };
        let path = folder.join("out");
        let mut out = LineWriter::create(&path, &Format::Plain, 2).unwrap();
        let report = match plan {
            Some(plan) => {
                let plan = std::cell::Cell::new(Some(plan));
                merge_planned(sources, &options, None, |_, _| plan.take(), &mut out)
            }
            None => merge_all(sources, &options, None, b"", &mut out),
        };
        let report = report.map_err(|error| error.to_string())?;
        let written = out.finish().unwrap();
        assert_eq!(written.lines, report.lines_out);
        let damaged = report.damaged.iter().map(ToString::to_string).collect();
        Ok((
            std::fs::read(path).unwrap(),
            report.lines_in,
            report.lines_out,
            damaged,
        ))
    }

    fn write_all(folder: &Path, contents: &[Vec<u8>]) -> Vec<Source> {
        let write = |(number, content): (usize, &Vec<u8>)| {
            let path = folder.join(number.to_string());
            std::fs::write(&path, content).unwrap();
            Source::new(path)
        };
        contents.iter().enumerate().map(write).collect()
    }

    fn plan() -> impl Strategy<Value = (usize, usize, usize)> {
        (1usize..600, 1usize..400, 1usize..4)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(192))]

        #[test]
        fn ranges_give_what_one_thread_gives(
            contents in prop::collection::vec((lines(), kind(), any::<bool>()), 0..4),
            (range, share, threads) in plan(),
            unique: bool,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut expected: Vec<Vec<u8>> = Vec::new();
            let mut files = Vec::new();
            for (mut lines, kind, ended) in contents {
                // An empty line at the end of a file without a line feed would not be a line.
                lines.retain(|line| !line.is_empty());
                lines.sort();
                files.push(written(&lines, &kind, ended));
                expected.extend(lines);
            }
            let sources = write_all(folder.path(), &files);
            let plan = Plan { range, share, threads };
            let (out, lines_in, lines_out, damaged) =
                merged(folder.path(), &sources, unique, Some(plan)).unwrap();
            prop_assert_eq!(lines_in, expected.len() as u64);
            expected.sort();
            if unique {
                expected.dedup();
            }
            prop_assert_eq!(lines_out, expected.len() as u64);
            let expected: Vec<u8> = expected.iter().flat_map(|line| [&line[..], b"\n"].concat()).collect();
            prop_assert_eq!(out, expected);
            prop_assert!(damaged.is_empty());
        }

        #[test]
        fn what_is_wrong_with_a_file_is_said_as_by_one_thread(
            contents in prop::collection::vec((lines(), kind(), any::<bool>()), 1..4),
            (range, share, threads) in plan(),
            swap in prop::option::of(any::<(prop::sample::Index, prop::sample::Index)>()),
            change in prop::option::of((any::<prop::sample::Index>(), 1u8..)),
            cut in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut files = Vec::new();
            for (number, (mut lines, kind, ended)) in contents.into_iter().enumerate() {
                lines.sort();
                if number == 0 && let Some((a, b)) = swap && !lines.is_empty() {
                    let (a, b) = (a.index(lines.len()), b.index(lines.len()));
                    lines.swap(a, b);
                }
                let mut file = written(&lines, &kind, ended);
                if number == 0 && let Some((at, change)) = change && !file.is_empty() {
                    let at = at.index(file.len());
                    file[at] ^= change;
                }
                if number == 0 && let Some(cut) = cut && !file.is_empty() {
                    file.truncate(cut.index(file.len()));
                }
                files.push(file);
            }
            let sources = write_all(folder.path(), &files);
            let plan = Plan { range, share, threads };
            let found = merged(folder.path(), &sources, false, Some(plan));
            prop_assert_eq!(found, merged(folder.path(), &sources, false, None));
        }
    }

    #[test]
    fn a_plan_fits_in_the_memory() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, gzip) = (b"a\n".to_vec(), member(b"a\n", false));
        for (plains, gzips) in [(1, 0), (2, 0), (150, 0), (0, 2), (40, 3)] {
            let mut contents = vec![plain.clone(); plains];
            contents.extend(vec![gzip.clone(); gzips]);
            let sources = write_all(folder.path(), &contents);
            for source in &sources {
                let file = std::fs::File::options().write(true).open(source.path());
                file.unwrap().set_len(100 << 20).unwrap();
            }
            let files = open(&sources).unwrap().unwrap();
            for memory in [64usize << 20, 256 << 20, 1 << 30] {
                for threads in [2, 8, 64, 256] {
                    let mut options = Options::default();
                    options.resources.memory = memory;
                    options.resources.threads = threads;
                    let Some(plan) = Plan::new(&files, &options) else {
                        assert!(memory < 1 << 30, "{plains} {gzips} {threads}");
                        continue;
                    };
                    assert!((2..=threads).contains(&plan.threads));
                    let buffers = 2 * plan.threads * BUFFER * files.len();
                    let used = (2 * plan.threads + plain::BUFFERS) * plan.range + buffers;
                    assert!(used <= memory / 2, "{plains} {gzips} {memory} {threads}");
                }
            }
        }
    }

    #[test]
    fn plain_files_and_members_are_merged_by_ranges_to_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let lines: Vec<Vec<u8>> = (0..30_000)
            .map(|number| format!("com,example)/{number:06} 2020").into_bytes())
            .collect();
        let plain = written(&lines, &Kind::Plain, false);
        let gzip = written(&lines, &Kind::Gzip(500, true, false), true);
        let sources = write_all(folder.path(), &[plain, gzip, Vec::new()]);
        let files = open(&sources).unwrap().unwrap();
        let plan = Plan {
            range: 40_000,
            share: 10_000,
            threads: 3,
        };
        let path = folder.path().join("out");
        let mut out = LineWriter::create(&path, &Format::Plain, 2).unwrap();
        let merged = merge(files, &plan, &Options::default(), None, &mut out).unwrap();
        out.finish().unwrap();
        assert_eq!(merged.rest, None);
        assert_eq!(merged.report.lines_in, 60_000);
        let expected = lines
            .iter()
            .flat_map(|line| [line, &b"\n"[..], line, b"\n"].concat());
        assert!(std::fs::read(path).unwrap() == expected.collect::<Vec<u8>>());
    }

    #[test]
    fn a_frequent_line_is_merged_without_being_kept_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let text = [b"a\n".to_vec(), b"b\n".repeat(50_000), b"c\n".to_vec()].concat();
        let sources = write_all(folder.path(), &[text.clone(), b"b\n".repeat(10)]);
        let plan = Plan {
            range: 100,
            share: 50,
            threads: 2,
        };
        let (out, lines_in, ..) = merged(folder.path(), &sources, false, Some(plan)).unwrap();
        assert_eq!((out.len(), lines_in), (text.len() + 20, 50_012));
    }
}
