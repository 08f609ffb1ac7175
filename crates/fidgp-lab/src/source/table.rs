//! Tables on the device.

use fidgp::Key;
use fidgp_data::Table;
use tch::{Device, Kind, Tensor};

use super::Source;
use crate::error::{LabError, Result};

/// A table on the device.
#[derive(Debug)]
pub struct TableSource {
    /// `[N, columns]`
    pub inputs: Tensor,
    /// `[N]`
    pub targets: Tensor,
}

impl TableSource {
    /// Moves a table to the device in f32.
    ///
    /// # Errors
    /// When it holds a value that is not finite.
    pub fn new(table: &Table, device: Device) -> Result<Self> {
        let values = || table.features().iter().chain(table.targets());
        if let Some(index) = values().position(|value| !value.is_finite()) {
            let row =
                if index < table.features().len() { index / table.columns() } else { index - table.features().len() };
            return Err(LabError::config(
                format!("data ({})", table.name()),
                format!("row {row} holds a value that is not a finite number"),
            ));
        }
        let to = |values: &[f64]| Tensor::from_slice(values).to_kind(Kind::Float).to_device(device);
        Ok(Self { inputs: to(table.features()).reshape([-1, table.columns() as i64]), targets: to(table.targets()) })
    }

    /// All inputs in batches of at most `size` rows.
    pub fn batches(&self, size: usize) -> Vec<Tensor> {
        self.inputs.split(size as i64, 0)
    }
}

impl Source for TableSource {
    fn len(&self) -> usize {
        self.targets.size()[0] as usize
    }

    fn batch(&self, rows: &Tensor, _augment: Option<Key>) -> Result<(Tensor, Tensor)> {
        Ok((self.inputs.f_index_select(0, rows)?, self.targets.f_index_select(0, rows)?))
    }
}
