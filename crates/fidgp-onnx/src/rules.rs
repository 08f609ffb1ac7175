//! Rules for decisions behind the predictions of an exported graph: sets of classes, intervals, p-values, acceptance.

use tch::Tensor;

use crate::error::Result;
use crate::finish::Outputs;
use crate::writer::{Made, Writer};

/// Rules that were fitted to examples which the network was not trained on.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Sets of classes: `set_…`.
    pub sets: Vec<SetRule>,
    /// Intervals of numbers: `lower_…`, `upper_…`.
    pub intervals: Vec<IntervalRule>,
    /// Whether the intervals are of the number's logarithm.
    pub logarithm: bool,
    /// What is accepted keeps all of these.
    pub limits: Vec<Limit>,
    /// p-values: `ood_p`.
    pub outlier: Option<OutlierRule>,
}

/// Classes that cannot be ruled out, as truth values.
#[derive(Clone, Debug)]
pub struct SetRule {
    /// What stands behind `set_`.
    pub name: String,
    /// How strange a class is.
    pub score: SetScore,
    /// Of classes by falling probability: whether the one at which the threshold is crossed belongs to the set.
    pub keep_last: bool,
    /// One for all classes, or one for each.
    pub thresholds: Vec<f64>,
}

/// How strange a class is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SetScore {
    /// One minus its probability.
    Single,
    /// The probability of the classes up to it, and a penalty for every rank behind the free ones.
    UpTo {
        /// The penalty.
        penalty: f64,
        /// Ranks that cost nothing.
        free: usize,
    },
}

/// `mean ± factor · sd`
#[derive(Clone, Debug)]
pub struct IntervalRule {
    /// What stands behind `lower_` and `upper_`.
    pub name: String,
    /// Deviations; infinite where there were too few examples.
    pub factor: f64,
}

/// An uncertainty that a rule is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncertainty {
    /// One minus the probability of the most probable class.
    Confidence,
    /// Total.
    Total,
    /// Epistemic.
    Epistemic,
}

/// A bound of an uncertainty.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// The uncertainty.
    pub score: Uncertainty,
    /// The bound; below −∞ there is nothing.
    pub threshold: f64,
    /// Whether the bound itself is refused.
    pub strict: bool,
}

/// When an input is out of distribution.
#[derive(Clone, Debug)]
pub struct OutlierRule {
    /// The uncertainty.
    pub score: Uncertainty,
    /// That of examples.
    pub reference: Vec<f64>,
    /// How far the features of examples lie outside the training data.
    pub outside: Option<Outside>,
    /// Inputs whose p-value is at most this are not accepted.
    pub alarms: f64,
}

/// Features that lie outside the training data.
#[derive(Clone, Debug)]
pub struct Outside {
    /// Smallest and largest value of every feature, in the numbers of the input.
    pub ranges: Vec<[f64; 2]>,
    /// What a distance is divided by, for every feature.
    pub widths: Vec<f64>,
    /// The largest distance of examples.
    pub reference: Vec<f64>,
}

/// Rounding of p-values in f32, relative.
const ROUNDING: f64 = 1e-6;

/// Writes the outputs of rules behind those of a prediction.
pub(crate) fn write(writer: &mut Writer, rules: &Rules, (x, outputs): (&str, &Outputs)) -> Result<()> {
    let mut made = Made::new(writer, "fidgp/rules");
    made.writer.whole("fidgp/rules/axis", &[1]);
    if let Outputs::Classes { classes, .. } = outputs {
        if !rules.sets.is_empty() {
            made.sets(rules, *classes)?;
        }
    } else if !rules.intervals.is_empty() {
        made.intervals(rules);
    }
    let classes = matches!(outputs, Outputs::Classes { .. });
    let mut conditions = Vec::new();
    if let Some(outlier) = &rules.outlier {
        let score = made.score(outlier.score, classes);
        made.writer.node("Identity", &[&score], "ood_score");
        made.writer.output("ood_score", None);
        let p = made.p_value_of(outlier, x, classes)?;
        let p = made.writer.node("Identity", &[&p], "ood_p");
        made.writer.output("ood_p", None);
        let alarms = made.number(outlier.alarms * (1.0 + ROUNDING));
        conditions.push(made.node("Greater", &[&p, &alarms]));
    }
    for limit in &rules.limits {
        let (score, threshold) = (made.score(limit.score, classes), made.number(limit.threshold));
        let operator = if limit.strict { "Less" } else { "LessOrEqual" };
        conditions.push(made.node(operator, &[&score, &threshold]));
    }
    let all = conditions.into_iter().reduce(|all, one| made.node("And", &[&all, &one]));
    if let Some(all) = all {
        made.writer.node("Identity", &[&all], "accept");
        made.writer.truth("accept", None);
    }
    Ok(())
}

/// Probabilities by falling size.
struct Sorted {
    values: String,
    places: String,
    /// Sums of those before each.
    before: String,
}

impl Made<'_> {
    /// Numbers in one row. `[1, n]`
    fn row(&mut self, values: &[f64]) -> Result<String> {
        let name = self.name();
        let row = Tensor::from_slice(values).clamp(-f64::from(f32::MAX), f64::from(f32::MAX));
        self.writer.constant(&name, &row.view([1, -1]))
    }

    /// The largest values of every row, and their places.
    fn top(&mut self, values: &str, count: i64) -> [String; 2] {
        let (k, values_name, places) = (self.name(), self.name(), self.name());
        self.writer.whole(&k, &[count]);
        self.writer.node_with("TopK", &[values, &k], &values_name, &[("axis", 1), ("largest", 1), ("sorted", 1)]);
        if let Some(node) = self.writer.graph.node.last_mut() {
            node.output.push(places.clone());
        }
        [values_name, places]
    }

    /// The largest value of every row. `[N, n]` → `[N]`
    fn largest(&mut self, values: &str) -> String {
        let [top, _] = self.top(values, 1);
        self.node("Squeeze", &[&top, "fidgp/rules/axis"])
    }

    fn score(&mut self, score: Uncertainty, classes: bool) -> String {
        match (score, classes) {
            (Uncertainty::Epistemic, _) => "epistemic".to_owned(),
            (Uncertainty::Total, true) => "total".to_owned(),
            (_, false) => "sd".to_owned(),
            (Uncertainty::Confidence, true) => {
                let (top, one) = (self.largest("probabilities"), self.number(1.0));
                self.node("Sub", &[&one, &top])
            }
        }
    }

    fn sets(&mut self, rules: &Rules, classes: i64) -> Result<()> {
        let [values, places] = self.top("probabilities", classes);
        let up_to = self.node("CumSum", &[&values, "fidgp/rules/axis"]);
        let before = self.node("Sub", &[&up_to, &values]);
        let sorted = Sorted { values, places, before };
        for rule in &rules.sets {
            let row = rule.thresholds.len() > 1;
            let thresholds: Vec<f64> =
                if row { rule.thresholds.clone() } else { vec![rule.thresholds.first().copied().unwrap_or(f64::MAX)] };
            let (score, thresholds) = (self.set_score(rule, &sorted, (classes, row))?, self.row(&thresholds)?);
            let before = !row && rule.keep_last && rule.score != SetScore::Single;
            let name = format!("set_{}", rule.name);
            self.writer.node(if before { "Less" } else { "LessOrEqual" }, &[&score, &thresholds], &name);
            self.writer.truth(&name, Some(classes));
        }
        Ok(())
    }

    /// What is compared with a threshold. `[N, C]`
    fn set_score(&mut self, rule: &SetRule, sorted: &Sorted, (classes, by_class): (i64, bool)) -> Result<String> {
        let SetScore::UpTo { penalty, free } = rule.score else {
            let one = self.number(1.0);
            return Ok(self.node("Sub", &[&one, "probabilities"]));
        };
        let of_rank = |rank: i64| penalty * (rank - free as i64).max(0) as f64;
        // with the last one kept, a common threshold sees the sum of those before, and never refuses the first
        let first_stays = rule.keep_last && !by_class;
        let penalties: Vec<f64> = (0..classes)
            .map(|place| match place {
                0 if first_stays => f64::MIN,
                _ if first_stays => of_rank(place),
                _ => of_rank(place + 1),
            })
            .collect();
        let penalties = self.row(&penalties)?;
        let mut sum = sorted.before.clone();
        if !rule.keep_last {
            sum = self.node("Add", &[&sum, &sorted.values]);
        }
        let sum = self.node("Add", &[&sum, &penalties]);
        Ok(self.node_with("ScatterElements", &["probabilities", &sorted.places, &sum], &[("axis", 1)]))
    }

    fn intervals(&mut self, rules: &Rules) {
        let (centre, spread) = if rules.logarithm { self.logarithm() } else { ("mean".to_owned(), "sd".to_owned()) };
        for rule in &rules.intervals {
            let factor = self.number(rule.factor);
            let half = self.node("Mul", &[&spread, &factor]);
            for (operator, end) in [("Sub", "lower"), ("Add", "upper")] {
                let name = format!("{end}_{}", rule.name);
                if rules.logarithm {
                    let bound = self.node(operator, &[&centre, &half]);
                    self.writer.node("Exp", &[&bound], &name);
                } else {
                    self.writer.node(operator, &[&centre, &half], &name);
                }
                self.writer.output(&name, None);
            }
        }
    }

    /// Mean and deviation of the logarithm of a log-normal number.
    fn logarithm(&mut self) -> (String, String) {
        let (one, half, least) = (self.number(1.0), self.number(0.5), self.number(f64::from(f32::MIN_POSITIVE)));
        let mean = self.node("Max", &["mean", &least]);
        let ratio = self.node("Div", &["sd", &mean]);
        let square = self.node("Mul", &[&ratio, &ratio]);
        let more = self.node("Add", &[&square, &one]);
        let variance = self.node("Log", &[&more]);
        let (log, halved) = (self.node("Log", &[&mean]), self.node("Mul", &[&variance, &half]));
        (self.node("Sub", &[&log, &halved]), self.node("Sqrt", &[&variance]))
    }

    /// p-values of inputs: of the score, and of how far features lie outside; of two the smaller counts twice.
    fn p_value_of(&mut self, outlier: &OutlierRule, x: &str, classes: bool) -> Result<String> {
        let score = self.score(outlier.score, classes);
        let p = self.p_value(&score, &outlier.reference)?;
        let Some(outside) = &outlier.outside else { return Ok(p) };
        let by = self.outside(outside, (x, &score))?;
        let other = self.p_value(&by, &outside.reference)?;
        let smaller = self.node("Min", &[&p, &other]);
        let (two, one) = (self.number(2.0), self.number(1.0));
        let twice = self.node("Mul", &[&smaller, &two]);
        Ok(self.node("Min", &[&twice, &one]))
    }

    /// How far the farthest feature lies outside, 0 within. `[N]`
    fn outside(&mut self, outside: &Outside, (x, like): (&str, &str)) -> Result<String> {
        let zero = self.number(0.0);
        if outside.ranges.is_empty() {
            return Ok(self.node("Mul", &[like, &zero]));
        }
        let end = |index: usize| outside.ranges.iter().map(|range| range[index]).collect::<Vec<_>>();
        let (low, high, widths) = (self.row(&end(0))?, self.row(&end(1))?, self.row(&outside.widths)?);
        let (below, above) = (self.node("Sub", &[&low, x]), self.node("Sub", &[x, &high]));
        let farther = self.node("Max", &[&below, &above]);
        let by = self.node("Div", &[&farther, &widths]);
        let by = self.largest(&by);
        Ok(self.node("Max", &[&by, &zero]))
    }

    /// `(1 + #{s_i ≥ s})/(n + 1)` of every score. `[N]`
    fn p_value(&mut self, score: &str, reference: &[f64]) -> Result<String> {
        let examples = self.row(reference)?;
        let column = self.node("Unsqueeze", &[score, "fidgp/rules/axis"]);
        let as_high = self.node("GreaterOrEqual", &[&examples, &column]);
        let ones = self.node_with("Cast", &[&as_high], &[("to", 1)]);
        let sum = self.node_with("ReduceSum", &[&ones, "fidgp/rules/axis"], &[("keepdims", 0)]);
        let (one, all) = (self.number(1.0), self.number(reference.len() as f64 + 1.0));
        let more = self.node("Add", &[&sum, &one]);
        Ok(self.node("Div", &[&more, &all]))
    }
}
