//! What the pooled input of one convolution says, by the principal directions of the ID training images.

use tch::{Kind, Tensor};

use super::{Given, LayerFormula, LayerRow, LayerScore, Needs, Observed};
use crate::error::Result;
use crate::record::ood::{Base, Join};

/// Shares of the channels that count as the principal subspace.
const SUBSPACE_RANKS: [(&str, i64); 3] = [("subspace-8", 8), ("subspace-4", 4), ("subspace-2", 2)];
/// The family that stands in the table.
const SUBSPACE: &str = SUBSPACE_RANKS[1].0;
/// The family of [`Principal::leverage`].
const LEVERAGE: &str = "leverage";
/// Ridge of the leverage, relative to the mean eigenvalue.
const RIDGE: f64 = 1e-4;

pub(super) const POOLED: LayerScore = LayerScore {
    rows: &[
        LayerRow::alone(
            "subspace",
            SUBSPACE,
            "share of the pooled input outside its ID-train quarter, mean over layers: one forward pass",
        ),
        LayerRow::hinge(
            "subspace+energy",
            SUBSPACE,
            "energy, and what of the subspace score exceeds its 95 % quantile on ID train: one forward pass",
        ),
        LayerRow::alone(
            LEVERAGE,
            LEVERAGE,
            "variance of a Bayesian linear layer at the pooled input after ID train, mean over layers: one forward pass",
        ),
        LayerRow::hinge(
            "leverage+energy",
            LEVERAGE,
            "energy, and what of the leverage exceeds its 95 % quantile on ID train: one forward pass",
        ),
        LayerRow {
            name: "leverage+near",
            family: LEVERAGE,
            join: Join::Hinge(0.95),
            base: Base::EnergyNeighbours,
            about: "mean of energy and knn, and what of the leverage exceeds that quantile: one forward pass",
        },
    ],
    needs: Needs::Features,
    fit,
};

fn fit(given: &Given) -> Result<Box<dyn LayerFormula>> {
    let principal = given.kept.moments.iter().map(|(layer, moment)| Ok((layer.clone(), Principal::of(moment)?)));
    Ok(Box::new(Pooled(principal.collect::<Result<_>>()?)))
}

/// The directions of every layer whose input is pooled.
struct Pooled(Vec<(String, Principal)>);

impl LayerFormula for Pooled {
    fn families(&self) -> Vec<(String, Vec<String>)> {
        let layers: Vec<String> = self.0.iter().map(|(layer, _)| layer.clone()).collect();
        let names = SUBSPACE_RANKS.iter().map(|(family, _)| *family).chain([LEVERAGE]);
        names.map(|family| (family.to_owned(), layers.clone())).collect()
    }

    fn score(&self, seen: &Observed) -> Result<Vec<(String, Tensor)>> {
        let mut scores = Vec::new();
        for ((layer, principal), (_, x)) in self.0.iter().zip(&seen.pooled) {
            let energies = principal.energies(x)?;
            let part = |(family, part)| (format!("{family}/{layer}"), principal.outside(&energies, part));
            scores.extend(SUBSPACE_RANKS.map(part));
            scores.push((format!("{LEVERAGE}/{layer}"), principal.leverage(&energies)));
        }
        Ok(scores)
    }
}

/// Directions and energies of a layer's pooled input on ID training images, the largest first.
#[derive(Debug)]
struct Principal {
    vectors: Tensor, // [C, C], a direction in each column
    values: Tensor,  // [C]
}

impl Principal {
    /// From the second moment `XᵀX/N`. `[C, C]`
    ///
    /// # Errors
    /// When it is not finite.
    fn of(moment: &Tensor) -> Result<Self> {
        let (values, vectors) = moment.f_linalg_eigh("L")?; // values rise
        Ok(Self { vectors: vectors.flip([1]), values: values.flip([0]).clamp_min(0.0) })
    }

    /// The squared coordinates of each row. `[N, C]` → `[N, C]`
    fn energies(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.f_matmul(&self.vectors)?.square())
    }

    /// `ln` of the share of a row's energy outside the leading one in `part` directions. Energies `[N, C]` → `[N]`
    fn outside(&self, energies: &Tensor, part: i64) -> Tensor {
        let channels = self.values.size()[0];
        let k = (channels / part).max(1);
        let sum = |t: &Tensor| t.sum_dim_intlist(-1, false, Kind::Double);
        let share = sum(&energies.narrow(1, k, channels - k)) / sum(energies).clamp_min(f64::MIN_POSITIVE);
        share.clamp_min(1e-12).log()
    }

    /// `ln xᵀ(K + δI)⁻¹x`, K the second moment: up to a factor the variance that a Bayesian linear layer keeps at x once it
    /// has seen the ID training images. Energies `[N, C]` → `[N]`
    fn leverage(&self, energies: &Tensor) -> Tensor {
        let ridge = self.values.mean(Kind::Double) * RIDGE + f64::MIN_POSITIVE;
        (energies / (&self.values + ridge)).sum_dim_intlist(-1, false, Kind::Double).clamp_min(1e-12).log()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Energies 4 and 1 along the axes; x = (1, 2) by hand, with the ridge 2.5·10⁻⁴.
    #[test]
    fn hand_values() {
        let moment = Tensor::from_slice(&[1.0, 0.0, 0.0, 4.0]).reshape([2, 2]);
        let fitted = Principal::of(&moment).unwrap();
        let energies = fitted.energies(&Tensor::from_slice(&[1.0, 2.0]).reshape([1, 2])).unwrap();
        let close = |found: Tensor, expected: f64| {
            assert!((found.double_value(&[0]) - expected).abs() < 1e-12, "{found:?} {expected}");
        };
        close(fitted.outside(&energies, 2), 0.2_f64.ln()); // the first axis is the minor one
        close(fitted.leverage(&energies), (4.0 / 4.000_25 + 1.0 / 1.000_25_f64).ln());
    }
}
