//! What every rank of a layer costs, and the best weight of a rank.

use tch::{Kind, Tensor};

use super::Sides;
use crate::Result;

/// Share of the mean eigenvalue that is added to a second moment: directions that the data do not show are not free.
const DAMPING: f64 = 1e-3;

/// A weight's singular values in the units of the loss.
#[derive(Debug)]
pub struct Spectrum {
    left: Tensor,
    singular: Tensor,
    right: Tensor,
    /// What takes the units away again, on both sides.
    back: Option<(Tensor, Tensor)>,
    losses: Vec<f64>,
}

impl Spectrum {
    /// In units of the weights themselves, as a plain truncation has them.
    ///
    /// # Shapes
    /// `[d_out, d_in]`
    ///
    /// # Errors
    /// When it is not finite.
    pub fn plain(weight: &Tensor) -> Result<Self> {
        Self::decompose(&weight.f_to_kind(Kind::Double)?, None)
    }

    /// In units of the loss: `G^½ W A^½`.
    ///
    /// # Shapes
    /// `[d_out, d_in]`
    ///
    /// # Errors
    /// When a number is not finite.
    pub fn weighted(weight: &Tensor, sides: &Sides) -> Result<Self> {
        let (row, row_back) = roots(&sides.output)?;
        let (col, col_back) = roots(&sides.input)?;
        let weighted = row.f_matmul(&weight.f_to_kind(Kind::Double)?)?.f_matmul(&col)?;
        Self::decompose(&weighted, Some((row_back, col_back)))
    }

    fn decompose(matrix: &Tensor, back: Option<(Tensor, Tensor)>) -> Result<Self> {
        fidgp::linalg::check_finite("weights and their moments", matrix, "The trained weights are damaged")?;
        let (left, singular, right) = matrix.f_svd(true, true)?;
        let squares = Vec::<f64>::try_from(singular.f_square()?)?;
        let mut losses = vec![0.0];
        losses.extend(squares.iter().rev().scan(0.0, |sum, square| {
            *sum += 0.5 * square;
            Some(*sum)
        }));
        losses.reverse();
        Ok(Self { left, singular, right, back, losses })
    }

    /// Half the squared singular values beyond a rank.
    pub fn loss(&self, rank: i64) -> f64 {
        self.losses[(rank.max(0) as usize).min(self.losses.len() - 1)]
    }

    /// The greatest rank.
    pub fn rank(&self) -> i64 {
        self.losses.len() as i64 - 1
    }

    /// The best weight of a rank. `[d_out, d_in]`
    ///
    /// # Errors
    /// When libtorch fails.
    pub fn truncated(&self, rank: i64) -> Result<Tensor> {
        let rank = rank.clamp(0, self.rank());
        let part = |side: &Tensor| side.f_narrow(1, 0, rank);
        let scaled = part(&self.left)?.f_mul(&self.singular.f_narrow(0, 0, rank)?)?;
        let low = scaled.f_matmul(&part(&self.right)?.f_tr()?)?;
        let Some((row, col)) = &self.back else { return Ok(low.f_to_kind(Kind::Float)?) };
        Ok(row.f_matmul(&low)?.f_matmul(col)?.f_to_kind(Kind::Float)?)
    }
}

/// `M^½` and `M^−½` of a second moment, damped.
fn roots(moment: &Tensor) -> Result<(Tensor, Tensor)> {
    fidgp::linalg::check_finite("second moments", moment, "The network's outputs are not finite on these data")?;
    let (values, vectors) = moment.f_linalg_eigh("L")?;
    let values = values.f_clamp_min(0.0)?;
    let values = &values + (values.f_mean(Kind::Double)? * DAMPING).f_clamp_min(f64::MIN_POSITIVE)?;
    let power = |root: Tensor| (&vectors * root).f_matmul(&vectors.tr());
    Ok((power(values.f_sqrt()?)?, power(values.f_rsqrt()?)?))
}

#[cfg(test)]
mod tests {
    use fidgp::Key;
    use tch::Device;

    use super::*;

    fn normal(name: &str, shape: &[i64]) -> Tensor {
        Key::new(3).fold(name).normal(shape, Kind::Double, Device::Cpu)
    }

    fn energy(tensor: &Tensor) -> f64 {
        tensor.square().sum(Kind::Double).double_value(&[])
    }

    /// The loss of a rank is what its truncation loses in the units of the loss, and no plain truncation loses less there.
    #[test]
    fn a_weighted_truncation_is_the_best_in_its_units() {
        let weight = normal("weight", &[6, 9]);
        let moment = |name: &str, d: i64| {
            let sample = normal(name, &[50, d]) * (Tensor::arange(d, (Kind::Double, Device::Cpu)) + 0.2);
            sample.tr().matmul(&sample) / 50.0
        };
        let sides = Sides { input: moment("a", 9), output: moment("g", 6) };
        let weighted = Spectrum::weighted(&weight, &sides).unwrap();
        let plain = Spectrum::plain(&weight).unwrap();
        let (row, col) = (roots(&sides.output).unwrap().0, roots(&sides.input).unwrap().0);
        let lost = |low: &Tensor| 0.5 * energy(&row.matmul(&(&weight - low.to_kind(Kind::Double))).matmul(&col));
        for rank in 0..=6 {
            let (own, other) = (lost(&weighted.truncated(rank).unwrap()), lost(&plain.truncated(rank).unwrap()));
            assert!(
                (own - weighted.loss(rank)).abs() < 1e-4 * weighted.loss(0),
                "{rank}: {own} {}",
                weighted.loss(rank)
            );
            assert!(own <= other + 1e-4 * weighted.loss(0), "{rank}: {own} {other}");
        }
        assert!(lost(&weighted.truncated(2).unwrap()) < 0.9 * lost(&plain.truncated(2).unwrap()));
        assert!((plain.loss(0) - 0.5 * energy(&weight)).abs() < 1e-9 && weighted.loss(6) == 0.0);
    }
}
