//! CIFAR-10 and CIFAR-100, binary version.
//!
//! ```text
//! cifar-10-batches-bin/{data_batch_1..5,test_batch}.bin   record = label u8, 3×32×32 u8
//!                      batches.meta.txt                   10 names, one a line
//! cifar-100-binary/{train,test}.bin                       record = coarse u8, fine u8, 3×32×32 u8
//!                  {fine,coarse}_label_names.txt          100 and 20 names
//! ```
//! A record's pixels are planar already: red, green, blue, each row by row.

use std::path::{Path, PathBuf};

use super::{Images, Part, unnamed};
use crate::{
    Error, Result,
    formats::bytes::{self, FETCH_AGAIN},
    formats::text,
};

const SIZE: [usize; 3] = [3, 32, 32];
const PIXELS: usize = 3 * 32 * 32;

/// Which of the two labels of CIFAR-100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Labels {
    /// 100 classes.
    #[default]
    Fine,
    /// 20 superclasses.
    Coarse,
}

/// How a record begins: how many classes each of its label bytes has, and which one counts.
#[derive(Debug, Clone, Copy)]
struct Record {
    classes: &'static [usize],
    label_at: usize,
}

/// How many records a file of the name has as its authors distribute it.
pub(crate) fn official_records(file_name: &str) -> usize {
    if file_name == "train.bin" { 50_000 } else { 10_000 }
}

/// How many whole records of CIFAR-10 (`label_bytes` = 1) or CIFAR-100 (2) a file of so many bytes has.
pub(crate) fn records(bytes: u64, label_bytes: usize) -> usize {
    bytes as usize / (label_bytes + PIXELS)
}

/// Reads one part of CIFAR-10; the training part is five files.
pub fn cifar10(folder: &Path, part: Part) -> Result<Images> {
    let files = match part {
        Part::Train => (1..=5).map(|i| folder.join(format!("data_batch_{i}.bin"))).collect(),
        Part::Test => vec![folder.join("test_batch.bin")],
    };
    let record = Record { classes: &[10], label_at: 0 };
    read(&format!("CIFAR-10 {}", part.name()), &files, record, &folder.join("batches.meta.txt"))
}

/// Reads one part of CIFAR-100 with its fine or its coarse labels.
pub fn cifar100(folder: &Path, part: Part, labels: Labels) -> Result<Images> {
    let files = [folder.join(format!("{}.bin", part.name()))];
    let (record, names) = match labels {
        Labels::Fine => (Record { classes: &[20, 100], label_at: 1 }, "fine_label_names.txt"),
        Labels::Coarse => (Record { classes: &[20, 100], label_at: 0 }, "coarse_label_names.txt"),
    };
    read(&format!("CIFAR-100 {}", part.name()), &files, record, &folder.join(names))
}

fn read(name: &str, files: &[PathBuf], record: Record, names: &Path) -> Result<Images> {
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    for file in files {
        append(file, record, &mut pixels, &mut labels)?;
    }
    Images::new(name, pixels, SIZE, labels, class_names(names, record.classes[record.label_at])?)
}

fn append(file: &Path, record: Record, pixels: &mut Vec<u8>, labels: &mut Vec<u32>) -> Result<()> {
    let content = bytes::read(file)?;
    let length = record.classes.len() + PIXELS;
    let whole = content.len() / length * length;
    if content.is_empty() || whole != content.len() {
        let problem = format!("{} bytes are not whole records of {length}", content.len());
        return Err(Error::byte(file, whole, problem, FETCH_AGAIN));
    }
    pixels.reserve(content.len());
    for (row, bytes) in content.chunks_exact(length).enumerate() {
        let (label_bytes, planes) = bytes.split_at(record.classes.len());
        if let Some(at) = (0..label_bytes.len()).find(|&at| usize::from(label_bytes[at]) >= record.classes[at]) {
            let problem = format!("label {} of record {row} is not below {}", label_bytes[at], record.classes[at]);
            let advice = "is this the binary version of the right data set? CIFAR-10 and CIFAR-100 records differ";
            return Err(Error::byte(file, row * length + at, problem, advice));
        }
        labels.push(label_bytes[record.label_at].into());
        pixels.extend_from_slice(planes);
    }
    Ok(())
}

/// The names in `file`, or `class 17` where there is no such file.
fn class_names(file: &Path, classes: usize) -> Result<Vec<String>> {
    if !file.exists() {
        return Ok(unnamed(classes));
    }
    let names = text::names(file)?;
    if names.len() != classes {
        let problem = format!("{} names for {classes} classes", names.len());
        return Err(Error::file(file, problem, "fetch it again, or remove it to number the classes"));
    }
    Ok(names)
}
