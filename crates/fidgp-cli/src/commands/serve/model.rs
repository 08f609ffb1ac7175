//! A trained model as the server asks it.

use std::path::Path;

use fidgp::predict::{Effort, WeightDraws};
use fidgp_data::Picture;
use fidgp_lab::LabError;
use fidgp_lab::predict::{ClassPrediction, NumberPrediction, PixelPrediction, Predictor, Trained};
use fidgp_lab::source::View;
use fidgp_serve::{Answer, Item, Model, ModelError, Options, Outputs, Prediction, Signature, Takes, Uncertainty};
use tch::{Kind, Tensor};

/// What errors call a picture that came over the network.
const PICTURE: &str = "picture";

/// A predictor with what it takes and gives. The first prediction makes and keeps the draws, so one is made when it is opened.
pub struct ServedModel {
    predictor: Predictor,
    signature: Signature,
}

impl ServedModel {
    /// Of a model that was opened.
    ///
    /// # Errors
    /// When it cannot predict.
    pub fn new(trained: Trained) -> Result<Self, LabError> {
        let signature = signature(&trained)?;
        let mut served = Self { predictor: Predictor::new(trained, None, WeightDraws::MEMORY)?, signature };
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
        let names = &self.predictor.trained().classes;
        let answer = |seen: Result<Vec<f32>, ModelError>| {
            let nothing = || ModelError::Failed("said nothing about an input".to_owned());
            seen.and_then(|_| said.next().ok_or_else(nothing)).map(|said| class_answer(said, names))
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
        let draws = self.draws(effort);
        Ok(said.into_iter().map(|said| Ok(number_answer(&said, draws))).collect())
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
fn signature(trained: &Trained) -> Result<Signature, LabError> {
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
    Ok(Signature { takes, gives, levels: Vec::new(), scores_ood: false, decides: false })
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

fn class_answer(said: ClassPrediction, names: &[String]) -> Answer {
    let best = said.top(1).first().map_or(0, |(index, _)| *index);
    let uncertainty = Uncertainty { total: said.total, aleatoric: said.aleatoric, epistemic: said.epistemic };
    let class = names.get(best).cloned().unwrap_or_default();
    let prediction = Prediction::Classes { class, probabilities: said.probabilities, uncertainty, sets: Vec::new() };
    Answer { prediction, draws: said.draws, error: said.error, ood: None, decision: None }
}

fn number_answer(said: &NumberPrediction, draws: u64) -> Answer {
    let NumberPrediction { mean, sd, epistemic_sd: epistemic, noise_sd: aleatoric, .. } = *said;
    let prediction = Prediction::Number { mean, sd, epistemic, aleatoric, intervals: Vec::new() };
    Answer { prediction, draws, error: None, ood: None, decision: None }
}

fn failed(error: &LabError) -> ModelError {
    ModelError::Failed(error.to_string())
}
