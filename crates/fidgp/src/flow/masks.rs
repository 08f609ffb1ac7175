//! Who sees whom in a masked autoregressive network.

use tch::Tensor;

/// Degrees of the units of a [`MadeFlow`](super::MadeFlow): a unit depends on inputs of at most its own degree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeDegrees {
    /// 1 … C.
    pub inputs: Vec<i64>,
    /// Unit k (from 0): `k mod max(1, C−1) + min(1, C−1)`.
    pub hidden: Vec<i64>,
    /// 1, 1, 2, 2, …: two outputs for each input.
    pub outputs: Vec<i64>,
}

/// Which units of the layer before a unit may see: true or false. `[out, in]`
#[derive(Debug)]
pub struct MadeMasks {
    /// Of the first layer.
    pub initial: Tensor,
    /// Of every layer inside a block.
    pub block: Tensor,
    /// Of the last layer.
    pub last: Tensor,
}

impl MadeDegrees {
    /// Degrees for C = `dim` inputs and H = `hidden` units.
    pub fn new(dim: i64, hidden: i64) -> Self {
        let inputs: Vec<i64> = (1..=dim).collect();
        let outputs = inputs.iter().flat_map(|&degree| [degree, degree]).collect();
        let hidden = (0..hidden).map(|k| k % (dim - 1).max(1) + (dim - 1).min(1)).collect();
        Self { inputs, hidden, outputs }
    }
}

impl MadeMasks {
    /// A hidden unit sees degrees up to its own, an output only smaller ones.
    pub fn new(dim: i64, hidden: i64) -> Self {
        let MadeDegrees { inputs, hidden, outputs } = MadeDegrees::new(dim, hidden);
        Self {
            initial: mask(&hidden, &inputs, |out, input| out >= input),
            block: mask(&hidden, &hidden, |out, input| out >= input),
            last: mask(&outputs, &hidden, |out, input| out > input),
        }
    }
}

fn mask(outputs: &[i64], inputs: &[i64], sees: impl Fn(i64, i64) -> bool) -> Tensor {
    let entries: Vec<bool> =
        outputs.iter().flat_map(|&o| inputs.iter().map(move |&i| (o, i))).map(|(o, i)| sees(o, i)).collect();
    Tensor::from_slice(&entries).reshape([outputs.len() as i64, inputs.len() as i64])
}
