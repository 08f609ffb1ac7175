//! In which precision and where everything is computed, and how entries of the file become tensors there.

use tch::{Device, Kind, Tensor};

use super::error::{Result, VerifyError};
use super::node::Node;

/// The number format of the computation; the reference numbers are f64 in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// 64 bits: errors up to 10⁻⁹ pass.
    F64,
    /// 32 bits: errors up to 10⁻⁴ pass.
    F32,
}

impl Precision {
    /// The largest relative error that passes.
    pub fn bound(self) -> f64 {
        match self {
            Self::F64 => 1e-9,
            Self::F32 => 1e-4,
        }
    }

    /// libtorch's name for it.
    pub fn kind(self) -> Kind {
        match self {
            Self::F64 => Kind::Double,
            Self::F32 => Kind::Float,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub precision: Precision,
    pub device: Device,
}

impl Setting {
    pub fn kind(self) -> Kind {
        self.precision.kind()
    }

    /// The options of new tensors.
    pub fn options(self) -> (Kind, Device) {
        (self.kind(), self.device)
    }

    /// An input of any shape.
    pub fn tensor(self, node: &Node) -> Result<Tensor> {
        let array = node.array()?;
        if array.values.iter().any(|value| !value.is_finite()) {
            return Err(VerifyError::malformed(&node.path, "holds numbers that are not finite"));
        }
        Ok(Tensor::from_slice(&array.values).reshape(&array.shape).to_kind(self.kind()).to_device(self.device))
    }

    /// An input that must have this shape.
    pub fn shaped(self, node: &Node, shape: &[i64]) -> Result<Tensor> {
        let tensor = self.tensor(node)?;
        if tensor.size() == shape || tensor.numel() == 1 && shape.iter().product::<i64>() == 1 {
            return Ok(tensor.reshape(shape));
        }
        Err(VerifyError::malformed(&node.path, format!("has shape {:?}, expected {shape:?}", tensor.size())))
    }

    /// A matrix, with its rows and columns.
    pub fn matrix(self, node: &Node) -> Result<(Tensor, i64, i64)> {
        let tensor = self.tensor(node)?;
        match tensor.size()[..] {
            [rows, cols] => Ok((tensor, rows, cols)),
            ref other => Err(VerifyError::malformed(&node.path, format!("has shape {other:?}, expected a matrix"))),
        }
    }
}

/// A number computed outside libtorch, as a tensor.
pub(super) fn number(value: f64) -> Tensor {
    Tensor::from_slice(&[value]).reshape([0_i64; 0])
}
