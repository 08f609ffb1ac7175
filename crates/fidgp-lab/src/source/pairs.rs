//! Pictures with masks: on the device as bytes where they are of one size and fit, decoded when asked for elsewhere.

use std::ops::Range;

use fidgp::Key;
use fidgp::objective::VOID;
use fidgp_data::{Mask, PairSet, Picture};
use rayon::prelude::*;
use tch::{Device, Kind, Tensor};

use super::{Joint, Source, prepare};
use crate::error::Result;
use crate::model::Normalisation;

/// Sets of at most so many bytes are held in memory.
const MOST_BYTES: usize = 4 << 30;
/// Masks that are looked at to count the pixels of a set that is not held.
const SAMPLE: usize = 100;

/// Pictures with masks as a network sees them.
#[derive(Debug)]
pub struct PairSource {
    set: PairSet,
    held: Option<Held>,
    joint: Joint,
    normalisation: Normalisation,
    device: Device,
    labelled: usize,
}

/// All pictures and masks, as bytes.
#[derive(Debug)]
struct Held {
    /// `[N, 3, H, W]`
    pictures: Tensor,
    /// `[N, H, W]`
    masks: Tensor,
}

/// A picture and its mask on the device. `[1, 3, H, W]`, `[1, H, W]`, bytes.
type Loaded = (Tensor, Tensor);

impl PairSource {
    /// Reads the set, or as much of it as is needed to count its pixels.
    ///
    /// # Errors
    /// When a file is damaged, or a mask does not fit; the message names it.
    pub fn new(set: PairSet, joint: Joint, normalisation: &Normalisation, device: Device) -> Result<Self> {
        let step = set.rows().div_ceil(SAMPLE).max(1);
        let sample: Vec<_> = (0..set.rows()).step_by(step).collect();
        let sample = sample.into_par_iter().map(|row| set.load(row)).collect::<fidgp_data::Result<Vec<_>>>()?;
        let [width, height] = sample.first().map_or([0, 0], |(picture, _)| picture.size());
        let bytes = 4 * set.rows() * (width * height) as usize;
        let same = |(picture, _): &(Picture, Mask)| picture.size() == [width, height];
        let share = |(_, mask): &(Picture, Mask)| labelled(&mask.ids);
        let counted: usize = sample.iter().map(share).sum();
        let mut labelled = (counted as f64 / sample.len().max(1) as f64 * set.rows() as f64) as usize;
        let mut held = None;
        if bytes <= MOST_BYTES && sample.iter().all(same) {
            held = hold(&set, [width, height], device)?;
            if let Some(held) = &held {
                labelled = held.masks.ne(VOID).sum(Kind::Int64).int64_value(&[]) as usize;
            }
        }
        Ok(Self { set, held, joint, normalisation: normalisation.share(), device, labelled })
    }

    /// Names of the pictures, in order.
    pub fn names(&self) -> Vec<String> {
        let name =
            |pair: &fidgp_data::Pair| pair.picture.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        self.set.pairs.iter().map(name).collect()
    }

    /// How many batches of at most so many pictures the set has.
    pub fn batches(&self, size: usize) -> usize {
        self.set.rows().div_ceil(self.together(size))
    }

    /// Pictures in a batch: those on disk may be of different sizes, and come one by one.
    fn together(&self, size: usize) -> usize {
        if self.held.is_some() { size.max(1) } else { 1 }
    }

    /// Whole pictures, normalised, and their masks, in order: batches of at most `size` of one size.
    pub fn whole(&self, size: usize) -> impl Iterator<Item = Result<(Tensor, Tensor)>> + '_ {
        let rows: Vec<usize> = (0..self.set.rows()).collect();
        let parts: Vec<Vec<usize>> = rows.chunks(self.together(size)).map(<[usize]>::to_vec).collect();
        parts.into_iter().map(move |rows| {
            let (pictures, masks) = match &self.held {
                Some(held) => {
                    let (first, count) = (rows[0] as i64, rows.len() as i64);
                    (held.pictures.narrow(0, first, count), held.masks.narrow(0, first, count))
                }
                None => self.load(rows[0])?,
            };
            Ok((prepare(&self.normalisation, &pictures.to_kind(Kind::Float)), masks.to_kind(Kind::Int64)))
        })
    }

    /// One picture as bytes, for drawing. `[3, H, W]`
    ///
    /// # Errors
    /// When the file is damaged.
    pub fn picture(&self, row: usize) -> Result<Tensor> {
        Ok(match &self.held {
            Some(held) => held.pictures.get(row as i64),
            None => self.load(row)?.0.get(0),
        })
    }

    fn load(&self, row: usize) -> Result<Loaded> {
        let (picture, mask) = self.set.load(row)?;
        let [width, height] = picture.size().map(i64::from);
        let pixels = Tensor::from_slice(&picture.planar()).view([1, 3, height, width]);
        let ids = Tensor::from_slice(&mask.ids).view([1, height, width]);
        Ok((pixels.to_device(self.device), ids.to_device(self.device)))
    }
}

fn labelled(ids: &[u8]) -> usize {
    ids.iter().filter(|id| i64::from(**id) != VOID).count()
}

/// Decodes everything; nothing where a picture has another size.
fn hold(set: &PairSet, size: [u32; 2], device: Device) -> Result<Option<Held>> {
    let decoded = (0..set.rows()).into_par_iter().map(|row| {
        let (picture, mask) = set.load(row)?;
        Ok((picture.size() == size).then(|| (picture.planar(), mask.ids)))
    });
    let Some(decoded) = decoded.collect::<fidgp_data::Result<Option<Vec<_>>>>()? else { return Ok(None) };
    let [width, height] = size.map(i64::from);
    let (pictures, masks): (Vec<_>, Vec<_>) = decoded.into_iter().unzip();
    let to = |bytes: Vec<Vec<u8>>, shape: &[i64]| Tensor::from_slice(&bytes.concat()).view(shape).to_device(device);
    Ok(Some(Held { pictures: to(pictures, &[-1, 3, height, width]), masks: to(masks, &[-1, height, width]) }))
}

impl Source for PairSource {
    fn len(&self) -> usize {
        self.set.rows()
    }

    /// Pixels that have a class: the likelihood takes them as independent given the weights.
    fn observations(&self) -> usize {
        self.labelled
    }

    fn batch(&self, rows: &Tensor, augment: Option<Key>) -> Result<(Tensor, Tensor)> {
        self.part(rows, augment, 0..rows.size()[0])
    }

    fn part(&self, rows: &Tensor, augment: Option<Key>, part: Range<i64>) -> Result<(Tensor, Tensor)> {
        let (batch, first) = (rows.size()[0], part.start);
        let rows = rows.f_narrow(0, first, part.end - first)?;
        let outside = self.normalisation.statistics().0 * 255.0;
        let (pictures, masks) = if let Some(held) = &self.held {
            let (pictures, masks) = (held.pictures.f_index_select(0, &rows)?, held.masks.f_index_select(0, &rows)?);
            self.joint.apply_to_part((&pictures, &masks), &outside, augment, (batch, first))
        } else {
            let rows = Vec::<i64>::try_from(rows.to_device(Device::Cpu))?;
            let set = &self.set;
            let decoded = rows.into_par_iter().map(|row| set.load(row as usize));
            let decoded = decoded.collect::<fidgp_data::Result<Vec<_>>>()?;
            let one = |(place, (picture, mask)): (usize, (Picture, Mask))| {
                let [width, height] = picture.size().map(i64::from);
                let pixels = Tensor::from_slice(&picture.planar()).view([1, 3, height, width]).to_device(self.device);
                let ids = Tensor::from_slice(&mask.ids).view([1, height, width]).to_device(self.device);
                self.joint.apply(&pixels, &ids, &outside, augment.map(|key| key.at(first as u64 + place as u64)))
            };
            let (pictures, masks): (Vec<_>, Vec<_>) = decoded.into_iter().enumerate().map(one).unzip();
            (Tensor::f_cat(&pictures, 0)?, Tensor::f_cat(&masks, 0)?)
        };
        Ok((prepare(&self.normalisation, &pictures), masks))
    }
}
