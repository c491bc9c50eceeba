//! Building profiles of many policies in one pass.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use waypost_index::rejects::RejectsFile;
use waypost_index::timestamp::Time;
use waypost_io::pipeline::Pool;
use waypost_io::progress::Phase;
use waypost_io::temporary::OutputFolder;
use waypost_surt::Policy;

use super::cutter::Cutter;
use super::order::{Piece, always_waits};
use super::outputs::{Outputs, file_name};
use super::records::Counts;
use crate::about::{About, Archive, Texts};
use crate::error::{Error, Result};
use crate::frequency::Number;
use crate::holdings::{self, Content, Held, Input, Pass, Reading, reduce};
use crate::scope::Scopes;

/// Options for profiles.
#[derive(Clone, Debug)]
pub struct Options {
    /// The policies.
    pub policies: Vec<Policy>,
    /// The archive.
    pub archive: Archive,
    /// The date to record, if not that of the newest capture.
    pub date: Option<Time>,
    /// The output folder; `None` to count without writing.
    pub folder: Option<PathBuf>,
    /// The prefix of file names.
    pub name: String,
    /// Whether to gzip the files.
    pub gzip: bool,
}

/// The result of building profiles.
#[derive(Debug)]
pub struct Report {
    /// What was read.
    pub reading: Reading,
    /// The profiles, in the order of the policies.
    pub profiles: Vec<PolicyReport>,
    /// How long it took.
    pub time: Duration,
}

/// One profile.
#[derive(Clone, Debug)]
pub struct PolicyReport {
    /// Its policy.
    pub policy: Policy,
    /// Its size.
    pub size: ProfileSize,
    /// The file, if one was written.
    pub path: Option<PathBuf>,
}

/// The size of a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProfileSize {
    /// Keys.
    pub keys: u64,
    /// Size of the file in bytes, uncompressed.
    pub bytes: u64,
    /// Size in bytes, gzipped at level 6. `None` if it was only counted.
    pub gzip_bytes: Option<u64>,
    /// Whether that size is exact. For plain files larger than 128 KiB it is estimated from every
    /// 64th part.
    pub gzip_exact: bool,
}

/// Builds the profiles of all policies in one pass over the input. Those of a sorted index are written
/// while it is read; anything else is gathered first.
///
/// # Errors
/// If the input can't be read or the files can't be written. No file appears before the whole
/// input has been read.
pub fn build(
    input: &Input,
    options: &Options,
    mut rejects: Option<&mut RejectsFile>,
) -> Result<Report> {
    let start = Instant::now();
    // Reports an unwritable folder before hours are spent.
    let _folder = make_folder(options)?;
    let mut waits = waits_of(options);
    let mut report = match stream(input, options, rejects.as_deref_mut(), &mut waits)? {
        Some(report) => report,
        None => {
            if let Some(rejects) = rejects.as_deref_mut() {
                rejects.restart()?;
            }
            let (mut held, reading) = holdings::gather(input, rejects)?;
            write_waiting(&mut held, reading, input, options, waits)?
        }
    };
    report.time = start.elapsed();
    Ok(report)
}

/// Builds the profiles of a sorted index while it is read. `None` if that is not possible: the input has
/// to be gathered. Policies with late keys are added to those in `waits`.
fn stream(
    input: &Input,
    options: &Options,
    rejects: Option<&mut RejectsFile>,
    waits: &mut [bool],
) -> Result<Option<Report>> {
    let used = used(options);
    let cutter = cutter(waits, &used, input, options);
    let widest = widest(about(input, options, &Reading::default()));
    let mut outputs = Outputs::create(waits, None, &widest, &used, input, options)?;
    let most_parts = input.resources.memory / 2 / part_size(options);
    let taken = holdings::stream(input, &cutter, most_parts, rejects, |part, last| {
        outputs.take(part, last)?;
        Ok(match outputs.late().any(|late| late) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    })?;
    if taken.is_some() {
        input.progress.begin(Phase::Writing, None);
        outputs.flush()?;
    }
    let late: Vec<bool> = outputs.late().collect();
    if let Some(reading) = taken
        && late.iter().all(|late| !late)
        && outputs.describe(&about(input, options, &reading))
    {
        return Ok(Some(Report {
            reading,
            profiles: outputs.finish()?,
            time: Duration::ZERO,
        }));
    }
    add_late(waits, &late);
    Ok(None)
}

/// Builds profiles from gathered holdings.
///
/// # Errors
/// When the files cannot be written.
pub fn write(
    held: &mut Held,
    reading: Reading,
    input: &Input,
    options: &Options,
) -> Result<Report> {
    write_waiting(held, reading, input, options, waits_of(options))
}

/// Which orders must wait until the end is known only when a key arrives late, as it may for hosts that
/// can't be registered. In that case the holdings are read again.
fn write_waiting(
    held: &mut Held,
    reading: Reading,
    input: &Input,
    options: &Options,
    mut waits: Vec<bool>,
) -> Result<Report> {
    let start = Instant::now();
    let _folder = make_folder(options)?;
    let about = about(input, options, &reading);
    let profiles = loop {
        let used = used(options);
        let outputs = cut(held, &about, &waits, &used, input, options)?;
        let late: Vec<bool> = outputs.late().collect();
        if late.iter().all(|late| !late) {
            break outputs.finish()?;
        }
        add_late(&mut waits, &late);
    };
    Ok(Report {
        reading,
        profiles,
        time: start.elapsed(),
    })
}

/// For each policy, whether its rows wait until the end, as far as that is known before.
fn waits_of(options: &Options) -> Vec<bool> {
    options.policies.iter().copied().map(always_waits).collect()
}

fn add_late(waits: &mut [bool], late: &[bool]) {
    for (waits, late) in waits.iter_mut().zip(late) {
        *waits |= late;
    }
}

/// Builds the profile of one policy from gathered holdings, and writes it to `out`. The policies and
/// the folder of `options` are ignored.
///
/// # Errors
/// When the profile cannot be written.
pub fn write_to(
    held: &mut Held,
    reading: Reading,
    input: &Input,
    policy: Policy,
    options: &Options,
    mut out: impl std::io::Write,
) -> Result<Report> {
    let temporary = &input.resources.temporary;
    let fail = |error| Error::io("write a temporary file in", temporary, error);
    // A key that arrives late starts the rows anew, so they are not written to `out` at once.
    let folder = tempfile::tempdir_in(temporary).map_err(fail)?;
    let options = Options {
        policies: vec![policy],
        folder: Some(folder.path().to_owned()),
        ..options.clone()
    };
    let mut report = write(held, reading, input, &options)?;
    for profile in &mut report.profiles {
        if let Some(path) = profile.path.take() {
            let mut file = std::fs::File::open(path).map_err(fail)?;
            std::io::copy(&mut file, &mut out).map_err(fail)?;
        }
    }
    Ok(report)
}

fn make_folder(options: &Options) -> Result<Option<OutputFolder>> {
    let folder = options.folder.as_deref().map(OutputFolder::create);
    Ok(folder.transpose()?)
}

/// Cuts all URI-Rs under all policies.
fn cut<'a>(
    held: &mut Held,
    about: &About,
    waits: &[bool],
    used: &'a [Pool<Piece<Counts>>],
    input: &Input,
    options: &Options,
) -> Result<Outputs<'a>> {
    let widest = widest(about.clone());
    let mut outputs = Outputs::create(waits, Some(about), &widest, used, input, options)?;
    let pass = Pass {
        memory: input.resources.memory / 8,
        piece: part_size(options),
        phase: Phase::Writing,
        progress: &input.progress,
    };
    let cutter = cutter(waits, used, input, options);
    reduce(held, &cutter, pass, |part, last| outputs.take(part, last))?;
    outputs.flush()?;
    Ok(outputs)
}

fn cutter<'a>(
    waits: &'a [bool],
    used: &'a [Pool<Piece<Counts>>],
    input: &Input,
    options: &'a Options,
) -> Cutter<'a> {
    Cutter {
        policies: &options.policies,
        waits,
        by: input.by.is_some(),
        used,
    }
}

/// Pools for the pieces of all policies.
fn used(options: &Options) -> Vec<Pool<Piece<Counts>>> {
    options.policies.iter().map(|_| Pool::new()).collect()
}

/// How many bytes a part has, approximately: about 2,000 URI-Rs, each with a key of about 100 bytes per
/// policy.
fn part_size(options: &Options) -> usize {
    (options.policies.len() * 2_000 * 100).max(1 << 18)
}

/// The same metadata with counts, times and a kind of input that take as much space as any of an index.
fn widest(about: About) -> About {
    let count = Some(Number::exact(9_999_999_999_999));
    let time = Time::parse(b"20000101000000");
    About {
        captures: count,
        urirs: count,
        first: time,
        last: time,
        updated: time,
        source: about.source.with("cdx"),
        ..about
    }
}

/// The paths of all profiles, if they are written.
pub fn output_paths(input: &Input, options: &Options) -> impl Iterator<Item = PathBuf> {
    options.folder.iter().flat_map(move |folder| {
        let policies = options.policies.iter();
        policies.map(move |&policy| folder.join(file_name(options, input.by, policy)))
    })
}

fn about(input: &Input, options: &Options, reading: &Reading) -> About {
    let source =
        reading
            .contents
            .iter()
            .fold(Texts::default(), |source, (_, content)| match content {
                Content::Index(_) => source.with("cdx"),
                Content::List => source.with("uris"),
                Content::Summary | Content::Empty => source,
            });
    About {
        archive: options.archive.clone(),
        policy: None,
        by: input.by,
        dialect: input.dialect,
        scopes: Scopes::of(&input.select),
        source,
        sources: if input.each_a_source {
            input.sources.len() as u64
        } else {
            1
        },
        first: reading.first,
        last: reading.last,
        until: None,
        updated: options.date.or(reading.last),
        captures: Some(Number::exact(reading.captures)),
        urirs: Some(Number::exact(reading.urirs)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use waypost_io::Source;

    use super::*;

    fn input(folder: &Path, text: &str) -> Input {
        let path = folder.join("index.cdxj");
        std::fs::write(&path, text).unwrap();
        Input {
            block: Some(1000),
            ..Input::new(vec![Source::new(path)])
        }
    }

    fn options(folder: Option<PathBuf>) -> Options {
        Options {
            policies: vec![Policy::Whole, "DDom".parse().unwrap()],
            archive: Archive::default(),
            date: None,
            folder,
            name: "a".to_owned(),
            gzip: false,
        }
    }

    /// As many lines as need more than the head of a file and one block of a profile.
    fn lines() -> String {
        (10_000..20_000)
            .map(|n| format!("com,a)/{n} 2000 {{\"url\": \"http://a.com/{n}\"}}\n"))
            .collect()
    }

    #[test]
    fn only_what_is_sorted_to_its_end_is_written_while_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let streams = |text: &str, out: Option<PathBuf>| {
            let options = options(out);
            let mut waits = waits_of(&options);
            let input = input(folder.path(), text);
            let streamed = stream(&input, &options, None, &mut waits).unwrap();
            streamed.map(|report| report.profiles[0].size.keys)
        };
        assert_eq!(streams(&lines(), None), Some(10_000));
        assert_eq!(
            streams(&lines(), Some(folder.path().to_owned())),
            Some(10_000)
        );
        assert_eq!(streams("", None), Some(0));
        let late = lines() + "com,a)/1 2000 {}\n";
        assert_eq!(streams(&late, None), None);
    }

    #[test]
    fn a_profile_can_be_a_device() {
        let folder = tempfile::tempdir().unwrap();
        let (text, out) = (lines(), folder.path().join("out"));
        std::fs::create_dir(&out).unwrap();
        std::os::unix::fs::symlink("/dev/null", out.join("a.URIR.cdxj")).unwrap();
        let report = build(&input(folder.path(), &text), &options(Some(out)), None).unwrap();
        assert_eq!(report.profiles[0].size.keys, 10_000);
    }

    #[test]
    fn lines_are_rejected_once_even_if_the_input_is_read_twice() {
        let folder = tempfile::tempdir().unwrap();
        let text = lines() + "nonsense\ncom,a)/1 2000 {}\n";
        let path = folder.path().join("rejects");
        let mut rejects = RejectsFile::create(&path).unwrap();
        let input = input(folder.path(), &text);
        let report = build(&input, &options(None), Some(&mut rejects)).unwrap();
        rejects.finish().unwrap();
        assert!(report.reading.sorted);
        assert_eq!(report.reading.lines, 10_002);
        assert_eq!(std::fs::read(path).unwrap(), b"nonsense\n");
    }
}
