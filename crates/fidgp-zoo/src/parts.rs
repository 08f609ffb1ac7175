//! Builds layers by a plan, with names relative to the network's root.

use fidgp::Key;
use fidgp::layer::{BatchNorm, Conv2d, Conv2dConfig, Linear, Slot, SlotConfig};
use tch::Device;
use tch::nn::{Path, VarStore};

use crate::baseline::slot::BaselineSlot;
use crate::{LayerKind, LayerPlan, Result};

/// A place in the network under construction.
#[derive(Clone, Debug)]
pub(crate) struct Parts<'a> {
    path: Path<'a>,
    name: String,
    plan: &'a LayerPlan,
    key: Key,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(root: &Path<'a>, plan: &'a LayerPlan, key: Key) -> Self {
        Self { path: root.clone(), name: String::new(), plan, key }
    }

    /// The place one name further down: `layer1`, then `layer1.0`.
    pub(crate) fn sub(&self, part: &str) -> Self {
        let name = if self.name.is_empty() { part.to_owned() } else { format!("{}.{part}", self.name) };
        Self { path: part.split('.').fold(self.path.clone(), |path, part| path.sub(part)), name, ..*self }
    }

    pub(crate) fn conv(&self, part: &str, config: Conv2dConfig) -> Result<Conv2d> {
        let at = self.sub(part);
        let baseline = at.plan.baseline_for(&at.name, LayerKind::Conv);
        let plain_bias = config.bias && !baseline.is_some_and(|slot| slot.replaces_bias());
        let plain = Conv2dConfig { bias: plain_bias, ..config };
        let mut conv = Conv2d::init(&at.path, plain, &at.plan.slot_for(&at.name, LayerKind::Conv), at.key)?;
        if let Some(slot) = baseline {
            conv.slot = at.wrap(conv.slot, &slot, config.bias)?;
        }
        Ok(conv)
    }

    pub(crate) fn linear(&self, part: &str, inputs: i64, outputs: i64) -> Result<Linear> {
        let at = self.sub(part);
        let baseline = at.plan.baseline_for(&at.name, LayerKind::Linear);
        if let Some(head) = baseline.filter(BaselineSlot::replaces_weight) {
            let mut layer =
                Linear::init(&VarStore::new(Device::Cpu).root(), inputs, outputs, true, &SlotConfig::Dense, at.key)?;
            let head = head.head(&at.path, [outputs, inputs], &at.name, at.key)?;
            if let Some(head) = head {
                layer.slot = Slot::Custom(head);
            }
            return Ok(layer);
        }
        let bias = !baseline.is_some_and(|slot| slot.replaces_bias());
        let slot = at.plan.slot_for(&at.name, LayerKind::Linear);
        let mut linear = Linear::init(&at.path, inputs, outputs, bias, &slot, at.key)?;
        if let Some(slot) = baseline {
            linear.slot = at.wrap(linear.slot, &slot, true)?;
        }
        Ok(linear)
    }

    /// A plain weight in the hands of another method.
    fn wrap(&self, slot: Slot, baseline: &BaselineSlot, bias: bool) -> Result<Slot> {
        match slot {
            Slot::Dense(dense) => Ok(Slot::Custom(baseline.wrap(&self.path, dense, bias, self.key)?)),
            other => Ok(other),
        }
    }

    pub(crate) fn batch_norm(&self, part: &str, features: i64) -> BatchNorm {
        BatchNorm::init(&self.sub(part).path, features)
    }
}
