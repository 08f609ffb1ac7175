//! The methods FiD-GP is compared with, one file for each: a weight, a head, or a wrapper of whole networks.

pub mod batch_ensemble;
pub mod ddu;
pub mod dropout;
pub mod mean_field;
pub mod members;
pub mod slot;
pub mod sngp;
pub mod spectral;
pub mod svgp;

use tch::Tensor;

use crate::Result;

/// Refuses a tensor of the wrong shape, so that libtorch never has to.
fn expect_shape(what: &str, tensor: &Tensor, expected: &[i64]) -> Result<()> {
    if tensor.size() == expected {
        return Ok(());
    }
    Err(fidgp::Error::shape(what, &tensor.size(), format!("{expected:?}")).into())
}

/// Rows and columns of what must be a matrix.
fn matrix(what: &str, tensor: &Tensor) -> Result<(i64, i64)> {
    match tensor.size()[..] {
        [rows, cols] if rows > 0 && cols > 0 => Ok((rows, cols)),
        ref other => Err(fidgp::Error::shape(what, other, "a matrix [rows, columns] that is not empty").into()),
    }
}
