//! A class for every row of a table.

use std::path::Path;

use fidgp::Key;
use fidgp_data::{Standardiser, Table};
use fidgp_metrics::names;
use tch::{Device, Tensor};

use super::classification::classified;
use super::regression::rows_spread;
use super::{HeldOut, Measure, Measured, SplitRole, Spreads, Task};
use crate::config::{DataConfig, Known, NormaliseConfig, RunConfig, TableConfig, TargetKind};
use crate::error::{LabError, Result};
use crate::files::VIEW_FILE;
use crate::json;
use crate::model::{Model, Signature};
use crate::predict::Trained;
use crate::run_folder::{TrainedOn, write_classes};
use crate::source::{Source, TableSource, TableView};

/// Rows of a table with a class each. Their targets are the classes' places.
pub struct TableClasses {
    /// The config, with the columns filled in.
    pub config: RunConfig,
    /// The names of the classes.
    pub classes: Vec<String>,
    /// How rows are taken.
    pub view: TableView,
    /// For fitting.
    pub train: Table,
    /// For choosing; none where nothing is chosen.
    pub validation: Option<Table>,
    /// For reporting.
    pub test: Table,
}

impl TableClasses {
    /// Reads the table of a config; features are standardised with its training rows.
    ///
    /// # Errors
    /// When a file is missing or broken, or too few rows are left.
    pub fn read(config: &RunConfig, table: &TableConfig, root: &Path) -> Result<Self> {
        Self::of_known(config, table, root, None)
    }

    fn of_known(config: &RunConfig, table: &TableConfig, root: &Path, known: Option<Known>) -> Result<Self> {
        let parts = table.read(root, TargetKind::Classes, known)?;
        let fitted = Standardiser { target_mean: 0.0, target_sd: 1.0, ..Standardiser::fit(&parts.train)? };
        let scale = NormaliseConfig::of_columns(config.normalisation.as_ref(), fitted)?;
        let view = TableView::of(&parts, scale);
        view.warn_of_constants(&parts.train);
        let config = RunConfig { data: DataConfig::Table(parts.config.clone()), ..config.clone() };
        let labels = parts.train.targets().iter().map(|&label| label as usize);
        let config = config.with_class_weights(&parts.classes, labels)?;
        if let Some((why, class)) = config.method.about().needs_pairs.zip(class_of_one(&parts.train, &parts.classes)) {
            let why = format!(
                "= \"{}\" {why}, and `{class}` has one training row; give it two, or none",
                config.method.name()
            );
            return Err(LabError::config("method", why));
        }
        let (classes, train, validation, test) = (parts.classes, parts.train, parts.validation, parts.test);
        Ok(Self { config, classes, view, train, validation, test })
    }

    /// The same for a trained model, which knows how it takes rows.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn of_model(predictor: &Trained, table: &TableConfig, root: &Path) -> Result<Self> {
        let view =
            predictor.table.as_ref().ok_or_else(|| LabError::config("MODEL", "does not say how it takes a table"))?;
        let known = Known { encoding: &view.columns, classes: &predictor.classes };
        let read = Self::of_known(&predictor.config, table, root, Some(known))?;
        Ok(Self { config: predictor.config.clone(), view: view.clone(), ..read })
    }

    fn source(&self, table: &Table, device: Device) -> Result<TableSource> {
        Ok(TableSource::new(&self.view.scale.transform(table)?, device)?.labelled())
    }

    fn measured(&self, model: &Model, table: &Table, draws: u64) -> Result<Measured> {
        let key = Key::new(self.config.seed).fold("predict");
        let source = self.source(table, model.store.device())?;
        let (size, rows) = (self.config.predict.batch_size, table.rows());
        let batches = source.batches(size);
        let part = model.parts.part(batches.len());
        let own = part.rows(size, rows);
        let labels = source.targets.narrow(0, own.start as i64, own.len() as i64);
        let chunks = Box::new(std::iter::once(Ok((
            batches[part.own.clone()].iter().map(Tensor::shallow_clone).collect(),
            labels,
        ))));
        classified(model, (draws, key), chunks, &part)
    }
}

/// A class that a single row has.
fn class_of_one<'a>(table: &Table, classes: &'a [String]) -> Option<&'a String> {
    let count = |class: usize| table.targets().iter().filter(|&&label| label as usize == class).count();
    classes.iter().enumerate().find(|(class, _)| count(*class) == 1).map(|(_, name)| name)
}

impl Task for TableClasses {
    fn config(&self) -> &RunConfig {
        &self.config
    }

    fn signature(&self) -> Result<Signature> {
        Ok(Signature::Rows { features: self.train.columns() as i64, classes: self.classes.len() as i64 })
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn trained_on(&self) -> Option<TrainedOn> {
        Some(TrainedOn { examples: self.train.rows(), sha256: self.train.fingerprint() })
    }

    fn examples<'a>(&'a self, model: &Model, _: SplitRole) -> Result<Box<dyn Source + 'a>> {
        Ok(Box::new(self.source(&self.train, model.store.device())?))
    }

    fn measure<'a>(&'a self, part: HeldOut, _: &Model) -> Result<Option<Measure<'a>>> {
        let table = match part {
            HeldOut::Validation => self.validation.as_ref(),
            HeldOut::Test => Some(&self.test),
        };
        let measure =
            |table: &'a Table| -> Measure<'a> { Box::new(move |model, draws, _| self.measured(model, table, draws)) };
        Ok(table.map(measure))
    }

    fn spreads(&self, model: &Model, draws: u64) -> Result<Option<Spreads>> {
        let (part, table) = match &self.validation {
            Some(table) => (HeldOut::Validation, table),
            None => (HeldOut::Test, &self.test),
        };
        let rows = self.source(table, model.store.device())?.inputs;
        rows_spread(&self.config, model, (part, &rows), draws).map(Some)
    }

    fn chosen_by(&self) -> &'static str {
        names::CLS_NLL
    }

    fn test_sha256(&self) -> Option<String> {
        Some(self.test.fingerprint())
    }

    fn keep(&self, run: &Path) -> Result<()> {
        write_classes(run, &self.classes)?;
        json::write(&run.join(VIEW_FILE), &self.view)
    }
}
