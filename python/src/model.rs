//! A trained model.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use fidgp::predict::{Effort, WeightDraws};
use fidgp_data::{ColumnEncoding, Picture};
use fidgp_decision::Calibration;
use fidgp_decision::decide::Judge;
use fidgp_lab::ood::score_pictures;
use fidgp_lab::predict::{Predictor, Trained};
use fidgp_lab::source::View;
use fidgp_lab::{LabError, device};
use numpy::{IntoPyArray, PyArray3, PyArrayMethods, PyReadonlyArray3, PyReadonlyArray4, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tch::Tensor;

use crate::errors::of_lab;
use crate::pixels::SaidOfPixels;
use crate::rows::{self, Rows};
use crate::rules::Fresh;
use crate::said::SaidOfClasses;

/// A column of a table: its name, what it holds, and its texts.
type Column = (String, &'static str, Vec<String>);

/// A trained model that predicts. Many threads may ask it; one is answered at a time.
#[pyclass(frozen, module = "fidgp._fidgp")]
pub struct Engine {
    held: Mutex<Held>,
    pub(crate) folder: PathBuf,
    view: Option<View>,
    /// `classes`, `numbers` or `pixels`.
    #[pyo3(get)]
    kind: &'static str,
    #[pyo3(get)]
    pub(crate) classes: Vec<String>,
    /// The columns of its tables; none for pictures.
    #[pyo3(get)]
    features: Vec<String>,
    /// What these hold, where they are not numbers alone.
    #[pyo3(get)]
    columns: Vec<Column>,
    #[pyo3(get)]
    target: Option<String>,
    #[pyo3(get)]
    method: String,
    #[pyo3(get)]
    network: String,
    #[pyo3(get)]
    draws: u64,
}

/// What a prediction needs, and the rules.
pub struct Held {
    pub predictor: Predictor,
    pub calibration: Option<Calibration>,
    pub judge: Option<Judge>,
    /// The rules that were fitted here, which are not in the folder.
    pub fresh: Option<Fresh>,
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

    /// Predicts rows of a table, their columns in the model's order.
    fn rows<'py>(&self, py: Python<'py>, rows: Rows, draws: Option<u64>) -> PyResult<Bound<'py, PyDict>> {
        let (rows, effort) = (rows.lent()?, effort(draws, None)?);
        let said = self.with(py, |held| rows::said(held, &rows, effort));
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
            Ok(SaidOfClasses::of_pictures(said, held.judge.as_ref()))
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
        let picture = picture(&rgb)?;
        let seen = py.detach(|| self.sight()?.centre(&picture));
        self.shaped(py, seen)
    }

    /// Segments a picture's file.
    fn segment_file<'py>(&self, py: Python<'py>, file: PathBuf, draws: Option<u64>) -> PyResult<Bound<'py, PyDict>> {
        let (picture, effort) = (py.detach(|| Picture::open(&file)), effort(draws, None)?);
        let picture = picture.map_err(|error| of_lab(&LabError::from(error)))?;
        self.segmented(py, &picture, effort)
    }

    /// Segments a picture of any size. `[H, W, 3]`
    fn segment<'py>(
        &self,
        py: Python<'py>,
        rgb: PyReadonlyArray3<u8>,
        draws: Option<u64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (picture, effort) = (picture(&rgb)?, effort(draws, None)?);
        self.segmented(py, &picture, effort)
    }

    /// All scores of `fidgp ood`, for pictures in the model's size, by what it kept of the training images. `[N, C, S, S]`
    fn ood_scores<'py>(&self, py: Python<'py>, pixels: PyReadonlyArray4<u8>) -> PyResult<Bound<'py, PyDict>> {
        let pixels = tensor(&pixels)?;
        let scored = self.with(py, move |held| score_pictures(held.predictor.trained(), &self.folder, &pixels));
        let columns = PyDict::new(py);
        for (name, values) in scored.map_err(|error| of_lab(&error))? {
            columns.set_item(name, values.into_pyarray(py))?;
        }
        Ok(columns)
    }

    /// Fits rules for decisions to rows that were not trained on. Classes are places among the model's.
    fn calibrate_rows(&self, py: Python, rows: Rows, truths: Vec<f64>, asked: &Bound<PyDict>) -> PyResult<String> {
        let (rows, asked) = (rows.lent()?, crate::rules::Wanted::new(asked)?);
        self.with(py, |held| held.fit_to_rows(&rows, &truths, &asked)).map_err(|error| of_lab(&error))
    }

    /// Fits rules for decisions to pictures that were not trained on.
    fn calibrate_pictures(
        &self,
        py: Python,
        pixels: PyReadonlyArray4<u8>,
        labels: Vec<usize>,
        asked: &Bound<PyDict>,
    ) -> PyResult<String> {
        let (pixels, asked) = (tensor(&pixels)?, crate::rules::Wanted::new(asked)?);
        self.with(py, move |held| held.fit_to_pictures(&pixels, &labels, &asked)).map_err(|error| of_lab(&error))
    }

    /// Writes a model folder, with the rules there are.
    fn save(&self, py: Python, out: PathBuf, overwrite: bool) -> PyResult<()> {
        self.with(py, |held| held.save(&self.folder, &out, overwrite)).map_err(|error| of_lab(&error))
    }
}

impl Engine {
    fn open(folder: PathBuf, device: &str) -> Result<Self, LabError> {
        let trained = Trained::open(&folder, device::choose(device)?)?;
        let calibration = trained.rules(&folder)?;
        let judge = calibration.as_ref().map(Judge::new).transpose()?;
        let kind = match (trained.segments(), trained.classes.is_empty()) {
            (true, _) => "pixels",
            (false, false) => "classes",
            (false, true) => "numbers",
        };
        let takes_rows = kind != "pixels" && trained.view.is_none();
        let target = trained.table.as_ref().map_or("y", |table| &table.target).to_owned();
        let columns = columns(&trained);
        let names = columns.iter().map(|(name, ..)| name.clone()).collect();
        Ok(Self {
            folder,
            view: trained.view,
            kind,
            classes: trained.classes.clone(),
            features: match (takes_rows, columns.is_empty()) {
                (true, true) => trained.feature_names()?,
                (true, false) => names,
                (false, _) => Vec::new(),
            },
            columns,
            target: takes_rows.then_some(target),
            method: trained.config.method.name().to_owned(),
            network: trained.config.network.name(),
            draws: trained.config.predict.draws,
            held: Mutex::new(Held {
                predictor: Predictor::new(trained, None, WeightDraws::MEMORY)?,
                calibration,
                judge,
                fresh: None,
            }),
        })
    }

    fn segmented<'py>(&self, py: Python<'py>, picture: &Picture, effort: Effort) -> PyResult<Bound<'py, PyDict>> {
        let said = self.with(py, |held| SaidOfPixels::of(&mut held.predictor, picture, effort));
        said.map_err(|error| of_lab(&error))?.columns(py)
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

/// What the columns of a table hold where they are not numbers alone.
fn columns(trained: &Trained) -> Vec<Column> {
    let Some(view) = trained.table.as_ref().filter(|view| !view.columns.is_plain()) else { return Vec::new() };
    let column = |column: &ColumnEncoding| {
        let holds = match column {
            ColumnEncoding::Number { .. } => "number",
            ColumnEncoding::Boolean { .. } => "yes or no",
            ColumnEncoding::Date { .. } => "date",
            ColumnEncoding::Text { .. } => "text",
        };
        (column.name().to_owned(), holds, column.levels().to_vec())
    };
    view.columns.columns().iter().map(column).collect()
}

/// A picture of `[H, W, 3]` bytes.
fn picture(rgb: &PyReadonlyArray3<u8>) -> PyResult<Picture> {
    let &[height, width, _] = rgb.shape() else { return Err(PyValueError::new_err("a picture is [H, W, 3]")) };
    fidgp_files::limits::check_pixels(width as u32, height as u32, rgb.len())
        .map_err(|exceeded| PyValueError::new_err(exceeded.to_string()))?;
    Picture::from_rgb(width as u32, height as u32, rgb.as_slice()?.to_vec())
        .ok_or_else(|| PyValueError::new_err("a picture is [H, W, 3] of bytes"))
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
