//! Every run of a comparison once more with a temperature, which the run itself does not keep.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Plan, context_of};
use crate::calibrate;
use crate::config::RunConfig;
use crate::error::Result;
use crate::experiment;
use crate::files::TEMPERED_FILE;
use crate::json;
use crate::predict::Trained;

/// The test metrics of a run with the temperature that its validation examples ask for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tempered {
    /// T: logits are divided by it.
    pub temperature: f64,
    /// Whether T is an end of the range it is looked for in.
    pub at_edge: bool,
    /// Test metrics.
    pub metrics: BTreeMap<String, f64>,
}

/// Read where it is, else fitted on the validation examples and measured on the test examples.
pub(super) fn of_run(config: &RunConfig, run: &Path, plan: &Plan) -> Result<Tempered> {
    let path = run.join(TEMPERED_FILE);
    if path.exists() {
        return json::read(&path);
    }
    let fitted = calibrate::fit(config, run, &plan.data_root, plan.device)?;
    let mut predictor = Trained::as_trained(run, plan.device, Some(&plan.data_root))?;
    predictor.model.temper(fitted.temperature)?;
    let results = experiment::evaluate(&mut predictor, &context_of(run, true, plan))?;
    let metrics = results.metrics.into_iter().filter(|(name, _)| !name.starts_with("validation/"));
    let found = Tempered {
        temperature: fitted.temperature,
        at_edge: fitted.at_edge,
        metrics: metrics.filter_map(|(name, value)| Some((name, value?))).collect(),
    };
    json::write(&path, &found)?;
    Ok(found)
}
