//! Scores that change the last features, or ask for the gradient of what they are given to.

use fidgp_zoo::baseline::activation::{Head, grad_norm, react, scale};
use fidgp_zoo::baseline::ash::ash;
use tch::Tensor;

use super::{Formula, Given, Made, Needs, OodScore};
use crate::error::Result;

pub(super) const GRADNORM: OodScore = OodScore {
    rows: &[("gradnorm", "norm of the head's gradient (Huang et al. 2021)")],
    needs: Needs::Features,
    made: Made::Plain(|seen| seen.features.iter().map(|features| grad_norm(features, &seen.logits)).collect()),
};

pub(super) const REACT: OodScore = OodScore {
    rows: &[("react", "energy of features clipped at the 90 % quantile (Sun et al. 2021)")],
    needs: Needs::Head,
    made: Made::Fitted(|given| {
        let clip = given.kept.features.as_ref().map_or(f64::INFINITY, |features| quantile(features, 0.9));
        Ok(with_head(given, move |features, head| react(features, head, clip)))
    }),
};

pub(super) const SCALE: OodScore = OodScore {
    rows: &[("scale", "energy of scaled features, 85 % (Xu et al. 2024)")],
    needs: Needs::Head,
    made: Made::Fitted(|given| Ok(with_head(given, scale))),
};

pub(super) const ASH: OodScore = OodScore {
    rows: &[("ash", "energy of the largest 10 % of the features, scaled: ASH-S (Djurisic et al. 2023)")],
    needs: Needs::Head,
    made: Made::Fitted(|given| Ok(with_head(given, ash))),
};

/// A formula of features and the last layer.
fn with_head(given: &Given, of: impl Fn(&Tensor, &Head) -> Tensor + 'static) -> Option<Box<dyn Formula>> {
    let head = given.own_head()?;
    let formula = move |seen: &super::Observed| -> Result<Vec<Tensor>> {
        Ok(seen.features.iter().map(|features| of(features, &head)).collect())
    };
    Some(Box::new(formula))
}

/// The q-quantile of all entries.
fn quantile(x: &Tensor, q: f64) -> f64 {
    let (sorted, _) = x.reshape([-1]).sort(0, false);
    sorted.double_value(&[(q * (sorted.size()[0] - 1) as f64) as i64])
}
