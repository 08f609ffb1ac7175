//! A training step follows from its inputs: what ran before it leaves memory behind, and nothing else.

use fidgp::Key;
use fidgp::objective::DatasetSize;
use fidgp_lab::config::parse;
use fidgp_lab::model::{Model, Signature};
use fidgp_lab::train::{Optimiser, StepInput, Stepped, Stepper};
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
[train]
epochs = 1
batch_size = 4
optimiser = { kind = "sgd", learning_rate = 0.01 }
"#;

#[test]
fn a_step_does_not_depend_on_those_before_it() {
    tch::set_num_threads(1); // small work: a second thread would mostly wait
    let fidgp = [
        "method=fidgp",
        "inducing.inducing_rows=8",
        "inducing.inducing_cols=8",
        "inducing.init_lamda=0.02",
        "inducing.conditional=reparam",
        "inducing.noise=outputs",
    ];
    let others = ["method=mc-dropout", "method=mean-field"];
    for changes in std::iter::once(fidgp.to_vec()).chain(others.map(|method| vec![method])) {
        let changes: Vec<_> = changes.into_iter().map(|change: &str| change.parse().unwrap()).collect();
        let config = parse(CONFIG, &changes).unwrap();
        let model = Model::init(&config, &Signature::expected(&config, None).unwrap(), Device::Cpu).unwrap();
        let optimiser = Optimiser::new(&model.store, config.train.optimiser).unwrap();
        let stepper = || Stepper::new(&model, DatasetSize::new(100).unwrap(), false);
        let step = |stepper: &mut Stepper, seed: u64, images: i64| -> Stepped {
            let x = Key::new(seed).normal(&[images, 3, 16, 16], Kind::Float, Device::Cpu);
            let y = Tensor::arange(images, (Kind::Int64, Device::Cpu));
            let input = StepInput { x, y, key: Key::new(seed), beta: 1.0, frozen_norm: false };
            stepper.step(&input, &optimiser).unwrap()
        };
        let mut used = stepper();
        let first = step(&mut used, 1, 4);
        let small = step(&mut used, 2, 3); // a last batch
        let third = step(&mut used, 3, 4);
        for (found, seed, images) in [(first, 1, 4), (small, 2, 3), (third, 3, 4)] {
            let alone = step(&mut stepper(), seed, images);
            assert_eq!(found.parts, alone.parts, "{changes:?}: step {seed}");
            assert_eq!(found.gradient, alone.gradient, "{changes:?}: step {seed}");
        }
    }
}
