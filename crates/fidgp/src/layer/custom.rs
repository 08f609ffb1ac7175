//! Weights of other methods: the layer lends its operation, the weight decides what to do with it.

use std::fmt::Debug;

use tch::Tensor;

use tch::nn::Path;

use super::{LayerGeometry, Pass, PlannedWeight};
use crate::{Key, Result};

/// The operation of a layer, linear or convolution: input, weight in the layer's own shape, bias → output.
pub type Apply<'a> = dyn Fn(&Tensor, &Tensor, Option<&Tensor>, &Pass) -> Result<Tensor> + 'a;

/// When, beside the steps of a training, a weight is fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FitPhase {
    /// Before the first step.
    Start,
    /// After the last one.
    End,
}

/// Expected second derivatives of the negative log-likelihood by the outputs, example by example: `diag(d) − uuᵀ`, with
/// `d = u = p` for a softmax.
#[derive(Debug)]
pub struct Curvature {
    /// d. `[N, outputs]`
    pub diagonal: Tensor,
    /// u; none where it is zero. `[N, outputs]`
    pub outer: Option<Tensor>,
}

impl Curvature {
    /// Their sum over the examples. `[outputs, outputs]`
    pub fn sum(&self) -> Tensor {
        let diagonal = self.diagonal.sum_dim_intlist(0, false, self.diagonal.kind()).diag(0);
        self.outer.as_ref().map_or_else(|| diagonal.shallow_clone(), |u| &diagonal - u.mt().matmul(u))
    }

    /// Those of several batches as one.
    pub fn joined(parts: &[Self]) -> Self {
        let cat = |tensors: Vec<&Tensor>| Tensor::cat(&tensors, 0);
        let outer: Option<Vec<_>> = parts.iter().map(|part| part.outer.as_ref()).collect();
        Self { diagonal: cat(parts.iter().map(|part| &part.diagonal).collect()), outer: outer.map(cat) }
    }
}

/// What a layer is shown of the training data.
#[derive(Debug)]
pub struct FitData {
    /// Its own inputs. `[N, n]`
    pub inputs: Tensor,
    /// Classes or numbers. `[N]`
    pub targets: Tensor,
    /// Expected second derivatives of the negative log-likelihood by the network's outputs, summed over the data.
    /// `[outputs, outputs]`
    pub curvature: Tensor,
    /// The same example by example, for who [asks](CustomWeight::looks_at_each).
    pub curvatures: Option<Curvature>,
}

/// A weight with a law of its own, neither plain nor inducing. All its randomness comes from the pass; a KL goes back
/// into it by [`Pass::charge`].
pub trait CustomWeight: Debug + Send {
    /// The layer's name.
    fn name(&self) -> &str;

    /// The layer's output.
    ///
    /// # Errors
    /// When the input does not fit the weight.
    fn forward(&self, x: &Tensor, pass: &mut Pass, apply: &Apply) -> Result<Tensor>;

    /// Whether it can be evaluated as it is. Called once before any draw, so that [`Self::forward`] need not look where a look
    /// waits for the device, and cannot be captured.
    ///
    /// # Errors
    /// When a matrix cannot be factorised.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Its plain weight was replaced by a trained one: what it keeps of the weight itself is to follow.
    fn started(&self) {}

    /// When it is fitted to the training data beside the steps; then [`Self::fit_posthoc`] is called.
    fn fit_phase(&self) -> Option<FitPhase> {
        None
    }

    /// Whether it wants the curvature of every example, which may be much, and not their sum alone.
    fn looks_at_each(&self) -> bool {
        false
    }

    /// Fits what no step trains, to its inputs on the training data.
    ///
    /// # Errors
    /// When there are too few, or a matrix cannot be factorised.
    fn fit_posthoc(&self, shown: &FitData) -> Result<()> {
        let _ = shown;
        Ok(())
    }

    /// Whether two passes with other noise give other outputs in evaluation.
    fn is_random(&self) -> bool {
        false
    }

    /// The taps it offers beside the layer's own.
    fn taps(&self) -> &[&str] {
        &[]
    }
}

/// How the weight of another method is made, and what it costs.
pub trait MakeWeight: Debug + Send + Sync {
    /// Makes it under `path`, in place of a plain weight or around one, which [`PlannedWeight::dense`] makes.
    ///
    /// # Errors
    /// When a setting is out of range, or the method is not for such a layer.
    fn make(&self, planned: &PlannedWeight, path: &Path, key: Key) -> Result<Box<dyn CustomWeight>>;

    /// Whether two passes with other noise give other outputs in evaluation.
    fn is_random(&self) -> bool {
        false
    }

    /// Trainable numbers.
    fn parameters(&self, layer: &LayerGeometry) -> i64 {
        layer.dense_parameters()
    }

    /// Stored numbers that are not trained.
    fn state(&self, layer: &LayerGeometry) -> i64 {
        let _ = layer;
        0
    }

    /// Multiply-accumulates of one input.
    fn macs(&self, layer: &LayerGeometry) -> i64 {
        layer.macs()
    }

    /// Multiply-accumulates of one draw of the weight; elementwise noise is not counted.
    fn draw_macs(&self, layer: &LayerGeometry) -> i64 {
        let _ = layer;
        0
    }
}
