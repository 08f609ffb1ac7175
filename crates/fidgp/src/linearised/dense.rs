//! The exact covariance, through whichever is smaller: the examples' kernel or the matrix of the dimensions.

use std::collections::HashMap;

use tch::{Device, Kind, Tensor};

use super::structure::{Gather, MOST_ROWS, Others, Structure, dimensions, of_shape, of_size, stored};
use super::{Jacobian, Precision};
use crate::linalg::{self, Check, Jitter, Named, check_finite, solve_lower};
use crate::{Error, Result};

/// No jitter unless a matrix needs it: here it would be uncertainty that is not there.
const JITTER: Jitter = Jitter { relative: 0.0, escalations: 8 };
pub(super) const ADVICE: &str = "The outputs or gradients of the trained network are not finite";

/// The covariance with nothing left out.
#[derive(Debug)]
pub struct DensePosterior {
    /// `Φ = Λ^½ J` of all examples `[M, D]`, or H itself `[D, D]`.
    held: Tensor,
    /// Whether it is Φ.
    dual: bool,
    eigenvalues: Tensor,
    precision: Precision,
    /// chol(δI + sΦΦᵀ) or chol(δI + sH).
    lower: Tensor,
}

/// Takes up Φ, or H where D is smaller.
pub struct DenseGather {
    parts: Vec<Tensor>,
    moment: Option<Tensor>,
}

impl DenseGather {
    pub fn new(rows: i64, size: i64) -> Self {
        let moment = (size <= rows).then(|| Tensor::zeros([size, size], (Kind::Double, Device::Cpu)));
        Self { parts: Vec::new(), moment }
    }
}

impl Gather for DenseGather {
    fn add(&mut self, rows: &Jacobian) -> Result<()> {
        let flat = rows.flat().flatten(0, 1);
        check_finite("Jacobian of the training data", &flat, ADVICE)?;
        match &mut self.moment {
            Some(moment) => *moment = moment.to_device(flat.device()) + flat.mt().matmul(&flat),
            None => self.parts.push(flat),
        }
        Ok(())
    }

    fn join(&mut self, others: &dyn Others) -> Result<()> {
        match &mut self.moment {
            Some(moment) => *moment = others.sum(moment)?,
            None => self.parts = vec![others.rows(&Tensor::f_cat(&self.parts, 0)?)?],
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Box<dyn Structure>> {
        let (held, dual) = match self.moment {
            Some(moment) => (moment, false),
            None => (Tensor::f_cat(&self.parts, 0)?, true),
        };
        let gram = if dual { held.matmul(&held.mt()) } else { held.shallow_clone() };
        let eigenvalues = gram.f_linalg_eigvalsh("L")?.clamp_min(0.0);
        Ok(Box::new(DensePosterior::with(held, dual, eigenvalues, Precision::default())?))
    }
}

impl DensePosterior {
    pub(super) const KIND: &'static str = "dense";

    fn with(held: Tensor, dual: bool, eigenvalues: Tensor, precision: Precision) -> Result<Self> {
        let gram = if dual { held.matmul(&held.mt()) } else { held.shallow_clone() };
        let Precision { prior, curvature } = precision;
        let matrix = gram * curvature + Tensor::eye(eigenvalues.size()[0], (Kind::Double, held.device())) * prior;
        let name = format!("linearised posterior.{}", if dual { "examples' kernel" } else { "precision" });
        let lower = linalg::cholesky(&[Named::one(name, &matrix)], JITTER, Check::Now)?.remove(0);
        Ok(Self { held, dual, eigenvalues, precision, lower })
    }

    pub(super) fn restore(tensors: &HashMap<String, Tensor>) -> Result<Self> {
        let dual = tensors.contains_key("features");
        let held = stored(tensors, if dual { "features" } else { "curvature" }, 2)?;
        let eigenvalues = stored(tensors, "eigenvalues", 1)?;
        let [rows, cols] = [held.size()[0], held.size()[1]];
        if rows > MOST_ROWS || (!dual && rows != cols) {
            let expected = format!("at most {MOST_ROWS} rows, and as many columns where it is a curvature");
            return Err(Error::shape("linearised posterior", &held.size(), expected));
        }
        of_shape("eigenvalues", &eigenvalues, &[rows])?;
        Self::with(held, dual, eigenvalues, Precision::default())
    }
}

impl Structure for DensePosterior {
    fn covariance(&self, jacobian: &Jacobian) -> Result<Tensor> {
        let flat = jacobian.flat(); // [N, K, D]
        of_size(&flat, self.held.size()[1])?;
        let [n, k] = jacobian.sizes();
        let side = flat.flatten(0, 1); // [N·K, D]
        let outer = |half: &Tensor| half.mt().view([n, k, -1]).matmul(&half.mt().view([n, k, -1]).mt());
        if self.dual {
            // (1/δ)(JJᵀ − s JΦᵀ(δI + sΦΦᵀ)⁻¹ΦJᵀ)
            let half = solve_lower(&self.lower, &self.held.matmul(&side.mt())); // [M, N·K]
            return Ok((flat.matmul(&flat.mt()) - outer(&half) * self.precision.curvature) / self.precision.prior);
        }
        Ok(outer(&solve_lower(&self.lower, &side.mt())))
    }

    fn eigenvalues(&self) -> &Tensor {
        &self.eigenvalues
    }

    fn set(&mut self, precision: Precision) -> Result<()> {
        let again = Self::with(self.held.shallow_clone(), self.dual, self.eigenvalues.shallow_clone(), precision)?;
        *self = again;
        Ok(())
    }

    fn tensors(&self) -> Vec<(String, Tensor)> {
        let held = if self.dual { "features" } else { "curvature" };
        vec![(held.to_owned(), self.held.shallow_clone()), ("eigenvalues".to_owned(), self.eigenvalues.shallow_clone())]
    }

    fn share_tensors(&self) -> Box<dyn Structure> {
        Box::new(Self {
            held: self.held.shallow_clone(),
            dual: self.dual,
            eigenvalues: self.eigenvalues.shallow_clone(),
            precision: self.precision,
            lower: self.lower.shallow_clone(),
        })
    }

    fn check_sides(&self, sides: &[[i64; 2]]) -> Result<()> {
        of_shape("linearised posterior", &self.held, &[self.held.size()[0], dimensions(sides)])
    }

    fn kind(&self) -> &'static str {
        Self::KIND
    }
}
