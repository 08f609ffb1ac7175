//! What the rules of a calibrated model say of a prediction.

use std::path::Path;

use fidgp::predict::Effort;
use fidgp_decision::decide::{Judge, number, percent};
use fidgp_decision::{CALIBRATION_FILE, ClassEvidence, Decision, NumberEvidence, PixelSets, Score};
use fidgp_lab::LabError;
use fidgp_lab::predict::Trained;
use serde_json::{Value, json};

/// The rules of a model; none where it was not calibrated.
pub struct Rules {
    judge: Option<Judge>,
    classes: Vec<String>,
    pixels: Vec<PixelSets>,
}

/// What they say: fields for programs, and lines for people.
pub struct Verdict {
    pub fields: Value,
    pub lines: Vec<String>,
}

impl Rules {
    pub fn open(folder: &Path, trained: &Trained, effort: Effort) -> Result<Self, LabError> {
        let found = trained.rules(folder)?;
        if let Some(found) = &found
            && (effort.draws != Some(found.draws) || effort.tolerance.is_some())
        {
            tell!(
                "warning: the rules of {CALIBRATION_FILE} are for predictions of {} draws; leave --draws and --tolerance out",
                found.draws
            );
        }
        let judge = found.as_ref().map(Judge::new).transpose()?;
        let pixels = found.map_or_else(Vec::new, |found| found.rules.pixels);
        Ok(Self { judge, classes: trained.classes.clone(), pixels })
    }

    /// Of a segmentation.
    pub fn of_pixels(&self) -> &[PixelSets] {
        &self.pixels
    }

    pub fn of_class(&self, said: &ClassEvidence) -> Option<Verdict> {
        let judge = self.judge.as_ref()?;
        Some(self.verdict(&judge.class(said), judge.ood_score(&|score: Score| score.of_class(said))))
    }

    pub fn of_number(&self, said: &NumberEvidence) -> Option<Verdict> {
        let judge = self.judge.as_ref()?;
        Some(self.verdict(&judge.number(said), judge.ood_score(&|score: Score| score.of_number(said))))
    }

    fn verdict(&self, said: &Decision, score: Option<f64>) -> Verdict {
        let names = |classes: &[usize]| classes.iter().map(|&class| self.classes[class].clone()).collect::<Vec<_>>();
        let sets = said.sets.iter().map(|set| (set.level, names(&set.classes))).collect::<Vec<_>>();
        let mut fields = json!({"decision": said.verdict, "reason": said.reason});
        if !sets.is_empty() {
            fields["sets"] = sets.iter().map(|(level, classes)| json!({"level": level, "classes": classes})).collect();
        }
        if !said.intervals.is_empty() {
            let of = |one: &fidgp_metrics::Interval| json!({"level": one.level, "lower": one.lo, "upper": one.hi});
            fields["intervals"] = said.intervals.iter().map(of).collect();
        }
        if let (Some(score), Some(p)) = (score, said.p_value) {
            fields["ood_score"] = score.into();
            fields["ood_p"] = p.into();
        }
        let in_sets = sets.iter().map(|(level, classes)| format!("{} {{{}}}", percent(*level), shortened(classes)));
        let in_intervals =
            said.intervals.iter().map(|one| format!("{} {} … {}", percent(one.level), number(one.lo), number(one.hi)));
        let held: Vec<_> = in_sets.chain(in_intervals).collect();
        let p = said.p_value.map_or(String::new(), |p| format!("; p = {p:.3}"));
        let lines = vec![format!("{}: {}", said.verdict, said.reason), format!("{}{p}", held.join(", "))];
        Verdict { fields, lines }
    }
}

/// The first few of many.
fn shortened(classes: &[String]) -> String {
    const SHOWN: usize = 6;
    let shown = classes.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if classes.len() > SHOWN { format!("{shown} and {} more", classes.len() - SHOWN) } else { shown }
}

/// Puts fields beside others.
pub fn add(to: &mut Value, fields: Value) {
    if let (Value::Object(to), Value::Object(fields)) = (to, fields) {
        to.extend(fields);
    }
}
