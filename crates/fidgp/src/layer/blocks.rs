//! Blocks of a forward pass: those that no draw touches are computed once for all draws of a prediction.

use std::collections::BTreeMap;

use tch::Tensor;

use super::{Mode, Norm, Pass};
use crate::{Error, Result};

/// Outputs of blocks that no draw touches, from one draw for the next: of every chain of blocks the last of them, by the number
/// of the chain's first block.
#[derive(Debug, Default)]
pub(crate) struct Kept(BTreeMap<usize, (Tensor, i64)>);

/// Where a forward pass stands among its blocks.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    finished: usize,
    inside: bool,
    aside: bool,
    /// How many leading blocks no draw touches.
    untouched: usize,
    kept: Kept,
}

impl Blocks {
    pub(super) fn is_inside(&self) -> bool {
        self.inside
    }

    pub(super) fn is_aside(&self) -> bool {
        self.aside
    }

    pub(super) fn finished(&self) -> usize {
        self.finished
    }
}

impl Pass {
    /// One block of a network: see [`Self::blocks`].
    ///
    /// # Errors
    /// Those of the block.
    pub fn block(&mut self, x: &Tensor, run: impl Fn(&Tensor, &mut Self) -> Result<Tensor>) -> Result<Tensor> {
        self.blocks(x, [()], |(), x, pass| run(x, pass))
    }

    /// Blocks one after the other, each taking what the one before it gave: `pass.blocks(&x, &self.blocks, |block, h, pass|
    /// block.forward(h, pass))`. A prediction with many draws runs those that stand before the first random layer for the first
    /// draw alone. What this gives back must not be changed in place.
    ///
    /// Blocks within blocks are parts of the outer one. Which blocks run must not depend on the values of the input, nor on the
    /// mode but for [`Self::in_training`].
    ///
    /// # Errors
    /// Those of the blocks, or when what was kept for the next draw was changed in place.
    pub fn blocks<B>(
        &mut self,
        x: &Tensor,
        blocks: impl IntoIterator<Item = B>,
        mut run: impl FnMut(B, &Tensor, &mut Self) -> Result<Tensor>,
    ) -> Result<Tensor> {
        if self.blocks.inside || self.blocks.aside {
            return blocks.into_iter().try_fold(x.shallow_clone(), |h, block| run(block, &h, self));
        }
        let mut blocks = blocks.into_iter().peekable();
        if blocks.peek().is_none() {
            return Ok(x.shallow_clone());
        }
        let first = self.blocks.finished;
        let known = self.blocks.kept.get(first)?;
        let mut h = known.as_ref().unwrap_or(x).shallow_clone();
        let mut new = None;
        for block in blocks {
            let untouched = self.blocks.finished < self.blocks.untouched;
            if !(untouched && known.is_some()) {
                h = self.inside(untouched, |pass| run(block, &h, pass))?;
                new = if untouched { Some(h.shallow_clone()) } else { new };
            }
            self.blocks.finished += 1;
        }
        if let Some(h) = new.filter(|_| self.mode == Mode::Eval && self.trace.is_none()) {
            self.blocks.kept.set(first, h);
        }
        Ok(h)
    }

    /// What runs in training alone, such as an auxiliary head; nothing in evaluation.
    ///
    /// # Errors
    /// Those of the closure.
    pub fn in_training<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        if self.mode == Mode::Eval {
            return Ok(None);
        }
        let outer = std::mem::replace(&mut self.blocks.aside, true);
        let result = run(self);
        self.blocks.aside = outer;
        result.map(Some)
    }

    /// Runs one block; one that no draw touches uses BatchNorm's running statistics, which are the same for all draws.
    fn inside(&mut self, untouched: bool, run: impl FnOnce(&mut Self) -> Result<Tensor>) -> Result<Tensor> {
        let norm = untouched.then(|| std::mem::replace(&mut self.norm, Norm::Running));
        self.blocks.inside = true;
        let result = run(self);
        self.blocks.inside = false;
        if let Some(norm) = norm {
            self.norm = norm;
        }
        result
    }

    /// Begins a forward pass of one of several draws: so many leading blocks are the same for all of them, and of these an
    /// earlier draw has kept something.
    pub(crate) fn begin(&mut self, untouched: usize, kept: Kept) {
        self.blocks = Blocks { untouched, kept, ..Blocks::default() };
    }

    /// Ends it: what it has kept for the next draw.
    pub(crate) fn end(&mut self) -> Kept {
        std::mem::take(&mut self.blocks).kept
    }
}

impl Kept {
    fn get(&self, first: usize) -> Result<Option<Tensor>> {
        let Some((h, version)) = self.0.get(&first) else { return Ok(None) };
        if h.internal_version() == *version {
            return Ok(Some(h.shallow_clone()));
        }
        let advice =
            "was changed in place by the network, but draws share it: use an operation that makes a new tensor";
        Err(Error::setting("output of a block", first, advice))
    }

    fn set(&mut self, first: usize, h: Tensor) {
        let version = h.internal_version();
        self.0.insert(first, (h, version));
    }
}
