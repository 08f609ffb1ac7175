use std::fmt;

use fidgp_metrics::Interval;
use fidgp_metrics::conformal::Intervals;
use fidgp_metrics::outlier::Reference;
use serde::{Deserialize, Serialize};

use crate::calibration::{Calibration, Rules};
use crate::error::Result;
use crate::evidence::{ClassEvidence, NumberEvidence, Outside, Score};

/// Of p-values.
const ROUNDING: f64 = 1e-12;

/// What may be done with a prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Act on it.
    Accept,
    /// Let somebody else decide: such predictions are wrong too often.
    Abstain,
    /// The input is unlike those the model was calibrated on: nothing that was promised holds for it.
    OutOfDistribution,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Accept => "accept",
            Self::Abstain => "abstain",
            Self::OutOfDistribution => "out-of-distribution",
        })
    }
}

/// What the rules say of one prediction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// What may be done with it.
    pub verdict: Verdict,
    /// Why, in words.
    pub reason: String,
    /// Share of in-distribution examples that look at least as strange.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_value: Option<f64>,
    /// Classes that cannot be ruled out, for each level.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<LevelSet>,
    /// Where the number lies, for each level.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Interval>,
    /// Features that lie outside the training data, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub out_of_range: Vec<String>,
}

/// A set of classes at a level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelSet {
    /// The level.
    pub level: f64,
    /// The classes, the most likely first.
    pub classes: Vec<usize>,
}

/// Rules that are ready to be asked many times.
#[derive(Debug, Clone)]
pub struct Judge {
    rules: Rules,
    reference: Option<Reference>,
    outside: Option<Reference>,
}

/// What a decision is made from: uncertainties, and features outside the training data.
struct Scored<'a> {
    of: &'a dyn Fn(Score) -> f64,
    outside: &'a Outside,
}

/// p-values of an input: of its score, and of how far its features lie outside.
#[derive(Clone, Copy)]
struct PValues {
    score: f64,
    outside: Option<f64>,
}

impl PValues {
    /// Of two, the smaller counts twice.
    fn both(self) -> f64 {
        self.outside.map_or(self.score, |outside| (2.0 * self.score.min(outside)).min(1.0))
    }
}

impl Judge {
    /// Makes the rules ready.
    ///
    /// # Errors
    /// When the calibration is incomplete.
    pub fn new(calibration: &Calibration) -> Result<Self> {
        let (reference, outside) = (calibration.outlier_reference()?, calibration.outside_reference()?);
        Ok(Self { rules: calibration.rules.clone(), reference, outside })
    }

    /// Levels of the sets or intervals.
    pub fn levels(&self) -> Vec<f64> {
        let sets = self.rules.sets.iter().map(|sets| sets.level);
        let by_class = self.rules.sets_by_class.iter().map(|sets| sets.level);
        sets.chain(by_class).chain(self.rules.intervals.iter().map(|intervals| intervals.level)).collect()
    }

    /// What to do with a predicted class.
    pub fn class(&self, said: &ClassEvidence) -> Decision {
        let scored = Scored { of: &|score| score.of_class(said), outside: &said.outside };
        let plain = self.rules.sets.iter().map(|sets| (sets.level, sets.set(&said.probabilities, 0.0)));
        let by_class = self.rules.sets_by_class.iter().map(|sets| (sets.level, sets.set(&said.probabilities, 0.0)));
        let sets = plain.chain(by_class).map(|(level, classes)| LevelSet { level, classes }).collect();
        Decision { sets, ..self.verdict(&scored) }
    }

    /// What to do with a predicted number.
    pub fn number(&self, said: &NumberEvidence) -> Decision {
        let scored = Scored { of: &|score| score.of_number(said), outside: &said.outside };
        let interval = |rule: &Intervals| {
            if !self.rules.logarithm {
                return rule.interval(said.mean, said.sd);
            }
            let [centre, spread] = said.of_logarithm();
            let interval = rule.interval(centre, spread);
            Interval { lo: interval.lo.exp(), hi: interval.hi.exp(), ..interval }
        };
        let intervals = self.rules.intervals.iter().map(interval).collect();
        Decision { intervals, ..self.verdict(&scored) }
    }

    /// The score that p-values are of, and its value.
    pub fn ood_score(&self, of: &dyn Fn(Score) -> f64) -> Option<f64> {
        Some(of(self.rules.outlier.as_ref()?.score))
    }

    fn verdict(&self, scored: &Scored) -> Decision {
        let p_values = self.p_values(scored);
        let (verdict, reason) = self
            .foreign(scored, p_values)
            .or_else(|| self.beyond_share(scored))
            .or_else(|| self.unsure(scored))
            .unwrap_or_else(|| (Verdict::Accept, self.sure(scored)));
        let (p_value, out_of_range) = (p_values.map(PValues::both), scored.outside.said.clone());
        Decision { verdict, reason, p_value, sets: Vec::new(), intervals: Vec::new(), out_of_range }
    }

    fn p_values(&self, scored: &Scored) -> Option<PValues> {
        let (reference, outlier) = (self.reference.as_ref()?, self.rules.outlier.as_ref()?);
        let outside = self.outside.as_ref().map(|outside| outside.p_value(scored.outside.by));
        Some(PValues { score: reference.p_value((scored.of)(outlier.score)), outside })
    }

    /// Whether an example that the rule itself rests on is as ordinary as an input must be to be answered. Beside the others
    /// it counts as one more: what is left is as it would be if the threshold had been known before.
    pub(crate) fn takes_class(&self, said: &ClassEvidence) -> bool {
        self.takes(&Scored { of: &|score| score.of_class(said), outside: &said.outside })
    }

    /// The same of a number.
    pub(crate) fn takes_number(&self, said: &NumberEvidence) -> bool {
        self.takes(&Scored { of: &|score| score.of_number(said), outside: &said.outside })
    }

    fn takes(&self, scored: &Scored) -> bool {
        let (Some(outlier), Some(found)) = (&self.rules.outlier, self.p_values(scored)) else { return true };
        let own = |reference: &Option<Reference>| reference.as_ref().map_or(0.0, |all| 1.0 / (all.len() + 1) as f64);
        let score = found.score - own(&self.reference);
        let others = PValues { score, outside: found.outside.map(|p| p - own(&self.outside)) };
        others.both() > outlier.rule.alarms + ROUNDING
    }

    fn foreign(&self, scored: &Scored, p_values: Option<PValues>) -> Option<(Verdict, String)> {
        let (outlier, p_values) = (self.rules.outlier.as_ref()?, p_values?);
        let (p, alarms) = (p_values.both(), outlier.rule.alarms);
        if p > alarms {
            return None;
        }
        let because = match scored.outside.said.first() {
            Some(feature) if p_values.outside.is_some_and(|outside| outside <= p_values.score) => {
                let more = scored.outside.said.len() - 1;
                if more > 0 { format!("{feature}, and {more} more") } else { feature.clone() }
            }
            _ => {
                let value = number((scored.of)(outlier.score));
                let share = percent(p_values.score);
                format!("{} {value} is as high for {share} of the calibration examples", outlier.score)
            }
        };
        Some((Verdict::OutOfDistribution, format!("{because} (p = {p:.4}, limit {alarms})")))
    }

    /// Whether an input is sure enough for the share that is to be answered.
    pub(crate) fn answers(&self, of: &dyn Fn(Score) -> f64) -> bool {
        let limit =
            self.rules.answering.as_ref().and_then(|answering| Some((answering.score, answering.rule.threshold?)));
        limit.is_none_or(|(score, threshold)| of(score) <= threshold)
    }

    /// Not among the share that is to be answered.
    fn beyond_share(&self, scored: &Scored) -> Option<(Verdict, String)> {
        let answering = self.rules.answering.as_ref()?;
        let threshold = answering.rule.threshold?;
        if self.answers(scored.of) {
            return None;
        }
        let (score, value, share) =
            (answering.score, number((scored.of)(answering.score)), percent(answering.rule.share));
        Some((
            Verdict::Abstain,
            format!("{score} {value} is above {}: the surest {share} are answered", number(threshold)),
        ))
    }

    fn unsure(&self, scored: &Scored) -> Option<(Verdict, String)> {
        let abstention = self.rules.abstention.as_ref()?;
        let risk = percent(abstention.risk);
        let Some(rule) = &abstention.rule else {
            return Some((Verdict::Abstain, format!("no threshold keeps errors at {risk}")));
        };
        let (value, threshold) = ((scored.of)(abstention.score), rule.threshold?);
        if value < threshold {
            return None;
        }
        let (score, value, threshold) = (abstention.score, number(value), number(threshold));
        Some((Verdict::Abstain, format!("{score} {value} is not below {threshold}, which keeps errors at {risk}")))
    }

    fn sure(&self, scored: &Scored) -> String {
        if let Some(answering) = &self.rules.answering {
            let share = percent(answering.rule.share);
            return format!("among the surest {share}; no error rate was asked for");
        }
        let Some((abstention, rule)) =
            self.rules.abstention.as_ref().and_then(|abstention| Some((abstention, abstention.rule.as_ref()?)))
        else {
            return "nothing speaks against it; no error rate was asked for".to_owned();
        };
        let (risk, sure) = (percent(abstention.risk), percent(abstention.confidence));
        let Some(threshold) = rule.threshold else {
            return format!("errors are at most {risk} without a threshold ({sure} sure)");
        };
        let (value, threshold) = (number((scored.of)(abstention.score)), number(threshold));
        format!(
            "{} {value} is below {threshold}: at most {risk} of such answers are wrong ({sure} sure)",
            abstention.score
        )
    }
}

/// A share in per cent, with as many digits as it needs.
pub fn percent(share: f64) -> String {
    let text = format!("{:.2}", 100.0 * share);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A number with four significant digits.
pub fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    if (-2..9).contains(&digits) {
        let text = format!("{value:.*}", digits.max(0) as usize);
        return if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text };
    }
    format!("{value:.3e}")
}
