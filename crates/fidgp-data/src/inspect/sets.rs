//! One recogniser per layout: what is it, is it sound, what is in it.

use std::path::{Path, PathBuf};

use super::{ColumnSummary, FileDigest, PartSummary, Summary};
use crate::{
    Images, Part, Result, Sheet, array_folder,
    arrays::{self, Array},
    cifar, idx as idx_format, listing, svhn as svhn_format,
    uci::Uci,
};

const BATCHES: [&str; 5] =
    ["data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"];
const PARTS: [Part; 2] = [Part::Train, Part::Test];

type Found = Result<Option<Summary>>;

fn summary(path: &Path, kind: &str, parts: Vec<PartSummary>, files: &[PathBuf], notes: Vec<String>) -> Found {
    let files = files.iter().map(|file| FileDigest::of(file)).collect::<Result<_>>()?;
    Ok(Some(Summary { path: path.into(), kind: kind.into(), parts, columns: vec![], files, notes }))
}

/// Reads each part that is there; a layout is described even where only one part is.
fn parts_there(is_there: impl Fn(Part) -> bool, read: impl Fn(Part) -> Result<Images>) -> Result<Vec<PartSummary>> {
    let there = PARTS.into_iter().filter(|&part| is_there(part));
    there.map(|part| Ok(PartSummary::of_images(part.name(), &read(part)?))).collect()
}

/// A folder stays; a file stands for the folder it is in.
fn home(path: &Path) -> PathBuf {
    if path.is_dir() { path.into() } else { path.parent().unwrap_or(path).into() }
}

pub fn cifar10(path: &Path) -> Found {
    let folder = home(path);
    let wanted = |name: &str| name == "test_batch.bin" || BATCHES.contains(&name);
    if path.is_file() && !wanted(&listing::name(path)) {
        return Ok(None);
    }
    let files = listing::files(&folder, wanted)?;
    if files.is_empty() {
        return Ok(None);
    }
    let is_there = |part| files.iter().any(|f| listing::name(f).starts_with("test") == (part == Part::Test));
    let parts = parts_there(is_there, |part| cifar::cifar10(&folder, part))?;
    cifar_summary(path, "CIFAR-10, binary version", parts, &files, 1)
}

pub fn cifar100(path: &Path) -> Found {
    let folder = home(path);
    let wanted = |name: &str| name == "train.bin" || name == "test.bin";
    if path.is_file() && !wanted(&listing::name(path)) {
        return Ok(None);
    }
    let files = listing::files(&folder, wanted)?;
    if files.is_empty() {
        return Ok(None);
    }
    let is_there = |part: Part| folder.join(format!("{}.bin", part.name())).is_file();
    let parts = parts_there(is_there, |part| cifar::cifar100(&folder, part, cifar::Labels::Fine))?;
    cifar_summary(path, "CIFAR-100, binary version, fine labels", parts, &files, 2)
}

/// A summary that says which files have another number of records than their authors' own.
fn cifar_summary(path: &Path, kind: &str, parts: Vec<PartSummary>, files: &[PathBuf], label_bytes: usize) -> Found {
    let mut found = summary(path, kind, parts, files, vec![])?;
    if let Some(summary) = &mut found {
        for file in &summary.files {
            let name = listing::name(&file.path);
            let (there, official) = (cifar::records(file.bytes, label_bytes), cifar::official_records(&name));
            if there != official {
                summary.notes.push(format!("{name} has {there} of {official} rows"));
            }
        }
    }
    Ok(found)
}

pub fn svhn(path: &Path) -> Found {
    let files = match path.is_file() {
        true if listing::extension(path) == "mat" => vec![path.to_owned()],
        true => vec![],
        false => listing::files(path, |name| name.ends_with("_32x32.mat"))?,
    };
    if files.is_empty() {
        return Ok(None);
    }
    let part = |file: &PathBuf| {
        let name = listing::name(file).replace("_32x32.mat", "");
        Ok(PartSummary::of_images(&name, &svhn_format::read(file)?))
    };
    let parts = files.iter().map(part).collect::<Result<_>>()?;
    summary(path, "SVHN, cropped digits", parts, &files, vec![])
}

pub fn idx(path: &Path) -> Found {
    let wanted = |name: &str| name.contains("-idx") || name.contains(".idx");
    let folder = home(path);
    if path.is_file() && !wanted(&listing::name(path)) || listing::files(&folder, wanted)?.is_empty() {
        return Ok(None);
    }
    let files: Vec<PathBuf> = PARTS.iter().flat_map(|&p| idx_format::part_files(&folder, p)).flatten().collect();
    if files.is_empty() {
        idx_format::part_files(&folder, Part::Test)?; // says which file is missing
    }
    let is_there = |part| idx_format::part_files(&folder, part).is_ok();
    let parts = parts_there(is_there, |part| idx_format::folder("idx", &folder, part))?;
    let alone = |file: &PathBuf| !files.contains(file);
    let alone = listing::files(&folder, wanted)?.into_iter().filter(alone);
    let note =
        |file: PathBuf| format!("{} is of no part that is whole: images and labels go together", listing::name(&file));
    summary(path, "idx (MNIST and its kin)", parts, &files, alone.map(note).collect())
}

/// One set, or a folder of sets.
pub fn uci(path: &Path) -> Found {
    let is_set = |folder: &Path| folder.join("data/data.txt").is_file() || folder.join("data.txt").is_file();
    let sets = match path.is_dir() {
        true if is_set(path) => vec![path.to_owned()],
        true => listing::folders(path)?.into_iter().filter(|f| is_set(f)).collect(),
        false => vec![],
    };
    let (mut parts, mut files, mut notes) = (vec![], vec![], vec![]);
    for folder in &sets {
        let set = Uci::read_folder(&listing::name(folder), folder)?;
        (0..set.splits()).try_for_each(|index| set.split(index).map(|_| ()))?;
        parts.push(PartSummary::of_table(set.table()));
        files.extend(["data/data.txt", "data.txt"].map(|f| folder.join(f)).into_iter().filter(|f| f.is_file()));
        notes.push(format!("{}: {} splits, no row on both sides", set.table().name(), set.splits()));
    }
    if sets.is_empty() { Ok(None) } else { summary(path, "UCI regression, standard splits", parts, &files, notes) }
}

pub fn arrays(path: &Path) -> Found {
    if array_folder::is_there(path) {
        return arrays_in_parts(path);
    }
    let wanted = |name: &str| matches!(listing::extension(Path::new(name)).as_str(), "npy" | "safetensors");
    let files = match path.is_file() {
        true if wanted(&listing::name(path)) => vec![path.to_owned()],
        true => vec![],
        false => listing::files(path, wanted)?,
    };
    if files.is_empty() {
        return Ok(None);
    }
    let read: Vec<Vec<Array>> = files.iter().map(|file| arrays::read(file)).collect::<Result<_>>()?;
    let all = read.concat();
    let notes = all.iter().map(|a| format!("`{}` is {} {:?}", a.name, a.values.kind(), a.shape)).collect();
    summary(path, "arrays", array_parts(&listing::name(path), &all)?, &files, notes)
}

/// A table as text: its columns, what becomes of them, and what is wrong with them.
pub fn sheet(path: &Path) -> Found {
    if !path.is_file() || !matches!(listing::extension(path).as_str(), "csv" | "tsv" | "txt" | "parquet") {
        return Ok(None);
    }
    let sheet = Sheet::open(path)?;
    let cells = match sheet.cells(&(0..sheet.names().len()).collect::<Vec<_>>()) {
        Err(_) if listing::extension(path) == "txt" => return Ok(None), // prose, most likely
        cells => cells?,
    };
    let of_numbers = |column: usize| (0..cells.rows()).map(|row| cells.number(row, column)).collect::<Option<Vec<_>>>();
    let numbers: Vec<Vec<f64>> = (0..sheet.names().len()).filter_map(of_numbers).collect();
    if numbers.is_empty() && listing::extension(path) == "txt" {
        return Ok(None); // so too
    }
    let columns: Vec<_> = (0..sheet.names().len()).map(|column| ColumnSummary::of(&cells, column)).collect();
    if columns.iter().all(|column| column.missing == cells.rows()) {
        return Err(sheet.holds_nothing());
    }
    let heading = if sheet.is_headed() { "" } else { " (no heading: numbers from 0)" };
    let mut notes = vec![format!("columns: {}{heading}", sheet.names().join(", "))];
    notes.extend(sheet.names().iter().filter_map(|name| sheet.column(name).err()).map(|fault| fault.to_string()));
    notes.extend(columns.iter().filter_map(|column| column.problem.clone()));
    let part = PartSummary { rows: cells.rows(), ..PartSummary::of_columns(&listing::name(path), &numbers) };
    let found = summary(path, "a table", vec![part], &[path.to_owned()], notes)?;
    Ok(found.map(|found| Summary { columns, ..found }))
}

/// A training and a test part, which must fit each other where both are there.
fn arrays_in_parts(path: &Path) -> Found {
    let files: Vec<Vec<PathBuf>> = PARTS.iter().map(|&p| array_folder::part_files(path, p)).collect::<Result<_>>()?;
    let parts = if files.iter().any(Vec::is_empty) {
        let is_there = |part| array_folder::part_files(path, part).is_ok_and(|files| !files.is_empty());
        parts_there(is_there, |part| array_folder::part(path, part, 0))?
    } else {
        let both = array_folder::both(path, 0)?;
        PARTS.iter().zip(&both).map(|(part, images)| PartSummary::of_images(part.name(), images)).collect()
    };
    let odd = |part: &PartSummary| matches!(part.row_shape[..], [c, h, w] if !(c == 1 || c == 3) || h != w);
    let note = |part: &PartSummary| {
        format!(
            "`{}`: {:?} is not what trainings take, [1 or 3 channels, side, side]; channels come first",
            part.name, part.row_shape
        )
    };
    let notes = parts.iter().filter(|part| odd(part)).map(note).collect();
    summary(path, "arrays in two parts", parts, &files.concat(), notes)
}

/// The images or the table among arrays, found by name.
fn array_parts(set: &str, all: &[Array]) -> Result<Vec<PartSummary>> {
    let get = |name: &str| all.iter().find(|array| array.name == name);
    if let (Some(pixels), Some(labels)) = (get("images"), get("labels")) {
        return Ok(vec![PartSummary::of_images("all", &arrays::images(set, pixels, labels)?)]);
    }
    if let (Some(features), Some(targets)) = (get("features"), get("targets")) {
        return Ok(vec![PartSummary::of_table(&arrays::table(set, features, targets)?)]);
    }
    Ok(vec![])
}
