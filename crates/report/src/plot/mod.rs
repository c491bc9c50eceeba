//! Plots as SVG elements for a [`Page`](crate::Page).
//!
//! Colours are classes that the style of the page defines, for light and dark; `kuva` and other
//! crates write fixed colours into the SVG. Each mark has its values as a `title`, which browsers
//! show on hover.

mod bars;
mod frame;
mod heat;
mod lines;
mod ranked;
mod scale;
mod scatter;
mod shape;

pub use bars::{BarSeries, Bars};
pub use heat::Heat;
pub use lines::{LineSeries, Lines};
pub use ranked::Ranked;
pub use scale::Axis;
pub use scatter::{Plot, Point};
pub use shape::{Layer, Shape};
