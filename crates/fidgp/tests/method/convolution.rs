//! Layers as matrix products: linear, convolution, bias column.

use fidgp::Key;
use fidgp::conditional::NoiseOn;
use fidgp::layer::{Conv2d, Conv2dConfig, Factors, Linear, Mode, Pass, Taps};
use fidgp::linalg::Check;
use fidgp::weight::{Drawn, InducingConfig, InducingWeight};
use tch::nn::VarStore;
use tch::{Kind, Tensor};

use crate::common::{config, factors, gap, inducing, moved, normal, reparam, store};

/// Groups, strides, paddings, dilations and biases, no two alike.
pub fn geometries() -> Vec<Conv2dConfig> {
    let base = Conv2dConfig { padding: [0, 0], ..Conv2dConfig::same(4, 6, 3) };
    vec![
        base,
        Conv2dConfig::same(4, 6, 3).bias(),
        Conv2dConfig { groups: 2, padding: [2, 1], stride: [2, 1], bias: true, ..base },
        Conv2dConfig { groups: 2, dilation: [2, 1], padding: [2, 1], kernel: [3, 2], ..base },
        Conv2dConfig { out_channels: 4, groups: 4, padding: [1, 1], bias: true, ..base },
    ]
}

pub fn conv(geometry: Conv2dConfig, config: &InducingConfig, seed: u64) -> (VarStore, Conv2d) {
    let store = store(Kind::Double);
    let conv = Conv2d::init(&(store.root() / "layer"), geometry, &inducing(config), Key::new(seed)).unwrap();
    moved(&store, 0.3, Key::new(seed).fold("moved"));
    (store, conv)
}

pub fn linear(widths: (i64, i64), bias: bool, config: &InducingConfig, seed: u64) -> (VarStore, Linear) {
    let store = store(Kind::Double);
    let root = store.root() / "layer";
    let linear = Linear::init(&root, widths.0, widths.1, bias, &inducing(config), Key::new(seed)).unwrap();
    moved(&store, 0.3, Key::new(seed).fold("moved"));
    (store, linear)
}

pub fn draw(weight: &InducingWeight, key: Key) -> Pass {
    let factors = Factors::of(&[weight], Check::Now).unwrap();
    Pass::draw(&[weight], &factors, Mode::Eval, key).unwrap()
}

/// The weight that [`draw`] gives the layer.
fn drawn(weight: &InducingWeight, key: Key) -> Tensor {
    let prior = factors(weight);
    match weight.draw(&prior, &weight.noise(key, false)).unwrap().0 {
        Drawn::Weight(weight) => weight,
        Drawn::MeanAndScale { mean, .. } => mean.matrix(),
    }
}

/// The patches of each group, a row of ones below them for the bias. `[N, C, H, W]` → `[N, groups, d_in, H'·W']`
pub fn patches(x: &Tensor, geometry: &Conv2dConfig) -> Tensor {
    let Conv2dConfig { kernel, dilation, padding, stride, groups, bias, .. } = *geometry;
    let unfold = |part: &Tensor| part.im2col(kernel, dilation, padding, stride);
    let patches: Vec<_> = x.chunk(groups, 1).iter().map(unfold).collect();
    let patches = Tensor::stack(&patches, 1);
    let mut one = patches.size();
    one[2] = 1;
    let ones = Tensor::ones(one, (x.kind(), x.device()));
    if bias { Tensor::cat(&[patches, ones], 2) } else { patches }
}

/// Each group's rows of W times its patches. → `[N, out, H'·W']`
fn unfolded(x: &Tensor, w: &Tensor, geometry: &Conv2dConfig) -> Tensor {
    let rows = geometry.out_channels / geometry.groups;
    w.view([geometry.groups, rows, -1]).matmul(&patches(x, geometry)).flatten(1, 2)
}

#[test]
fn a_convolution_is_an_unfolded_product() {
    for (seed, geometry) in (70..).zip(geometries()) {
        let (_store, conv) = conv(geometry, &config(), seed);
        let x = normal(Key::new(71), &[2, 4, 6, 5]);
        let weight = conv.slot.inducing().unwrap();
        let y = conv.forward(&x, &mut draw(weight, Key::new(72))).unwrap();
        let expected = unfolded(&x, &drawn(weight, Key::new(72)), &geometry);
        assert!(gap(&y.flatten(2, 3), &expected) < 1e-12, "{geometry:?}");
    }
}

#[test]
fn a_plain_convolution_is_an_unfolded_product_too() {
    for geometry in geometries() {
        let store = store(Kind::Double);
        let conv = Conv2d::init(&store.root(), geometry, &fidgp::layer::SlotConfig::Dense, Key::new(73)).unwrap();
        let variables = store.variables();
        let mut w = variables["weight"].flatten(1, 3);
        if geometry.bias {
            w = Tensor::cat(&[w, variables["bias"].unsqueeze(1)], 1);
        }
        let x = normal(Key::new(74), &[2, 4, 6, 5]);
        let y = conv.forward(&x, &mut Pass::plain(Mode::Eval)).unwrap();
        assert!(gap(&y.flatten(2, 3), &unfolded(&x, &w, &geometry)) < 1e-12, "{geometry:?}");
    }
}

/// The same name, key and sizes give the same parameters and noise, so a 1×1 convolution is a linear layer on pixels.
#[test]
fn a_one_by_one_convolution_is_linear_on_pixels() {
    for config in [config(), reparam(NoiseOn::Weights)] {
        for bias in [false, true] {
            let geometry = Conv2dConfig { bias, ..Conv2dConfig::same(4, 6, 1) };
            let ((_a, conv), (_b, linear)) = (conv(geometry, &config, 75), linear((4, 6), bias, &config, 75));
            let x = normal(Key::new(76), &[2, 4, 3, 5]);
            let y = conv.forward(&x, &mut draw(conv.slot.inducing().unwrap(), Key::new(77))).unwrap();
            let pixels = x.permute([0, 2, 3, 1]);
            let other = linear.forward(&pixels, &mut draw(linear.slot.inducing().unwrap(), Key::new(77))).unwrap();
            assert!(gap(&y.permute([0, 2, 3, 1]), &other) < 1e-12, "{config:?}, bias {bias}");
        }
    }
}

#[test]
fn the_last_column_is_the_bias() {
    let (_a, linear) = linear((4, 6), true, &config(), 78);
    let weight = linear.slot.inducing().unwrap();
    assert_eq!(weight.sizes().d_in, 5);
    let (w, mut pass) = (drawn(weight, Key::new(79)), draw(weight, Key::new(79)));
    let zero = Tensor::zeros([1, 4], (Kind::Double, tch::Device::Cpu));
    assert!(gap(&linear.forward(&zero, &mut pass).unwrap(), &w.select(1, 4).unsqueeze(0)) < 1e-12);
    let x = normal(Key::new(80), &[3, 4]);
    let extended = Tensor::cat(&[&x, &Tensor::ones([3, 1], (Kind::Double, tch::Device::Cpu))], 1);
    assert!(gap(&linear.forward(&x, &mut pass).unwrap(), &extended.matmul(&w.tr())) < 1e-12);
}

#[test]
fn a_mean_pass_has_the_posterior_mean_and_no_kl() {
    let (_a, linear) = linear((4, 6), true, &reparam(NoiseOn::Outputs), 81);
    let weight = linear.slot.inducing().unwrap();
    let mut pass = Pass::mean(&[weight], &Factors::of(&[weight], Check::Now).unwrap(), Mode::Eval).unwrap();
    let x = normal(Key::new(82), &[3, 4]);
    let y = linear.forward(&x, &mut pass).unwrap();
    let prior = factors(weight);
    let mean =
        prior.t_row().matmul(&prior.unwhiten(&weight.posterior.mean)).matmul(&prior.t_col()) * weight.prior_scale();
    let extended = Tensor::cat(&[&x, &Tensor::ones([3, 1], (Kind::Double, tch::Device::Cpu))], 1);
    assert!(gap(&y, &extended.matmul(&mean.tr())) < 1e-12);
    assert!(pass.kl().is_empty());
}

#[test]
fn taps_keep_what_was_asked_for_and_nothing_else() {
    let (_a, linear) = linear((4, 6), true, &config(), 83);
    let x = normal(Key::new(84), &[3, 4]);
    let mut pass = draw(linear.slot.inducing().unwrap(), Key::new(85)).with_taps(Taps::on(&["layer"]));
    let y = linear.forward(&x, &mut pass).unwrap();
    assert_eq!(pass.taps.feature("layer"), Some(&y));
    assert!(pass.taps.feature("other").is_none());
    let mut pass = pass.with_taps(Taps::on(&["other"]));
    let _ = linear.forward(&x, &mut pass).unwrap();
    assert!(pass.taps.feature("layer").is_none());
}
