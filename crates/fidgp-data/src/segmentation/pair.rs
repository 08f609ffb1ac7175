//! Pictures with a mask each, decoded when asked for.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::Mask;
use crate::{Error, Picture, Result, digest::sha256, listing};

/// A picture and its mask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The picture.
    pub picture: PathBuf,
    /// The mask.
    pub mask: PathBuf,
}

/// How a mask file becomes class ids.
#[derive(Debug, Clone, PartialEq)]
pub enum MaskReading {
    /// By the index of each pixel; `None` may not occur.
    Indices(Box<[Option<u8>; 256]>),
    /// By the colour of each pixel.
    Colours(HashMap<[u8; 3], u8>),
}

impl MaskReading {
    /// Reads a mask.
    pub fn read(&self, file: &Path) -> Result<Mask> {
        match self {
            Self::Indices(table) => Mask::from_indices(file, table),
            Self::Colours(table) => Mask::from_colours(file, table),
        }
    }
}

/// A list of pairs with the classes of their masks.
#[derive(Debug, Clone, PartialEq)]
pub struct PairSet {
    /// Names of the classes; their number is the number of classes.
    pub class_names: Vec<String>,
    /// How masks are read.
    pub reading: MaskReading,
    /// The pairs.
    pub pairs: Vec<Pair>,
}

impl PairSet {
    /// How many pairs there are.
    pub fn rows(&self) -> usize {
        self.pairs.len()
    }

    /// The SHA-256 of the files' names, in order: what is in them is not looked at, nor where they lie.
    pub fn fingerprint(&self) -> String {
        let name = |pair: &Pair| listing::name(&pair.picture) + "\t" + &listing::name(&pair.mask) + "\n";
        sha256(self.pairs.iter().map(name).collect::<String>().as_bytes())
    }

    /// The rows named, in the order named.
    ///
    /// # Errors
    /// When a row is not there.
    pub fn select(&self, rows: &[usize]) -> Result<Self> {
        let pair = |&row: &usize| {
            self.pairs.get(row).cloned().ok_or_else(|| {
                let problem = format!("pair {row} was asked for, there are {}", self.rows());
                Error::value("segmentation", problem, "use a split that was made for this set")
            })
        };
        Ok(Self { pairs: rows.iter().map(pair).collect::<Result<_>>()?, ..self.clone() })
    }

    /// Decodes a pair.
    ///
    /// # Errors
    /// When a file is damaged, or the mask has another size than the picture; the message names it.
    pub fn load(&self, row: usize) -> Result<(Picture, Mask)> {
        let Pair { picture: file, mask: mask_file } = &self.select(&[row])?.pairs[0];
        let (picture, mask) = (Picture::open(file)?, self.reading.read(mask_file)?);
        if picture.size() != mask.size {
            let ([width, height], [w, h]) = (picture.size(), mask.size);
            let problem = format!("is {w}×{h}, its picture {} is {width}×{height}", file.display());
            return Err(Error::file(mask_file, problem, "a mask has a class for every pixel of its picture"));
        }
        Ok((picture, mask))
    }
}
