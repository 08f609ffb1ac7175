//! Pictures on disk; batches are decoded by background threads while the network computes.

use std::cell::RefCell;

use fidgp::Key;
use tch::{Device, Kind, Tensor};

use super::loader::{Block, Decoder, Job, Loader};
use super::{Chunks, ImageSet, Source, prepare};
use crate::error::{LabError, Result};
use crate::model::Normalisation;

/// Pictures in one folder per class.
pub struct FolderSource {
    decoder: Decoder,
    normalisation: Normalisation,
    device: Device,
    /// The batches that were announced.
    announced: RefCell<Option<Loader>>,
}

impl FolderSource {
    /// Pictures for a device.
    pub fn new(decoder: Decoder, normalisation: &Normalisation, device: Device) -> Self {
        Self { decoder, normalisation: normalisation.share(), device, announced: RefCell::new(None) }
    }

    fn tensors(&self, block: &Block) -> (Tensor, Tensor) {
        let (channels, side) = (self.decoder.view.channels as i64, i64::from(self.decoder.view.crop));
        let pixels = Tensor::from_slice(&block.pixels).view([-1, channels, side, side]).to_device(self.device);
        let labels = Tensor::from_slice(&block.labels).to_device(self.device);
        (prepare(&self.normalisation, &pixels.to_kind(Kind::Float)), labels)
    }
}

fn numbers(rows: &Tensor) -> Result<Vec<usize>> {
    Ok(Vec::<i64>::try_from(rows.to_device(Device::Cpu))?.into_iter().map(|row| row as usize).collect())
}

impl Source for FolderSource {
    fn len(&self) -> usize {
        self.decoder.folder.rows()
    }

    fn announce(&self, batches: &[Tensor], key: &dyn Fn(u64) -> Key) -> Result<()> {
        let job = |(index, rows)| Ok(Job { rows: numbers(rows)?, key: Some(key(index)) });
        let jobs = (0..).zip(batches).map(job).collect::<Result<Vec<_>>>()?;
        *self.announced.borrow_mut() = Some(self.decoder.load(jobs));
        Ok(())
    }

    fn batch(&self, rows: &Tensor, augment: Option<Key>) -> Result<(Tensor, Tensor)> {
        let mut announced = self.announced.borrow_mut();
        let next = announced.as_mut().filter(|loader| augment.is_some() && loader.next_key() == augment);
        let block = match next.and_then(Iterator::next) {
            Some(block) => block?,
            None => self.decoder.decode(Job { rows: numbers(rows)?, key: augment })?,
        };
        Ok(self.tensors(&block))
    }
}

impl ImageSet for FolderSource {
    fn chunks(&self, size: usize) -> Chunks<'_> {
        let rows: Vec<usize> = (0..self.len()).collect();
        let jobs: Vec<_> = rows.chunks(size).map(|rows| Job { rows: rows.to_vec(), key: None }).collect();
        Box::new(self.decoder.load(jobs).map(|block| {
            let (x, labels) = self.tensors(&block?);
            Ok::<_, LabError>((vec![x], labels))
        }))
    }
}
