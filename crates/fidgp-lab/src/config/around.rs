//! A graph without a config: one is made around it.

use std::path::Path;

use toml::Value;

use super::{Override, RunConfig, parse};
use crate::error::{LabError, Result as LabResult};

/// Settings of a graph that becomes Bayesian where it is, for the rest of which nobody wrote a config.
const USUAL: &str = r#"
method = "fidgp"
seed = 1
[data]
set = "images"
[inducing]
inducing_rows = 64
inducing_cols = 64
init_lamda = 0.001
max_lamda = 0.03
max_sd_u = 0.1
[likelihood]
kind = "categorical"
[train]
epochs = 10
batch_size = 128
optimiser = { kind = "adam", learning_rate = 0.001 }
schedule = { kind = "cosine" }
"#;

/// The config of a graph as it is: network and start are the file, the rest is usual and can be changed.
///
/// # Errors
/// When the overrides do not say which data, or as [`parse`] says.
pub fn around_graph(file: &Path, overrides: &[Override]) -> LabResult<RunConfig> {
    if !overrides.iter().any(|change| change.sets("data")) {
        let why = "is missing: a graph does not say what it is for; add --set data.name=cifar10 (`fidgp data` lists the sets), or \
                   --set 'data={set=\"folder\", …}' for your own, and --set normalisation=… as it was trained";
        return Err(LabError::config("data.name", why));
    }
    let text = |path: &Path| Value::String(path.to_string_lossy().into_owned());
    let name = Value::String(file.file_stem().unwrap_or_default().to_string_lossy().into_owned());
    let path = text(file);
    parse(
        &format!(
            "name = {name}\nnetwork = {{ kind = \"onnx\", path = {path} }}\nstart = {{ weights = {path} }}{USUAL}"
        ),
        overrides,
    )
}
