//! Labelled images of equal size, as bytes.

use crate::{Error, Result, digest::sha256, formats::bytes::product};

/// Which part of a data set, as its authors cut it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// For fitting.
    Train,
    /// For reporting.
    Test,
}

impl Part {
    /// `train` or `test`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Test => "test",
        }
    }
}

/// Images of one size with a class each; every label is below the number of class names.
///
/// # Shapes
/// `pixels` is `[rows, channels, height, width]`, row-major (planar), values 0–255; `labels` is `[rows]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Images {
    name: String,
    pixels: Vec<u8>,
    size: [usize; 3],
    labels: Vec<u32>,
    class_names: Vec<String>,
}

/// Mean and standard deviation of each channel, on the scale where 255 is 1.
#[derive(Debug, Clone, PartialEq)]
pub struct ChannelStatistics {
    /// `[channels]`
    pub mean: Vec<f64>,
    /// `[channels]`
    pub sd: Vec<f64>,
}

impl Images {
    /// Checks sizes and labels; `size` is `[channels, height, width]`.
    pub fn new(
        name: impl Into<String>,
        pixels: Vec<u8>,
        size: [usize; 3],
        labels: Vec<u32>,
        class_names: Vec<String>,
    ) -> Result<Self> {
        let images = Self { name: name.into(), pixels, size, labels, class_names };
        images.check_size()?;
        images.check_labels()?;
        Ok(images)
    }

    fn check_size(&self) -> Result<()> {
        let [c, h, w] = self.size;
        let wanted = product(&[c, h, w, self.rows()]);
        if self.size.iter().all(|&side| side > 0) && wanted == Some(self.pixels.len()) {
            return Ok(());
        }
        let (bytes, rows) = (self.pixels.len(), self.rows());
        let problem = format!("{bytes} bytes do not make {rows} images of {c}×{h}×{w}");
        Err(Error::value(&self.name, problem, "give channels × height × width bytes and one label per image"))
    }

    fn check_labels(&self) -> Result<()> {
        let classes = self.class_names.len();
        match self.labels.iter().position(|&label| label as usize >= classes) {
            None => Ok(()),
            Some(row) => {
                let problem = format!("row {row} has label {}, there are {classes} classes", self.labels[row]);
                Err(Error::value(&self.name, problem, "count labels from 0 and name every class"))
            }
        }
    }

    /// The name of the set.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many images there are.
    pub fn rows(&self) -> usize {
        self.labels.len()
    }

    /// `[channels, height, width]`
    pub fn size(&self) -> [usize; 3] {
        self.size
    }

    /// All pixels, `[rows, channels, height, width]`.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// One image, `[channels, height, width]`.
    ///
    /// # Panics
    /// As a slice does, where `row` is not below [`rows`](Self::rows).
    pub fn image(&self, row: usize) -> &[u8] {
        let bytes = self.size.iter().product::<usize>();
        &self.pixels[row * bytes..(row + 1) * bytes]
    }

    /// The class of every image, `[rows]`.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// The names of the classes; their number is the number of classes.
    pub fn class_names(&self) -> &[String] {
        &self.class_names
    }

    /// The same images with other classes, of which every label must be one.
    pub fn with_class_names(self, class_names: Vec<String>) -> Result<Self> {
        let images = Self { class_names, ..self };
        images.check_labels()?;
        Ok(images)
    }

    /// The rows named, in the order named; a row may be named twice.
    pub fn select(&self, rows: &[usize]) -> Result<Self> {
        if let Some(row) = rows.iter().find(|&&row| row >= self.rows()) {
            let problem = format!("row {row} was asked for, there are {}", self.rows());
            return Err(Error::value(&self.name, problem, "use a split that was made for this set"));
        }
        let mut pixels = Vec::with_capacity(rows.len() * self.size.iter().product::<usize>());
        for &row in rows {
            pixels.extend_from_slice(self.image(row));
        }
        let labels = rows.iter().map(|&row| self.labels[row]).collect();
        Ok(Self { name: self.name.clone(), pixels, size: self.size, labels, class_names: self.class_names.clone() })
    }

    /// How many images each class has, `[classes]`.
    pub fn class_counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.class_names.len()];
        self.labels.iter().for_each(|&label| counts[label as usize] += 1);
        counts
    }

    /// Mean and standard deviation of each channel over all images.
    pub fn channel_statistics(&self) -> ChannelStatistics {
        let [channels, height, width] = self.size;
        let planes = |channel| self.pixels.chunks_exact(height * width).skip(channel).step_by(channels);
        let (mean, sd) = (0..channels).map(|channel| ByteSums::of(planes(channel)).moments()).unzip();
        ChannelStatistics { mean, sd }
    }

    /// SHA-256 of the pixels, planar, in row order.
    pub fn sha256(&self) -> String {
        sha256(&self.pixels)
    }

    /// The same of pixels and labels.
    pub fn fingerprint(&self) -> String {
        let labels = self.labels.iter().flat_map(|label| label.to_le_bytes());
        sha256(&self.sha256().into_bytes().into_iter().chain(labels).collect::<Vec<_>>())
    }
}

/// `class 0`, `class 1`, … for classes whose names are not known.
pub fn unnamed(classes: usize) -> Vec<String> {
    (0..classes).map(|class| format!("class {class}")).collect()
}

/// `0`, `1`, … as names for classes that have none.
pub(crate) fn numbered(classes: usize) -> Vec<String> {
    (0..classes).map(|class| class.to_string()).collect()
}

/// How many bytes there were, their sum and the sum of their squares: exact, in any order.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ByteSums {
    count: u128,
    sum: u128,
    squares: u128,
}

impl ByteSums {
    pub fn of<'a>(planes: impl Iterator<Item = &'a [u8]>) -> Self {
        planes.fold(Self::default(), |sums, plane| {
            let sum = plane.iter().map(|&v| u64::from(v)).sum::<u64>().into();
            let squares = plane.iter().map(|&v| u64::from(v) * u64::from(v)).sum::<u64>().into();
            sums.and(Self { count: plane.len() as u128, sum, squares })
        })
    }

    pub fn and(self, other: Self) -> Self {
        Self { count: self.count + other.count, sum: self.sum + other.sum, squares: self.squares + other.squares }
    }

    /// Mean and population standard deviation over 255; 0 where there are no bytes.
    pub fn moments(self) -> (f64, f64) {
        let Self { count, sum, squares } = self;
        if count == 0 {
            return (0.0, 0.0);
        }
        // count² · variance = count · Σv² − (Σv)², exact in integers
        let spread = (count * squares - sum * sum) as f64;
        (sum as f64 / count as f64 / 255.0, spread.sqrt() / count as f64 / 255.0)
    }
}
