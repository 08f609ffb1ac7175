//! A training step follows from its inputs: what ran before it leaves memory behind and nothing else, and no number of it is
//! looked at on the way: on a GPU that would wait, and could not be captured.

mod fixture;

use std::sync::LazyLock;

use fidgp::Key;
use fidgp::linalg::Check;
use fidgp::objective::DatasetSize;
use fidgp_lab::config::RunConfig;
use fidgp_lab::model::{Model, Signature};
use fidgp_lab::train::group::Part;
use fidgp_lab::train::{Optimiser, StepInput, Stepped, Stepper};
use tch::{Device, Kind, Tensor};

use fixture::changed;

static CONFIG: LazyLock<String> = LazyLock::new(|| {
    changed(
        fixture::IMAGES,
        r#"
name = "a"
likelihood.smoothing = 0.05
train.batch_size = 4
"#,
    )
});

const INDUCING: [&str; 3] = ["method=fidgp", "inducing.inducing_rows=8", "inducing.inducing_cols=8"];
const ON_OUTPUTS: [&str; 3] = ["inducing.init_lamda=0.02", "inducing.conditional=reparam", "inducing.noise=outputs"];

fn model(changes: &[&str]) -> (RunConfig, Model, Optimiser) {
    tch::set_num_threads(1); // small work: a second thread would mostly wait
    let config = fixture::config(&CONFIG, changes);
    let model = Model::init(&config, &Signature::expected(&config, None).unwrap(), Device::Cpu).unwrap();
    let optimiser = Optimiser::new(&model.store, config.train.optimiser).unwrap();
    (config, model, optimiser)
}

fn stepper<'a>(config: &RunConfig, model: &'a Model) -> Stepper<'a> {
    Stepper::new(model, DatasetSize::new(100).unwrap(), false).with_sharpness(config.train.sharpness)
}

/// A step on random images, all its randomness from the seed.
fn step(stepper: &mut Stepper, optimiser: &Optimiser, seed: u64, images: i64) -> Stepped {
    let x = Key::new(seed).normal(&[images, 3, 16, 16], Kind::Float, Device::Cpu);
    let y = Tensor::arange(images, (Kind::Int64, Device::Cpu));
    let input = StepInput { x, y, key: Key::new(seed), beta: 1.0, frozen_norm: false, part: Part::default() };
    stepper.step(&input, optimiser).unwrap()
}

#[test]
fn a_step_does_not_depend_on_those_before_it() {
    let on_outputs = [INDUCING, ON_OUTPUTS].concat();
    for changes in [on_outputs.as_slice(), &["method=mc-dropout"], &["method=mean-field"]] {
        let (config, model, optimiser) = model(changes);
        let mut used = stepper(&config, &model);
        let steps = [(1, 4), (2, 3), (3, 4)]; // the second is a last batch
        let found = steps.map(|(seed, images)| step(&mut used, &optimiser, seed, images));
        for (found, (seed, images)) in found.into_iter().zip(steps) {
            let alone = step(&mut stepper(&config, &model), &optimiser, seed, images);
            assert_eq!(found.parts, alone.parts, "{changes:?}: step {seed}");
            assert_eq!(found.gradient, alone.gradient, "{changes:?}: step {seed}");
        }
    }
}

/// The gradient of a sharpness-aware step is that at `θ + ρ g/‖g‖`, g the gradient at θ under the same noise; the
/// parameters stay where they are.
#[test]
fn a_sharpness_aware_step_takes_the_gradient_where_the_loss_is_highest_nearby() {
    const RHO: f64 = 0.05;
    let (config, model, optimiser) = model(&["method=mean-field", "baseline.init_sd=0.05"]);
    let gradient = |sharpness: Option<f64>| {
        let mut stepper = stepper(&config, &model).with_sharpness(sharpness);
        let x = Key::new(5).normal(&[4, 3, 16, 16], Kind::Float, Device::Cpu);
        let y = Tensor::arange(4, (Kind::Int64, Device::Cpu));
        let input = StepInput { x, y, key: Key::new(6), beta: 0.0, frozen_norm: false, part: Part::default() };
        stepper.step(&input, &optimiser).unwrap().gradient
    };
    let trained = || model.store.trainable_variables();
    let before: Vec<_> = trained().iter().map(Tensor::copy).collect();
    let sharp = gradient(Some(RHO));
    for (variable, before) in trained().iter().zip(&before) {
        let moved = (variable - before).abs().max().double_value(&[]);
        assert!(moved < 1e-7, "put back but for rounding: {moved}");
    }
    let plain = gradient(None);
    optimiser.shift(&(&plain * (RHO / plain.norm().double_value(&[]))));
    let there = gradient(None);
    let far = |a: &Tensor, b: &Tensor| ((a - b).norm() / b.norm()).double_value(&[]);
    assert!(far(&sharp, &there) < 1e-4, "{}", far(&sharp, &there));
    assert!(far(&plain, &there) > 0.05, "{}", far(&plain, &there));
}

#[cfg(target_os = "linux")]
#[test]
fn a_step_reads_nothing_back() {
    use fidgp_torch::host_reads;
    let made = "inducing.posterior={family=\"flow\",flow={kind=\"made\",hidden=16}}";
    let methods = [
        vec![],
        vec!["method=mc-dropout"],
        vec!["method=mean-field"],
        vec!["method=f-sgvb-lrt"],
        vec!["method=batch-ensemble"],
        [&INDUCING[1..], &["method=ffgu"]].concat(),
        [&INDUCING[..], &[made]].concat(),
        [&INDUCING[..], &[made], &ON_OUTPUTS].concat(),
    ];
    for changes in methods {
        let (config, model, mut optimiser) = model(&changes);
        let mut stepper = stepper(&config, &model).with_check(Check::Deferred);
        let mut whole = |seed: u64| {
            let stepped = step(&mut stepper, &optimiser, seed, 4);
            optimiser.step(stepped.gradient, 1e-3, Some(1.0));
        };
        whole(0); // may set things up
        assert_eq!(host_reads(|| whole(1)).1, 0, "{changes:?}");
    }
    // the count does see a read, and the work is done
    let (read, count) = host_reads(|| Tensor::from(2.5_f64).square().double_value(&[]));
    assert!(count > 0 && (read - 6.25).abs() < 1e-12);
}
