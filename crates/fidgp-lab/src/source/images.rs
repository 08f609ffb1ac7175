//! Images on the device, as bytes; a batch is normalised (and in training augmented) when it is asked for.

use fidgp::Key;
use fidgp_data::Images;
use tch::{Device, Kind, Tensor};

use super::{Chunks, ImageSet, Source, crop_and_flip, prepare};
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
        let pixels = self.pixels.f_index_select(0, rows)?.to_kind(Kind::Float);
        let pixels = match (self.augment, augment) {
            (Augment::CropFlip, Some(key)) => crop_and_flip(&pixels, key),
            _ => pixels,
        };
        Ok((prepare(&self.normalisation, &pixels), self.labels.f_index_select(0, rows)?))
    }
}

impl ImageSet for ImageSource {
    /// One chunk: everything is in memory anyway, so weights are drawn once for the whole set.
    fn chunks(&self, size: usize) -> Chunks<'_> {
        let parts = self.pixels.split(size as i64, 0);
        let batches = parts.iter().map(|part| prepare(&self.normalisation, &part.to_kind(Kind::Float))).collect();
        Box::new(std::iter::once(Ok((batches, self.labels.shallow_clone()))))
    }
}
