//! A folder of pictures in one folder per class, as ImageNet is kept: `root/<class>/*.{jpg,jpeg,png,webp}`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use fidgp_files::limits::FOLDERS;
use rayon::prelude::*;

use super::Picture;
use crate::{Error, Result, digest::sha256, listing};

const EXTENSIONS: [&str; 4] = ["jpg", "jpeg", "png", "webp"];

/// Is told how many pictures of how many are looked at, from several threads.
pub type Watch<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// The list of pictures; each is decoded when asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFolder {
    root: PathBuf,
    class_names: Vec<String>,
    files: Vec<PathBuf>,
    labels: Vec<u32>,
}

impl ImageFolder {
    /// Lists `root`: classes sorted by name, pictures sorted by name inside a class.
    pub fn open(root: &Path) -> Result<Self> {
        let mut folder = Self { root: root.into(), class_names: vec![], files: vec![], labels: vec![] };
        for class in listing::folders(root)? {
            folder.add_class(&class)?;
        }
        if folder.class_names.is_empty() {
            return Err(Error::file(root, "holds no class folders", "put pictures into one folder per class"));
        }
        Ok(folder)
    }

    fn add_class(&mut self, class: &Path) -> Result<()> {
        let pictures = pictures(class)?;
        if pictures.is_empty() {
            let advice = "each class folder needs .jpg, .jpeg, .png or .webp files directly inside";
            return Err(Error::file(class, "holds no pictures", advice));
        }
        let label = self.class_names.len() as u32;
        self.labels.extend(pictures.iter().map(|_| label));
        self.files.extend(pictures);
        self.class_names.push(listing::name(class));
        Ok(())
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// How many pictures there are.
    pub fn rows(&self) -> usize {
        self.files.len()
    }

    /// The file of every picture, `[rows]`.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The class of every picture, `[rows]`.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// The names of the classes: their folders.
    pub fn class_names(&self) -> &[String] {
        &self.class_names
    }

    /// How many pictures each class has, `[classes]`.
    pub fn class_counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.class_names.len()];
        self.labels.iter().for_each(|&label| counts[label as usize] += 1);
        counts
    }

    /// The SHA-256 of the pictures' places below the root, in order: classes and names, not contents.
    pub fn fingerprint(&self) -> String {
        let below = |file: &PathBuf| file.strip_prefix(&self.root).unwrap_or(file).display().to_string() + "\n";
        sha256(self.files.iter().map(below).collect::<String>().as_bytes())
    }

    /// The rows named, in the order named; classes stay as they are.
    pub fn select(&self, rows: &[usize]) -> Result<Self> {
        if let Some(row) = rows.iter().find(|&&row| row >= self.rows()) {
            return Err(self.no_such(*row));
        }
        let files = rows.iter().map(|&row| self.files[row].clone()).collect();
        let labels = rows.iter().map(|&row| self.labels[row]).collect();
        Ok(Self { root: self.root.clone(), class_names: self.class_names.clone(), files, labels })
    }

    fn no_such(&self, row: usize) -> Error {
        let problem = format!("picture {row} was asked for, there are {}", self.rows());
        Error::file(&self.root, problem, "use a split that was made for this folder")
    }

    /// Decodes picture `row`.
    pub fn decode(&self, row: usize) -> Result<Picture> {
        Picture::open(self.files.get(row).ok_or_else(|| self.no_such(row))?)
    }

    /// Decodes every picture, on all cores, and hands each to `look`; `watch` is told after each how many are done.
    ///
    /// # Errors
    /// [`Error::Several`], which names every picture that is damaged.
    pub fn survey<T: Send>(&self, look: impl Fn(&Picture) -> T + Sync, watch: Watch) -> Result<Vec<T>> {
        let done = AtomicUsize::new(0);
        let open = |file: &PathBuf| {
            let seen = Picture::open(file).map(|picture| look(&picture));
            watch(done.fetch_add(1, Ordering::Relaxed) + 1, self.rows());
            seen
        };
        let all: Vec<Result<T>> = self.files.par_iter().map(open).collect();
        let (mut sound, mut faults) = (Vec::with_capacity(all.len()), Vec::new());
        for seen in all {
            match seen {
                Ok(value) => sound.push(value),
                Err(fault) => faults.push(fault),
            }
        }
        if faults.is_empty() {
            return Ok(sound);
        }
        let what = format!("{} pictures", self.rows());
        Err(Error::Several { folder: self.root.clone(), what, faults })
    }
}

/// The pictures inside a folder and the folders in it, folder by folder, each sorted.
///
/// # Errors
/// When a folder cannot be read, or they go deeper than any meaning has.
pub fn pictures_below(folder: &Path) -> Result<Vec<PathBuf>> {
    below(folder, 0)
}

fn below(folder: &Path, depth: u64) -> Result<Vec<PathBuf>> {
    if FOLDERS.check(depth).is_err() {
        let advice = "is it a link to a folder above it? name the folders themselves";
        return Err(Error::file(folder, "lies too deep", advice));
    }
    let mut found = pictures(folder)?;
    for inner in listing::folders(folder)? {
        found.extend(below(&inner, depth + 1)?);
    }
    Ok(found)
}

/// The pictures directly inside a folder, sorted.
pub fn pictures(folder: &Path) -> Result<Vec<PathBuf>> {
    listing::files(folder, |name| EXTENSIONS.contains(&listing::extension(Path::new(name)).as_str()))
}
