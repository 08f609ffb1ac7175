//! Files that must pass, and what must be said about them.

use fidgp_lab::verify::{GOLDEN, Precision, Row, Summary, Verdict, render};
use serde_json::{Value, json};

use crate::{OTHER, failures, rows};

fn not_checked(rows: &[Row]) -> Vec<&str> {
    let open = rows.iter().filter(|row| matches!(row.verdict, Verdict::NotChecked(_)));
    open.map(|row| row.quantity.as_str()).collect()
}

#[test]
fn the_shipped_file_is_reproduced_in_both_precisions() {
    for (precision, least) in [(Precision::F64, 259), (Precision::F32, 256)] {
        let rows = rows(GOLDEN, precision);
        assert_eq!(failures(&rows), Vec::<String>::new());
        assert!(Summary::of(&rows).passed >= least, "{}", Summary::of(&rows));
    }
}

#[test]
fn everything_but_networks_to_come_is_checked_in_f64() {
    let rows = rows(GOLDEN, Precision::F64);
    for row in rows.iter().filter(|row| matches!(row.verdict, Verdict::NotChecked(_))) {
        let to_come = ["fcn_", "hrnet"].iter().any(|network| row.quantity.starts_with(network));
        assert!(to_come || row.case == "bayesianize_crosscheck", "{} {}", row.case, row.quantity);
    }
}

#[test]
fn another_file_with_other_sizes_is_reproduced() {
    for precision in [Precision::F64, Precision::F32] {
        let rows = rows(OTHER, precision);
        assert_eq!(failures(&rows), Vec::<String>::new());
        let open = not_checked(&rows);
        assert!(open.iter().all(|quantity| *quantity == "max_abs_cov_gap"), "{open:?}");
        assert_eq!(open.is_empty(), precision == Precision::F64);
    }
}

#[test]
fn f32_has_its_own_bounds() {
    let rows = rows(GOLDEN, Precision::F32);
    let bound = |case: &str, quantity: &str| {
        let row = rows.iter().find(|row| row.case == case && row.quantity == quantity).unwrap();
        row.bound.unwrap()
    };
    assert!((bound("inducing[0]", "Lz_row") - 1e-4).abs() < 1e-12);
    assert!((bound("inducing[2]", "Lz_row") - 5e-3).abs() < 1e-12); // 4 inducing rows for 3 outputs
    assert!((bound("inducing[2]", "W_sample") - 1e-4).abs() < 1e-12);
}

#[test]
fn unknown_keys_are_listed_and_never_pass() {
    let mut file: Value = serde_json::from_str(OTHER).unwrap();
    file["kl_of_the_future"] = json!({"x": 1});
    file["inducing"][0]["expected"]["W_novel"] = json!([[1.0]]);
    file["inducing"][0]["inputs"]["twist"] = json!(3);
    file["metrics"]["ece"]["adaptive"] = json!(0.1);
    file["metrics"]["auc"] = json!(0.1);
    file["released_flow"][0]["layers"]["extra_layer"] = json!({"weight_orig": [[1.0]]});
    file["note"] = json!("for people");
    let rows = rows(&file.to_string(), Precision::F64);
    assert_eq!(failures(&rows), Vec::<String>::new());
    let mut open = not_checked(&rows);
    open.sort_unstable();
    assert_eq!(open, ["W_novel", "all", "auc", "ece.adaptive", "inputs.twist", "layers.extra_layer"]);
    assert!(rows.iter().any(|row| row.case == "kl_of_the_future" && row.quantity == "all"));
}

#[test]
fn what_the_file_leaves_out_is_not_checked() {
    let mut file: Value = serde_json::from_str(OTHER).unwrap();
    for key in ["K_row", "kl_cond"] {
        file["inducing"][0]["expected"].as_object_mut().unwrap().remove(key);
    }
    file["inducing"][1]["inputs"].as_object_mut().unwrap().remove("e2");
    file["kl_flow"].as_object_mut().unwrap().remove("kl_mc_stderr");
    let rows = rows(&file.to_string(), Precision::F64);
    assert_eq!(failures(&rows), Vec::<String>::new());
    let open = not_checked(&rows);
    assert_eq!(open, ["K_row", "kl_cond", "u_bar", "noise_unit", "W_sample", "W_sample (unmerged)", "kl_mc_mean"]);
}

#[test]
fn a_scalar_may_stand_in_a_list_and_a_number_may_be_whole() {
    let mut file: Value = serde_json::from_str(OTHER).unwrap();
    let lamda = file["inducing"][0]["inputs"]["lamda_raw"].clone();
    file["inducing"][0]["inputs"]["lamda_raw"] = json!([lamda]);
    file["inducing"][0]["inputs"]["sqrt_width_scaling"] = json!(0);
    file["inducing"][0]["inputs"]["prior_sd"] = json!(2);
    file["metrics"]["acc"] = json!([file["metrics"]["acc"]]);
    file["projector"] = file["projector"][0].clone();
    assert_eq!(failures(&rows(&file.to_string(), Precision::F64)), Vec::<String>::new());
}

#[test]
fn the_table_is_aligned_and_ends_with_the_sum() {
    let file = r#"{"auroc": {"id": [0.1, 0.4], "ood": [0.4, 0.9], "auroc": 0.875}, "novelty": 1, "macs": {"resnet18_cifar10_32x32": 1}}"#;
    assert_eq!(
        render(&rows(file, Precision::F64)),
        "\
case     quantity                abs error  rel error    bound  verdict

auroc    auroc                           0          0   1.0e-9  passed

macs     resnet18_cifar10_32x32     5.55e8     5.55e8        0  FAILED: 555422720 is not 1

novelty  all                             -          -        -  not checked: unknown key

1 passed, 1 failed, 1 not checked
"
    );
}
