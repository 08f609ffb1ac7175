//! What the pooled input of one convolution says, by the principal directions of the ID training images.

use tch::{Kind, Tensor};

use crate::error::Result;

/// Shares of the channels that count as the principal subspace.
pub const SUBSPACE_RANKS: [(&str, i64); 3] = [("subspace-8", 8), ("subspace-4", 4), ("subspace-2", 2)];
/// The family of [`Principal::leverage`].
pub const LEVERAGE: &str = "leverage";
/// Ridge of the leverage, relative to the mean eigenvalue.
const RIDGE: f64 = 1e-4;

/// Directions and energies of a layer's pooled input on ID training images, the largest first.
#[derive(Debug)]
pub struct Principal {
    vectors: Tensor, // [C, C], a direction in each column
    values: Tensor,  // [C]
}

impl Principal {
    /// From the second moment `XᵀX/N`. `[C, C]`
    ///
    /// # Errors
    /// When it is not finite.
    pub fn of(moment: &Tensor) -> Result<Self> {
        let (values, vectors) = moment.f_linalg_eigh("L")?; // values rise
        Ok(Self { vectors: vectors.flip([1]), values: values.flip([0]).clamp_min(0.0) })
    }

    /// The squared coordinates of each row. `[N, C]` → `[N, C]`
    pub fn energies(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.f_matmul(&self.vectors)?.square())
    }

    /// `ln` of the share of a row's energy outside the leading one in `part` directions. Energies `[N, C]` → `[N]`
    pub fn outside(&self, energies: &Tensor, part: i64) -> Tensor {
        let channels = self.values.size()[0];
        let k = (channels / part).max(1);
        let sum = |t: &Tensor| t.sum_dim_intlist(-1, false, Kind::Double);
        let share = sum(&energies.narrow(1, k, channels - k)) / sum(energies).clamp_min(f64::MIN_POSITIVE);
        share.clamp_min(1e-12).log()
    }

    /// `ln xᵀ(K + δI)⁻¹x`, K the second moment: up to a factor the variance that a Bayesian linear layer keeps at x once it
    /// has seen the ID training images. Energies `[N, C]` → `[N]`
    pub fn leverage(&self, energies: &Tensor) -> Tensor {
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
