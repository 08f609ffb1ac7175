//! From observations to scores. Everything that is fitted is fitted once, on ID training images.

use tch::{Device, Kind, Tensor};

use super::combine::Combined;
use super::observed::Observed;
use super::scores::{Formula, Given, LAYER_SCORES, LayerFormula, LayerRow, Made, Needs, OodScore, SCORES};
use crate::error::{LabError, Result};
use crate::record::ood::{Base, Layers, Pool, Recipe};

/// `variance/layer1.0.conv1` is one layer's.
pub use crate::record::ood::Columns;

/// Every score, with what was fitted.
#[derive(Default)]
pub struct Scorer {
    images: Vec<(&'static OodScore, Box<dyn Formula>)>,
    layers: Vec<Box<dyn LayerFormula>>,
    /// What the model does not have or could not be fitted, and why.
    pub left_out: Vec<String>,
}

impl std::fmt::Debug for Scorer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.images.iter().flat_map(|(score, _)| score.rows).map(|(name, _)| name).collect();
        f.debug_struct("Scorer").field("scores", &names).field("left_out", &self.left_out).finish_non_exhaustive()
    }
}

impl Scorer {
    /// The registered scores that need no fitting, and those of somebody else.
    pub fn unfitted(more: &[&'static OodScore]) -> Self {
        let plain = |score: &&'static OodScore| match score.made {
            Made::Plain(of) => Some((*score, Box::new(plainly(of)) as Box<dyn Formula>)),
            Made::Fitted(_) => None,
        };
        Self { images: SCORES.iter().chain(more).filter_map(plain).collect(), ..Self::default() }
    }

    /// Fits the registered scores on ID training images, and those of somebody else.
    ///
    /// # Errors
    /// When a score of layers cannot be fitted. What else cannot is left out.
    pub fn fit(given: &Given, more: &[&'static OodScore]) -> Result<Self> {
        let mut scorer = Self::default();
        for score in SCORES.iter().chain(more) {
            match score.made {
                Made::Plain(of) => scorer.images.push((score, Box::new(plainly(of)))),
                Made::Fitted(fit) => match fit(given) {
                    Ok(fitted) => scorer.images.extend(fitted.map(|fitted| (*score, fitted))),
                    Err(error) => scorer.left_out.push(format!("{}: {error}", score.rows[0].0)),
                },
            }
        }
        scorer.layers = LAYER_SCORES.iter().map(|score| (score.fit)(given)).collect::<Result<_>>()?;
        Ok(scorer)
    }

    /// The layers of each family of per-layer scores, in the order of the network.
    pub fn families(&self) -> Vec<(String, Vec<String>)> {
        self.layers.iter().flat_map(|score| score.families()).filter(|(_, layers)| !layers.is_empty()).collect()
    }

    /// Whether columns hold every layer of every family: those of a file may be older than a score.
    pub(super) fn knows(&self, columns: &Columns) -> bool {
        let has =
            |family: &str, layers: &[String]| layers.iter().all(|l| columns.contains_key(&format!("{family}/{l}")));
        self.families().iter().all(|(family, layers)| has(family, layers))
    }

    /// All scores of a batch.
    ///
    /// # Errors
    /// When the observations do not fit what was fitted, or a score is NaN.
    pub fn score(&self, seen: &Observed) -> Result<Columns> {
        self.columns(seen, |formula| formula.score(seen))
    }

    /// The same of the images it was fitted on.
    ///
    /// # Errors
    /// As [`Self::score`].
    pub fn score_fitted(&self, seen: &Observed) -> Result<Columns> {
        self.columns(seen, |formula| formula.score_fitted(seen))
    }

    fn columns(&self, seen: &Observed, of: impl Fn(&dyn Formula) -> Result<Vec<Tensor>>) -> Result<Columns> {
        let mut columns = Columns::new();
        for (score, formula) in &self.images {
            for ((name, _), values) in score.rows.iter().zip(of(formula.as_ref())?) {
                columns.insert((*name).to_owned(), numbers(name, &values)?);
            }
        }
        for score in &self.layers {
            for (name, values) in score.score(seen)? {
                let values = numbers(&name, &values)?;
                columns.insert(name, values);
            }
        }
        Ok(columns)
    }
}

/// A formula of what is seen alone.
fn plainly(of: fn(&Observed) -> Vec<Tensor>) -> impl Fn(&Observed) -> Result<Vec<Tensor>> {
    move |seen| Ok(of(seen))
}

/// The rows of layers that stand in every table, whatever is chosen: those whose family has layers, and what they are joined
/// with is there.
///
/// # Errors
/// When a column of ID training images is missing.
pub fn fixed_recipes(families: &[(String, Vec<String>)], fit: &Columns) -> Result<Vec<(String, Combined)>> {
    let fits = |row: &&LayerRow| {
        let near = row.base != Base::EnergyNeighbours || fit.contains_key("knn");
        near && families.iter().any(|(family, _)| family == row.family)
    };
    let made = |row: &LayerRow| {
        let (family, join, base) = (row.family.to_owned(), row.join, row.base);
        let recipe = Recipe { family, layers: Layers::All, pool: Pool::Mean, join, base };
        Ok((row.name.to_owned(), Combined::fit(&recipe, families, fit)?))
    };
    LAYER_SCORES.iter().flat_map(|score| score.rows).filter(fits).map(made).collect()
}

/// Names of the table with what they are, in its order: registered scores, those of somebody else, and recipes of layers.
pub fn about(more: &[&'static OodScore]) -> Vec<(&'static str, &'static str)> {
    let images = SCORES.iter().chain(more).flat_map(|score| score.rows.iter().copied());
    images.chain(LAYER_SCORES.iter().flat_map(|score| score.rows).map(|row| (row.name, row.about))).collect()
}

/// The scores that need one of these, in a line.
pub(super) fn named(needs: &[Needs]) -> String {
    let images = SCORES.iter().filter(|score| needs.contains(&score.needs));
    let layers = LAYER_SCORES.iter().filter(|score| needs.contains(&score.needs));
    let alone = layers.flat_map(|score| score.rows).filter(|row| row.join == crate::record::ood::Join::Alone);
    let names = images.flat_map(|score| score.rows).map(|(name, _)| *name).chain(alone.map(|row| row.name));
    names.collect::<Vec<_>>().join(", ")
}

/// A score as numbers, none of them NaN.
fn numbers(name: &str, score: &Tensor) -> Result<Vec<f64>> {
    let values = Vec::<f64>::try_from(score.to_device(Device::Cpu).to_kind(Kind::Double))?;
    if values.iter().any(|value| value.is_nan()) {
        let why = "is NaN for an image: find out where the network diverges before ranking anything by it";
        return Err(LabError::config(format!("score {name}"), why));
    }
    Ok(values)
}
