use fidgp_metrics::{Predictions, ReliabilityTable};
use serde::{Deserialize, Serialize};

use super::{About, Curve, Histogram, Mistake, Seen, Trust, judged, largest, started};
use crate::calibration::Calibration;
use crate::decide::Decision;
use crate::error::Result;
use crate::evidence::{ClassEvidence, Score};

const BINS: usize = 15;

/// What was seen of predicted classes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassesSeen {
    /// The names of the classes.
    pub classes: Vec<String>,
    /// Examples whose class was right.
    pub right: usize,
    /// Mean negative log-likelihood, nats.
    pub nll: f64,
    /// Brier score.
    pub brier: f64,
    /// Confidence against accuracy.
    pub reliability: ReliabilityTable,
    /// Each class by itself.
    pub by_class: Vec<ClassRow>,
    /// `[true class, predicted class, examples]`, where there are any.
    pub confusion: Vec<[usize; 3]>,
    /// How large the sets are, on examples held back.
    pub sizes: Vec<SetSizes>,
}

/// A class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassRow {
    /// Examples of it.
    pub examples: usize,
    /// Of these, how many were given it.
    pub right: usize,
    /// Examples of any class that were given it.
    pub said: usize,
    /// Examples of it that were held back.
    pub held_back: usize,
    /// Of these, how many sets hold it, level by level.
    pub covered: Vec<usize>,
    /// Sum of the sizes of these sets, level by level.
    pub set_sizes: Vec<usize>,
}

/// How often a set has how many classes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetSizes {
    /// The level.
    pub level: f64,
    /// Sets of 0, 1, 2 … classes.
    pub counts: Vec<usize>,
}

impl ClassesSeen {
    /// Whether every count is of a class and a level that are there.
    pub(super) fn sound(&self) -> std::result::Result<(), String> {
        let (classes, levels) = (self.classes.len(), self.sizes.len());
        if self.by_class.len() != classes {
            return Err(format!("`by_class` has {} rows, there are {classes} classes", self.by_class.len()));
        }
        let wrong = |row: &ClassRow| row.covered.len() != levels || row.set_sizes.len() != levels;
        if let Some(class) = self.by_class.iter().position(wrong) {
            return Err(format!("row {class} of `by_class` is not of {levels} levels"));
        }
        match self.confusion.iter().find(|[truth, said, _]| *truth >= classes || *said >= classes) {
            Some([truth, said, _]) => Err(format!("`confusion` names classes {truth} and {said} of {classes}")),
            None => Ok(()),
        }
    }
}

pub(super) fn trust(found: &Calibration, about: About, examples: &[ClassEvidence], labels: &[usize]) -> Result<Trust> {
    let (judge, held) = judged(found, examples.len())?;
    let decisions: Vec<Decision> = examples.iter().map(|said| judge.class(said)).collect();
    let probs: Vec<f64> = examples.iter().flat_map(|said| said.probabilities.iter().copied()).collect();
    let predictions = Predictions::new(&probs, found.classes.len(), labels)?;
    let wrong: Vec<bool> = examples.iter().zip(labels).map(|(said, label)| said.class() != *label).collect();
    let loss: Vec<f64> = wrong.iter().map(|&wrong| f64::from(u8::from(wrong))).collect();
    let seen = ClassesSeen {
        classes: found.classes.clone(),
        right: wrong.iter().filter(|wrong| !**wrong).count(),
        nll: predictions.nll(),
        brier: predictions.brier(),
        reliability: ReliabilityTable::equal_width(&predictions, BINS)?,
        by_class: by_class(found.classes.len(), examples, labels, (&decisions, &held)),
        confusion: confusion(found.classes.len(), examples, labels),
        sizes: sizes(&judge.levels(), &decisions, &held),
    };
    let verdicts: Vec<_> = decisions.iter().map(|decision| decision.verdict).collect();
    let mut trust = started(found, about, &verdicts, &held, Seen::Classes(seen))?;
    for score in Score::OF_CLASSES {
        let values: Vec<f64> = examples.iter().map(|said| score.of_class(said)).collect();
        trust.curves.push(Curve::of(score, &values, &loss)?);
    }
    let epistemic: Vec<f64> = examples.iter().map(|said| said.epistemic).collect();
    trust.epistemic = Histogram::of(&epistemic, &wrong, "another class was more probable");
    let sure: Vec<Option<f64>> =
        examples.iter().zip(&wrong).map(|(said, wrong)| wrong.then(|| said.confidence())).collect();
    let mistake = |i: usize| Mistake {
        example: i,
        input: String::new(),
        said: found.classes[examples[i].class()].clone(),
        truth: found.classes[labels[i]].clone(),
        confidence: Some(examples[i].confidence()),
        deviations: None,
        total: examples[i].total,
        epistemic: examples[i].epistemic,
        verdict: verdicts[i],
        picture: None,
    };
    trust.mistakes = largest(&sure).into_iter().map(mistake).collect();
    Ok(trust)
}

fn by_class(
    classes: usize,
    examples: &[ClassEvidence],
    labels: &[usize],
    (decisions, held): (&[Decision], &[usize]),
) -> Vec<ClassRow> {
    let levels = decisions.first().map_or(0, |decision| decision.sets.len());
    let empty = ClassRow { covered: vec![0; levels], set_sizes: vec![0; levels], ..ClassRow::default() };
    let mut rows = vec![empty; classes];
    for (said, &label) in examples.iter().zip(labels) {
        rows[label].examples += 1;
        rows[label].right += usize::from(said.class() == label);
        rows[said.class()].said += 1;
    }
    for &i in held {
        let row = &mut rows[labels[i]];
        row.held_back += 1;
        for (level, set) in decisions[i].sets.iter().enumerate() {
            row.covered[level] += usize::from(set.classes.contains(&labels[i]));
            row.set_sizes[level] += set.classes.len();
        }
    }
    rows
}

fn confusion(classes: usize, examples: &[ClassEvidence], labels: &[usize]) -> Vec<[usize; 3]> {
    let mut counts = std::collections::BTreeMap::new();
    for (said, &label) in examples.iter().zip(labels) {
        debug_assert!(label < classes, "labels were checked");
        *counts.entry((label, said.class())).or_insert(0) += 1;
    }
    counts.into_iter().map(|((truth, said), count)| [truth, said, count]).collect()
}

fn sizes(levels: &[f64], decisions: &[Decision], held: &[usize]) -> Vec<SetSizes> {
    let count = |(place, &level): (usize, &f64)| {
        let mut counts = Vec::new();
        for &i in held {
            let size = decisions[i].sets[place].classes.len();
            counts.resize(counts.len().max(size + 1), 0);
            counts[size] += 1;
        }
        SetSizes { level, counts }
    };
    levels.iter().enumerate().map(count).collect()
}
