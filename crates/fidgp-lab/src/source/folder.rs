//! Pictures on disk; batches are decoded by background threads while the network computes.

use std::cell::RefCell;
use std::ops::Range;

use fidgp::Key;
use tch::{Device, Kind, Tensor};

use super::loader::{Block, Decoder, Job, Loader};
use super::{Asked, Chunks, ImageSet, Source, prepare};
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

/// What is to be decoded of a batch.
fn job(rows: &Tensor, key: Option<Key>, part: &Range<i64>) -> Result<Job> {
    let own = rows.f_narrow(0, part.start, part.end - part.start)?;
    Ok(Job { rows: numbers(&own)?, first: part.start as u64, key })
}

impl Source for FolderSource {
    fn len(&self) -> usize {
        self.decoder.folder.rows()
    }

    fn announce(&self, parts: Vec<Asked>) -> Result<()> {
        let jobs = parts.into_iter().map(|Asked { rows, part, key }| job(&rows, Some(key), &part));
        let jobs = jobs.collect::<Result<Vec<_>>>()?;
        *self.announced.borrow_mut() = Some(self.decoder.load(jobs));
        Ok(())
    }

    fn batch(&self, rows: &Tensor, augment: Option<Key>) -> Result<(Tensor, Tensor)> {
        self.part(rows, augment, 0..rows.size()[0])
    }

    fn part(&self, rows: &Tensor, augment: Option<Key>, part: Range<i64>) -> Result<(Tensor, Tensor)> {
        let (mut announced, asked) = (self.announced.borrow_mut(), job(rows, augment, &part)?);
        let next = announced.as_mut().filter(|loader| augment.is_some() && loader.next_job() == Some(&asked));
        let block = match next.and_then(Iterator::next) {
            Some(block) => block?,
            None => self.decoder.decode(asked)?,
        };
        Ok(self.tensors(&block))
    }
}

impl ImageSet for FolderSource {
    fn some_chunks(&self, size: usize, batches: Range<usize>) -> Chunks<'_> {
        let rows: Vec<usize> = (batches.start * size..(batches.end * size).min(self.len())).collect();
        let jobs: Vec<_> = rows.chunks(size).map(|rows| Job { rows: rows.to_vec(), first: 0, key: None }).collect();
        Box::new(self.decoder.load(jobs).map(|block| {
            let (x, labels) = self.tensors(&block?);
            Ok::<_, LabError>((vec![x], labels))
        }))
    }
}
