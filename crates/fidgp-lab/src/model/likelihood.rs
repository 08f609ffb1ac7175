//! The likelihood that a config names, for the data there are.

use fidgp::objective::{Given, Likelihood, Targets};
use tch::nn::Path;

use super::Signature;
use crate::config::RunConfig;
use crate::error::{LabError, Result};

/// The likelihood of a config, and the outputs it needs of the network.
pub(super) fn likelihood(root: &Path, config: &RunConfig, signature: &Signature) -> Result<(Box<dyn Likelihood>, i64)> {
    let (targets, classes, what, fits) = match signature {
        Signature::Regression { .. } => (Targets::Numbers, 0, "a number", "gaussian"),
        Signature::Classification { classes, .. } | Signature::Rows { classes, .. } => {
            (Targets::Classes, *classes, "class labels", "categorical")
        }
        Signature::Segmentation { classes, .. } => (Targets::Pixels, *classes, "masks", "pixels"),
    };
    if config.likelihood.targets() != targets {
        let why = format!("= \"{}\" does not fit {what}; use \"{fits}\"", config.likelihood.kind());
        return Err(LabError::config("likelihood.kind", why));
    }
    let needed = config.likelihood.outputs(classes);
    let head = if targets == Targets::Pixels { config.network.outputs(classes) } else { needed };
    if head < needed {
        let why = format!("{head} is less than the {classes} classes of the data");
        return Err(LabError::config("network.outputs", why));
    }
    let given = Given { members: config.copies(), classes, head };
    Ok((config.likelihood.init(&(root / "likelihood"), &given)?, needed))
}
