//! Gaussian densities and divergences, and the maps that keep positive parameters in range.

use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use crate::{Error, Result};

const LN_2PI: f64 = 1.837_877_066_409_345_6;

/// `Σ log N(x; 0, 1)` over all entries. Scalar.
pub fn standard_normal_log_density(x: &Tensor) -> Tensor {
    let n = x.numel() as f64;
    x.square().sum(x.kind()) * -0.5 - 0.5 * LN_2PI * n
}

/// `Σ log N(m + s·ε; m, s²)` over all entries, from the noise ε that made the point. Scalar.
pub fn normal_log_density_from_noise(epsilon: &Tensor, sd: &Tensor) -> Tensor {
    standard_normal_log_density(epsilon) - sd.log().sum(sd.kind())
}

/// `KL[N(m, s²) ‖ N(0, 1)] = Σ ½(s² + m² − 1) − ln s`. Scalar.
pub fn kl_to_standard_normal(mean: &Tensor, sd: &Tensor) -> Tensor {
    (((sd.square() + mean.square()) - 1.0) * 0.5 - sd.log()).sum(mean.kind())
}

/// How a positive parameter is kept below its maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BoundMap {
    /// `max · sigmoid(raw)`: the gradient never vanishes altogether.
    #[default]
    Smooth,
    /// `min(softplus(raw), max)`, as the released code does: no gradient above the maximum.
    Clamp,
}

/// A positive parameter with an optional upper bound.
#[derive(Debug)]
pub struct Bounded {
    /// What is optimised.
    pub raw: Tensor,
    /// The upper bound; without one the map is softplus.
    pub max: Option<f64>,
    /// The map onto (0, max).
    pub map: BoundMap,
}

impl Bounded {
    /// Several parameters of one shape, bound and map as one; gradients reach each of them.
    ///
    /// # Shapes
    /// L times `[..]` → `[L, ..]`
    pub fn stack(parts: &[&Self]) -> Self {
        let raw = Tensor::stack(&parts.iter().map(|part| &part.raw).collect::<Vec<_>>(), 0);
        Self { raw, max: parts[0].max, map: parts[0].map }
    }

    /// Whether two parameters can be stacked.
    pub fn is_like(&self, other: &Self) -> bool {
        self.has_bound_of(other) && self.raw.size() == other.raw.size()
    }

    /// Whether two parameters are kept in range alike.
    pub(crate) fn has_bound_of(&self, other: &Self) -> bool {
        self.max == other.max && self.map == other.map
    }

    /// The parameter itself, positive and at most `max`.
    pub fn value(&self) -> Tensor {
        match (self.max, self.map) {
            (None, _) => self.raw.softplus(),
            (Some(max), BoundMap::Clamp) => self.raw.softplus().clamp_max(max),
            (Some(max), BoundMap::Smooth) => self.raw.sigmoid() * max,
        }
    }

    /// The raw number whose [`value`](Self::value) is `value`.
    ///
    /// # Errors
    /// When `value` is not strictly between 0 and the maximum.
    pub fn raw_of(name: &str, value: f64, max: Option<f64>, map: BoundMap) -> Result<f64> {
        if let Some(max) = max.filter(|max| !max.is_finite()) {
            return Err(Error::setting(format!("{name}'s maximum"), max, "must be a finite number"));
        }
        let in_range = value > 0.0 && max.is_none_or(|max| value < max) && value.is_finite();
        if !in_range {
            let range =
                max.map_or("greater than 0".to_owned(), |max| format!("greater than 0 and below its maximum {max}"));
            return Err(Error::setting(name, value, format!("must be {range}")));
        }
        Ok(match (max, map) {
            (Some(max), BoundMap::Smooth) => (value / (max - value)).ln(),
            _ => inverse_softplus(value),
        })
    }

    /// How many entries are within five per cent of the upper bound, and how many there are; none are where there is no bound.
    pub fn near_max(&self) -> (i64, i64) {
        let near = |max: f64| self.value().ge(0.95 * max).sum(Kind::Int64).int64_value(&[]);
        (self.max.map_or(0, near), self.raw.numel() as i64)
    }

    /// How many entries stand at a hard bound, where their gradient is zero; none under a smooth map.
    pub fn clamped(&self) -> i64 {
        match (self.max, self.map) {
            (Some(max), BoundMap::Clamp) => self.raw.softplus().ge(max).sum(Kind::Int64).int64_value(&[]),
            _ => 0,
        }
    }
}

/// `ln(eˣ − 1)`, the inverse of softplus, without overflow.
pub fn inverse_softplus(x: f64) -> f64 {
    x + (-(-x).exp_m1()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Device;

    #[test]
    fn densities_at_known_points() {
        let zero = Tensor::zeros([2], (Kind::Double, Device::Cpu));
        assert!((standard_normal_log_density(&zero).double_value(&[]) + LN_2PI).abs() < 1e-15);
        let (mean, sd) = (Tensor::from_slice(&[1.0]), Tensor::from_slice(&[2.0]));
        // ½(4 + 1 − 1) − ln 2
        assert!((kl_to_standard_normal(&mean, &sd).double_value(&[]) - (2.0 - 2f64.ln())).abs() < 1e-15);
        let log_density = normal_log_density_from_noise(&Tensor::from_slice(&[0.5]), &sd).double_value(&[]);
        assert!((log_density - (-0.125 - 0.5 * LN_2PI - 2f64.ln())).abs() < 1e-15);
    }

    #[test]
    fn entries_near_the_bound_are_counted() {
        let raw = |value: f64, map| Bounded::raw_of("x", value, Some(0.1), map).unwrap();
        for map in [BoundMap::Smooth, BoundMap::Clamp] {
            let raw = Tensor::from_slice(&[raw(0.096, map), raw(0.094, map), raw(0.0999, map)]);
            assert_eq!(Bounded { raw: raw.shallow_clone(), max: Some(0.1), map }.near_max(), (2, 3));
            assert_eq!(Bounded { raw, max: None, map }.near_max(), (0, 3));
        }
    }

    #[test]
    fn bounded_parameters_come_back_from_their_raw_numbers() {
        for (value, max, map) in [
            (1e-3, None, BoundMap::Smooth),
            (1e-3, Some(0.03), BoundMap::Smooth),
            (0.02, Some(0.03), BoundMap::Clamp),
            (40.0, None, BoundMap::Clamp),
        ] {
            let raw = Bounded::raw_of("x", value, max, map).unwrap();
            let bounded = Bounded { raw: Tensor::from_slice(&[raw]), max, map };
            assert!(
                (bounded.value().double_value(&[0]) - value).abs() < 1e-12 * value.max(1.0),
                "{value} {max:?} {map:?}"
            );
        }
        let raw = Tensor::from_slice(&[-9.0, 2.0, 3.0]);
        let bounded = |map| Bounded { raw: raw.shallow_clone(), max: Some(0.1), map };
        assert_eq!((bounded(BoundMap::Clamp).clamped(), bounded(BoundMap::Smooth).clamped()), (2, 0));
        let error = Bounded::raw_of("max_lamda", 0.05, Some(0.03), BoundMap::Smooth).unwrap_err().to_string();
        assert!(error.contains("max_lamda") && error.contains("0.05") && error.contains("0.03"), "{error}");
    }
}
