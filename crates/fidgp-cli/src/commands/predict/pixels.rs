//! `fidgp predict` of a segmentation: a table, and a map of each picture.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use fidgp::predict::Effort;
use fidgp_decision::decide::percent;
use fidgp_lab::LabError;
use fidgp_lab::predict::{self, Predictor, SetsSaid};
use fidgp_report::record::write_atomically;
use serde_json::{Value, json};

use super::pictures::{files, listed};
use super::rules::Rules;
use super::write::Writer;
use super::{Failed, Said};
use crate::args::Predict;
use crate::progress::ExampleBar;

pub fn run(
    predictor: &mut Predictor,
    (arguments, rules): (&Predict, &Rules),
    effort: Effort,
    writer: &mut Writer,
) -> Result<(Said, Vec<Failed>), LabError> {
    if arguments.tolerance.is_some() {
        return Err(LabError::config("--tolerance", "is for whole pictures; give a segmentation its --draws"));
    }
    let inputs = listed(&arguments.inputs)?;
    let (mut files, mut failed) = files(&inputs);
    if let Ok(maps) = arguments.maps.canonicalize() {
        let is_map = |file: &PathBuf| file.canonicalize().is_ok_and(|file| file.starts_with(&maps));
        files.retain(|file| inputs.contains(file) || !is_map(file)); // maps of before are no pictures
    }
    let mut said = Said { table: String::new(), json: Vec::new() };
    let mut taken = HashSet::new();
    let pictures: HashSet<_> = files.iter().filter_map(|file| file.canonicalize().ok()).collect();
    let (mut bar, all) = (ExampleBar::new("pictures"), files.len());
    for (done, file) in files.into_iter().enumerate() {
        bar.show(done, all);
        let prediction = match predict::files::segment(predictor, &file, effort, rules.of_pixels()) {
            Ok(prediction) => prediction,
            Err(error) => {
                failed.push((file, error));
                continue;
            }
        };
        let map = arguments.maps.join(free_name(&file, &mut taken));
        if map.canonicalize().is_ok_and(|map| pictures.contains(&map)) {
            let why = format!("{} is one of the pictures: its map would be written over it", map.display());
            return Err(LabError::config("--maps", format!("{why}; name another folder")));
        }
        write_atomically(&map, &prediction.map.to_png()?)?;
        let top = prediction.top(arguments.top.get());
        let class = |&(index, share): &(usize, f64)| json!({"class": predictor.trained().classes[index], "index": index, "share": share});
        let mut line = json!({
            "input": file.display().to_string(),
            "map": map.display().to_string(),
            "top": top.iter().map(class).collect::<Vec<_>>(),
            "total": prediction.total,
            "aleatoric": prediction.aleatoric,
            "epistemic": prediction.epistemic,
        });
        let (sets, kept) = sets(&prediction.sets, &predictor.trained().classes);
        if !prediction.sets.is_empty() {
            line["sets"] = sets;
        }
        if writer.streams() {
            writer.rows(&[line])?;
        } else {
            said.json.push(line);
        }
        let shares =
            top.iter().map(|(index, share)| format!("{} {:.0} %", predictor.trained().classes[*index], 100.0 * share));
        let shares = shares.collect::<Vec<_>>().join(", ");
        let _ = writeln!(
            said.table,
            "{}: {shares}; uncertainty {:.3} = {:.3} aleatoric + {:.3} epistemic{kept}; {}",
            file.display(),
            prediction.total,
            prediction.aleatoric,
            prediction.epistemic,
            map.display()
        );
    }
    if !said.table.is_empty() {
        let classes = predictor.trained().classes.len();
        let _ = writeln!(
            said.table,
            "\nshares of pixels; uncertainty in nats per pixel, at most {:.2} for {classes} classes; maps show picture, \
             prediction, total, aleatoric and epistemic uncertainty",
            (classes as f64).ln()
        );
    }
    Ok((said, failed))
}

/// The sets of classes of pixels, for programs and for people.
fn sets(all: &[SetsSaid], classes: &[String]) -> (Value, String) {
    let of = |said: &SetsSaid| match said.class {
        Some(class) => json!({"level": said.level, "class": classes.get(class), "possible": said.mean}),
        None => json!({"level": said.level, "mean_size": said.mean, "single": said.single}),
    };
    let words = |said: &SetsSaid| {
        let single = said.single?;
        Some(format!(
            "; {}: one class for {:.0} % of the pixels, {:.2} on average",
            percent(said.level),
            100.0 * single,
            said.mean
        ))
    };
    (all.iter().map(of).collect(), all.iter().filter_map(words).collect())
}

/// The name of a picture's map: its own, numbered where another picture of this call has it.
fn free_name(picture: &Path, taken: &mut HashSet<String>) -> String {
    let stem = picture.file_stem().unwrap_or_default().to_string_lossy();
    let numbered = (2..).map(|number| format!("{stem}-{number}.png"));
    let mut names = std::iter::once(format!("{stem}.png")).chain(numbered);
    names.find(|name| taken.insert(name.clone())).unwrap_or_default()
}
