use std::fmt;

use fidgp_metrics::Interval;
use fidgp_metrics::outlier::Reference;
use serde::{Deserialize, Serialize};

use crate::calibration::{Calibration, Rules};
use crate::error::Result;
use crate::evidence::{ClassEvidence, NumberEvidence, Score};

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
    /// Features that lie outside the range of the examples, in words.
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
}

/// What a threshold is on, the threshold's owner and the value.
struct Scored<'a> {
    of: &'a dyn Fn(Score) -> f64,
}

impl Judge {
    /// Makes the rules ready.
    ///
    /// # Errors
    /// When the calibration is incomplete.
    pub fn new(calibration: &Calibration) -> Result<Self> {
        Ok(Self { rules: calibration.rules.clone(), reference: calibration.outlier_reference()? })
    }

    /// Levels of the sets or intervals.
    pub fn levels(&self) -> Vec<f64> {
        let sets = self.rules.sets.iter().map(|sets| sets.level);
        let by_class = self.rules.sets_by_class.iter().map(|sets| sets.level);
        sets.chain(by_class).chain(self.rules.intervals.iter().map(|intervals| intervals.level)).collect()
    }

    /// What to do with a predicted class.
    pub fn class(&self, said: &ClassEvidence) -> Decision {
        let scored = Scored { of: &|score| score.of_class(said) };
        let plain = self.rules.sets.iter().map(|sets| (sets.level, sets.set(&said.probabilities, 0.0)));
        let by_class = self.rules.sets_by_class.iter().map(|sets| (sets.level, sets.set(&said.probabilities, 0.0)));
        let sets = plain.chain(by_class).map(|(level, classes)| LevelSet { level, classes }).collect();
        Decision { sets, ..self.verdict(&scored) }
    }

    /// What to do with a predicted number.
    pub fn number(&self, said: &NumberEvidence) -> Decision {
        let scored = Scored { of: &|score| score.of_number(said) };
        let intervals = self.rules.intervals.iter().map(|rule| rule.interval(said.mean, said.sd)).collect();
        let out_of_range = self.out_of_range(&said.features);
        let decision = Decision { intervals, ..self.verdict(&scored) };
        match out_of_range.first() {
            Some(first) if decision.verdict == Verdict::Accept => {
                let more = out_of_range.len() - 1;
                let more = if more > 0 { format!(", and {more} more") } else { String::new() };
                Decision {
                    verdict: Verdict::OutOfDistribution,
                    reason: format!("{first}{more}"),
                    out_of_range,
                    ..decision
                }
            }
            _ => Decision { out_of_range, ..decision },
        }
    }

    fn out_of_range(&self, features: &[f64]) -> Vec<String> {
        let outside = self.rules.ranges.iter().zip(features).filter(|(range, x)| !(range.lo..=range.hi).contains(*x));
        let said = outside.map(|(range, x)| {
            let (lo, hi) = (number(range.lo), number(range.hi));
            format!(
                "{} = {} lies outside {lo} … {hi} of the calibration examples",
                fidgp_files::shown(&range.name),
                number(*x)
            )
        });
        said.collect()
    }

    fn verdict(&self, scored: &Scored) -> Decision {
        let p_value = self.p_value(scored);
        let (verdict, reason) = self
            .foreign(scored, p_value)
            .or_else(|| self.unsure(scored))
            .unwrap_or_else(|| (Verdict::Accept, self.sure(scored)));
        Decision { verdict, reason, p_value, sets: Vec::new(), intervals: Vec::new(), out_of_range: Vec::new() }
    }

    fn p_value(&self, scored: &Scored) -> Option<f64> {
        let (reference, outlier) = (self.reference.as_ref()?, self.rules.outlier.as_ref()?);
        Some(reference.p_value((scored.of)(outlier.score)))
    }

    fn foreign(&self, scored: &Scored, p_value: Option<f64>) -> Option<(Verdict, String)> {
        let (outlier, p) = (self.rules.outlier.as_ref()?, p_value?);
        let value = (scored.of)(outlier.score);
        if p > outlier.rule.alarms {
            return None;
        }
        let reason = format!(
            "{} {} is as high for {} of the calibration examples (p = {p:.4}, limit {})",
            outlier.score,
            number(value),
            percent(p),
            outlier.rule.alarms
        );
        Some((Verdict::OutOfDistribution, reason))
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
pub(crate) fn percent(share: f64) -> String {
    let text = format!("{:.2}", 100.0 * share);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A number with four significant digits.
pub(crate) fn number(value: f64) -> String {
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
