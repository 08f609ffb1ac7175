//! What an ensemble, or a weight that draws itself, says about images: one answer for each, whatever the number of passes.

use fidgp::Key;
use fidgp::layer::{Factors, Mode, Pass, Slot};
use fidgp::linalg::Check;
use tch::{Kind, Tensor};

use crate::error::Result;
use crate::model::Model;

/// Logits whose softmax is the mean of the members' and whose log-sum-exp is the mean of theirs; those of a single network
/// stay as they are. `[K·N, C]` → `[N, C]`
pub(super) fn joined(logits: &Tensor, members: i64) -> Tensor {
    if members == 1 {
        return logits.shallow_clone();
    }
    let each = logits.to_kind(Kind::Double).view([members, -1, logits.size()[1]]);
    let energy = each.logsumexp(-1, true).mean_dim(0, false, Kind::Double); // [N, 1]
    each.log_softmax(-1, Kind::Double).logsumexp(0, false) - (members as f64).ln() + energy
}

/// Features averaged over members that share a batch; none where members are networks of their own. `[K·N, ..]` → `[N, ..]`
pub(super) fn averaged(features: &Tensor, members: i64, rows: i64) -> Option<Tensor> {
    if members == 1 {
        return Some(features.shallow_clone());
    }
    let mut blocks = vec![members];
    blocks.push(rows);
    blocks.extend(&features.size()[1..]);
    (features.size()[0] == members * rows).then(|| features.view(blocks.as_slice()).mean_dim(0, false, features.kind()))
}

/// Whether passes of another key are other networks, each the same for all batches: weights that draw themselves. Masks and
/// processes are drawn anew for every batch, and their score of an image would depend on the others.
pub(super) fn draws_weights(model: &Model) -> bool {
    let random = |slot: &&Slot| slot.is_random();
    let by_weight = |slot: &Slot| matches!(slot, Slot::Custom(weight) if weight.draws_weight());
    let slots = model.network.slots();
    slots.iter().copied().filter(random).count() > 0 && slots.into_iter().filter(random).all(by_weight)
}

/// Logits of every member, or of so many draws. `[N, C]` each
pub(super) fn passes(model: &Model, x: &Tensor, draws: u64, key: Key) -> Result<Vec<Tensor>> {
    let members = model.network.members();
    if members > 1 {
        let logits = model.network.forward(x, &mut Pass::plain(Mode::Eval))?;
        return Ok(logits.view([members, -1, logits.size()[1]]).unbind(0));
    }
    let factors = Factors::of(&[], Check::Now)?;
    let one = |k: u64| -> Result<Tensor> {
        Ok(model.network.forward(x, &mut Pass::draw(&[], &factors, Mode::Eval, key.at(k))?)?)
    };
    (0..draws).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Device;

    #[test]
    fn joined_logits_have_the_mean_probability_and_the_mean_energy() {
        let logits = Key::new(1).normal(&[6, 4], Kind::Double, Device::Cpu) * 3.0; // two members, three rows
        let all = joined(&logits, 2);
        let p = logits.softmax(-1, Kind::Double).view([2, 3, 4]).mean_dim(0, false, Kind::Double);
        let energy = logits.logsumexp(-1, false).view([2, 3]).mean_dim(0, false, Kind::Double);
        let gap = |a: Tensor, b: Tensor| (a - b).abs().max().double_value(&[]);
        assert!(gap(all.softmax(-1, Kind::Double), p) < 1e-12);
        assert!(gap(all.logsumexp(-1, false), energy) < 1e-12);
        assert_eq!(joined(&logits, 1), logits);
        assert_eq!(averaged(&logits, 2, 3).unwrap().size(), [3, 4]);
        assert!(averaged(&logits, 2, 6).is_none());
    }
}
