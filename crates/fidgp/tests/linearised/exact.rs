//! The dense structure against what it must be, made from derivatives of all weights.

use fidgp::layer::{Factors, Mode, Network, Pass};
use fidgp::linalg::Check;
use fidgp::linearised::{
    Evidence, FitConfig, LinearisedPosterior, Misfit, NoiseLevel, Observed, OwnConditional, Precision, PriorPrecision,
    StructureKind, Tangent, fit, root,
};
use fidgp::objective::categorical_curvature;
use fidgp::weight::InducingConfig;
use tch::{Kind, Tensor};

use super::networks::{
    Convolutions, Mlp, SIGMA, by_inducing, covariances, derivatives, eye, fitted, gap, inducing, normal, store, whole,
};

fn dense(prior: f64) -> FitConfig {
    FitConfig { structure: StructureKind::Dense, prior: PriorPrecision::Given(prior), ..FitConfig::default() }
}

/// `k(x, x) − k(x, X)(k(X, X) + σ²I)⁻¹k(X, x)` with `k = J Jᵀ/δ`, input by input. `[N, K, K]`
fn gaussian_process(at: &Tensor, train: &Tensor, precision: f64) -> Tensor {
    let train = train.flatten(0, 1);
    let noisy = train.matmul(&train.mt()) / precision + eye(train.size()[0]) * (SIGMA * SIGMA);
    let inverse = noisy.inverse();
    let law = |j: &Tensor| {
        let cross = j.matmul(&train.mt()) / precision;
        j.matmul(&j.mt()) / precision - cross.matmul(&inverse).matmul(&cross.mt())
    };
    Tensor::stack(&at.unbind(0).iter().map(law).collect::<Vec<_>>(), 0)
}

/// With fewer examples than dimensions and with more, so that both forms are used.
#[test]
fn dense_is_the_gaussian_process_of_the_linearised_network() {
    let store = store();
    let network = Mlp::new(&store, &[3, 6, 5, 2], &inducing(4, 3));
    let tangent = Tangent::at_centre(&network, &[]).unwrap();
    for (rows, precision) in [(6, 1.0), (6, 0.2), (200, 1.0), (200, 7.0)] {
        let (train, at) = (normal("train", &[rows, 3]), normal("at", &[9, 3]) * 3.0);
        let posterior = fitted(&tangent, &train, None, &dense(precision));
        let expected = gaussian_process(&by_inducing(&network, &at), &by_inducing(&network, &train), precision);
        let away = gap(&covariances(&posterior, &tangent, &at), &expected);
        assert!(away < 1e-9, "{rows} rows, precision {precision}: {away}");
        let named: std::collections::HashSet<_> = posterior.tensors().into_iter().map(|(name, _)| name).collect();
        assert_eq!(
            named.contains("features"),
            rows * 2 < tangent.size(),
            "{rows} rows in {} dimensions",
            tangent.size()
        );
    }
}

#[test]
fn dense_through_convolutions() {
    let store = store();
    let network = Convolutions::new(&store, &inducing(3, 4));
    let tangent = Tangent::at_centre(&network, &[]).unwrap();
    let (train, at) = (normal("train", &[8, 2, 6, 6]), normal("at", &[3, 2, 6, 6]) * 2.0);
    let posterior = fitted(&tangent, &train, None, &dense(1.0));
    let expected = gaussian_process(&by_inducing(&network, &at), &by_inducing(&network, &train), 1.0);
    assert!(gap(&covariances(&posterior, &tangent, &at), &expected) < 1e-9);
}

/// With as many inducing weights as weights it is the linearised Laplace approximation on the weights, softmax and all, for
/// any of their priors.
#[test]
fn with_every_weight_inducing_it_is_the_whole_linearised_laplace_approximation() {
    let store = store();
    let network = Mlp::new(&store, &[3, 4, 4, 3], &InducingConfig { prior_sd: 1.7, ..whole() });
    let (train, at) = (normal("train", &[12, 3]), normal("at", &[5, 3]) * 2.0);
    let weights = network.inducing();
    let factors = Factors::of(&weights, Check::Now).unwrap();
    let mean = Pass::mean(&weights, &factors, Mode::Eval).unwrap();
    let leaves: Vec<_> = mean.weights().map(|weight| weight.detach().set_requires_grad(true)).collect();
    let by_weights = |x: &Tensor| {
        let outputs = network.forward(x, &mut mean.with_weights(&leaves)).unwrap();
        (derivatives(&outputs, &leaves), outputs.detach())
    };
    let scales: Vec<_> = weights
        .iter()
        .map(|weight| {
            let sizes = weight.sizes();
            Tensor::full([sizes.d_out * sizes.d_in], weight.prior_scale().powi(-2), (Kind::Double, tch::Device::Cpu))
        })
        .collect();
    let (jacobian, outputs) = by_weights(&train);
    let mut precision = Tensor::cat(&scales, 0).diag(0);
    for (j, logits) in jacobian.unbind(0).iter().zip(outputs.unbind(0)) {
        let p = logits.softmax(-1, Kind::Double);
        precision += j.mt().matmul(&(p.diag(0) - p.outer(&p))).matmul(j);
    }
    let (at_jacobian, _) = by_weights(&at);
    let expected = at_jacobian.matmul(&precision.inverse()).matmul(&at_jacobian.mt());
    let tangent = Tangent::at_centre(&network, &[]).unwrap();
    let observe =
        |_: usize, _: i64, outputs: &Tensor| Ok(Observed { curvature: categorical_curvature(outputs), misfit: None });
    let posterior = fit(&tangent, &mut std::iter::once(Ok(train)), 12, &observe, &dense(1.0)).unwrap();
    let found = covariances(&posterior, &tangent, &at);
    assert!(gap(&found, &expected) < 1e-6 * expected.abs().max().double_value(&[]), "{found} {expected}");
}

/// A linear model with its centre at the posterior's mean: mean, variance and evidence are those of Bayesian linear
/// regression.
#[test]
fn bayesian_linear_regression_is_recovered() {
    let store = store();
    let network = Mlp::new(&store, &[3, 1], &InducingConfig { prior_sd: 1.3, ..whole() });
    let weights = network.inducing();
    let scale = weights[0].prior_scale();
    let factors = weights[0].factors(Check::Now).unwrap();
    let with_one = |x: &Tensor| Tensor::cat(&[x.shallow_clone(), x.ones_like().narrow(1, 0, 1)], 1);
    let (x, at) = (normal("x", &[30, 3]), normal("at", &[7, 3]) * 2.0);
    let (phi, phi_at) = (with_one(&x), with_one(&at));
    let y = phi.matmul(&normal("w", &[4])) + normal("e", &[30]) * SIGMA;
    let precision = phi.mt().matmul(&phi) / (SIGMA * SIGMA) + eye(4) / (scale * scale);
    let covariance = precision.inverse();
    let mean = covariance.matmul(&phi.mt().matmul(&y)) / (SIGMA * SIGMA);
    // W = σ_p A_rᵀ V A_c with orthogonal sides
    let v = factors.a_row.matmul(&mean.view([1, 4])).matmul(&factors.a_col.mt()) / scale;
    tch::no_grad(|| weights[0].posterior.mean.shallow_clone().copy_(&v));
    let tangent = Tangent::at_centre(&network, &[]).unwrap();
    for structure in [StructureKind::Dense, StructureKind::Kronecker, StructureKind::LowRank { rank: 4 }] {
        let posterior = fitted(&tangent, &x, Some(&y), &FitConfig { structure, ..dense(1.0) });
        let expected = (phi_at.matmul(&covariance) * &phi_at).sum_dim_intlist(1, false, Kind::Double);
        assert!(gap(&covariances(&posterior, &tangent, &at).view([-1]), &expected) < 1e-9, "{structure:?}");
        assert!(gap(&tangent.outputs(&at).unwrap().view([-1]), &phi_at.matmul(&mean)) < 1e-9);
    }
    evidence_is_exact(&tangent, &phi, &y, scale);
}

/// `log N(y; 0, σ_p²/δ ΦΦᵀ + σ²/s I)` against the evidence at the weights that are best for δ and s, but for a constant.
fn evidence_is_exact(tangent: &Tangent, phi: &Tensor, y: &Tensor, scale: f64) {
    let unit = phi * scale;
    let sum = |t: &Tensor| t.sum(Kind::Double).double_value(&[]);
    let eigenvalues = (unit.mt().matmul(&unit) / (SIGMA * SIGMA)).linalg_eigvalsh("L");
    let both = |Precision { prior, curvature }: Precision| {
        let noise = SIGMA * SIGMA / curvature;
        let best = (unit.mt().matmul(&unit) / noise + eye(4) * prior).inverse().matmul(&unit.mt().matmul(y)) / noise;
        let energy = sum(&(y - unit.matmul(&best)).square()) / (SIGMA * SIGMA);
        let misfit = Some(Misfit { energy, examples: 30.0 });
        let ours = Evidence { eigenvalues: eigenvalues.shallow_clone(), energy: sum(&best.square()), misfit };
        let covariance = unit.matmul(&unit.mt()) / prior + eye(30) * noise;
        let exact = -0.5 * (sum(&(covariance.inverse().matmul(y) * y)) + sum(&covariance.logdet()));
        (ours.log(Precision { prior, curvature }), exact)
    };
    let (ours, exact) = both(Precision::default());
    for precision in [(0.03, 1.0), (7.0, 1.0), (1.0, 0.2), (0.5, 4.0)] {
        let now = both(Precision { prior: precision.0, curvature: precision.1 });
        assert!((now.0 - ours - (now.1 - exact)).abs() < 1e-8, "{precision:?}");
    }
    assert!(tangent.energy() > 0.0);
}

/// The evidence is highest where it says it is, in both numbers.
#[test]
fn the_best_precisions_are_the_best() {
    let eigenvalues = Tensor::from_slice(&[900.0, 40.0, 7.0, 0.5, 0.01]);
    let evidence = Evidence { eigenvalues, energy: 2.5, misfit: Some(Misfit { energy: 31.0, examples: 50.0 }) };
    let best = evidence.best();
    for (a, b) in [(0.97, 1.0), (1.03, 1.0), (1.0, 0.97), (1.0, 1.03), (0.97, 1.03)] {
        let other = Precision { prior: best.prior * a, curvature: best.curvature * b };
        assert!(evidence.log(best) > evidence.log(other), "{best:?} {a} {b}");
    }
    let given = evidence.best_curvature(3.0);
    assert!((given.prior - 3.0).abs() < 1e-12);
    for factor in [0.97, 1.03] {
        let other = Precision { curvature: given.curvature * factor, ..given };
        assert!(evidence.log(given) > evidence.log(other), "{given:?}");
    }
}

/// The noise that is learnt after the training scales curvature and variance alike, with more examples than dimensions and with
/// fewer.
#[test]
fn a_learnt_noise_is_that_of_the_gaussian_process() {
    let store = store();
    let network = Mlp::new(&store, &[3, 6, 1], &inducing(4, 3));
    let tangent = Tangent::at_centre(&network, &[]).unwrap();
    let at = normal("at", &[9, 3]) * 3.0;
    for (rows, structure) in
        [(40, StructureKind::Dense), (11, StructureKind::Dense), (40, StructureKind::LowRank { rank: 15 })]
    {
        let train = normal("train", &[rows, 3]);
        let y = tangent.outputs(&train).unwrap().view([-1]) + normal("e", &[rows]) * (2.0 * SIGMA);
        let config = FitConfig {
            noise: NoiseLevel::Evidence,
            prior: PriorPrecision::Evidence,
            structure,
            ..FitConfig::default()
        };
        let posterior = fitted(&tangent, &train, Some(&y), &config);
        let Precision { prior, curvature } = posterior.precision;
        assert!((0.05..0.8).contains(&curvature), "{curvature}: the noise was twice that of the training");
        let (far, near) = (by_inducing(&network, &at).select(1, 0), by_inducing(&network, &train).select(1, 0));
        let precision = near.mt().matmul(&near) * (curvature / (SIGMA * SIGMA)) + eye(tangent.size()) * prior;
        let expected = (far.matmul(&precision.inverse()) * &far).sum_dim_intlist(1, false, Kind::Double);
        let away = gap(&covariances(&posterior, &tangent, &at).view([-1]), &expected);
        assert!(away < 1e-9 * expected.max().double_value(&[]).max(1.0), "{structure:?} of {rows}: {away}");
    }
}

#[test]
fn single_precision_agrees_with_double() {
    let mut found = Vec::new();
    for kind in [Kind::Float, Kind::Double] {
        let mut store = store();
        store.set_kind(kind);
        let network = Mlp::new(&store, &[3, 6, 5, 2], &inducing(4, 3));
        let tangent = Tangent::at_centre(&network, &[]).unwrap();
        let x = |name: &str| normal(name, &[20, 3]).to_kind(kind);
        for structure in [StructureKind::Dense, StructureKind::Kronecker, StructureKind::LowRank { rank: 30 }] {
            let posterior = fitted(&tangent, &x("train"), None, &FitConfig { structure, ..dense(1.0) });
            found.push(covariances(&posterior, &tangent, &x("at")));
        }
    }
    for (single, double) in found[..3].iter().zip(&found[3..]) {
        assert!(gap(single, double) < 2e-4 * double.abs().max().double_value(&[]), "{}", gap(single, double));
    }
}

#[test]
fn a_square_root_of_the_curvature_is_one() {
    let logits = normal("logits", &[6, 4]) * 3.0;
    let curvature = categorical_curvature(&logits);
    let p = logits.softmax(-1, Kind::Double);
    let expected = p.diag_embed(0, -2, -1) - p.unsqueeze(-1) * p.unsqueeze(-2);
    let half = root(&curvature);
    assert!(gap(&half.matmul(&half.mt()), &expected) < 1e-14);
    let uneven = fidgp::layer::Curvature { diagonal: &p * 2.0, outer: Some(&p * 0.7) };
    let expected = p.diag_embed(0, -2, -1) * 2.0 - p.unsqueeze(-1) * p.unsqueeze(-2) * 0.49;
    let half = root(&uneven);
    assert!(gap(&half.matmul(&half.mt()), &expected) < 1e-14);
}

#[test]
fn a_failed_factorisation_says_which_matrix_and_what_was_tried() {
    let store = store();
    let network = Mlp::new(&store, &[3, 6, 1], &inducing(4, 3));
    let tangent = Tangent::at_centre(&network, &[]).unwrap();
    let mut posterior = fitted(&tangent, &normal("train", &[10, 3]), None, &dense(1.0));
    let said = posterior.structure.set(Precision { prior: -1.0, curvature: 1.0 }).unwrap_err().to_string();
    assert!(said.contains("linearised posterior") && said.contains("jitter ["), "{said}");
    let _ = tch::no_grad(|| network.inducing()[1].prior.z_row.shallow_clone().fill_(f64::NAN));
    let said = Tangent::at_centre(&network, &[]).unwrap_err().to_string();
    assert!(said.contains("fc2"), "{said}");
}

/// A copy from the stored tensors predicts the same.
#[test]
fn what_is_stored_is_enough() {
    let store = store();
    let network = Mlp::new(&store, &[3, 6, 5, 2], &inducing(4, 3));
    let tangent = Tangent::at_centre(&network, &[]).unwrap();
    let at = normal("at", &[9, 3]);
    for (structure, rows) in [
        (StructureKind::Dense, 6),
        (StructureKind::Dense, 60),
        (StructureKind::Kronecker, 6),
        (StructureKind::LowRank { rank: 5 }, 6),
    ] {
        let config = FitConfig { structure, ..dense(0.3) };
        let posterior = fitted(&tangent, &normal("train", &[rows, 3]), None, &config);
        let tensors = posterior.tensors().into_iter().collect();
        let kind = posterior.structure.kind();
        let copy =
            LinearisedPosterior::restore(kind, posterior.layers.clone(), OwnConditional::Dropped, &tensors).unwrap();
        let (mine, theirs) = (covariances(&posterior, &tangent, &at), covariances(&copy, &tangent, &at));
        assert!(gap(&mine, &theirs) < 1e-13, "{structure:?}");
    }
    let none = std::collections::HashMap::new();
    let said =
        LinearisedPosterior::restore("dense", Vec::new(), OwnConditional::Dropped, &none).unwrap_err().to_string();
    assert!(said.contains("precision") && said.contains("fit it again"), "{said}");
}
