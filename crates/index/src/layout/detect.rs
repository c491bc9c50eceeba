//! Detects the layout of a file from its first lines.

use memchr::memchr;

use super::columns::Split;
use super::tool::Traits;
use super::{Columns, FileLayout, Line, Shape};
use crate::capture::{Capture, Fields};
use crate::key::KeyForm;

/// Number of lines to inspect.
const LINES: usize = 200;

impl FileLayout {
    /// How many bytes of a file [`detect`](FileLayout::detect) should get.
    pub const SAMPLE: usize = 64 * 1024;

    /// Detects the layout from the first decompressed bytes of a file. The last line may be
    /// incomplete.
    pub fn detect(sample: &[u8]) -> FileLayout {
        let mut layout = FileLayout::default();
        let lines = || lines(sample).take(LINES);
        // Headers first: sorting moves all of them to the top, where each applies to the lines with
        // as many columns as it has letters.
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
        // With nothing but headers, they decide.
        layout.shape = winner(&shapes).or(first.map(|columns| Shape::Cdx(columns.count() as u8)));
        layout.keys = winner(&forms).unwrap_or_default();
        if matches!(layout.shape, Some(Shape::Cdxj | Shape::Ndjson)) {
            layout.tool = Some(traits.tool());
        }
        layout
    }
}

/// The standard column order that fits most of the lines that fit no header.
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

/// Complete lines without their newlines, or the incomplete line if there are no others.
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

/// The item with the most votes; the first in case of a tie.
fn winner<T: Clone>(votes: &[(T, usize)]) -> Option<T> {
    let most = votes.iter().map(|(_, count)| *count).max()?;
    votes
        .iter()
        .find(|(_, count)| *count == most)
        .map(|(candidate, _)| candidate.clone())
}
