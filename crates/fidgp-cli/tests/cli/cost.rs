//! Counts of the paper's plans, to the last digit.

use crate::Place;

fn parameters(config: &str, overrides: &[&str]) -> i64 {
    let path = format!("{}/../../configs/{config}.toml", env!("CARGO_MANIFEST_DIR"));
    let mut words = vec!["cost", path.as_str(), "--compat", "--json"];
    words.extend(overrides.iter().flat_map(|change| ["--set", change]));
    let said = Place::new().fidgp(&words).ends(0);
    let json: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    json["parameters"].as_i64().unwrap()
}

#[test]
fn plans_of_the_paper_have_its_parameters() {
    assert_eq!(parameters("cifar100-deterministic", &[]), 11_220_132);
    assert_eq!(parameters("cifar100-ffgu", &[]), 5_354_377);
    assert_eq!(parameters("cifar100-fidgp-four", &[]), 8_008_168);
    for (size, count) in [(32, 1_354_637), (64, 2_657_773), (128, 5_509_805), (256, 12_196_909)] {
        let sizes = [format!("inducing.inducing_rows={size}"), format!("inducing.inducing_cols={size}")];
        assert_eq!(parameters("cifar100-fidgp-all", &[&sizes[0], &sizes[1]]), count, "M = {size}");
    }
}

#[test]
fn a_table_is_printed_without_json() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/regression-left.toml");
    insta::assert_snapshot!("cost_regression", Place::new().fidgp(&["cost", path]).ends(0).out);
}
