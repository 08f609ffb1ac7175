//! Distances of features from those of the classes, against sums made one by one.

use fidgp::layer::Network;
use fidgp::linearised::{Directions, FitConfig, LinearisedPosterior, Observed, StructureKind, Tangent, fit};
use fidgp::objective::categorical_curvature;
use std::collections::HashMap;
use tch::{Kind, Tensor};

use super::networks::{Mlp, covariances, eye, fitted, gap, inducing, jacobian, normal, store};

const CLASSES: i64 = 3;
const COUNT: i64 = 60;

fn features(network: &dyn Network) -> Tangent<'_> {
    let mut tangent = Tangent::at_centre(network, &[]).unwrap();
    tangent.directions = Directions::Features;
    tangent
}

fn of_classes(tangent: &Tangent, x: &Tensor, config: &FitConfig) -> LinearisedPosterior {
    let observe =
        |_: usize, _: i64, outputs: &Tensor| Ok(Observed { curvature: categorical_curvature(outputs), misfit: None });
    let cut = x.size()[0] / 3;
    let mut batches = (0..3).map(|batch| Ok(x.narrow(0, batch * cut, cut)));
    fit(tangent, &mut batches, x.size()[0], &observe, config).unwrap()
}

fn config(variance: f64) -> FitConfig {
    FitConfig { structure: StructureKind::Classes, variance, ..FitConfig::default() }
}

/// The formula, one example, class and layer at a time. `[N]`
fn by_hand(tangent: &Tangent, (train, at): (&Tensor, &Tensor), posterior: &LinearisedPosterior) -> Tensor {
    let p = |x: &Tensor| tangent.outputs(x).unwrap().softmax(-1, Kind::Double);
    let (phi, there) = (jacobian(tangent, train).select(1, 0), jacobian(tangent, at).select(1, 0));
    let (mut distance, mut first) = (Tensor::zeros([at.size()[0]], (Kind::Double, at.device())), 0);
    for layer in tangent.layers() {
        let width = layer.col.size()[0];
        let (phi, there) = (phi.narrow(1, first, width), there.narrow(1, first, width));
        first += width;
        let mean = phi.mean_dim(0, false, Kind::Double);
        let (mut within, mut centres) = (Tensor::zeros([width, width], (Kind::Double, at.device())), Vec::new());
        for class in 0..CLASSES {
            let own = p(train).select(1, class).unsqueeze(1);
            let sum = (&phi * &own).sum_dim_intlist(0, false, Kind::Double);
            let centre = (sum + &mean) / (own.sum(Kind::Double) + 1.0);
            let away = &phi - &centre;
            within += away.mt().matmul(&(&away * &own));
            centres.push(centre);
        }
        let unit = within.trace().double_value(&[]) / (width * COUNT) as f64;
        let inverse =
            (eye(width) * posterior.precision.prior + within / unit * posterior.precision.curvature).inverse();
        for (class, centre) in centres.iter().enumerate() {
            let away = &there - centre;
            let own = (away.matmul(&inverse) * &away).sum_dim_intlist(1, false, Kind::Double) / unit;
            distance += own * p(at).select(1, class as i64);
        }
    }
    distance
}

#[test]
fn the_variance_is_the_square_of_the_distance_from_the_classes() {
    let store = store();
    let network = Mlp::new(&store, &[4, 7, CLASSES], &inducing(3, 4));
    let tangent = features(&network);
    let (train, at) = (normal("train", &[COUNT, 4]), normal("at", &[6, 4]) * 3.0);
    let posterior = of_classes(&tangent, &train, &config(0.7));
    let found = covariances(&posterior, &tangent, &at).view([-1]);
    let expected = by_hand(&tangent, (&train, &at), &posterior).square();
    assert!(gap(&found, &expected) < 1e-9 * expected.max().double_value(&[]), "{found} {expected}");
    let largest = found.max().double_value(&[]) / found.min().double_value(&[]);
    assert!(largest > 1.5, "{largest}: the test shows little where all inputs are alike");
}

/// The root of the variance is the one asked for on inputs that were not in the fit: a Gaussian's own are nearer by
/// `(N − γ − K)/N`.
#[test]
fn the_level_is_that_of_unseen_inputs() {
    let store = store();
    let network = Mlp::new(&store, &[4, 7, CLASSES], &inducing(3, 4));
    let tangent = features(&network);
    let train = normal("train", &[COUNT, 4]);
    let posterior = of_classes(&tangent, &train, &config(4.0));
    let own = by_hand(&tangent, (&train, &train), &posterior).mean(Kind::Double).double_value(&[]);
    let left = COUNT as f64 - posterior.decided / tangent.layers().len() as f64 - CLASSES as f64;
    assert!((own - 2.0 * left / COUNT as f64).abs() < 1e-9, "{own}");
}

#[test]
fn numbers_have_one_class_and_a_copy_says_the_same() {
    let store = store();
    let network = Mlp::new(&store, &[4, 7, 2], &inducing(3, 4));
    let mut tangent = features(&network);
    let (train, at) = (normal("train", &[COUNT, 4]), normal("at", &[6, 4]) * 3.0);
    let posterior = fitted(&tangent, &train, None, &config(1.0));
    assert_eq!(posterior.structure.centres(), Some(1));
    let found = covariances(&posterior, &tangent, &at);
    assert!(found.size() == [6, 1, 1] && found.min().double_value(&[]) > 0.0);
    tangent.temperature = 2.0;
    assert!(gap(&(covariances(&posterior, &tangent, &at) * 4.0), &found) < 1e-9);
    tangent.temperature = 1.0;
    let stored: HashMap<_, _> = posterior.tensors().into_iter().collect();
    let copy = LinearisedPosterior::restore("classes", posterior.layers.clone(), posterior.conditional, &stored);
    let copy = LinearisedPosterior { directions: Directions::Features, ..copy.unwrap() };
    copy.check_fits(&tangent).unwrap();
    assert_eq!(covariances(&copy, &tangent, &at), found);
    let short: HashMap<_, _> = stored
        .into_iter()
        .map(|(name, tensor)| if name == "1.centres" { (name, tensor.narrow(1, 0, 2)) } else { (name, tensor) })
        .collect();
    let broken = LinearisedPosterior::restore("classes", posterior.layers.clone(), posterior.conditional, &short);
    let broken = LinearisedPosterior { directions: Directions::Features, ..broken.unwrap() };
    assert!(broken.check_fits(&tangent).unwrap_err().to_string().contains("1.centres"));
}

/// Classes of other networks, and directions without features, are refused.
#[test]
fn other_networks_are_refused() {
    let store = store();
    let (of_three, of_four) = (
        Mlp::new(&store, &[4, 7, CLASSES], &inducing(3, 4)),
        Mlp::new(&super::networks::store(), &[4, 7, 4], &inducing(3, 4)),
    );
    let x = normal("train", &[COUNT, 4]);
    let posterior = of_classes(&features(&of_three), &x, &config(1.0));
    let refused = posterior.laws(&features(&of_four), &[x], |_, _| Ok(())).unwrap_err().to_string();
    assert!(refused.contains("probabilities of the classes"), "{refused}");
    let plain = Tangent::at_centre(&of_three, &[]).unwrap();
    let refused = StructureKind::Classes.gather(&plain, 9).err().unwrap().to_string();
    assert!(refused.contains("posterior.directions"), "{refused}");
}
