//! Pictures, and rows of tables, to classes.

use fidgp::linalg::check_finite;
use fidgp::predict::{Batch, Effort};
use serde::Serialize;
use tch::Tensor;

use super::Predictor;
use super::predictor::{numbers, other_inputs};
use crate::error::{LabError, Result};
use crate::evaluate::NOT_FINITE;

/// Pictures that go through the network at once.
pub(super) const BATCH: usize = 64;

/// What the model says about one picture or row.
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
    /// Classifies rows of a table, row-major, as the network takes them before they are standardised.
    ///
    /// # Errors
    /// When the model takes no rows or gives no classes, or there are no whole rows of finite numbers.
    pub fn classify_rows(&mut self, rows: &[f64], effort: Effort) -> Result<Vec<ClassPrediction>> {
        self.classify_named("rows", (rows, 0), effort)
    }

    /// The same, errors naming where the rows are from; so many batches stood before them.
    pub(super) fn classify_named(
        &mut self,
        name: &str,
        (rows, first_batch): (&[f64], u64),
        effort: Effort,
    ) -> Result<Vec<ClassPrediction>> {
        if self.trained.table.is_none() || self.trained.classes.is_empty() {
            let why =
                if self.trained.table.is_none() { "takes pictures, not tables" } else { "gives numbers, not classes" };
            return Err(LabError::config("MODEL", why));
        }
        let mut all = Vec::new();
        for (number, inputs) in (first_batch..).zip(self.trained.inputs_of_rows(name, rows)?) {
            all.extend(self.classify_inputs(&inputs, number, effort)?);
        }
        Ok(all)
    }

    /// Classifies pictures, in order and 64 at a time; of a set that comes in parts, `first_batch` is how many such batches
    /// stood before.
    ///
    /// # Shapes
    /// `[N, C, H, W]`, 0 … 255, in the size that the model takes
    ///
    /// # Errors
    /// When the pictures are of another size, the model takes none, or the effort is impossible.
    pub fn classify(&mut self, pixels: &Tensor, first_batch: u64, effort: Effort) -> Result<Vec<ClassPrediction>> {
        let Some(view) = self.trained.view else {
            return Err(LabError::config("MODEL", "takes tables: give it a .csv file, not pictures"));
        };
        let (channels, side) = (view.channels as i64, i64::from(view.crop));
        if pixels.dim() != 4 || pixels.size()[1..] != [channels, side, side] {
            return Err(other_inputs(pixels, &format!("pictures of [N, {channels}, {side}, {side}]")));
        }
        let mut all = Vec::new();
        for (number, batch) in (first_batch..).zip(pixels.split(BATCH as i64, 0)) {
            all.extend(self.classify_batch(&batch, number, effort)?);
        }
        Ok(all)
    }

    fn classify_batch(&mut self, pixels: &Tensor, number: u64, effort: Effort) -> Result<Vec<ClassPrediction>> {
        self.classify_inputs(&self.trained.normalised(pixels)?, number, effort)
    }

    /// Classifies a batch as the network takes it.
    pub(crate) fn classify_inputs(
        &mut self,
        inputs: &Tensor,
        number: u64,
        effort: Effort,
    ) -> Result<Vec<ClassPrediction>> {
        let density = self.log_density(inputs)?;
        let network = self.trained.model.network.as_ref();
        let members = network.members();
        let tolerance = effort.tolerance.filter(|_| members == 1); // an ensemble is asked whole
        let effort = Effort { tolerance, ..effort };
        let (classified, spent) = self.law.classify(network, Batch { inputs, number }, effort)?;
        check_finite("probabilities", &classified.probs, NOT_FINITE)?;
        let [total, aleatoric, epistemic] =
            [&classified.total, &classified.aleatoric, &classified.epistemic].map(numbers);
        let (total, aleatoric, epistemic, probabilities) =
            (total?, aleatoric?, epistemic?, numbers(&classified.probs)?);
        let error = tolerance.map(|_| spent.error).filter(|error| error.is_finite());
        let rows = probabilities.chunks_exact(classified.probs.size()[1] as usize).enumerate();
        let row = |(i, probabilities): (usize, &[f64])| ClassPrediction {
            probabilities: probabilities.to_vec(),
            total: total[i],
            aleatoric: aleatoric[i],
            epistemic: epistemic[i],
            draws: spent.draws.max(members as u64),
            error,
            log_density: density.as_ref().map(|density| density[i]),
        };
        Ok(rows.map(row).collect())
    }
}
