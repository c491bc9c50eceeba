//! Finding the layout of a file from how it begins.

use memchr::memchr;

use super::columns::Split;
use super::tool::Traits;
use super::{Columns, FileLayout, Line, Shape};
use crate::capture::{Capture, Fields};
use crate::key::KeyForm;

/// How many lines of the beginning are looked at.
const LINES: usize = 200;

impl FileLayout {
    /// How much of a file's beginning [`detect`](FileLayout::detect) wants to see.
    pub const SAMPLE: usize = 64 * 1024;

    /// Finds the layout from the first bytes of a file, decompressed. A last line that is not
    /// complete does no harm.
    pub fn detect(sample: &[u8]) -> FileLayout {
        let mut layout = FileLayout::default();
        let lines = || lines(sample).take(LINES);
        // Headers first: sorting puts them all at the top, and then each holds for the lines that
        // have as many columns as it has letters.
        let mut first = None;
        for header in lines().take_while(|line| line.starts_with(b" CDX")) {
            layout.learn(header);
            first = first.or_else(|| Columns::from_header(header));
        }
        layout.unnamed = unnamed(lines(), &layout);

        let mut shapes: Vec<(Shape, usize)> = Vec::new();
        let mut forms: Vec<(KeyForm, usize)> = Vec::new();
        let mut traits = Traits::default();
        for line in lines() {
            let Line::Capture(capture, shape) = layout.read(line, Fields::ALL, false) else {
                continue;
            };
            vote(&mut shapes, shape);
            if crate::web::non_web(&capture).is_none() {
                vote(&mut forms, KeyForm::of(capture.key()));
            }
            match shape {
                Shape::Cdxj => {
                    let at = capture.key().len() + capture.timestamp().len() + 2;
                    traits.gather(capture.timestamp(), &line[at..]);
                }
                Shape::Ndjson => traits.gather(capture.timestamp(), line),
                Shape::Cdx(_) | Shape::OpenWayback => {}
            }
        }
        // With a header and nothing else, the header says it.
        layout.shape = winner(&shapes).or(first.map(|columns| Shape::Cdx(columns.count() as u8)));
        layout.keys = winner(&forms).unwrap_or_default();
        if matches!(layout.shape, Some(Shape::Cdxj | Shape::Ndjson)) {
            layout.tool = Some(traits.tool());
        }
        layout
    }
}

/// The standard order of columns that fits the most lines for which no header does.
fn unnamed<'a>(lines: impl Iterator<Item = &'a [u8]>, layout: &FileLayout) -> Vec<Columns> {
    let mut fitting: Vec<(Columns, usize)> = Vec::new();
    for line in lines {
        let split = Split::new(line);
        let named = layout
            .headers
            .iter()
            .any(|columns| columns.count() == split.count());
        if named || !layout.headers.is_empty() && split.count() < 9 {
            continue;
        }
        for columns in Columns::all_standard(split.count()) {
            let mut capture = Capture::empty();
            if columns.read(&split, Fields::NONE, &mut capture).is_ok() {
                vote(&mut fitting, columns);
            }
        }
    }
    winner(&fitting).into_iter().collect()
}

/// Lines without their ends. What follows the last newline counts only if it is all there is.
fn lines(sample: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = sample;
    let mut any = false;
    std::iter::from_fn(move || {
        let line = match memchr(b'\n', rest) {
            Some(end) => {
                let line = &rest[..end];
                rest = &rest[end + 1..];
                line
            }
            None if any || rest.is_empty() => return None,
            None => std::mem::take(&mut rest),
        };
        any = true;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    })
}

fn vote<T: PartialEq>(votes: &mut Vec<(T, usize)>, candidate: T) {
    match votes.iter_mut().find(|(known, _)| *known == candidate) {
        Some((_, count)) => *count += 1,
        None => votes.push((candidate, 1)),
    }
}

/// The one with the most votes; of equals the first.
fn winner<T: Clone>(votes: &[(T, usize)]) -> Option<T> {
    let most = votes.iter().map(|(_, count)| *count).max()?;
    votes
        .iter()
        .find(|(_, count)| *count == most)
        .map(|(candidate, _)| candidate.clone())
}
