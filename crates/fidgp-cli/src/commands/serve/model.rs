//! A trained model as the server asks it.

use std::path::Path;

use fidgp::predict::{Effort, WeightDraws};
use fidgp_data::Picture;
use fidgp_decision::ClassEvidence;
use fidgp_decision::decide::Judge;
use fidgp_decision::monitor::Watch;
use fidgp_lab::LabError;
use fidgp_lab::predict::{ClassPrediction, NumberPrediction, PixelPrediction, Predictor, Trained};
use fidgp_lab::source::{TableView, View};
use fidgp_serve::answer::{Decision, Interval, LabelSet, OutOfDistribution, Ranked};
use fidgp_serve::{Answer, Item, Model, ModelError, Options, Outputs, Prediction, Signature, Takes, Uncertainty};
use serde_json::json;
use tch::{Kind, Tensor};

use super::table::{self, Given};
use crate::words::without_trace;

/// What errors call a picture that came over the network.
const PICTURE: &str = "picture";

/// A predictor with what it takes and gives. The first prediction makes and keeps the draws, so one is made when it is opened.
pub struct ServedModel {
    predictor: Predictor,
    signature: Signature,
    judge: Option<Judge>,
    watch: Option<Watch>,
    /// Weight draws that the rules are for.
    judged_draws: u64,
    most_pixels: u64,
}

/// The most probable classes that an answer names, as many as `fidgp predict` does.
const TOP: usize = 3;

/// Pixels of a picture: the networks that look at every pixel need memory for each.
const MOST_PIXELS: u64 = 50_000_000;
const MOST_PIXELS_SEGMENTED: u64 = 4_000_000;

impl ServedModel {
    /// Of a model that was opened from a folder, with the rules there. It takes pictures of so many pixels.
    ///
    /// # Errors
    /// When it cannot predict, or the rules are of another model.
    pub fn new(folder: &Path, trained: Trained, most_pixels: Option<u64>) -> Result<Self, LabError> {
        let calibration = trained.rules(folder)?;
        let judge = calibration.as_ref().map(Judge::new).transpose()?;
        let judged_draws = calibration.as_ref().map_or(0, |calibration| calibration.draws);
        let watch = calibration.map(Watch::new).transpose()?;
        let mut signature = signature(&trained, judge.as_ref())?;
        let usual = if trained.segments() { MOST_PIXELS_SEGMENTED } else { MOST_PIXELS };
        let (predictor, most_pixels) =
            (Predictor::new(trained, None, WeightDraws::MEMORY)?, most_pixels.unwrap_or(usual));
        signature.draws = predictor.draws(Effort::default());
        // a linearised posterior draws no weights: the rules are for what it gives by itself
        let linearised = predictor.trained().model.posterior.is_some();
        let judged_draws = if linearised { signature.draws } else { judged_draws };
        let mut served = Self { predictor, signature, judge, watch, judged_draws, most_pixels };
        served.warm_up()?;
        Ok(served)
    }

    /// Makes the draws, on an input of zeros. Pictures that are segmented come in any size; a small one makes the same draws.
    fn warm_up(&mut self) -> Result<(), LabError> {
        match &self.signature.takes {
            Takes::Rows { .. } => {
                let zeros = vec![0.0; self.predictor.trained().columns()?.unwrap_or(1)];
                self.rows_said(&zeros, Effort::default()).map(drop)
            }
            Takes::Pictures { size: Some(size) } => {
                let zeros = Tensor::zeros([1, size[0], size[1], size[2]], (Kind::Float, tch::Device::Cpu));
                self.predictor.classify(&zeros, 0, Effort::default()).map(drop)
            }
            Takes::Pictures { size: None } => {
                let zeros = Tensor::zeros([1, 3, 64, 64], (Kind::Float, tch::Device::Cpu));
                self.predictor.segment(&zeros, Effort::default()).map(drop)
            }
        }
    }

    fn classes(
        &mut self,
        items: &[Item],
        size: [i64; 3],
        effort: Effort,
    ) -> Result<Vec<Result<Answer, ModelError>>, ModelError> {
        let view = self.predictor.trained().view;
        let seen = items.iter().map(|item| self.check_pixels(item).and_then(|()| pixels(item, view)));
        let seen: Vec<_> = seen.collect();
        let sound: Vec<f32> = seen.iter().flatten().flatten().copied().collect();
        let mut said = Vec::new().into_iter();
        if !sound.is_empty() {
            let batch = Tensor::from_slice(&sound).view([-1, size[0], size[1], size[2]]);
            said = self.predictor.classify(&batch, 0, effort).map_err(|error| failed(&error))?.into_iter();
        }
        let (names, judge) = (&self.predictor.trained().classes, self.judge.as_ref());
        let answer = |seen: Result<Vec<f32>, ModelError>| {
            let nothing = || ModelError::Failed("said nothing about an input".to_owned());
            seen.and_then(|_| said.next().ok_or_else(nothing)).map(|said| {
                let evidence = said.evidence();
                class_answer(said, &evidence, names, judge)
            })
        };
        Ok(seen.into_iter().map(answer).collect())
    }

    fn rows(&mut self, items: &[Item], effort: Effort) -> Result<Vec<Result<Answer, ModelError>>, ModelError> {
        let rows: Vec<_> = items.iter().map(|item| Given::of(item, self.predictor.trained().table.as_ref())).collect();
        let sound: Vec<f64> = rows.iter().flatten().flat_map(|row| &row.inputs).copied().collect();
        let mut said = Vec::new().into_iter();
        if !sound.is_empty() {
            said = self.rows_said(&sound, effort).map_err(|error| beyond(&error, items.len()))?.into_iter();
        }
        let nothing = || ModelError::Failed("said nothing about an input".to_owned());
        let draws = self.predictor.draws(effort);
        let answer = |row: Result<Given, ModelError>| {
            let Given { inputs, cells, flags } = row?;
            let answer = self.row_answer(said.next().ok_or_else(nothing)?, &inputs, draws);
            Ok(Answer { flags, features: cells, ..answer })
        };
        Ok(rows.into_iter().map(answer).collect())
    }

    fn rows_said(&mut self, rows: &[f64], effort: Effort) -> Result<Vec<RowSaid>, LabError> {
        if self.predictor.trained().classes.is_empty() {
            return Ok(self.predictor.regress(rows, effort)?.into_iter().map(RowSaid::Number).collect());
        }
        Ok(self.predictor.classify_rows(rows, effort)?.into_iter().map(RowSaid::Class).collect())
    }

    fn row_answer(&self, said: RowSaid, row: &[f64], draws: u64) -> Answer {
        let (view, judge) = (self.predictor.trained().table.as_ref(), self.judge.as_ref());
        match said {
            RowSaid::Number(said) => number_answer(&said, draws, (judge, view)),
            RowSaid::Class(said) => {
                let evidence = said.evidence_of_row(row, view);
                class_answer(said, &evidence, &self.predictor.trained().classes, judge)
            }
        }
    }

    fn pixels(&mut self, item: &Item, effort: Effort) -> Result<Answer, ModelError> {
        let Item::Picture(bytes) = item else {
            return Err(ModelError::Input("this model takes picture files".to_owned()));
        };
        self.check_pixels(item)?;
        let picture =
            Picture::decode(Path::new(PICTURE), bytes).map_err(|error| ModelError::Input(error.to_string()))?;
        let [width, height] = picture.size().map(i64::from);
        let batch = Tensor::from_slice(&picture.planar()).view([1, 3, height, width]);
        let segmented = self.predictor.segment(&batch, effort).map_err(|error| failed(&error))?;
        let said = PixelPrediction::of(&batch.get(0), &segmented, 0).map_err(|error| failed(&error))?;
        let map = said.map.to_png().map_err(|error| ModelError::Failed(error.to_string()))?;
        let uncertainty = Uncertainty { total: said.total, aleatoric: said.aleatoric, epistemic: said.epistemic };
        let prediction = Prediction::Pixels { shares: said.shares, uncertainty, map };
        Ok(Answer::of(prediction, self.predictor.draws(effort)))
    }

    /// Refuses a picture by what it declares, before it is decoded.
    fn check_pixels(&self, item: &Item) -> Result<(), ModelError> {
        let Item::Picture(bytes) = item else { return Ok(()) };
        match Picture::declared_pixels(bytes) {
            Some(pixels) if pixels > self.most_pixels => {
                let why = format!("the picture has {pixels} pixels, more than the {} that are taken", self.most_pixels);
                Err(ModelError::Input(why))
            }
            _ => Ok(()),
        }
    }

    /// Tests the answers for drift, as `fidgp monitor` tests the lines of a log.
    fn look_for_drift(&mut self, answers: &[Result<Answer, ModelError>]) {
        let Some(watch) = &mut self.watch else { return };
        for answer in answers.iter().flatten() {
            let mut said = json!(answer);
            said["features"] = json!(answer.features);
            if let Err(error) = watch.add(&said) {
                tell!("warning: drift detection has stopped: {error}");
                self.watch = None;
                return;
            }
        }
    }

    /// Says where the rules are for another number of draws than these answers have.
    fn doubt_rules(&self, answers: &mut [Result<Answer, ModelError>]) {
        for answer in answers.iter_mut().flatten().filter(|answer| answer.decision.is_some()) {
            let draws = self.judged_draws;
            answer.flags.push(format!(
                "decision, sets, intervals and p-value are for {draws} draws; leave out draws and tolerance"
            ));
        }
    }

    /// Whether the answers are such as the rules were fitted to.
    fn fits_rules(&self, effort: Effort) -> bool {
        effort.tolerance.is_none() && self.predictor.draws(effort) == self.judged_draws
    }
}

impl Model for ServedModel {
    fn signature(&self) -> Signature {
        self.signature.clone()
    }

    fn predict(&mut self, items: &[Item], options: &Options) -> Result<Vec<Result<Answer, ModelError>>, ModelError> {
        let effort = Effort { draws: options.draws, tolerance: options.tolerance };
        let mut answers = match (&self.signature.gives, &self.signature.takes) {
            (_, Takes::Rows { .. }) => self.rows(items, effort)?,
            (Outputs::Classes(_), Takes::Pictures { size: Some(size) }) => self.classes(items, *size, effort)?,
            _ => items.iter().map(|item| self.pixels(item, effort)).collect(),
        };
        if self.fits_rules(effort) {
            self.look_for_drift(&answers);
        } else {
            self.doubt_rules(&mut answers);
        }
        Ok(answers)
    }

    fn drift(&self) -> Vec<(String, f64)> {
        self.watch.as_ref().map_or_else(Vec::new, Watch::evidence)
    }
}

/// What a model takes and gives.
fn signature(trained: &Trained, judge: Option<&Judge>) -> Result<Signature, LabError> {
    let (takes, gives) = if trained.segments() {
        (Takes::Pictures { size: None }, Outputs::Pixels(trained.classes.clone()))
    } else if let Some(view) = trained.view {
        let side = i64::from(view.crop);
        let size = Some([view.channels as i64, side, side]);
        (Takes::Pictures { size }, Outputs::Classes(trained.classes.clone()))
    } else {
        let width = trained.columns()?.unwrap_or(1);
        let unnamed = || (0..width).map(|column| format!("x{column}")).collect();
        let table = trained.table.as_ref();
        let columns = table.map_or_else(Vec::new, table::columns);
        let named = |table: &TableView| if columns.is_empty() { table.features.clone() } else { table.columns.names() };
        let features = table.map_or_else(unnamed, named);
        let example = table.map_or_else(Vec::new, table::example);
        let gives = match (&trained.classes[..], table) {
            ([], table) => Outputs::Number(table.map_or("y", |table| &table.target).to_owned()),
            (classes, _) => Outputs::Classes(classes.to_vec()),
        };
        (Takes::Rows { features, example, columns }, gives)
    };
    let levels = judge.map_or_else(Vec::new, Judge::levels);
    let scores_ood = judge.is_some_and(|judge| judge.ood_score(&|_| 0.0).is_some());
    Ok(Signature { takes, gives, draws: trained.config.predict.draws, levels, scores_ood, decides: judge.is_some() })
}

/// What is said of a row.
enum RowSaid {
    Number(NumberPrediction),
    Class(ClassPrediction),
}

/// A picture in the model's size, 0 … 255.
fn pixels(item: &Item, view: Option<View>) -> Result<Vec<f32>, ModelError> {
    let wrong = |error: &dyn std::fmt::Display| ModelError::Input(error.to_string());
    match (item, view) {
        (Item::Pixels(pixels), _) => Ok(pixels.clone()),
        (Item::Picture(bytes), Some(view)) => {
            let picture = Picture::decode(Path::new(PICTURE), bytes).map_err(|error| wrong(&error))?;
            let bytes = view.centre(&picture).map_err(|error| wrong(&error))?;
            Ok(bytes.into_iter().map(f32::from).collect())
        }
        _ => Err(ModelError::Input("this model takes pictures".to_owned())),
    }
}

fn class_answer(said: ClassPrediction, evidence: &ClassEvidence, names: &[String], judge: Option<&Judge>) -> Answer {
    let uncertainty = Uncertainty { total: said.total, aleatoric: said.aleatoric, epistemic: said.epistemic };
    let named = |class: &usize| names.get(*class).cloned().unwrap_or_default();
    let decided = judge.map(|judge| (judge.class(evidence), judge.ood_score(&|score| score.of_class(evidence))));
    let sets = decided.iter().flat_map(|(decided, _)| &decided.sets);
    let sets =
        sets.map(|set| LabelSet { level: set.level, classes: set.classes.iter().map(named).collect() }).collect();
    let ranked = |(index, probability)| Ranked { class: named(&index), index, probability };
    let top: Vec<_> = said.top(TOP).into_iter().map(ranked).collect();
    let best = top.first().cloned().unwrap_or_else(|| ranked((0, 0.0)));
    let ClassPrediction { probabilities, log_density, .. } = said;
    let prediction = Prediction::Classes { best, top, probabilities, uncertainty, log_density, sets };
    let (ood, decision) = parts(decided.as_ref());
    let out_of_range = evidence.outside.said.clone();
    Answer { error: said.error, out_of_range, ood, decision, ..Answer::of(prediction, said.draws) }
}

fn number_answer(said: &NumberPrediction, draws: u64, (judge, view): (Option<&Judge>, Option<&TableView>)) -> Answer {
    let NumberPrediction { mean, sd, epistemic_sd: epistemic, noise_sd: aleatoric, .. } = *said;
    let evidence = said.evidence(view);
    let decided = judge.map(|judge| (judge.number(&evidence), judge.ood_score(&|score| score.of_number(&evidence))));
    let intervals = decided.iter().flat_map(|(decided, _)| &decided.intervals);
    let intervals = intervals.map(|one| Interval { level: one.level, lower: one.lo, upper: one.hi }).collect();
    let prediction = Prediction::Number { mean, sd, epistemic, aleatoric, intervals };
    let (ood, decision) = parts(decided.as_ref());
    Answer { out_of_range: evidence.outside.said, ood, decision, ..Answer::of(prediction, draws) }
}

/// What rules say, as the server writes it.
fn parts(decided: Option<&(fidgp_decision::Decision, Option<f64>)>) -> (Option<OutOfDistribution>, Option<Decision>) {
    let Some((decided, score)) = decided else { return (None, None) };
    let ood = score.zip(decided.p_value).map(|(ood_score, ood_p)| OutOfDistribution { ood_score, ood_p });
    let decision = Decision { decision: decided.verdict.to_string(), reason: decided.reason.clone() };
    (ood, Some(decision))
}

/// One row alone has no finite answer where its numbers are too large for the network; of several nobody knows which.
fn beyond(error: &LabError, rows: usize) -> ModelError {
    if rows == 1 && matches!(error, LabError::Metric(_) | LabError::Data(_)) {
        return ModelError::Input("the model has no finite answer to this row: its numbers are too large".to_owned());
    }
    failed(error)
}

fn failed(error: &LabError) -> ModelError {
    ModelError::Failed(without_trace(&error.to_string()))
}
