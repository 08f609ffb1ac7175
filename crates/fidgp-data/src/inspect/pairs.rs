//! Recognises pictures with masks, and checks every pair.

use std::path::Path;

use super::{ClassCount, PartSummary, Summary};
use crate::segmentation::{self, Portion};
use crate::{PairSet, Result, VOID, images::ByteSums};

type Open = fn(&Path, Portion) -> Result<PairSet>;

/// CamVid in SegNet's or its authors' layout, or Cityscapes.
pub fn pairs(path: &Path) -> Result<Option<Summary>> {
    let holds = |folder: &str| path.join(folder).is_dir();
    let (kind, open, portions): (_, Open, &[Portion]) = if holds("trainannot") {
        ("CamVid, SegNet's layout", segmentation::segnet, &[Portion::Train, Portion::Validation, Portion::Test])
    } else if holds("701_StillsRaw_full") {
        ("CamVid, colour labels", segmentation::camvid, &[Portion::Train, Portion::Validation, Portion::Test])
    } else if holds("leftImg8bit") {
        ("Cityscapes", segmentation::cityscapes, &[Portion::Train, Portion::Validation])
    } else {
        return Ok(None);
    };
    let part = |portion: &Portion| part(portion.folder(), &open(path, *portion)?);
    let parts = portions.iter().map(part).collect::<Result<_>>()?;
    let notes = vec!["counts of classes are pixels; pixels without a class are void; files are not hashed".to_owned()];
    Ok(Some(Summary { path: path.into(), kind: kind.to_owned(), parts, columns: Vec::new(), files: Vec::new(), notes }))
}

fn part(name: &str, set: &PairSet) -> Result<PartSummary> {
    let mut counts = [0_usize; 256];
    let (mut sums, mut squares, mut size) = ([0.0; 3], [0.0; 3], None);
    for row in 0..set.rows() {
        let (picture, mask) = set.load(row)?;
        mask.ids.iter().for_each(|&id| counts[usize::from(id)] += 1);
        let planes = picture.planar();
        for (channel, plane) in planes.chunks_exact((planes.len() / 3).max(1)).enumerate().take(3) {
            let (mean, sd) = ByteSums::of(std::iter::once(plane)).moments();
            sums[channel] += mean;
            squares[channel] += mean * mean + sd * sd;
        }
        size = match size {
            None => Some(Some(picture.size())),
            Some(before) => Some(before.filter(|before| *before == picture.size())),
        };
    }
    let rows = set.rows().max(1) as f64;
    let row_shape = size.flatten().map_or_else(Vec::new, |[width, height]| vec![3, height as usize, width as usize]);
    let names = set.class_names.iter().cloned().enumerate().chain([(usize::from(VOID), "void".to_owned())]);
    Ok(PartSummary {
        name: name.to_owned(),
        rows: set.rows(),
        row_shape,
        classes: names.map(|(id, name)| ClassCount { name, rows: counts[id] }).collect(),
        mean: sums.map(|sum| sum / rows).to_vec(),
        sd: [0, 1, 2].map(|c| (squares[c] / rows - (sums[c] / rows).powi(2)).max(0.0).sqrt()).to_vec(),
        pixels_sha256: None,
    })
}
