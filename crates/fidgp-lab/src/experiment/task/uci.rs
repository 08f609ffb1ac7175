//! UCI regression on the standard splits, or on those with a gap: a task for each.

use std::path::Path;

use fidgp::Key;
use fidgp_data::split::Parts;
use fidgp_data::{Standardiser, uci};
use fidgp_metrics::names;

use super::{Divided, Regression, Task};
use crate::config::{DataConfig, RunConfig, UciSplits};
use crate::error::{LabError, Result};
use crate::evaluate;
use crate::model::Signature;
use crate::record::{MetricNotes, Metrics, Published};

/// A table and its divisions.
pub struct Uci {
    config: RunConfig,
    table: uci::Uci,
    name: String,
    splits: UciSplits,
    validation_fraction: f64,
}

impl Uci {
    /// Reads the table that a config names.
    ///
    /// # Errors
    /// When a file is missing or broken, or the config is of other data.
    pub fn read(config: &RunConfig, root: &Path) -> Result<Self> {
        let DataConfig::Uci { name, splits, validation_fraction, .. } = &config.data else {
            return Err(LabError::config("data.set", "must be \"uci\""));
        };
        let table = uci::Uci::read(&root.join("uci"), name)?;
        let (name, splits, validation_fraction) = (name.clone(), *splits, *validation_fraction);
        Ok(Self { config: config.clone(), table, name, splits, validation_fraction })
    }

    /// The rows of a split, with a validation part where the config wants one.
    fn parts(&self, split: usize, seed: u64) -> Result<Parts> {
        let whole = match self.splits {
            UciSplits::Gap => self.table.gap_split(split)?,
            UciSplits::Standard => self.table.split(split)?,
        };
        if self.validation_fraction > 0.0 {
            return Ok(whole.with_validation(self.validation_fraction, seed)?);
        }
        Ok(Parts { train: whole.train, validation: Vec::new(), test: whole.test })
    }
}

impl Divided for Uci {
    fn config(&self) -> &RunConfig {
        &self.config
    }

    fn signature(&self) -> Signature {
        Signature::Regression { features: self.table.table().columns() as i64 }
    }

    fn len(&self) -> usize {
        if self.splits == UciSplits::Gap { self.table.table().columns() } else { self.table.splits() }
    }

    /// The rows of a split, standardised with those it is trained on; the seed is its own.
    fn task(&self, split: usize) -> Result<Box<dyn Task>> {
        let seed = Key::new(self.config.seed).fold("split").at(split as u64).seed();
        let parts = self.parts(split, seed)?;
        let rows = |rows: &[usize]| self.table.table().select(rows);
        let (train, test) = (rows(&parts.train)?, rows(&parts.test)?);
        let validation = if parts.validation.is_empty() { None } else { Some(rows(&parts.validation)?) };
        let scale = Some(Standardiser::fit(&train)?);
        let config = RunConfig { seed, ..self.config.clone() };
        Ok(Box::new(Regression { config, train, validation, test, scale, view: None, curve: None }))
    }

    fn chosen_by(&self) -> &'static str {
        names::REG_NLL
    }

    fn notes(&self) -> MetricNotes {
        evaluate::notes()
    }

    /// MC dropout on the same splits (Gal & Ghahramani 2016 protocol, 20 splits).
    fn published(&self) -> Vec<Published> {
        let table = [
            ("boston", 2.90, 2.40),
            ("concrete", 4.83, 2.94),
            ("energy", 0.54, 1.21),
            ("kin8nm", 0.079, -1.14),
            ("power", 4.01, 2.81),
            ("protein", 4.27, 2.87),
            ("wine", 0.62, 0.93),
            ("yacht", 0.67, 1.25),
        ];
        let row = table.iter().find(|(set, ..)| self.splits == UciSplits::Standard && *set == self.name);
        let published = row.map(|&(_, rmse, nll)| Published {
            method: "MC dropout".to_owned(),
            source: "MC dropout by the protocol of Gal & Ghahramani (2016) on the standard splits".to_owned(),
            metrics: Metrics::from([(names::REG_RMSE.to_owned(), Some(rmse)), (names::REG_NLL.to_owned(), Some(nll))]),
        });
        published.into_iter().collect()
    }
}
