//! BatchNorm statistics of each draw's own.

use std::collections::BTreeMap;

use fidgp::Key;
use fidgp::layer::{Factors, Mode, Network, NormStatistics, Pass};
use fidgp::linalg::Check;
use fidgp::predict::{Draws, Passes};
use fidgp::weight::InducingConfig;
use fidgp_zoo::methods::mean_field::MeanFieldConfig;
use fidgp_zoo::{LayerPlan, MlpConfig, Resnet, ResnetConfig};
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

const EXAMPLES: i64 = 64;

fn network(layers: &[&str]) -> (VarStore, Resnet) {
    let store = VarStore::new(Device::Cpu);
    let config = ResnetConfig { width: 8, classes: 5, ..ResnetConfig::default() };
    let inducing = InducingConfig {
        inducing_rows: 4.into(),
        inducing_cols: 4.into(),
        init_lamda: 0.5,
        max_lamda: Some(1.0),
        ..Default::default()
    };
    let net = config.init(&store.root(), &LayerPlan::only(layers, &inducing), Key::new(0)).unwrap();
    (store, net)
}

fn examples(key: u64) -> Tensor {
    Key::new(key).normal(&[EXAMPLES, 3, 16, 16], Kind::Float, Device::Cpu) * 2.0 + 1.0
}

fn outputs(draws: &Draws, x: &Tensor) -> Vec<Tensor> {
    let mut found = Vec::new();
    draws
        .outputs(std::slice::from_ref(x), |_, outputs| {
            found.push(outputs);
            Ok(())
        })
        .unwrap();
    found
}

fn far(a: &Tensor, b: &Tensor) -> f64 {
    ((a - b).norm() / b.norm()).double_value(&[])
}

/// On the very examples it was estimated on, a draw gives what it gives in training, where BatchNorm uses the batch's own
/// statistics: but for the variance, which divides by n − 1 = 63 positions and more instead of n.
#[test]
fn a_draw_with_its_own_statistics_is_the_one_that_training_saw() {
    let (_store, net) = network(&["*"]);
    let (x, key) = (examples(1), Key::new(7));
    let mut draws = Draws::new(&net, 3, key).unwrap();
    let before = outputs(&draws, &x);
    draws.estimate_norms(&[x.shallow_clone()]).unwrap();
    let after = outputs(&draws, &x);
    let factors = Factors::of(&net.inducing(), Check::Now).unwrap();
    for (k, (before, after)) in before.iter().zip(&after).enumerate() {
        let mut pass = Pass::draw(&net.inducing(), &factors, Mode::Train, key.at(k as u64)).unwrap();
        pass.keep_statistics = true;
        let trained = tch::no_grad(|| net.forward(&x, &mut pass)).unwrap();
        assert!(far(after, &trained) < 0.02, "draw {k}: {}", far(after, &trained));
        assert!(far(before, &trained) > 0.2, "draw {k}: {}", far(before, &trained));
    }
}

/// Mean and variance of unequal parts are those of the whole, where the parts themselves are no others: in the first layer.
#[test]
fn parts_make_up_the_whole() {
    let (_store, net) = network(&["*"]);
    let (x, key) = (examples(2), Key::new(8));
    let x = Tensor::cat(&[x.narrow(0, 0, 48), x.narrow(0, 48, 16) + 3.0], 0); // whose parts have other means
    let of = |batches: &[Tensor]| -> BTreeMap<String, Tensor> {
        let mut draws = Draws::new(&net, 1, key).unwrap();
        draws.estimate_norms(batches).unwrap();
        draws.norms()[0].named().map(|(name, tensor)| (name, tensor.copy())).collect()
    };
    let (whole, parts) = (of(&[x.shallow_clone()]), of(&[x.narrow(0, 0, 48), x.narrow(0, 48, 16)]));
    assert_eq!(whole.len(), 2 * 20, "mean and variance of every BatchNorm");
    for name in ["bn1.running_mean", "bn1.running_var"] {
        assert!(far(&parts[name], &whole[name]) < 1e-3, "{name}: {}", far(&parts[name], &whole[name]));
    }
}

/// On a GPU the tensors of a captured prediction are overwritten with those of the next draws.
#[test]
fn passes_that_are_overwritten_have_the_statistics_of_the_new_draws() {
    let (_store, net) = network(&["*"]);
    let (x, key) = (examples(5), Key::new(11));
    let mut draws = Draws::new(&net, 4, key).unwrap();
    draws.estimate_norms(&[examples(6)]).unwrap();
    let run = |passes: &mut Passes| {
        let mut found = Vec::new();
        passes
            .outputs(&x, &mut |outputs| {
                found.push(outputs);
                Ok(())
            })
            .unwrap();
        found
    };
    let mut kept = draws.passes(0..2).unwrap();
    let first = run(&mut kept);
    kept.overwrite(draws.passes(2..4).unwrap());
    for (overwritten, fresh) in run(&mut kept).iter().zip(run(&mut draws.passes(2..4).unwrap())) {
        assert_eq!(overwritten, &fresh);
    }
    for (again, first) in run(&mut draws.passes(0..2).unwrap()).iter().zip(first) {
        assert_eq!(again, &first, "the statistics of the draws themselves must not be overwritten");
    }
}

/// Draws with their own statistics come from the CPU's generator wherever they are; on the CPU that changes nothing.
#[test]
fn a_draw_stays_the_same_when_it_gets_its_own_statistics() {
    let config = MlpConfig { inputs: 3, hidden: vec![4], ..MlpConfig::default() };
    let mean_field = MeanFieldConfig { init_sd: 0.05, ..Default::default() };
    for plan in [LayerPlan::all(InducingConfig::default()), LayerPlan::dense().custom("*", mean_field)] {
        let store = VarStore::new(Device::Cpu);
        let net = config.init(&store.root(), &plan, Key::new(0)).unwrap();
        let x = Key::new(3).normal(&[EXAMPLES, 3], Kind::Float, Device::Cpu);
        let mut draws = Draws::new(&net, 2, Key::new(12)).unwrap();
        let before = outputs(&draws, &x);
        draws.estimate_norms(std::slice::from_ref(&x)).unwrap();
        for (before, after) in before.iter().zip(outputs(&draws, &x)) {
            assert_eq!(before, &after);
        }
    }
}

#[test]
fn what_no_draw_touches_keeps_the_running_statistics() {
    let (_store, net) = network(&["layer4.1.conv2"]);
    let mut draws = Draws::new(&net, 2, Key::new(9)).unwrap();
    draws.estimate_norms(&[examples(3)]).unwrap();
    let names: Vec<_> = draws.norms()[0].named().map(|(name, _)| name).collect();
    let of_block = |name: &&String| name.starts_with("layer4.1.");
    assert!(!names.is_empty() && names.iter().all(|name| of_block(&name)), "{names:?}");
    let (_store, plain) = network(&[]);
    let mut draws = Draws::new(&plain, 2, Key::new(9)).unwrap();
    draws.estimate_norms(&[examples(3)]).unwrap();
    assert!(draws.norms().is_empty(), "a network that is not random has nothing to gain");
}

#[test]
fn statistics_are_passed_on_by_name_and_serve_no_more_draws_than_they_were_made_for() {
    let (_store, net) = network(&["*"]);
    let (x, key) = (examples(4), Key::new(10));
    let mut first = Draws::new(&net, 2, key).unwrap();
    first.estimate_norms(&[x.shallow_clone()]).unwrap();
    let copied = |norm: &NormStatistics| norm.named().map(|(name, tensor)| (name, tensor.copy())).collect::<Vec<_>>();
    let norms: Vec<_> = first.norms().iter().map(|norm| NormStatistics::from_named(copied(norm)).unwrap()).collect();
    let mut second = Draws::new(&net, 2, key).unwrap();
    second.set_norms(&norms).unwrap();
    for (a, b) in outputs(&first, &x).iter().zip(outputs(&second, &x)) {
        assert_eq!(a, &b);
    }
    let error = Draws::new(&net, 3, key).unwrap().set_norms(&norms).unwrap_err().to_string();
    assert!(error.contains("draws") && error.contains('3') && error.contains('2'), "{error}");
    assert!(
        NormStatistics::from_named([("bn1.running_mean".to_owned(), Tensor::zeros([1], (Kind::Float, Device::Cpu)))])
            .is_none()
    );
    assert!(first.estimate_norms(&[]).is_err(), "no examples");
}
