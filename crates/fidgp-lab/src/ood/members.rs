//! What an ensemble, or a layer that draws itself, says about images: one answer for each, whatever the number of passes.

use fidgp::Key;
use fidgp::layer::{CustomWeight, Factors, Mode, Pass, Slot};
use fidgp::linalg::Check;
use fidgp::objective::Reading;
use tch::{Kind, Tensor};

use crate::error::Result;
use crate::model::Model;

/// A picture's logits are the mean of its pixels'; those of a class for each picture stay as they are. `[N, C, ..]` → `[N, C]`
pub(super) fn of_pictures(model: &Model, logits: &Tensor) -> Tensor {
    match model.likelihood.reading() {
        Reading::Pixels { classes } => pooled(&logits.narrow(1, 0, classes)),
        _ => logits.shallow_clone(),
    }
}

/// Mean over the positions of an image; vectors stay as they are. `[N, C, ..]` → `[N, C]`
pub(super) fn pooled(tensor: &Tensor) -> Tensor {
    if tensor.dim() == 4 {
        tensor.mean_dim([2_i64, 3].as_slice(), false, tensor.kind())
    } else {
        tensor.shallow_clone()
    }
}

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

/// Whether layers draw themselves: weights, masks or processes.
pub(super) fn draw_themselves(model: &Model) -> bool {
    model.network.slots().into_iter().filter_map(Slot::custom).any(CustomWeight::is_random)
}

/// Logits of every member, or of so many draws: each has one weight, one mask and one noise of its processes for all images of
/// all sets, as a draw of inducing weights has. `[N, C]` each
pub(super) fn passes(model: &Model, x: &Tensor, draws: u64, key: Key) -> Result<Vec<Tensor>> {
    let members = model.network.members();
    if members > 1 {
        let logits = of_pictures(model, &model.network.forward(x, &mut Pass::plain(Mode::Eval))?);
        return Ok(logits.view([members, -1, logits.size()[1]]).unbind(0));
    }
    let factors = Factors::of(&[], Check::Now)?;
    let one = |k: u64| -> Result<Tensor> {
        let mut pass = Pass::draw(&[], &factors, Mode::Eval, key.at(k))?.with_one_noise();
        Ok(of_pictures(model, &model.network.forward(x, &mut pass)?))
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
