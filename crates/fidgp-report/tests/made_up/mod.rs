//! Made-up runs: small, fixed numbers, every field of the schema in use.
#![allow(dead_code, reason = "each test file uses its own part")]

use fidgp_report::record::{
    Boundary, ClassScore, Classification, Cost, EpochRecord, Figure, Grid, Hardware, Metrics, Points, Published,
    Regression1d, Results, Schema, Segmentation, SplitMetrics, Splits, Time, Uncertainty,
};
use serde_json::json;

pub fn metrics(entries: &[(&str, f64)]) -> Metrics {
    entries.iter().map(|&(name, value)| (name.to_owned(), value.is_finite().then_some(value))).collect()
}

/// A run with every optional field filled.
pub fn full() -> Results {
    let split = |split, rmse, nll| SplitMetrics {
        split,
        metrics: metrics(&[("reg/RMSE", rmse), ("reg/NLL", nll)]),
        train_seconds: Some(20.75),
    };
    let splits = Splits::new(vec![split(0, 0.11, -0.80), split(1, 0.13, -0.72), split(2, 0.12, -0.76)]);
    Results {
        metrics: splits.mean.clone().into_iter().chain(metrics(&[("reg/EpistemicSD_gap_ratio", 4.05)])).collect(),
        metric_notes: [("cal/ECE".to_owned(), [("bins".to_owned(), json!(15))].into())].into(),
        splits: Some(splits),
        uncertainty: Some(Uncertainty {
            part: "validation".to_owned(),
            inputs: 40,
            measure: "variance".to_owned(),
            epistemic: Some(0.002),
            share: Some(0.05),
            scrambled: Some(0.001),
            sd_at_bound: Some(0.75),
            lamda_at_bound: Some(0.0),
            warnings: vec!["it is <lower> on scrambled inputs".to_owned()],
        }),
        published: vec![Published {
            method: "MC dropout".to_owned(),
            source: "Example 2016, table 1".to_owned(),
            metrics: metrics(&[("reg/RMSE", 0.14)]),
        }],
        figures: vec![Figure::Regression1d(regression()), Figure::Classification(classification())],
        ..bare("made-up <run> & \"friends\"", "fidgp")
    }
}

/// A run with the required fields only.
pub fn bare(name: &str, method: &str) -> Results {
    Results {
        schema: Schema,
        name: name.to_owned(),
        method: method.to_owned(),
        data: "synthetic-1d".to_owned(),
        seed: 42,
        commit: "0123456789ab".to_owned(),
        hardware: Hardware {
            cpu: "Example CPU".to_owned(),
            threads: 2,
            memory_gib: 7.8,
            gpu: Some("Example GPU".to_owned()),
            engine: "libtorch 2.11.0".to_owned(),
        },
        command: Some("fidgp train configs/regression-left.toml --seed 42".to_owned()),
        config: json!({"network": {"hidden": [100, 100, 100]}, "note": "<script>alert(1)</script>"}),
        metrics: metrics(&[("reg/RMSE", 0.125), ("reg/NLL", -0.7), ("reg/Coverage", 0.94), ("reg/CRPS", f64::NAN)]),
        metric_notes: [("reg/Coverage".to_owned(), [("level".to_owned(), json!(0.95))].into())].into(),
        cost: Cost { parameters: 20_901, bytes: 83_604, macs: 20_400 },
        time: Time { train_seconds: Some(41.5), seconds_per_epoch: Some(0.0415), predict_seconds: None },
        splits: None,
        published: Vec::new(),
        predicts_with: None,
        test_sha256: None,
        uncertainty: None,
        figures: Vec::new(),
    }
}

/// Two islands of points on a cosine; uncertainty grows away from them.
pub fn regression() -> Regression1d {
    let truth = |x: f64| (4.0 * x + 0.8).cos();
    let away = |x: f64| [0.5 - x, (x - 0.8).min(1.2 - x), x - 1.6].into_iter().fold(0.0, f64::max);
    let x: Vec<f64> = (0..41).map(|i| 0.1 + 0.05 * f64::from(i)).collect();
    let of = |f: &dyn Fn(f64) -> f64| x.iter().map(|&x| f(x)).collect::<Vec<f64>>();
    let grid = Grid {
        truth: of(&truth),
        mean: of(&|x| truth(x) * (-1.5 * away(x)).exp() + 0.02 * (9.0 * x).sin()),
        epistemic_sd: of(&|x| 0.03 + 0.8 * away(x)),
        noise_sd: of(&|_| 0.1),
        x: x.clone(),
    };
    let points = |n: u32, shift: f64| {
        let x = (0..n).map(|i| {
            let u = (0.37 + shift + 0.618_034 * f64::from(i)).fract();
            if i % 2 == 0 { 0.5 + 0.3 * u } else { 1.2 + 0.4 * u }
        });
        let (x, y) = x.enumerate().map(|(i, x)| (x, truth(x) + 0.13 * (7.3 * i as f64 + shift).sin())).unzip();
        Points { x, y }
    };
    Regression1d {
        grid,
        train: points(24, 0.0),
        validation: points(6, 0.2),
        test: points(16, 0.4),
        gaps: vec![[0.8, 1.2]],
        kl_weight: 1.0,
    }
}

/// A hundred predictions of a two-class network, a little too sure of itself.
pub fn classification() -> Classification {
    let confidence = (0..100).map(|i| 0.5 + 0.5 * (f64::from(i) / 99.0).sqrt());
    let probs: Vec<f64> = confidence.flat_map(|p| [p, 1.0 - p]).collect();
    let labels: Vec<usize> = (0..100_usize).map(|i| usize::from(i * 7 % 10 >= 5 + i / 20)).collect();
    let predictions = fidgp_metrics::Predictions::new(&probs, 2, &labels).expect("proper probabilities");
    Classification::new(&predictions, 10).expect("ten bins")
}

/// Two classes, and maps of these names.
pub fn segmentation(maps: &[&str]) -> Segmentation {
    let part = |pixels, error| Boundary { pixels, error, total: error, aleatoric: Some(0.25), epistemic: None };
    let class = |name: &str, iou| ClassScore { name: name.to_owned(), pixels: 1200, iou, accuracy: Some(0.75) };
    Segmentation {
        classes: vec![class("road", Some(0.5)), class("<sky>", None)],
        boundary: part(200, Some(0.5)),
        interior: part(1000, Some(0.125)),
        pixels: classification(),
        maps: maps.iter().map(|&name| name.to_owned()).collect(),
    }
}

/// Five epochs of a falling loss.
pub fn epochs() -> Vec<EpochRecord> {
    let epoch = |epoch: usize| {
        let t = epoch as f64;
        EpochRecord {
            epoch,
            step: 10 * epoch,
            loss: 3.0 / t,
            nll: 2.0 / t - 0.9,
            kl_inducing: 900.0 - 100.0 * t,
            kl_conditional: 40.0 / t,
            beta: (t / 3.0).min(1.0),
            lambda_min: Some(0.001 * t),
            lambda_max: Some(0.01 * t),
            learning_rate: 1e-3,
            seconds: 0.04,
            metrics: [("validation".to_owned(), metrics(&[("reg/NLL", 1.0 / t + 0.02 * t)]))].into(),
        }
    };
    (1..=5).map(epoch).collect()
}
