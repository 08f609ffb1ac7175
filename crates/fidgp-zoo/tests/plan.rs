//! A plan against a network.

use fidgp::weight::InducingConfig;
use fidgp_zoo::{LayerPlan, MlpConfig, bayesianise};

#[test]
fn a_pattern_without_a_layer_is_refused_with_the_names_and_a_suggestion() {
    let mlp = MlpConfig { inputs: 2, hidden: vec![3], outputs: 1, ..MlpConfig::default() };
    let plan = LayerPlan::only(&["fc4"], &InducingConfig::default());
    let error = bayesianise(&mut mlp.network().unwrap(), &plan).unwrap_err().to_string();
    assert_eq!(error, "no layer matches `fc4` (did you mean `fc1`?). The network has: fc1, fc2");
}
