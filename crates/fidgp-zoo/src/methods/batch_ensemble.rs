//! Wen, Tran, Ba: BatchEnsemble (2020). K members share one weight and differ by rank-one factors.

use fidgp::Key;
use fidgp::layer::{Apply, CustomWeight, DenseWeight, LayerGeometry, MakeWeight, Network, Pass, PlannedWeight, Role};
use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn::Path;

use super::{About, BuildOne, Group, Method, Passes, Section, Settings};
use crate::baseline::{expect_shape, matrix};
use crate::{Error, LayerPlan, Result};

/// The method.
#[derive(Debug)]
pub struct BatchEnsemble;

impl Method for BatchEnsemble {
    fn about(&self) -> About {
        About {
            section: Some(Section::of::<BatchEnsembleConfig>("batch-ensemble")),
            passes: Passes::Members,
            ..About::new("batch-ensemble", "An ensemble of networks that share a weight (BatchEnsemble)")
        }
    }

    fn assemble(&self, members: i64, (path, key): (&Path, Key), one: &BuildOne) -> Result<Box<dyn Network>> {
        Ok(Box::new(BatchEnsembleNetwork { network: one(path, key)?, members }))
    }
}

/// Members and their start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BatchEnsembleConfig {
    /// K.
    pub members: i64,
    /// α, γ ~ N(1, init_sd²) at the start.
    pub init_sd: f64,
    /// What the learning rate of α and γ is multiplied by.
    pub fast_rate: f64,
    /// L2 penalty on what members share: kernels and BatchNorm's scales.
    pub weight_decay: f64,
}

impl Default for BatchEnsembleConfig {
    fn default() -> Self {
        Self { members: 4, init_sd: 0.5, fast_rate: 0.5, weight_decay: 3e-4 }
    }
}

impl Settings for BatchEnsembleConfig {
    fn check(&self) -> Result<()> {
        if self.members < 1 {
            return Err(Error::setting("members", self.members, "must be at least 1; 4 is usual"));
        }
        for (name, number, usual) in [
            ("init_sd", self.init_sd, "0.5"),
            ("fast_rate", self.fast_rate, "0.5"),
            ("weight_decay", self.weight_decay, "0.0003"),
        ] {
            if !(number >= 0.0 && number.is_finite()) {
                return Err(Error::setting(name, number, format!("must be at least 0; {usual} is usual")));
            }
        }
        Ok(())
    }

    fn plan(&self, plan: LayerPlan) -> LayerPlan {
        plan.custom("*", *self)
    }

    fn members(&self) -> i64 {
        self.members
    }

    fn groups(&self) -> Vec<Group> {
        vec![
            Group { parameters: &["*.weight"], rate: 1.0, weight_decay: self.weight_decay },
            Group { parameters: &["*.input_scale", "*.output_scale"], rate: self.fast_rate, weight_decay: 0.0 },
        ]
    }
}

impl MakeWeight for BatchEnsembleConfig {
    fn make(&self, planned: &PlannedWeight, path: &Path, key: Key) -> fidgp::Result<Box<dyn CustomWeight>> {
        let shared = planned.dense(&Role::Decayed.of(path), false, key); // every member has a bias of its own
        let weight = BatchEnsembleWeight::init(path, shared, planned.bias, self, key);
        Ok(Box::new(weight.map_err(Error::into_method)?))
    }

    /// `d_out·d_in + K(d_in + d_out)` and K biases.
    fn parameters(&self, layer: &LayerGeometry) -> i64 {
        let (outputs, inputs, biases) = layer.operation.widths();
        layer.dense_parameters() - biases + self.members * (inputs + outputs + biases)
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

/// One network that takes its batch K times; outputs go out as blocks of rows, member 0's first.
#[derive(Debug)]
pub struct BatchEnsembleNetwork {
    /// The network, with layers that know their members' rows.
    pub network: Box<dyn Network>,
    /// K.
    pub members: i64,
}

fidgp::layers!(BatchEnsembleNetwork: network);

impl Network for BatchEnsembleNetwork {
    /// # Shapes
    /// `[N, ..]` → `[K·N, outputs]`
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        // `repeat` would lay the channels of a picture out as planes again, and every layer after it
        let tiles = vec![x; self.members.max(0) as usize];
        self.network.forward(&Tensor::f_cat(&tiles, 0)?, pass)
    }

    fn head(&self) -> Option<&str> {
        self.network.head()
    }

    fn takes_empty_batches(&self) -> bool {
        self.network.takes_empty_batches()
    }

    fn members(&self) -> i64 {
        self.members
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

    /// Gives back what it is given.
    #[derive(Debug)]
    struct Same;

    fidgp::layers!(Same:);

    impl Network for Same {
        fn forward(&self, x: &Tensor, _: &mut Pass) -> fidgp::Result<Tensor> {
            Ok(x.shallow_clone())
        }
    }

    #[test]
    fn tiles_keep_the_order_in_memory() {
        let planes = Tensor::arange(2 * 3 * 4 * 5, (Kind::Float, Device::Cpu)).view([2, 3, 4, 5]);
        let pixels = planes.permute([0, 2, 3, 1]).contiguous().permute([0, 3, 1, 2]);
        let tiled = BatchEnsembleNetwork { network: Box::new(Same), members: 3 };
        for x in [planes, pixels] {
            let y = tiled.forward(&x, &mut Pass::plain(fidgp::layer::Mode::Eval)).unwrap();
            assert_eq!(y.stride(), x.stride());
            assert_eq!(y, x.repeat([3, 1, 1, 1]));
        }
    }
}
