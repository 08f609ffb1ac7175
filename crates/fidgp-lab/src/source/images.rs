//! Images on the device, as bytes; a batch is normalised (and in training augmented) when it is asked for.

use std::ops::Range;

use fidgp::Key;
use fidgp_data::Images;
use tch::{Device, Kind, Tensor};

use super::{Chunks, ImageSet, Source, augment::crop_and_flip_part, prepare};
use crate::config::Augment;
use crate::error::Result;
use crate::model::Normalisation;

/// A set of images with labels.
#[derive(Debug)]
pub struct ImageSource {
    /// `[N, C, H, W]`, bytes.
    pub pixels: Tensor,
    /// `[N]`
    pub labels: Tensor,
    augment: Augment,
    normalisation: Normalisation,
}

impl ImageSource {
    /// Moves images to the device.
    pub fn new(images: &Images, augment: Augment, normalisation: &Normalisation, device: Device) -> Self {
        let [c, h, w] = images.size().map(|size| size as i64);
        let labels: Vec<i64> = images.labels().iter().map(|&label| i64::from(label)).collect();
        Self {
            pixels: Tensor::from_slice(images.pixels()).view([-1, c, h, w]).to_device(device),
            labels: Tensor::from_slice(&labels).to_device(device),
            augment,
            normalisation: normalisation.share(),
        }
    }
}

impl Source for ImageSource {
    fn len(&self) -> usize {
        self.labels.size()[0] as usize
    }

    fn batch(&self, rows: &Tensor, augment: Option<Key>) -> Result<(Tensor, Tensor)> {
        self.part(rows, augment, 0..rows.size()[0])
    }

    fn part(&self, rows: &Tensor, augment: Option<Key>, part: Range<i64>) -> Result<(Tensor, Tensor)> {
        let (batch, first) = (rows.size()[0], part.start);
        let rows = rows.f_narrow(0, first, part.end - first)?;
        let pixels = self.pixels.f_index_select(0, &rows)?.to_kind(Kind::Float);
        let pixels = match (self.augment, augment) {
            (Augment::CropFlip, Some(key)) => crop_and_flip_part(&pixels, key, (batch, first)),
            _ => pixels,
        };
        Ok((prepare(&self.normalisation, &pixels), self.labels.f_index_select(0, &rows)?))
    }
}

impl ImageSet for ImageSource {
    /// One chunk: everything is in memory anyway, so weights are drawn once for the whole set.
    fn some_chunks(&self, size: usize, batches: Range<usize>) -> Chunks<'_> {
        let (from, to) = (batches.start * size, (batches.end * size).min(self.len()));
        let some = |all: &Tensor| all.narrow(0, from as i64, to as i64 - from as i64);
        let parts = some(&self.pixels).split(size as i64, 0);
        let batches = parts.iter().map(|part| prepare(&self.normalisation, &part.to_kind(Kind::Float))).collect();
        Box::new(std::iter::once(Ok((batches, some(&self.labels)))))
    }
}
