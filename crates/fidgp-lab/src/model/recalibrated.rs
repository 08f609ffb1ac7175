//! Probabilities as a map makes them that was fitted to held-out examples.

use fidgp::layer::Network;
use fidgp::objective::NumberLikelihood;
use fidgp::predict::{Batch, Classified, Effort, PredictiveLaw, Regressed, Segmented, Spent};
use fidgp::{Error, Result};
use fidgp_metrics::recalibration::Recalibration;
use tch::{Device, Kind, Tensor};

/// A law whose probabilities are mapped.
#[derive(Debug)]
pub(super) struct RecalibratedLaw {
    pub law: Box<dyn PredictiveLaw>,
    pub map: Recalibration,
}

impl PredictiveLaw for RecalibratedLaw {
    fn classify(&mut self, network: &dyn Network, batch: Batch, effort: Effort) -> Result<(Classified, Spent)> {
        let (found, spent) = self.law.classify(network, batch, effort)?;
        Ok((recalibrated(found, &self.map)?, spent))
    }

    fn regress(
        &mut self,
        network: &dyn Network,
        likelihood: &dyn NumberLikelihood,
        batch: Batch,
        effort: Effort,
    ) -> Result<(Regressed, Spent)> {
        self.law.regress(network, likelihood, batch, effort)
    }

    fn segment(
        &mut self,
        network: &dyn Network,
        images: &Tensor,
        pixels: (i64, Option<[i64; 2]>),
        effort: Effort,
    ) -> Result<(Segmented, Spent)> {
        self.law.segment(network, images, pixels, effort)
    }
}

/// Maps the probabilities. Total uncertainty is that of the new ones; what the weights leave open stays as it was, but is at most
/// all of it.
pub(crate) fn recalibrated(found: Classified, map: &Recalibration) -> Result<Classified> {
    let [_, classes] = found.probs.size()[..] else {
        return Err(Error::shape("probabilities", &found.probs.size(), "[N, classes]"));
    };
    if classes != map.classes() as i64 {
        return Err(Error::shape(
            "probabilities",
            &found.probs.size(),
            format!("[N, {}] to recalibrate", map.classes()),
        ));
    }
    let stated = Vec::<f64>::try_from(found.probs.to_kind(Kind::Double).to_device(Device::Cpu).reshape([-1]))?;
    let mapped: Vec<f64> = stated.chunks_exact(map.classes()).flat_map(|p| map.probabilities(p)).collect();
    let probs = Tensor::from_slice(&mapped).view([-1, classes]);
    let entropy = -(&probs * probs.clamp_min(f64::MIN_POSITIVE).log()).sum_dim_intlist(1, false, Kind::Double);
    let like = |tensor: &Tensor, other: &Tensor| tensor.to_kind(other.kind()).to_device(other.device());
    let total = like(&entropy, &found.total);
    let epistemic = found.epistemic.minimum(&total);
    Ok(Classified { probs: like(&probs, &found.probs), aleatoric: &total - &epistemic, epistemic, total, ..found })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fidgp_metrics::recalibration::VectorScaling;

    #[test]
    fn parts_of_the_uncertainty_still_add_up() {
        let map = Recalibration::VectorScaling(VectorScaling { factors: vec![2.0, 2.0], shifts: vec![0.0, 0.0] });
        let tensor = |values: &[f64]| Tensor::from_slice(values);
        let of = |p: f64| -(p * p.ln() + (1.0 - p) * (1.0 - p).ln());
        let found = Classified {
            probs: tensor(&[0.8, 0.2, 0.5, 0.5]).view([2, 2]),
            total: tensor(&[of(0.8), of(0.5)]),
            aleatoric: tensor(&[0.1, 0.6]),
            epistemic: tensor(&[of(0.8) - 0.1, of(0.5) - 0.6]),
            mean_nll: None,
        };
        let narrow = recalibrated(found, &map).unwrap();
        let sharp = 0.64 / 0.68; // p² over the sum of squares
        let all = [&narrow.total, &narrow.aleatoric, &narrow.epistemic].map(|t| Vec::<f64>::try_from(t).unwrap());
        assert!((narrow.probs.double_value(&[0, 0]) - sharp).abs() < 1e-12);
        assert!((all[0][0] - of(sharp)).abs() < 1e-12 && all[1][0].abs() < 1e-12, "no more than all is epistemic");
        assert!((all[1][1] - 0.6).abs() < 1e-12 && (all[2][1] - (of(0.5) - 0.6)).abs() < 1e-12);
        let three = Classified { probs: tensor(&[0.2; 3]).view([1, 3]), ..narrow };
        assert!(recalibrated(three, &map).unwrap_err().to_string().contains("recalibrate"));
    }
}
