//! What an ensemble, or a layer that draws itself, says about images: one answer for each, whatever the number of passes.

use fidgp::Key;
use fidgp::layer::{CustomWeight, Factors, Mode, Pass, Slot};
use fidgp::linalg::Check;
use fidgp::objective::Reading;
use fidgp::predict::by_member;
use tch::Tensor;

use crate::error::Result;
use crate::model::Model;

/// A picture's logits are the mean of its pixels'; those of a class for each picture stay as they are. `[N, C, ..]` → `[N, C]`
pub(super) fn of_pictures(model: &Model, logits: &Tensor) -> Tensor {
    match model.likelihood.reading() {
        Reading::Pixels { classes } => pooled(&logits.narrow(1, 0, classes)),
        _ => logits.shallow_clone(),
    }
}

/// Mean over the positions of an image, or over its tokens; vectors stay as they are. `[N, C, H, W]` or `[N, tokens, C]` → `[N, C]`
pub(super) fn pooled(tensor: &Tensor) -> Tensor {
    match tensor.dim() {
        4 => tensor.mean_dim([2_i64, 3].as_slice(), false, tensor.kind()),
        3 => tensor.mean_dim([1_i64].as_slice(), false, tensor.kind()),
        _ => tensor.shallow_clone(),
    }
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
        return Ok(by_member(&logits, members)?.unbind(0));
    }
    let factors = Factors::of(&[], Check::Now)?;
    let one = |k: u64| -> Result<Tensor> {
        let mut pass = Pass::draw(&[], &factors, Mode::Eval, key.at(k))?.with_one_noise();
        Ok(of_pictures(model, &model.network.forward(x, &mut pass)?))
    };
    (0..draws).map(one).collect()
}
