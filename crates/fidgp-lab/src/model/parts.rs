//! Measuring and fitting by several processes, each of which looks at a part of the examples.

use std::ops::Range;
use std::sync::Arc;

use fidgp_torch::Group;
use tch::{Kind, Tensor};

use crate::error::{LabError, Result};

/// The processes that look at examples together; this one alone, unless a training says otherwise. All of them must ask for the
/// same in the same order.
#[derive(Clone, Debug, Default)]
pub struct Parts(Option<Arc<Group>>);

/// What this process looks at of some batches, and what puts it together with what the others see. By default it is alone.
#[derive(Clone, Debug, Default)]
pub struct OwnPart {
    /// Which batches.
    pub own: Range<usize>,
    /// None where this process looks at all of them.
    group: Option<Arc<Group>>,
}

impl Parts {
    /// The processes of a group.
    pub fn of(group: &Arc<Group>) -> Self {
        Self(Some(Arc::clone(group)))
    }

    /// The group, where there is one.
    pub(crate) fn group(&self) -> Option<&Arc<Group>> {
        self.0.as_ref()
    }

    /// Whether this process is the first, which writes.
    pub fn is_first(&self) -> bool {
        self.0.as_ref().is_none_or(|group| group.rank() == 0)
    }

    /// Whether all of them say yes.
    ///
    /// # Errors
    /// When a process is gone.
    pub fn all(&self, own: bool, what: &str) -> Result<bool> {
        let Some(group) = &self.0 else { return Ok(own) };
        let said = if own { "yes" } else { "no" };
        Ok(group.texts(what, said)?.iter().all(|said| said == "yes"))
    }

    /// This process's part of so many batches: one after another, as evenly as can be. Where there is not one for each process
    /// all look at everything.
    pub fn part(&self, batches: usize) -> OwnPart {
        let group = self.0.as_ref().filter(|group| batches >= group.size());
        let own = group.map_or(0..batches, |group| {
            let (rank, size) = (group.rank(), group.size());
            batches * rank / size..batches * (rank + 1) / size
        });
        OwnPart { own, group: group.cloned() }
    }
}

impl OwnPart {
    /// The examples of the own batches, of so many in all.
    pub fn rows(&self, batch: usize, all: usize) -> Range<usize> {
        (self.own.start * batch).min(all)..(self.own.end * batch).min(all)
    }

    /// The rows of all processes in the order of their examples, in f64. `[n, w]` → `[N, w]`
    ///
    /// # Errors
    /// When a process is gone.
    pub fn gathered(&self, own: &Tensor, what: &str) -> Result<Tensor> {
        let own = own.to_kind(Kind::Double);
        let Some(group) = &self.group else { return Ok(own) };
        let (rows, width) = own.size2()?;
        let count = Tensor::from_slice(&[rows]).to_device(group.device());
        let counts = Vec::<i64>::try_from(group.all_gather(&count, what)?.reshape([-1]).to_device(tch::Device::Cpu))?;
        let most = counts.iter().copied().max().unwrap_or(rows);
        let filled = Tensor::zeros([most, width], (Kind::Double, group.device()));
        tch::no_grad(|| filled.narrow(0, 0, rows).copy_(&own));
        let all = group.all_gather(&filled, what)?;
        let parts: Vec<_> = (0..).zip(&counts).map(|(rank, &rows)| all.get(rank).narrow(0, 0, rows)).collect();
        Ok(Tensor::cat(&parts, 0).to_device(own.device()))
    }

    /// Numbers of each example, as many for one as for another: those of all processes in the order of their examples.
    ///
    /// # Errors
    /// When a process is gone.
    pub fn numbers(&self, own: Vec<Vec<f64>>, what: &str) -> Result<Vec<Vec<f64>>> {
        if self.group.is_none() {
            return Ok(own);
        }
        let (rows, width) = (own.len() as i64, own.first().map_or(0, Vec::len));
        let table = Tensor::from_slice(&own.concat()).reshape([rows, width as i64]);
        let all = Vec::<f64>::try_from(self.gathered(&table, what)?.reshape([-1]))?;
        Ok(all.chunks_exact(width.max(1)).map(<[f64]>::to_vec).collect())
    }

    /// The sum over all processes.
    ///
    /// # Errors
    /// When a process is gone.
    pub fn sum(&self, own: &Tensor, what: &str) -> Result<Tensor> {
        let Some(group) = &self.group else { return Ok(own.shallow_clone()) };
        let mut sum = own.to_device(group.device()).contiguous().copy();
        group.all_reduce(&mut sum, what)?;
        Ok(sum.to_device(own.device()))
    }
}

/// What a posterior is fitted to by several processes.
impl fidgp::linearised::Others for OwnPart {
    fn sum(&self, own: &Tensor) -> fidgp::Result<Tensor> {
        OwnPart::sum(self, own, POSTERIOR).map_err(of_group)
    }

    fn rows(&self, own: &Tensor) -> fidgp::Result<Tensor> {
        self.gathered(own, POSTERIOR).map_err(of_group)
    }
}

const POSTERIOR: &str = "the linearised posterior";

fn of_group(error: impl Into<LabError>) -> fidgp::Error {
    fidgp::Error::Across(error.into().to_string())
}
