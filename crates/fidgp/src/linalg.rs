//! Batched jittered Cholesky.
