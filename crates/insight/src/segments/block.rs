//! The captures of a block, as numbers.
//!
//! Counting a block by itself would mean to fill and empty a hash table for a few thousand captures.
//! Instead, a block is a list of numbers: for each capture, those of its folder and of its values.
//! The numbers are given by a [`Memory`], which workers use again for later blocks, so that a value
//! is usually known already. It also keeps which number a name has in the whole, so that adding a
//! block to the whole costs no hashing.

use waypost_index::{Capture, Field};

use super::location::{Location, Subset};
use super::names::Names;
use super::property::{Property, length_class};
use super::recent::{Key, LONGEST, Recent, WORDS};

/// What stands for a missing value, and for a number that is not known yet.
pub(super) const NONE: u32 = u32::MAX;

/// Names that take more than this are forgotten after a block.
const MOST: usize = 256 << 10;

/// What a worker remembers of the blocks before.
#[derive(Clone, Default)]
pub(super) struct Memory {
    /// The folders of files, with a slash at the end.
    folders: Names,
    recent_folders: Recent,
    places: Vec<Place>,
    /// The values of each property.
    values: Vec<Values>,
    buffer: Vec<u8>,
    /// An empty list for the captures of a block.
    captures: Vec<u32>,
    /// Which whole the numbers in the whole are those of.
    whole: u64,
}

/// What the name of a folder says.
#[derive(Clone)]
struct Place {
    /// `None` if it has no segment.
    segment: Option<Vec<u8>>,
    crawl: Option<Vec<u8>>,
    subset: Option<Subset>,
    /// The number of the segment in the whole.
    number: u32,
}

#[derive(Clone, Default)]
struct Values {
    names: Names,
    /// Their numbers in the whole.
    numbers: Vec<u32>,
    /// The numbers of values by the fields that they are made of.
    recent: Recent,
    /// The value of each counted capture of a block.
    captures: Vec<u32>,
}

/// The captures of a block.
#[derive(Clone)]
pub(super) struct Block {
    memory: Memory,
    /// Captures by folder and subset, counted or not.
    subsets: Vec<[u64; Subset::COUNT]>,
    /// The folder of each counted capture.
    captures: Vec<u32>,
    pub(super) counted: u64,
    pub(super) without: u64,
}

/// Receives the captures of a block.
pub(super) trait Whole {
    /// The number of a segment, which is added if it is new.
    fn segment(&mut self, name: &[u8], crawl: Option<&[u8]>) -> u32;

    /// Adds to the captures of a segment by subset.
    fn subsets(&mut self, segment: u32, counts: &[u64; Subset::COUNT]);

    /// The number of a value of a property, which is added if it is new.
    fn value(&mut self, property: usize, name: &[u8]) -> u32;

    /// Counts captures by their values and segments.
    fn count(&mut self, property: usize, captures: impl Iterator<Item = (u32, u32)>);
}

impl Block {
    pub(super) fn new(mut memory: Memory, properties: usize) -> Block {
        memory.values.resize_with(properties, Values::default);
        Block {
            subsets: vec![[0; Subset::COUNT]; memory.places.len()],
            captures: std::mem::take(&mut memory.captures),
            memory,
            counted: 0,
            without: 0,
        }
    }

    /// Adds a capture; it is counted if it is of the `wanted` subset.
    #[inline]
    pub(super) fn add(
        &mut self,
        capture: &Capture<'_>,
        properties: &[Property],
        wanted: Option<Subset>,
    ) {
        let memory = &mut self.memory;
        let filename = capture.text(Field::Filename).unwrap_or_default();
        let folder = memchr::memrchr(b'/', &filename).map_or(0, |at| at + 1);
        let folder = memory.folder(&filename[..folder], capture) as usize;
        if folder == memory.places.len() {
            memory.places.push(Place::of(memory.folders.get(folder)));
            self.subsets.push([0; Subset::COUNT]);
        }
        let place = &memory.places[folder];
        if place.segment.is_none() {
            self.without += 1;
            return;
        }
        // Where the name does not say, the status does.
        let subset = place.subset.unwrap_or_else(|| match capture.status() {
            Some(200) => Subset::Warc,
            _ => Subset::CrawlDiagnostics,
        });
        self.subsets[folder][subset as usize] += 1;
        if wanted.is_some_and(|wanted| wanted != subset) {
            return;
        }
        self.counted += 1;
        self.captures.push(folder as u32);
        for (property, values) in properties.iter().zip(&mut memory.values) {
            let value = match property {
                Property::Length => capture.number(Field::Length).map(length_class),
                _ => values.number(property, capture, &mut memory.buffer),
            };
            values.captures.push(value.unwrap_or(NONE));
        }
    }

    /// Passes all captures to the whole with this number. Returns the memory for another block.
    pub(super) fn add_to(
        mut self,
        whole: &mut impl Whole,
        number: u64,
        properties: &[Property],
    ) -> Memory {
        let memory = &mut self.memory;
        memory.get_ready(number);
        for (place, counts) in memory.places.iter_mut().zip(&self.subsets) {
            if let Some(name) = &place.segment
                && *counts != [0; Subset::COUNT]
            {
                if place.number == NONE {
                    place.number = whole.segment(name, place.crawl.as_deref());
                }
                whole.subsets(place.number, counts);
            }
        }
        // First all numbers become those in the whole; then they are counted, one property at a time,
        // which takes a few instructions for each.
        for folder in &mut self.captures {
            *folder = memory.places[*folder as usize].number;
        }
        for (at, property) in properties.iter().enumerate() {
            let values = &mut memory.values[at];
            if *property != Property::Length {
                for value in values.captures.iter_mut().filter(|value| **value != NONE) {
                    let number = &mut values.numbers[*value as usize];
                    if *number == NONE {
                        *number = whole.value(at, values.names.get(*value as usize));
                    }
                    *value = *number;
                }
            }
            let captures = values.captures.iter().copied();
            let captures = captures.zip(self.captures.iter().copied());
            whole.count(at, captures.filter(|(value, _)| *value != NONE));
            values.captures.clear();
        }
        self.captures.clear();
        memory.captures = self.captures;
        self.memory.forget();
        self.memory
    }
}

impl Values {
    /// The number of the value of a capture. Most values are made of the same fields as one before.
    #[inline(always)]
    fn number(
        &mut self,
        property: &Property,
        capture: &Capture<'_>,
        buffer: &mut Vec<u8>,
    ) -> Option<u32> {
        let key = fields_of(property, capture);
        if let Some(number) = key.as_ref().and_then(|key| self.recent.get(key)) {
            return Some(number);
        }
        let value = property.value(capture, buffer)?;
        let number = self.names.number(value);
        if let Some(key) = key {
            self.recent.put(key, number);
        }
        Some(number)
    }
}

/// The fields that the value of a property is made of, if they are short.
#[inline(always)]
fn fields_of(property: &Property, capture: &Capture<'_>) -> Option<Key> {
    let fields = match property {
        Property::Mime => [Field::Mime, Field::MimeDetected].map(|field| capture.text(field)),
        Property::Language => [capture.text(Field::Languages), None],
        _ => return None,
    };
    let mut halves = [[0; WORDS / 2]; 2];
    for (text, half) in fields.iter().zip(&mut halves) {
        let text = text.as_deref().unwrap_or_default();
        if text.len() > LONGEST / 2 {
            return None;
        }
        *half = capture.fixed(text)?;
    }
    let [[a, b, c, d], [e, f, g, h]] = halves;
    Some([a, b, c, d, e, f, g, h])
}

impl Place {
    fn of(folder: &[u8]) -> Place {
        let location = Location::of(folder);
        // The name is written to a text file that is read by lines and words.
        let segment = location.segment.filter(|segment| {
            std::str::from_utf8(segment)
                .is_ok_and(|name| !name.contains(|c: char| c.is_whitespace() || c.is_control()))
        });
        let crawl = location
            .crawl
            .filter(|crawl| !crawl.iter().any(u8::is_ascii_whitespace));
        Place {
            segment: segment.map(<[u8]>::to_vec),
            crawl: crawl.map(<[u8]>::to_vec),
            subset: location.subset,
            number: NONE,
        }
    }
}

impl Memory {
    /// The number of a folder.
    #[inline(always)]
    fn folder(&mut self, name: &[u8], capture: &Capture<'_>) -> u32 {
        let key = capture.fixed::<WORDS>(name);
        if let Some(number) = key.as_ref().and_then(|key| self.recent_folders.get(key))
            && (name.len() <= LONGEST || self.folders.get(number as usize) == name)
        {
            return number;
        }
        let number = self.folders.number(name);
        if let Some(key) = key {
            self.recent_folders.put(key, number);
        }
        number
    }

    /// Makes room for the numbers in a whole, and forgets those in another one.
    fn get_ready(&mut self, whole: u64) {
        if self.whole != whole {
            self.whole = whole;
            self.places.iter_mut().for_each(|place| place.number = NONE);
            self.values
                .iter_mut()
                .for_each(|values| values.numbers.clear());
        }
        for values in &mut self.values {
            values.numbers.resize(values.names.len(), NONE);
        }
    }

    /// Forgets names of which there are too many.
    fn forget(&mut self) {
        if self.folders.size() > MOST {
            self.folders = Names::default();
            self.recent_folders = Recent::default();
            self.places.clear();
        }
        for values in &mut self.values {
            if values.names.size() > MOST {
                *values = Values::default();
            }
        }
    }
}
