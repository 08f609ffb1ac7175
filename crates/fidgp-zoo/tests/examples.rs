//! The examples, compiled against the public API and run on little data.

#[path = "../examples/wrap_trained.rs"]
mod wrap_trained;

#[test]
fn a_wrapped_network_says_what_the_plain_one_said() {
    let folder = tempfile::tempdir().unwrap();
    let found = wrap_trained::run(30, &folder.path().join("plain.safetensors")).unwrap();
    assert!(found.agreement > 0.9, "{}", found.agreement);
    assert!(found.epistemic > 0.0);
}
