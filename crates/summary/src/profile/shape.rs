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
pub(super) struct Shape {
    /// Whether its keys are prefixes of it.
    plain: bool,
    /// Where the commas of the host are.
    commas: [usize; MOST],
    comma_count: usize,
    /// Where the host ends.
    close: usize,
    /// Where the first, second, … segment ends, without trailing slashes; 0 if nothing is left.
    segments: [usize; MOST],
    segment_count: usize,
    /// Where the path ends, without trailing slashes; 0 if nothing is left.
    path: usize,
    /// Where the SURT ends.
    whole: usize,
}

impl Shape {
    pub(super) fn of(surt: &Surt<'_>) -> Shape {
        let mut shape = Shape {
            plain: surt.kind() == Kind::Host,
            commas: [0; MOST],
            comma_count: 0,
            close: surt.authority().len(),
            segments: [0; MOST],
            segment_count: 0,
            path: 0,
            whole: surt.as_bytes().len(),
        };
        if !shape.plain {
            return shape;
        }
        for at in memchr::memchr_iter(b',', surt.host()).take(MOST) {
            shape.commas[shape.comma_count] = at;
            shape.comma_count += 1;
        }
        let start = shape.close + 1;
        let trimmed = |path: &[u8]| {
            let end = path.iter().rposition(|&byte| byte != b'/');
            end.map_or(0, |end| start + end + 1)
        };
        let path = surt.path();
        shape.path = trimmed(path);
        let path = &path[..shape.path.saturating_sub(start)];
        // The first slash is that of the root: the first segment ends at the second.
        for at in memchr::memchr_iter(b'/', path).skip(1).take(MOST) {
            shape.segments[shape.segment_count] = trimmed(&path[..at]);
            shape.segment_count += 1;
        }
        shape
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
