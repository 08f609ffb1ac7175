//! A trained model as the server asks it.

use std::path::Path;

use fidgp::predict::{Effort, WeightDraws};
use fidgp_data::Picture;
use fidgp_decision::decide::Judge;
use fidgp_lab::LabError;
use fidgp_lab::predict::{ClassPrediction, NumberPrediction, PixelPrediction, Predictor, Trained};
use fidgp_lab::run_folder::calibration;
use fidgp_lab::source::{TableView, View};
use fidgp_serve::answer::{Decision, Interval, LabelSet, OutOfDistribution};
use fidgp_serve::{Answer, Item, Model, ModelError, Options, Outputs, Prediction, Signature, Takes, Uncertainty};
use tch::{Kind, Tensor};

/// What errors call a picture that came over the network.
const PICTURE: &str = "picture";

/// A predictor with what it takes and gives. The first prediction makes and keeps the draws, so one is made when it is opened.
pub struct ServedModel {
    predictor: Predictor,
    signature: Signature,
    judge: Option<Judge>,
}

impl ServedModel {
    /// Of a model that was opened from a folder, with the rules there.
    ///
    /// # Errors
    /// When it cannot predict, or the rules are of another model.
    pub fn new(folder: &Path, trained: Trained) -> Result<Self, LabError> {
        let judge = calibration::read(folder, &trained.model)?.as_ref().map(Judge::new).transpose()?;
        let signature = signature(&trained, judge.as_ref())?;
        let mut served = Self { predictor: Predictor::new(trained, None, WeightDraws::MEMORY)?, signature, judge };
        served.warm_up()?;
        Ok(served)
    }

    /// Makes the draws, on an input of zeros.
    fn warm_up(&mut self) -> Result<(), LabError> {
        match &self.signature.takes {
            Takes::Rows { features } => {
                let zeros = vec![0.0; features.len()];
                self.predictor.regress(&zeros, Effort::default()).map(drop)
            }
            Takes::Pictures { size: Some(size) } => {
                let zeros = Tensor::zeros([1, size[0], size[1], size[2]], (Kind::Float, tch::Device::Cpu));
                self.predictor.classify(&zeros, 0, Effort::default()).map(drop)
            }
            Takes::Pictures { size: None } => Ok(()),
        }
    }

    fn classes(
        &mut self,
        items: &[Item],
        size: [i64; 3],
        effort: Effort,
    ) -> Result<Vec<Result<Answer, ModelError>>, ModelError> {
        let view = self.predictor.trained().view;
        let seen: Vec<_> = items.iter().map(|item| pixels(item, view)).collect();
        let sound: Vec<f32> = seen.iter().flatten().flatten().copied().collect();
        let mut said = Vec::new().into_iter();
        if !sound.is_empty() {
            let batch = Tensor::from_slice(&sound).view([-1, size[0], size[1], size[2]]);
            said = self.predictor.classify(&batch, 0, effort).map_err(|error| failed(&error))?.into_iter();
        }
        let (names, judge) = (&self.predictor.trained().classes, self.judge.as_ref());
        let answer = |seen: Result<Vec<f32>, ModelError>| {
            let nothing = || ModelError::Failed("said nothing about an input".to_owned());
            seen.and_then(|_| said.next().ok_or_else(nothing)).map(|said| class_answer(said, names, judge))
        };
        Ok(seen.into_iter().map(answer).collect())
    }

    fn numbers(&mut self, items: &[Item], effort: Effort) -> Result<Vec<Result<Answer, ModelError>>, ModelError> {
        let rows = items.iter().map(|item| match item {
            Item::Row(row) => Ok(&row[..]),
            _ => Err(ModelError::Input("this model takes rows of a table".to_owned())),
        });
        let rows = rows.collect::<Result<Vec<_>, _>>()?.concat();
        let said = self.predictor.regress(&rows, effort).map_err(|error| failed(&error))?;
        let (draws, view) = (self.draws(effort), self.predictor.trained().table.as_ref());
        Ok(said.into_iter().map(|said| Ok(number_answer(&said, draws, (self.judge.as_ref(), view)))).collect())
    }

    fn pixels(&mut self, item: &Item, effort: Effort) -> Result<Answer, ModelError> {
        let Item::Picture(bytes) = item else {
            return Err(ModelError::Input("this model takes picture files".to_owned()));
        };
        let picture =
            Picture::decode(Path::new(PICTURE), bytes).map_err(|error| ModelError::Input(error.to_string()))?;
        let [width, height] = picture.size().map(i64::from);
        let batch = Tensor::from_slice(&picture.planar()).view([1, 3, height, width]);
        let segmented = self.predictor.segment(&batch, effort).map_err(|error| failed(&error))?;
        let said = PixelPrediction::of(&batch.get(0), &segmented, 0).map_err(|error| failed(&error))?;
        let map = said.map.to_png().map_err(|error| ModelError::Failed(error.to_string()))?;
        let uncertainty = Uncertainty { total: said.total, aleatoric: said.aleatoric, epistemic: said.epistemic };
        let prediction = Prediction::Pixels { shares: said.shares, uncertainty, map };
        Ok(Answer { prediction, draws: self.draws(effort), error: None, ood: None, decision: None })
    }

    fn draws(&self, effort: Effort) -> u64 {
        effort.draws.unwrap_or(self.predictor.trained().config.predict.draws)
    }
}

impl Model for ServedModel {
    fn signature(&self) -> Signature {
        self.signature.clone()
    }

    fn predict(&mut self, items: &[Item], options: &Options) -> Result<Vec<Result<Answer, ModelError>>, ModelError> {
        let effort = Effort { draws: options.draws, tolerance: options.tolerance };
        match (&self.signature.gives, &self.signature.takes) {
            (Outputs::Number(_), _) => self.numbers(items, effort),
            (Outputs::Classes(_), Takes::Pictures { size: Some(size) }) => self.classes(items, *size, effort),
            _ => Ok(items.iter().map(|item| self.pixels(item, effort)).collect()),
        }
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
        let columns = trained.columns()?.unwrap_or(1);
        let unnamed = || (0..columns).map(|column| format!("x{column}")).collect();
        let features = trained.table.as_ref().map_or_else(unnamed, |table| table.features.clone());
        let target = trained.table.as_ref().map_or("y", |table| &table.target);
        (Takes::Rows { features }, Outputs::Number(target.to_owned()))
    };
    let levels = judge.map_or_else(Vec::new, Judge::levels);
    let scores_ood = judge.is_some_and(|judge| judge.ood_score(&|_| 0.0).is_some());
    Ok(Signature { takes, gives, levels, scores_ood, decides: judge.is_some() })
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

fn class_answer(said: ClassPrediction, names: &[String], judge: Option<&Judge>) -> Answer {
    let best = said.top(1).first().map_or(0, |(index, _)| *index);
    let uncertainty = Uncertainty { total: said.total, aleatoric: said.aleatoric, epistemic: said.epistemic };
    let named = |class: &usize| names.get(*class).cloned().unwrap_or_default();
    let evidence = said.evidence();
    let decided = judge.map(|judge| (judge.class(&evidence), judge.ood_score(&|score| score.of_class(&evidence))));
    let sets = decided.iter().flat_map(|(decided, _)| &decided.sets);
    let sets =
        sets.map(|set| LabelSet { level: set.level, classes: set.classes.iter().map(named).collect() }).collect();
    let prediction = Prediction::Classes { class: named(&best), probabilities: said.probabilities, uncertainty, sets };
    let (ood, decision) = parts(decided.as_ref());
    Answer { prediction, draws: said.draws, error: said.error, ood, decision }
}

fn number_answer(said: &NumberPrediction, draws: u64, (judge, view): (Option<&Judge>, Option<&TableView>)) -> Answer {
    let NumberPrediction { mean, sd, epistemic_sd: epistemic, noise_sd: aleatoric, .. } = *said;
    let evidence = said.evidence(view);
    let decided = judge.map(|judge| (judge.number(&evidence), judge.ood_score(&|score| score.of_number(&evidence))));
    let intervals = decided.iter().flat_map(|(decided, _)| &decided.intervals);
    let intervals = intervals
        .map(|one| Interval { level: one.level, lower: one.lo.max(f64::MIN), upper: one.hi.min(f64::MAX) })
        .collect();
    let prediction = Prediction::Number { mean, sd, epistemic, aleatoric, intervals };
    let (ood, decision) = parts(decided.as_ref());
    Answer { prediction, draws, error: None, ood, decision }
}

/// What rules say, as the server writes it.
fn parts(decided: Option<&(fidgp_decision::Decision, Option<f64>)>) -> (Option<OutOfDistribution>, Option<Decision>) {
    let Some((decided, score)) = decided else { return (None, None) };
    let ood = score.zip(decided.p_value).map(|(ood_score, ood_p)| OutOfDistribution { ood_score, ood_p });
    let decision = Decision { decision: decided.verdict.to_string(), reason: decided.reason.clone() };
    (ood, Some(decision))
}

fn failed(error: &LabError) -> ModelError {
    ModelError::Failed(error.to_string())
}
