//! How often each site of a map is looked up.

use waypost_surt::Reach;

use super::prior::density;
use crate::error::Result;
use crate::map::compact::SourceMap;
use crate::map::tree::cut::{Borders, Handed, Sharing, join};
use crate::map::tree::pass::Pass;
use crate::map::tree::row::Row;
use crate::map::tree::sample::{MissCounts, Sample};
use crate::map::tree::{Part, TreeNode, Visitor};

/// Counts the misses and rows of the sites of a map, or of a piece of one.
#[derive(Default)]
pub(crate) struct Sites {
    /// By training lookups, and by all.
    pub(crate) taught: Vec<u8>,
    pub(crate) all: Vec<u8>,
    borders: Borders,
    shared: Vec<(Handed, SharedPart)>,
    torn: bool,
}

/// Rows, training misses, held-out misses.
#[derive(Default)]
pub(crate) struct Counted {
    rows: f64,
    held: bool,
    taught: f64,
    aside: f64,
    labelled: bool,
}

/// What a piece has of a shared node, and its number among the sites of the piece, if it is one.
struct SharedPart {
    counted: Counted,
    site: Option<usize>,
}

/// A shared node, and where it is a site: the piece, and its number there.
struct Shared {
    counted: Counted,
    sites: Vec<(usize, usize)>,
}

impl Counted {
    fn add(&mut self, other: &Counted) {
        self.rows += other.rows;
        self.taught += other.taught;
        self.aside += other.aside;
        self.labelled |= other.labelled;
    }

    /// All rows and lookups are counted.
    fn settle(&mut self) {
        if self.held && !self.labelled {
            (self.taught, self.aside) = (0.0, 0.0);
        }
    }

    /// How often a site is looked up, by training lookups and by all.
    fn densities(&self) -> (u8, u8) {
        let all = (self.taught + self.aside) / 2.0;
        (density(self.taught, self.rows), density(all, self.rows))
    }
}

impl Sites {
    /// Nothing is known.
    pub(crate) fn none() -> &'static Sites {
        static NONE: Sites = Sites {
            taught: Vec::new(),
            all: Vec::new(),
            borders: Borders::NONE,
            shared: Vec::new(),
            torn: false,
        };
        &NONE
    }

    /// The sites of each piece of a map. `None` if it cannot be cut.
    pub(crate) fn in_pieces(given: &mut SourceMap, sample: &Sample) -> Result<Option<Vec<Sites>>> {
        let mut pieces: Vec<Sites> = Vec::new();
        let mut open: Vec<Shared> = Vec::new();
        let done = given.walk_pieces(
            Sharing::Ancestors,
            Some(sample),
            |piece| {
                Ok(Sites {
                    borders: piece.borders.clone(),
                    ..Sites::default()
                })
            },
            |sites| Ok((!sites.torn).then_some(sites)),
            |mut sites| {
                let number = pieces.len();
                let shared = std::mem::take(&mut sites.shared);
                pieces.push(sites);
                let place = |part: &SharedPart| part.site.map(|site| (number, site));
                join(
                    &mut open,
                    shared,
                    &mut pieces,
                    |_, part| Shared {
                        sites: place(&part).into_iter().collect(),
                        counted: part.counted,
                    },
                    |_, node, part| {
                        node.counted.add(&part.counted);
                        node.counted.held |= part.counted.held;
                        node.sites.extend(place(&part));
                    },
                    |pieces, mut node, parent| {
                        node.counted.settle();
                        if let Some(parent) = parent.filter(|_| node.sites.is_empty()) {
                            parent.counted.add(&node.counted);
                        }
                        let densities = node.counted.densities();
                        for (piece, site) in node.sites {
                            let sites: &mut Sites = &mut pieces[piece];
                            (sites.taught[site], sites.all[site]) = densities;
                        }
                    },
                )
            },
        )?;
        Ok(done.map(|_| pieces))
    }
}

impl Visitor for Sites {
    type Node = Counted;

    fn open(&mut self, place: TreeNode<'_>, _: Option<&Counted>) -> Counted {
        self.torn |= self.borders.tears(&place);
        Counted::default()
    }

    fn close(&mut self, place: TreeNode<'_>, node: &mut Counted, parent: Option<&mut Counted>) {
        let is_site = place.part == Part::Site;
        if let Some(handed) = self.borders.handed(&place) {
            // The density of a shared site is not known yet.
            let site = is_site.then_some(self.taught.len());
            if is_site {
                self.taught.push(0);
                self.all.push(0);
            }
            let counted = std::mem::take(node);
            self.shared.push((handed, SharedPart { counted, site }));
            return;
        }
        node.settle();
        if is_site {
            let (taught, all) = node.densities();
            self.taught.push(taught);
            self.all.push(all);
        } else if let Some(parent) = parent {
            parent.add(node);
        }
    }
}

impl Pass for Sites {
    fn row(&mut self, node: &mut Counted, row: &Row<'_>, reach: Reach) -> Result<()> {
        if !row.frequency.is_void() {
            node.rows += 1.0;
            node.held |= reach == Reach::Exact;
        }
        Ok(())
    }

    fn lookups(&mut self, node: &mut Counted, asked: &MissCounts) {
        node.taught += asked.absent;
        node.aside += asked.aside;
        node.labelled |= asked.labelled;
    }

    fn gives_up(&self) -> bool {
        self.torn
    }
}
