//! The leading directions of the training data's Jacobians.

use std::collections::HashMap;

use tch::{Kind, Tensor};

use super::dense::ADVICE;
use super::structure::{Gather, Others, Structure, dimensions, of_shape, of_size, stored};
use super::{Jacobian, Precision};
use crate::Result;
use crate::linalg::check_finite;

/// `H ≈ B diag(h) Bᵀ` with orthonormal columns of B: `JΣJᵀ = Σ_i (J·b_i)²/(δ + s h_i) + ‖(I − BBᵀ)J‖²/δ`. What no direction
/// explains keeps the prior's variance.
#[derive(Debug)]
pub struct LowRankPosterior {
    /// B, as rows. `[rank, D]`
    basis: Tensor,
    /// h, largest first. `[rank]`
    eigenvalues: Tensor,
    share: f64,
    precision: Precision,
}

/// Takes up rows in lots, and of each lot and what was there before keeps the leading directions: exact where the rank of H
/// is not larger than the kept one.
pub struct LowRankGather {
    rank: i64,
    size: i64,
    /// `√h_i b_i`, and rows that are not yet merged with them.
    held: Vec<Tensor>,
    rows: i64,
    trace: f64,
}

impl LowRankGather {
    pub fn new(rank: i64, size: i64) -> Self {
        Self { rank, size, held: Vec::new(), rows: 0, trace: 0.0 }
    }

    /// Directions and eigenvalues of what is held, `[r, D]` and `[r]`, largest first. A direction that is lost in the
    /// rounding of the largest is none.
    fn leading(&self) -> Result<(Tensor, Tensor)> {
        let all = Tensor::f_cat(&self.held, 0)?; // [m, D]
        let (values, vectors) = all.matmul(&all.mt()).f_linalg_eigh("L")?;
        let (values, vectors) = (values.flip([0]), vectors.flip([1]));
        let floor = values.max().double_value(&[]) * 1e-14;
        let sound = values.gt(floor).sum(Kind::Int64).int64_value(&[]).min(self.rank).max(1);
        let (values, vectors) = (values.narrow(0, 0, sound).clamp_min(f64::MIN_POSITIVE), vectors.narrow(1, 0, sound));
        let basis = vectors.mt().matmul(&all) / values.sqrt().unsqueeze(1);
        Ok((basis, values))
    }

    fn merge(&mut self) -> Result<()> {
        let (basis, values) = self.leading()?;
        self.rows = values.size()[0];
        self.held = vec![basis * values.sqrt().unsqueeze(1)];
        Ok(())
    }
}

impl Gather for LowRankGather {
    fn add(&mut self, rows: &Jacobian) -> Result<()> {
        let flat = rows.flat().flatten(0, 1);
        check_finite("Jacobian of the training data", &flat, ADVICE)?;
        self.trace += flat.square().sum(Kind::Double).double_value(&[]);
        for part in flat.split(self.rank.max(64), 0) {
            self.rows += part.size()[0];
            self.held.push(part);
            if self.rows > 2 * self.rank.max(64) {
                self.merge()?;
            }
        }
        Ok(())
    }

    /// The leading directions of everybody's leading ones: what is left out is left out by each.
    fn join(&mut self, others: &dyn Others) -> Result<()> {
        let all = others.rows(&Tensor::f_cat(&self.held, 0)?)?;
        self.trace = others.sum(&Tensor::from_slice(&[self.trace]).to_device(all.device()))?.double_value(&[0]);
        (self.rows, self.held) = (all.size()[0], vec![all]);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Box<dyn Structure>> {
        let (basis, eigenvalues) = if self.held.is_empty() {
            let empty = |shape: &[i64]| Tensor::zeros(shape, (Kind::Double, tch::Device::Cpu));
            (empty(&[0, self.size]), empty(&[0]))
        } else {
            self.leading()?
        };
        let share = eigenvalues.sum(Kind::Double).double_value(&[]) / self.trace.max(f64::MIN_POSITIVE);
        Ok(Box::new(LowRankPosterior { basis, eigenvalues, share, precision: Precision::default() }))
    }
}

impl LowRankPosterior {
    pub(super) const KIND: &'static str = "low-rank";

    pub(super) fn restore(tensors: &HashMap<String, Tensor>) -> Result<Self> {
        let share = stored(tensors, "share", 0)?.double_value(&[]);
        let (basis, eigenvalues) = (stored(tensors, "basis", 2)?, stored(tensors, "eigenvalues", 1)?);
        of_shape("eigenvalues", &eigenvalues, &[basis.size()[0]])?;
        Ok(Self { basis, eigenvalues, share, precision: Precision::default() })
    }
}

impl Structure for LowRankPosterior {
    fn covariance(&self, jacobian: &Jacobian) -> Result<Tensor> {
        let flat = jacobian.flat(); // [N, K, D]
        of_size(&flat, self.basis.size()[1])?;
        let Precision { prior, curvature } = self.precision;
        let along = flat.matmul(&self.basis.mt()); // [N, K, rank]
        let unexplained = flat - along.matmul(&self.basis);
        let explained = along / (&self.eigenvalues * curvature + prior).sqrt();
        Ok(unexplained.matmul(&unexplained.mt()) / prior + explained.matmul(&explained.mt()))
    }

    fn eigenvalues(&self) -> &Tensor {
        &self.eigenvalues
    }

    fn set(&mut self, precision: Precision) -> Result<()> {
        self.precision = precision;
        Ok(())
    }

    fn tensors(&self) -> Vec<(String, Tensor)> {
        let own = [("basis", &self.basis), ("eigenvalues", &self.eigenvalues), ("share", &Tensor::from(self.share))];
        own.map(|(name, tensor)| (name.to_owned(), tensor.shallow_clone())).into()
    }

    fn share_tensors(&self) -> Box<dyn Structure> {
        let [basis, eigenvalues] = [&self.basis, &self.eigenvalues].map(Tensor::shallow_clone);
        Box::new(Self { basis, eigenvalues, share: self.share, precision: self.precision })
    }

    fn check_sides(&self, sides: &[[i64; 2]]) -> Result<()> {
        of_shape("basis", &self.basis, &[self.basis.size()[0], dimensions(sides)])
    }

    fn kind(&self) -> &'static str {
        Self::KIND
    }

    fn share(&self) -> f64 {
        self.share
    }
}
