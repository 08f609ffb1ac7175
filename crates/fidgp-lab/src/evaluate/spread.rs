//! Uncertainty input by input, and inputs without their structure to compare it with.

use fidgp::Key;
use fidgp::predict::{Batch, Effort, WeightDraws};
use tch::{Kind, Tensor};

use crate::error::Result;
use crate::model::Model;

/// Uncertainty of predictions, input by input: entropies in nats, or variances of the standardised target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spread {
    /// What the weights leave open.
    pub epistemic: Vec<f64>,
    /// All of it.
    pub total: Vec<f64>,
}

impl Spread {
    /// Of numbers or classes that a model predicts at some inputs.
    ///
    /// # Errors
    /// When the inputs do not fit the model.
    pub fn of(model: &Model, inputs: &Tensor, (draws, key, batch): (u64, Key, usize)) -> Result<Self> {
        let batches = inputs.split(batch.max(1) as i64, 0);
        let mut law = model.law(draws, key, WeightDraws::MEMORY)?;
        let (mut epistemic, mut total) = (Vec::new(), Vec::new());
        for (number, inputs) in (0..).zip(&batches) {
            let (network, batch) = (model.network.as_ref(), Batch { inputs, number });
            let effort = Effort::default();
            let own = if let Some(likelihood) = model.likelihood.reading().numbers() {
                let predicted = law.regress(network, likelihood, batch, effort)?.0;
                [predicted.epistemic(), predicted.epistemic() + predicted.aleatoric()]
            } else {
                let predicted = law.classify(network, batch, effort)?.0;
                [predicted.epistemic, predicted.total]
            };
            epistemic.extend(numbers(&own[0])?);
            total.extend(numbers(&own[1])?);
        }
        Ok(Self { epistemic, total })
    }

    /// Mean epistemic uncertainty divided by the mean total; none where that is no number.
    pub fn share(&self) -> Option<f64> {
        let share = mean(&self.epistemic) / mean(&self.total);
        share.is_finite().then_some(share)
    }

    /// Mean of the epistemic part, and its standard error.
    pub fn epistemic(&self) -> (f64, f64) {
        let (centre, n) = (mean(&self.epistemic), self.epistemic.len() as f64);
        let squares: f64 = self.epistemic.iter().map(|value| (value - centre).powi(2)).sum();
        (centre, (squares / (n - 1.0).max(1.0) / n).sqrt())
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn numbers(tensor: &Tensor) -> Result<Vec<f64>> {
    Ok(Vec::try_from(tensor.to_kind(Kind::Double).to_device(tch::Device::Cpu).reshape([-1]))?)
}

/// Rows whose columns are shuffled independently of each other: each column keeps its values, what they had in common is gone.
///
/// # Shapes
/// `[N, columns]` → the same
pub fn shuffled_columns(rows: &Tensor, key: Key) -> Tensor {
    rows.gather(0, &order(&rows.size(), 0, key, rows), false)
}

/// Pictures whose pixels are permuted, each picture in its own order, all channels alike.
///
/// # Shapes
/// `[N, C, H, W]` → the same
pub fn permuted_pixels(pictures: &Tensor, key: Key) -> Tensor {
    let [n, channels, height, width] = pictures.size()[..] else { unreachable!("pictures have four axes") };
    let order = order(&[n, 1, height * width], 2, key, pictures).expand([n, channels, height * width], false);
    pictures.reshape([n, channels, -1]).gather(2, &order, false).view([n, channels, height, width])
}

/// Random orders along an axis.
fn order(shape: &[i64], axis: i64, key: Key, like: &Tensor) -> Tensor {
    key.uniform(shape, Kind::Double, tch::Device::Cpu).argsort(axis, false).to_device(like.device())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Device;

    fn sorted(values: &Tensor) -> Tensor {
        values.sort(0, false).0
    }

    #[test]
    fn columns_keep_their_values_and_lose_each_other() {
        let column = Tensor::arange(200, (Kind::Double, Device::Cpu));
        let rows = Tensor::stack(&[&column, &(&column * 2.0)], 1);
        let shuffled = shuffled_columns(&rows, Key::new(3));
        assert_eq!(sorted(&shuffled), sorted(&rows));
        assert_eq!(shuffled, shuffled_columns(&rows, Key::new(3)));
        let together =
            (shuffled.select(1, 0) * 2.0).eq_tensor(&shuffled.select(1, 1)).sum(Kind::Int64).int64_value(&[]);
        assert!(together < 10, "{together} rows are whole");
    }

    #[test]
    fn pixels_move_with_all_their_channels() {
        let red = Tensor::arange(2 * 25, (Kind::Float, Device::Cpu)).view([2, 1, 5, 5]);
        let pictures = Tensor::cat(&[&red, &(&red + 100.0)], 1);
        let permuted = permuted_pixels(&pictures, Key::new(1));
        assert_ne!(permuted, pictures);
        assert_eq!(permuted.select(1, 0) + 100.0, permuted.select(1, 1));
        let flat = |pictures: &Tensor| pictures.get(0).get(0).reshape([-1]);
        assert_eq!(sorted(&flat(&permuted)), sorted(&flat(&pictures)));
        let places = |picture: i64| permuted.get(picture).get(0).reshape([-1]) - (25 * picture) as f64;
        assert_ne!(places(0), places(1), "each picture has its own order");
    }

    #[test]
    fn shares_and_errors_by_hand() {
        let spread = Spread { epistemic: vec![1.0, 3.0], total: vec![4.0, 4.0] };
        assert_eq!((spread.share(), spread.epistemic()), (Some(0.5), (2.0, 1.0)));
        assert_eq!(Spread::default().share(), None);
    }
}
