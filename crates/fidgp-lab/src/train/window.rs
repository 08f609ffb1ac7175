//! The parts of the loss of recent steps, kept on the device and read only now and then.

use tch::{Kind, Tensor};

/// Loss, NLL, KL of U, KL of W given U.
pub const PARTS: usize = 4;

/// Steps whose losses have not been read yet.
#[derive(Debug, Default)]
pub struct Window {
    rows: Vec<Tensor>,
}

/// What reading a window shows.
#[derive(Debug)]
pub struct Reading {
    /// Sums of the parts over the window.
    pub sums: [f64; PARTS],
    /// The first step of the window whose loss is not finite, and its parts.
    pub broken: Option<(usize, [f64; PARTS])>,
}

impl Window {
    /// Adds a step's parts. `[PARTS]`
    pub fn push(&mut self, parts: Tensor) {
        self.rows.push(parts);
    }

    /// Number of steps that were not read.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Reads all steps in one transfer and forgets them.
    pub fn read(&mut self) -> Reading {
        let mut sums = [0.0; PARTS];
        let mut broken = None;
        if !self.rows.is_empty() {
            let table =
                Tensor::stack(&std::mem::take(&mut self.rows), 0).to_kind(Kind::Double).to_device(tch::Device::Cpu);
            let values = Vec::<f64>::try_from(table.reshape([-1])).expect("a flat table of doubles");
            for (step, row) in values.chunks_exact(PARTS).enumerate() {
                let row: [f64; PARTS] = row.try_into().expect("rows of four");
                sums.iter_mut().zip(row).for_each(|(sum, part)| *sum += part);
                if broken.is_none() && !row[0].is_finite() {
                    broken = Some((step, row));
                }
            }
        }
        Reading { sums, broken }
    }
}
