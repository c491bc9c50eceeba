//! Fitting the power laws of the papers' rule to a map.
//!
//! The mean number of children of hosts and of paths decreases with depth roughly as `a ·
//! depth^-k`. On logarithmic axes that is a line, fitted by least squares over depths, as in the
//! papers.

use waypost_surt::Reach;

use super::compact::SourceMap;
use super::solve::papers::PowerLaw;
use super::tree::pass::Pass;
use super::tree::row::Row;
use super::tree::{Part, TreeNode, Visitor};
use crate::error::Result;
use crate::power::PowerFit;

/// The maximum depth considered.
const DEEPEST: usize = 32;

/// Mean numbers of children by depth, and the fitted laws.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fitted {
    /// Nodes with children and their mean number of children, by depth from 1, for hosts.
    pub hosts: Vec<(u64, f64)>,
    /// The same for paths; depth 1 is the host itself.
    pub paths: Vec<(u64, f64)>,
    /// The law of hosts, if there are at least two depths.
    pub host: Option<PowerLaw>,
    /// The law of paths.
    pub path: Option<PowerLaw>,
}

/// Fits the laws to a map.
///
/// # Errors
/// When the map cannot be read.
pub fn fit(given: &mut SourceMap) -> Result<Fitted> {
    let (counts, _) = given.walk(None, Counts::default)?;
    let means = |counts: &[(u64, u64)]| -> Vec<(u64, f64)> {
        let used = counts
            .iter()
            .rposition(|(places, _)| *places > 0)
            .map_or(0, |at| at + 1);
        counts[..used]
            .iter()
            .map(|&(places, children)| {
                (
                    places,
                    if places == 0 {
                        0.0
                    } else {
                        children as f64 / places as f64
                    },
                )
            })
            .collect()
    };
    let (hosts, paths) = (means(&counts.hosts), means(&counts.paths));
    Ok(Fitted {
        host: law(&hosts),
        path: law(&paths),
        hosts,
        paths,
    })
}

/// The law of mean numbers of children by depth from 1, each with its number of nodes.
fn law(means: &[(u64, f64)]) -> Option<PowerLaw> {
    let points = means.iter().enumerate();
    let points = points.filter(|(_, (places, _))| *places > 0);
    let law = PowerFit::new(points.map(|(at, (_, mean))| (at as f64 + 1.0, *mean)))?;
    Some(PowerLaw {
        a: law.factor,
        // Not `-exponent`, which may be -0.
        k: 0.0 - law.exponent,
    })
}

struct Counts {
    hosts: Vec<(u64, u64)>,
    paths: Vec<(u64, u64)>,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            hosts: vec![(0, 0); DEEPEST],
            paths: vec![(0, 0); DEEPEST],
        }
    }
}

impl Visitor for Counts {
    type Node = u64;

    fn open(&mut self, _: TreeNode<'_>, _: Option<&u64>) -> u64 {
        0
    }

    fn close(&mut self, place: TreeNode<'_>, children: &mut u64, parent: Option<&mut u64>) {
        if let Some(parent) = parent
            && place.part != Part::Site
        {
            *parent += 1;
        }
        let (table, depth) = match place.part {
            Part::Host => (&mut self.hosts, place.level as usize - 1),
            Part::Site | Part::Path => (&mut self.paths, place.level as usize),
            _ => return,
        };
        if *children > 0
            && let Some(entry) = table.get_mut(depth)
        {
            entry.0 += 1;
            entry.1 += *children;
        }
    }
}

impl Pass for Counts {
    fn row(&mut self, _: &mut u64, _: &Row<'_>, _: Reach) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_law_is_found_again() {
        let means: Vec<(u64, f64)> = (1..7)
            .map(|depth| (10, 16.329 * f64::from(depth).powf(-0.714)))
            .collect();
        let found = law(&means).unwrap();
        assert!(
            (found.a - 16.329).abs() < 1e-9 && (found.k - 0.714).abs() < 1e-9,
            "{found:?}"
        );
        assert_eq!(law(&means[..1]), None);
    }
}
