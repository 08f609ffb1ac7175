//! What the server and its models say of themselves.

use serde::Serialize;
use serde_json::json;

use super::Datatype;
use crate::model::{Outputs, Signature, Takes};

/// `GET v2`
#[derive(Debug, Serialize)]
pub struct ServerMetadata {
    /// Name.
    pub name: &'static str,
    /// Version.
    pub version: &'static str,
    /// Extensions of the protocol.
    pub extensions: [&'static str; 2],
}

impl Default for ServerMetadata {
    fn default() -> Self {
        Self {
            name: "fidgp",
            version: env!("CARGO_PKG_VERSION"),
            extensions: ["binary_tensor_data", "model_repository"],
        }
    }
}

/// `GET v2/models/{name}`
#[derive(Debug, Serialize)]
pub struct ModelMetadata {
    /// Name.
    pub name: String,
    /// Versions that are served.
    pub versions: Vec<String>,
    /// Who computes.
    pub platform: &'static str,
    /// What it takes.
    pub inputs: Vec<TensorMetadata>,
    /// What it gives.
    pub outputs: Vec<TensorMetadata>,
    /// Whether it takes rows or pictures, what its columns hold, names of features, target and classes, levels of sets and
    /// intervals.
    pub parameters: serde_json::Value,
}

/// A tensor: −1 is a size that varies.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TensorMetadata {
    /// Name.
    pub name: String,
    /// Type of its elements.
    pub datatype: Datatype,
    /// Shape.
    pub shape: Vec<i64>,
}

fn tensor(name: impl Into<String>, datatype: Datatype, shape: &[i64]) -> TensorMetadata {
    TensorMetadata { name: name.into(), datatype, shape: shape.to_vec() }
}

/// A model's tensors.
pub fn metadata(name: &str, version: &str, signature: &Signature) -> ModelMetadata {
    ModelMetadata {
        name: name.to_owned(),
        versions: vec![version.to_owned()],
        platform: "fidgp_libtorch",
        inputs: inputs(signature),
        outputs: outputs(signature),
        parameters: parameters(signature),
    }
}

fn parameters(signature: &Signature) -> serde_json::Value {
    let mut named = match &signature.gives {
        Outputs::Classes(classes) | Outputs::Pixels(classes) => json!({"classes": classes}),
        Outputs::Number(target) => json!({"target": target}),
    };
    named["takes"] = if matches!(signature.takes, Takes::Rows { .. }) { "row" } else { "picture" }.into();
    if let Takes::Rows { features, example, columns } = &signature.takes {
        named["features"] = json!(features);
        if !columns.is_empty() {
            named["columns"] = json!(columns);
        }
        if !example.is_empty() {
            named["example"] = json!(example);
        }
    }
    if !signature.levels.is_empty() {
        named["levels"] = json!(signature.levels);
    }
    named
}

fn inputs(signature: &Signature) -> Vec<TensorMetadata> {
    match &signature.takes {
        Takes::Pictures { size: Some([channels, height, width]) } => {
            vec![tensor("image", Datatype::Fp32, &[-1, *channels, *height, *width])]
        }
        Takes::Pictures { size: None } => vec![tensor("picture", Datatype::Bytes, &[-1])],
        Takes::Rows { features, columns, .. } if !columns.is_empty() => {
            features.iter().map(|name| tensor(name, Datatype::Bytes, &[-1])).collect()
        }
        Takes::Rows { features, .. } => vec![tensor("row", Datatype::Fp64, &[-1, features.len() as i64])],
    }
}

/// Names, types and shapes of a model's outputs.
pub fn outputs(signature: &Signature) -> Vec<TensorMetadata> {
    let each = |names: &[&str]| names.iter().map(|name| tensor(*name, Datatype::Fp64, &[-1])).collect::<Vec<_>>();
    let levels = signature.levels.len() as i64;
    let mut outputs = match &signature.gives {
        Outputs::Classes(classes) => {
            let mut outputs = vec![
                tensor("probabilities", Datatype::Fp64, &[-1, classes.len() as i64]),
                tensor("class", Datatype::Bytes, &[-1]),
            ];
            outputs.extend(each(&["total", "aleatoric", "epistemic"]));
            if levels > 0 {
                outputs.push(tensor("set", Datatype::Bytes, &[-1, levels]));
            }
            outputs
        }
        Outputs::Number(_) => {
            let mut outputs = each(&["mean", "sd", "aleatoric", "epistemic"]);
            if levels > 0 {
                outputs.extend(["lower", "upper"].map(|name| tensor(name, Datatype::Fp64, &[-1, levels])));
            }
            outputs
        }
        Outputs::Pixels(classes) => {
            let mut outputs = vec![
                tensor("shares", Datatype::Fp64, &[-1, classes.len() as i64]),
                tensor("map", Datatype::Bytes, &[-1]),
            ];
            outputs.extend(each(&["total", "aleatoric", "epistemic"]));
            outputs
        }
    };
    if signature.scores_ood {
        outputs.extend(each(&["ood_score", "ood_p"]));
    }
    if signature.decides {
        outputs.push(tensor("decision", Datatype::Bytes, &[-1]));
    }
    if signature.flags() {
        outputs.push(tensor("flags", Datatype::Bytes, &[-1]));
    }
    outputs
}
