//! Factors by hand against libtorch's own gradients.

use super::*;
use tch::nn::VarStore;
use tch::{Device, IndexOp};

/// Values and gradients of a weighted sum of everything that is factorised.
fn computed(sizes: Sizes, grams: Grams, batching: Batching, used: fn(usize) -> bool) -> Vec<Tensor> {
    let mut store = VarStore::new(Device::Cpu);
    let prior = KroneckerPrior::init(&store.root(), sizes, 0.3, ZStart::Normal, Key::new(3)).unwrap();
    store.set_kind(Kind::Double);
    let all = factors(&[vec![&prior]], batching, Jitter::FIDGP, grams, Check::Now).unwrap();
    let factors = all[0].layer(0);
    let of = |t: &Tensor| t.shallow_clone();
    let PriorFactors { l_row, l_col, l_row_inverse, l_col_inverse, a_row, a_col, d_row, d_col, .. } = &factors;
    let mut values: Vec<_> = [l_row, l_row_inverse, a_row, d_row, l_col, l_col_inverse, a_col, d_col].map(of).into();
    values.extend(factors.grams.iter().flat_map(|grams| [of(&grams.z_row_chol), of(&grams.z_col_chol)]));
    let weighed = |(place, value): (usize, &Tensor)| {
        (value * Key::new(5).at(place as u64).normal(&value.size(), Kind::Double, Device::Cpu)).sum(Kind::Double)
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
                let of = |batching| computed(sizes, grams, batching, used);
                for (own, theirs) in of(Batching::Apart).iter().zip(of(Batching::Together)) {
                    let gap = (own - &theirs).abs().max().double_value(&[]);
                    assert!(gap < 1e-10 * (1.0 + theirs.abs().max().double_value(&[])), "{sizes:?}: {gap:e}");
                }
            }
        }
    }
}

#[test]
fn a_matrix_that_cannot_be_factorised_is_named() {
    let store = VarStore::new(Device::Cpu);
    let sizes = Sizes { d_out: 3, d_in: 4, rows: 2, cols: 2 };
    let prior = KroneckerPrior::init(&(store.root() / "fc"), sizes, 0.3, ZStart::Normal, Key::new(3)).unwrap();
    tch::no_grad(|| prior.z_col.i((0, 0)).fill_(f64::NAN));
    let error = factors_of_one(&prior, Jitter::FIDGP, Grams::Factored, Check::Now).unwrap_err().to_string();
    assert!(error.contains("fc.K_col"), "{error}");
    let deferred = factors_of_one(&prior, Jitter::FIDGP, Grams::Factored, Check::Deferred).unwrap();
    assert_eq!(deferred.l_col.isfinite().all().int64_value(&[]), 0);
}
