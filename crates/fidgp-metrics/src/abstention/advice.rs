use super::risk::{Curve, bound_risk};
use crate::{binomial, check, error::Result};

/// Coverages that are looked at, as shares of twenty.
const COVERAGES: usize = 20;
/// The starts of a search share δ: each is tested at about this part of it.
const PART: f64 = 8.0;
/// Where no error was seen, the rate is taken to be this part of that asked for.
const UNSEEN: f64 = 3.0;
/// More examples than this are as good as never enough.
const MOST: usize = 10_000_000;

/// What would help where no threshold keeps a risk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Advice {
    /// The lowest risk, in whole per cent, that these examples keep with the same confidence; none where they keep none.
    pub lowest: Option<f64>,
    /// About how many examples would keep the risk asked for if their errors were like these; none where the surest of them
    /// are wrong too often.
    pub examples: Option<usize>,
    /// The smallest share of wrong answers that was seen at any of the coverages.
    pub least: f64,
}

/// What would help where [`bound_risk`] finds no threshold.
///
/// # Shapes
/// `uncertainty [N]`, high = unsure, `wrong [N]`
///
/// ```
/// use fidgp_metrics::abstention::advise;
///
/// let uncertainty: Vec<f64> = (0..60).map(f64::from).collect();
/// let wrong: Vec<bool> = (0..60).map(|i| i >= 50).collect(); // none of the surest fifty
/// let advice = advise(&uncertainty, &wrong, 0.05, 0.95)?;
/// assert!(advice.lowest.is_some_and(|risk| (0.05..0.15).contains(&risk)));
/// assert!(advice.examples.is_some_and(|examples| (100..400).contains(&examples)));
/// # Ok::<(), fidgp_metrics::MetricError>(())
/// ```
pub fn advise(uncertainty: &[f64], wrong: &[bool], risk: f64, confidence: f64) -> Result<Advice> {
    check::level(risk)?;
    let keeps = |percent: usize| -> Result<bool> {
        Ok(bound_risk(uncertainty, wrong, percent as f64 / 100.0, confidence)?.is_some())
    };
    let (mut below, mut above) = (0, 100); // 100 % is always kept
    while above - below > 1 {
        let middle = usize::midpoint(below, above);
        if keeps(middle)? { above = middle } else { below = middle }
    }
    let curve = Curve::new(uncertainty, wrong);
    let delta = (1.0 - confidence) / PART;
    let (mut least, mut examples) = (1.0_f64, None::<usize>);
    for step in 1..=COVERAGES {
        let (_, answered, errors) = curve.at(step, COVERAGES);
        if answered == 0 {
            continue;
        }
        let rate = errors as f64 / answered as f64;
        least = least.min(rate);
        // where none was wrong some of more will be
        if let Some(answers) = answers_needed(rate.max(risk / UNSEEN), risk, delta)? {
            let all = (answers as f64 * curve.len() as f64 / answered as f64).ceil() as usize;
            examples = Some(examples.map_or(all, |fewest| fewest.min(all)));
        }
    }
    Ok(Advice { lowest: (above < 100).then_some(above as f64 / 100.0), examples, least })
}

/// How many answers, of which such a share is wrong, show that no more than `risk` is.
fn answers_needed(rate: f64, risk: f64, delta: f64) -> Result<Option<usize>> {
    let shows = |answers: usize| -> Result<bool> {
        let errors = (rate * answers as f64).ceil() as usize;
        Ok(binomial::upper_bound(errors, answers, delta)? <= risk)
    };
    if rate >= risk {
        return Ok(None);
    }
    let (mut few, mut enough) = (0, 16);
    while !shows(enough)? {
        if enough > MOST {
            return Ok(None);
        }
        (few, enough) = (enough, 2 * enough);
    }
    while enough - few > 1 + few / 50 {
        let middle = usize::midpoint(few, enough);
        if shows(middle)? { enough = middle } else { few = middle }
    }
    Ok(Some(enough))
}
