//! Pictures with masks, in the layouts that are in use.

use std::path::{Path, PathBuf};

use super::{MaskReading, Pair, PairSet, VOID, street};
use crate::{Error, Result, listing, pictures as pictures_in};

/// Which part of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Portion {
    /// For fitting.
    Train,
    /// For choosing.
    Validation,
    /// For reporting.
    Test,
}

impl Portion {
    /// `train`, `val` or `test`: how folders are called.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "val",
            Self::Test => "test",
        }
    }
}

/// Stands for [`Portion::folder`] in a folder's name.
pub const PORTION: &str = "{part}";

/// CamVid as SegNet keeps it: `train/*.png` with `trainannot/*.png`, ids 0–10, 11 for void; the same for `val` and `test`.
///
/// # Errors
/// When a folder or one of a pair is missing.
pub fn segnet(root: &Path, portion: Portion) -> Result<PairSet> {
    let names: Vec<String> = street::CAMVID.iter().map(|name| (*name).to_owned()).collect();
    masks(root, ["{part}", "{part}annot"], portion, names, &[11])
}

/// Pictures in one folder and index masks of the same names in another; `{part}` in a folder's name is train, val or test.
///
/// # Errors
/// When a folder or one of a pair is missing, or there are too many classes for a byte.
pub fn masks(
    root: &Path,
    folders: [&str; 2],
    portion: Portion,
    class_names: Vec<String>,
    void: &[u8],
) -> Result<PairSet> {
    if class_names.is_empty() || class_names.len() > usize::from(VOID) {
        let problem = format!("{} classes", class_names.len());
        return Err(Error::value("segmentation", problem, "a mask of bytes has 1 to 255 classes"));
    }
    let [pictures, masks] = folders.map(|folder| root.join(folder.replace(PORTION, portion.folder())));
    let reading = MaskReading::Indices(street::plain_ids(class_names.len(), void));
    Ok(PairSet { pairs: pairs(&pictures, &masks, |stem| format!("{stem}.png"))?, reading, class_names })
}

/// CamVid as its authors distribute it: `701_StillsRaw_full/NAME.png` with the colours of `LabeledApproved_full/NAME_L.png`,
/// cut into SegNet's parts; its 32 labels become SegNet's eleven classes. Pictures and labels are 960×720.
///
/// # Errors
/// When a folder or one of a pair is missing.
pub fn camvid(root: &Path, portion: Portion) -> Result<PairSet> {
    let (pictures, masks) = (root.join("701_StillsRaw_full"), root.join("LabeledApproved_full"));
    let mut pairs = pairs(&pictures, &masks, |stem| format!("{stem}_L.png"))?;
    pairs.retain(|pair| camvid_portion(&stem(&pair.picture)) == portion);
    let class_names = street::CAMVID.iter().map(|name| (*name).to_owned()).collect();
    Ok(PairSet { class_names, reading: MaskReading::Colours(street::camvid_colours()), pairs })
}

/// The part SegNet's authors put a frame into: 367, 101 and 233 of the 701.
fn camvid_portion(stem: &str) -> Portion {
    let (sequence, frame) = stem.split_once('_').unwrap_or((stem, ""));
    let frame: u32 = frame.trim_start_matches('f').parse().unwrap_or(0);
    match sequence {
        "Seq05VD" => Portion::Test,
        "0001TP" if frame >= 8550 => Portion::Test,
        "0016E5" if (7959..=8159).contains(&frame) && frame % 2 == 1 => Portion::Validation,
        _ => Portion::Train,
    }
}

/// Cityscapes: `leftImg8bit/<part>/<city>/*_leftImg8bit.png` with `gtFine/<part>/<city>/*_gtFine_labelIds.png`, or
/// `…labelTrainIds.png` where its scripts have made them.
///
/// # Errors
/// When a folder or one of a pair is missing.
pub fn cityscapes(root: &Path, portion: Portion) -> Result<PairSet> {
    let place = |kind: &str| root.join(kind).join(portion.folder());
    let (pictures, masks) = (place("leftImg8bit"), place("gtFine"));
    let (mut all, mut train_ids) = (Vec::new(), None);
    for city in listing::folders(&pictures)? {
        let masks = masks.join(listing::name(&city));
        let use_train_ids = *train_ids.get_or_insert_with(|| {
            listing::files(&masks, |name| name.ends_with("_labelTrainIds.png")).is_ok_and(|found| !found.is_empty())
        });
        let ending = if use_train_ids { "gtFine_labelTrainIds.png" } else { "gtFine_labelIds.png" };
        all.extend(pairs(&city, &masks, |stem| format!("{}{ending}", stem.trim_end_matches("leftImg8bit")))?);
    }
    if all.is_empty() {
        return Err(Error::file(&pictures, "holds no cities", "unpack leftImg8bit_trainvaltest.zip there"));
    }
    let class_names = street::cityscapes_names();
    let table = match train_ids {
        Some(true) => street::plain_ids(class_names.len(), &[VOID]),
        _ => street::cityscapes_ids(),
    };
    Ok(PairSet { reading: MaskReading::Indices(table), class_names, pairs: all })
}

fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Every picture of a folder with its mask; a mask without a picture is missing one too.
fn pairs(pictures: &Path, masks: &Path, mask_of: impl Fn(&str) -> String) -> Result<Vec<Pair>> {
    let found = pictures_in(pictures)?;
    if found.is_empty() {
        return Err(Error::file(pictures, "holds no pictures", "put .png, .jpg or .webp files there"));
    }
    let mut there: std::collections::BTreeSet<PathBuf> = pictures_in(masks)?.into_iter().collect();
    let mut all = Vec::with_capacity(found.len());
    for picture in found {
        let mask = masks.join(mask_of(&stem(&picture)));
        if !mask.is_file() {
            let problem = format!("has no mask: {} is missing", mask.display());
            return Err(Error::file(&picture, problem, "every picture needs a mask; remove it or add the mask"));
        }
        there.remove(&mask);
        all.push(Pair { picture, mask });
    }
    let ending = mask_of("");
    let mut lonely = there.into_iter().filter(|mask| listing::name(mask).ends_with(&ending));
    match lonely.next() {
        Some(mask) => {
            let problem = format!("has no picture in {}", pictures.display());
            Err(Error::file(&mask, problem, "every mask needs a picture; remove it or add the picture"))
        }
        None => Ok(all),
    }
}
