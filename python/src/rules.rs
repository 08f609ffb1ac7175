//! Rules for decisions: fitted here, kept in the folder that a model is saved to.

use std::path::Path;

use fidgp::predict::Effort;
use fidgp_data::Picture;
use fidgp_decision::calibration::Feature;
use fidgp_decision::decide::{Judge, number};
use fidgp_decision::fit::{Named, Origin, classes, numbers};
use fidgp_decision::trust::{About, Mistake};
use fidgp_decision::{Asked, Calibration, ClassEvidence, NumberEvidence, Score, TRUST_FILE, Trust};
use fidgp_lab::LabError;
use fidgp_lab::files::CONFIG_FILE;
use fidgp_lab::model_folder::{self, Dtype};
use fidgp_lab::predict::{ClassPrediction, Trained};
use fidgp_lab::report::words::base64;
use fidgp_lab::source::GivenRows;
use fidgp_lab::train::checkpoint;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;
use tch::Tensor;

use crate::model::Held;
use crate::rows::{Lent, Taken};

/// Pictures of mistakes are kept up to this side.
const SIDE: u32 = 96;

/// What was seen of the model when rules were fitted here.
pub struct Fresh {
    trust: Trust,
}

/// What is to be promised; the uncertainty that tells inputs out of distribution is the usual one of what is predicted.
pub struct Wanted(Asked);

impl Wanted {
    /// The usual where nothing is said.
    pub fn new(given: &Bound<PyDict>) -> PyResult<Self> {
        let mut asked = Asked::usual(Score::Total);
        for (key, value) in given {
            match key.extract::<String>()?.as_str() {
                "levels" => asked.levels = value.extract()?,
                "by_class" => asked.by_class = value.extract()?,
                "risk" => asked.risk = value.extract()?,
                "confidence" => asked.confidence = value.extract()?,
                "coverage" => asked.coverage = value.extract()?,
                "wrong_beyond" => asked.wrong_beyond = value.extract()?,
                "false_alarms" => asked.false_alarms = value.extract()?,
                "held_back" => asked.held_back = value.extract()?,
                "seed" => asked.seed = value.extract()?,
                other => return Err(PyValueError::new_err(format!("`{other}` is no setting of a calibration"))),
            }
        }
        Ok(Self(asked))
    }

    fn with(&self, ood_score: Score) -> Asked {
        Asked { ood_score, ..self.0.clone() }
    }
}

impl Held {
    /// Fits rules to rows, and returns them as JSON.
    pub fn fit_to_rows(&mut self, rows: &Lent, truths: &[f64], wanted: &Wanted) -> Result<String, LabError> {
        let Taken { inputs, cells, .. } = rows.taken(self.predictor.trained())?;
        let inputs = inputs.as_ref();
        let width = (inputs.len() / truths.len().max(1)).max(1);
        if self.predictor.trained().classes.is_empty() {
            let said = self.predictor.regress(inputs, Effort::default())?;
            let trained = self.predictor.trained();
            let said: Vec<NumberEvidence> = said.iter().map(|one| one.evidence(trained.table.as_ref())).collect();
            let named = named(trained, inputs, cells, width)?;
            let found = numbers(&said, truths, &named, &wanted.with(Score::Epistemic), origin(trained)?)?;
            let trust = Trust::of_numbers(&found, about(trained)?, &said, truths)?;
            return self.keep(found, trust, &|mistake| {
                show_row(mistake, &named);
                Ok(())
            });
        }
        let said = self.predictor.classify_rows(inputs, Effort::default())?;
        let trained = self.predictor.trained();
        let view = trained.table.as_ref();
        let said: Vec<ClassEvidence> =
            said.iter().zip(inputs.chunks(width)).map(|(one, row)| one.evidence_of_row(row, view)).collect();
        let labels: Vec<usize> = truths.iter().map(|&label| label as usize).collect();
        let named = named(trained, inputs, cells, width)?;
        let found = classes(&said, &labels, &named, &wanted.with(Score::Total), origin(trained)?)?;
        let trust = Trust::of_classes(&found, about(trained)?, &said, &labels)?;
        self.keep(found, trust, &|mistake| {
            show_row(mistake, &named);
            Ok(())
        })
    }

    /// Fits rules to pictures in the model's size, and returns them as JSON. `[N, C, S, S]`
    pub fn fit_to_pictures(&mut self, pixels: &Tensor, labels: &[usize], wanted: &Wanted) -> Result<String, LabError> {
        let said = self.predictor.classify(pixels, 0, Effort::default())?;
        let said: Vec<ClassEvidence> = said.iter().map(ClassPrediction::evidence).collect();
        let trained = self.predictor.trained();
        let named = Named { classes: trained.classes.clone(), ..Named::default() };
        let found = classes(&said, labels, &named, &wanted.with(Score::Total), origin(trained)?)?;
        let trust = Trust::of_classes(&found, about(trained)?, &said, labels)?;
        self.keep(found, trust, &|mistake| show_picture(mistake, pixels))
    }

    /// The rules, told as JSON without the examples they rest on, are used from now on.
    fn keep(
        &mut self,
        found: Calibration,
        mut trust: Trust,
        show: &dyn Fn(&mut Mistake) -> Result<(), LabError>,
    ) -> Result<String, LabError> {
        trust.mistakes.iter_mut().try_for_each(show)?;
        let unwritable = |error: serde_json::Error| LabError::config("calibration", error.to_string());
        let mut document = serde_json::to_value(&found).map_err(unwritable)?;
        if let Some(fields) = document.as_object_mut() {
            fields.remove("reference");
        }
        self.judge = Some(Judge::new(&found)?);
        self.calibration = Some(found);
        self.fresh = Some(Fresh { trust });
        Ok(document.to_string())
    }

    /// Writes a model folder. Rules that were fitted here come in the place of those of the folder, with what was seen then.
    pub fn save(&self, folder: &Path, out: &Path, overwrite: bool) -> Result<(), LabError> {
        refuse_to_mix(out, overwrite)?;
        model_folder::export(folder, self.predictor.trained(), Dtype::F32, out)?;
        let (Some(rules), Some(fresh)) = (&self.calibration, &self.fresh) else { return Ok(()) };
        let old = out.join(TRUST_FILE); // what was seen of other rules
        match std::fs::remove_file(&old) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(LabError::file(&old, &error)),
            _ => rules.write(out)?,
        }
        Ok(fresh.trust.write(out)?)
    }
}

/// Classes and columns, as `fidgp calibrate` names them.
fn named(
    trained: &Trained,
    inputs: &[f64],
    cells: Option<(Vec<String>, Vec<Value>)>,
    width: usize,
) -> Result<Named, LabError> {
    let (features, columns) = if let Some(view) = &trained.table {
        view.kept_columns(&match cells {
            Some((names, cells)) => GivenRows { names, cells, ..GivenRows::default() },
            None => GivenRows::of_numbers(inputs.to_vec(), view.columns.names()),
        })
    } else {
        let features = trained.feature_names()?.into_iter().map(|name| Feature { name, levels: Vec::new() });
        let column = |column| inputs.iter().skip(column).step_by(width).copied().collect();
        (features.collect(), (0..width).map(column).collect())
    };
    let logarithm = trained.table.as_ref().is_some_and(|view| view.scale.target_log);
    Ok(Named { classes: trained.classes.clone(), features, columns, logarithm })
}

fn origin(trained: &Trained) -> Result<Origin, LabError> {
    let model_sha256 = trained.predicting().digest()?;
    Ok(Origin { source: "arrays".to_owned(), model_sha256, draws: trained.config.predict.draws })
}

fn about(trained: &Trained) -> Result<About, LabError> {
    let config = &trained.config;
    Ok(About {
        name: config.name.clone(),
        method: config.method.name().to_owned(),
        data: config.data.name(),
        weights_sha256: checkpoint::sha256_of(&trained.model.store)?,
    })
}

/// Says which row it was, and what stood there.
fn show_row(mistake: &mut Mistake, named: &Named) {
    let value = |(feature, column): (&Feature, &Vec<f64>)| {
        let value = column[mistake.example];
        let text = feature.levels.get(value as usize).cloned().unwrap_or_else(|| number(value));
        format!("{} = {text}", feature.name)
    };
    let values: Vec<_> = named.features.iter().zip(&named.columns).map(value).collect();
    mistake.input = format!("row {}: {}", mistake.example + 1, values.join(", "));
}

/// Keeps the picture, small. `[N, C, S, S]`
fn show_picture(mistake: &mut Mistake, pixels: &Tensor) -> Result<(), LabError> {
    mistake.input = format!("picture {}", mistake.example + 1);
    let one = pixels.get(mistake.example as i64);
    let size = one.size();
    let rgb = one.expand([3, size[1], size[2]], true).permute([1, 2, 0]).contiguous().view([-1]);
    let picture = Picture::from_rgb(size[2] as u32, size[1] as u32, Vec::try_from(rgb)?);
    let Some(picture) = picture else { return Ok(()) };
    let small = if size[1] as u32 > SIDE { picture.resize_shorter(SIDE)? } else { picture };
    mistake.picture = Some(base64(&small.to_png()?));
    Ok(())
}

/// As `fidgp export` refuses it.
fn refuse_to_mix(out: &Path, overwrite: bool) -> Result<(), LabError> {
    let name = || out.display().to_string();
    if out.join(CONFIG_FILE).exists() {
        return Err(LabError::config(name(), "holds a run, whose files a model would mix with; choose another folder"));
    }
    match model_folder::FILES.iter().find(|file| out.join(file).exists() && !overwrite) {
        Some(file) => {
            let why = format!("holds a {file} already; choose another folder, or pass overwrite=True");
            Err(LabError::config(name(), why))
        }
        None => Ok(()),
    }
}
