//! Draws of weights that are made once and kept.

use std::ops::Range;
use std::sync::OnceLock;

use tch::{Kind, Tensor};

use super::gather::gather;
use super::{
    Batch, ClassDraws, Classified, Draws, Effort, Gather, NumberDraws, PixelDraws, PredictiveLaw, Regressed, Segmented,
    Spent, run_drawn, untouched,
};
use crate::layer::{Factors, Kept, Network, NormStatistics, OutputTensors, Pass};
use crate::objective::NumberLikelihood;
use crate::{Key, Result};

/// Draws of a network's weights that own what they need: the factors, and as many drawn weights as fit into a bound of memory.
/// Those that do not fit are drawn again for every batch. Draw k is the same in every call, and that of [`Draws`] of the same key.
#[derive(Debug)]
pub struct WeightDraws {
    factors: Factors,
    key: Option<Key>,
    norms: Vec<NormStatistics>,
    portable: bool,
    untouched: OnceLock<usize>,
    count: u64,
    compute: Option<Kind>,
    memory: u64,
    /// The first draws.
    kept: Vec<Pass>,
    /// Lent to one draw after the other on the CPU.
    tensors: OutputTensors,
}

impl WeightDraws {
    /// What drawn weights may take up where nobody says otherwise: 1 GiB, eight draws of a ResNet-18 and as much again.
    pub const MEMORY: u64 = 1 << 30;

    /// These draws. They are made when they are first asked for, and kept while they fit into so many bytes.
    pub fn new(draws: Draws, memory: u64) -> Self {
        let Draws { factors, key, norms, portable, untouched, count, compute, .. } = draws;
        let (kept, tensors) = (Vec::new(), OutputTensors::default());
        Self { factors, key, norms, portable, untouched, count, compute, memory, kept, tensors }
    }

    /// How many draws are kept.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// The same draws for a single call.
    fn draws<'a>(&self, network: &'a dyn Network, first_batch: u64) -> Draws<'a> {
        Draws {
            network,
            factors: self.factors.share(),
            key: self.key,
            norms: self.norms.iter().map(NormStatistics::copy).collect(),
            portable: self.portable,
            untouched: self.untouched.clone(),
            count: self.count,
            first_batch,
            compute: self.compute,
            runner: Box::new(|passes| Box::new(passes)),
        }
    }

    /// How many draws an effort is.
    fn count(&self, network: &dyn Network, effort: Effort) -> Result<u64> {
        let asked = effort.draws.unwrap_or(self.count);
        let known = self.norms.len() as u64;
        let most = if effort.tolerance.is_some() && known > 0 { asked.min(known) } else { asked };
        Draws::check_count(most, &self.norms)?;
        Ok(if self.key.is_some() && network.is_random() { most } else { 1 })
    }

    /// Makes the first draws, as many of them as fit; says how many there are.
    fn make(&mut self, network: &dyn Network, count: u64) -> Result<u64> {
        if self.kept.len() as u64 >= count {
            return Ok(count);
        }
        let draws = self.draws(network, 0);
        if self.kept.is_empty() && self.memory > 0 {
            self.kept = draws.passes(0..1)?.drawn;
        }
        let fit = self.kept.first().map_or(0, |pass| self.memory / pass.bytes().max(1));
        if fit == 0 {
            (self.kept, self.memory) = (Vec::new(), 0); // not even one: do not try again
        }
        let (made, wanted) = (self.kept.len() as u64, count.min(fit));
        if made < wanted {
            self.kept.extend(draws.passes(made..wanted)?.drawn);
        }
        Ok(wanted)
    }

    /// Outputs of batches under some of the draws, draw after draw.
    fn outputs(
        &mut self,
        network: &dyn Network,
        (batches, first_batch): (&[Tensor], u64),
        draws: Range<u64>,
        each: &mut dyn FnMut(usize, Tensor) -> Result<()>,
    ) -> Result<()> {
        let kept = self.make(network, draws.end)?;
        if draws.start < kept {
            let first = batches.first().map(|batch| *self.untouched.get_or_init(|| untouched(network, batch)));
            let mut shared: Vec<_> = batches.iter().map(|_| Kept::default()).collect();
            for k in draws.start..kept {
                let pass = &mut self.kept[k as usize];
                for (index, (batch, shared)) in batches.iter().zip(&mut shared).enumerate() {
                    if let Some(key) = self.key {
                        pass.set_noise(key.at(k).at(first_batch + index as u64));
                    }
                    let batch = (batch, first.unwrap_or(0));
                    each(index, run_drawn(network, pass, batch, shared, &mut self.tensors)?)?;
                }
            }
        }
        let rest = draws.start.max(kept)..draws.end;
        if rest.is_empty() {
            return Ok(());
        }
        let own = self.draws(network, first_batch);
        if batches.len() == 1 { own.outputs_of(rest, batches, each) } else { own.one_by_one_of(rest, batches, each) }
    }

    /// Gathers the draws of one batch.
    fn gather(&mut self, network: &dyn Network, batch: Batch, effort: Effort, into: &mut dyn Gather) -> Result<Spent> {
        let count = self.count(network, effort)?;
        let inputs = std::slice::from_ref(batch.inputs);
        gather(count, effort.tolerance, into, |draws, each| {
            self.outputs(network, (inputs, batch.number), draws, &mut |_, outputs| each(outputs))
        })
    }
}

impl PredictiveLaw for WeightDraws {
    fn classify(&mut self, network: &dyn Network, batch: Batch, effort: Effort) -> Result<(Classified, Spent)> {
        let mut classes = ClassDraws::new(network.members());
        if effort.tolerance.is_some() {
            classes = classes.with_error();
        }
        let spent = self.gather(network, batch, effort, &mut classes)?;
        Ok((classes.done()?, spent))
    }

    fn regress(
        &mut self,
        network: &dyn Network,
        likelihood: &dyn NumberLikelihood,
        batch: Batch,
        effort: Effort,
    ) -> Result<(Regressed, Spent)> {
        let mut numbers = NumberDraws::new(network.members(), likelihood);
        let spent = self.gather(network, batch, effort, &mut numbers)?;
        Ok((numbers.done()?, spent))
    }

    fn segment(
        &mut self,
        network: &dyn Network,
        images: &Tensor,
        (classes, window): (i64, Option<[i64; 2]>),
        effort: Effort,
    ) -> Result<(Segmented, Spent)> {
        let count = self.count(network, effort)?;
        let mut pixels = PixelDraws::new(images, network.members(), (classes, window))?;
        if effort.tolerance.is_some() {
            pixels = pixels.with_error();
        }
        let windows = pixels.windows(images);
        let spent = gather(count, effort.tolerance, &mut pixels, |draws, each| {
            self.outputs(network, (&windows, 0), draws, &mut |_, outputs| each(outputs))
        })?;
        Ok((pixels.done()?, spent))
    }
}
