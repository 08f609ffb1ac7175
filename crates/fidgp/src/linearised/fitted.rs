//! The fit, one pass over the training data, and what it leaves.

use std::collections::HashMap;

use tch::{Kind, Tensor};

use super::{
    Directions, Evidence, Jacobian, Misfit, Others, OwnConditional, Precision, Structure, StructureKind, Tangent,
    curvature,
};
use crate::layer::Curvature;
use crate::linalg::check_finite;
use crate::{Error, Result};

/// Where δ comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PriorPrecision {
    /// A number; 1 is the whitened prior.
    Given(f64),
    /// Where the evidence is highest.
    Evidence,
}

/// Where the level of a regression's noise comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoiseLevel {
    /// As it was trained.
    Trained,
    /// Where the evidence is highest.
    Evidence,
}

/// How a linearised posterior is fitted.
#[derive(Clone, Debug, PartialEq)]
pub struct FitConfig {
    /// The structure of Σ.
    pub structure: StructureKind,
    /// δ.
    pub prior: PriorPrecision,
    /// s.
    pub noise: NoiseLevel,
    /// Of features: the mean variance that an output has on the training inputs. What decides δ and s there, δ being
    /// given in thousandths of the mean eigenvalue.
    pub variance: f64,
}

impl Default for FitConfig {
    fn default() -> Self {
        Self {
            structure: StructureKind::Auto,
            prior: PriorPrecision::Given(1.0),
            noise: NoiseLevel::Trained,
            variance: 1.0,
        }
    }
}

/// What the likelihood says of some outputs.
#[derive(Debug)]
pub struct Observed {
    /// Second derivatives of the negative log-likelihood.
    pub curvature: Curvature,
    /// `(y − f)²/σ²`, of a regression. `[N]`
    pub misfit: Option<Tensor>,
}

/// `N(m, Σ)` over the inducing matrices of a network.
#[derive(Debug)]
pub struct LinearisedPosterior {
    /// Σ.
    pub structure: Box<dyn Structure>,
    /// δ and s.
    pub precision: Precision,
    /// The layers it is over.
    pub layers: Vec<String>,
    /// What is linear.
    pub directions: Directions,
    /// What the conditional adds.
    pub conditional: OwnConditional,
    /// How many directions the data decide.
    pub decided: f64,
}

/// Fits the posterior in one pass over batches of training inputs. `observe` is given the number of a batch and its outputs.
///
/// # Errors
/// When the structure does not fit into memory, a batch does not fit the network, or a matrix cannot be decomposed.
pub fn fit(
    tangent: &Tangent,
    batches: &mut dyn Iterator<Item = Result<Tensor>>,
    examples: i64,
    observe: &dyn Fn(usize, i64, &Tensor) -> Result<Observed>,
    config: &FitConfig,
) -> Result<LinearisedPosterior> {
    fit_with(tangent, batches, (examples, None), observe, config)
}

/// The same where others look at other batches of the so many examples.
///
/// # Errors
/// As [`fit`], and when the others do not answer.
pub fn fit_with(
    tangent: &Tangent,
    batches: &mut dyn Iterator<Item = Result<Tensor>>,
    (examples, others): (i64, Option<&dyn Others>),
    observe: &dyn Fn(usize, i64, &Tensor) -> Result<Observed>,
    config: &FitConfig,
) -> Result<LinearisedPosterior> {
    let (mut gather, mut misfit, mut seen) = (None, Misfit::default(), false);
    let mut fitted_to = 0;
    for (number, batch) in batches.enumerate() {
        tangent.each(&batch?, |start, linearised| {
            let outputs = linearised.outputs.to_kind(Kind::Double);
            check_finite("outputs on the training data", &outputs, super::dense::ADVICE)?;
            fitted_to += outputs.size()[0];
            let Observed { curvature, misfit: own } = observe(number, start, &outputs)?;
            if let Some(own) = own {
                misfit.energy += own.sum(Kind::Double).double_value(&[]);
                misfit.examples += own.numel() as f64;
                seen = true;
            }
            let gather = match &mut gather {
                Some(gather) => gather,
                none => none.insert(config.structure.gather(tangent, examples * tangent.rows(outputs.size()[1]))?),
            };
            match tangent.directions {
                Directions::Gradients => gather.add(&linearised.jacobian.mixed(&curvature::root(&curvature))),
                // every example counts alike; a law without classes has none of their shares
                Directions::Features => {
                    let shares = linearised.jacobian.shares.filter(|_| curvature.outer.is_some());
                    gather.add(&Jacobian { shares, ..linearised.jacobian })
                }
            }
        })?;
    }
    let nothing = || Error::setting("training examples", 0, "a linearised posterior is fitted to data: there are none");
    let mut gather = gather.ok_or_else(nothing)?;
    if let Some(others) = others {
        tch::no_grad(|| gather.join(others))?;
        let own = [misfit.energy, misfit.examples, fitted_to as f64];
        let all = others.sum(&Tensor::from_slice(&own))?;
        (misfit.energy, misfit.examples) = (all.double_value(&[0]), all.double_value(&[1]));
        fitted_to = all.double_value(&[2]) as i64;
    }
    let structure = tch::no_grad(|| gather.finish())?;
    settled(tangent, structure, (seen.then_some(misfit), fitted_to), config)
}

/// Chooses δ and s, and sets them.
fn settled(
    tangent: &Tangent,
    mut structure: Box<dyn Structure>,
    (misfit, examples): (Option<Misfit>, i64),
    config: &FitConfig,
) -> Result<LinearisedPosterior> {
    let misfit = misfit.filter(|_| config.noise == NoiseLevel::Evidence);
    let evidence = Evidence { eigenvalues: structure.eigenvalues().shallow_clone(), energy: tangent.energy(), misfit };
    let precision = match config.prior {
        _ if tangent.directions == Directions::Features => {
            of_features(&evidence, examples, config, structure.centres().map(|k| (k, tangent.layers().len())))
        }
        PriorPrecision::Evidence => evidence.best(),
        PriorPrecision::Given(prior) => evidence.best_curvature(prior),
    }
    .check()?;
    structure.set(precision)?;
    Ok(LinearisedPosterior {
        decided: evidence.decided(precision),
        structure,
        precision,
        layers: tangent.layers().iter().map(|layer| layer.name.clone()).collect(),
        directions: tangent.directions,
        conditional: tangent.conditional,
    })
}

/// The most by which the distance of an unseen input may be larger.
const MOST_UNSEEN: f64 = 4.0;

/// δ and s under which an output has the wanted mean variance on the training inputs. Distances from so many centres, in so many
/// layers, are to have its root on average, on inputs like those of the fit that were not in it: a Gaussian's distance from what
/// was estimated of it in γ directions is `N/(N − γ − K)` times as large there.
fn of_features(evidence: &Evidence, examples: i64, config: &FitConfig, centres: Option<(i64, usize)>) -> Precision {
    let thousandths = if let PriorPrecision::Given(number) = config.prior { number } else { 1.0 };
    let ridge = Precision {
        prior: 1e-3 * thousandths * evidence.eigenvalues.mean(Kind::Double).double_value(&[]),
        curvature: 1.0,
    };
    let (count, decided) = (examples.max(1) as f64, evidence.decided(ridge));
    let (wanted, unseen) = centres.map_or((config.variance, 1.0), |(centres, layers)| {
        let left = count - decided / layers.max(1) as f64 - centres as f64;
        (config.variance.sqrt(), count / left.max(count / MOST_UNSEEN))
    });
    let curvature = unseen * decided / (count * wanted); // the mean over inputs of Σ h/(δ + s h) is decided/N
    Precision { prior: ridge.prior * curvature, curvature }
}

impl LinearisedPosterior {
    /// The same posterior, its tensors shared.
    #[must_use]
    pub fn share(&self) -> Self {
        let (structure, layers) = (self.structure.share_tensors(), self.layers.clone());
        let Self { precision, directions, conditional, decided, .. } = *self;
        Self { structure, precision, layers, directions, conditional, decided }
    }

    /// Refuses a posterior that was fitted to other layers than those of a network, so set up.
    ///
    /// # Errors
    /// Names what does not fit.
    pub fn check_fits(&self, tangent: &Tangent) -> Result<()> {
        let sides: Vec<_> = tangent.layers().iter().map(|layer| tangent.sides(layer)).collect();
        self.structure.check_sides(&sides)
    }

    /// What it is, in a few words.
    pub fn words(&self) -> String {
        let of = if self.directions == Directions::Features { "features of " } else { "" };
        let (kind, layers) = (self.structure.kind(), self.layers.len());
        format!("linearised posterior ({kind}, {of}{layers} layer{})", if layers == 1 { "" } else { "s" })
    }

    /// Sets a network up as it was when this was fitted.
    pub fn set_up(&self, tangent: &mut Tangent) {
        (tangent.directions, tangent.conditional) = (self.directions, self.conditional);
    }

    /// Everything a copy needs: the structure's tensors, and δ and s.
    pub fn tensors(&self) -> Vec<(String, Tensor)> {
        let Precision { prior, curvature } = self.precision;
        let precision = ("precision".to_owned(), Tensor::from_slice(&[prior, curvature, self.decided]));
        self.structure.tensors().into_iter().chain([precision]).collect()
    }

    /// A copy from its tensors.
    ///
    /// # Errors
    /// When one is missing or has another shape.
    pub fn restore(
        kind: &str,
        layers: Vec<String>,
        conditional: OwnConditional,
        tensors: &HashMap<String, Tensor>,
    ) -> Result<Self> {
        let numbers = Vec::<f64>::try_from(super::structure::stored(tensors, "precision", 1)?.to_kind(Kind::Double))?;
        let [prior, curvature, decided] = numbers[..] else {
            return Err(Error::shape("precision", &[numbers.len() as i64], "[3]: fit the linearised posterior again"));
        };
        if !decided.is_finite() {
            return Err(Error::setting("precision", decided, "is no number of directions: fit the posterior again"));
        }
        let precision = Precision { prior, curvature }.check()?;
        let mut structure = StructureKind::restore(kind, tensors, layers.len())?;
        structure.set(precision)?;
        Ok(Self { structure, precision, layers, directions: Directions::Gradients, conditional, decided })
    }
}
