//! A trained network made small: inducing sizes layer by layer for a budget, beside one size for all.

mod budget;
mod candidates;
mod figure;
mod report;

pub use budget::Budget;
pub use candidates::LayerSize;
pub use figure::FIGURE;
pub use report::{CompressReport, Drawn, Point, Tuned, Way};

use std::collections::HashMap;

use fidgp::Key;
use fidgp::linearised::root;
use fidgp::predict::Draws;
use fidgp_metrics::names;
use fidgp_zoo::compress::Moments;
use tch::{Kind, Tensor};

use super::start;
use super::task::{Set, Sets, SplitRole};
use super::wrap::keep;
use crate::config::RunConfig;
use crate::error::{LabError, Result};
use crate::evaluate;
use crate::model::{Model, OwnPart, Signature};
use crate::record::commit;
use crate::run_folder::{RunContext, refuse_to_mix};
use crate::source::batches;
use candidates::{Candidates, Sizes};

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The bound.
    pub budget: Budget,
    /// Shares of the plain parameters at which both ways are set side by side.
    pub curve: Vec<f64>,
    /// Training images for the moments of inputs and gradients.
    pub images: usize,
}

/// Images in a batch whose patches are held at once.
const BATCH: usize = 32;
/// Halvings of the range of parameters in search of an accuracy.
const HALVINGS: usize = 7;

/// Chooses inducing sizes for the network whose weights a config names, wraps it and measures it; with `save`, leaves a run
/// folder that `fidgp train --resume` trains. `say` hears about the progress.
///
/// # Errors
/// When the config names no weights or no Bayesian layers, weights and data do not fit it, or the budget cannot be met.
pub fn compress(
    config: &RunConfig,
    asked: &Asked,
    context: &RunContext,
    save: bool,
    say: &mut dyn FnMut(&str),
) -> Result<CompressReport> {
    config.check()?;
    let file =
        config.start.as_ref().ok_or_else(|| LabError::config("start.weights", "is missing; pass --weights FILE"))?;
    if !config.method.about().is_inducing {
        let why = format!("= \"{}\" has no inducing sizes; try --set method=fidgp", config.method.name());
        return Err(LabError::config("method", why));
    }
    asked.budget.check(config)?;
    if save {
        refuse_to_mix(config, context)?;
    }
    let sets = Sets::read(config, &context.data_root)?;
    let config = &sets.train.filled_in(config)?;
    let signature = sets.train.signature(config)?;
    let (plain, _) = start::plain(config, &signature, &file.weights, context.device)?;
    say(&format!("watching {} training images pass through the trained network", asked.images));
    let moments = moments(&plain, &sets.train, config, asked.images)?;
    let candidates = Candidates::of(config, &plain, &moments)?;
    let press = Press { config, signature, plain: &plain, candidates: &candidates, sets: &sets, context };
    let (budget, sizes) = press.choose(&asked.budget, say)?;
    say(&format!("measuring on {} test images", sets.test.rows()));
    let trained = Point::of(Way::Plain, &candidates.dense(), &candidates, press.measure(&plain, &sets.test)?);
    let (chosen_config, chosen) = press.model(&sizes, Way::ByLayer)?;
    let point = Point::of(Way::ByLayer, &sizes, &candidates, press.measure(&chosen, &sets.test)?);
    let point = point.with(press.drawn(&chosen, &sets.test)?);
    let curve = press.curve(&asked.curve, say)?;
    if save {
        keep(&chosen_config, context, &chosen, Some(&sets.train), &sets.test)?;
    }
    Ok(CompressReport {
        schema: report::SCHEMA,
        name: config.name.clone(),
        budget: asked.budget.to_string(),
        numbers: budget,
        layers: candidates.sizes(&sizes),
        trained,
        chosen: point,
        tuned: None,
        curve,
        test_images: sets.test.rows(),
        moment_images: asked.images.min(sets.train.rows()),
        config: chosen_config,
        commit: commit(),
        hardware: crate::device::hardware(context.device),
        command: context.command.clone(),
    })
}

/// Second moments of inputs and of gradients, the targets drawn from the network's own predictions.
fn moments(
    plain: &Model,
    train: &Set,
    config: &RunConfig,
    count: usize,
) -> Result<std::collections::BTreeMap<String, fidgp_zoo::compress::Sides>> {
    let source = train.source(config, plain, SplitRole::Measuring, plain.store.device())?;
    let mut moments = Moments::default();
    let key = Key::new(config.seed).fold("compress");
    for (number, batch) in batches(source.as_ref(), plain.store.device(), count, BATCH).enumerate() {
        let signal = |outputs: &Tensor| {
            let root = root(&plain.likelihood.curvature(outputs)); // [N, K, K], Λ^½
            let normal = key.at(number as u64).normal(&outputs.size(), Kind::Double, outputs.device());
            Ok(root.f_matmul(&normal.f_unsqueeze(-1)?)?.f_squeeze_dim(-1)?.f_to_kind(outputs.kind())?)
        };
        moments.add(plain.network.as_ref(), &batch?, &signal)?;
    }
    Ok(moments.finish())
}

/// Accuracy, NLL and ECE.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quality {
    pub accuracy: f64,
    pub nll: f64,
    pub ece: f64,
}

/// What makes networks of sizes.
struct Press<'a> {
    config: &'a RunConfig,
    signature: Signature,
    plain: &'a Model,
    candidates: &'a Candidates,
    sets: &'a Sets,
    context: &'a RunContext<'a>,
}

impl Press<'_> {
    /// The sizes that a budget asks for, and the numbers it leaves.
    fn choose(&self, budget: &Budget, say: &mut dyn FnMut(&str)) -> Result<(i64, Sizes)> {
        let whole = self.candidates.plain_numbers();
        let most = match budget {
            Budget::Parameters(share) => (whole as f64 * share) as i64,
            Budget::Bytes(bytes) => bytes / 4,
            Budget::AccuracyLoss(points) => return self.search(*points, say),
        };
        Ok((most, self.candidates.by_layer(most)?))
    }

    /// The smallest network whose validation accuracy is within so many points of the trained one's.
    fn search(&self, points: f64, say: &mut dyn FnMut(&str)) -> Result<(i64, Sizes)> {
        let missing = || {
            LabError::config("data.validation_fraction", "is missing: accuracy-loss is measured on validation images")
        };
        let validation = self.sets.validation.as_ref().ok_or_else(missing)?;
        let wanted = self.measure(self.plain, validation)?.accuracy - points / 100.0;
        let (mut below, mut enough) = (self.candidates.least_numbers() - 1, self.candidates.plain_numbers());
        for _ in 0..HALVINGS {
            let middle = i64::midpoint(below, enough);
            let (_, model) =
                self.model(&self.candidates.by_layer(middle.max(self.candidates.least_numbers()))?, Way::ByLayer)?;
            let accuracy = self.measure(&model, validation)?.accuracy;
            say(&format!("{middle} parameters: {:.2} % of the validation images", 100.0 * accuracy));
            if accuracy >= wanted { enough = middle } else { below = middle }
        }
        let enough = enough.max(self.candidates.least_numbers());
        Ok((enough, self.candidates.by_layer(enough)?))
    }

    /// Both ways at shares of the plain parameters; sizes by layer have what one size has.
    fn curve(&self, shares: &[f64], say: &mut dyn FnMut(&str)) -> Result<Vec<Point>> {
        let mut points = Vec::new();
        for share in shares {
            let most = (self.candidates.plain_numbers() as f64 * share) as i64;
            let Some(one) = self.candidates.one_size(most) else { continue };
            let same = self.candidates.numbers(&one);
            say(&format!("measuring networks of {same} parameters"));
            let own = self.candidates.by_layer(same)?;
            for (way, sizes) in [(Way::OneSize, &one), (Way::OneSizeWeighted, &one), (Way::ByLayer, &own)] {
                let (_, model) = self.model(sizes, way)?;
                let point = Point::of(way, sizes, self.candidates, self.measure(&model, &self.sets.test)?);
                let by_layer = way == Way::ByLayer;
                points.push(if by_layer { point.with(self.drawn(&model, &self.sets.test)?) } else { point });
            }
        }
        Ok(points)
    }

    /// The network of some sizes, started at the trained one, BatchNorm re-estimated.
    fn model(&self, sizes: &Sizes, way: Way) -> Result<(RunConfig, Model)> {
        let plan = self.config.inducing.as_ref().ok_or_else(|| LabError::config("inducing", "is missing"))?;
        let config = RunConfig { inducing: Some(plan.sized(&self.candidates.named(sizes))?), ..self.config.clone() };
        let model = Model::init(&config, &self.signature, self.context.device)?;
        let mut dense: HashMap<String, Tensor> = self.plain.store.variables();
        if way != Way::OneSize {
            self.candidates.put(sizes, &mut dense)?;
        }
        fidgp_zoo::start_network(model.network.as_ref(), &model.store, dense)?;
        let images = self.sets.train.source(&config, &model, SplitRole::Measuring, self.context.device)?;
        let count = config.start.as_ref().map_or(0, |start| start.statistics_images);
        start::reestimate(&config, &model, images.as_ref(), count)?;
        Ok((config, model))
    }

    /// At the posterior mean.
    fn measure(&self, model: &Model, set: &Set) -> Result<Quality> {
        self.measured(model, set, Draws::at_mean(model.network.as_ref())?)
    }

    /// With draws of the weights, as many as the config says.
    fn drawn(&self, model: &Model, set: &Set) -> Result<Drawn> {
        let draws = model.draws(self.config.predict.draws, Key::new(self.config.seed).fold("predict"))?;
        let count = draws.count;
        let Quality { accuracy, nll, ece } = self.measured(model, set, draws)?;
        Ok(Drawn { draws: count, accuracy, nll, ece })
    }

    fn measured(&self, model: &Model, set: &Set, draws: Draws) -> Result<Quality> {
        let images = set.source(self.config, model, SplitRole::Measuring, self.context.device)?;
        let chunks = images.chunks(self.config.predict.batch_size);
        let metrics = evaluate::classify(draws, chunks, &OwnPart::default(), model.recalibration.as_ref())?.metrics;
        let metric = |name: &str| metrics.get(name).copied().flatten().unwrap_or(f64::NAN);
        Ok(Quality { accuracy: metric(names::CLS_ACC), nll: metric(names::CLS_NLL), ece: metric(names::CAL_ECE) })
    }
}
