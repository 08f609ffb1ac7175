//! A trained model.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fidgp::predict::{Effort, WeightDraws};
use fidgp_data::Picture;
use fidgp_decision::calibration::Feature;
use fidgp_decision::decide::Judge;
use fidgp_decision::fit::{Named, Origin, classes, numbers};
use fidgp_decision::{Asked, Calibration, ClassEvidence, NumberEvidence, Score};
use fidgp_lab::files::CONFIG_FILE;
use fidgp_lab::model_folder::{self, Dtype};
use fidgp_lab::predict::{ClassPrediction, NumberPrediction, Predictor, Trained};
use fidgp_lab::run_folder::calibration;
use fidgp_lab::source::View;
use fidgp_lab::{LabError, device};
use numpy::{
    IntoPyArray, PyArray3, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3, PyReadonlyArray4,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tch::Tensor;

use crate::errors::of_lab;
use crate::said::{SaidOfClasses, SaidOfNumbers};

/// A trained model that predicts. Many threads may ask it; one is answered at a time.
#[pyclass(frozen, module = "fidgp._fidgp")]
pub struct Engine {
    held: Mutex<Held>,
    folder: PathBuf,
    view: Option<View>,
    /// `classes`, `numbers` or `pixels`.
    #[pyo3(get)]
    kind: &'static str,
    #[pyo3(get)]
    classes: Vec<String>,
    #[pyo3(get)]
    features: Vec<String>,
    #[pyo3(get)]
    target: Option<String>,
    #[pyo3(get)]
    method: String,
    #[pyo3(get)]
    network: String,
    #[pyo3(get)]
    draws: u64,
}

struct Held {
    predictor: Predictor,
    calibration: Option<Calibration>,
    judge: Option<Judge>,
}

#[pymethods]
impl Engine {
    /// Opens a run folder or a model folder.
    #[new]
    fn new(py: Python, folder: PathBuf, device: &str) -> PyResult<Self> {
        py.detach(|| Self::open(folder, device)).map_err(|error| of_lab(&error))
    }

    /// Channels and side of its pictures; none where it takes rows.
    #[getter]
    fn image(&self) -> Option<(usize, u32)> {
        self.view.map(|view| (view.channels, view.crop))
    }

    /// Whether it has rules for decisions.
    #[getter]
    fn calibrated(&self, py: Python) -> bool {
        self.with(py, |held| held.judge.is_some())
    }

    /// Predicts rows, their features in the model's order. `[N, features]`
    fn rows<'py>(
        &self,
        py: Python<'py>,
        rows: PyReadonlyArray2<f64>,
        draws: Option<u64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (rows, effort) = (rows.as_slice()?.to_vec(), effort(draws, None)?);
        let said = self.with(py, |held| {
            let said = held.predictor.regress(&rows, effort)?;
            Ok(SaidOfNumbers::new(said, held.predictor.trained().table.as_ref(), held.judge.as_ref()))
        });
        said.map_err(|error| of_lab(&error))?.columns(py)
    }

    /// Classifies pictures in the model's size, of which so many batches of 64 stood before. `[N, C, S, S]`
    fn classify<'py>(
        &self,
        py: Python<'py>,
        pixels: PyReadonlyArray4<u8>,
        first_batch: u64,
        asked: (Option<u64>, Option<f64>),
    ) -> PyResult<Bound<'py, PyDict>> {
        let (pixels, effort) = (tensor(&pixels)?, effort(asked.0, asked.1)?);
        let said = self.with(py, move |held| {
            let said = held.predictor.classify(&pixels, first_batch, effort)?;
            Ok(SaidOfClasses::new(said, held.judge.as_ref()))
        });
        said.map_err(|error| of_lab(&error))?.columns(py)
    }

    /// A picture's file in the model's size. `[C, S, S]`
    fn picture<'py>(&self, py: Python<'py>, file: PathBuf) -> PyResult<Bound<'py, PyArray3<u8>>> {
        let seen = py.detach(|| self.sight()?.centre(&Picture::open(&file)?));
        self.shaped(py, seen)
    }

    /// A picture of any size in the model's. `[H, W, 3]` → `[C, S, S]`
    fn resized<'py>(&self, py: Python<'py>, rgb: PyReadonlyArray3<u8>) -> PyResult<Bound<'py, PyArray3<u8>>> {
        let &[height, width, _] = rgb.shape() else { return Err(PyValueError::new_err("a picture is [H, W, 3]")) };
        fidgp_files::limits::check_pixels(width as u32, height as u32, rgb.len())
            .map_err(|exceeded| PyValueError::new_err(exceeded.to_string()))?;
        let bytes = rgb.as_slice()?.to_vec();
        let seen = py.detach(|| {
            let picture = Picture::from_rgb(width as u32, height as u32, bytes);
            let picture = picture.ok_or_else(|| LabError::config("picture", "is not [H, W, 3] of bytes"))?;
            self.sight()?.centre(&picture)
        });
        self.shaped(py, seen)
    }

    /// Fits rules for decisions to rows that were not trained on.
    fn calibrate_rows(
        &self,
        py: Python,
        rows: PyReadonlyArray2<f64>,
        targets: PyReadonlyArray1<f64>,
        asked: &Bound<PyDict>,
    ) -> PyResult<String> {
        let asked = asked_of(asked, Score::Epistemic)?;
        let (rows, targets) = (rows.as_slice()?.to_vec(), targets.as_slice()?.to_vec());
        let found = self.with(py, |held| {
            let said = held.predictor.regress(&rows, Effort::default())?;
            let trained = held.predictor.trained();
            let said: Vec<NumberEvidence> =
                said.iter().map(|one: &NumberPrediction| one.evidence(trained.table.as_ref())).collect();
            let width = (rows.len() / targets.len().max(1)).max(1);
            let column = |column| rows.iter().skip(column).step_by(width).copied().collect();
            let features = self.features.iter().map(|name| Feature { name: name.clone(), levels: Vec::new() });
            let named =
                Named { features: features.collect(), columns: (0..width).map(column).collect(), ..Named::default() };
            let found = numbers(&said, &targets, &named, &asked, origin(trained)?)?;
            held.keep(found)
        });
        found.map_err(|error| of_lab(&error))
    }

    /// Fits rules for decisions to pictures that were not trained on.
    fn calibrate_pictures(
        &self,
        py: Python,
        pixels: PyReadonlyArray4<u8>,
        labels: Vec<usize>,
        asked: &Bound<PyDict>,
    ) -> PyResult<String> {
        let asked = asked_of(asked, Score::Total)?;
        let pixels = tensor(&pixels)?;
        let found = self.with(py, move |held| {
            let said = held.predictor.classify(&pixels, 0, Effort::default())?;
            let said: Vec<ClassEvidence> = said.iter().map(ClassPrediction::evidence).collect();
            let named = Named { classes: self.classes.clone(), ..Named::default() };
            let found = classes(&said, &labels, &named, &asked, origin(held.predictor.trained())?)?;
            held.keep(found)
        });
        found.map_err(|error| of_lab(&error))
    }

    /// Writes a model folder, with the rules there are.
    fn save(&self, py: Python, out: PathBuf, overwrite: bool) -> PyResult<()> {
        self.with(py, |held| {
            refuse_to_mix(&out, overwrite)?;
            model_folder::export(&self.folder, held.predictor.trained(), Dtype::F32, &out)?;
            held.calibration.as_ref().map_or(Ok(()), |rules| Ok(rules.write(&out)?))
        })
        .map_err(|error: LabError| of_lab(&error))
    }
}

impl Engine {
    fn open(folder: PathBuf, device: &str) -> Result<Self, LabError> {
        let trained = Trained::open(&folder, device::choose(device)?)?;
        let calibration = calibration::read(&folder, &trained.model)?;
        let judge = calibration.as_ref().map(Judge::new).transpose()?;
        let kind = match (trained.segments(), trained.view) {
            (true, _) => "pixels",
            (false, Some(_)) => "classes",
            (false, None) => "numbers",
        };
        let rows = kind == "numbers";
        let target = trained.table.as_ref().map_or("y", |table| &table.target).to_owned();
        Ok(Self {
            folder,
            view: trained.view,
            kind,
            classes: trained.classes.clone(),
            features: if rows { trained.feature_names()? } else { Vec::new() },
            target: rows.then_some(target),
            method: trained.config.method.name().to_owned(),
            network: trained.config.network.name(),
            draws: trained.config.predict.draws,
            held: Mutex::new(Held {
                predictor: Predictor::new(trained, None, WeightDraws::MEMORY)?,
                calibration,
                judge,
            }),
        })
    }

    /// Works on the model without the GIL; it is waited for without it, too. A panic spoils no state that a later call uses.
    fn with<T: Send>(&self, py: Python, work: impl FnOnce(&mut Held) -> T + Send) -> T {
        py.detach(|| work(&mut self.held.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    fn sight(&self) -> Result<View, LabError> {
        self.view.ok_or_else(|| LabError::config("model", "takes no pictures"))
    }

    fn shaped<'py>(&self, py: Python<'py>, seen: Result<Vec<u8>, LabError>) -> PyResult<Bound<'py, PyArray3<u8>>> {
        let view = self.sight().map_err(|error| of_lab(&error))?;
        let side = view.crop as usize;
        seen.map_err(|error| of_lab(&error))?.into_pyarray(py).reshape([view.channels, side, side])
    }
}

impl Held {
    /// The rules, told as JSON without the examples they rest on, are used from now on.
    fn keep(&mut self, found: Calibration) -> Result<String, LabError> {
        let unwritable = |error: serde_json::Error| LabError::config("calibration", error.to_string());
        let mut document = serde_json::to_value(&found).map_err(unwritable)?;
        if let Some(fields) = document.as_object_mut() {
            fields.remove("reference");
        }
        self.judge = Some(Judge::new(&found)?);
        self.calibration = Some(found);
        Ok(document.to_string())
    }
}

fn effort(draws: Option<u64>, tolerance: Option<f64>) -> PyResult<Effort> {
    if draws == Some(0) {
        return Err(PyValueError::new_err("draws = 0 must be at least 1; 8 is usual"));
    }
    fidgp_files::limits::SIZE
        .check(draws.unwrap_or(1))
        .map_err(|exceeded| PyValueError::new_err(format!("draws is too large: {exceeded}")))?;
    Ok(Effort { draws, tolerance })
}

fn tensor(pixels: &PyReadonlyArray4<u8>) -> PyResult<Tensor> {
    let shape: Vec<i64> = pixels.shape().iter().map(|&size| size as i64).collect();
    Ok(Tensor::from_slice(pixels.as_slice()?).view(&shape[..]))
}

fn origin(trained: &Trained) -> Result<Origin, LabError> {
    let model_sha256 = calibration::digest(&trained.model)?;
    Ok(Origin { source: "arrays".to_owned(), model_sha256, draws: trained.config.predict.draws })
}

/// What is to be promised, the usual where nothing is said.
fn asked_of(given: &Bound<PyDict>, usual: Score) -> PyResult<Asked> {
    let mut asked = Asked::usual(usual);
    for (key, value) in given {
        match key.extract::<String>()?.as_str() {
            "levels" => asked.levels = value.extract()?,
            "by_class" => asked.by_class = value.extract()?,
            "risk" => asked.risk = value.extract()?,
            "confidence" => asked.confidence = value.extract()?,
            "wrong_beyond" => asked.wrong_beyond = value.extract()?,
            "false_alarms" => asked.false_alarms = value.extract()?,
            "held_back" => asked.held_back = value.extract()?,
            "seed" => asked.seed = value.extract()?,
            other => return Err(PyValueError::new_err(format!("`{other}` is no setting of a calibration"))),
        }
    }
    Ok(asked)
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
