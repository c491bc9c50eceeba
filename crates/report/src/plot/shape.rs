//! The shape of a tree: one layer for each depth, as wide as it has nodes, darker where nodes have
//! more children.

use std::fmt::Write;

use crate::html::escape;
use crate::number::{count, short};

/// One depth of a tree.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Its name, such as `H2`.
    pub name: String,
    /// The nodes of the depth above that have children here.
    pub parents: u64,
    /// The nodes of this depth.
    pub children: u64,
}

/// The layers of a tree, from the top.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The title.
    pub title: String,
    /// The layers.
    pub layers: Vec<Layer>,
}

impl Shape {
    /// The plot as an SVG element.
    pub fn svg(&self) -> String {
        let (tall, top) = (30.0, 34.0);
        let height = top + tall * self.layers.len() as f64 + 6.0;
        let mut svg = format!(
            "<svg viewBox=\"0 0 720 {height:.0}\" role=\"img\" aria-label=\"{0}\">\n<text class=\"title\" x=\"4\" y=\"18\">{0}</text>\n",
            escape(&self.title)
        );
        let most = self.layers.iter().map(|layer| layer.children).max();
        let most = most.unwrap_or(0).max(1) as f64;
        let wide = |nodes: u64| (nodes as f64 / most * 420.0).max(1.0);
        let means = self.layers.iter().map(mean).fold(1.0, f64::max);
        for (number, layer) in self.layers.iter().enumerate() {
            let y = top + tall * number as f64;
            let (above, below) = (wide(layer.parents) / 2.0, wide(layer.children) / 2.0);
            let shade = (mean(layer).max(1.0).ln() / means.max(1.1).ln() * 5.0).ceil() as usize + 1;
            let _ = writeln!(
                svg,
                "<text class=\"tick\" x=\"44\" y=\"{0:.1}\" text-anchor=\"end\">{1}</text>\
                 <path class=\"mark heat h{2}\" d=\"M{3:.1} {y:.1}H{4:.1}L{5:.1} {6:.1}H{7:.1}Z\"><title>{1}: {8} parents, {9} children, {10:.2} per parent</title></path>\
                 <text class=\"tick\" x=\"514\" y=\"{0:.1}\">{11} → {12}</text>",
                y + 18.0,
                escape(&layer.name),
                shade.min(6),
                276.0 - above,
                276.0 + above,
                276.0 + below,
                y + tall - 3.0,
                276.0 - below,
                count(layer.parents),
                count(layer.children),
                mean(layer),
                short(layer.parents as f64),
                short(layer.children as f64),
            );
        }
        svg.push_str("</svg>\n");
        svg
    }
}

fn mean(layer: &Layer) -> f64 {
    layer.children as f64 / layer.parents.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layer_has_its_numbers() {
        let layer = |name: &str, parents, children| Layer {
            name: name.into(),
            parents,
            children,
        };
        let svg = Shape {
            title: "tree".into(),
            layers: vec![layer("H1", 1, 4), layer("H2", 2, 9), layer("H3", 0, 0)],
        }
        .svg();
        assert!(svg.contains("<title>H2: 2 parents, 9 children, 4.50 per parent</title>"));
        assert_eq!(svg.matches("<path").count(), 3);
    }
}
