//! MNIST and its kin: images and labels as a pair of idx files.

use std::path::{Path, PathBuf};

use super::{Images, Part, numbered};
pub use crate::formats::idx::{Idx, read};
use crate::{Error, Result, formats::bytes::FETCH_AGAIN, listing};

/// The classes of Fashion-MNIST.
pub const FASHION_NAMES: [&str; 10] =
    ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"];
/// The classes of notMNIST.
pub const NOTMNIST_NAMES: [&str; 10] = ["A", "B", "C", "D", "E", "F", "G", "H", "I", "J"];

/// The label files of MNIST, Fashion-MNIST and notMNIST alike.
const OFFICIAL_LABELS: [&str; 2] = ["train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte"];
const OFFICIAL_CLASSES: usize = 10;
/// Where the labels begin: after the magic number and one size.
const LABELS_START: usize = 8;

/// Reads one part of MNIST.
pub fn mnist(folder: &Path, part: Part) -> Result<Images> {
    folder_with_names("MNIST", folder, part, numbered(10))
}

/// Reads one part of Fashion-MNIST.
pub fn fashion_mnist(folder: &Path, part: Part) -> Result<Images> {
    folder_with_names("Fashion-MNIST", folder, part, FASHION_NAMES.map(String::from).into())
}

/// Reads one part of notMNIST in idx form.
pub fn notmnist(folder: &Path, part: Part) -> Result<Images> {
    folder_with_names("notMNIST", folder, part, NOTMNIST_NAMES.map(String::from).into())
}

/// Reads one part of any set in this layout; classes are numbered up to the highest label, which must be below 10 where
/// the files have the names that MNIST and its kin have.
pub fn folder(name: &str, folder: &Path, part: Part) -> Result<Images> {
    let [images, labels] = part_files(folder, part)?;
    let is_official = OFFICIAL_LABELS.iter().any(|known| listing::name(&labels).trim_end_matches(".gz") == *known);
    let most = if is_official { OFFICIAL_CLASSES } else { usize::from(u8::MAX) + 1 };
    paired(&format!("{name} {}", part.name()), &images, &labels, most, Vec::new())
}

fn folder_with_names(name: &str, folder: &Path, part: Part, class_names: Vec<String>) -> Result<Images> {
    let [images, labels] = part_files(folder, part)?;
    images_from(&format!("{name} {}", part.name()), &images, &labels, class_names)
}

/// Pairs an image file with a label file; without names, classes are numbered up to the highest label.
pub fn images_from(name: &str, images: &Path, labels: &Path, class_names: Vec<String>) -> Result<Images> {
    let most = if class_names.is_empty() { usize::from(u8::MAX) + 1 } else { class_names.len() };
    paired(name, images, labels, most, class_names)
}

fn paired(name: &str, images: &Path, labels: &Path, most: usize, mut class_names: Vec<String>) -> Result<Images> {
    let pictures = read(images)?;
    let classes = read(labels)?;
    let &[count, height, width] = &pictures.dims[..] else {
        let problem = format!("has size {:?}, not [N, height, width]", pictures.dims);
        return Err(Error::file(images, problem, "give the images (idx3), then the labels (idx1)"));
    };
    if classes.dims != [count] {
        let problem = format!("has size {:?} for {count} images", classes.dims);
        return Err(Error::file(labels, problem, "take both files from the same part of the set"));
    }
    if count == 0 {
        return Err(Error::file(images, "holds no images", FETCH_AGAIN));
    }
    check_labels(labels, &classes.data, most)?;
    if class_names.is_empty() {
        class_names = numbered(classes.data.iter().max().map_or(0, |&top| usize::from(top) + 1));
    }
    let labels = classes.data.into_iter().map(u32::from).collect();
    Images::new(name, pictures.data, [1, height, width], labels, class_names)
}

/// Names the first label that is not below `most`.
fn check_labels(file: &Path, labels: &[u8], most: usize) -> Result<()> {
    let Some(row) = labels.iter().position(|&label| usize::from(label) >= most) else { return Ok(()) };
    let problem = format!("label {} of row {row} is not below {most}", labels[row]);
    let advice = "MNIST, Fashion-MNIST and notMNIST have classes 0 to 9: fetch the file again, or give the right one";
    Err(Error::byte(file, LABELS_START + row, problem, advice))
}

/// The image file and the label file of a part: `train-images…idx3…` or `t10k-images…` (also `test-images…`).
pub(crate) fn part_files(folder: &Path, part: Part) -> Result<[PathBuf; 2]> {
    let prefixes: &[&str] = match part {
        Part::Train => &["train"],
        Part::Test => &["t10k", "test"],
    };
    let find = |what: &str, idx: &str| {
        let is_it = |name: &str| prefixes.iter().any(|p| name.contains(&format!("{p}-{what}"))) && name.contains(idx);
        listing::files(folder, is_it)?.into_iter().next().ok_or_else(|| {
            let problem = format!("no file `{}-{what}-{idx}-ubyte` in it", prefixes[0]);
            Error::file(folder, problem, "put the files there under their original names, gzipped or not")
        })
    };
    Ok([find("images", "idx3")?, find("labels", "idx1")?])
}
