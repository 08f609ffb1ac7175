//! Images among arrays that people bring along.

use super::{Images, numbered};
use crate::{
    Error, Result,
    formats::arrays::{Array, Values},
};

/// Pairs pixels with labels; classes are numbered up to the highest label.
pub fn images(name: &str, pixels: &Array, labels: &Array) -> Result<Images> {
    let Values::U8(bytes) = &pixels.values else {
        let problem = format!("`{}` is {}", pixels.name, pixels.values.kind());
        return Err(Error::value(name, problem, "store pixels as uint8, 0 to 255"));
    };
    let Some(size) = image_size(&pixels.shape) else {
        let problem = format!("`{}` has shape {:?}", pixels.name, pixels.shape);
        return Err(Error::value(name, problem, "give images as [N, C, H, W] or [N, H, W]"));
    };
    if pixels.shape[0] == 0 {
        return Err(Error::value(name, format!("`{}` has no rows", pixels.name), "give at least one image"));
    }
    let (rows, labels_name) = (pixels.shape[0], &labels.name);
    let labels = labels.to_labels()?;
    if labels.len() != rows {
        let problem = format!("`{labels_name}` has {} rows, `{}` has {rows}", labels.len(), pixels.name);
        return Err(Error::value(name, problem, "give one label per image"));
    }
    let classes = labels.iter().max().map_or(0, |&top| top as usize + 1);
    Images::new(name, bytes.clone(), size, labels, numbered(classes))
}

fn image_size(shape: &[usize]) -> Option<[usize; 3]> {
    match *shape {
        [_, channels, height, width] => Some([channels, height, width]),
        [_, height, width] => Some([1, height, width]),
        _ => None,
    }
}
