//! Distances of features from those of the classes.

use std::collections::HashMap;

use tch::{Kind, Tensor};

use super::dense::ADVICE;
use super::structure::{Gather, Others, Structure, of_shape, stored};
use super::{Directions, Jacobian, Precision, Tangent};
use crate::linalg::check_finite;
use crate::{Error, Result};

/// Readouts quadratic in features that are centred at the classes an input may be of: their variance is `d(x)²` with
///
/// `d(x) = Σ_layers Σ_k p_k(x) (φ − μ_k)ᵀ(δI + sS)⁻¹(φ − μ_k)`, `S = Σ_n Σ_k p_nk (φ_n − μ_k)(φ_n − μ_k)ᵀ`,
///
/// φ the features of a layer, p the network's own probabilities, and S in units of its mean eigenvalue for each example, so
/// that all layers count alike. A class is pulled towards the mean of all by one example. Networks of numbers have one class.
#[derive(Debug)]
pub struct ClassesPosterior {
    layers: Vec<Scatter>,
    eigenvalues: Tensor,
    precision: Precision,
}

#[derive(Debug)]
struct Scatter {
    /// Eigenvectors of S as columns, over the root of the unit. `[C, C]`
    basis: Tensor,
    /// Eigenvalues of S. `[C]`
    eigenvalues: Tensor,
    /// μ in this basis. `[K, C]`
    centres: Tensor,
}

impl Scatter {
    /// `Σ_k p_k ‖φ − μ_k‖²` in the metric. `[N, C]`, `[N, K]` → `[N]`
    fn distance(&self, features: &Tensor, shares: &Tensor, Precision { prior, curvature }: Precision) -> Tensor {
        let weights = (&self.eigenvalues * curvature + prior).reciprocal(); // [C]
        let turned = features.matmul(&self.basis); // [N, C]
        let to_mean = &turned - shares.matmul(&self.centres);
        // Σ p(y − m)² = (y − Σpm)² + Σpm² − (Σpm)²
        let spread = shares.matmul(&self.centres.square()) - shares.matmul(&self.centres).square();
        (to_mean.square() + spread.clamp_min(0.0)).matmul(&weights)
    }

    fn check(&self, place: usize, cols: i64, classes: i64) -> Result<()> {
        of_shape(&format!("{place}.basis"), &self.basis, &[cols, cols])?;
        of_shape(&format!("{place}.eigenvalues"), &self.eigenvalues, &[cols])?;
        of_shape(&format!("{place}.centres"), &self.centres, &[classes, cols])
    }

    fn tensors(&self) -> [(&'static str, &Tensor); 3] {
        [("basis", &self.basis), ("eigenvalues", &self.eigenvalues), ("centres", &self.centres)]
    }
}

/// Takes up the moments of every layer's features, of all examples and of each class's.
pub struct ClassesGather {
    names: Vec<String>,
    examples: f64,
    /// `Σ_n p_nk`. `[K]`
    counts: Option<Tensor>,
    /// `Σ φφᵀ` and `Σ_n p_nk φ_n`. `[C, C]`, `[K, C]`
    moments: Vec<(Tensor, Tensor)>,
}

impl ClassesGather {
    pub fn new(tangent: &Tangent) -> Result<Self> {
        if tangent.directions != Directions::Features {
            let why = "is for features alone: use posterior.directions = \"features\", or another structure";
            return Err(Error::setting("structure", ClassesPosterior::KIND, why));
        }
        let names = tangent.layers().iter().map(|layer| layer.name.clone()).collect();
        Ok(Self { names, examples: 0.0, counts: None, moments: Vec::new() })
    }
}

/// What each class has of every example; all of it where there are none. `[N, K]`
fn shares(jacobian: &Jacobian) -> Tensor {
    let none = |layer: &Tensor| Tensor::ones([layer.size()[0], 1], (Kind::Double, layer.device()));
    jacobian.shares.as_ref().map_or_else(|| none(&jacobian.layers[0]), |shares| shares.to_kind(Kind::Double))
}

/// `[N, 1, 1, C]` → `[N, C]`, in f64
fn features(layer: &Tensor) -> Tensor {
    layer.flatten(1, 3).to_kind(Kind::Double)
}

impl Gather for ClassesGather {
    fn add(&mut self, rows: &Jacobian) -> Result<()> {
        let shares = shares(rows);
        self.examples += shares.size()[0] as f64;
        let counts = shares.sum_dim_intlist(0, false, Kind::Double);
        self.counts = Some(self.counts.as_ref().map_or_else(|| counts.shallow_clone(), |sum| sum + &counts));
        for (place, layer) in rows.layers.iter().enumerate() {
            let phi = features(layer);
            let (second, first) = (phi.mt().matmul(&phi), shares.mt().matmul(&phi));
            match self.moments.get_mut(place) {
                Some(sums) => *sums = (&sums.0 + second, &sums.1 + first),
                None => self.moments.push((second, first)),
            }
        }
        Ok(())
    }

    fn join(&mut self, others: &dyn Others) -> Result<()> {
        self.examples = others.sum(&Tensor::from_slice(&[self.examples]))?.double_value(&[0]);
        self.counts = self.counts.as_ref().map(|counts| others.sum(counts)).transpose()?;
        for (second, first) in &mut self.moments {
            (*second, *first) = (others.sum(second)?, others.sum(first)?);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Box<dyn Structure>> {
        let nothing = || Error::setting("training examples", 0, "the classes' features have no moments");
        let counts = self.counts.as_ref().ok_or_else(nothing)?.unsqueeze(1); // [K, 1]
        let scatter = |(name, (second, first)): (&String, &(Tensor, Tensor))| -> Result<Scatter> {
            check_finite(&format!("{name}: moments of the features"), second, ADVICE)?;
            let mean = first.sum_dim_intlist(0, true, Kind::Double) / self.examples;
            let centres = (first + mean) / (&counts + 1.0); // [K, C]
            let cross = first.mt().matmul(&centres);
            let within = second - &cross - cross.mt() + centres.mt().matmul(&(&centres * &counts));
            let (values, vectors) = within.f_linalg_eigh("L")?;
            let values = values.clamp_min(0.0);
            // features have length 1: a unit this small is rounding
            let unit = (values.mean(Kind::Double).double_value(&[]) / self.examples).max(1e-12);
            let basis = vectors / unit.sqrt();
            Ok(Scatter { centres: centres.matmul(&basis), basis, eigenvalues: values / unit })
        };
        let layers = self.names.iter().zip(&self.moments).map(scatter).collect::<Result<Vec<_>>>()?;
        Ok(Box::new(ClassesPosterior::with(layers)))
    }
}

impl ClassesPosterior {
    pub(super) const KIND: &'static str = "classes";

    fn with(layers: Vec<Scatter>) -> Self {
        let all: Vec<_> = layers.iter().map(|layer| layer.eigenvalues.shallow_clone()).collect();
        Self { layers, eigenvalues: Tensor::cat(&all, 0), precision: Precision::default() }
    }

    pub(super) fn restore(tensors: &HashMap<String, Tensor>, layers: usize) -> Result<Self> {
        let scatter = |place: usize| -> Result<Scatter> {
            let part = |name: &str, axes| stored(tensors, &format!("{place}.{name}"), axes);
            Ok(Scatter { basis: part("basis", 2)?, eigenvalues: part("eigenvalues", 1)?, centres: part("centres", 2)? })
        };
        Ok(Self::with((0..layers).map(scatter).collect::<Result<_>>()?))
    }

    fn classes(&self) -> i64 {
        self.layers.first().map_or(0, |layer| layer.centres.size()[0])
    }
}

impl Structure for ClassesPosterior {
    fn covariance(&self, jacobian: &Jacobian) -> Result<Tensor> {
        if jacobian.layers.len() != self.layers.len() {
            let why = format!("the fit was of {}", self.layers.len());
            return Err(Error::setting("layers", jacobian.layers.len(), why));
        }
        let classes = self.classes();
        let shares = if classes == 1 {
            Tensor::ones([jacobian.sizes()[0], 1], (Kind::Double, self.eigenvalues.device()))
        } else {
            shares(jacobian)
        };
        if shares.size()[1] != classes {
            let expected = format!("[N, {classes}], as in the fit");
            return Err(Error::shape("probabilities of the classes", &shares.size(), expected));
        }
        let own = |(layer, scatter): (&Tensor, &Scatter)| scatter.distance(&features(layer), &shares, self.precision);
        let distance: Tensor = jacobian.layers.iter().zip(&self.layers).map(own).sum();
        Ok(distance.square().view([-1, 1, 1]))
    }

    fn eigenvalues(&self) -> &Tensor {
        &self.eigenvalues
    }

    fn set(&mut self, precision: Precision) -> Result<()> {
        self.precision = precision;
        Ok(())
    }

    fn tensors(&self) -> Vec<(String, Tensor)> {
        let named = |(place, layer): (usize, &Scatter)| {
            layer.tensors().map(|(name, tensor)| (format!("{place}.{name}"), tensor.shallow_clone()))
        };
        self.layers.iter().enumerate().flat_map(named).collect()
    }

    fn kind(&self) -> &'static str {
        Self::KIND
    }

    fn share_tensors(&self) -> Box<dyn Structure> {
        let share = |layer: &Scatter| Scatter {
            basis: layer.basis.shallow_clone(),
            eigenvalues: layer.eigenvalues.shallow_clone(),
            centres: layer.centres.shallow_clone(),
        };
        let layers = self.layers.iter().map(share).collect();
        Box::new(Self { layers, eigenvalues: self.eigenvalues.shallow_clone(), precision: self.precision })
    }

    fn check_sides(&self, sides: &[[i64; 2]]) -> Result<()> {
        if sides.len() != self.layers.len() {
            return Err(Error::setting("layers", sides.len(), format!("the fit was of {}", self.layers.len())));
        }
        let classes = self.classes();
        let check = |(place, (layer, sides)): (usize, (&Scatter, &[i64; 2]))| layer.check(place, sides[1], classes);
        self.layers.iter().zip(sides).enumerate().try_for_each(check)
    }

    fn centres(&self) -> Option<i64> {
        Some(self.classes())
    }
}
