//! Open Inference Protocol v2, as KServe and Triton speak it: JSON, and tensors as bytes behind it.

mod binary;
mod control;
mod data;
mod infer;
mod metadata;
mod outputs;
mod scalars;

pub use binary::{JSON_LENGTH, Parts, join, split};
pub use control::{IndexRequest, check_control};
pub use data::{Data, Datatype};
pub use infer::{InferRequest, RequestTensor, RequestedOutput, check_count, finite, items, level, options, too_many};
pub use metadata::{ModelMetadata, ServerMetadata, TensorMetadata, metadata};
pub use outputs::{Wanted, base64, respond, wanted};
pub use scalars::Scalar;

/// A request that cannot be answered; the words are for who sent it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadRequest(pub String);

impl BadRequest {
    /// With these words.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}
