//! The paper's residual as released, but with the one U: the mean over layers of `‖(I − P)f‖`.

use fidgp::Key;
use fidgp::ood::{ResidualHead, Ridge, Subspace};
use tch::{Kind, Tensor};

use super::{Fitted, Given, Made, Needs, Observed, OodScore};
use crate::error::{LabError, Result};
use crate::ood::inducing::Inducing;

/// Width of the released code's head.
pub const COMPAT_HIDDEN: i64 = 128;
/// The widest feature map that head is put on: of a street scene it would have hundreds of millions of weights, and sums so
/// long that a score changes with its batch.
const WIDEST: i64 = 1 << 18;

pub(super) const COMPAT: OodScore = OodScore {
    rows: &[("compat-residual", "the paper's residual as released, but with one U")],
    needs: Needs::Inducing,
    made: Made::Fitted(fit),
};

/// The head of each layer gets its one step on the first batch.
fn fit(given: &Given) -> Result<Fitted> {
    let products = &given.first.products;
    let widest = products.iter().map(|(_, z)| z.size()[1]).max().unwrap_or_default();
    if widest > WIDEST {
        let why =
            format!("would have {widest} × {COMPAT_HIDDEN} weights on one layer; at most {WIDEST} inputs are taken");
        return Err(LabError::config("the released head", why));
    }
    let head = |(layer, (_, z)): (&Inducing, &(String, Tensor))| head_of(layer, z, given.key);
    let heads = given.inducing.iter().zip(products).map(head).collect::<Result<Vec<_>>>()?;
    let formula = move |seen: &Observed| -> Result<Vec<Tensor>> {
        let mut sum: Option<Tensor> = None;
        for ((head, subspace), (_, z)) in heads.iter().zip(&seen.products) {
            let score = subspace.score(&head.forward(z)?)?.to_kind(Kind::Double);
            sum = Some(sum.map_or_else(|| score.shallow_clone(), |sum| sum + &score));
        }
        Ok(sum.map(|sum| sum / heads.len() as f64).into_iter().collect())
    };
    Ok(Some(Box::new(formula)))
}

fn head_of(layer: &Inducing, z: &Tensor, key: Key) -> Result<(ResidualHead, Subspace)> {
    let subspace = Subspace::softened(&layer.u, Ridge::COMPAT)?;
    let key = key.fold("compat").fold(&layer.name);
    let head = ResidualHead::init(z.size()[1], COMPAT_HIDDEN, layer.u.size()[1], z.device(), key);
    Ok((head.one_step(z, &subspace)?, subspace))
}
