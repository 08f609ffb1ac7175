//! What fitted rules do to the examples that were held back.

use fidgp_metrics::conformal::{SetsByClass, coverage_law};

use crate::calibration::Calibration;
use crate::decide::{Judge, Verdict, percent};
use crate::error::Result;
use crate::evidence::{ClassEvidence, NumberEvidence};
use crate::kept::{Good, Kept, LEAST_CHANCE};

/// What the rules do to the examples that were held back.
pub(super) fn classes(found: &Calibration, held: &[(&ClassEvidence, usize)]) -> Result<Vec<Kept>> {
    let judge = Judge::new(found)?;
    let decisions: Vec<_> = held.iter().map(|(said, _)| judge.class(said)).collect();
    let (mut kept, mut of_class) = (Vec::new(), Vec::new());
    for (i, level) in judge.levels().into_iter().enumerate() {
        let sets = || decisions.iter().map(|decision| &decision.sets[i].classes);
        let hits = sets().zip(held).filter(|(set, (_, label))| set.contains(label)).count();
        let promise = format!("the set holds the class at level {}", percent(level));
        let law = found.rules.sets.get(i).and_then(|sets| coverage_law(sets.examples, level).ok());
        let mut coverage = Kept::new(promise, level, Good::Above, hits, held.len())?.by_law(law, hits);
        if let Some(by_class) = i.checked_sub(found.rules.sets.len()).and_then(|i| found.rules.sets_by_class.get(i)) {
            let all = sets().zip(held).map(|(set, (_, label))| (*label, set.contains(label)));
            let lowest = lowest_class(found, by_class, all)?;
            coverage.kept = lowest.as_ref().is_none_or(|lowest| lowest.kept);
            of_class.extend(lowest);
        }
        kept.push(coverage.of_size(sets().map(|set| set.len() as f64)));
    }
    kept.extend(of_class);
    let wrong: Vec<bool> = held.iter().map(|(said, label)| said.class() != *label).collect();
    kept.extend(shares(found, &decisions.iter().map(|decision| decision.verdict).collect::<Vec<_>>(), &wrong)?);
    kept.extend(answering(found, held.iter().map(|(said, _)| judge.answers(&|score| score.of_class(said))))?);
    Ok(kept)
}

/// The class whose count speaks most against a promise for each class. One of so many is lowest by chance.
fn lowest_class(
    found: &Calibration,
    sets: &SetsByClass,
    all: impl Iterator<Item = (usize, bool)>,
) -> Result<Option<Kept>> {
    let mut counts = vec![[0; 2]; sets.examples.len()];
    for (label, hit) in all {
        counts[label][0] += usize::from(hit);
        counts[label][1] += 1;
    }
    let chance = |class: usize| -> Result<f64> {
        let [hits, of] = counts[class];
        Ok(coverage_law(sets.examples[class], sets.level)?.at_most(hits, of))
    };
    let present = (0..counts.len()).filter(|&class| counts[class][1] > 0);
    let chances = present.map(|class| Ok((class, chance(class)?))).collect::<Result<Vec<_>>>()?;
    let Some(&(class, least)) = chances.iter().min_by(|a, b| a.1.total_cmp(&b.1)) else { return Ok(None) };
    let name = found.classes.get(class).map_or_else(|| class.to_string(), fidgp_files::shown);
    let promise = format!("the lowest class at level {}, `{name}`", percent(sets.level));
    let [hits, of] = counts[class];
    let kept = Kept::new(promise, sets.level, Good::Above, hits, of)?;
    Ok(Some(Kept { kept: least * chances.len() as f64 >= LEAST_CHANCE, ..kept }))
}

pub(super) fn numbers(found: &Calibration, held: &[(&NumberEvidence, f64)]) -> Result<Vec<Kept>> {
    let judge = Judge::new(found)?;
    let decisions: Vec<_> = held.iter().map(|(said, _)| judge.number(said)).collect();
    let mut kept = Vec::new();
    for (i, level) in judge.levels().into_iter().enumerate() {
        let intervals = || decisions.iter().map(|decision| decision.intervals[i]);
        let hits = intervals().zip(held).filter(|(interval, (_, y))| interval.contains(*y)).count();
        let promise = format!("the interval holds the number at level {}", percent(level));
        let law = coverage_law(found.examples.fitted, level).ok();
        let coverage = Kept::new(promise, level, Good::Above, hits, held.len())?.by_law(law, hits);
        kept.push(coverage.of_size(intervals().map(|interval| interval.hi - interval.lo)));
    }
    let bound = found.rules.abstention.as_ref().and_then(|abstention| abstention.wrong_beyond).unwrap_or(f64::INFINITY);
    let wrong: Vec<bool> = held.iter().map(|(said, y)| (said.mean - y).abs() > bound).collect();
    kept.extend(shares(found, &decisions.iter().map(|decision| decision.verdict).collect::<Vec<_>>(), &wrong)?);
    kept.extend(answering(found, held.iter().map(|(said, _)| judge.answers(&|score| score.of_number(said))))?);
    Ok(kept)
}

/// The share that is sure enough to be answered.
fn answering(found: &Calibration, answers: impl ExactSizeIterator<Item = bool>) -> Result<Option<Kept>> {
    let Some(answering) = &found.rules.answering else { return Ok(None) };
    let examples = answers.len();
    let answered = answers.filter(|answered| *answered).count();
    let promise = "inputs that are sure enough to be answered".to_owned();
    let law = coverage_law(found.examples.fitted, answering.rule.share).ok();
    Ok(Some(Kept::new(promise, answering.rule.share, Good::Above, answered, examples)?.by_law(law, answered)))
}

/// Errors among the answers, and false alarms.
fn shares(found: &Calibration, verdicts: &[Verdict], wrong: &[bool]) -> Result<Vec<Kept>> {
    let mut kept = Vec::new();
    let accepted = || verdicts.iter().zip(wrong).filter(|(verdict, _)| **verdict == Verdict::Accept);
    if let Some(abstention) = &found.rules.abstention {
        let (answered, errors) = (accepted().count(), accepted().filter(|(_, wrong)| **wrong).count());
        let share = percent(answered as f64 / verdicts.len() as f64);
        let promise = format!("answers that are wrong, of the {share} that are answered");
        kept.push(Kept::new(promise, abstention.risk, Good::Below, errors, answered)?);
    }
    if let Some(outlier) = &found.rules.outlier {
        let alarms = verdicts.iter().filter(|verdict| **verdict == Verdict::OutOfDistribution).count();
        let promise = "in-distribution inputs called out-of-distribution".to_owned();
        let quiet = coverage_law(outlier.rule.examples, 1.0 - outlier.rule.alarms).ok();
        let share = Kept::new(promise, outlier.rule.alarms, Good::Below, alarms, verdicts.len())?;
        kept.push(share.by_law(quiet, verdicts.len() - alarms));
    }
    Ok(kept)
}
