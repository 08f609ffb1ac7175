//! Street View House Numbers, cropped digits: `{train,test,extra}_32x32.mat`.
//!
//! `X` is `uint8 [height, width, 3, N]`, column-major; `y` is `[N, 1]` with 1–9 and 10 for zero.

use std::path::Path;

use super::{Images, Part, numbered};
use crate::{
    Error, Result,
    formats::mat5::{self, Values, Variable},
    listing,
};

const ADVICE: &str = "use the cropped digits (format 2), e.g. test_32x32.mat";

/// Reads `train_32x32.mat` or `test_32x32.mat`; label 10 becomes 0.
pub fn svhn(folder: &Path, part: Part) -> Result<Images> {
    read(&folder.join(format!("{}_32x32.mat", part.name())))
}

/// Reads one file; label 10 becomes 0.
pub fn read(file: &Path) -> Result<Images> {
    let variables = mat5::read(file)?;
    let x = variable(file, &variables, "X")?;
    let ([height, width, 3, count], Values::U8(values)) = (&x.dims[..], &x.values) else {
        let problem = format!("`X` has size {:?}, not uint8 [height, width, 3, N]", x.dims);
        return Err(Error::file(file, problem, ADVICE));
    };
    if *count == 0 {
        return Err(Error::file(file, "holds no images", ADVICE));
    }
    let labels = labels(file, variable(file, &variables, "y")?, *count)?;
    let pixels = planar(values, *height, *width);
    let part = listing::name(file);
    let name = format!("SVHN {}", part.split('_').next().unwrap_or(&part));
    Images::new(name, pixels, [3, *height, *width], labels, numbered(10))
}

fn variable<'a>(file: &Path, variables: &'a [Variable], name: &str) -> Result<&'a Variable> {
    variables
        .iter()
        .find(|v| v.name == name)
        .ok_or_else(|| Error::file(file, format!("holds no numeric variable `{name}`"), ADVICE))
}

fn labels(file: &Path, y: &Variable, count: usize) -> Result<Vec<u32>> {
    let values = match &y.values {
        Values::U8(values) => values.iter().map(|&v| f64::from(v)).collect(),
        Values::F64(values) => values.clone(),
    };
    if values.len() != count {
        let problem = format!("`y` has {} labels for {count} images", values.len());
        return Err(Error::file(file, problem, ADVICE));
    }
    if let Some(row) = values.iter().position(|v| v.fract() != 0.0 || !(1.0..=10.0).contains(v)) {
        let problem = format!("label {} of row {row} is not one of 1, …, 10", values[row]);
        return Err(Error::byte(file, y.start + row * y.item, problem, ADVICE));
    }
    Ok(values.into_iter().map(|v| v as u32 % 10).collect())
}

/// `[h, w, c, n]` column-major to `[n, c, h, w]` row-major: each plane is transposed.
fn planar(values: &[u8], height: usize, width: usize) -> Vec<u8> {
    let mut pixels = Vec::with_capacity(values.len());
    for plane in values.chunks_exact((height * width).max(1)) {
        for row in 0..height {
            pixels.extend((0..width).map(|column| plane[column * height + row]));
        }
    }
    pixels
}
