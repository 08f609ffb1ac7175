use fidgp_metrics::{GaussianForecast, mae, rmse};
use serde::{Deserialize, Serialize};

use super::{About, Curve, Histogram, Mistake, Seen, Trust, judged, largest, started};
use crate::calibration::Calibration;
use crate::decide::{Decision, number};
use crate::error::Result;
use crate::evidence::{NumberEvidence, Score};

/// Levels at which the model's own intervals are looked at.
const LEVELS: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
/// Predictions kept for the figure.
const SHOWN: usize = 500;

/// What was seen of predicted numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NumbersSeen {
    /// Root of the mean squared error.
    pub rmse: f64,
    /// Mean absolute error.
    pub mae: f64,
    /// Mean negative log-likelihood of a normal law.
    pub nll: f64,
    /// The deviation of the targets: the RMSE of always saying their mean.
    pub target_sd: f64,
    /// `[level, share inside]` of the model's own central intervals, before any rule.
    pub coverage: Vec<[f64; 2]>,
    /// Examples beside their predictions, the first.
    pub forecasts: Vec<Forecast>,
    /// How wide the intervals of the rules are, on examples held back.
    pub widths: Vec<Widths>,
    /// Coverage where the model is sure, less sure and unsure, on examples held back.
    pub thirds: Vec<Third>,
}

/// An example beside its prediction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// The true number.
    pub observed: f64,
    /// The prediction.
    pub mean: f64,
    /// Deviation of the mean over draws.
    pub epistemic_sd: f64,
    /// Deviation of a new observation.
    pub sd: f64,
}

/// Widths of intervals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Widths {
    /// The level.
    pub level: f64,
    /// The 5, 25, 50, 75 and 95 % quantiles.
    pub quantiles: [f64; 5],
}

/// A third of the examples, by the deviation of the prediction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Third {
    /// Smallest deviation.
    pub from: f64,
    /// Largest deviation.
    pub to: f64,
    /// Examples.
    pub examples: usize,
    /// Of these, how many intervals hold the number, level by level.
    pub covered: Vec<usize>,
}

pub(super) fn trust(found: &Calibration, about: About, examples: &[NumberEvidence], targets: &[f64]) -> Result<Trust> {
    let (judge, held) = judged(found, examples.len())?;
    let decisions: Vec<Decision> = examples.iter().map(|said| judge.number(said)).collect();
    let column = |of: fn(&NumberEvidence) -> f64| examples.iter().map(of).collect::<Vec<f64>>();
    let (mean, variance) = (column(|said| said.mean), column(|said| said.sd * said.sd));
    let forecast = GaussianForecast::new(&mean, &variance, targets)?;
    let coverage = LEVELS.iter().map(|&level| Ok([level, forecast.coverage(level)?])).collect::<Result<Vec<_>>>()?;
    let shown = examples.iter().zip(targets).take(SHOWN);
    let centre = targets.iter().sum::<f64>() / targets.len().max(1) as f64;
    let seen = NumbersSeen {
        rmse: rmse(&mean, targets)?,
        mae: mae(&mean, targets)?,
        nll: forecast.nll(),
        target_sd: rmse(&vec![centre; targets.len()], targets)?,
        coverage,
        forecasts: shown
            .map(|(said, &observed)| Forecast {
                observed,
                mean: said.mean,
                epistemic_sd: said.epistemic_sd,
                sd: said.sd,
            })
            .collect(),
        widths: widths(&judge.levels(), &decisions, &held),
        thirds: thirds(examples, targets, (&decisions, &held)),
    };
    let verdicts: Vec<_> = decisions.iter().map(|decision| decision.verdict).collect();
    let mut trust = started(found, about, &verdicts, &held, Seen::Numbers(seen))?;
    let off: Vec<f64> = mean.iter().zip(targets).map(|(mean, y)| (mean - y).abs()).collect();
    for score in Score::OF_NUMBERS {
        let values: Vec<f64> = examples.iter().map(|said| score.of_number(said)).collect();
        trust.curves.push(Curve::of(score, &values, &off)?);
    }
    let asked = found.rules.abstention.as_ref().and_then(|abstention| abstention.wrong_beyond);
    let (bound, wrong_is) = asked.map_or_else(
        || (quantiles(off.clone(), [0.5])[0], "off by more than half of the examples are".to_owned()),
        |bound| (bound, format!("off by more than {}", number(bound))),
    );
    let wrong: Vec<bool> = off.iter().map(|off| *off > bound).collect();
    trust.epistemic = Histogram::of(&column(|said| said.epistemic_sd), &wrong, &wrong_is);
    let far = off.iter().zip(examples).map(|(off, said)| Some(off / said.sd).filter(|off| off.is_finite()));
    let far: Vec<Option<f64>> = far.collect();
    let mistake = |i: usize| Mistake {
        example: i,
        input: String::new(),
        said: format!("{} ± {}", number(mean[i]), number(examples[i].sd)),
        truth: number(targets[i]),
        confidence: None,
        deviations: Some(off[i] / examples[i].sd).filter(|off| off.is_finite()),
        total: examples[i].sd,
        epistemic: examples[i].epistemic_sd,
        verdict: verdicts[i],
        picture: None,
    };
    trust.mistakes = largest(&far).into_iter().map(mistake).collect();
    Ok(trust)
}

fn widths(levels: &[f64], decisions: &[Decision], held: &[usize]) -> Vec<Widths> {
    let of = |(place, &level): (usize, &f64)| {
        let interval = |&i: &usize| decisions[i].intervals[place];
        let all: Vec<f64> = held.iter().map(interval).map(|one| one.hi - one.lo).filter(|w| w.is_finite()).collect();
        (!all.is_empty()).then(|| Widths { level, quantiles: quantiles(all, [0.05, 0.25, 0.5, 0.75, 0.95]) })
    };
    levels.iter().enumerate().filter_map(of).collect()
}

fn quantiles<const N: usize>(mut values: Vec<f64>, at: [f64; N]) -> [f64; N] {
    values.sort_by(f64::total_cmp);
    at.map(|q| values.get((q * values.len().saturating_sub(1) as f64).round() as usize).copied().unwrap_or(0.0))
}

fn thirds(examples: &[NumberEvidence], targets: &[f64], (decisions, held): (&[Decision], &[usize])) -> Vec<Third> {
    let mut order = held.to_vec();
    order.sort_by(|&a, &b| examples[a].sd.total_cmp(&examples[b].sd));
    let third = |part: &[usize]| {
        let levels = decisions[part[0]].intervals.len();
        let holds = |level: usize| part.iter().filter(|&&i| decisions[i].intervals[level].contains(targets[i])).count();
        Third {
            from: examples[part[0]].sd,
            to: examples[part[part.len() - 1]].sd,
            examples: part.len(),
            covered: (0..levels).map(holds).collect(),
        }
    };
    let size = order.len().div_ceil(3).max(1);
    order.chunks(size).map(third).collect()
}
