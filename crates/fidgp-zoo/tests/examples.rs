//! The examples, compiled against the public API and run on little data.

use std::path::Path;

#[path = "../examples/own_network.rs"]
mod own_network;
#[path = "../examples/wrap_trained.rs"]
mod wrap_trained;

#[test]
fn a_network_of_ones_own_learns_and_comes_back_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let found = own_network::run(Path::new(own_network::FEW), 100, &folder.path().join("vit.safetensors")).unwrap();
    assert!(found.accuracy[0] > 2.0 * found.accuracy[1], "{:?}", found.accuracy);
    assert!(found.entropy[0] < 4_f64.ln(), "{:?}", found.entropy);
    assert!(found.change < f64::EPSILON, "{}", found.change);
}

#[test]
fn a_wrapped_network_says_what_the_plain_one_said() {
    let folder = tempfile::tempdir().unwrap();
    let found = wrap_trained::run(30, &folder.path().join("plain.safetensors")).unwrap();
    assert!(found.agreement > 0.9, "{}", found.agreement);
    assert!(found.epistemic > 0.0);
}
