//! A class for every pixel of a picture, as arrays for NumPy.

use fidgp::predict::{Effort, Segmented};
use fidgp_data::Picture;
use fidgp_lab::LabError;
use fidgp_lab::predict::Predictor;
use numpy::{IntoPyArray, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tch::{Kind, Tensor};

/// Of one picture.
pub struct SaidOfPixels {
    /// Height and width.
    size: [usize; 2],
    draws: u64,
    shares: Vec<f64>,
    label: Vec<i64>,
    /// Of every pixel: probability of its class, and three uncertainties.
    maps: Vec<(&'static str, Vec<f32>)>,
    /// Means over the pixels.
    means: Vec<(&'static str, f64)>,
}

impl SaidOfPixels {
    /// Asks a model that segments.
    ///
    /// # Errors
    /// When it does not, or the picture does not fit it.
    pub fn of(predictor: &mut Predictor, picture: &Picture, effort: Effort) -> Result<Self, LabError> {
        let [width, height] = picture.size();
        let batch = Tensor::from_slice(&picture.planar()).view([1, 3, i64::from(height), i64::from(width)]);
        let said = predictor.segment(&batch, effort)?;
        Self::summed(&said, [height as usize, width as usize], predictor.draws(effort))
    }

    fn summed(said: &Segmented, size: [usize; 2], draws: u64) -> Result<Self, LabError> {
        let probs = said.probs.get(0); // [classes, H, W]
        let (best, label) = probs.max_dim(0, false);
        let label = label.reshape([-1]);
        let shares = label.bincount(None::<&Tensor>, probs.size()[0]).to_kind(Kind::Double) / label.numel() as f64;
        let of = [("total", &said.total), ("aleatoric", &said.aleatoric), ("epistemic", &said.epistemic)];
        let mean = |map: &Tensor| map.get(0).mean(Kind::Double).double_value(&[]);
        let means = of.map(|(name, map)| (name, mean(map))).to_vec();
        let named = [("probability_map", best)].into_iter().chain([
            ("total_map", said.total.get(0)),
            ("aleatoric_map", said.aleatoric.get(0)),
            ("epistemic_map", said.epistemic.get(0)),
        ]);
        let maps = named.map(|(name, map)| Ok((name, floats(&map)?))).collect::<Result<_, LabError>>()?;
        let (shares, label) =
            (Vec::<f64>::try_from(shares).map_err(torch)?, Vec::<i64>::try_from(label).map_err(torch)?);
        Ok(Self { size, draws, shares, label, maps, means })
    }

    pub fn columns<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        columns.set_item("label_map", self.label.into_pyarray(py).reshape(self.size)?)?;
        for (name, map) in self.maps {
            columns.set_item(name, map.into_pyarray(py).reshape(self.size)?)?;
        }
        for (name, mean) in self.means {
            columns.set_item(name, mean)?;
        }
        columns.set_item("shares", self.shares.into_pyarray(py))?;
        columns.set_item("draws", self.draws)?;
        Ok(columns)
    }
}

fn floats(map: &Tensor) -> Result<Vec<f32>, LabError> {
    Vec::<f32>::try_from(map.to_kind(Kind::Float).reshape([-1])).map_err(torch)
}

fn torch(error: tch::TchError) -> LabError {
    LabError::from(error)
}
