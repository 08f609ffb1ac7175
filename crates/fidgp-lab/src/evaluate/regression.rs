//! Metrics of a regression, in the units of the data.

use fidgp::Key;
use fidgp::objective::NumberLikelihood;
use fidgp::predict::{Batch, Effort, PredictiveLaw, Regressed, regress};
use fidgp_data::Standardiser;
use fidgp_metrics::{MixtureForecast, Noise, mae, names, rmse, total_variance};
use tch::{Kind, Tensor};

use crate::error::{LabError, Result};
use crate::model::{Model, OwnPart};
use crate::record::{Examples, Forecasts, MetricNotes, Metrics};
use crate::source::TableSource;

/// The level of the reported interval.
const LEVEL: f64 = 0.95;

/// What must be said with the metrics: the level of the interval whose coverage is given.
pub fn notes() -> MetricNotes {
    [(names::REG_COVERAGE.to_owned(), [("level".to_owned(), LEVEL.into())].into())].into()
}

/// Means and noise variances of K draws at N points, in the units of the data.
#[derive(Debug)]
pub struct Forecast {
    /// `[K, N]`, row-major.
    pub means: Vec<f64>,
    /// `[K, N]`, row-major.
    pub noise: Vec<f64>,
    /// N.
    pub points: usize,
    /// Of a law that states the variance of its mean (K = 1), the epistemic part of `noise`, which is then the whole variance. `[N]`
    pub epistemic: Option<Vec<f64>>,
    /// Means and variances of the logarithm, where that is predicted: `means` and `noise` follow from them. `[K, N]`
    pub logarithm: Option<[Vec<f64>; 2]>,
}

impl Forecast {
    /// Predictions with the standardisation of the target undone. The variance that a law states is the epistemic part.
    ///
    /// # Errors
    /// When libtorch cannot read them.
    pub fn of(predicted: &Regressed, scale: Option<&Standardiser>) -> Result<Self> {
        let flat = |tensor: &Tensor| Vec::<f64>::try_from(tensor.to_kind(Kind::Double).reshape([-1]));
        let unit = scale.map_or(1.0, |scale| scale.inverse_target_sd(1.0)).powi(2);
        let mut means = flat(&predicted.means)?;
        if let Some(scale) = scale {
            for mean in &mut means {
                *mean = scale.inverse_target(*mean);
            }
        }
        let epistemic = predicted.variance.as_ref().map(|stated| flat(&(stated * unit))).transpose()?;
        let noise = match &predicted.variance {
            Some(stated) => flat(&((predicted.aleatoric() + stated) * unit))?,
            None => flat(&(&predicted.noise * unit))?,
        };
        let points = predicted.means.size()[1] as usize;
        let found = Self { means, noise, points, epistemic, logarithm: None };
        Ok(if scale.is_some_and(|scale| scale.target_log) { found.of_logarithm() } else { found })
    }

    /// What a forecast of the logarithm says of the number itself: moments of log-normal distributions.
    fn of_logarithm(self) -> Self {
        let Self { means: m, noise: v, points, epistemic, .. } = self;
        let both = || m.iter().zip(&v);
        let mean = |(m, v): (&f64, &f64)| exp(m + v / 2.0);
        let part = |m: f64, v: f64, own: f64| exp(2.0 * m + v) * own.min(MOST).exp_m1();
        let variance = |(m, v): (&f64, &f64)| part(*m, *v, *v);
        let epistemic = epistemic.map(|own| both().zip(own).map(|((m, v), own)| part(*m, *v, own)).collect());
        let (means, noise) = (both().map(mean).collect(), both().map(variance).collect());
        Self { means, noise, points, epistemic, logarithm: Some([m, v]) }
    }

    /// Targets as mixtures see them: logarithms where these are predicted.
    fn seen(&self, targets: &[f64]) -> Vec<f64> {
        targets.iter().map(|y| if self.logarithm.is_some() { y.ln() } else { *y }).collect()
    }

    /// Mixtures over draws beside targets as they see them.
    fn mixture<'a>(&'a self, seen: &'a [f64]) -> Result<MixtureForecast<'a>> {
        let (means, noise) =
            self.logarithm.as_ref().map_or((&self.means, &self.noise), |[means, noise]| (means, noise));
        Ok(MixtureForecast::new(means, Noise::PerDraw(noise), seen)?)
    }

    /// The NLL of each target in its own unit: a density of the logarithm is divided by the number.
    fn nll_of_each(&self, targets: &[f64]) -> Result<Vec<f64>> {
        let nll = self.mixture(&self.seen(targets))?.nll_of_each();
        let log = |y: &f64| if self.logarithm.is_some() { y.ln() } else { 0.0 };
        Ok(nll.iter().zip(targets).map(|(nll, y)| nll + log(y)).collect())
    }

    /// Mean, epistemic deviation and noise deviation at each point.
    ///
    /// # Errors
    /// When a value is not finite.
    pub fn split(&self) -> Result<(Vec<f64>, Vec<f64>, Vec<f64>)> {
        if let Some(epistemic) = &self.epistemic {
            if let Some(row) = (0..self.means.len()).find(|&row| {
                let all = [self.means[row], self.noise[row], epistemic[row]];
                !all.iter().all(|value| value.is_finite())
            }) {
                let problem = "it has no finite prediction".to_owned();
                let advice = "its numbers are too large for the network";
                return Err(fidgp_data::Error::Value { what: format!("row {row}"), problem, advice }.into());
            }
            let noise = self.noise.iter().zip(epistemic).map(|(all, own)| (all - own).max(0.0).sqrt()).collect();
            return Ok((self.means.clone(), epistemic.iter().map(|v| v.sqrt()).collect(), noise));
        }
        let split = total_variance(&self.means, self.points, Noise::PerDraw(&self.noise))?;
        let root = |variance: &[f64]| variance.iter().map(|v| v.sqrt()).collect();
        Ok((split.mean.clone(), root(&split.epistemic), root(&split.aleatoric)))
    }
}

/// The largest exponent that is followed: beyond it a number is as good as infinite, and variances must stay finite.
const MOST: f64 = 150.0;

fn exp(x: f64) -> f64 {
    x.min(MOST).exp()
}

/// Predicts with K draws and undoes the standardisation of the target.
///
/// # Errors
/// When the model is no regression, or the data does not fit it.
pub fn forecast(
    model: &Model,
    data: &TableSource,
    scale: Option<&Standardiser>,
    (draws, batch): (u64, usize),
    key: Key,
) -> Result<Forecast> {
    let Some(likelihood) = model.likelihood.reading().numbers() else {
        return Err(LabError::config("likelihood.kind", "must be \"gaussian\" for a regression"));
    };
    let batches = data.batches(batch);
    let part = model.parts.part(batches.len());
    let (own, first) = (&batches[part.own.clone()], part.own.start as u64);
    let predicted = if model.posterior.is_none() {
        let mut draws = model.draws(draws, key)?;
        draws.first_batch = first;
        regress(&draws, likelihood, own)?
    } else {
        regress_by(model.law(draws, key, 0)?.as_mut(), model, likelihood, (own, first), Effort::default())?
    };
    Forecast::of(&gathered(&predicted, &part)?, scale)
}

/// What all processes have predicted, in the order of the rows.
fn gathered(own: &Regressed, part: &OwnPart) -> Result<Regressed> {
    let draws = own.means.size()[0];
    let stated = own.variance.as_ref().map(|variance| variance.unsqueeze(0));
    let all: Vec<_> = [&own.means, &own.noise].into_iter().chain(&stated).map(|t| t.to_kind(Kind::Double)).collect();
    let all = part.gathered(&Tensor::cat(&all, 0).mt(), "predictions")?.mt();
    Ok(Regressed {
        means: all.narrow(0, 0, draws).to_kind(own.means.kind()),
        noise: all.narrow(0, draws, draws).to_kind(own.noise.kind()),
        variance: own.variance.as_ref().map(|variance| all.get(2 * draws).to_kind(variance.kind())),
    })
}

/// What a law says of rows, batch by batch, in the units of the training.
///
/// # Errors
/// When a batch does not fit the network, or the effort is impossible.
pub(crate) fn regress_by(
    law: &mut dyn PredictiveLaw,
    model: &Model,
    likelihood: &dyn NumberLikelihood,
    (batches, first): (&[Tensor], u64),
    effort: Effort,
) -> Result<Regressed> {
    let mut parts = Vec::new();
    for (number, inputs) in (first..).zip(batches) {
        parts.push(law.regress(model.network.as_ref(), likelihood, Batch { inputs, number }, effort)?.0);
    }
    Ok(Regressed::joined(&parts)?)
}

/// RMSE of the mean; NLL, CRPS and coverage of the mixture over draws; mean epistemic deviation.
///
/// # Errors
/// When a value is not finite.
pub fn metrics(forecast: &Forecast, targets: &[f64]) -> Result<Metrics> {
    let (mean, epistemic, _) = forecast.split()?;
    let seen = forecast.seen(targets);
    let mixture = forecast.mixture(&seen)?;
    let average = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let is_log = forecast.logarithm.is_some();
    let nll = if is_log { average(&forecast.nll_of_each(targets)?) } else { mixture.nll() };
    let entries = [
        (names::REG_RMSE, rmse(&mean, targets)?),
        (names::REG_MAE, mae(&mean, targets)?),
        (names::REG_NLL, nll),
        (names::REG_CRPS, mixture.crps()),
        (names::REG_COVERAGE, mixture.coverage(LEVEL)?),
        ("reg/EpistemicSD", average(&epistemic)),
    ];
    // of a logarithm's forecast the CRPS is that of the logarithm: it is left out
    let entries = entries.into_iter().filter(|(name, _)| !(is_log && *name == names::REG_CRPS));
    Ok(entries.map(|(name, value)| (name.to_owned(), value.is_finite().then_some(value))).collect())
}

/// What each target contributes to the metrics that are means over them.
///
/// # Errors
/// When a value is not finite.
pub fn examples(forecast: &Forecast, targets: &[f64]) -> Result<Examples> {
    let (mean, ..) = forecast.split()?;
    let errors = mean.iter().zip(targets).map(|(mean, target)| (mean - target).abs()).collect();
    let nll = forecast.nll_of_each(targets)?;
    Ok(Examples([(names::REG_NLL.to_owned(), nll), (names::REG_MAE.to_owned(), errors)].into()))
}

/// Rows of a figure: enough to see, few enough for a file.
const ROWS_SHOWN: usize = 500;
/// Steps of the levels whose coverage is drawn.
const LEVELS: usize = 20;

/// Predictions beside the true targets.
///
/// # Errors
/// When a value is not finite.
pub fn figure(forecast: &Forecast, targets: &[f64]) -> Result<Forecasts> {
    let (mean, epistemic_sd, noise_sd) = forecast.split()?;
    let seen = forecast.seen(targets);
    let mixture = forecast.mixture(&seen)?;
    let level = |step: usize| step as f64 / LEVELS as f64;
    let covered = |step| Ok([level(step), mixture.coverage(level(step))?]);
    let first = |values: &[f64]| values[..values.len().min(ROWS_SHOWN)].to_vec();
    Ok(Forecasts {
        rows: targets.len(),
        observed: first(targets),
        mean: first(&mean),
        epistemic_sd: first(&epistemic_sd),
        noise_sd: first(&noise_sd),
        coverage: (1..LEVELS).map(covered).collect::<Result<_>>()?,
    })
}
