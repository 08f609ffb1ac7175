//! The rules of a calibrated model as a graph takes them.

use fidgp_decision::{Calibration, Score};
use fidgp_metrics::conformal::{IntervalScore, LastLabel, SetScore, TIE};
use fidgp_onnx::{self as onnx, IntervalRule, Limit, OutlierRule, Outside, Rules, SetRule, Uncertainty};

use crate::error::Result;
use crate::predict::Trained;
use crate::source::TableView;

/// The rules; a table's features are in the numbers of the graph's input, which may come normalised.
pub(super) fn rules(found: &Calibration, trained: &Trained, normalised: bool) -> Result<Rules> {
    let rules = &found.rules;
    let set = |name: String, score, last, thresholds| SetRule {
        name,
        score: of_set(score),
        keep_last: last == LastLabel::Keep,
        thresholds,
    };
    let plain = rules.sets.iter().map(|one| {
        // with the last class kept a tie ends the set, else it is in it
        let tie = if one.last == LastLabel::Keep && one.score != SetScore::Lac { -TIE } else { TIE };
        let threshold = one.threshold.unwrap_or(f64::MAX) + tie;
        set(level(one.level), one.score, one.last, vec![threshold])
    });
    let by_class = rules.sets_by_class.iter().map(|one| {
        let thresholds = one.thresholds.iter().map(|threshold| threshold + TIE).collect();
        set(format!("by_class_{}", level(one.level)), one.score, one.last, thresholds)
    });
    let intervals = rules.intervals.iter().filter(|one| one.score == IntervalScore::Normalised).map(|one| {
        let factor = one.threshold.unwrap_or(f64::INFINITY);
        IntervalRule { name: level(one.level), factor }
    });
    let mut limits = Vec::new();
    if let Some((score, threshold)) = rules.answering.as_ref().and_then(|one| Some((one.score, one.rule.threshold?))) {
        limits.push(Limit { score: of_score(score), threshold, strict: false });
    }
    if let Some(abstention) = &rules.abstention {
        // without a rule nothing is accepted, without a threshold everything is
        let threshold =
            abstention.rule.as_ref().map_or(f64::NEG_INFINITY, |rule| rule.threshold.unwrap_or(f64::INFINITY));
        limits.push(Limit { score: of_score(abstention.score), threshold, strict: true });
    }
    Ok(Rules {
        sets: plain.chain(by_class).collect(),
        intervals: intervals.collect(),
        logarithm: rules.logarithm,
        limits,
        outlier: outlier(found, trained, normalised)?,
    })
}

fn outlier(found: &Calibration, trained: &Trained, normalised: bool) -> Result<Option<OutlierRule>> {
    let (Some(rule), Some(reference)) = (&found.rules.outlier, found.outlier_reference()?) else { return Ok(None) };
    let outside =
        found.outside_reference()?.map(|reference| outside(trained.table.as_ref(), reference.into(), normalised));
    Ok(Some(OutlierRule {
        score: of_score(rule.score),
        reference: reference.into(),
        outside,
        alarms: rule.rule.alarms,
    }))
}

/// As [`TableView::outside`]; distances are the same in standardised numbers.
fn outside(view: Option<&TableView>, reference: Vec<f64>, normalised: bool) -> Outside {
    let mut ranges = view.map_or_else(Vec::new, |view| view.ranges.clone());
    let width = |[lo, hi]: &[f64; 2]| if hi > lo { hi - lo } else { lo.abs().max(1.0) };
    let mut widths: Vec<f64> = ranges.iter().map(width).collect();
    if let Some(view) = view.filter(|_| normalised) {
        let scales = view.scale.feature_mean.iter().zip(&view.scale.feature_sd);
        for ((range, width), (mean, sd)) in ranges.iter_mut().zip(&mut widths).zip(scales) {
            *range = range.map(|end| (end - mean) / sd);
            *width /= sd;
        }
    }
    Outside { ranges, widths, reference }
}

fn of_set(score: SetScore) -> onnx::SetScore {
    match score {
        SetScore::Lac => onnx::SetScore::Single,
        SetScore::Aps => onnx::SetScore::UpTo { penalty: 0.0, free: 0 },
        SetScore::Raps { penalty, free } => onnx::SetScore::UpTo { penalty, free },
    }
}

fn of_score(score: Score) -> Uncertainty {
    match score {
        Score::Confidence => Uncertainty::Confidence,
        Score::Total => Uncertainty::Total,
        Score::Epistemic => Uncertainty::Epistemic,
    }
}

/// `0.9` → `90`, `0.975` → `97_5`
fn level(level: f64) -> String {
    let text = format!("{:.4}", 100.0 * level);
    text.trim_end_matches('0').trim_end_matches('.').replace('.', "_")
}

#[cfg(test)]
mod tests {
    use super::level;

    #[test]
    fn levels_are_names() {
        assert_eq!([0.9, 0.975, 0.5].map(level), ["90", "97_5", "50"]);
    }
}
