//! The sets that are compared, all brought to the model's size in one and the same way.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use fidgp::Key;
use fidgp_data::{ImageFolder, Images, Part, Picture, array_folder, catalogue, pictures, split};
use tch::{Device, Kind, Tensor};

use crate::error::{LabError, Result};
use crate::source::View;

/// Sets that are made, not read.
pub const NOISE: &str = "noise";
/// Pixel means of two ID training images of different classes.
pub const MIXED: &str = "mixed";

/// As at night: dark, bluish, with the noise of a sensor.
pub const NIGHT: &str = "night";
/// Out of focus: the mean of 9×9 pixels.
pub const BLURRED: &str = "blurred";
/// Gaussian noise on every pixel, a tenth of the range.
pub const NOISY: &str = "noisy";
/// As in fog: contrast falls towards a light grey.
pub const FOG: &str = "fog";

/// Names of all alterations.
pub const ALTERATIONS: [&str; 4] = [NIGHT, BLURRED, NOISY, FOG];

/// Images as bytes, before normalisation.
#[derive(Debug)]
pub struct PixelSet {
    /// The name in tables and files.
    pub name: String,
    /// Bytes. `[N, C, side, side]`
    pub pixels: Tensor,
    /// The class of every image; empty where nobody needs it.
    pub labels: Vec<i64>,
    /// Size and colour before the resize: what a trivial detector could look at.
    pub native: String,
}

/// How a set is cut: at most so many images, picked by a seeded permutation.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// The most images taken.
    pub limit: usize,
    /// Seed of the choice.
    pub seed: u64,
}

impl Cut {
    /// The rows taken of n, in order.
    fn rows(self, n: usize) -> Vec<usize> {
        if n <= self.limit {
            return (0..n).collect();
        }
        let mut rows = split::epoch_order(n, self.seed, 0);
        rows.truncate(self.limit);
        rows.sort_unstable();
        rows
    }
}

/// Whether all images of a set are read at once: those of the catalogue, and arrays.
pub fn in_memory(name: &str) -> bool {
    catalogue::find(name).is_ok() || array_folder::is_there(Path::new(name))
}

/// Whether a set can be read, or made of the ID set, before anybody waits for a training.
///
/// # Errors
/// As [`read`], as far as that shows without a look at every picture of a folder.
pub fn check(root: &Path, name: &str) -> Result<()> {
    if ALTERATIONS.contains(&name) {
        return Ok(());
    }
    if catalogue::find(name).is_ok() {
        catalogue::images(root, name, Part::Test)?;
        return Ok(());
    }
    if array_folder::is_there(Path::new(name)) { Ok(()) } else { is_folder(Path::new(name)) }
}

/// Reads a set by its name in the catalogue, or a folder of arrays or of pictures.
///
/// # Errors
/// When it is neither, or a file is missing or broken; the message names it.
pub fn read(root: &Path, name: &str, part: Part, view: View, cut: Cut) -> Result<PixelSet> {
    let set = if catalogue::find(name).is_ok() {
        of_images(&catalogue::images(root, name, part)?, name, view, cut)?
    } else if array_folder::is_there(Path::new(name)) {
        of_images(&array_folder::part(Path::new(name), part, 0)?, &shown_name(name), view, cut)?
    } else {
        of_folder(Path::new(name), part, view, cut)?
    };
    if set.pixels.size()[0] == 0 {
        return Err(LabError::config(name, "holds no images: there is nothing to score"));
    }
    Ok(set)
}

fn of_images(images: &Images, name: &str, view: View, cut: Cut) -> Result<PixelSet> {
    let [channels, height, width] = images.size();
    if !matches!(channels, 1 | 3) {
        return Err(LabError::config(name, format!("has {channels} channels; grey (1) and colour (3) are scored")));
    }
    let rows = cut.rows(images.rows());
    let seen = rows.iter().map(|&row| view.centre(&picture(images.image(row), images.size())?));
    let native = format!("{width}×{height} {}", if channels == 1 { "grey" } else { "colour" });
    let labels = rows.iter().map(|&row| i64::from(images.labels()[row])).collect();
    of_pixels(name, &seen.collect::<Result<Vec<_>>>()?, labels, native, view)
}

/// Planar bytes as a picture; brightness becomes red, green and blue.
fn picture(image: &[u8], [channels, height, width]: [usize; 3]) -> Result<Picture> {
    let plane = height * width;
    let channel = |c: usize| &image[(c % channels) * plane..(c % channels + 1) * plane];
    let rgb = (0..plane).flat_map(|i| [channel(0)[i], channel(1)[i], channel(2)[i]]).collect();
    let why = || LabError::config("image", format!("of {channels}×{height}×{width} has another number of bytes"));
    Picture::from_rgb(width as u32, height as u32, rgb).ok_or_else(why)
}

/// The name of a set in tables and files: of a folder its last part.
pub fn shown_name(set: &str) -> String {
    Path::new(set).file_name().map_or_else(|| set.to_owned(), |name| name.to_string_lossy().into())
}

fn is_folder(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let why = "is neither a known set nor a folder of pictures or arrays; `fidgp data` lists the known ones";
    Err(LabError::config(folder.display().to_string(), why))
}

fn of_folder(folder: &Path, part: Part, view: View, cut: Cut) -> Result<PixelSet> {
    let name = shown_name(&folder.display().to_string());
    is_folder(folder)?;
    let (files, labels) = files_of(folder, part)?;
    let rows = cut.rows(files.len());
    let seen = rows.iter().map(|&row| view.centre(&Picture::open(&files[row])?)).collect::<Result<Vec<_>>>()?;
    let ending = |file: &PathBuf| file.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default();
    let endings: std::collections::BTreeSet<String> = files.iter().map(ending).collect();
    let native = format!("pictures ({})", endings.into_iter().collect::<Vec<_>>().join(", "));
    let labels = rows.iter().filter_map(|&row| labels.get(row).copied()).collect();
    of_pixels(&name, &seen, labels, native, view)
}

/// Pictures directly inside, or by class; below `train/` and `val/` where the folder has them.
fn files_of(folder: &Path, part: Part) -> Result<(Vec<PathBuf>, Vec<i64>)> {
    let test = if folder.join("trainannot").is_dir() { "test" } else { "val" }; // SegNet's layout has a test part
    let inside = folder.join(if part == Part::Train { "train" } else { test });
    let folder = if inside.is_dir() { &inside } else { folder };
    let direct = pictures(folder)?;
    if !direct.is_empty() {
        return Ok((direct, Vec::new()));
    }
    let classes = ImageFolder::open(folder)?;
    Ok((classes.files().to_vec(), classes.labels().iter().map(|&label| i64::from(label)).collect()))
}

fn of_pixels(name: &str, seen: &[Vec<u8>], labels: Vec<i64>, native: String, view: View) -> Result<PixelSet> {
    let (rows, side) = (seen.len() as i64, i64::from(view.crop));
    let pixels = Tensor::from_slice(&seen.concat()).f_reshape([rows, view.channels as i64, side, side])?;
    Ok(PixelSet { name: name.to_owned(), pixels, labels, native })
}

/// Gaussian pixels with the mean and deviation of each channel of the given images.
pub fn noise(like: &Tensor, count: i64, seed: u64) -> PixelSet {
    let x = like.to_kind(Kind::Float);
    let mean = x.mean_dim([0_i64, 2, 3].as_slice(), true, Kind::Float);
    let sd = (&x - &mean).square().mean_dim([0_i64, 2, 3].as_slice(), true, Kind::Float).sqrt();
    let shape = [count, x.size()[1], x.size()[2], x.size()[3]];
    let drawn = Key::new(seed).fold(NOISE).normal(&shape, Kind::Float, Device::Cpu) * sd + mean;
    made(NOISE, &drawn)
}

/// Pixel means of pairs of images of different classes.
pub fn mixed(images: &PixelSet, count: usize, seed: u64) -> PixelSet {
    let n = images.labels.len();
    let order = split::epoch_order(n, seed, 1);
    let pairs = (0..n).map(|i| (order[i], order[(i + n / 2) % n]));
    let different = pairs.filter(|&(a, b)| images.labels[a] != images.labels[b]).take(count);
    let (a, b): (Vec<i64>, Vec<i64>) = different.map(|(a, b)| (a as i64, b as i64)).unzip();
    let take = |rows: &[i64]| images.pixels.index_select(0, &Tensor::from_slice(rows)).to_kind(Kind::Float);
    made(MIXED, &((take(&a) + take(&b)) * 0.5))
}

fn made(name: &str, pixels: &Tensor) -> PixelSet {
    let pixels = pixels.round().clamp(0.0, 255.0).to_kind(Kind::Uint8);
    PixelSet { name: name.to_owned(), pixels, labels: Vec::new(), native: "made".to_owned() }
}

/// How many images of a set stand, pixel by pixel, among others.
pub fn duplicates(among: &Tensor, set: &Tensor) -> Result<usize> {
    let rows = |t: &Tensor| -> Result<(Vec<u8>, usize)> {
        let flat = t.to_device(Device::Cpu).contiguous().reshape([-1]);
        Ok((Vec::try_from(flat)?, t.numel() / (t.size()[0].max(1) as usize)))
    };
    let ((known, width), (asked, other)) = (rows(among)?, rows(set)?);
    let known: HashSet<&[u8]> = known.chunks_exact(width.max(1)).collect();
    Ok(asked.chunks_exact(other.max(1)).filter(|row| known.contains(row)).count())
}

/// Mean and deviation of the pixels of each image, on the scale where 255 is 1. `[N]`, `[N]`
pub fn pixel_moments(pixels: &Tensor) -> Result<(Vec<f64>, Vec<f64>)> {
    let (mut means, mut sds) = (Vec::new(), Vec::new());
    for part in pixels.split(1000, 0) {
        let x = part.to_kind(Kind::Double).reshape([part.size()[0], -1]) / 255.0;
        means.extend(Vec::<f64>::try_from(x.mean_dim(1, false, Kind::Double))?);
        sds.extend(Vec::<f64>::try_from(x.std_dim(1, false, false))?);
    }
    Ok((means, sds))
}
