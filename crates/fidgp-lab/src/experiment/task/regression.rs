//! A number for every row of a table.

use std::path::Path;
use std::time::Instant;

use fidgp::Key;
use fidgp_data::{Standardiser, Table, synthetic::Synthetic};
use fidgp_metrics::names;
use tch::Tensor;

use super::{HeldOut, Measure, Measured, SplitRole, Spreads, Task, Want, curve};
use crate::config::{DataConfig, Known, NormaliseConfig, RunConfig, TableConfig, TargetKind};
use crate::error::{LabError, Result};
use crate::evaluate::{self, Meter, Spread, shuffled_columns};
use crate::files::VIEW_FILE;
use crate::json;
use crate::model::{Model, Signature};
use crate::predict::Trained;
use crate::record::Figure;
use crate::run_folder::TrainedOn;
use crate::source::{Source, TableSource, TableView};

/// Rows at most that are also looked at with their columns shuffled.
const ROWS_SCRAMBLED: i64 = 1000;

/// Rows of a table, a split of one, or points of a curve.
pub struct Regression {
    /// The config, with the columns filled in.
    pub config: RunConfig,
    /// For fitting.
    pub train: Table,
    /// For choosing; none where nothing is chosen.
    pub validation: Option<Table>,
    /// For reporting.
    pub test: Table,
    /// What rows are standardised with, where they are.
    pub scale: Option<Standardiser>,
    /// How rows of a table of one's own are taken.
    pub view: Option<TableView>,
    /// The points of the curve, for its figure.
    pub curve: Option<Synthetic>,
}

impl Regression {
    /// The one-dimensional curve with a gap.
    ///
    /// # Errors
    /// When there are no points.
    pub fn of_curve(config: &RunConfig) -> Result<Self> {
        let (points, validated) = curve::draw(config)?;
        let Synthetic { train, validation, test } = points.clone();
        Ok(Self {
            config: config.clone(),
            train,
            validation: validated.then_some(validation),
            test,
            scale: None,
            view: None,
            curve: Some(points),
        })
    }

    /// A table of one's own, standardised with its training rows.
    ///
    /// # Errors
    /// When a file is missing or broken, or too few rows are left.
    pub fn of_table(config: &RunConfig, table: &TableConfig, root: &Path) -> Result<Self> {
        Self::of_known(config, table, root, None)
    }

    fn of_known(config: &RunConfig, table: &TableConfig, root: &Path, known: Option<Known>) -> Result<Self> {
        let parts = table.read(root, TargetKind::Number, known)?;
        let fitted = parts.config.standardiser(&parts.train)?;
        let scale = NormaliseConfig::of_columns(config.normalisation.as_ref(), fitted)?;
        let view = TableView::of(&parts, scale.clone());
        view.warn_of_constants(&parts.train);
        Ok(Self {
            config: RunConfig { data: DataConfig::Table(parts.config.clone()), ..config.clone() },
            scale: Some(scale),
            view: Some(view),
            train: parts.train,
            validation: parts.validation,
            test: parts.test,
            curve: None,
        })
    }

    /// The same for a trained model, which knows how it takes rows.
    ///
    /// # Errors
    /// As [`Self::of_table`].
    pub fn of_model(predictor: &Trained, table: &TableConfig, root: &Path) -> Result<Self> {
        let view =
            predictor.table.as_ref().ok_or_else(|| LabError::config("MODEL", "does not say how it takes a table"))?;
        let known = Known { encoding: &view.columns, classes: &[] };
        let read = Self::of_known(&predictor.config, table, root, Some(known))?;
        let (config, scale, view) = (predictor.config.clone(), Some(view.scale.clone()), Some(view.clone()));
        Ok(Self { config, scale, view, ..read })
    }

    fn measured(&self, model: &Model, table: &Table, draws: u64, want: Want) -> Result<Measured> {
        let meter = Meter { config: &self.config, scale: self.scale.as_ref(), device: model.store.device() };
        let (forecast, targets) = (meter.forecast(model, table, draws)?, table.targets());
        let mut measured = Measured {
            metrics: evaluate::metrics(&forecast, targets)?,
            notes: evaluate::notes(),
            ..Measured::default()
        };
        match (&self.curve, want) {
            (_, Want::Metrics) => {}
            (Some(points), Want::Everything(_)) => {
                let started = Instant::now();
                let (figure, shape) = curve::figure(points, &meter, model)?;
                measured.metrics.extend(shape);
                measured.figure = Some(Figure::Regression1d(figure));
                measured.aside = started.elapsed().as_secs_f64();
            }
            (None, Want::Everything(_)) => {
                measured.examples = Some(evaluate::examples(&forecast, targets)?);
                measured.figure = Some(Figure::Forecasts(evaluate::figure(&forecast, targets)?));
            }
        }
        Ok(measured)
    }
}

impl Task for Regression {
    fn config(&self) -> &RunConfig {
        &self.config
    }

    fn signature(&self) -> Result<Signature> {
        Ok(Signature::Regression { features: self.train.columns() as i64 })
    }

    fn trained_on(&self) -> Option<TrainedOn> {
        let of = |_: &TableView| TrainedOn { examples: self.train.rows(), sha256: self.train.fingerprint() };
        self.view.as_ref().map(of)
    }

    fn examples<'a>(&'a self, model: &Model, _: SplitRole) -> Result<Box<dyn Source + 'a>> {
        let standard = self.scale.as_ref().map(|scale| scale.transform(&self.train)).transpose()?;
        Ok(Box::new(TableSource::new(standard.as_ref().unwrap_or(&self.train), model.store.device())?))
    }

    fn measure<'a>(&'a self, part: HeldOut, _: &Model) -> Result<Option<Measure<'a>>> {
        let table = match part {
            HeldOut::Validation => self.validation.as_ref(),
            HeldOut::Test => Some(&self.test),
        };
        let measure = |table: &'a Table| -> Measure<'a> {
            Box::new(move |model, draws, want| self.measured(model, table, draws, want))
        };
        Ok(table.map(measure))
    }

    fn spreads(&self, model: &Model, draws: u64) -> Result<Option<Spreads>> {
        let (part, table) = match &self.validation {
            Some(table) => (HeldOut::Validation, table),
            None => (HeldOut::Test, &self.test),
        };
        let standard = self.scale.as_ref().map(|scale| scale.transform(table)).transpose()?;
        let rows = TableSource::new(standard.as_ref().unwrap_or(table), model.store.device())?.inputs;
        rows_spread(&self.config, model, (part, &rows), draws).map(Some)
    }

    fn chosen_by(&self) -> &'static str {
        names::REG_NLL
    }

    fn test_sha256(&self) -> Option<String> {
        self.view.as_ref().map(|_| self.test.fingerprint())
    }

    fn keep(&self, run: &Path) -> Result<()> {
        self.view.as_ref().map_or(Ok(()), |view| json::write(&run.join(VIEW_FILE), view))
    }
}

/// Uncertainty of rows as the network takes them, and of the same with every column shuffled.
pub(super) fn rows_spread(
    config: &RunConfig,
    model: &Model,
    (part, rows): (HeldOut, &Tensor),
    draws: u64,
) -> Result<Spreads> {
    let rows = rows.narrow(0, 0, rows.size()[0].min(ROWS_SCRAMBLED));
    let key = Key::new(config.seed);
    let spread = |rows: &Tensor| Spread::of(model, rows, (draws, key.fold("predict"), config.predict.batch_size));
    let several = rows.size()[1] > 1; // a single column has nothing to be shuffled against
    let scrambled = several.then(|| spread(&shuffled_columns(&rows, key.fold("scrambled")))).transpose()?;
    Ok(Spreads { part, own: spread(&rows)?, scrambled })
}
