//! What a page says of a model: what was seen of it on the examples, its worst mistakes, and foreign inputs.

use std::path::{Path, PathBuf};

use fidgp_data::{Picture, pictures_below};
use fidgp_decision::decide::{Judge, number};
use fidgp_decision::trust::{About, Foreign, Mistake};
use fidgp_decision::{Calibration, Trust};
use serde_json::Value;
use tch::{Device, Kind, Tensor};

use super::Progress;
use super::examples::{Gathered, Inputs, RowsSaid, Said, said_of_files, said_of_rows};
use crate::error::{LabError, Result};
use crate::experiment::task::SplitRole;
use crate::predict::{Predictor, Trained};
use crate::report::words::base64;
use crate::source::ImageSet;
use crate::train::checkpoint;

/// Shorter side of the pictures that are kept, at most.
const SIDE: u32 = 96;

/// What was seen on the examples, with the mistakes as pictures where the examples are.
pub(super) fn trust(trained: &Trained, gathered: &Gathered, found: &Calibration) -> Result<Trust> {
    let config = &trained.config;
    let about = About {
        name: config.name.clone(),
        method: config.method.name().to_owned(),
        data: config.data.name(),
        weights_sha256: checkpoint::sha256_of(&trained.model.store)?,
    };
    let mut trust = match &gathered.said {
        Said::Classes { said, labels } => Trust::of_classes(found, about, said, labels)?,
        Said::Numbers { said, targets } => Trust::of_numbers(found, about, said, targets)?,
    };
    let (model, device) = (&trained.model, trained.model.store.device());
    let source = match &gathered.inputs {
        Inputs::Set(set) => Some(set.source(config, model, SplitRole::Measuring, device)?),
        _ => None,
    };
    for mistake in &mut trust.mistakes {
        show(mistake, (trained, source.as_deref()), gathered)?;
    }
    Ok(trust)
}

/// Says where an input is from, and keeps its picture.
fn show(
    mistake: &mut Mistake,
    (trained, source): (&Trained, Option<&dyn ImageSet>),
    gathered: &Gathered,
) -> Result<()> {
    let row = mistake.example;
    let picture = match &gathered.inputs {
        Inputs::Set(_) => {
            mistake.input = format!("picture {} of {}", row + 1, gathered.source);
            source.map(|source| of_set(source, trained, row)).transpose()?
        }
        Inputs::Files(files) => {
            mistake.input = files[row].display().to_string();
            Some(Picture::open(&files[row])?)
        }
        Inputs::Rows(given) => {
            let value = |(name, cell): (&String, &Value)| match cell {
                Value::Null => format!("{name} is missing"),
                Value::String(text) => format!("{name} = {text}"),
                Value::Bool(yes) => format!("{name} = {}", if *yes { "yes" } else { "no" }),
                cell => format!("{name} = {}", cell.as_f64().map_or_else(|| cell.to_string(), number)),
            };
            let values: Vec<_> = given.names.iter().zip(given.row(row)).map(value).collect();
            mistake.input = format!("row {}: {}", row + 1, values.join(", "));
            None
        }
    };
    let png = |picture: Picture| {
        let small = picture.size().into_iter().min().is_some_and(|side| side <= SIDE);
        if small { picture.to_png() } else { picture.resize_shorter(SIDE)?.to_png() }
    };
    mistake.picture = picture.map(png).transpose()?.map(|png| base64(&png));
    Ok(())
}

/// A picture as the network sees it, before it is normalised.
fn of_set(source: &dyn ImageSet, trained: &Trained, row: usize) -> Result<Picture> {
    let model = &trained.model;
    let normalisation = model.normalisation.as_ref();
    let normalisation = normalisation.ok_or_else(|| LabError::config("network", "has no normalisation"))?;
    let (mean, sd) = normalisation.statistics();
    let rows = Tensor::from_slice(&[row as i64]).to_device(model.store.device());
    let channel = |values: &Tensor| values.view([1, -1, 1, 1]);
    let pixels = (source.batch(&rows, None)?.0 * channel(sd) + channel(mean)) * 255.0;
    let pixels = pixels.get(0).to_device(Device::Cpu).to_kind(Kind::Float).round().clamp(0.0, 255.0);
    let [channels, height, width] = pixels.size()[..] else {
        return Err(LabError::config("network", "takes no pictures"));
    };
    let pixels = if channels == 3 { pixels } else { pixels.narrow(0, 0, 1).repeat([3, 1, 1]) };
    let bytes = Vec::<u8>::try_from(pixels.to_kind(Kind::Uint8).permute([1, 2, 0]).contiguous().reshape([-1]))?;
    Picture::from_rgb(width as u32, height as u32, bytes)
        .ok_or_else(|| LabError::config("network", "takes pictures of another size"))
}

/// What the rules say of inputs that are known to be foreign.
pub(super) fn foreign(
    predictor: &mut Predictor,
    found: &Calibration,
    path: &Path,
    progress: Progress,
) -> Result<Foreign> {
    let judge = Judge::new(found)?;
    let source = path.display().to_string();
    let verdicts: Vec<_> = if predictor.trained().view.is_some() {
        let said = said_of_files(predictor, &files(path)?, progress)?;
        said.iter().map(|said| judge.class(said).verdict).collect()
    } else if let Some(view) = &predictor.trained().table {
        let rows = view.rows(path)?;
        let width = predictor.trained().columns()?.unwrap_or(1).max(1);
        match said_of_rows(predictor, (&rows.inputs, width), progress)? {
            RowsSaid::Numbers(said) => said.iter().map(|said| judge.number(said).verdict).collect(),
            RowsSaid::Classes(said) => said.iter().map(|said| judge.class(said).verdict).collect(),
        }
    } else {
        return Err(LabError::config("--ood-inputs", "is for models of pictures and of tables of one's own"));
    };
    if verdicts.is_empty() {
        return Err(LabError::File { path: path.to_owned(), why: "holds no inputs".to_owned() });
    }
    Ok(Foreign::of(source, &verdicts))
}

fn files(path: &Path) -> Result<Vec<PathBuf>> {
    Ok(if path.is_dir() { pictures_below(path)? } else { vec![path.to_owned()] })
}
