//! Factors by hand against libtorch's own gradients.

use super::*;
use tch::nn::VarStore;
use tch::{Device, IndexOp};

/// Values and gradients of a weighted sum of everything that is factorised.
fn computed(
    (sizes, d, kind): (Sizes, f64, Kind),
    grams: Grams,
    batching: Batching,
    used: fn(usize) -> bool,
) -> Vec<Tensor> {
    let mut store = VarStore::new(Device::Cpu);
    let prior = KroneckerPrior::init(&store.root(), sizes, d, ZStart::Normal, Key::new(3)).unwrap();
    store.set_kind(kind);
    let all = factors(&[vec![&prior]], batching, Jitter::FIDGP, grams, Check::Now).unwrap();
    let factors = all[0].layer(0);
    let of = |t: &Tensor| t.shallow_clone();
    let PriorFactors { l_row, l_col, l_row_inverse, l_col_inverse, a_row, a_col, d_row, d_col, .. } = &factors;
    let mut values: Vec<_> = [l_row, l_row_inverse, a_row, d_row, l_col, l_col_inverse, a_col, d_col].map(of).into();
    values.extend(factors.grams.iter().flat_map(|grams| [of(&grams.z_row_chol), of(&grams.z_col_chol)]));
    let weighed = |(place, value): (usize, &Tensor)| {
        let weights = Key::new(5).at(place as u64).normal(&value.size(), Kind::Double, Device::Cpu).to_kind(kind);
        (value * weights).sum(kind)
    };
    let loss: Tensor = values.iter().enumerate().filter(|(place, _)| used(*place)).map(weighed).sum();
    loss.backward();
    let parameters = [&prior.z_row, &prior.z_col, &prior.d_row_raw, &prior.d_col_raw];
    let gradients = parameters.map(|own| if own.grad().defined() { own.grad() } else { own.zeros_like() });
    values.iter().map(Tensor::detach).chain(gradients).collect()
}

/// Held against libtorch's own backward pass, which computes stacks of several layers.
#[test]
fn the_pullback_is_the_gradient() {
    let sizes = |d_out, d_in, rows, cols| Sizes { d_out, d_in, rows, cols };
    let used: [fn(usize) -> bool; 5] = [|_| true, |i| i % 4 == 1, |i| i % 4 == 2, |i| i % 4 == 3, |i| i == 0 || i > 7];
    for sizes in [sizes(7, 9, 3, 4), sizes(4, 6, 4, 6), sizes(2, 5, 6, 1), sizes(1, 3, 1, 2)] {
        for grams in [Grams::Factored, Grams::Omitted] {
            for used in used {
                let of = |batching| computed((sizes, 0.3, Kind::Double), grams, batching, used);
                for (own, theirs) in of(Batching::Apart).iter().zip(of(Batching::Together)) {
                    let gap = (own - &theirs).abs().max().double_value(&[]);
                    assert!(gap < 1e-10 * (1.0 + theirs.abs().max().double_value(&[])), "{sizes:?}: {gap:e}");
                }
            }
        }
    }
}

/// In f32, with a diagonal as small as it starts, the gradients are as close to those in f64 as libtorch's own are.
#[test]
fn the_pullback_loses_no_more_digits() {
    for sizes in [(60, 80, 32, 32), (50, 14, 50, 14), (40, 101, 40, 64)] {
        let (d_out, d_in, rows, cols) = sizes;
        let sizes = Sizes { d_out, d_in, rows, cols };
        let of = |kind, batching| computed((sizes, 1e-3, kind), Grams::Factored, batching, |_| true);
        let truth = of(Kind::Double, Batching::Together);
        let [own, theirs] = [Batching::Apart, Batching::Together].map(|batching| of(Kind::Float, batching));
        let far = |found: &Tensor, truth: &Tensor| ((found - truth).norm() / truth.norm()).double_value(&[]);
        for (place, truth) in truth.iter().enumerate() {
            let (own, theirs) = (far(&own[place], truth), far(&theirs[place], truth));
            assert!(own < 2.0 * theirs + 1e-6, "{sizes:?} {place}: {own:e} {theirs:e}");
        }
    }
}

#[test]
fn a_matrix_that_cannot_be_factorised_is_named() {
    let store = VarStore::new(Device::Cpu);
    let sizes = Sizes { d_out: 3, d_in: 4, rows: 2, cols: 2 };
    let prior = KroneckerPrior::init(&(store.root() / "fc"), sizes, 0.3, ZStart::Normal, Key::new(3)).unwrap();
    let _ = tch::no_grad(|| prior.z_col.i((0, 0)).fill_(f64::NAN));
    let error = factors_of_one(&prior, Jitter::FIDGP, Grams::Factored, Check::Now).unwrap_err().to_string();
    assert!(error.contains("fc.K_col"), "{error}");
    let deferred = factors_of_one(&prior, Jitter::FIDGP, Grams::Factored, Check::Deferred).unwrap();
    assert_eq!(deferred.l_col.isfinite().all().int64_value(&[]), 0);
}
