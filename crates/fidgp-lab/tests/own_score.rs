//! A new out-of-distribution score is one file, here this one, and one line in `SCORES`; from Rust not even that.

use fidgp_lab::error::Result;
use fidgp_lab::ood::scores::{Fitted, Made, Needs};
use fidgp_lab::ood::{Given, More, Observed, OodScore, Settings, WeightChoice, run_arrays};
use tch::{Device, Kind, Tensor};

/// How far the features are from the mean of the training features.
static DISTANCE: OodScore = OodScore {
    rows: &[("distance", "from the mean of all features"), ("nearness", "the same the wrong way round")],
    needs: Needs::Features,
    made: Made::Fitted(|given| Ok(fit(given))),
};

/// A score that cannot be fitted.
static BROKEN: OodScore = OodScore {
    rows: &[("broken", "nothing")],
    needs: Needs::Logits,
    made: Made::Fitted(|_| Err(fidgp_lab::error::LabError::config("broken", "wants a kite"))),
};

fn fit(given: &Given) -> Fitted {
    let Some(features) = &given.kept.features else { return None };
    let mean = features.mean_dim(0, true, Kind::Double);
    let formula = move |seen: &Observed| -> Result<Vec<Tensor>> {
        let Some(features) = &seen.features else { return Ok(Vec::new()) };
        let far = (features - &mean).square().sum_dim_intlist(-1, false, Kind::Double);
        let near = -&far;
        Ok(vec![far, near])
    };
    Some(Box::new(formula))
}

fn normal(seed: u64, shape: [i64; 2]) -> Tensor {
    fidgp::Key::new(seed).normal(&shape, Kind::Double, Device::Cpu)
}

#[test]
fn a_score_of_ones_own_is_fitted_controlled_and_stands_in_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, columns: i64, shift: f64| {
        let path = folder.path().join(name);
        let sets = [("fit", 300, 0.0), ("id", 400, 0.0), ("far", 200, shift)];
        let sets = (1..).zip(sets).map(|(seed, (set, rows, shift))| (set, normal(seed, [rows, columns]) + shift));
        Tensor::write_safetensors(&sets.collect::<Vec<_>>(), &path).unwrap();
        path
    };
    let (logits, features) = (file("logits", 3, 0.0), file("features", 4, 9.0));
    let settings = Settings {
        model: "arrays".to_owned(),
        id: None,
        ood: vec!["far".to_owned()],
        near: Vec::new(),
        choose_on: Vec::new(),
        root: folder.path().to_owned(),
        u: WeightChoice::Mean,
        draws: 0,
        gradients: false,
        limit: usize::MAX,
        fit: 300,
        batch: 50,
        seed: 1,
        skip_controls: false,
        command: None,
        more: More { scores: vec![&DISTANCE, &BROKEN], ..More::default() },
    };
    let bench = run_arrays(&logits, Some(&features), &settings, &mut |_| {}).unwrap();
    let found: Vec<_> = bench.document.scores.iter().map(|row| row.name.as_str()).collect();
    let place = |name: &str| found.iter().position(|found| *found == name);
    assert!(place("distance") > place("knn") && place("msp") == Some(0) && place("broken").is_none(), "{found:?}");
    let auroc = |name: &str| bench.document.scores[place(name).unwrap()].sets["far"].AUROC;
    assert!(auroc("distance") > 0.999 && auroc("nearness") < 0.001 && (auroc("msp") - 0.5).abs() < 0.2);
    assert!(bench.document.left_out.iter().any(|what| what.contains("broken") && what.contains("kite")));
    assert!(bench.document.controls.iter().all(|control| control.passed));
}
