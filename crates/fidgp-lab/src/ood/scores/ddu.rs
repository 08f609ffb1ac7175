//! The density of the features by Gaussians of the classes.

use fidgp_zoo::methods::ddu::ClassGaussians;
use tch::Tensor;

use super::{Fitted, Given, Made, Needs, Observed, OodScore, quietly};
use crate::error::Result;

pub(super) const DDU: OodScore = OodScore {
    rows: &[("ddu", "density of class Gaussians, a DDU network's own (Mukhoti et al. 2023)")],
    needs: Needs::Features,
    made: Made::Fitted(fit),
};

/// A model with Gaussians of its own, of all its training data, needs no others.
fn fit(given: &Given) -> Result<Fitted> {
    if given.first.log_density.is_some() {
        let own = |seen: &Observed| -> Result<Vec<Tensor>> { Ok(seen.log_density.iter().map(|own| -own).collect()) };
        return Ok(Some(Box::new(own)));
    }
    let Some((features, labels)) = given.labelled() else { return Ok(None) };
    let fitted = quietly(|| ClassGaussians::fit(features, labels))?;
    let formula = move |seen: &Observed| -> Result<Vec<Tensor>> {
        seen.features.iter().map(|features| Ok(-fitted.score(features)?)).collect()
    };
    Ok(Some(Box::new(formula)))
}
