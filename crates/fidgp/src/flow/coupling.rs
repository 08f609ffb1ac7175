//! Affine coupling layers (Real NVP).

use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn::Path;

use super::linear::{FlowLinear, LinearParams, scale_and_shift};
use super::stack::stack_fields;
use super::start::{fan_in, identity};
use super::{Flow, FlowSettings, Flowed, InitFlow};
use crate::spectral::SpectralRule;
use crate::{Error, Key, Result};

/// Settings of a [`CouplingFlow`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct CouplingConfig {
    /// How many coupling layers; every other one moves the other half.
    pub layers: i64,
    /// Hidden units H of each conditioner; C where left out.
    pub hidden: Option<i64>,
    /// Spectral normalisation of the conditioners. `compat` is refused: the last layer starts at zero.
    pub spectral: SpectralRule,
}

impl Default for CouplingConfig {
    fn default() -> Self {
        Self { layers: 4, hidden: None, spectral: SpectralRule::Downwards }
    }
}

impl FlowSettings for CouplingConfig {
    /// Σ over layers of (kept·H + H) + (H² + H) + 2·moved·(H + 1).
    fn parameter_count(&self, dim: i64) -> i64 {
        let h = self.hidden.unwrap_or(dim);
        let layer = |(kept, moved): (i64, i64)| kept * h + h + h * h + h + 2 * moved * (h + 1);
        (0..self.layers).map(|i| layer(halves(dim, i as usize))).sum()
    }

    fn state_count(&self, dim: i64) -> i64 {
        let (h, of) = (self.hidden.unwrap_or(dim), |out, input| self.spectral.state_count(out, input));
        let layer = |(kept, moved): (i64, i64)| of(h, kept) + of(h, h) + of(2 * moved, h);
        (0..self.layers).map(|i| layer(halves(dim, i as usize))).sum()
    }

    fn check(&self, dim: i64) -> Result<()> {
        let refuse = |setting: &str, value: String, advice: &str| Err(Error::setting(setting, value, advice));
        if dim < 2 {
            return refuse(
                "flow.kind",
                format!("coupling on {dim}"),
                "needs C ≥ 2 columns to split; use `made` or `diagonal`",
            );
        }
        if self.layers < 1 {
            return refuse("flow.layers", self.layers.to_string(), "give at least one layer");
        }
        if let Some(hidden) = self.hidden.filter(|&h| h < 1) {
            return refuse(
                "flow.hidden",
                hidden.to_string(),
                "give at least one hidden unit, or leave it out for C units",
            );
        }
        if self.spectral == SpectralRule::Compat {
            let advice = "W/σ(W) cannot be zero, so the flow could not start at the identity; use `downwards` or `off`";
            return refuse("flow.spectral", "compat".to_owned(), advice);
        }
        Ok(())
    }
}

impl InitFlow for CouplingConfig {
    type Flow = CouplingFlow;

    fn init(&self, path: &Path, dim: i64, key: Key) -> Result<CouplingFlow> {
        self.check(dim)?;
        let layer =
            |i: i64| self.coupling(&(path / "layers" / i), halves(dim, i as usize), key.fold("layers").at(i as u64));
        Ok(CouplingFlow { layers: (0..self.layers).map(layer).collect::<Result<_>>()?, dim })
    }
}

impl CouplingConfig {
    fn coupling(&self, path: &Path, (kept, moved): (i64, i64), key: Key) -> Result<Coupling> {
        let hidden = self.hidden.unwrap_or(kept + moved);
        let linear = |name: &str, shape: (i64, i64)| {
            let (path, key) = (path / name, key.fold(name));
            let start = if name == "last" { identity(&path, shape) } else { fan_in(&path, shape, key) };
            FlowLinear::new(LinearParams::init(&path, start, self.spectral, None, key), shape, None, self.spectral)
        };
        let (initial, middle) = (linear("initial", (hidden, kept))?, linear("middle", (hidden, hidden))?);
        Ok(Coupling { initial, middle, last: linear("last", (2 * moved, hidden))? })
    }
}

/// Columns (kept, moved) of layer `i`: even layers keep the first ⌊C/2⌋, odd layers the rest.
fn halves(dim: i64, i: usize) -> (i64, i64) {
    let first = dim / 2;
    if i.is_multiple_of(2) { (first, dim - first) } else { (dim - first, first) }
}

/// One conditioner: two hidden layers of ReLU.
#[derive(Debug)]
struct Coupling {
    initial: FlowLinear,
    middle: FlowLinear,
    last: FlowLinear,
}

impl Coupling {
    /// s and t of the moved columns. `kept [.., rows, kept]` → twice `[.., rows, moved]`
    fn scale_and_shift(&self, kept: &Tensor) -> (Tensor, Tensor) {
        let h = self.middle.forward(&self.initial.forward(kept).relu()).relu();
        scale_and_shift(&self.last.forward(&h))
    }

    fn linears(&self) -> [&FlowLinear; 3] {
        [&self.initial, &self.middle, &self.last]
    }
}

/// y_kept = x_kept, y_moved = s(x_kept)⊙x_moved + t(x_kept), s = softplus(a) + 10⁻³, with the halves changing roles from
/// layer to layer. log|det J| = Σ log s. Starts at the identity; the inverse is one pass.
#[derive(Debug)]
pub struct CouplingFlow {
    layers: Vec<Coupling>,
    dim: i64,
}

impl CouplingFlow {
    /// Splits columns into (kept, moved) of layer `i`.
    fn split(&self, x: &Tensor, i: usize) -> (Tensor, Tensor) {
        let first = self.dim / 2;
        let (left, right) = (x.narrow(-1, 0, first), x.narrow(-1, first, self.dim - first));
        if i.is_multiple_of(2) { (left, right) } else { (right, left) }
    }

    fn linears(&self) -> impl Iterator<Item = &FlowLinear> {
        self.layers.iter().flat_map(Coupling::linears)
    }
}

/// Puts (kept, moved) of layer `i` back in order.
fn join(kept: &Tensor, moved: &Tensor, i: usize) -> Tensor {
    if i.is_multiple_of(2) { Tensor::cat(&[kept, moved], -1) } else { Tensor::cat(&[moved, kept], -1) }
}

impl Flow for CouplingFlow {
    fn forward(&self, x: &Tensor, _dropout: Option<Key>) -> Flowed {
        let rows = x.size();
        let start = Flowed {
            value: x.shallow_clone(),
            log_det: Tensor::zeros(&rows[..rows.len() - 1], (x.kind(), x.device())),
        };
        let step = |Flowed { value, log_det }: Flowed, (i, layer): (usize, &Coupling)| {
            let (kept, moved) = self.split(&value, i);
            let (scale, shift) = layer.scale_and_shift(&kept);
            let log_det = log_det + scale.log().sum_dim_intlist([-1_i64].as_slice(), false, None);
            Flowed { value: join(&kept, &(scale * moved + shift), i), log_det }
        };
        self.layers.iter().enumerate().fold(start, step)
    }

    fn inverse(&self, y: &Tensor) -> Option<Tensor> {
        let undo = |y: Tensor, (i, layer): (usize, &Coupling)| {
            let (kept, moved) = self.split(&y, i);
            let (scale, shift) = layer.scale_and_shift(&kept);
            join(&kept, &((moved - shift) / scale), i)
        };
        Some(self.layers.iter().enumerate().rev().fold(y.shallow_clone(), undo))
    }

    fn advance_spectral(&self) {
        self.linears().for_each(FlowLinear::advance);
    }

    fn settle_spectral(&self) {
        self.linears().for_each(FlowLinear::settle);
    }

    fn dim(&self) -> i64 {
        self.dim
    }

    fn parameter_count(&self) -> i64 {
        self.linears().map(FlowLinear::parameter_count).sum()
    }
}

stack_fields!(Coupling { initial, middle, last });
stack_fields!(CouplingFlow { layers } same { dim });
