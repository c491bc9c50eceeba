//! Where the keys of a SURT end, under the policies whose keys are prefixes of it.

use std::num::NonZeroU32;

use waypost_surt::{Kind, Limit, Policy, Surt};

/// The maximum number of labels and segments considered; policies that keep more are cut one by
/// one.
const MOST: usize = 8;

/// How a key is made from its SURT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum End {
    /// Not a prefix: computed separately.
    #[default]
    Other,
    /// A prefix of this many bytes.
    Plain(usize),
    /// A prefix of this many bytes, followed by `)/`.
    Host(usize),
}

impl End {
    /// The length of the prefix.
    pub(super) fn length(self) -> Option<usize> {
        match self {
            End::Other => None,
            End::Plain(length) | End::Host(length) => Some(length),
        }
    }
}

/// Where the labels and segments of a SURT end.
#[derive(Debug, Default)]
pub(super) struct Shape {
    /// Whether its keys are prefixes of it.
    pub(super) plain: bool,
    /// Where the commas of the host are.
    commas: [usize; MOST],
    comma_count: usize,
    /// Where the host ends, without its port.
    pub(super) host: usize,
    /// Where the parenthesis is.
    close: usize,
    /// Where the first, second, … segment ends, without trailing slashes; 0 if nothing is left.
    segments: [usize; MOST],
    segment_count: usize,
    /// Where the path ends, without trailing slashes; 0 if nothing is left.
    path: usize,
    /// The number of slashes in the path.
    slashes: usize,
    /// Where the path ends.
    query: usize,
    /// Where the SURT ends.
    whole: usize,
}

impl Shape {
    pub(super) fn of(surt: &Surt<'_>) -> Shape {
        let mut shape = Shape {
            plain: surt.kind() == Kind::Host,
            close: surt.authority().len(),
            whole: surt.as_bytes().len(),
            ..Shape::default()
        };
        if !shape.plain {
            return shape;
        }
        shape.host = surt.host().len();
        for at in memchr::memchr_iter(b',', surt.host()).take(MOST) {
            shape.commas[shape.comma_count] = at;
            shape.comma_count += 1;
        }
        shape.read_path(surt.as_bytes());
        shape
    }

    /// Advances to the shape of a SURT that has so many bytes in common with the last one. Returns whether
    /// it has the same host and port.
    pub(super) fn advance(&mut self, surt: &[u8], common: usize) -> bool {
        let same_host = self.plain && common > self.close;
        match same_host {
            true => self.read_path(surt),
            false => *self = Shape::of(&Surt::new(surt)),
        }
        same_host
    }

    /// Reads what follows the host.
    fn read_path(&mut self, surt: &[u8]) {
        let start = self.close + 1;
        (self.segment_count, self.path, self.slashes) = (0, 0, 0);
        (self.query, self.whole) = (surt.len(), surt.len());
        // Slashes that may be at the end. The first slash is that of the root: the first segment ends at
        // the second.
        let mut waiting = 0;
        for (at, &byte) in surt.iter().enumerate().skip(start) {
            match byte {
                b'?' => {
                    self.query = at;
                    break;
                }
                b'/' => {
                    waiting += usize::from(self.slashes > 0);
                    self.slashes += 1;
                }
                _ => {
                    for _ in 0..waiting {
                        if let Some(end) = self.segments.get_mut(self.segment_count) {
                            *end = self.path;
                            self.segment_count += 1;
                        }
                    }
                    waiting = 0;
                    self.path = at + 1;
                }
            }
        }
    }

    /// The path and the query of a plain SURT.
    pub(super) fn path_and_query<'a>(&self, surt: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let query = surt.get(self.query + 1..).unwrap_or_default();
        (&surt[self.close + 1..self.query], query)
    }

    /// The number of segments of a plain SURT, as [`Surt::segments`] has them.
    pub(super) fn segments(&self, surt: &[u8]) -> usize {
        let (path, _) = self.path_and_query(surt);
        let rest = path.strip_prefix(b"/").unwrap_or(path);
        let trimmed = rest.strip_suffix(b"/").unwrap_or(rest);
        match trimmed.is_empty() {
            true => 0,
            false => self.slashes + 1 - (path.len() - trimmed.len()),
        }
    }

    /// How the key under a policy is made.
    pub(super) fn end_under(&self, policy: &Policy) -> End {
        match policy {
            Policy::Whole => End::Plain(self.whole),
            Policy::Prefix { hosts, paths } => self.end(*hosts, *paths),
            _ => End::Other,
        }
    }

    fn end(&self, hosts: Limit<NonZeroU32>, paths: Limit<u32>) -> End {
        if !self.plain {
            return End::Other;
        }
        if let Limit::Most(most) = hosts {
            let most = most.get() as usize;
            if most <= self.comma_count {
                return End::Host(self.commas[most - 1]);
            }
            if most > MOST {
                return End::Other;
            }
        }
        let end = match paths {
            Limit::Most(0) => 0,
            Limit::Most(most) if most as usize <= self.segment_count => {
                self.segments[most as usize - 1]
            }
            Limit::Most(most) if most as usize > MOST => return End::Other,
            _ => self.path,
        };
        match end {
            0 => End::Host(self.close),
            end => End::Plain(end),
        }
    }
}

/// A set of forms of SURTs. Which policies have the same key of a SURT depends only on its form.
#[derive(Default)]
pub(super) struct Forms([u64; 6]);

impl Forms {
    /// The place and bit of a form; `None` for forms that are rare.
    fn place(shape: &Shape) -> Option<(usize, u64)> {
        let segments = &shape.segments[..shape.segment_count];
        // Where segments are empty, several limits have the same end.
        let empty = segments.first() == Some(&0)
            || segments.windows(2).any(|pair| pair[0] == pair[1])
            || segments.last().is_some_and(|&end| end == shape.path);
        if !shape.plain || empty {
            return None;
        }
        let counts = shape.comma_count * (MOST + 1) + shape.segment_count;
        let ends = usize::from(shape.path == 0) + 2 * usize::from(shape.path == shape.whole);
        let number = 4 * counts + ends;
        Some((number / 64, 1 << (number % 64)))
    }

    pub(super) fn contains(&self, shape: &Shape) -> bool {
        Forms::place(shape).is_some_and(|(word, bit)| self.0[word] & bit != 0)
    }

    pub(super) fn insert(&mut self, shape: &Shape) {
        if let Some((word, bit)) = Forms::place(shape) {
            self.0[word] |= bit;
        }
    }
}
