//! Merges many sorted sources of lines with a tree of losers.
//!
//! The leaves are the sources; each inner node keeps the source that lost there, and the root the
//! one that won. When the winner moves to its next line, only the nodes between its leaf and the
//! root play again: log2(sources) comparisons for each line.

use crate::error::Result;

/// Sorted lines.
pub(crate) trait SortedLines {
    /// The current line, without its newline. Called only after a `true` of [`SortedLines::advance`].
    fn line(&self) -> &[u8];

    /// Moves to the next line. Returns `false` at the end.
    fn advance(&mut self) -> Result<bool>;
}

/// A merge of sources, itself a source.
pub(crate) struct Tournament<S> {
    sources: Vec<S>,
    over: Vec<bool>,
    /// `nodes[0]` is the winner; `nodes[n]` lost at node `n`, whose children are `2n` and `2n + 1`.
    nodes: Vec<u32>,
    started: bool,
}

impl<S: SortedLines> Tournament<S> {
    pub(crate) fn new(sources: Vec<S>) -> Tournament<S> {
        Tournament {
            over: vec![false; sources.len()],
            nodes: vec![0; sources.len().max(1)],
            sources,
            started: false,
        }
    }

    /// Which of the sources the current line comes from.
    pub(crate) fn winner(&self) -> usize {
        self.nodes[0] as usize
    }

    /// The sources, of which the [winner](Tournament::winner) has the current line.
    pub(crate) fn sources(&self) -> &[S] {
        &self.sources
    }

    /// The sources, for their counts.
    pub(crate) fn into_sources(self) -> Vec<S> {
        self.sources
    }

    fn start(&mut self) -> Result<()> {
        self.started = true;
        for at in 0..self.sources.len() {
            self.over[at] = !self.sources[at].advance()?;
        }
        let leaves = self.sources.len();
        // The winner of each node; leaf `i` is node `leaves + i`.
        let mut winners = vec![0u32; 2 * leaves];
        for (at, winner) in winners[leaves..].iter_mut().enumerate() {
            *winner = at as u32;
        }
        for node in (1..leaves).rev() {
            let (left, right) = (winners[2 * node], winners[2 * node + 1]);
            let (winner, loser) = if self.beats(left, right) {
                (left, right)
            } else {
                (right, left)
            };
            winners[node] = winner;
            self.nodes[node] = loser;
        }
        self.nodes[0] = winners[1.min(winners.len() - 1)];
        Ok(())
    }

    /// Whether source `a` comes before `b`; equal lines come in the order of their sources.
    fn beats(&self, a: u32, b: u32) -> bool {
        let (a, b) = (a as usize, b as usize);
        if self.over[a] || self.over[b] {
            return !self.over[a];
        }
        match self.sources[a].line().cmp(self.sources[b].line()) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => a < b,
            std::cmp::Ordering::Greater => false,
        }
    }
}

impl<S: SortedLines> SortedLines for Tournament<S> {
    fn line(&self) -> &[u8] {
        self.sources[self.winner()].line()
    }

    fn advance(&mut self) -> Result<bool> {
        if self.sources.is_empty() {
            return Ok(false);
        }
        if !self.started {
            self.start()?;
            return Ok(!self.over[self.winner()]);
        }
        let moved = self.winner();
        if self.over[moved] {
            return Ok(false);
        }
        self.over[moved] = !self.sources[moved].advance()?;
        let mut winner = moved as u32;
        let mut node = (self.sources.len() + moved) / 2;
        while node > 0 {
            if self.beats(self.nodes[node], winner) {
                std::mem::swap(&mut self.nodes[node], &mut winner);
            }
            node /= 2;
        }
        self.nodes[0] = winner;
        Ok(!self.over[winner as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct SourceMap {
        lines: Vec<Vec<u8>>,
        next: usize,
    }

    impl SortedLines for SourceMap {
        fn line(&self) -> &[u8] {
            &self.lines[self.next - 1]
        }
        fn advance(&mut self) -> Result<bool> {
            self.next += 1;
            Ok(self.next <= self.lines.len())
        }
    }

    fn merged(sources: &[Vec<Vec<u8>>]) -> Vec<Vec<u8>> {
        let given = sources
            .iter()
            .map(|lines| SourceMap {
                lines: lines.clone(),
                next: 0,
            })
            .collect();
        let mut tournament = Tournament::new(given);
        let mut out = Vec::new();
        while tournament.advance().unwrap() {
            out.push(tournament.line().to_vec());
        }
        assert!(!tournament.advance().unwrap(), "the end stays the end");
        out
    }

    proptest! {
        #[test]
        fn a_merge_of_sorted_sources_is_their_sorted_union(
            mut sources in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(0u8..4, 0..4), 0..12), 0..20)
        ) {
            for source in &mut sources {
                source.sort();
            }
            let mut all: Vec<Vec<u8>> = sources.concat();
            all.sort();
            prop_assert_eq!(merged(&sources), all);
        }
    }
}
