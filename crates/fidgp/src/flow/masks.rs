//! Who sees whom in a masked autoregressive network.

use tch::Tensor;

/// Which inputs a unit may see: 1 or 0. `[out, in]`
pub(super) struct Masks {
    pub initial: Tensor,
    pub block: Tensor,
    pub last: Tensor,
}

impl Masks {
    /// Degrees as in [`super::MadeFlow`].
    pub fn new(dim: i64, hidden: i64) -> Self {
        let inputs: Vec<i64> = (1..=dim).collect();
        let units: Vec<i64> = (0..hidden).map(|k| k % (dim - 1).max(1) + (dim - 1).min(1)).collect();
        let outputs: Vec<i64> = inputs.iter().flat_map(|&degree| [degree, degree]).collect();
        Self {
            initial: mask(&units, &inputs, |out, input| out >= input),
            block: mask(&units, &units, |out, input| out >= input),
            last: mask(&outputs, &units, |out, input| out > input),
        }
    }
}

fn mask(outputs: &[i64], inputs: &[i64], sees: impl Fn(i64, i64) -> bool) -> Tensor {
    let entries: Vec<bool> =
        outputs.iter().flat_map(|&o| inputs.iter().map(move |&i| (o, i))).map(|(o, i)| sees(o, i)).collect();
    Tensor::from_slice(&entries).reshape([outputs.len() as i64, inputs.len() as i64])
}
