use std::path::Path;

use crate::error::Result;
use crate::record::{EPOCHS_FILE, EpochRecord, EpochWriter};
use crate::train::Watch;

/// Passes everything on to another watch and writes every epoch to `metrics.jsonl`.
pub struct Logged<'a> {
    writer: EpochWriter,
    inner: &'a mut dyn Watch,
}

impl<'a> Logged<'a> {
    /// Goes on with the log of a run, or begins one.
    pub fn new(run: &Path, resume: bool, inner: &'a mut dyn Watch) -> Result<Self> {
        let path = run.join(EPOCHS_FILE);
        let writer = if resume { EpochWriter::append_to(&path)? } else { EpochWriter::create(&path)? };
        Ok(Self { writer, inner })
    }
}

impl Watch for Logged<'_> {
    fn step(&mut self, epoch: u64, step: u64, steps: u64, loss: f64) {
        self.inner.step(epoch, step, steps, loss);
    }

    fn epoch(&mut self, record: &EpochRecord) {
        if let Err(error) = self.writer.append(record) {
            tracing::warn!(%error, "an epoch could not be logged");
        }
        let EpochRecord { epoch, loss, nll, kl_inducing, kl_conditional, beta, seconds, .. } = record;
        tracing::info!(epoch, loss, nll, kl_inducing, kl_conditional, beta, seconds);
        self.inner.epoch(record);
    }

    fn says(&mut self, what: &str) {
        self.inner.says(what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Counted(usize);

    impl Watch for Counted {
        fn step(&mut self, _: u64, _: u64, _: u64, _: f64) {}
        fn epoch(&mut self, _: &EpochRecord) {
            self.0 += 1;
        }
    }

    /// The epoch log is a convenience: where it cannot be written the run goes on.
    #[test]
    fn a_log_that_cannot_be_written_ends_nothing() {
        let place = tempfile::tempdir().unwrap();
        let (run, mut counted) = (place.path().join("run"), Counted::default());
        let mut logged = Logged::new(&run, false, &mut counted).unwrap();
        let record = EpochRecord { epoch: 1, ..EpochRecord::default() };
        logged.epoch(&record);
        std::fs::remove_dir_all(&run).unwrap();
        std::fs::write(&run, "in its place").unwrap();
        assert!(logged.writer.append(&record).is_err());
        logged.epoch(&record);
        assert_eq!(counted.0, 2);
    }
}
