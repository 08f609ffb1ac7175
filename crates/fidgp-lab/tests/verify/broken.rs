//! Files that must not pass: every fault is named, none is a panic.

use fidgp_lab::verify::{GOLDEN, Precision, Summary, verify};
use serde_json::{Value, json};
use tch::Device;

use crate::{OTHER, failures, rows};

/// The entry at a path of keys and indices.
fn entry<'a>(file: &'a mut Value, path: &str) -> &'a mut Value {
    path.split('/').fold(file, |value, key| match key.parse::<usize>() {
        Ok(index) if value.is_array() => &mut value[index],
        _ => &mut value[key],
    })
}

fn with(json: &str, path: &str, value: Value) -> String {
    let mut file: Value = serde_json::from_str(json).unwrap();
    *entry(&mut file, path) = value;
    if let Some(Value::Object(kl_flow)) = file.get_mut("kl_flow") {
        kl_flow.remove("kl_mc_mean"); // slow
    }
    file.to_string()
}

/// The first number below an entry, moved by a thousandth.
fn nudge(value: &mut Value) {
    match value {
        Value::Array(items) => nudge(&mut items[0]),
        Value::Number(number) if number.is_f64() => *value = json!(number.as_f64().unwrap() + 1e-3),
        Value::Number(number) => *value = json!(number.as_i64().unwrap() + 1),
        other => panic!("{other} is no number"),
    }
}

#[test]
fn one_changed_number_fails_the_quantity_it_belongs_to() {
    for (path, named) in [
        ("inducing/1/expected/W_sample", "inducing[1] W_sample"),
        ("inducing/2/expected/cov_noise_as_coded_unit", "inducing[2] cov_noise_as_coded_unit:"),
        ("inducing/0/expected/kl_u_unwhitened_diag", "inducing[0] kl_u_unwhitened_diag:"),
        ("released_flow/1/jacobian_row0", "released_flow[1] jacobian_row0:"),
        (
            "released_flow/0/layers/blocks.1.linear_layers.0/mask",
            "released_flow[0] layers.blocks.1.linear_layers.0.mask:",
        ),
        ("paper_literal_flow/logabsdet", "paper_literal_flow logabsdet:"),
        ("projector/2/P_star_argmin", "projector[2] P_star_argmin:"),
        ("ood_score/score", "ood_score score:"),
        ("metrics/ece/20", "metrics ece.20:"),
        ("auroc/auroc", "auroc auroc:"),
        ("batchensemble_linear/out_member_major", "batchensemble_linear out_member_major:"),
        ("sngp_head/variance", "sngp_head variance:"),
        ("ddu/log_prob", "ddu log_prob:"),
        ("svgp_whitened/cov", "svgp_whitened cov:"),
        ("param_counts/fidgp_resnet18_cifar100/64", "param_counts fidgp_resnet18_cifar100.64:"),
        ("macs/resnet50_imagenet_224", "macs resnet50_imagenet_224:"),
    ] {
        let mut file: Value = serde_json::from_str(GOLDEN).unwrap();
        nudge(entry(&mut file, path));
        file.as_object_mut().unwrap().remove("kl_flow"); // slow, and below
        let failures = failures(&rows(&file.to_string(), Precision::F64));
        assert!(
            !failures.is_empty() && failures.iter().all(|failure| failure.starts_with(named)),
            "{path}: {failures:?}"
        );
    }
}

#[test]
fn a_wrong_mean_over_draws_fails() {
    let mut file: Value = serde_json::from_str(OTHER).unwrap();
    let mean = file["kl_flow"]["kl_mc_mean"].as_f64().unwrap();
    let error = file["kl_flow"]["kl_mc_stderr"].as_f64().unwrap();
    file["kl_flow"]["kl_mc_mean"] = json!(mean + 12.0 * error);
    let failures = failures(&rows(&file.to_string(), Precision::F64));
    assert!(
        failures.len() == 1 && failures[0].contains("kl_mc_mean") && failures[0].contains("standard errors"),
        "{failures:?}"
    );
}

#[test]
fn a_changed_input_fails_what_follows_from_it() {
    let mut file: Value = serde_json::from_str(OTHER).unwrap();
    nudge(entry(&mut file, "inducing/1/inputs/e3"));
    let failures = failures(&rows(&file.to_string(), Precision::F64));
    let quantities: Vec<_> = failures.iter().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(
        quantities,
        ["u_bar", "noise_unit", "W_sample", "W_sample (unmerged)"].map(|q| format!("inducing[1] {q}"))
    );
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_with_a_place() {
    for (file, words) in [
        ("", "not JSON"),
        (r#"{"auroc": "#, "line 1 column"),
        ("[1, 2]", "the file"),
        ("3", "the file"),
        (r#"{"inducing": 3}"#, "`inducing` is a number, expected an object"),
        (r#"{"inducing": [{}, 7]}"#, "`inducing[1]` is a number, expected an object"),
        (r#"{"metrics": "none"}"#, "`metrics` is a text, expected an object"),
    ] {
        let error = verify(file, Precision::F64, Device::Cpu).unwrap_err().to_string();
        assert!(error.contains(words), "{file}: {error}");
    }
}

#[test]
fn inputs_that_cannot_be_used_fail_with_their_path() {
    for (path, value, words) in [
        ("inducing/0/inputs/z_row", Value::Null, "`inducing[0].inputs.z_row` is missing"),
        ("inducing/0/inputs/z_row", json!([1.0]), "expected a matrix"),
        ("inducing/0/inputs/z_row", json!([[1.0], [2.0, 3.0]]), "`inducing[0].inputs.z_row[1]` has shape [2]"),
        ("inducing/0/inputs/z_row", json!([["a"]]), "`inducing[0].inputs.z_row[0][0]` is a text"),
        ("inducing/0/inputs/z_row", json!([]), "is an empty list"),
        ("inducing/0/inputs", json!(1), "`inducing[0].inputs.z_row` is missing"),
        ("inducing/1/inputs/q_mean", json!([[1.0]]), "`inducing[1].inputs.q_mean` has shape [1, 1], expected [5, 3]"),
        ("inducing/1/inputs/e1", json!([[1.0, 2.0]]), "`inducing[1].inputs.e1` has shape [1, 2], expected [2, 4]"),
        ("inducing/1/inputs/prior_sd", json!(-1.0), "prior_sd"),
        ("inducing/1/inputs/jitter_eps", json!("1e-4"), "`inducing[1].inputs.jitter_eps` is a text"),
        ("inducing/1/inputs/sqrt_width_scaling", json!(2), "expected true or false"),
        ("inducing/1/dims/M_in", json!(9), "`inducing[1].dims.M_in` is 9"),
        ("inducing/1/expected/u", json!([[1.0, 2.0]]), "u: computed shape [5, 3], the file has [1, 2]"),
        ("inducing/1/expected/u", json!("u"), "u: `inducing[1].expected.u` is a text"),
        ("released_flow/0/features", json!(7), "`released_flow[0].features` is 7"),
        ("released_flow/0/num_blocks", json!(4), "linear_layers.0` is missing"),
        ("released_flow/0/num_blocks", json!(1.5), "expected a whole number"),
        ("released_flow/0/x", json!([[1.0]]), "columns"),
        ("released_flow/0/layers/final_layer/bias", json!([1.0]), "final_layer.bias` has shape [1], expected [6]"),
        ("released_flow/0/layers/initial_layer/u", json!([1.0]), "initial_layer.u` has shape [1], expected [5]"),
        ("kl_flow/case", json!(11), "`inducing[11]` is missing"),
        ("kl_flow/flow", json!(2), "a flow on 5 columns on an inducing matrix with 3"),
        ("paper_literal_flow/layers/1/W", json!([[1.0]]), "W` has shape [1, 1], expected [3, 3]"),
        ("paper_literal_flow/phi", json!("leaky relu slope 0.1"), "slope 0.1"),
        ("paper_literal_flow/layers", json!([]), "layers"),
        ("projector/0/U", json!([[[1.0]]]), "expected a matrix"),
        ("projector/0/z", json!([[1.0]]), "`projector[0].z` has shape [1, 1], expected [.., 5]"),
        ("ood_score/mlp/W1", json!([[1.0]]), "`ood_score.mlp.b1` has shape [4], expected [1]"),
        ("ood_score/mlp/b2", json!([1.0]), "`ood_score.mlp.b2` has shape [1]"),
        ("ood_score/grad", json!([[1.0]]), "gradient"),
        ("ood_score/feature", json!(1.0), "gradient"),
        ("metrics/targets", json!([0]), "metrics"),
        ("metrics/targets", json!([-1]), "negative label"),
        ("metrics/probs", json!([0.5, 0.5]), "expected a matrix"),
        ("metrics/probs/0/0", json!(7.0), "metrics"),
        ("auroc/id", json!([]), "empty list"),
    ] {
        let rows = rows(&with(OTHER, path, value), Precision::F64);
        let failures = failures(&rows);
        assert!(failures.iter().any(|failure| failure.contains(words)), "{path}: {failures:?}");
        assert!(!failures.iter().any(|failure| failure.contains("could not be computed")), "{path}: {failures:?}");
        assert!(Summary::of(&rows).passed > 50, "{path}: the other cases are still checked");
    }
}

#[test]
fn baselines_refuse_wrong_shapes() {
    for path in [
        "batchensemble_linear/W",
        "batchensemble_linear/gamma",
        "sngp_head/W",
        "sngp_head/b",
        "sngp_head/beta",
        "sngp_head/train_features",
        "ddu/features",
        "ddu/labels",
        "ddu/query",
        "svgp_whitened/Z",
        "svgp_whitened/x",
        "svgp_whitened/m",
        "svgp_whitened/L",
    ] {
        let mut file: Value = serde_json::from_str(GOLDEN).unwrap();
        file.as_object_mut().unwrap().retain(|key, _| path.starts_with(key.as_str()));
        let file = file.to_string();
        for wrong in [json!([[1.0]]), json!([1.0, 2.0]), json!(1.0)] {
            let failures = failures(&rows(&with(&file, path, wrong), Precision::F64));
            assert!(!failures.is_empty(), "{path}");
            assert!(!failures.iter().any(|failure| failure.contains("could not be computed")), "{path}: {failures:?}");
        }
    }
}

#[test]
fn nan_costs_its_own_quantity_only() {
    let u = r#""u":[["#;
    let at = OTHER.find(u).unwrap() + u.len();
    let end = at + OTHER[at..].find([',', ']']).unwrap();
    let file = format!("{}NaN{}", &OTHER[..at], &OTHER[end..]);
    let failed = failures(&rows(&file, Precision::F64));
    assert!(failed.len() == 1 && failed[0].contains("inducing[0] u:") && failed[0].contains("NaN"), "{failed:?}");
    let file = OTHER.replacen("\"eps_u\":[[", "\"eps_u\":[[Infinity,", 1);
    let failed = failures(&rows(&file, Precision::F64));
    assert!(failed.iter().all(|failure| failure.contains("not finite")) && !failed.is_empty(), "{failed:?}");
}
