//! A Kronecker product for each layer, from the moments of its Jacobians.

use std::collections::HashMap;

use tch::{Kind, Tensor};

use super::carried::Carried;
use super::dense::ADVICE;
use super::structure::{Gather, Others, Structure, of_shape, stored};
use super::{Jacobian, Precision, Tangent};
use crate::linalg::check_finite;
use crate::{Error, Result};

/// `H ≈ (Σ Φ Φᵀ) ⊗ (Σ ΦᵀΦ) / Σ‖Φ‖²` for each layer, in the eigenbases of both sides; Φ are the rows `[R, C]` of `Λ^½ J`.
///
/// The trace is that of H. It is exact where the signals g of all examples are one, as those of a last linear layer under
/// constant noise are.
#[derive(Debug)]
pub struct KroneckerPosterior {
    layers: Vec<Sides>,
    eigenvalues: Tensor,
    precision: Precision,
}

#[derive(Debug)]
struct Sides {
    /// Eigenvectors of `Σ Φ Φᵀ`, as columns. `[R, R]`
    row: Tensor,
    /// Eigenvectors of `Σ ΦᵀΦ`, as columns. `[C, C]`
    col: Tensor,
    /// Eigenvalues of H. `[R, C]`
    eigenvalues: Tensor,
}

impl Sides {
    fn check(&self, place: usize, [rows, cols]: [i64; 2]) -> Result<()> {
        of_shape(&format!("{place}.row"), &self.row, &[rows, rows])?;
        of_shape(&format!("{place}.col"), &self.col, &[cols, cols])?;
        of_shape(&format!("{place}.eigenvalues"), &self.eigenvalues, &[rows, cols])
    }
}

/// Takes up the moments of both sides.
pub struct KroneckerGather {
    names: Vec<String>,
    /// `Σ Φ Φᵀ` and `Σ ΦᵀΦ`.
    moments: Vec<(Tensor, Tensor)>,
}

impl KroneckerGather {
    pub fn new(tangent: &Tangent) -> Self {
        let layers = tangent.layers();
        let moments = |layer: &Carried| {
            let [row, col] =
                tangent.sides(layer).map(|side| Tensor::zeros([side; 2], (Kind::Double, layer.col.device())));
            (row, col)
        };
        Self {
            names: layers.iter().map(|layer| layer.name.clone()).collect(),
            moments: layers.iter().map(moments).collect(),
        }
    }
}

impl Gather for KroneckerGather {
    fn add(&mut self, rows: &Jacobian) -> Result<()> {
        for (layer, (row, col)) in rows.layers.iter().zip(&mut self.moments) {
            let phi = layer.flatten(0, 1); // [M, R, C]
            let tall = phi.flatten(0, 1); // [M·R, C]
            let wide = phi.permute([1, 0, 2]).flatten(1, 2); // [R, M·C]
            *row += wide.matmul(&wide.mt()).to_kind(Kind::Double);
            *col += tall.mt().matmul(&tall).to_kind(Kind::Double);
        }
        Ok(())
    }

    fn join(&mut self, others: &dyn Others) -> Result<()> {
        for (row, col) in &mut self.moments {
            (*row, *col) = (others.sum(row)?, others.sum(col)?);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Box<dyn Structure>> {
        let side = |name: &str, moment: &Tensor| -> Result<(Tensor, Tensor)> {
            check_finite(&format!("{name}: moments of the Jacobian"), moment, ADVICE)?;
            let (values, vectors) = moment.f_linalg_eigh("L")?;
            Ok((values.clamp_min(0.0), vectors))
        };
        let sides = |(name, (row, col)): (&String, &(Tensor, Tensor))| -> Result<Sides> {
            let trace = col.trace().double_value(&[]).max(f64::MIN_POSITIVE);
            let ((g, row), (a, col)) = (side(name, row)?, side(name, col)?);
            Ok(Sides { row, col, eigenvalues: g.outer(&a) / trace })
        };
        let layers = self.names.iter().zip(&self.moments).map(sides).collect::<Result<Vec<_>>>()?;
        Ok(Box::new(KroneckerPosterior::with(layers)))
    }
}

impl KroneckerPosterior {
    pub(super) const KIND: &'static str = "kronecker";

    fn with(layers: Vec<Sides>) -> Self {
        let all: Vec<_> = layers.iter().map(|sides| sides.eigenvalues.flatten(0, 1)).collect();
        Self { layers, eigenvalues: Tensor::cat(&all, 0), precision: Precision::default() }
    }

    pub(super) fn restore(tensors: &HashMap<String, Tensor>, layers: usize) -> Result<Self> {
        let sides = |place: usize| -> Result<Sides> {
            let side = |name: &str| stored(tensors, &format!("{place}.{name}"), 2);
            let sides = Sides { row: side("row")?, col: side("col")?, eigenvalues: side("eigenvalues")? };
            let [rows, cols] = [sides.row.size()[0], sides.col.size()[0]];
            sides.check(place, [rows, cols]).map(|()| sides)
        };
        Ok(Self::with((0..layers).map(sides).collect::<Result<_>>()?))
    }
}

impl KroneckerPosterior {
    fn of_layers(&self, layers: usize) -> Result<()> {
        if layers == self.layers.len() {
            return Ok(());
        }
        Err(Error::setting("layers", layers, format!("the fit was of {}", self.layers.len())))
    }
}

impl Structure for KroneckerPosterior {
    fn covariance(&self, jacobian: &Jacobian) -> Result<Tensor> {
        self.of_layers(jacobian.layers.len())?;
        let Precision { prior, curvature } = self.precision;
        let own = |(layer, sides): (&Tensor, &Sides)| {
            let phi = layer.to_kind(Kind::Double);
            let turned = sides.row.mt().matmul(&phi).matmul(&sides.col); // [N, K, R, C]
            let half = (turned / (&sides.eigenvalues * curvature + prior).sqrt()).flatten(2, 3);
            half.matmul(&half.mt())
        };
        Ok(jacobian.layers.iter().zip(&self.layers).map(own).sum())
    }

    fn eigenvalues(&self) -> &Tensor {
        &self.eigenvalues
    }

    fn set(&mut self, precision: Precision) -> Result<()> {
        self.precision = precision;
        Ok(())
    }

    fn tensors(&self) -> Vec<(String, Tensor)> {
        let named = |(place, sides): (usize, &Sides)| {
            let all = [("row", &sides.row), ("col", &sides.col), ("eigenvalues", &sides.eigenvalues)];
            all.map(|(name, tensor)| (format!("{place}.{name}"), tensor.shallow_clone()))
        };
        self.layers.iter().enumerate().flat_map(named).collect()
    }

    fn share_tensors(&self) -> Box<dyn Structure> {
        let share = |sides: &Sides| Sides {
            row: sides.row.shallow_clone(),
            col: sides.col.shallow_clone(),
            eigenvalues: sides.eigenvalues.shallow_clone(),
        };
        let layers = self.layers.iter().map(share).collect();
        Box::new(Self { layers, eigenvalues: self.eigenvalues.shallow_clone(), precision: self.precision })
    }

    fn check_sides(&self, sides: &[[i64; 2]]) -> Result<()> {
        self.of_layers(sides.len())?;
        self.layers.iter().zip(sides).enumerate().try_for_each(|(place, (layer, sides))| layer.check(place, *sides))
    }

    fn kind(&self) -> &'static str {
        Self::KIND
    }
}
