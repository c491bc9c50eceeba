//! Statistics over slices of numbers: pure functions, compared with scipy in the tests.

pub mod describe;
pub mod distinct;
pub mod histogram;
pub mod normal;
pub mod percentile;
pub mod shapiro;
pub mod spearman;
pub mod special;
pub mod student;
