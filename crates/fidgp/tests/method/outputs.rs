//! Noise on the outputs has, at every position, the mean and variance of noise on the weights.
//!
//! For one patch p (a 1 at its end with a bias), `y_o = σ_p (A_rᵀ V A_c p)_o + σ_p λ ‖p‖ ε` has mean `σ_p A_rᵀ m A_c p` and
//! variance `σ_p² [Σ_rc A_r[r,o]² s²_rc (A_c p)²_c + λ² ‖p‖²]` under a diagonal q: what both samplers are held against.
//! Means have the standard error `√(Var/N)`, variances around the known mean `Var·√(2/N)`, exact for Gaussians.

use fidgp::Key;
use fidgp::conditional::NoiseOn;
use fidgp::layer::{Conv2dConfig, Factors, Mode, Pass};
use fidgp::linalg::Check;
use fidgp::weight::InducingWeight;
use tch::Tensor;

use crate::common::{assert_within, factors, normal, reparam};
use crate::convolution::{conv, geometries, linear, patches};

const DRAWS: u64 = 2500;

/// Mean and variance of the outputs of each patch. patches `[N, groups, d_in, P]` → twice `[N, out, P]`
fn law(weight: &InducingWeight, patches: &Tensor) -> (Tensor, Tensor) {
    let (prior, groups) = (factors(weight), patches.size()[1]);
    let by_group = |w: &Tensor| w.view([groups, w.size()[0] / groups, -1]); // rows of W belong to groups
    let mean = prior.t_row().matmul(&prior.unwhiten(&weight.posterior.mean)).matmul(&prior.t_col());
    let inner = prior.a_col.matmul(patches).square(); // (A_c p)², [N, groups, C, P]
    let rows = prior.a_row.tr().square().matmul(&weight.posterior.sd.value().square()); // [out, C]
    let norm = patches.square().sum_dim_intlist(2, true, None); // [N, groups, 1, P]
    let variance = by_group(&rows).matmul(&inner) + weight.conditional_scale.value().square() * norm;
    let scale = weight.prior_scale();
    let mean = by_group(&mean).matmul(patches).flatten(1, 2) * scale;
    (mean.detach(), variance.flatten(1, 2).detach() * (scale * scale))
}

/// Many draws of the outputs have the given law.
fn check(
    what: &str,
    weight: &InducingWeight,
    (mean, variance): &(Tensor, Tensor),
    forward: impl Fn(&mut Pass) -> Tensor,
) {
    let factors = Factors::of(&[weight], Check::Now).unwrap();
    let zero = mean.zeros_like();
    let (sum, squares) = tch::no_grad(|| {
        (0..DRAWS).fold((zero.copy(), zero), |(sum, squares), k| {
            let y = forward(&mut Pass::draw(&[weight], &factors, Mode::Eval, Key::new(90).at(k)).unwrap());
            let squares = squares + (&y - mean).square();
            (sum + y, squares)
        })
    });
    let n = DRAWS as f64;
    assert_within(&format!("{what}, mean"), &(sum / n), mean, &(variance / n).sqrt());
    assert_within(&format!("{what}, variance"), &(squares / n), variance, &(variance * (2.0 / n).sqrt()));
}

#[test]
fn linear_outputs() {
    for bias in [false, true] {
        for noise in [NoiseOn::Weights, NoiseOn::Outputs] {
            let (_store, linear) = linear((4, 5), bias, &reparam(noise), 91);
            let weight = linear.slot.inducing().unwrap();
            let x = normal(Key::new(92), &[3, 4]);
            let pixel = Conv2dConfig { bias, ..Conv2dConfig::same(4, 5, 1) };
            let law = law(weight, &patches(&x.view([3, 4, 1, 1]), &pixel));
            check(&format!("{noise:?}, bias {bias}"), weight, &law, |pass| {
                linear.forward(&x, pass).unwrap().unsqueeze(-1)
            });
        }
    }
}

#[test]
fn convolution_outputs_at_every_position() {
    for geometry in geometries() {
        for noise in [NoiseOn::Weights, NoiseOn::Outputs] {
            let (_store, conv) = conv(geometry, &reparam(noise), 93);
            let x = normal(Key::new(94), &[1, 4, 4, 4]);
            let weight = conv.slot.inducing().unwrap();
            let law = law(weight, &patches(&x, &geometry));
            check(&format!("{noise:?}, {geometry:?}"), weight, &law, |pass| {
                conv.forward(&x, pass).unwrap().flatten(2, 3)
            });
        }
    }
}

/// One weight draw is shared by all examples; noise on the outputs is not.
#[test]
fn examples_share_a_weight_but_not_output_noise() {
    let x = normal(Key::new(95), &[1, 4]).repeat([2, 1]);
    let difference = |noise| {
        let (_store, linear) = linear((4, 5), true, &reparam(noise), 96);
        let y =
            linear.forward(&x, &mut crate::convolution::draw(linear.slot.inducing().unwrap(), Key::new(97))).unwrap();
        crate::common::gap(&y.get(0), &y.get(1))
    };
    assert!(difference(NoiseOn::Weights) < 1e-14);
    assert!(difference(NoiseOn::Outputs) > 1e-3);
}
