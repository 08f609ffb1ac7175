//! Per-layer scores pooled over layers, and joined with what the end of the network says: the energy of its logits, alone or
//! with the distance to the nearest training features.
//!
//! Residuals carry far sets, logits and features near ones (measured; docs/guide.md). A residual inside its usual range says nothing, and
//! adding it to the energy is adding noise: the *hinge* adds only what exceeds a quantile of the ID training images.
//! Everything is standardised with ID training images; nothing here sees an OoD set.

use fidgp::linalg::{self, Check, Jitter, Named};
use tch::{Device, Kind, Tensor};

use crate::error::{LabError, Result};
use crate::record::ood::{Base, Columns, Join, Layers, Pool, Recipe};

/// Every recipe for the given families, with the neighbours where `near`: what choosing chooses from.
pub fn recipes(families: &[(String, Vec<String>)], near: bool) -> Vec<Recipe> {
    let joins = [Join::Sum(0.3), Join::Sum(1.0), Join::Hinge(0.9), Join::Hinge(0.95), Join::Hinge(0.99)];
    let bases: &[Base] = if near { &[Base::Energy, Base::EnergyNeighbours] } else { &[Base::Energy] };
    let mut all = Vec::new();
    for (family, _) in families {
        for layers in [Layers::All, Layers::FirstHalf, Layers::SecondHalf, Layers::LastQuarter] {
            for pool in [Pool::Mean, Pool::Whitened] {
                let recipe = |join, base| Recipe { family: family.clone(), layers, pool, join, base };
                all.push(recipe(Join::Alone, Base::Energy));
                all.extend(bases.iter().flat_map(|base| joins.map(|join| recipe(join, *base))));
            }
        }
    }
    all
}

/// Mean and deviation on ID training images.
#[derive(Clone, Copy, Debug)]
struct Standard {
    mean: f64,
    sd: f64,
}

impl Standard {
    fn of(values: &[f64]) -> Self {
        let n = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / n;
        let sd = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
        Self { mean, sd: if sd > 0.0 { sd } else { 1.0 } }
    }

    fn apply(self, values: &[f64]) -> Vec<f64> {
        values.iter().map(|v| (v - self.mean) / self.sd).collect()
    }
}

/// A recipe with its numbers from ID training images.
#[derive(Debug)]
pub struct Combined {
    recipe: Recipe,
    layers: Vec<(String, Standard)>,
    /// chol of the correlation between layers. `[L, L]`
    correlation: Option<Tensor>,
    pooled: Standard,
    threshold: f64,
    base: Vec<(&'static str, Standard)>,
}

impl Combined {
    /// # Errors
    /// When the columns of the family are missing.
    pub fn fit(recipe: &Recipe, families: &[(String, Vec<String>)], fit: &Columns) -> Result<Self> {
        let layers = families.iter().find(|(family, _)| *family == recipe.family).map(|(_, layers)| layers.as_slice());
        let layers = chosen(layers.unwrap_or_default(), recipe.layers);
        let names = layers.iter().map(|layer| format!("{}/{layer}", recipe.family));
        let layers =
            names.map(|name| Ok((name.clone(), Standard::of(column(fit, &name)?)))).collect::<Result<Vec<_>>>()?;
        let unit = Standard { mean: 0.0, sd: 1.0 };
        let base = recipe.base.columns().iter().map(|name| Ok((*name, Standard::of(column(fit, name)?))));
        let base = base.collect::<Result<_>>()?;
        let mut made = Self { recipe: recipe.clone(), layers, correlation: None, pooled: unit, threshold: 0.0, base };
        if recipe.pool == Pool::Whitened {
            let z = made.layer_scores(fit)?; // [L, N]
            let correlation = z.matmul(&z.mt()) / z.size()[1].max(1) as f64;
            let jitter = Jitter { relative: 1e-3, escalations: 6 };
            let lower = linalg::cholesky(&[Named::one("correlation of layers", &correlation)], jitter, Check::Now)?;
            made.correlation = Some(lower[0].shallow_clone());
        }
        let pooled = made.pool(fit)?;
        made.pooled = Standard::of(&pooled);
        if let Join::Hinge(quantile) = recipe.join {
            let mut sorted = made.pooled.apply(&pooled);
            sorted.sort_by(f64::total_cmp);
            made.threshold = sorted[(quantile * (sorted.len() - 1) as f64) as usize];
        }
        Ok(made)
    }

    /// The score of every row.
    ///
    /// # Errors
    /// When a column is missing.
    pub fn score(&self, columns: &Columns) -> Result<Vec<f64>> {
        let residual = self.pooled.apply(&self.pool(columns)?);
        let mut base = vec![0.0; residual.len()];
        for (name, standard) in &self.base {
            let own = standard.apply(column(columns, name)?);
            base.iter_mut().zip(own).for_each(|(sum, z)| *sum += z / self.base.len() as f64);
        }
        let join = |(e, r): (f64, f64)| match self.recipe.join {
            Join::Alone => r,
            Join::Sum(weight) => e + weight * r,
            Join::Hinge(_) => e + (r - self.threshold).max(0.0),
        };
        Ok(base.into_iter().zip(residual).map(join).collect())
    }

    fn pool(&self, columns: &Columns) -> Result<Vec<f64>> {
        let z = self.layer_scores(columns)?;
        let pooled = match &self.correlation {
            None => z.mean_dim(0, false, Kind::Double),
            Some(lower) => {
                let energy = linalg::solve_lower(lower, &z).square().sum_dim_intlist(0, false, Kind::Double);
                energy.clamp_min(1e-12).log()
            }
        };
        Ok(Vec::try_from(pooled)?)
    }

    /// `[L, N]`
    fn layer_scores(&self, columns: &Columns) -> Result<Tensor> {
        let scores = self.layers.iter().map(|(name, standard)| Ok(standard.apply(column(columns, name)?)));
        let scores = scores.collect::<Result<Vec<_>>>()?;
        let rows = scores.len() as i64;
        Ok(Tensor::from_slice(&scores.concat()).to_device(Device::Cpu).f_reshape([rows, -1])?)
    }
}

fn chosen(layers: &[String], which: Layers) -> &[String] {
    let n = layers.len();
    match which {
        Layers::All => layers,
        Layers::FirstHalf => &layers[..n.div_ceil(2)],
        Layers::SecondHalf => &layers[n / 2..],
        Layers::LastQuarter => &layers[n - n.div_ceil(4)..],
    }
}

fn column<'a>(columns: &'a Columns, name: &str) -> Result<&'a [f64]> {
    columns.get(name).map(Vec::as_slice).ok_or_else(|| LabError::config(name, "was not scored for every set"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(layer: &[f64], energy: &[f64]) -> Columns {
        Columns::from([("variance/a".to_owned(), layer.to_vec()), ("energy".to_owned(), energy.to_vec())])
    }

    /// Fitted on layer scores 0..=10 (mean 5) and energies of mean 0 and deviation 1.
    #[test]
    fn the_hinge_is_silent_within_the_usual_range() {
        let layer: Vec<f64> = (0..=10).map(f64::from).collect();
        let energy: Vec<f64> = (0..11).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let fit = columns(&layer, &energy);
        let families = [("variance".to_owned(), vec!["a".to_owned()])];
        let make = |join| {
            let family = "variance".to_owned();
            let recipe = Recipe { family, layers: Layers::All, pool: Pool::Mean, join, base: Base::Energy };
            Combined::fit(&recipe, &families, &fit).unwrap()
        };
        let test = columns(&[5.0, 9.0, 20.0], &[0.0, 0.0, 0.0]);
        let of = |join| make(join).score(&test).unwrap();
        let hinge = of(Join::Hinge(0.9));
        assert!((hinge[0] - hinge[1]).abs() < 1e-12 && hinge[2] > hinge[0] + 3.0, "{hinge:?}");
        let alone = of(Join::Alone);
        assert!(alone[0].abs() < 1e-12 && alone[1] < alone[2], "{alone:?}");
        let sum = of(Join::Sum(2.0));
        assert!((sum[2] - hinge[0] - 2.0 * alone[2]).abs() < 1e-12);
        assert!(make(Join::Alone).score(&Columns::new()).unwrap_err().to_string().contains("variance/a"));
    }

    /// Energy −1 and 1, distances 0 and 4, the layer silent: z are ±1 each, and their mean is the base.
    #[test]
    fn the_base_is_the_mean_of_what_it_is_made_of() {
        let mut fit = columns(&[0.0, 1.0], &[-1.0, 1.0]);
        fit.insert("knn".to_owned(), vec![0.0, 4.0]);
        let families = [("variance".to_owned(), vec!["a".to_owned()])];
        let score = |base| {
            let (family, join) = ("variance".to_owned(), Join::Sum(0.0));
            let recipe = Recipe { family, layers: Layers::All, pool: Pool::Mean, join, base };
            let mut test = columns(&[0.5], &[3.0]);
            test.insert("knn".to_owned(), vec![2.0]);
            Combined::fit(&recipe, &families, &fit).unwrap().score(&test).unwrap()[0]
        };
        let [energy, both] = [Base::Energy, Base::EnergyNeighbours].map(score);
        assert!((energy - 3.0).abs() < 1e-12 && (both - 1.5).abs() < 1e-12, "{energy} {both}");
        assert!(recipes(&families, true).len() > recipes(&families, false).len());
    }

    #[test]
    fn parts_of_the_layers() {
        let layers: Vec<String> = (0..5).map(|i| i.to_string()).collect();
        let of = |which| chosen(&layers, which).join("");
        let all = [Layers::All, Layers::FirstHalf, Layers::SecondHalf, Layers::LastQuarter].map(of);
        assert_eq!(all, ["01234", "012", "234", "34"]);
        assert!(chosen(&[], Layers::LastQuarter).is_empty());
    }
}
