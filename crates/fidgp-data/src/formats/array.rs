//! One array of numbers with a name and a shape.

use std::path::PathBuf;

use fidgp_files::limits::CLASSES;

use crate::{Error, Result};

/// A named array in C order.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// The file it is from.
    pub file: PathBuf,
    /// The byte of the file where its numbers begin.
    pub start: usize,
    /// Its name: the file's for `.npy`, its own in `.safetensors`.
    pub name: String,
    /// Its size, the last dimension running fastest.
    pub shape: Vec<usize>,
    /// Its numbers.
    pub values: Values,
}

/// The numbers of an array, in the type they were stored in.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the types say it")]
pub enum Values {
    U8(Vec<u8>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    I64(Vec<i64>),
}

impl Array {
    /// The array as class labels.
    pub fn to_labels(&self) -> Result<Vec<u32>> {
        let advice = "give labels as uint8 or int64 [N], counted from 0 without gaps";
        let bad = |problem| Error::file(&self.file, problem, advice);
        if self.shape.len() != 1 {
            return Err(bad(format!("`{}` has shape {:?}", self.name, self.shape)));
        }
        match &self.values {
            Values::U8(values) => Ok(values.iter().map(|&v| v.into()).collect()),
            Values::I64(values) => {
                let most = i64::try_from(CLASSES.most()).unwrap_or(i64::MAX).min(i64::from(u32::MAX));
                if let Some(row) = values.iter().position(|v| !(0..most).contains(v)) {
                    let problem = format!("label {} of row {row} is not one of 0, …, {}", values[row], most - 1);
                    return Err(Error::byte(&self.file, self.start + row * size_of::<i64>(), problem, advice));
                }
                Ok(values.iter().map(|&v| v as u32).collect())
            }
            other => Err(bad(format!("`{}` is {}", self.name, other.kind()))),
        }
    }
}

macro_rules! little_endian {
    ($name:ident, $type:ty, $variant:ident) => {
        pub(crate) fn $name(data: &[u8]) -> Self {
            let (items, _) = data.as_chunks::<{ size_of::<$type>() }>();
            Self::$variant(items.iter().map(|&bytes| <$type>::from_le_bytes(bytes)).collect())
        }
    };
}

impl Values {
    little_endian!(f32_from, f32, F32);
    little_endian!(f64_from, f64, F64);
    little_endian!(i64_from, i64, I64);

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        match self {
            Self::U8(values) => values.len(),
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::I64(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type in words.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::U8(_) => "uint8",
            Self::F32(_) => "float32",
            Self::F64(_) => "float64",
            Self::I64(_) => "int64",
        }
    }

    /// Everything as `f64` (integers beyond 2⁵³ are rounded).
    pub fn to_f64(&self) -> Vec<f64> {
        match self {
            Self::U8(values) => values.iter().map(|&v| v.into()).collect(),
            Self::F32(values) => values.iter().map(|&v| v.into()).collect(),
            Self::F64(values) => values.clone(),
            Self::I64(values) => values.iter().map(|&v| v as f64).collect(),
        }
    }
}
