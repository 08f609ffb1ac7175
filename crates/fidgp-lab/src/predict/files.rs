//! Files brought to a predictor.

use std::ops::Range;
use std::path::{Path, PathBuf};

use fidgp::predict::Effort;
use fidgp_data::{Picture, Sheet};
use fidgp_decision::PixelSets;
use tch::Tensor;

use super::classes::BATCH;
use super::{ClassPrediction, NumberPrediction, PixelPrediction, Predictor, Trained};
use crate::error::{LabError, Result};
use crate::source::{GivenRows, View};

/// A picture with what the model says, or why it cannot say anything.
pub type Predicted = (PathBuf, Result<ClassPrediction>);

/// Classifies picture files, in order. A file that cannot be read spoils its own place only.
///
/// # Errors
/// When the model takes no pictures, or cannot predict.
pub fn classify(predictor: &mut Predictor, files: &[PathBuf], effort: Effort) -> Result<Vec<Predicted>> {
    let mut predicted = Vec::new();
    classify_each(predictor, files, effort, &mut |part| predicted.extend(part))?;
    Ok(predicted)
}

/// The same, handed out as it is made.
///
/// # Errors
/// As [`classify`].
pub fn classify_each(
    predictor: &mut Predictor,
    files: &[PathBuf],
    effort: Effort,
    take: &mut dyn FnMut(Vec<Predicted>),
) -> Result<()> {
    let Some(view) = predictor.trained().view else {
        return Err(LabError::config("MODEL", "takes tables: give it a .csv file, not pictures"));
    };
    for (number, part) in (0..).zip(files.chunks(BATCH)) {
        let seen: Vec<_> = part.iter().map(|file| see(file, view)).collect();
        let sound: Vec<_> = seen.iter().flatten().flatten().copied().collect();
        let mut said = if sound.is_empty() {
            Vec::new().into_iter()
        } else {
            let side = i64::from(view.crop);
            let pixels = Tensor::from_slice(&sound).view([-1, view.channels as i64, side, side]);
            predictor.classify(&pixels, number, effort)?.into_iter()
        };
        let place = |(file, seen): (&PathBuf, Result<Vec<u8>>)| {
            let one = seen.and_then(|_| said.next().ok_or_else(|| LabError::config("MODEL", "said nothing about it")));
            (file.clone(), one)
        };
        take(part.iter().zip(seen).map(place).collect());
    }
    Ok(())
}

/// Picture files as the network takes them. `[N, C, H, W]`
///
/// # Errors
/// When the model takes no pictures, or a file is broken; it is named.
pub(crate) fn inputs(trained: &Trained, files: &[PathBuf]) -> Result<Tensor> {
    let Some(view) = trained.view else {
        return Err(LabError::config("MODEL", "takes tables: give it a .csv file, not pictures"));
    };
    let seen = files.iter().map(|file| see(file, view)).collect::<Result<Vec<_>>>()?.concat();
    let side = i64::from(view.crop);
    trained.normalised(&Tensor::from_slice(&seen).view([-1, view.channels as i64, side, side]))
}

fn see(file: &Path, view: View) -> Result<Vec<u8>> {
    view.centre(&Picture::open(file)?)
}

/// Predicts the rows of a table's file.
///
/// # Errors
/// When the model takes pictures, or the file is broken or has other columns; the message names it.
pub fn regress(predictor: &mut Predictor, file: &Path, effort: Effort) -> Result<Vec<NumberPrediction>> {
    regress_sheet(predictor, (file, &Sheet::open(file)?), effort)
}

/// Predicts the rows of a table that was opened.
///
/// # Errors
/// When the model takes pictures, or the table has other columns; the message names it.
pub fn regress_sheet(
    predictor: &mut Predictor,
    (file, sheet): (&Path, &Sheet),
    effort: Effort,
) -> Result<Vec<NumberPrediction>> {
    let rows = rows(predictor.trained(), (file, sheet))?;
    regress_rows(predictor, file, &rows, effort)
}

/// Predicts rows of a file that were read.
///
/// # Errors
/// As [`regress`].
pub fn regress_rows(
    predictor: &mut Predictor,
    file: &Path,
    rows: &GivenRows,
    effort: Effort,
) -> Result<Vec<NumberPrediction>> {
    predictor.regress_named(&file.display().to_string(), (&rows.inputs, 0), effort)
}

/// What a model says of rows.
#[derive(Debug)]
pub enum RowPredictions {
    /// Numbers.
    Numbers(Vec<NumberPrediction>),
    /// Classes.
    Classes(Vec<ClassPrediction>),
}

/// Takes what is said of some rows.
pub type TakeRows<'a> = &'a mut dyn FnMut(&Trained, Range<usize>, RowPredictions) -> Result<()>;

/// Predicts rows of a file that were read, and hands the predictions out as they are made: the rows of a part, counted from
/// 0, and what is said of them. They are those of all rows at once.
///
/// # Errors
/// As [`regress`], and what the taker says.
pub fn predict_rows(
    predictor: &mut Predictor,
    (file, rows): (&Path, &GivenRows),
    effort: Effort,
    take: TakeRows,
) -> Result<()> {
    let (all, batch) = (rows.flags.len(), predictor.trained().config.predict.batch_size.max(1));
    let (part, width) = (PART.div_ceil(batch) * batch, rows.inputs.len() / all.max(1));
    let has_classes = !predictor.trained().classes.is_empty();
    for start in (0..all.max(1)).step_by(part) {
        let range = start..(start + part).min(all);
        let inputs = &rows.inputs[range.start * width..range.end * width];
        let from = if start == 0 { String::new() } else { format!(", from row {start} on") };
        let (name, first) = (format!("{}{from}", file.display()), (start / batch) as u64);
        let said = if has_classes {
            RowPredictions::Classes(predictor.classify_named(&name, (inputs, first), effort)?)
        } else {
            RowPredictions::Numbers(predictor.regress_named(&name, (inputs, first), effort)?)
        };
        take(predictor.trained(), range, said)?;
    }
    Ok(())
}

/// Rows of a part, about.
const PART: usize = 4096;

/// The rows of a table that was opened, as a model takes them and as they were given.
///
/// # Errors
/// When the model takes pictures, or the table has other columns, or cells that its columns do not hold.
pub fn rows(trained: &Trained, (file, sheet): (&Path, &Sheet)) -> Result<GivenRows> {
    if let Some(table) = &trained.table {
        return table.rows_of(sheet);
    }
    let Some(columns) = trained.columns()? else {
        return Err(LabError::config("MODEL", "takes pictures, not tables"));
    };
    let found = sheet.names().len();
    if found != columns {
        let why = format!("has {found} columns, the model takes {columns}");
        return Err(LabError::File { path: file.to_owned(), why });
    }
    Ok(GivenRows::of_numbers(sheet.numbers(&(0..columns).collect::<Vec<_>>())?, trained.feature_names()?))
}

/// Segments a picture file.
///
/// # Errors
/// When the model does not segment, or the file cannot be read.
pub fn segment(predictor: &mut Predictor, file: &Path, effort: Effort, rules: &[PixelSets]) -> Result<PixelPrediction> {
    let picture = Picture::open(file)?;
    let [width, height] = picture.size().map(i64::from);
    let pixels = Tensor::from_slice(&picture.planar()).view([1, 3, height, width]);
    let segmented = predictor.segment(&pixels, effort)?;
    PixelPrediction::of(&pixels.get(0), &segmented, 0)?.with_sets(&segmented, 0, rules)
}
