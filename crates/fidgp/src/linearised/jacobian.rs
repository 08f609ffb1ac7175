//! Derivatives of a network's outputs by its inducing matrices.

use tch::{Kind, Tensor};

/// Derivatives of K numbers for each of N inputs by the whitened inducing matrix of each layer.
#[derive(Debug)]
pub struct Jacobian {
    /// For each layer `[N, K, R, C]`.
    pub layers: Vec<Tensor>,
    /// Of features: what each class has of an input, the network's probabilities. `[N, K]`
    pub shares: Option<Tensor>,
}

impl Jacobian {
    /// All layers side by side, in f64. `[N, K, D]`
    pub fn flat(&self) -> Tensor {
        let flat = |layer: &Tensor| layer.flatten(2, 3).to_kind(Kind::Double);
        Tensor::cat(&self.layers.iter().map(flat).collect::<Vec<_>>(), 2)
    }

    /// Of other numbers, mixtures of the K outputs: `Σ_k M_ks J_k`.
    ///
    /// # Shapes
    /// `[N, K, S]` → layers of `[N, S, R, C]`
    #[must_use]
    pub fn mixed(&self, mixture: &Tensor) -> Self {
        let mix = |layer: &Tensor| {
            let [n, _, r, c] = layer.size()[..] else { unreachable!("layers have four axes") };
            mixture.mt().to_kind(layer.kind()).matmul(&layer.flatten(2, 3)).view([n, -1, r, c])
        };
        Self { layers: self.layers.iter().map(mix).collect(), shares: None }
    }

    /// N and K.
    pub fn sizes(&self) -> [i64; 2] {
        self.layers.first().map_or([0, 0], |layer| [layer.size()[0], layer.size()[1]])
    }
}
