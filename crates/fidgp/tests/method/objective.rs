//! The ELBO of a network: what scales with what.

use fidgp::Key;
use fidgp::layer::{Mode, Network, Pass};
use fidgp::objective::{
    DatasetSize, Gaussian, GaussianOutput, GaussianSettings, KlSum, Likelihood, LikelihoodSettings, NoiseConfig,
    NumberLikelihood, categorical_nll, negative_elbo, sum_kl,
};
use tch::{Kind, Tensor};

use crate::common::{Net, config, gap, inducing, moved, normal, scalar, store};

/// NLL and KL of a batch, with fixed noise.
fn parts(x: &Tensor, y: &Tensor) -> (Tensor, KlSum) {
    let store = store(Kind::Double);
    let net = Net::init(&store, [3, 4, 1], &inducing(&config()), Key::new(130)).unwrap();
    moved(&store, 0.3, Key::new(131));
    let likelihood = Gaussian::init(&store.root(), NoiseConfig::Fixed { sd: 0.3 }).unwrap();
    let mut pass = Pass::draw(&net.inducing(), &net.factors(), Mode::Eval, Key::new(132)).unwrap();
    let nll = likelihood.nll(&net.forward(x, &mut pass).unwrap(), y);
    assert_eq!(pass.kl().iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["fc1", "fc2"]);
    (nll.detach(), sum_kl(pass.kl()).unwrap())
}

fn loss((nll, kl): &(Tensor, KlSum), beta: f64, examples: usize) -> f64 {
    scalar(&negative_elbo(nll, Some(kl), &Tensor::from(beta), DatasetSize::new(examples).unwrap()))
}

#[test]
fn the_batch_size_does_not_matter_and_the_data_set_size_does() {
    let (x, y) = (normal(Key::new(133), &[5, 3]), normal(Key::new(134), &[5]));
    let once = parts(&x, &y);
    let twice = parts(&Tensor::cat(&[&x, &x], 0), &Tensor::cat(&[&y, &y], 0));
    assert!((loss(&once, 1.0, 100) - loss(&twice, 1.0, 100)).abs() < 1e-12);

    let (nll, kl) = (scalar(&once.0), scalar(&(&once.1.inducing + &once.1.conditional)));
    assert!(kl > 0.0);
    assert!((loss(&once, 1.0, 100) - (nll + kl / 100.0)).abs() < 1e-12);
    assert!((loss(&once, 1.0, 200) - nll - (loss(&once, 1.0, 100) - nll) / 2.0).abs() < 1e-12);
    assert!((loss(&once, 0.25, 100) - (nll + kl / 400.0)).abs() < 1e-12);
    assert!((loss(&once, 0.0, 100) - nll).abs() < 1e-15);
}

#[test]
fn a_plain_network_has_no_kl() {
    assert!(sum_kl(Pass::plain(Mode::Eval).kl()).is_none());
    let nll = Tensor::from(0.7);
    assert_eq!(negative_elbo(&nll, None, &Tensor::from(1.0), DatasetSize::new(10).unwrap()), nll);
}

#[test]
fn the_gaussian_likelihoods_agree_where_they_can() {
    let store = store(Kind::Double);
    let init = |config| Gaussian::init(&store.root(), config).unwrap();
    let (fixed, learnt) = (init(NoiseConfig::Fixed { sd: 0.3 }), init(NoiseConfig::Learnt { init_sd: 0.3 }));
    let outputs = normal(Key::new(135), &[5, 2]);
    let y = normal(Key::new(136), &[5]);
    assert!(gap(&fixed.nll(&outputs, &y), &learnt.nll(&outputs, &y)) < 1e-12);
    let settings = GaussianSettings { noise: NoiseConfig::Predicted, beta_nll: 0.0 };
    assert_eq!(settings.outputs(0), 2);
    let raw = fidgp::distribution::inverse_softplus(0.3 - 1e-3); // the floor of a predicted deviation
    let constant = outputs.new_full([5], raw, (Kind::Double, tch::Device::Cpu));
    let outputs = Tensor::stack(&[outputs.select(1, 0), constant], 1);
    assert!(gap(&fixed.nll(&outputs, &y), &init(NoiseConfig::Predicted).nll(&outputs, &y)) < 1e-12);
    let GaussianOutput { mean, variance } = fixed.output(&outputs);
    assert_eq!((mean.size(), variance.size()), (vec![5], vec![5]));
}

/// The gradient of the weighted loss against finite differences of a loss whose weights stay what they are.
#[test]
fn weights_by_the_noise_have_no_gradient_and_a_mean_of_one() {
    let store = store(Kind::Double);
    let weighted = |beta: f64| Gaussian::init(&store.root(), NoiseConfig::Predicted).unwrap().weighted(beta).unwrap();
    let (outputs, y) = (normal(Key::new(138), &[6, 2]), normal(Key::new(139), &[6]));
    for beta in [0.5, 1.0] {
        let variance = weighted(beta).output(&outputs).variance;
        let weights = variance.pow_tensor_scalar(beta);
        let weights = &weights / weights.mean(Kind::Double);
        let fixed = |outputs: &Tensor| {
            let GaussianOutput { mean, variance } = weighted(0.0).output(outputs);
            let each = ((&y - mean).square() / &variance + variance.log() + (2.0 * std::f64::consts::PI).ln()) * 0.5;
            scalar(&(each * &weights).mean(Kind::Double))
        };
        let leaf = outputs.copy().set_requires_grad(true);
        let loss = weighted(beta).nll(&leaf, &y);
        assert!((scalar(&loss) - fixed(&outputs)).abs() < 1e-12);
        loss.backward();
        let (gradient, step) = (leaf.grad(), 1e-5);
        for (row, column) in (0..6).flat_map(|row| [(row, 0), (row, 1)]) {
            let moved = |by: f64| {
                let moved = outputs.copy();
                let _ = moved.get(row).get(column).g_add_scalar_(by);
                fixed(&moved)
            };
            let expected = (moved(step) - moved(-step)) / (2.0 * step);
            let found = gradient.double_value(&[row, column]);
            assert!((found - expected).abs() < 1e-8, "β {beta}, row {row}, output {column}: {found} {expected}");
        }
    }
    let plain = Gaussian::init(&store.root(), NoiseConfig::Predicted).unwrap();
    assert_eq!(weighted(0.0).nll(&outputs, &y), plain.nll(&outputs, &y));
    assert!(plain.weighted(1.5).unwrap_err().to_string().contains("0.5 is usual"));
    let fixed = Gaussian::init(&store.root(), NoiseConfig::Fixed { sd: 0.1 }).unwrap();
    assert!(fixed.weighted(0.5).unwrap_err().to_string().contains("predicted"));
}

#[test]
fn rows_of_members_have_the_noise_of_their_member() {
    let store = store(Kind::Double);
    let both = Gaussian::of_members(&store.root(), NoiseConfig::Learnt { init_sd: 0.3 }, 2).unwrap();
    let one = |k: i64, sd: f64| {
        let raw = fidgp::distribution::inverse_softplus(sd);
        let _ = tch::no_grad(|| store.variables()["_noise"].select(0, k).fill_(raw));
        Gaussian::init(&store.root().sub("alone").sub(k.to_string()), NoiseConfig::Learnt { init_sd: sd }).unwrap()
    };
    let alone = [one(0, 0.2), one(1, 0.5)];
    let outputs = normal(Key::new(137), &[6, 1]); // three rows of each
    let found = both.output(&outputs);
    for (k, member) in alone.iter().enumerate() {
        let rows = |all: &Tensor| all.narrow(0, 3 * k as i64, 3);
        let expected = member.output(&rows(&outputs));
        assert_eq!(rows(&found.mean), expected.mean);
        assert!(gap(&rows(&found.variance), &expected.variance) < 1e-12);
    }
}

/// `−Σ_c t_c log p_c` with `t = (1 − s)·onehot + s/classes`, by hand.
#[test]
fn smoothed_cross_entropy_by_hand() {
    let logits = Tensor::from_slice(&[0.5_f32, -1.0, 2.0]).view([1, 3]);
    let p: Vec<f64> = [0.5_f64, -1.0, 2.0].iter().map(|x| x.exp()).collect();
    let log_p: Vec<f64> = p.iter().map(|x| (x / p.iter().sum::<f64>()).ln()).collect();
    for smoothing in [0.0, 0.1] {
        let expected = -(1.0 - smoothing) * log_p[1] - smoothing * log_p.iter().sum::<f64>() / 3.0;
        let found = scalar(&categorical_nll(&logits, &Tensor::from_slice(&[1_i64]), smoothing).to_kind(Kind::Double));
        assert!((found - expected).abs() < 1e-6, "{found} {expected}");
    }
}
