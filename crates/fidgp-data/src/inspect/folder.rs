//! Recognises pictures in one folder per class, and decodes every one.

use std::path::{Path, PathBuf};

use super::summary::{PartSummary, Summary, class_counts};
use crate::{Error, ImageFolder, Picture, Result, Watch, images::ByteSums, listing, pictures};

/// `root/<class>/…`, or `root/{train,val,test}/<class>/…`.
pub fn image_folder(path: &Path, watch: Watch) -> Result<Option<Summary>> {
    let roots = roots(path)?;
    if roots.is_empty() {
        return Ok(None);
    }
    let (mut parts, mut faults) = (vec![], vec![]);
    for root in &roots {
        match part(root, watch) {
            Ok(part) => parts.push(part),
            Err(fault) => faults.push(fault),
        }
    }
    match faults.len() {
        0 => {
            let mut notes = vec!["every picture was decoded; files are not hashed".to_owned()];
            notes.extend(classes_of_one_part(&parts));
            let has = |name: &str| parts.iter().any(|part| part.name == name);
            if has("train") && !has("val") {
                notes.push("no val/ beside train/: trainings test on it; without it name train/ itself and set data.test_fraction".to_owned());
            }
            let kind = "pictures in one folder per class".to_owned();
            Ok(Some(Summary { path: path.into(), kind, parts, columns: vec![], files: vec![], notes }))
        }
        1 => Err(faults.remove(0)),
        _ => {
            let what = format!("{} parts", roots.len());
            Err(Error::Several { folder: path.into(), what, faults })
        }
    }
}

/// Names of parts.
const PARTS: [&str; 3] = ["train", "val", "test"];

/// The folders that hold class folders: the path itself, or its parts.
fn roots(path: &Path) -> Result<Vec<PathBuf>> {
    let holds_classes = |f: &Path| listing::folders(f).is_ok_and(|classes| classes.iter().any(|c| has_pictures(c)));
    let parts = PARTS.map(|part| path.join(part));
    if parts.iter().any(|part| holds_classes(part)) {
        return Ok(parts.into_iter().filter(|part| part.is_dir()).collect()); // whatever else lies beside them
    }
    match path.is_dir() {
        true if holds_classes(path) => Ok(vec![path.to_owned()]),
        true => Ok(listing::folders(path)?.into_iter().filter(|folder| holds_classes(folder)).collect()),
        false => Ok(vec![]),
    }
}

pub fn has_pictures(folder: &Path) -> bool {
    pictures(folder).is_ok_and(|found| !found.is_empty())
}

/// Size and sums of the three channels of one picture.
type Seen = ([u32; 2], [ByteSums; 3]);

fn look(picture: &Picture) -> Seen {
    let planes = picture.planar();
    let plane = |channel: usize| &planes[channel * planes.len() / 3..(channel + 1) * planes.len() / 3];
    (picture.size(), [0, 1, 2].map(|channel| ByteSums::of(std::iter::once(plane(channel)))))
}

fn part(root: &Path, watch: Watch) -> Result<PartSummary> {
    let found = ImageFolder::open(root)?;
    let seen = found.survey(look, watch)?;
    let channel = |c: usize| seen.iter().fold(ByteSums::default(), |sums, (_, of)| sums.and(of[c])).moments();
    let (mean, sd) = (0..3).map(channel).unzip();
    let size = seen.first().map(|(size, _)| *size).filter(|size| seen.iter().all(|(other, _)| other == size));
    Ok(PartSummary {
        name: listing::name(root),
        rows: found.rows(),
        row_shape: size.map_or_else(Vec::new, |[width, height]| vec![3, height as usize, width as usize]),
        classes: class_counts(found.class_names(), found.class_counts()),
        mean,
        sd,
        pixels_sha256: None,
    })
}

/// A line for each part that lacks classes another one has.
fn classes_of_one_part(parts: &[PartSummary]) -> Vec<String> {
    let mut notes = vec![];
    for part in parts {
        let lacks = |name: &str| part.classes.iter().all(|class| class.name != name);
        for other in parts {
            let missing: Vec<&str> =
                other.classes.iter().map(|class| &*class.name).filter(|name| lacks(name)).collect();
            if !missing.is_empty() {
                notes.push(format!("`{}` has no class {}, `{}` has", part.name, few(&missing), other.name));
            }
        }
    }
    notes
}

/// The first few names.
fn few(names: &[&str]) -> String {
    let shown = names.iter().take(5).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.len() > 5 { format!("{shown} and {} more", names.len() - 5) } else { shown }
}
