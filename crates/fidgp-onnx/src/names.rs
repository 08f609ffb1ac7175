//! Names of layers, from those of their weights.

use std::collections::BTreeSet;

/// What exporters call tensors that they made themselves.
const MADE: [&str; 8] = ["onnx::", "val_", "_val_", "c_lifted_tensor", "lifted_tensor", "_v_", "node_", "ortshared"];

/// Whether a tensor's name is an exporter's and says nothing of the module.
pub(crate) fn is_made(name: &str) -> bool {
    let number = name.chars().all(|sign| sign.is_ascii_digit());
    let last = name.rsplit('.').next().unwrap_or(name);
    let made = |name: &str| MADE.iter().any(|start| name.starts_with(start));
    number || name.contains('/') || made(name) || made(last) || name.ends_with("_output_0")
}

/// `layer1.0.conv1.weight` → `layer1.0.conv1`, `attention.in_proj_weight` → `attention.in_proj`.
pub(crate) fn of_weight(name: &str) -> &str {
    let ends = [".weight", "_weight", ".kernel", ".gamma", ".scale"];
    ends.iter().find_map(|end| name.strip_suffix(end)).filter(|rest| !rest.is_empty()).unwrap_or(name)
}

/// What an exported graph calls its own values: outputs, and beginnings of all others.
const OUTPUTS: [&str; 9] =
    ["accept", "aleatoric", "epistemic", "mean", "ood_p", "ood_score", "probabilities", "sd", "total"];
const OWN: [&str; 6] = ["draw", "fidgp/", "lower_", "net/", "set_", "upper_"];

/// The name of a source's value in the graph that is exported, where it must not be that of an own one.
pub(crate) fn in_export(name: &str) -> String {
    let taken = OUTPUTS.contains(&name) || OWN.iter().any(|start| name.starts_with(start));
    if taken { format!("net/{name}") } else { name.to_owned() }
}

/// Names that are taken, so that no two layers have one.
#[derive(Debug, Default)]
pub(crate) struct Taken(BTreeSet<String>);

impl Taken {
    /// A name as variables can have it, with a number behind it where it is taken.
    pub(crate) fn claim(&mut self, name: &str) -> String {
        let part = |part: &str| if part.is_empty() { "_".to_owned() } else { part.replace(['/', '|'], "_") };
        let clean = name.split('.').map(part).collect::<Vec<_>>().join(".");
        let numbered = (2..).map(|n| format!("{clean}.{n}"));
        let free = std::iter::once(clean.clone()).chain(numbered).find(|name| !self.0.contains(name));
        let free = free.unwrap_or(clean);
        self.0.insert(free.clone());
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_named_after_their_weights() {
        assert_eq!(of_weight("layer1.0.conv1.weight"), "layer1.0.conv1");
        assert_eq!(of_weight("attention.in_proj_weight"), "attention.in_proj");
        assert_eq!(of_weight("token"), "token");
        assert_eq!(of_weight(".weight"), ".weight");
    }

    #[test]
    fn exporters_names_are_told_from_modules() {
        for made in ["onnx::MatMul_207", "val_12", "/encoder/Constant_output_0", "123", "a.attn.lifted_tensor_0"] {
            assert!(is_made(made), "{made}");
        }
        for own in ["fc.weight", "class_token", "validation.weight"] {
            assert!(!is_made(own), "{own}");
        }
    }

    #[test]
    fn a_source_gives_way_to_the_names_of_an_export() {
        for taken in ["mean", "probabilities", "draw0/fc.weight", "fidgp/sd", "net/mean"] {
            assert_eq!(in_export(taken), format!("net/{taken}"));
        }
        assert_eq!(in_export("fc.weight"), "fc.weight");
    }

    #[test]
    fn no_name_is_given_twice() {
        let mut taken = Taken::default();
        assert_eq!(taken.claim("a.b"), "a.b");
        assert_eq!(taken.claim("a.b"), "a.b.2");
        assert_eq!(taken.claim("a..b"), "a._.b");
        assert_eq!(taken.claim("x/y"), "x_y");
    }
}
