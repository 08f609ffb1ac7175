//! Images on the device, as bytes; a batch is normalised (and in training augmented) when it is asked for.

use fidgp::Key;
use fidgp_data::Images;
use tch::{Device, Kind, Tensor};

use super::{Augment, Source, crop_and_flip};
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

    /// Normalised, and on CUDA with channels last, the order its convolutions are fastest in.
    fn prepare(&self, pixels: &Tensor) -> Tensor {
        let x = self.normalisation.apply(pixels);
        if x.device().is_cuda() { x.permute([0, 2, 3, 1]).contiguous().permute([0, 3, 1, 2]) } else { x }
    }

    /// All images in normalised batches of at most `size`.
    pub fn batches(&self, size: usize) -> Vec<Tensor> {
        self.pixels.split(size as i64, 0).iter().map(|part| self.prepare(&part.to_kind(Kind::Float))).collect()
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
        Ok((self.prepare(&pixels), self.labels.f_index_select(0, rows)?))
    }
}
