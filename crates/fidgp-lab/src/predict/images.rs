//! Pictures to classes.

use std::path::{Path, PathBuf};

use fidgp::layer::{Mode, Pass, Taps};
use fidgp::linalg::check_finite;
use fidgp::predict::classify_to;
use fidgp_data::Picture;
use fidgp_zoo::baseline::ddu::LOG_DENSITY;
use serde::Serialize;
use tch::{Device, Kind, Tensor};

use super::Predictor;
use crate::config::Method;
use crate::error::{LabError, Result};
use crate::evaluate::{NOT_FINITE, classify_members};
use crate::source::View;

/// Pictures that go through the network at once.
const BATCH: usize = 64;

/// What the model says about one picture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassPrediction {
    /// Mean probability of each class over the draws.
    pub probabilities: Vec<f64>,
    /// Entropy of the mean, nats.
    pub total: f64,
    /// Mean entropy of the draws, nats: what the data leaves open.
    pub aleatoric: f64,
    /// Their difference, nats: what the weights leave open.
    pub epistemic: f64,
    /// Weight draws it is the mean of.
    pub draws: u64,
    /// The largest Monte-Carlo error of a probability in its batch, where a bound was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// Logarithm of the density of its features among those of the training data, low where it is unlike them; for a
    /// model that knows it (DDU).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_density: Option<f64>,
}

/// A picture with what the model says, or why it cannot say anything.
pub type Predicted = (PathBuf, Result<ClassPrediction>);

impl ClassPrediction {
    /// The most probable classes, best first.
    pub fn top(&self, count: usize) -> Vec<(usize, f64)> {
        let mut all: Vec<_> = self.probabilities.iter().copied().enumerate().collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all.truncate(count);
        all
    }
}

impl Predictor {
    /// Classifies picture files with K draws, in order; with a tolerance, with as many as it needs but at most K (see
    /// [`classify_to`]). A file that cannot be read spoils its own place only.
    ///
    /// # Errors
    /// When the model takes no pictures, or a covariance cannot be factorised.
    pub fn classify(&self, files: &[PathBuf], draws: u64, tolerance: Option<f64>) -> Result<Vec<Predicted>> {
        let Some(view) = self.view else {
            return Err(LabError::config("MODEL", "takes tables: give it a .csv file, not pictures"));
        };
        let mut predicted = Vec::new();
        for (number, part) in files.chunks(BATCH).enumerate() {
            let (sound, bad): (Vec<_>, Vec<_>) =
                part.iter().map(|file| (file, see(file, view))).partition(|(_, seen)| seen.is_ok());
            let (names, pixels): (Vec<_>, Vec<_>) =
                sound.into_iter().filter_map(|(file, seen)| Some((file, seen.ok()?))).unzip();
            let said = if pixels.is_empty() {
                Vec::new()
            } else {
                self.classify_pixels((&pixels, number as u64), view, draws, tolerance)?
            };
            let said = names.into_iter().cloned().zip(said.into_iter().map(Ok));
            let bad = bad.into_iter().filter_map(|(file, seen)| Some((file.clone(), Err(seen.err()?))));
            let mut done: Vec<Predicted> = said.chain(bad).collect();
            done.sort_by_key(|(file, _)| part.iter().position(|other| other == file));
            predicted.extend(done);
        }
        Ok(predicted)
    }

    fn classify_pixels(
        &self,
        (pixels, number): (&[Vec<u8>], u64),
        view: View,
        draws: u64,
        tolerance: Option<f64>,
    ) -> Result<Vec<ClassPrediction>> {
        let normalisation = self.model.normalisation.as_ref();
        let normalisation = normalisation.ok_or_else(|| LabError::config("MODEL", "has no normalisation"))?;
        let side = i64::from(view.crop);
        let batch = Tensor::from_slice(&pixels.concat()).view([-1, view.channels as i64, side, side]);
        let batch = normalisation.apply(&batch.to_device(self.model.store.device()).to_kind(Kind::Float));
        let density = self.log_density(&batch)?;
        let most = match (tolerance, self.model.norms.len() as u64) {
            (Some(_), known @ 1..) => draws.min(known), // a bound on the error takes what draws there are
            _ => draws,
        };
        let (mut draws, members) = (self.draws(most)?, self.model.network.members());
        draws.first_batch = number;
        let (classified, used, error) = match tolerance {
            Some(tolerance) if members == 1 => {
                let (classified, spent) = classify_to(&draws, &batch, tolerance)?;
                (classified, spent.draws, Some(spent.error).filter(|error| error.is_finite()))
            }
            _ => (classify_members(&draws, members, &[batch], None)?, draws.count.max(members as u64), None),
        };
        let rows = |tensor: &Tensor| -> Result<Vec<f64>> {
            Ok(Vec::try_from(tensor.to_kind(Kind::Double).to_device(Device::Cpu).reshape([-1]))?)
        };
        let (total, aleatoric, epistemic) =
            (rows(&classified.total)?, rows(&classified.aleatoric)?, rows(&classified.epistemic)?);
        check_finite("probabilities of the pictures", &classified.probs, NOT_FINITE)?;
        let probabilities = rows(&classified.probs)?;
        let rows = probabilities.chunks_exact(probabilities.len() / pixels.len()).enumerate();
        let row = |(i, probabilities): (usize, &[f64])| ClassPrediction {
            probabilities: probabilities.to_vec(),
            total: total[i],
            aleatoric: aleatoric[i],
            epistemic: epistemic[i],
            draws: used,
            error,
            log_density: density.as_ref().map(|density| density[i]),
        };
        Ok(rows.map(row).collect())
    }
}

impl Predictor {
    /// Density of the features of a normalised batch, one for each picture.
    fn log_density(&self, batch: &Tensor) -> Result<Option<Vec<f64>>> {
        if self.config.method != Method::Ddu {
            return Ok(None);
        }
        let mut pass = Pass::plain(Mode::Eval).with_taps(Taps::on(&[LOG_DENSITY]));
        let _ = tch::no_grad(|| self.model.network.forward(batch, &mut pass))?;
        let density = pass.taps.feature(LOG_DENSITY);
        Ok(density.map(|density| Vec::try_from(density.to_kind(Kind::Double).to_device(Device::Cpu))).transpose()?)
    }
}

fn see(file: &Path, view: View) -> Result<Vec<u8>> {
    view.centre(&Picture::open(file)?)
}
