//! A training step launches its work and never looks at a number of it: on a GPU that would wait, and could not be captured.
#![cfg(target_os = "linux")]

use fidgp::Key;
use fidgp::linalg::Check;
use fidgp::objective::DatasetSize;
use fidgp_cuda::host_reads;
use fidgp_lab::config::parse;
use fidgp_lab::model::{Model, Signature};
use fidgp_lab::train::{Optimiser, StepInput, Stepper};
use tch::{Device, Kind, Tensor};

const CONFIG: &str = r#"
name = "a"
method = "deterministic"
[data]
set = "images"
name = "cifar10"
[network]
kind = "resnet"
depth = 18
stem = "cifar"
width = 4
[likelihood]
kind = "categorical"
smoothing = 0.05
[train]
epochs = 1
batch_size = 4
optimiser = { kind = "adam", learning_rate = 0.01 }
"#;

/// Host reads of one step of a method, optimiser and clipping included, after a first step that may set things up.
fn reads(changes: &[&str]) -> u64 {
    let changes: Vec<_> = changes.iter().map(|change| change.parse().unwrap()).collect();
    let config = parse(CONFIG, &changes).unwrap();
    let signature = Signature::expected(&config, None).unwrap();
    let model = Model::init(&config, &signature, Device::Cpu).unwrap();
    let mut optimiser = Optimiser::new(&model.store, config.train.optimiser).unwrap();
    let mut stepper = Stepper::new(&model, DatasetSize::new(100).unwrap(), false)
        .with_sharpness(config.train.sharpness)
        .with_check(Check::Deferred);
    let x = Key::new(1).normal(&[4, 3, 16, 16], Kind::Float, Device::Cpu);
    let y = Tensor::from_slice(&[0_i64, 1, 2, 3]);
    let mut step = |number: u64| {
        let (x, y) = (x.shallow_clone(), y.shallow_clone());
        let input = StepInput { x, y, key: Key::new(number), beta: 1.0, frozen_norm: false };
        let stepped = stepper.step(&input, &optimiser).unwrap();
        optimiser.step(stepped.gradient, 1e-3, Some(1.0));
    };
    step(0);
    host_reads(|| step(1)).1
}

#[test]
fn a_step_reads_nothing_back() {
    tch::set_num_threads(1); // small work: a second thread would mostly wait
    let inducing = ["inducing.inducing_rows=8", "inducing.inducing_cols=8"];
    let with = |more: &[&'static str]| inducing.iter().copied().chain(more.iter().copied()).collect::<Vec<_>>();
    let made = "inducing.posterior={family=\"flow\",flow={kind=\"made\",hidden=16}}";
    let methods = [
        vec![],
        vec!["method=mc-dropout"],
        vec!["method=mean-field"],
        vec!["method=f-sgvb-lrt"],
        vec!["method=batch-ensemble"],
        with(&["method=ffgu"]),
        with(&["method=fidgp", made]),
        with(&["method=fidgp", made, "inducing.conditional=reparam", "inducing.noise=outputs"]),
    ];
    for method in methods {
        assert_eq!(reads(&method), 0, "{method:?}");
    }
    // the count does see a read, and the work is done
    let (read, count) = host_reads(|| Tensor::from(2.5_f64).square().double_value(&[]));
    assert!(count > 0 && (read - 6.25).abs() < 1e-12);
}
