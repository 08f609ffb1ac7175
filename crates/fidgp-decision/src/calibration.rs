use std::collections::BTreeMap;
use std::path::Path;

use fidgp_files::written;
use fidgp_metrics::abstention::{AnswerRule, RankedScore, RiskRule};
use fidgp_metrics::conformal::{ClassSets, Intervals, SetsByClass};
use fidgp_metrics::outlier::{AlarmRule, Reference};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{DecisionError, Result};
use crate::evidence::Score;
use crate::kept::Kept;
use crate::pixels::PixelSets;

/// The file in a run or model folder.
pub const CALIBRATION_FILE: &str = "calibration.json";

/// The reference column of [`Outside::by`](crate::evidence::Outside).
pub(crate) const OUTSIDE: &str = "outside";

/// The reference column of how far off predicted numbers were.
pub(crate) const ERROR: &str = "error";

/// The reference column that says which classes were right.
pub(crate) const RIGHT: &str = "right";

const SCHEMA: &str = "fidgp-calibration/1";

/// The rules of a model, what they rest on and what they were seen to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// `fidgp-calibration/1`.
    pub schema: String,
    /// Digest of what predicts: weights, temperature, posterior.
    pub model_sha256: String,
    /// What an input is scored with: weight draws.
    pub draws: u64,
    /// The examples.
    pub examples: Examples,
    /// What is said of a prediction.
    pub rules: Rules,
    /// Promised and seen on the part that was held back.
    pub check: Vec<Kept>,
    /// What could not be promised, in words.
    pub notes: Vec<String>,
    /// The names of the classes; none for numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// The columns of a table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<Feature>,
    /// Columns of the examples that the rules were fitted to, for p-values and for `fidgp monitor`.
    pub reference: BTreeMap<String, Vec<f64>>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feature {
    /// Its name.
    pub name: String,
    /// Its texts; none where it holds numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<String>,
}

impl Feature {
    /// A cell as a number: a text is its place among the known ones, an unknown one comes after the last; a date is days, yes
    /// is 1. Nothing where nothing was given.
    pub fn number(&self, cell: &serde_json::Value) -> Option<f64> {
        use serde_json::Value;
        if self.levels.is_empty() {
            return match cell {
                Value::String(text) => written::date(text)
                    .or_else(|| written::boolean(text).map(|yes| f64::from(u8::from(yes))))
                    .or_else(|| text.trim().parse().ok().filter(|number: &f64| number.is_finite())),
                Value::Bool(yes) => Some(f64::from(u8::from(*yes))),
                other => other.as_f64(),
            };
        }
        let place = match cell {
            Value::String(text) => self.levels.iter().position(|level| level == text),
            Value::Number(number) => {
                let alike = |level: &String| level.parse().ok() == number.as_f64();
                self.levels.iter().position(alike)
            }
            Value::Bool(yes) => self.levels.iter().position(|level| written::boolean(level) == Some(*yes)),
            _ => return None,
        };
        Some(place.unwrap_or(self.levels.len()) as f64)
    }
}

/// What the rules rest on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Examples {
    /// Where they are from.
    pub source: String,
    /// How many the rules were fitted to.
    pub fitted: usize,
    /// How many were held back to check them.
    pub held_back: usize,
    /// Seed of the division.
    pub seed: u64,
}

/// What is said of a prediction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// Sets of classes, one for each level.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<ClassSets>,
    /// The same with a promise for each class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sets_by_class: Vec<SetsByClass>,
    /// Intervals of numbers, one for each level.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Intervals>,
    /// Sets of classes for pixels, for each level and perhaps for each class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pixels: Vec<PixelSets>,
    /// Whether these are of the number's logarithm, which is what the model predicts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub logarithm: bool,
    /// When to give no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abstention: Option<Abstention>,
    /// The same for a share that is to be answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answering: Option<Answering>,
    /// When to call an input out of distribution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlier: Option<OutlierRule>,
}

/// When to give no answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Abstention {
    /// The risk asked for.
    pub risk: f64,
    /// The probability that it is kept.
    pub confidence: f64,
    /// A number counts as wrong when it is off by more than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrong_beyond: Option<f64>,
    /// The uncertainty the threshold is on.
    pub score: Score,
    /// The threshold; `None` where no threshold keeps the risk: then there are no answers.
    pub rule: Option<RiskRule>,
    /// How well each uncertainty puts wrong predictions last.
    pub ranked: Vec<RankedScore>,
}

/// When to give no answer, where a share of the inputs is to be answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answering {
    /// The uncertainty the threshold is on.
    pub score: Score,
    /// The threshold.
    pub rule: AnswerRule,
    /// How well each uncertainty puts wrong predictions last.
    pub ranked: Vec<RankedScore>,
}

/// When to call an input out of distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OutlierRule {
    /// The uncertainty the threshold is on.
    pub score: Score,
    /// The threshold and its false alarms.
    pub rule: AlarmRule,
}

impl Calibration {
    /// The schema that is written.
    pub fn schema() -> String {
        SCHEMA.to_owned()
    }

    /// Writes it into a folder, whole or not at all.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(CALIBRATION_FILE);
        let text = serde_json::to_string_pretty(self).map_err(|error| DecisionError::file(&path, error))?;
        fidgp_files::write::replace(&path, (text + "\n").as_bytes()).map_err(|error| DecisionError::file(&path, error))
    }

    /// Reads that of a folder, where there is one.
    ///
    /// # Errors
    /// When it is broken, or belongs to another model.
    pub fn read(folder: &Path, model_sha256: Option<&str>) -> Result<Option<Self>> {
        let path = folder.join(CALIBRATION_FILE);
        if !path.exists() {
            return Ok(None);
        }
        let text = fidgp_files::text(&path).map_err(|error| DecisionError::file(&path, error))?;
        let found: Self = serde_json::from_str(&text).map_err(|error| DecisionError::file(&path, error))?;
        if found.schema != SCHEMA {
            let why = format!("`schema` is `{}`, this program reads `{SCHEMA}`", found.schema);
            return Err(DecisionError::file(&path, why));
        }
        if model_sha256.is_some_and(|sha256| sha256 != found.model_sha256) {
            let why = "belongs to other weights, another temperature or another posterior than those in this folder; run \
                       `fidgp calibrate` again or remove it";
            return Err(DecisionError::file(&path, why));
        }
        found.sound().map_err(|error| DecisionError::file(&path, error))?;
        Ok(Some(found))
    }

    /// Whether its parts fit each other; a file can hold anything.
    fn sound(&self) -> Result<()> {
        let wrong = |what: &str, why: String| Err(DecisionError::asked(format!("`{what}`"), why));
        let rules = &self.rules;
        let levels = rules.sets.iter().map(|one| one.level).chain(rules.sets_by_class.iter().map(|one| one.level));
        for level in levels.chain(rules.intervals.iter().map(|one| one.level)) {
            if !(level > 0.0 && level < 1.0) {
                return wrong("level", format!("{level} does not lie between 0 and 1"));
            }
        }
        let classes = self.classes.len();
        for one in &rules.sets_by_class {
            let (thresholds, examples) = (one.thresholds.len(), one.examples.len());
            if thresholds != classes || examples != classes {
                let why = format!("has {thresholds} thresholds and {examples} counts for {classes} classes");
                return wrong("sets_by_class", why);
            }
        }
        if let Some(sets) = rules.pixels.iter().find(|sets| !sets.fits(classes)) {
            return wrong("pixels", format!("hold sets that cannot be, for level {} of {classes} classes", sets.level));
        }
        let has_classes = !rules.sets.is_empty() || !rules.sets_by_class.is_empty();
        if has_classes && classes == 0 || !rules.intervals.is_empty() && classes > 0 {
            return wrong("classes", format!("are {classes}, and the rules are for something else"));
        }
        let right = self.reference.get(RIGHT).map(Vec::len);
        if let (Some(right), Some(unsure)) = (right, self.reference.get("confidence").map(Vec::len))
            && right != unsure
        {
            return wrong("reference", format!("has {unsure} confidences and says of {right} whether they are right"));
        }
        self.outlier_reference()?;
        self.outside_reference()?;
        Ok(())
    }

    /// SHA-256 of the rules as they are written: what was seen with them belongs to no others.
    ///
    /// # Errors
    /// Never for rules that can be written.
    pub fn digest(&self) -> Result<String> {
        let text = serde_json::to_vec(self).map_err(|error| DecisionError::asked("the rules", error.to_string()))?;
        Ok(format!("{:x}", Sha256::digest(text)))
    }

    /// The scores that p-values are taken against.
    ///
    /// # Errors
    /// When the rule has no column, or there is no number in it.
    pub fn outlier_reference(&self) -> Result<Option<Reference>> {
        let Some(outlier) = &self.rules.outlier else { return Ok(None) };
        let name = outlier.score.name();
        let scores = self.reference.get(name);
        let scores = scores.ok_or_else(|| DecisionError::asked("`reference`", format!("has no column `{name}`")))?;
        Ok(Some(Reference::new(scores)?))
    }

    /// How far outside the training data the examples lie, where they have features.
    ///
    /// # Errors
    /// When there is no number in the column.
    pub fn outside_reference(&self) -> Result<Option<Reference>> {
        Ok(self.reference.get(OUTSIDE).map(|by| Reference::new(by)).transpose()?)
    }
}
