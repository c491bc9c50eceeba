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

/// The line through the logarithms.
fn law(means: &[(u64, f64)]) -> Option<PowerLaw> {
    let points: Vec<(f64, f64)> = means
        .iter()
        .enumerate()
        .filter(|(_, (places, mean))| *places > 0 && *mean > 0.0)
        .map(|(at, (_, mean))| ((at as f64 + 1.0).ln(), mean.ln()))
        .collect();
    if points.len() < 2 {
        return None;
    }
    let n = points.len() as f64;
    let mean = |f: fn(&(f64, f64)) -> f64| points.iter().map(f).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let over = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>();
    let under = points.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>();
    let slope = over / under;
    Some(PowerLaw {
        a: (y - slope * x).exp(),
        // Not `-slope`, which may be -0.
        k: 0.0 - slope,
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
