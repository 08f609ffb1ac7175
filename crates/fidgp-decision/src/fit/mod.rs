mod check;
mod pixels;

pub use pixels::pixels;

use std::collections::BTreeMap;

use fidgp_metrics::abstention::{Advice, RiskRule, advise, answer_share, best_score, bound_risk};
use fidgp_metrics::conformal::{
    Bounds, ClassSets, IntervalScore, Intervals, LastLabel, SetScore, SetsByClass, smallest_count,
};
use fidgp_metrics::outlier::Reference;
use fidgp_metrics::{MetricError, Predictions};
use rand::{Rng, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

use crate::calibration::{
    Abstention, Answering, Calibration, ERROR, Examples, Feature, OUTSIDE, OutlierRule, RIGHT, Rules,
};
use crate::decide::{Judge, percent};
use crate::error::{DecisionError, Result};
use crate::evidence::{ClassEvidence, NumberEvidence, Outside, Score};

/// Fewest examples that rules are fitted to.
pub const FEWEST: usize = 10;

/// Rounding that must not cost an example.
const ROUNDING: f64 = 1e-9;

/// What is to be promised.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Levels of sets and intervals.
    pub levels: Vec<f64>,
    /// The score of the sets.
    pub sets: SetScore,
    /// A promise for each class.
    pub by_class: bool,
    /// Wrong answers per answer.
    pub risk: f64,
    /// The probability that the risk is kept.
    pub confidence: f64,
    /// The share of inputs that is to be answered; then no risk is promised.
    pub coverage: Option<f64>,
    /// A number counts as wrong when it is off by more than this; without it there is no risk to keep.
    pub wrong_beyond: Option<f64>,
    /// In-distribution inputs that may be called out of distribution.
    pub false_alarms: f64,
    /// The uncertainty that tells inputs out of distribution.
    pub ood_score: Score,
    /// The share that is held back to check the rules.
    pub held_back: f64,
    /// Seed of the division.
    pub seed: u64,
}

impl Asked {
    /// Levels 90 and 95 %, LAC, errors ≤ 5 % with 95 % confidence, 5 % false alarms, a fifth held back.
    pub fn usual(ood_score: Score) -> Self {
        Self {
            levels: vec![0.9, 0.95],
            sets: SetScore::Lac,
            by_class: false,
            risk: 0.05,
            confidence: 0.95,
            coverage: None,
            wrong_beyond: None,
            false_alarms: 0.05,
            ood_score,
            held_back: 0.2,
            seed: 0,
        }
    }

    /// What must hold before any data are read.
    ///
    /// # Errors
    /// When a level or share is not between 0 and 1.
    pub fn check(&self) -> Result<()> {
        let shares = [
            ("--error", self.risk),
            ("--confidence", self.confidence),
            ("--false-alarms", self.false_alarms),
            ("--held-back", self.held_back),
        ];
        let levels = self.levels.iter().map(|&level| ("--levels", level));
        let coverage = self.coverage.map(|share| ("--coverage", share));
        if let Some((option, value)) =
            shares.into_iter().chain(coverage).chain(levels).find(|(_, value)| !(*value > 0.0 && *value < 1.0))
        {
            return Err(DecisionError::asked(option, format!("{value} must lie between 0 and 1; write 95 % as 0.95")));
        }
        match self.wrong_beyond {
            Some(bound) if !(bound > 0.0 && bound.is_finite()) => {
                Err(DecisionError::asked("--wrong-beyond", format!("{bound} must be above 0")))
            }
            _ => Ok(()),
        }
    }
}

/// Where examples are from and what scored them.
#[derive(Debug, Clone)]
pub struct Origin {
    /// Where they are from, in words.
    pub source: String,
    /// Digest of what predicts.
    pub model_sha256: String,
    /// Weight draws.
    pub draws: u64,
}

/// What the examples are of: the names of the classes, and for tables the columns.
#[derive(Debug, Clone, Default)]
pub struct Named {
    /// The names of the classes; none for numbers.
    pub classes: Vec<String>,
    /// The features; none for pictures.
    pub features: Vec<Feature>,
    /// Their values, feature by feature; NaN where one is missing. `[features][N]`
    pub columns: Vec<Vec<f64>>,
    /// Whether the model predicts a number's logarithm.
    pub logarithm: bool,
}

/// Rules for classes.
///
/// # Shapes
/// `examples`, `labels [N]`
///
/// # Errors
/// When there are too few examples, or what is asked for makes no sense.
pub fn classes(
    examples: &[ClassEvidence],
    labels: &[usize],
    named: &Named,
    asked: &Asked,
    origin: Origin,
) -> Result<Calibration> {
    asked.check()?;
    let (fitted, held) = divide(examples.len(), asked)?;
    let mut rng = ChaCha8Rng::seed_from_u64(asked.seed ^ 0x5e7);
    let mut notes = Vec::new();
    let part: Vec<_> = fitted.iter().map(|&i| (&examples[i], labels[i])).collect();
    let probs: Vec<f64> = part.iter().flat_map(|(said, _)| said.probabilities.clone()).collect();
    let truth: Vec<usize> = part.iter().map(|(_, label)| *label).collect();
    let table = Predictions::new(&probs, named.classes.len(), &truth)?;
    let u: Vec<f64> = part.iter().map(|_| rng.random()).collect();
    let mut rules = Rules::default();
    for &level in &asked.levels {
        short(fitted.len(), level, &mut notes)?;
        if asked.by_class {
            let sets = SetsByClass::calibrate(asked.sets, LastLabel::Keep, &table, &u, level);
            rules.sets_by_class.push(sets.map_err(|error| small_class(&error, &named.classes))?);
        } else {
            rules.sets.push(ClassSets::calibrate(asked.sets, LastLabel::Keep, &table, &u, level)?);
        }
    }
    let wrong: Vec<bool> = part.iter().map(|(said, label)| said.class() != *label).collect();
    let scores = Score::OF_CLASSES.map(|score| (score, part.iter().map(|(said, _)| score.of_class(said)).collect()));
    rules.outlier = outlier(&scores, named, asked, &mut notes)?;
    let mut reference = columns(&scores);
    reference.insert("class".to_owned(), part.iter().map(|(said, _)| said.class() as f64).collect());
    reference.insert(RIGHT.to_owned(), wrong.iter().map(|wrong| f64::from(u8::from(!wrong))).collect());
    let found = calibration(rules, reference, notes, asked, origin, [fitted.len(), held.len()]);
    let mut found = with_features(found, named, &fitted, &|i| &examples[i].outside);
    if let Some(share) = asked.coverage {
        let loss: Vec<f64> = wrong.iter().map(|&wrong| f64::from(u8::from(wrong))).collect();
        found.rules.answering = Some(answering(&scores, &loss, share, asked.seed)?);
    } else {
        let judge = Judge::new(&found)?;
        let known = part.iter().map(|(said, _)| judge.takes_class(said)).collect::<Vec<_>>();
        found.rules.abstention = Some(abstention(&scores, (&wrong, &known), asked, &mut found.notes)?);
    }
    let held: Vec<_> = held.iter().map(|&i| (&examples[i], labels[i])).collect();
    let check = check::classes(&found, &held)?;
    Ok(Calibration { check, ..found })
}

/// Rules for numbers.
///
/// # Shapes
/// `examples`, `targets [N]`
///
/// # Errors
/// When there are too few examples, or what is asked for makes no sense.
pub fn numbers(
    examples: &[NumberEvidence],
    targets: &[f64],
    named: &Named,
    asked: &Asked,
    origin: Origin,
) -> Result<Calibration> {
    asked.check()?;
    let (fitted, held) = divide(examples.len(), asked)?;
    let mut notes = Vec::new();
    let part: Vec<_> = fitted.iter().map(|&i| (&examples[i], targets[i])).collect();
    let [mean, sd]: [Vec<f64>; 2] = [|said: &NumberEvidence| said.mean, |said: &NumberEvidence| said.sd]
        .map(|of| part.iter().map(|(said, _)| of(said)).collect());
    let truth: Vec<f64> = part.iter().map(|(_, target)| *target).collect();
    let (centre, spread, seen) = if named.logarithm { logarithms(&part)? } else { (mean.clone(), sd, truth) };
    let mut rules = Rules { logarithm: named.logarithm, ..Rules::default() };
    for &level in &asked.levels {
        short(fitted.len(), level, &mut notes)?;
        let forecast = Bounds { first: &centre, second: &spread };
        rules.intervals.push(Intervals::calibrate(IntervalScore::Normalised, forecast, &seen, level)?);
    }
    let scores = Score::OF_NUMBERS.map(|score| (score, part.iter().map(|(said, _)| score.of_number(said)).collect()));
    rules.outlier = outlier(&scores, named, asked, &mut notes)?;
    let mut reference = columns(&scores);
    reference.insert("mean".to_owned(), mean);
    let off: Vec<f64> = part.iter().map(|(said, target)| (said.mean - target).abs()).collect();
    reference.insert(ERROR.to_owned(), off.clone());
    let found = calibration(rules, reference, notes, asked, origin, [fitted.len(), held.len()]);
    let mut found = with_features(found, named, &fitted, &|i| &examples[i].outside);
    if let Some(share) = asked.coverage {
        found.rules.answering = Some(answering(&scores, &off, share, asked.seed)?);
    } else if let Some(bound) = asked.wrong_beyond {
        let wrong: Vec<bool> = off.iter().map(|off| *off > bound).collect();
        let judge = Judge::new(&found)?;
        let known = part.iter().map(|(said, _)| judge.takes_number(said)).collect::<Vec<_>>();
        found.rules.abstention = Some(abstention(&scores, (&wrong, &known), asked, &mut found.notes)?);
    } else {
        found.notes.push("no error rate: say with --wrong-beyond how far off a prediction may be".to_owned());
    }
    let held: Vec<_> = held.iter().map(|&i| (&examples[i], targets[i])).collect();
    let check = check::numbers(&found, &held)?;
    Ok(Calibration { check, ..found })
}

fn calibration(
    rules: Rules,
    reference: BTreeMap<String, Vec<f64>>,
    notes: Vec<String>,
    asked: &Asked,
    origin: Origin,
    [fitted, held_back]: [usize; 2],
) -> Calibration {
    let examples = Examples { source: origin.source, fitted, held_back, seed: asked.seed };
    Calibration {
        schema: Calibration::schema(),
        model_sha256: origin.model_sha256,
        draws: origin.draws,
        examples,
        rules,
        check: Vec::new(),
        notes,
        classes: Vec::new(),
        features: Vec::new(),
        reference,
    }
}

/// With what the examples are of, and the columns that features are compared with.
fn with_features<'a>(
    mut found: Calibration,
    named: &Named,
    fitted: &[usize],
    outside: &dyn Fn(usize) -> &'a Outside,
) -> Calibration {
    found.classes.clone_from(&named.classes);
    found.features.clone_from(&named.features);
    if !named.features.is_empty() {
        found.reference.insert(OUTSIDE.to_owned(), fitted.iter().map(|&i| outside(i).by).collect());
    }
    for (feature, values) in named.features.iter().zip(&named.columns) {
        let known = fitted.iter().map(|&i| values[i]).filter(|value| value.is_finite()).collect();
        found.reference.insert(format!("feature:{}", feature.name), known);
    }
    found
}

/// Rows to fit to and rows to hold back.
fn divide(n: usize, asked: &Asked) -> Result<(Vec<usize>, Vec<usize>)> {
    let held = (n as f64 * asked.held_back).round() as usize;
    let (fitted, held) = divided(n, held, asked.seed);
    if fitted.len() < FEWEST || held.is_empty() {
        let why = format!("are {n}: too few to fit rules to {FEWEST} or more and hold some back to check them");
        return Err(DecisionError::asked("the examples", why));
    }
    Ok((fitted, held))
}

/// The same for a number of rows to hold back.
pub(crate) fn divided(n: usize, held: usize, seed: u64) -> (Vec<usize>, Vec<usize>) {
    let mut rows: Vec<usize> = (0..n).collect();
    rows.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let fitted = rows.split_off(held.min(n));
    (fitted, rows)
}

/// Notes a level that so few examples cannot promise.
fn short(n: usize, level: f64, notes: &mut Vec<String>) -> Result<()> {
    let need = smallest_count(level)?;
    if n < need {
        notes.push(format!("level {level} needs {need} examples, there are {n}: nothing is ruled out at it"));
    }
    Ok(())
}

fn small_class(error: &MetricError, names: &[String]) -> DecisionError {
    match error {
        MetricError::SmallClass { class, got, need, level } => {
            let name = names.get(*class).map_or_else(|| class.to_string(), fidgp_files::shown);
            let why = format!(
                "cannot be kept at level {level}: `{name}`, the smallest class, has {got} examples and needs {need}; give \
                 more examples, ask for a lower level, or leave --by-class out"
            );
            DecisionError::asked("a guarantee for each class", why)
        }
        other => DecisionError::Metric(other.clone()),
    }
}

/// An uncertainty and its values.
type Scored = (Score, Vec<f64>);

/// Centres, spreads and true values of logarithms.
fn logarithms(part: &[(&NumberEvidence, f64)]) -> Result<(Vec<f64>, Vec<f64>, Vec<f64>)> {
    if let Some((_, target)) = part.iter().find(|(_, target)| *target <= 0.0) {
        let why = format!("have the target {target}, which has no logarithm: the model predicts numbers above 0");
        return Err(DecisionError::asked("the examples", why));
    }
    let of = |(said, target): &(&NumberEvidence, f64)| {
        let [centre, spread] = said.of_logarithm();
        (centre, (spread, target.ln()))
    };
    let (centre, (spread, truth)) = part.iter().map(of).unzip();
    Ok((centre, spread, truth))
}

/// The threshold for the risk. Each of the scores has its part of δ, so that the best may be chosen after looking. What is
/// called out of distribution is never answered: it neither helps nor counts.
fn abstention(
    scores: &[Scored],
    (wrong, known): (&[bool], &[bool]),
    asked: &Asked,
    notes: &mut Vec<String>,
) -> Result<Abstention> {
    let rows: Vec<usize> = (0..known.len()).filter(|&row| known[row]).collect();
    let wrong: Vec<bool> = rows.iter().map(|&row| wrong[row]).collect();
    let scores: Vec<Scored> =
        scores.iter().map(|(score, values)| (*score, rows.iter().map(|&row| values[row]).collect())).collect();
    let loss: Vec<f64> = wrong.iter().map(|&wrong| f64::from(u8::from(wrong))).collect();
    let named: Vec<_> = scores.iter().map(|(score, values)| (score.name(), values.as_slice())).collect();
    let (risk, sure) = (percent(asked.risk), percent(asked.confidence));
    let (mut score, mut rule, mut ranked) = (scores[0].0, None, Vec::new());
    let mut help = String::new();
    if !rows.is_empty() {
        let (best, all) = best_score(&named, &loss, asked.seed)?;
        let delta = (1.0 - asked.confidence) / scores.len() as f64;
        let found = bound_risk(&scores[best].1, &wrong, asked.risk, 1.0 - delta)?;
        let share = rows.len() as f64 / known.len() as f64;
        rule = found.map(|rule| RiskRule { answered: rule.answered * share, ..rule });
        (score, ranked) = (scores[best].0, all);
        if rule.is_none() {
            let advice = advise(&scores[best].1, &wrong, asked.risk, 1.0 - delta)?;
            help = helpful(&advice, asked.risk, known.len() as f64 / rows.len() as f64);
        }
    }
    if rule.is_none() {
        notes.push(format!(
            "no threshold keeps errors at {risk} with {sure} confidence: every prediction is abstained from{help}"
        ));
    }
    let (risk, confidence, wrong_beyond) = (asked.risk, asked.confidence, asked.wrong_beyond);
    Ok(Abstention { risk, confidence, wrong_beyond, score, rule, ranked })
}

/// What would help, in words. Of so many examples one is not called out of distribution.
fn helpful(advice: &Advice, risk: f64, of: f64) -> String {
    let more = match advice.examples {
        Some(examples) => {
            let all = (examples as f64 * of).ceil();
            let step = 10_f64.powf((all.max(10.0).log10() - 1.0).floor());
            format!("about {} examples to fit to would be needed for {}", (all / step).ceil() * step, percent(risk))
        }
        None => format!("even of the surest of these predictions {} are wrong", percent(advice.least)),
    };
    let lowest = advice.lowest.map_or("none is kept".to_owned(), |lowest| format!("{} is kept", percent(lowest)));
    format!("; {more}; with these examples {lowest} at best (--error)")
}

/// The threshold for a share of answers, on the uncertainty that puts losses last.
fn answering(scores: &[Scored], loss: &[f64], share: f64, seed: u64) -> Result<Answering> {
    let named: Vec<_> = scores.iter().map(|(score, values)| (score.name(), values.as_slice())).collect();
    let (best, ranked) = best_score(&named, loss, seed)?;
    let (score, values) = &scores[best];
    Ok(Answering { score: *score, rule: answer_share(values, share)?, ranked })
}

/// When to call an input out of distribution. Where there are features, the p-value is twice the smaller of two, so that
/// the least there can be is 2/(n + 1).
fn outlier(scores: &[Scored], named: &Named, asked: &Asked, notes: &mut Vec<String>) -> Result<Option<OutlierRule>> {
    let known = || scores.iter().map(|(score, _)| score.name()).collect::<Vec<_>>().join(" and ");
    let values = scores.iter().find(|(score, _)| *score == asked.ood_score);
    let (score, values) =
        values.ok_or_else(|| DecisionError::asked("--ood-score", format!("must be one of {}", known())))?;
    let tests = if named.features.is_empty() { 1.0 } else { 2.0 };
    let (got, need) = (values.len(), (tests / asked.false_alarms - 1.0 - ROUNDING).ceil().max(1.0) as usize);
    if got < need {
        let rate = percent(asked.false_alarms);
        let why = if tests > 1.0 { " (two tests share them: uncertainty and features)" } else { "" };
        notes.push(format!(
            "{rate} false alarms need {need} examples{why}, there are {got}: nothing is called out of distribution"
        ));
        return Ok(None);
    }
    Ok(Some(OutlierRule { score: *score, rule: Reference::new(values)?.rule(asked.false_alarms)? }))
}

fn columns(scores: &[Scored]) -> BTreeMap<String, Vec<f64>> {
    scores.iter().map(|(score, values)| (score.name().to_owned(), values.clone())).collect()
}
