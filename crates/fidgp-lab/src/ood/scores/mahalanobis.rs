//! Distances to the means of the classes.

use fidgp_zoo::baseline::mahalanobis::Mahalanobis;

use super::{Fitted, Given, Made, Needs, Observed, OodScore, quietly};
use crate::error::Result;

pub(super) const MAHALANOBIS: OodScore = OodScore {
    rows: &[
        ("mahalanobis", "distance to the nearest class mean (Lee et al. 2018)"),
        ("relative-mahalanobis", "the same less the distance to all features (Ren et al. 2021)"),
    ],
    needs: Needs::Features,
    made: Made::Fitted(fit),
};

fn fit(given: &Given) -> Result<Fitted> {
    let Some((features, labels)) = given.labelled() else { return Ok(None) };
    let fitted = quietly(|| Mahalanobis::fit(features, labels))?;
    let formula = move |seen: &Observed| match &seen.features {
        Some(features) => Ok(vec![fitted.score(features)?, fitted.relative(features)?]),
        None => Ok(Vec::new()),
    };
    Ok(Some(Box::new(formula)))
}
