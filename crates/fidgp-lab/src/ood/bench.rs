//! The benchmark, in the order that keeps it honest: fit on ID train, score ID, controls, then everything else.

use std::path::Path;
use std::time::Instant;

use fidgp_data::split;
use tch::{Device, Tensor};

use super::combine::Combined;
use super::controls;
use super::cost;
use super::heldout::{self, HELD_OUT, Labelled};
use super::images::{ID, Images, Inputs};
use super::observe::ModelObserver;
use super::pipeline::{FitRows, Pipeline, Scored, fitted};
use super::protocol;
use super::settings::Settings;
use super::spectral;
use super::statistics::{Basis, StatisticsCache, sha256};
use super::table::{self, CHOSEN, Choice, choose, headline};
use crate::error::{LabError, Result};
use crate::model::Model;
use crate::predict::Trained;
use crate::record::ood::{Columns, Control};
use crate::record::{Chosen, OOD_SCHEMA, OodDocument, OodSetRecord, commit};
use crate::run_folder::posterior;
use crate::train::checkpoint;
use crate::train::group::agree;

/// One in so many ID test images is used for choosing, and not in the table.
const CHOOSING: usize = 10;

/// What came of it.
#[derive(Debug)]
pub struct Benchmark {
    /// The document.
    pub document: OodDocument,
    /// Scores of the ID images in the table.
    pub id: Columns,
    /// Scores of the OoD sets, by name.
    pub ood: Vec<(String, Columns)>,
    arrays: Vec<(String, Vec<(String, Tensor)>)>,
}

impl Benchmark {
    /// Writes every set's scores, logits and features as `scores/<set>.safetensors`.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn write_arrays(&self, out: &Path) -> Result<()> {
        for (name, tensors) in &self.arrays {
            let path = out.join("scores").join(format!("{name}.safetensors"));
            checkpoint::write(&path, tensors, ("ood", format!("{name}: high = out of distribution")))?;
        }
        Ok(())
    }
}

/// Everything that is compared.
#[derive(Debug)]
pub(super) struct Compared {
    pub id: Inputs,
    pub validation: Vec<Inputs>,
    pub ood: Vec<(OodSetRecord, Tensor)>,
    pub fit_images: usize,
    pub method: String,
    pub device: Device,
}

/// Benchmarks a model; `say` hears about the progress.
///
/// # Errors
/// When a set cannot be read or scored, or, with [`LabError::Refused`], when a control fails.
pub fn run(predictor: &Trained, settings: &Settings, say: &mut dyn FnMut(&str)) -> Result<Benchmark> {
    let started = Instant::now();
    let images = Images::read(predictor, settings)?;
    if let Some(group) = predictor.model.parts.group() {
        let sets = images.ood.iter().map(|(set, pixels)| Ok((set.name.clone(), sha256(pixels)?)));
        let sets = sets.collect::<Result<Vec<_>>>()?;
        agree(group, "the data", &format!("{} {} {sets:?}", sha256(&images.fit.pixels)?, sha256(&images.id.pixels)?))?;
    }
    let observer = observer(predictor, settings, say)?;
    let weights = checkpoint::sha256_of(&predictor.model.store)?;
    let temperature = predictor.model.temperature;
    let fit = &images.fit;
    let kept = kept(&weights, &images, &predictor.model, settings)?;
    say(&format!("looking at {} ID training examples", fit.pixels.size()[0]));
    let (batch, seed, more) = (settings.batch, settings.seed, settings.more.scores.as_slice());
    let rows = FitRows { rows: &fit.pixels, labels: &fit.labels, batch, seed, more };
    let mut pipeline = fitted(&observer, &rows, (observer.head(), &observer.inducing), kept.as_ref(), say)?;
    pipeline.scorer.left_out.extend(observer.left_out());
    let (beside, null) = (images.first(spectral::IMAGES), images.first(protocol::IMAGES));
    let Images { id_name, id, fit, validation, ood } = images;
    let compared = Compared {
        id: Inputs { name: id_name, rows: id.pixels, labels: id.labels },
        validation,
        ood,
        fit_images: fit.pixels.size()[0] as usize,
        method: predictor.config.method.name().to_owned(),
        device: predictor.model.store.device(),
    };
    let mut bench = compare(&pipeline, compared, settings, started, say)?;
    bench.document.weights_sha256 = Some(weights);
    bench.document.temperature = temperature;
    say("measuring layer by layer, and what a score costs");
    let ((id, sets), batch) = (&beside, settings.batch);
    bench.document.spectral = spectral::measure(predictor, &observer, (&fit.pixels, id), sets, batch)?;
    let part = id.narrow(0, 0, id.size()[0].min(batch as i64));
    bench.document.cost = cost::measure(&observer, &part, settings.gradients)?;
    if settings.more.paper_protocol {
        say("the released script's procedure, five times, with its null control");
        let (id, sets) = &null;
        bench.document.paper_protocol = Some(protocol::run(predictor, id, sets, batch, settings.seed)?);
    }
    bench.document.seconds = started.elapsed().as_secs_f64();
    Ok(bench)
}

/// What looks at the network while it computes.
fn observer<'a>(predictor: &'a Trained, settings: &Settings, say: &mut dyn FnMut(&str)) -> Result<ModelObserver<'a>> {
    let mut observer = ModelObserver::new(predictor, settings.u, settings.draws, settings.gradients)?;
    if predictor.model.store.device().is_cuda() {
        if let Err(error) = fidgp_torch::repeatable_convolutions() {
            say(&format!("gradients may differ from run to run: {error}"));
        }
        observer = observer.in_blocks(settings.batch);
    }
    if settings.more.paper_protocol && observer.inducing.is_empty() {
        let why = "needs a model with inducing weights: without a U the released procedure has nothing to project on";
        return Err(LabError::config("--paper-protocol", why));
    }
    Ok(observer)
}

/// Where statistics are kept, and what they must agree on.
fn kept(weights: &str, images: &Images, model: &Model, settings: &Settings) -> Result<Option<StatisticsCache>> {
    let Some(path) = settings.more.statistics.clone() else { return Ok(None) };
    let basis = Basis {
        id: &images.id_name,
        images: sha256(&images.fit.pixels)?,
        seed: settings.seed,
        batch: settings.batch,
        u: settings.u.to_string(),
        gradients: settings.gradients,
        temperature: model.temperature,
        posterior_sha256: posterior::digest(model)?,
    };
    Ok(Some(StatisticsCache::new(path, weights, &basis)))
}

/// Scores the ID set, runs the controls, chooses, and only then scores what is reported.
pub(super) fn compare(
    pipeline: &Pipeline,
    compared: Compared,
    settings: &Settings,
    started: Instant,
    say: &mut dyn FnMut(&str),
) -> Result<Benchmark> {
    let Compared { id, validation, ood, fit_images, method, device } = compared;
    for what in &pipeline.scorer.left_out {
        say(&format!("left out: {what}"));
    }
    let mut scored = pipeline.score_aloud(&id.rows, settings.batch, &id.name, say)?;
    let again = |inputs: &Tensor, batch: usize| Ok(pipeline.score(inputs, batch)?.columns);
    let mut checked = controls::scored_again(&again, &id.rows, &scored.columns, settings.batch)?;
    checked.push(controls::halves(&headline(&scored.columns)));
    report(&checked, settings, say)?;

    let id_rows = id.rows.size()[0] as usize;
    let choosing = if settings.choose_on.is_empty() { Vec::new() } else { choosing(id_rows, settings.seed) };
    let chosen = chosen(pipeline, (&scored, &id.labels), (&validation, &choosing), settings, say)?;
    let append = |columns: &mut Columns| -> Result<()> {
        if let Some((_, made)) = &chosen {
            let score = made.score(columns)?;
            columns.insert(CHOSEN.to_owned(), score);
        }
        Ok(())
    };
    append(&mut scored.columns)?;
    if let Some(values) = scored.columns.get(CHOSEN) {
        let mut halves = controls::halves(&Columns::from([(CHOSEN.to_owned(), values.clone())]));
        halves.name += ", the chosen score";
        checked.push(halves);
        report(&checked, settings, &mut |_| {})?;
    }
    let shown: Vec<usize> = (0..id_rows).filter(|row| choosing.binary_search(row).is_err()).collect();
    let id_columns = headline(&rows(&scored.columns, &shown));
    let mut arrays = vec![(ID.to_owned(), tensors(&scored))];
    let mut table_sets = Vec::new();
    for (set, inputs) in ood {
        let mut own = pipeline.score_aloud(&inputs, settings.batch, &set.name, say)?;
        append(&mut own.columns)?;
        arrays.push((set.name.clone(), tensors(&own)));
        table_sets.push((set, headline(&own.columns)));
    }
    let document = OodDocument {
        schema: OOD_SCHEMA,
        model: settings.model.clone(),
        weights_sha256: None,
        temperature: None,
        method,
        id: id.name,
        id_images: shown.len(),
        fit_images,
        fit: settings.fit,
        forward_only: !settings.gradients,
        limit: settings.most_images(),
        accuracy: accuracy(&scored.logits, &id.labels, &shown),
        u: settings.u.to_string(),
        draws: settings.draws,
        seed: settings.seed,
        commit: commit(),
        hardware: crate::device::hardware(device),
        command: settings.command.clone(),
        controls_skipped: settings.skip_controls,
        controls: checked,
        scores: table::table(&id_columns, &table_sets, &settings.more.scores, settings.seed)?,
        sets: table_sets.iter().map(|(set, _)| set.clone()).collect(),
        chosen: chosen.map(|(chosen, _)| chosen),
        left_out: pipeline.scorer.left_out.clone(),
        spectral: None,
        cost: None,
        paper_protocol: None,
        seconds: started.elapsed().as_secs_f64(),
    };
    let ood = table_sets.into_iter().map(|(set, columns)| (set.name, columns)).collect();
    Ok(Benchmark { document, id: id_columns, ood, arrays })
}

/// The recipe that tells some of the ID images best from the sets for choosing, where there are any.
fn chosen(
    pipeline: &Pipeline,
    (scored, labels): (&Scored, &[i64]),
    (validation, choosing): (&[Inputs], &[usize]),
    settings: &Settings,
    say: &mut dyn FnMut(&str),
) -> Result<Option<(Chosen, Combined)>> {
    if choosing.is_empty() {
        return Ok(None);
    }
    let mut on = Choice { id: rows(&scored.columns, choosing), ..Choice::default() };
    for set in validation {
        let scored = pipeline.score_aloud(&set.rows, settings.batch, &format!("{} for choosing", set.name), say)?;
        on.sets.push((set.name.clone(), scored.columns));
    }
    if settings.choose_on.iter().any(|name| name == HELD_OUT) {
        on.folds = held_out(scored, labels, choosing, pipeline, &on.id)?;
    }
    choose(&pipeline.families, &pipeline.fit.columns, &on).map(Some)
}

/// Says how the controls ended, and refuses to go on when one failed.
fn report(checked: &[Control], settings: &Settings, say: &mut dyn FnMut(&str)) -> Result<()> {
    for control in checked {
        say(&format!("control: {control}"));
    }
    let said = |control: &Control| {
        let small = control.worst_score == "mutual-information";
        let hint =
            if small { " (the draws differ by little more than rounding: leave it out with --draws 0)" } else { "" };
        format!("{control}{hint}")
    };
    let failed: Vec<String> = checked.iter().filter(|control| !control.passed).map(said).collect();
    if failed.is_empty() || settings.skip_controls { Ok(()) } else { Err(LabError::Refused { why: failed.join("; ") }) }
}

/// ID test images that are used for choosing: picked by the seed, since a file may have its classes in turn.
fn choosing(rows: usize, seed: u64) -> Vec<usize> {
    let mut picked = split::epoch_order(rows, seed, 3);
    picked.truncate(rows.div_ceil(CHOOSING));
    picked.sort_unstable();
    picked
}

fn held_out(
    scored: &Scored,
    labels: &[i64],
    choosing: &[usize],
    pipeline: &Pipeline,
    columns: &Columns,
) -> Result<Vec<(Columns, Columns)>> {
    let index: Vec<i64> = choosing.iter().map(|&row| row as i64).collect();
    let take = |tensor: &Tensor| tensor.index_select(0, &Tensor::from_slice(&index));
    let labels: Vec<i64> = choosing.iter().filter_map(|&row| labels.get(row).copied()).collect();
    let (logits, features) = (take(&scored.logits), scored.features.as_ref().map(take));
    let id = Labelled { columns, logits: &logits, features: features.as_ref(), labels: &labels };
    heldout::folds(&id, &pipeline.fit)
}

fn rows(columns: &Columns, rows: &[usize]) -> Columns {
    columns.iter().map(|(name, values)| (name.clone(), rows.iter().map(|&row| values[row]).collect())).collect()
}

fn accuracy(logits: &Tensor, labels: &[i64], shown: &[usize]) -> Option<f64> {
    if labels.len() != logits.size()[0] as usize || shown.is_empty() {
        return None;
    }
    let said = Vec::<i64>::try_from(logits.argmax(-1, false).to_device(Device::Cpu)).ok()?;
    let right = shown.iter().filter(|&&row| said[row] == labels[row]).count();
    Some(right as f64 / shown.len() as f64)
}

fn tensors(scored: &Scored) -> Vec<(String, Tensor)> {
    let columns = scored.columns.iter().map(|(name, values)| (name.clone(), Tensor::from_slice(values)));
    let features = scored.features.iter().map(|features| ("features".to_owned(), features.shallow_clone()));
    columns.chain([("logits".to_owned(), scored.logits.shallow_clone())]).chain(features).collect()
}
