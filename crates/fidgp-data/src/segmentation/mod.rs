//! Pictures with a mask each: a class for every pixel.

mod layouts;
mod mask;
mod pair;
mod street;

pub use layouts::{PORTION, Portion, camvid, cityscapes, masks, segnet};
pub use mask::{Mask, VOID};
pub use pair::{MaskReading, Pair, PairSet};
