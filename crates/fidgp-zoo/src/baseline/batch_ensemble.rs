//! Wen, Tran, Ba: BatchEnsemble (2020). K members share one weight and differ by rank-one factors.

use fidgp::Key;
use fidgp::layer::{Apply, CustomWeight, DenseWeight, Pass, Role};
use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn::Path;

use super::{expect_shape, matrix};
use crate::{Error, Result};

/// Members and their start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BatchEnsembleConfig {
    /// K.
    pub members: i64,
    /// α, γ ~ N(1, init_sd²) at the start.
    pub init_sd: f64,
}

impl Default for BatchEnsembleConfig {
    fn default() -> Self {
        Self { members: 4, init_sd: 0.5 }
    }
}

impl BatchEnsembleConfig {
    /// # Errors
    /// When there is no member, or the deviation is negative.
    pub fn check(&self) -> Result<()> {
        if self.members < 1 {
            return Err(Error::setting("members", self.members, "must be at least 1; 4 is usual"));
        }
        if self.init_sd >= 0.0 && self.init_sd.is_finite() {
            return Ok(());
        }
        Err(Error::setting("init_sd", self.init_sd, "must be 0 or greater; 0.5 is usual"))
    }
}

/// A shared weight with α, γ and b of every member, for a batch that is tiled K times.
#[derive(Debug)]
pub struct BatchEnsembleWeight {
    /// W, shared; its bias is not used.
    shared: DenseWeight,
    /// α. `[K, in]`
    input_scale: Tensor,
    /// γ. `[K, out]`
    output_scale: Tensor,
    /// b. `[K, out]`
    bias: Option<Tensor>,
}

impl BatchEnsembleWeight {
    /// Parameters `input_scale`, `output_scale` and `bias` under `path`, beside the shared `weight`. All members start
    /// with the bias a plain layer would start with.
    ///
    /// # Errors
    /// When a setting is out of range.
    pub fn init(path: &Path, shared: DenseWeight, bias: bool, config: &BatchEnsembleConfig, key: Key) -> Result<Self> {
        config.check()?;
        let key = key.fold(&shared.name);
        let (kind, device) = (path.kind(), path.device());
        let variable = |path: &Path, name: &str, value: Tensor| path.add(name, value, true);
        let size = shared.weight.size();
        let (outputs, inputs) = (size[0], size[1]);
        let scale = |name: &str, width: i64| {
            let noise = key.fold(name).normal(&[config.members, width], kind, device);
            variable(path, name, noise * config.init_sd + 1.0)
        };
        let fan_in = size[1..].iter().product::<i64>() as f64;
        let plain_bias = || (key.fold("bias").uniform(&[outputs], kind, device) * 2.0 - 1.0) / fan_in.sqrt();
        Ok(Self {
            input_scale: scale("input_scale", inputs),
            output_scale: scale("output_scale", outputs),
            bias: bias.then(|| variable(&Role::Decayed.of(path), "bias", plain_bias().repeat([config.members, 1]))),
            shared,
        })
    }

    /// `W ⊙ γ_k α_kᵀ`: a few million products, where scaling inputs and outputs would pass over every activation.
    fn weight_of(&self, member: i64) -> Tensor {
        let weight = &self.shared.weight;
        let mut shape = vec![1; weight.dim()];
        (shape[0], shape[1]) = (-1, weight.size()[1]);
        let own = self.output_scale.get(member).outer(&self.input_scale.get(member));
        weight * own.view(shape.as_slice())
    }
}

impl CustomWeight for BatchEnsembleWeight {
    fn name(&self) -> &str {
        &self.shared.name
    }

    /// `y = ((x ⊙ α_k) W) ⊙ γ_k + b_k`; rows 0 … B−1 are member 0's. `[K·B, in, ..]` → `[K·B, out, ..]`
    fn forward(&self, x: &Tensor, pass: &mut Pass, apply: &Apply) -> fidgp::Result<Tensor> {
        let (members, inputs) = (self.input_scale.size()[0], self.input_scale.size()[1]);
        let size = x.size();
        if size.len() < 2 || size[0] % members != 0 || size[1] != inputs {
            let expected = format!("[{members}·N, {inputs}, ..], the batch once for each member");
            return Err(fidgp::Error::shape(format!("input of {}", self.shared.name), &size, expected));
        }
        let of_member = |(member, x): (i64, Tensor)| {
            let bias = self.bias.as_ref().map(|bias| bias.get(member));
            apply(&x, &self.weight_of(member), bias.as_ref(), pass)
        };
        let outputs = (0..members).zip(x.chunk(members, 0)).map(of_member).collect::<fidgp::Result<Vec<_>>>()?;
        Ok(Tensor::cat(&outputs, 0))
    }
}

/// The parameters of a linear layer with K members: member k has the weight `W ⊙ γ_k α_kᵀ`.
#[derive(Debug)]
pub struct BatchEnsembleLinear {
    /// W, shared. `[out, in]`
    pub weight: Tensor,
    /// α. `[K, in]`
    pub input_scale: Tensor,
    /// γ. `[K, out]`
    pub output_scale: Tensor,
    /// b. `[K, out]`
    pub bias: Tensor,
}

impl BatchEnsembleLinear {
    /// `y = ((x ⊙ α_k) Wᵀ) ⊙ γ_k + b_k` for every member.
    ///
    /// # Shapes
    /// `[B, in]` → `[K, B, out]`
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn members(&self, x: &Tensor) -> Result<Tensor> {
        let (out, inputs) = matrix("weight", &self.weight)?;
        let (members, _) = matrix("input_scale", &self.input_scale)?;
        let (rows, _) = matrix("x", x)?;
        expect_shape("x", x, &[rows, inputs])?;
        expect_shape("input_scale", &self.input_scale, &[members, inputs])?;
        expect_shape("output_scale", &self.output_scale, &[members, out])?;
        expect_shape("bias", &self.bias, &[members, out])?;
        let scaled = x.unsqueeze(0) * self.input_scale.unsqueeze(1); // [K, B, in]
        Ok(scaled.matmul(&self.weight.mt()) * self.output_scale.unsqueeze(1) + self.bias.unsqueeze(1))
    }

    /// The same on a batch that is tiled K times: rows 0 … B−1 are member 0's.
    ///
    /// # Shapes
    /// `[B, in]` → `[K·B, out]`
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn tiled(&self, x: &Tensor) -> Result<Tensor> {
        Ok(self.members(x)?.flatten(0, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fidgp::Key;
    use tch::{Device, Kind};

    fn normal(name: &str, shape: &[i64]) -> Tensor {
        Key::new(2).fold(name).normal(shape, Kind::Double, Device::Cpu)
    }

    #[test]
    fn every_member_is_a_linear_layer_of_its_own() {
        let layer = BatchEnsembleLinear {
            weight: normal("w", &[2, 3]),
            input_scale: normal("a", &[4, 3]),
            output_scale: normal("g", &[4, 2]),
            bias: normal("b", &[4, 2]),
        };
        let x = normal("x", &[5, 3]);
        let tiled = layer.tiled(&x).unwrap();
        assert_eq!(tiled.size(), [20, 2]);
        for k in 0..4 {
            let weight = &layer.weight * layer.output_scale.get(k).outer(&layer.input_scale.get(k));
            let plain = x.linear(&weight, Some(&layer.bias.get(k)));
            assert!((tiled.narrow(0, 5 * k, 5) - plain).abs().max().double_value(&[]) < 1e-12);
        }
        assert!(layer.members(&normal("x", &[5, 2])).unwrap_err().to_string().contains('x'));
    }
}
