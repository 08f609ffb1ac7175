//! Wen, Tran, Ba: BatchEnsemble (2020). K members share one weight and differ by rank-one factors.

use tch::Tensor;

use super::{expect_shape, matrix};
use crate::Result;

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
