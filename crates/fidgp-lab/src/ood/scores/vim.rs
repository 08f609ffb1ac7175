//! The virtual logit.

use fidgp_zoo::baseline::vim::Vim;
use tch::Tensor;

use super::{Fitted, Given, Made, Needs, Observed, OodScore};
use crate::error::Result;

pub(super) const VIM: OodScore =
    OodScore { rows: &[("vim", "virtual logit (Wang et al. 2022)")], needs: Needs::Head, made: Made::Fitted(fit) };

fn fit(given: &Given) -> Result<Fitted> {
    let (Some(features), Some(head)) = (&given.kept.features, given.head) else { return Ok(None) };
    let fitted = Vim::fit(features, &head.weight, &head.bias)?;
    let formula = move |seen: &Observed| -> Result<Vec<Tensor>> {
        seen.features.iter().map(|features| Ok(fitted.score(features, &seen.logits)?)).collect()
    };
    Ok(Some(Box::new(formula)))
}
