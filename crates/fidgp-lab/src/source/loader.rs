//! Pictures decoded by background threads, a few batches ahead of the one that is asked for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use fidgp::Key;
use fidgp_data::ImageFolder;
use rayon::ThreadPool;

use super::View;
use crate::error::{LabError, Result};

/// Batches that are decoded before they are asked for.
const AHEAD: usize = 3;

/// Which pictures make a batch, and the key of its random crops; the middle of each without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Pictures of the folder.
    pub rows: Vec<usize>,
    /// The place of the first in its batch, where they are a part of one.
    pub first: u64,
    /// The key of the batch.
    pub key: Option<Key>,
}

/// A decoded batch.
#[derive(Debug)]
pub struct Block {
    /// `[N, channels, crop, crop]`, bytes.
    pub pixels: Vec<u8>,
    /// `[N]`
    pub labels: Vec<i64>,
}

/// A folder, its threads, and how its pictures are seen.
#[derive(Clone, Debug)]
pub struct Decoder {
    /// The pictures.
    pub folder: Arc<ImageFolder>,
    /// How they are seen.
    pub view: View,
    threads: Arc<ThreadPool>,
}

/// A batch whose pictures are on their way, each with its place.
struct Pending {
    job: Job,
    pictures: Receiver<(usize, Result<Vec<u8>>)>,
}

impl Decoder {
    /// A decoder with a thread for each core, or as many as this process is held to.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn new(folder: ImageFolder, view: View) -> Result<Self> {
        let threads = rayon::ThreadPoolBuilder::new()
            .num_threads(rayon::current_num_threads())
            .thread_name(|index| format!("decoder-{index}"));
        let threads = threads.panic_handler(|_| ()).build(); // whoever waits for the picture is told
        let threads = threads.map_err(|error| LabError::config("data", format!("no threads for decoding: {error}")))?;
        Ok(Self { folder: Arc::new(folder), view, threads: Arc::new(threads) })
    }

    fn begin(&self, job: Job) -> Pending {
        let (sender, pictures) = channel();
        for (place, &row) in job.rows.iter().enumerate() {
            let (folder, view, sender, key) = (Arc::clone(&self.folder), self.view, sender.clone(), job.key);
            let in_batch = job.first + place as u64;
            self.threads.spawn(move || {
                let seen = folder.decode(row).map_err(LabError::from).and_then(|picture| match key {
                    Some(key) => view.random(&picture, key.at(in_batch)),
                    None => view.centre(&picture),
                });
                let _ = sender.send((place, seen)); // nobody listens any more: the batch is not wanted
            });
        }
        Pending { job, pictures }
    }

    fn finish(&self, pending: Pending) -> Result<Block> {
        let Pending { job, pictures } = pending;
        let bytes = self.view.channels * (self.view.crop * self.view.crop) as usize;
        let mut pixels = vec![0; bytes * job.rows.len()];
        for _ in &job.rows {
            let (place, seen) =
                pictures.recv().map_err(|_| LabError::config("data", "a decoding thread has ended before its work"))?;
            pixels[place * bytes..(place + 1) * bytes].copy_from_slice(&seen?);
        }
        let labels = job.rows.iter().map(|&row| i64::from(self.folder.labels()[row])).collect();
        Ok(Block { pixels, labels })
    }

    /// One batch, now.
    ///
    /// # Errors
    /// When a picture is damaged; the message names it.
    pub fn decode(&self, job: Job) -> Result<Block> {
        self.finish(self.begin(job))
    }

    /// Batches in the order of the jobs; the first ones are begun at once.
    pub fn load(&self, jobs: impl IntoIterator<Item = Job>) -> Loader {
        let mut loader = Loader { decoder: self.clone(), jobs: jobs.into_iter().collect(), pending: VecDeque::new() };
        loader.fill();
        loader
    }
}

/// Batches in order, decoded ahead.
pub struct Loader {
    decoder: Decoder,
    jobs: VecDeque<Job>,
    pending: VecDeque<Pending>,
}

impl Loader {
    fn fill(&mut self) {
        while self.pending.len() < AHEAD
            && let Some(job) = self.jobs.pop_front()
        {
            self.pending.push_back(self.decoder.begin(job));
        }
    }

    /// What comes next.
    pub fn next_job(&self) -> Option<&Job> {
        self.pending.front().map(|pending| &pending.job).or(self.jobs.front())
    }
}

impl Iterator for Loader {
    type Item = Result<Block>;

    fn next(&mut self) -> Option<Self::Item> {
        self.fill();
        let pending = self.pending.pop_front()?;
        self.fill();
        Some(self.decoder.finish(pending))
    }
}
