//! Derivatives through every kind of layer.

use fidgp::conditional::Conditional;
use fidgp::layer::{Network, Pass};
use fidgp::linearised::{OwnConditional, Tangent};
use fidgp::weight::InducingConfig;
use tch::{Kind, Tensor};

use super::networks::{Convolutions, Mlp, by_inducing, derivatives, gap, inducing, jacobian, normal, store};

fn centre(network: &dyn Network) -> Tangent<'_> {
    Tangent::at_centre(network, &[]).unwrap()
}

/// By `(f(V + h) − f(V − h))/2h`, entry by entry.
pub fn by_differences(network: &dyn Network, x: &Tensor) -> Tensor {
    const STEP: f64 = 1e-5;
    let outputs = || centre(network).outputs(x).unwrap();
    let mut columns = Vec::new();
    for weight in network.inducing() {
        let flat = tch::no_grad(|| weight.posterior.mean.view([-1]));
        for entry in 0..flat.size()[0] {
            let moved = |by: f64| {
                let _ = tch::no_grad(|| flat.get(entry).g_add_scalar_(by));
            };
            moved(STEP);
            let above = outputs();
            moved(-2.0 * STEP);
            columns.push((above - outputs()) / (2.0 * STEP));
            moved(STEP);
        }
    }
    Tensor::stack(&columns, 2)
}

#[test]
fn linear_layers_of_any_leading_axes() {
    let store = store();
    let network = Mlp::new(&store, &[3, 6, 5, 2], &inducing(4, 3));
    for shape in [&[5, 3][..], &[4, 7, 3]] {
        let x = normal("x", shape);
        let found = jacobian(&centre(&network), &x);
        assert!(gap(&found, &by_inducing(&network, &x)) < 1e-12, "{shape:?}");
        assert!(gap(&found, &by_differences(&network, &x)) < 1e-8, "{shape:?}");
    }
}

#[test]
fn convolutions_with_stride_dilation_groups_and_biases() {
    let store = store();
    let network = Convolutions::new(&store, &inducing(3, 4));
    let x = normal("pictures", &[3, 2, 9, 8]);
    let found = jacobian(&centre(&network), &x);
    assert!(gap(&found, &by_inducing(&network, &x)) < 1e-12);
    assert!(gap(&found, &by_differences(&network, &x)) < 1e-8);
}

/// What the conditional adds is the variance under its own covariance `λ²σ_p²(I − S_r ⊗ S_c)`, made densely; for Reparam
/// `λ²σ_p² I`.
#[test]
fn what_the_conditional_adds_is_its_covariance_carried_to_the_outputs() {
    for conditional in [Conditional::Matheron, Conditional::Reparam] {
        let own = InducingConfig { conditional, init_lamda: 0.02, ..inducing(3, 4) };
        let (a, b) = (store(), store());
        let (mlp, convolutions) = (Mlp::new(&a, &[3, 6, 5, 2], &own), Convolutions::new(&b, &own));
        check_conditional(&mlp, &normal("x", &[4, 3]));
        check_conditional(&mlp, &normal("x", &[4, 6, 3]));
        check_conditional(&convolutions, &normal("pictures", &[3, 2, 9, 8]));
    }
}

fn check_conditional(network: &dyn Network, x: &Tensor) {
    let mut tangent = centre(network);
    tangent.conditional = OwnConditional::Kept;
    let mut found = Vec::new();
    tangent
        .each(x, |_, linearised| {
            found.push(linearised.conditional.unwrap());
            Ok(())
        })
        .unwrap();
    let weights = network.inducing();
    let factors = fidgp::layer::Factors::of(&weights, fidgp::linalg::Check::Now).unwrap();
    let mean = Pass::mean(&weights, &factors, fidgp::layer::Mode::Eval).unwrap();
    let leaves: Vec<_> = mean.weights().map(|weight| weight.detach().set_requires_grad(true)).collect();
    let outputs = network.forward(x, &mut mean.with_weights(&leaves)).unwrap();
    let mut names: Vec<_> = weights.iter().map(|weight| weight.name.clone()).collect();
    names.sort();
    let mut expected: Option<Tensor> = None;
    for (name, leaf) in names.iter().zip(&leaves) {
        let weight = weights.iter().find(|weight| weight.name == *name).unwrap();
        let factors = factors.get(name).unwrap();
        let explained = |side: &Tensor| side.mt().matmul(side); // S = AᵀA
        let dense = explained(&factors.a_row).kron(&explained(&factors.a_col));
        let eye = Tensor::eye(dense.size()[0], (Kind::Double, tch::Device::Cpu));
        let covariance = if weight.config.conditional == Conditional::Matheron { eye - dense } else { eye };
        let scale = (weight.conditional_scale.value().double_value(&[]) * weight.prior_scale()).powi(2);
        let gradient = derivatives(&outputs, &[leaf.shallow_clone()]);
        let own = gradient.matmul(&(covariance * scale)).matmul(&gradient.mt());
        expected = Some(expected.map_or_else(|| own.shallow_clone(), |sum| sum + &own));
    }
    let (found, expected) = (Tensor::cat(&found, 0), expected.unwrap());
    assert!(gap(&found, &expected) < 1e-12 * expected.abs().max().double_value(&[]).max(1.0), "{found} {expected}");
    assert!(expected.diagonal(0, 1, 2).min().double_value(&[]) > 0.0);
}

/// A network that uses a layer twice.
#[derive(Debug)]
struct Twice(Mlp);

fidgp::layers!(Twice: 0);

impl Network for Twice {
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        let h = self.0.0[0].forward(x, pass)?;
        self.0.0[0].forward(&h, pass)
    }
}

#[test]
fn what_cannot_be_linearised_is_refused_by_name() {
    let store = store();
    let network = Twice(Mlp::new(&store, &[3, 3], &inducing(2, 2)));
    let said = |tangent: &Tangent, x: &Tensor| tangent.each(x, |_, _| Ok(())).unwrap_err().to_string();
    let twice = said(&centre(&network), &normal("x", &[4, 3]));
    assert!(twice.contains("fc1") && twice.contains("2 times"), "{twice}");
    let unknown = Tangent::at_centre(&network, &["fc9".to_owned()]).unwrap_err().to_string();
    assert!(unknown.contains("fc9") && unknown.contains("fc1"), "{unknown}");
    let plain = Tangent::at_centre(&Mlp(Vec::new()), &[]).unwrap_err().to_string();
    assert!(plain.contains("no inducing layer"), "{plain}");
}
