//! Wrapped networks that start at trained ones.

use fidgp::Key;
use fidgp::flow::{DiagonalConfig, FlowConfig};
use fidgp::layer::{Factors, Mode, Network, Pass};
use fidgp::linalg::Check;
use fidgp::posterior::PosteriorConfig;
use fidgp::weight::{InducingConfig, InducingWeight};
use fidgp_zoo::{LayerPlan, MlpConfig, ResnetConfig, reestimate_batch_norm, start_network, start_weight};
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

fn normal(seed: u64, shape: &[i64]) -> Tensor {
    Key::new(seed).normal(shape, Kind::Double, Device::Cpu)
}

fn store(kind: Kind) -> VarStore {
    let mut store = VarStore::new(Device::Cpu);
    store.set_kind(kind);
    store
}

/// `Path::zeros_no_train` makes f32 tensors whatever the kind of its store.
fn convert(store: &mut VarStore, kind: Kind) {
    if kind == Kind::Double {
        store.double();
    }
}

fn weight(store: &VarStore, shape: (i64, i64), config: &InducingConfig) -> InducingWeight {
    InducingWeight::init(&(store.root() / "w"), shape.0, shape.1, config, Key::new(3)).unwrap()
}

fn sized(rows: i64, cols: i64) -> InducingConfig {
    InducingConfig { inducing_rows: rows.into(), inducing_cols: cols.into(), ..Default::default() }
}

#[test]
fn a_truncated_fit_is_the_optimum_of_its_rank() {
    // The best error of rank k, computed here from singular values alone (Eckart-Young).
    for (rows, cols) in [(4, 4), (4, 9), (7, 3), (8, 11)] {
        let dense = normal(1, &[8, 11]);
        let singular = Vec::<f64>::try_from(dense.svd(true, false).1).unwrap();
        let rank = rows.min(cols) as usize;
        let energy = |values: &[f64]| values.iter().map(|s| s * s).sum::<f64>();
        let optimum = (energy(&singular[rank..]) / energy(&singular)).sqrt();
        let store = store(Kind::Double);
        let fit = start_weight(&weight(&store, (8, 11), &sized(rows, cols)), &dense).unwrap();
        assert!((fit.optimal_error - optimum).abs() < 1e-12);
        assert!((fit.error - optimum).abs() < 1e-9, "{rows}x{cols}: {} against {optimum}", fit.error);
        assert!((fit.energy_kept - (1.0 - optimum * optimum)).abs() < 1e-12);
        assert_eq!(fit.rank, rank as i64);
    }
}

#[test]
fn every_posterior_and_flow_starts_at_the_weight() {
    let flow = |flow| PosteriorConfig::Flow { flow };
    let cases = [
        (PosteriorConfig::Diagonal, true),
        (PosteriorConfig::Diagonal, false),
        (PosteriorConfig::MatrixNormal, true),
        (PosteriorConfig::Full, true),
        (PosteriorConfig::Ensemble { members: 3 }, true),
        (flow(FlowConfig::default()), true),
        (flow(FlowConfig::default()), false),
        (flow(FlowConfig::compat()), true), // not the identity: it is inverted
        (flow(FlowConfig::Diagonal(DiagonalConfig::default())), true),
    ];
    let dense = normal(2, &[5, 6]);
    for (posterior, whitened_u) in cases {
        let store = store(Kind::Double);
        let config = InducingConfig { posterior: posterior.clone(), whitened_u, ..sized(5, 6) };
        let fit = start_weight(&weight(&store, (5, 6), &config), &dense).unwrap();
        assert!(fit.error < 1e-8, "{posterior:?} whitened {whitened_u}: {}", fit.error);
    }
}

#[test]
fn more_inducing_rows_than_the_weight_has_do_no_harm() {
    let config = InducingConfig { cap_inducing: false, ..sized(9, 12) };
    let dense = normal(4, &[5, 6]);
    for (kind, tolerance) in [(Kind::Double, 1e-9), (Kind::Float, 1e-5)] {
        let store = store(kind);
        let fit = start_weight(&weight(&store, (5, 6), &config), &dense).unwrap();
        assert!(fit.error < tolerance, "{kind:?}: {}", fit.error);
    }
    // tall: more rows than the rank, with directions left to fill
    let store = store(Kind::Float);
    let fit = start_weight(&weight(&store, (12, 4), &sized(10, 4)), &normal(5, &[12, 4])).unwrap();
    assert!(fit.error < 1e-5, "{}", fit.error);
}

#[test]
fn a_weight_of_another_shape_or_with_nan_is_refused() {
    let store = store(Kind::Float);
    let weight = weight(&store, (5, 6), &sized(3, 3));
    assert!(start_weight(&weight, &normal(1, &[5, 5])).unwrap_err().to_string().contains("[5, 6]"));
    let nan = normal(1, &[5, 6]) * f64::NAN;
    assert!(start_weight(&weight, &nan).unwrap_err().to_string().contains("30 non-finite"));
}

const SMALL: ResnetConfig = ResnetConfig {
    depth: fidgp_zoo::Depth::D18,
    stem: fidgp_zoo::Stem::Cifar,
    classes: 5,
    channels: 3,
    width: 4,
    spectral_norm: None,
};

/// A network with running statistics that are not those of its first moment.
fn trained(kind: Kind) -> (VarStore, Box<dyn Network>) {
    let mut store = store(kind);
    let network = SMALL.init(&store.root(), &LayerPlan::dense(), Key::new(0)).unwrap();
    convert(&mut store, kind);
    for seed in 0..3 {
        let x = normal(seed, &[8, 3, 8, 8]).to_kind(kind);
        _ = tch::no_grad(|| network.forward(&x, &mut Pass::plain(Mode::Train)).unwrap());
    }
    (store, Box::new(network))
}

fn mean_logits(network: &dyn Network, x: &Tensor) -> Tensor {
    let factors = Factors::of(&network.inducing(), Check::Now).unwrap();
    let mut pass = Pass::mean(&network.inducing(), &factors, Mode::Eval).unwrap();
    tch::no_grad(|| network.forward(x, &mut pass).unwrap())
}

fn difference(a: &Tensor, b: &Tensor) -> f64 {
    (a - b).abs().max().double_value(&[]) / b.abs().max().double_value(&[])
}

#[test]
fn with_enough_inducing_points_the_wrapped_network_gives_the_same_logits() {
    for (kind, tolerance) in [(Kind::Double, 1e-8), (Kind::Float, 1e-3)] {
        let (dense, network) = trained(kind);
        let mut wrapped_store = store(kind);
        let wrapped = SMALL.init(&wrapped_store.root(), &LayerPlan::all(sized(288, 288)), Key::new(7)).unwrap();
        convert(&mut wrapped_store, kind);
        let report = start_network(&wrapped, &wrapped_store, dense.variables()).unwrap();
        assert_eq!((report.layers.len(), report.copied), (21, 80));
        let x = normal(9, &[4, 3, 8, 8]).to_kind(kind);
        let error = difference(&mean_logits(&wrapped, &x), &mean_logits(&*network, &x));
        assert!(error < tolerance, "{kind:?}: {error}\n{report}");
        assert!(report.to_string().contains("layer4.1.conv2"));
    }
}

#[test]
fn a_failed_start_changes_nothing() {
    let (dense, _) = trained(Kind::Float);
    let wrapped_store = store(Kind::Float);
    let wrapped = SMALL.init(&wrapped_store.root(), &LayerPlan::all(sized(8, 8)), Key::new(7)).unwrap();
    let before: Vec<_> = wrapped_store.variables().into_iter().map(|(name, value)| (name, value.copy())).collect();
    let mut incomplete = dense.variables();
    incomplete.remove("layer2.0.bn1.weight");
    let error = start_network(&wrapped, &wrapped_store, incomplete).unwrap_err().to_string();
    assert!(error.contains("layer2.0.bn1.weight"), "{error}");
    let mut damaged = dense.variables();
    damaged.insert("fc.bias".into(), Tensor::from_slice(&[f32::NAN; 5]));
    assert!(start_network(&wrapped, &wrapped_store, damaged).is_err());
    let after = wrapped_store.variables();
    assert!(before.iter().all(|(name, value)| after[name] == *value));
}

#[test]
fn reestimated_statistics_are_the_average_over_batches_by_their_rows() {
    let mut store = store(Kind::Double);
    let config = MlpConfig { inputs: 2, hidden: vec![3], outputs: 1, batch_norm: true, ..MlpConfig::default() };
    let network = config.init(&store.root(), &LayerPlan::dense(), Key::new(1)).unwrap();
    convert(&mut store, Kind::Double);
    let batches: Vec<_> = [6, 6, 6, 2].into_iter().zip(0..).map(|(rows, seed)| normal(seed, &[rows, 2])).collect();
    let copies = || batches.iter().map(Tensor::shallow_clone);
    assert_eq!(reestimate_batch_norm(&network, copies()).unwrap(), 4);
    let variables = store.variables();
    let hidden = |x: &Tensor| x.linear(&variables["fc1.weight"], Some(&variables["fc1.bias"]));
    let average = |part: &dyn Fn(&Tensor) -> Tensor| {
        let parts = batches.iter().map(|x| part(&hidden(x)) * (x.size()[0] as f64 / 20.0)); // as its rows count
        Tensor::stack(&parts.collect::<Vec<_>>(), 0).sum_dim_intlist(0, false, Kind::Double)
    };
    let means = average(&|h| h.mean_dim(0, false, Kind::Double));
    let variances = average(&|h| h.var_dim(0, true, false));
    assert!(difference(&variables["bn1.running_mean"], &means) < 1e-12);
    assert!(difference(&variables["bn1.running_var"], &variances) < 1e-12);
    // one batch that does not fit: the statistics stay
    let wrong = [normal(0, &[6, 2]), normal(0, &[6, 5])];
    assert!(reestimate_batch_norm(&network, wrong).is_err());
    assert!(difference(&store.variables()["bn1.running_mean"], &means) < 1e-12);
    assert!(reestimate_batch_norm(&network, []).unwrap_err().to_string().contains("at least one"));
}
