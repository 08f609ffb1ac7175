//! What is said of a compression.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use super::Quality;
use super::candidates::{Candidates, LayerSize, Sizes};
use crate::config::RunConfig;
use crate::record::Hardware;

/// The version of the document.
pub(super) const SCHEMA: &str = "fidgp-compress/1";

/// A compressed network and what it is compared with, measured at the posterior mean and with draws before anything is trained.
#[derive(Clone, Debug, Serialize)]
pub struct CompressReport {
    /// `fidgp-compress/1`.
    pub schema: &'static str,
    /// Name of the config.
    pub name: String,
    /// The bound, as it was typed.
    pub budget: String,
    /// How many parameters it leaves.
    pub numbers: i64,
    /// Every layer that could be Bayesian.
    pub layers: Vec<LayerSize>,
    /// The trained network.
    pub trained: Point,
    /// What came of the budget.
    pub chosen: Point,
    /// The same network after a short training, where there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tuned: Option<Tuned>,
    /// The ways side by side, at equal numbers of parameters.
    pub curve: Vec<Point>,
    /// Test images everything is measured on.
    pub test_images: usize,
    /// Training images that the moments are of.
    pub moment_images: usize,
    /// The config of the compressed network.
    pub config: RunConfig,
    /// The commit of this program.
    pub commit: String,
    /// Where it ran.
    pub hardware: Hardware,
    /// The command that was given.
    pub command: Option<String>,
}

/// How sizes are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// The trained network.
    Plain,
    /// The same size everywhere, each weight's own singular vectors.
    OneSize,
    /// The same size everywhere, singular vectors in units of the loss.
    OneSizeWeighted,
    /// A size for each layer, singular vectors in units of the loss.
    ByLayer,
}

impl Way {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Plain => "trained network",
            Self::OneSize => "one size for all",
            Self::OneSizeWeighted => "one size, weighed by the loss",
            Self::ByLayer => "sizes by layer, weighed by the loss",
        }
    }
}

/// A network of some size, measured on the test images.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// How its sizes were chosen.
    pub way: Way,
    /// Trainable numbers.
    pub parameters: i64,
    /// Their share of the plain network's.
    pub share: f64,
    /// What the NLL was expected to rise by, to second order; none where singular vectors are the weights' own.
    pub expected_loss: Option<f64>,
    /// Fraction of images that are right.
    pub accuracy: f64,
    /// NLL.
    pub nll: f64,
    /// Expected calibration error, 15 bins.
    pub ece: f64,
    /// The same with draws of the weights; none for the trained network, and for one size for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drawn: Option<Drawn>,
}

/// What the mean of several draws of the weights gives.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Drawn {
    /// How many.
    pub draws: u64,
    /// Fraction of images that are right.
    pub accuracy: f64,
    /// NLL.
    pub nll: f64,
    /// Expected calibration error, 15 bins.
    pub ece: f64,
}

/// A compressed network that was trained for a while.
#[derive(Clone, Debug, Serialize)]
pub struct Tuned {
    /// Epochs of training.
    pub epochs: u64,
    /// What logits are divided by, fitted to validation images; none without such images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// What it gives on the test images.
    pub drawn: Drawn,
}

impl Point {
    pub(super) fn with(self, drawn: Drawn) -> Self {
        Self { drawn: Some(drawn), ..self }
    }

    pub(super) fn of(way: Way, sizes: &Sizes, candidates: &Candidates, quality: Quality) -> Self {
        let parameters = candidates.numbers(sizes);
        let Quality { accuracy, nll, ece } = quality;
        Self {
            way,
            parameters,
            share: parameters as f64 / candidates.plain_numbers() as f64,
            expected_loss: (way != Way::OneSize)
                .then(|| candidates.sizes(sizes).iter().map(|layer| layer.expected_loss).sum()),
            accuracy,
            nll,
            ece,
            drawn: None,
        }
    }
}

/// A line of the table: what it is, parameters and their share, accuracy, NLL, ECE.
fn line(f: &mut fmt::Formatter<'_>, what: &str, (parameters, share): (i64, f64), scores: [f64; 3]) -> fmt::Result {
    let [accuracy, nll, ece] = scores;
    let (share, accuracy, ece) = (100.0 * share, 100.0 * accuracy, 100.0 * ece);
    writeln!(f, "{what:<35}  {parameters:>10}  {share:>6.1} %  {accuracy:>10.2}  {nll:>6.4}  {ece:>9.2}")
}

impl Display for CompressReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let width = self.layers.iter().map(|layer| layer.name.chars().count()).max().unwrap_or(0).max(5);
        writeln!(
            f,
            "{:<width$}  {:>9}  {:>5}  {:>10}  {:>8}  {:>12}",
            "layer", "weight", "size", "parameters", "of plain", "expected NLL"
        )?;
        for layer in &self.layers {
            let [d_out, d_in] = layer.weight;
            let size = layer.size.map_or_else(|| "plain".to_owned(), |size| size.to_string());
            let share = 100.0 * layer.parameters as f64 / layer.plain_parameters as f64;
            let weight = format!("{d_out}x{d_in}");
            writeln!(
                f,
                "{:<width$}  {weight:>9}  {size:>5}  {:>10}  {share:>6.1} %  {:>+12.4}",
                layer.name, layer.parameters, layer.expected_loss
            )?;
        }
        writeln!(
            f,
            "\n{:<35}  {:>10}  {:>8}  {:>10}  {:>6}  {:>9}",
            format!("{} test images, mean weights", self.test_images),
            "parameters",
            "of plain",
            "accuracy %",
            "NLL",
            "ECE(15) %"
        )?;
        for point in [&self.trained, &self.chosen].into_iter().chain(&self.curve) {
            let size = (point.parameters, point.share);
            line(f, point.way.words(), size, [point.accuracy, point.nll, point.ece])?;
            if let Some(drawn) = &point.drawn {
                let what = format!("… mean of {} weight draws", drawn.draws);
                line(f, &what, size, [drawn.accuracy, drawn.nll, drawn.ece])?;
            }
        }
        if let Some(Tuned { epochs, temperature, drawn }) = &self.tuned {
            let calibrated = if temperature.is_some() { ", calibrated" } else { "" };
            writeln!(f, "\nafter {epochs} epochs of training{calibrated}, mean of {} weight draws", drawn.draws)?;
            let size = (self.chosen.parameters, self.chosen.share);
            line(f, self.chosen.way.words(), size, [drawn.accuracy, drawn.nll, drawn.ece])?;
        }
        Ok(())
    }
}
