//! Prediction with K draws against the same computed from all draws at once.

use fidgp::Key;
use fidgp::conditional::NoiseOn;
use fidgp::layer::{Mode, Network, Pass, SlotConfig};
use fidgp::objective::{Gaussian, NoiseConfig};
use fidgp::predict::{
    Batch, ClassDraws, Draws, Effort, Gather, NumberDraws, Passes, PredictiveLaw, Runner, WeightDraws, classify,
    classify_to, regress,
};
use tch::nn::VarStore;
use tch::{Kind, Tensor};

use crate::common::{Net, config, gap, inducing, moved, normal, reparam, scalar, store};

fn net(outputs: i64, slot: &SlotConfig) -> (VarStore, Net) {
    let store = store(Kind::Double);
    let net = Net::init(&store, [3, 4, outputs], slot, Key::new(140)).unwrap();
    moved(&store, 0.5, Key::new(141));
    (store, net)
}

fn batches() -> [Tensor; 2] {
    [normal(Key::new(142), &[4, 3]), normal(Key::new(143), &[2, 3])]
}

/// Outputs of all draws, each batch with its own noise. `[K, N, outputs]`
fn stacked(net: &Net, count: u64, key: Key) -> Tensor {
    let factors = net.factors();
    let draw = |k: u64| {
        let mut pass = Pass::draw(&net.inducing(), &factors, Mode::Eval, key.at(k)).unwrap();
        let output = |(i, batch): (u64, &Tensor)| {
            pass.set_noise(key.at(k).at(i));
            net.forward(batch, &mut pass).unwrap()
        };
        Tensor::cat(&(0..).zip(&batches()).map(output).collect::<Vec<_>>(), 0)
    };
    tch::no_grad(|| Tensor::stack(&(0..count).map(draw).collect::<Vec<_>>(), 0))
}

fn entropy(p: &Tensor) -> Tensor {
    -(p * p.log()).sum_dim_intlist(-1, false, None)
}

#[test]
fn streamed_classes_are_the_stacked_ones() {
    for config in [config(), reparam(NoiseOn::Outputs)] {
        let (_store, net) = net(3, &inducing(&config));
        let labels = Tensor::from_slice(&[0_i64, 1, 2, 0, 1, 2]);
        let found = classify(&Draws::new(&net, 5, Key::new(144)).unwrap(), &batches(), Some(&labels)).unwrap();
        let p = stacked(&net, 5, Key::new(144)).softmax(-1, None);
        let mean = p.mean_dim(0, false, None);
        let aleatoric = entropy(&p).mean_dim(0, false, None);
        let index = labels.view([1, -1, 1]).expand([5, 6, 1], false);
        let nll = -p.gather(-1, &index, false).log().mean_dim(0, false, None).squeeze_dim(-1);
        let close = |a: &Tensor, b: &Tensor| gap(&a.to_kind(Kind::Double), b) < 1e-6; // softmax runs in f32
        assert!(close(&found.probs, &mean));
        assert!(close(&found.total, &entropy(&mean)));
        assert!(close(&found.aleatoric, &aleatoric));
        assert!(close(&found.epistemic, &(entropy(&mean) - aleatoric)));
        assert!(close(&found.mean_nll.unwrap(), &nll));
        assert!(scalar(&found.epistemic.min().to_kind(Kind::Double)) >= 0.0);
        assert!(scalar(&found.epistemic.max().to_kind(Kind::Double)) > 1e-3);
    }
}

#[test]
fn streamed_regression_is_the_stacked_one_and_follows_the_law_of_total_variance() {
    let (store, net) = net(2, &inducing(&config()));
    let likelihood = Gaussian::init(&store.root(), NoiseConfig::Predicted).unwrap();
    let found = regress(&Draws::new(&net, 5, Key::new(145)).unwrap(), &likelihood, &batches()).unwrap();
    let outputs = stacked(&net, 5, Key::new(145));
    let (means, noise) = (outputs.select(-1, 0), (outputs.select(-1, 1).softplus() + 1e-3).square());
    assert!(gap(&found.means, &means) < 1e-12 && gap(&found.noise, &noise) < 1e-12);
    assert!(gap(&found.mean(), &means.mean_dim(0, false, None)) < 1e-12);
    // Var y = E Var(y|w) + Var E(y|w), the left side from second moments of the equal mixture
    let second = (means.square() + noise).mean_dim(0, false, None);
    let total = second - means.mean_dim(0, false, None).square();
    assert!(gap(&(found.aleatoric() + found.epistemic()), &total) < 1e-12);
    assert!(scalar(&found.epistemic().min()) > 0.0);
}

#[test]
fn one_draw_has_no_epistemic_part() {
    let (store, net) = net(3, &inducing(&config()));
    let draws = Draws::new(&net, 1, Key::new(146)).unwrap();
    let classified = classify(&draws, &batches(), None).unwrap();
    assert!(scalar(&classified.epistemic.max().to_kind(Kind::Double)) < 1e-6); // rounding of f32
    assert!(classified.mean_nll.is_none());
    let likelihood = Gaussian::init(&store.root(), NoiseConfig::Fixed { sd: 0.1 }).unwrap();
    assert!(scalar(&regress(&draws, &likelihood, &batches()).unwrap().epistemic().max()) < 1e-300);
}

#[test]
fn a_plain_network_is_run_once() {
    let (store, net) = net(3, &SlotConfig::Dense);
    let draws = Draws::new(&net, 8, Key::new(147)).unwrap();
    assert_eq!(draws.count, 1);
    let likelihood = Gaussian::init(&store.root(), NoiseConfig::Fixed { sd: 0.1 }).unwrap();
    assert_eq!(regress(&draws, &likelihood, &batches()).unwrap().means.size(), [1, 6]);
}

#[test]
fn how_the_data_are_cut_into_batches_does_not_matter_when_weights_are_drawn() {
    let (_store, net) = net(3, &inducing(&config()));
    let draws = Draws::new(&net, 4, Key::new(148)).unwrap();
    let cut = classify(&draws, &batches(), None).unwrap();
    let whole = classify(&draws, &[Tensor::cat(&batches(), 0)], None).unwrap();
    assert!(gap(&cut.probs, &whole.probs) < 1e-6 && gap(&cut.epistemic, &whole.epistemic) < 1e-6);
}

/// A set predicted part by part has the same weights and the same noise as in one go.
#[test]
fn parts_of_a_set_are_predicted_as_the_whole() {
    let (_store, net) = net(3, &inducing(&reparam(NoiseOn::Outputs)));
    let mut draws = Draws::new(&net, 3, Key::new(146)).unwrap();
    let [first, second] = batches();
    let whole = classify(&draws, &[first.shallow_clone(), second.shallow_clone()], None).unwrap().probs;
    let before = classify(&draws, &[first], None).unwrap().probs;
    draws.first_batch += 1;
    let after = classify(&draws, &[second], None).unwrap().probs;
    assert_eq!(Tensor::cat(&[before, after], 0), whole);
}

/// What a captured prediction does: the tensors stay, their numbers are overwritten.
#[test]
fn overwritten_weights_and_noise_are_those_of_new_draws() {
    for config in [config(), reparam(NoiseOn::Outputs)] {
        let (_store, net) = net(3, &inducing(&config));
        let draws = Draws::new(&net, 6, Key::new(151)).unwrap();
        let [first, _] = batches();
        let other = normal(Key::new(152), &[4, 3]);
        let new = |part: std::ops::Range<u64>, batch: &Tensor, number: u64| {
            let mut outputs = Vec::new();
            let mut keep = |output| {
                outputs.push(output);
                Ok(())
            };
            draws.passes(part).unwrap().run(batch, number, &mut keep).unwrap();
            Tensor::stack(&outputs, 0)
        };
        let kept = |passes: &mut Passes, batch: &Tensor| {
            let mut outputs = Vec::new();
            let mut keep = |output| {
                outputs.push(output);
                Ok(())
            };
            passes.outputs(batch, &mut keep).unwrap();
            Tensor::stack(&outputs, 0)
        };
        let mut passes = draws.passes(0..3).unwrap();
        passes.keep_noise();
        passes.renew_noise(6);
        assert_eq!(kept(&mut passes, &first), new(0..3, &first, 6)); // makes the tensors
        passes.renew_noise(7);
        assert_eq!(kept(&mut passes, &other), new(0..3, &other, 7));
        let few = other.narrow(0, 0, 3); // a last batch that is smaller, and the tensors stay
        assert_eq!(kept(&mut passes, &few), new(0..3, &few, 7));
        assert_eq!(kept(&mut passes, &other), new(0..3, &other, 7));
        passes.overwrite(draws.passes(3..6).unwrap());
        passes.renew_noise(8);
        assert_eq!(kept(&mut passes, &first), new(3..6, &first, 8));
    }
}

#[test]
fn the_mean_has_no_noise() {
    let (_store, net) = net(3, &inducing(&config()));
    let found = classify(&Draws::at_mean(&net).unwrap(), &batches(), None).unwrap();
    let mut pass = Pass::mean(&net.inducing(), &net.factors(), Mode::Eval).unwrap();
    let expected = tch::no_grad(|| net.forward(&Tensor::cat(&batches(), 0), &mut pass).unwrap()).softmax(-1, None);
    assert!(gap(&found.probs.to_kind(Kind::Double), &expected) < 1e-6);
    assert!(scalar(&found.epistemic.max().to_kind(Kind::Double)) < 1e-6);
}

/// The number of draws follows the stated error: the result is that of so many draws, and its error is below the bound.
#[test]
fn as_many_draws_as_the_stated_error_needs() {
    let (_store, net) = net(3, &inducing(&config()));
    let x = Tensor::cat(&batches(), 0);
    let draws = Draws::new(&net, 400, Key::new(149)).unwrap();
    let (loose, few) = classify_to(&draws, &x, 0.05).unwrap();
    let (_, more) = classify_to(&draws, &x, 0.02).unwrap();
    assert!(few.draws < more.draws && more.draws < 400, "{few:?} {more:?}");
    assert!(few.error <= 0.05 && more.error <= 0.02, "{few:?} {more:?}");
    let exactly = classify(&Draws::new(&net, few.draws, Key::new(149)).unwrap(), &[x.shallow_clone()], None).unwrap();
    assert_eq!((&loose.probs, &loose.epistemic), (&exactly.probs, &exactly.epistemic));
    let (_, all) = classify_to(&draws, &x, 1e-9).unwrap();
    assert!(all.draws == 400 && all.error > 1e-9, "{all:?}");
    assert!(classify_to(&draws, &x, 0.0).is_err() && classify_to(&draws, &x, f64::NAN).is_err());
}

/// A network of M members is M draws, whichever way they come; pixels are classes with two more axes.
#[test]
fn members_are_draws_and_pixels_are_inputs() {
    let logits = normal(Key::new(153), &[6, 4, 3]) * 3.0; // six draws of four inputs
    let classes = |members: i64| {
        let mut classes = ClassDraws::new(members).with_error();
        let parts = logits.reshape([6 / members, members * 4, 3]).unbind(0);
        for draw in &parts {
            classes.add(draw).unwrap();
        }
        (classes.error(), classes.done().unwrap())
    };
    let (error, apart) = classes(1);
    for members in [2, 3, 6] {
        let (same, together) = classes(members);
        assert!(
            same.to_bits() == error.to_bits() && together.probs == apart.probs && together.aleatoric == apart.aleatoric,
            "{members}"
        );
    }
    let p = logits.softmax(-1, Kind::Double);
    assert!((scalar(&(p.var_dim(0, true, false) / 6.0).sqrt().max()) - error).abs() < 1e-12);
    let mut pixels = ClassDraws::new(1); // the four inputs as 2×2 pixels of one picture
    for draw in p.unbind(0) {
        pixels.add_probs(&draw.tr().reshape([1, 3, 2, 2])).unwrap();
    }
    let found = pixels.done().unwrap();
    let close = |a: &Tensor, b: &Tensor| gap(&a.reshape([-1]), &b.reshape([-1])) < 1e-12;
    assert!(close(&found.probs.get(0).permute([1, 2, 0]), &apart.probs) && close(&found.total, &apart.total));
    assert!(close(&found.epistemic, &apart.epistemic));
    assert!(ClassDraws::new(4).add(&logits.get(0).narrow(0, 0, 3)).unwrap_err().to_string().contains("each member"));
    assert!(ClassDraws::new(1).done().is_err());
}

/// A probability that is 0 in f32 and in f64 adds nothing to an entropy.
#[test]
fn what_cannot_be_has_no_entropy() {
    for kind in [Kind::Float, Kind::Double] {
        let mut classes = ClassDraws::new(1);
        classes.add_probs(&Tensor::from_slice(&[0.0, 1.0, 0.0, 0.5, 0.5, 0.0]).view([2, 3]).to_kind(kind)).unwrap();
        let found = classes.done().unwrap();
        assert_eq!(found.total.double_value(&[0]).abs().to_bits(), 0);
        assert!((found.total.double_value(&[1]) - 2f64.ln()).abs() < 1e-7);
    }
}

/// The error of a mean of numbers is their deviation over the root of their count.
#[test]
fn numbers_know_their_error() {
    let store = store(Kind::Double);
    let likelihood = Gaussian::init(&store.root(), NoiseConfig::Fixed { sd: 0.1 }).unwrap();
    let mut numbers = NumberDraws::new(1, &likelihood);
    let mut add = |value: f64| {
        numbers.add(&Tensor::from_slice(&[value, 1.0]).view([2, 1])).unwrap();
        numbers.error()
    };
    assert!(add(1.0).is_infinite());
    assert!((add(3.0) - 1.0).abs() < 1e-12); // √(2/2)
    assert_eq!(numbers.done().unwrap().means.size(), [2, 2]);
}

/// Draws that are kept, all, some or none of them, predict what draws that are made anew do, whatever was predicted before.
#[test]
fn kept_draws_are_the_draws() {
    for config in [config(), reparam(NoiseOn::Outputs)] {
        let (store, net) = net(3, &inducing(&config));
        let likelihood = Gaussian::init(&store.root(), NoiseConfig::Predicted).unwrap();
        let draws = || Draws::new(&net, 5, Key::new(154)).unwrap();
        let [first, second] = batches();
        let classified = classify(&draws(), &[first.shallow_clone(), second.shallow_clone()], None).unwrap();
        let regressed = regress(&draws(), &likelihood, &[first.shallow_clone(), second.shallow_clone()]).unwrap();
        let one = 8 * (4 * 4 + 3 * 5); // bytes of a draw in f64
        for (memory, kept) in [(0, 0), (one, 1), (3 * one + 1, 3), (u64::MAX, 5)] {
            let mut law = WeightDraws::new(draws(), memory);
            for (number, start, inputs) in [(1, 4, &second), (0, 0, &first), (1, 4, &second)] {
                let batch = Batch { inputs, number };
                let (found, spent) = law.classify(&net, batch, Effort::default()).unwrap();
                let rows = |all: &Tensor, axis| all.narrow(axis, start, inputs.size()[0]);
                assert_eq!(
                    (found.probs, found.epistemic),
                    (rows(&classified.probs, 0), rows(&classified.epistemic, 0))
                );
                let (found, _) = law.regress(&net, &likelihood, batch, Effort::default()).unwrap();
                assert_eq!((found.means, found.noise), (rows(&regressed.means, 1), rows(&regressed.noise, 1)));
                assert_eq!(spent.draws, 5);
            }
            if config.noise == NoiseOn::Weights {
                assert_eq!(law.kept(), kept);
            }
        }
    }
}

/// Fewer draws, more draws and as many as a tolerance needs are those of a set of draws of that size.
#[test]
fn kept_draws_take_the_effort_that_is_asked() {
    let (_store, net) = net(3, &inducing(&config()));
    let x = Tensor::cat(&batches(), 0);
    let draws = |count: u64| Draws::new(&net, count, Key::new(149)).unwrap();
    let mut law = WeightDraws::new(draws(6), WeightDraws::MEMORY);
    let mut ask = |draws, tolerance| {
        let batch = Batch { inputs: &x, number: 0 };
        law.classify(&net, batch, Effort { draws, tolerance }).map(|(found, spent)| (found.probs, spent))
    };
    for count in [1, 4, 6, 9] {
        let expected = classify(&draws(count), &[x.shallow_clone()], None).unwrap().probs;
        assert_eq!(ask(Some(count), None).unwrap().0, expected, "{count}");
    }
    let (expected, spent) = classify_to(&draws(400), &x, 0.05).unwrap();
    assert_eq!(ask(Some(400), Some(0.05)).unwrap(), (expected.probs, spent));
    assert!(spent.draws > 6 && spent.error <= 0.05, "{spent:?}");
    assert!(ask(Some(0), None).is_err() && ask(None, Some(0.0)).is_err());
}

/// A law and its network move to another thread together.
#[test]
fn a_law_predicts_on_another_thread() {
    let (_store, net) = net(3, &inducing(&config()));
    let mut law = WeightDraws::new(Draws::new(&net, 3, Key::new(155)).unwrap(), WeightDraws::MEMORY);
    let x = batches()[0].copy();
    let mut probs = move || law.classify(&net, Batch { inputs: &x, number: 0 }, Effort::default()).unwrap().0.probs;
    let here = probs();
    assert_eq!(std::thread::spawn(probs).join().unwrap(), here);
}
