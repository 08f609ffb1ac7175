//! Bayesian linear regression, where posterior and evidence are known.
//!
//! `y = w·x + b + noise`, (w, b) one row of weights under `N(0, σ_p² I)`. With an invertible Z_c, Z_r = 1 and D → 0 the
//! inducing matrix determines the weights (`w = σ_p A_r A_cᵀ v`, a bijection up to D), so a q(V) that holds a full
//! Gaussian on C = d_in numbers holds the exact posterior. λ = 1 makes q(W|U) the prior's own conditional: it costs no
//! KL, and its variance is of the order of D² = 1e-6.

use fidgp::layer::{Factors, Linear, Mode, Pass};
use fidgp::linalg::Check;
use fidgp::objective::{DatasetSize, Gaussian, Likelihood, NoiseConfig, negative_elbo, sum_kl};
use fidgp::posterior::PosteriorConfig;
use fidgp::prior::PriorFactors;
use fidgp::weight::{ConditionalNoise, Drawn, InducingConfig, InducingWeight};
use fidgp::{Key, distribution};
use tch::nn::{OptimizerConfig, VarStore};
use tch::{Kind, Tensor};

use crate::common::{assert_mean, eye, factors, gap, inducing, log_det, normal, scalar, solve, store};

const NOISE_SD: f64 = 0.5;
const EXAMPLES: i64 = 8;

struct Regression {
    store: VarStore,
    layer: Linear,
    likelihood: Gaussian,
    x: Tensor,
    y: Tensor,
}

impl Regression {
    fn new(posterior: PosteriorConfig, x: Tensor, z_col: &Tensor) -> Self {
        let config = InducingConfig {
            inducing_rows: 1.into(),
            inducing_cols: 3.into(),
            posterior,
            init_sd_u: 0.3,
            max_sd_u: None,
            init_lamda: 1.0,
            max_lamda: None,
            learn_lamda: false,
            prior_sd: 2.0,
            init_d: 1e-3,
            jitter: 0.0,
            ..InducingConfig::default()
        };
        let store = store(Kind::Double);
        let layer = Linear::init(&(store.root() / "fc"), 2, 1, true, &inducing(&config), Key::new(120)).unwrap();
        let likelihood = Gaussian::init(&store.root(), NoiseConfig::Fixed { sd: NOISE_SD }).unwrap();
        let y = x.select(1, 0) * 1.2 - x.select(1, 1) * 0.7 + 0.4 + normal(Key::new(121), &[EXAMPLES]) * NOISE_SD;
        let regression = Self { store, layer, likelihood, x, y };
        let prior = &regression.weight().prior;
        tch::no_grad(|| {
            prior.z_row.shallow_clone().copy_(&eye(1));
            prior.z_col.shallow_clone().copy_(z_col);
        });
        for fixed in [&prior.z_row, &prior.z_col, &prior.d_row_raw, &prior.d_col_raw] {
            let _ = fixed.set_requires_grad(false);
        }
        regression
    }

    fn weight(&self) -> &InducingWeight {
        self.layer.slot.inducing().unwrap()
    }

    /// Inputs with a 1 for the bias.
    fn design(&self) -> Tensor {
        Tensor::cat(&[&self.x, &Tensor::ones([EXAMPLES, 1], (Kind::Double, tch::Device::Cpu))], 1)
    }

    /// Mean and covariance of the weights given the data.
    fn exact(&self) -> (Tensor, Tensor) {
        let (design, scale) = (self.design(), self.weight().prior_scale());
        let precision = design.tr().matmul(&design) / NOISE_SD.powi(2) + eye(3) / scale.powi(2);
        let covariance = precision.inverse();
        (covariance.matmul(&design.tr().mv(&self.y).unsqueeze(1)).squeeze_dim(1) / NOISE_SD.powi(2), covariance)
    }

    /// `ln N(y; 0, σ_p² XXᵀ + σ² I)`.
    fn log_evidence(&self) -> f64 {
        let design = self.design() * self.weight().prior_scale();
        let covariance = design.matmul(&design.tr()) + eye(EXAMPLES) * NOISE_SD.powi(2);
        let quadratic = self.y.dot(&solve(&covariance, &self.y));
        let constant = EXAMPLES as f64 * (2.0 * std::f64::consts::PI).ln();
        scalar(&((quadratic + log_det(&covariance) + constant) * -0.5))
    }

    fn loss(&self, factors: &Factors, key: Key) -> Tensor {
        let mut pass = Pass::draw(&[self.weight()], factors, Mode::Train, key).unwrap();
        let nll = self.likelihood.nll(&self.layer.forward(&self.x, &mut pass).unwrap(), &self.y);
        negative_elbo(&nll, sum_kl(pass.kl()).as_ref(), &Tensor::from(1.0), size())
    }

    fn factors(&self) -> Factors {
        Factors::of(&[self.weight()], Check::Now).unwrap()
    }

    /// The negative ELBO in expectation: a quadratic in ε averages to its mean over the points ±√3·eᵢ. The conditional's
    /// noise is left out; it adds a constant of the order of D².
    fn expected_loss(&self, prior: &PriorFactors) -> Tensor {
        let weight = self.weight();
        let loss = |i: i64, sign: f64| {
            let mut noise = weight.noise(Key::new(0), true);
            noise.inducing.epsilon = eye(3).narrow(0, i, 1) * (sign * 3f64.sqrt());
            noise.conditional = ConditionalNoise::Weights(Tensor::zeros([1, 3], (Kind::Double, tch::Device::Cpu)));
            let (drawn, kl) = weight.draw(prior, &noise).unwrap();
            let Drawn::Weight(w) = drawn else { panic!("noise on weights") };
            let nll = self.likelihood.nll(&self.design().matmul(&w.tr()), &self.y);
            negative_elbo(&nll, sum_kl(&[("fc".to_owned(), kl)]).as_ref(), &Tensor::from(1.0), size())
        };
        let losses: Vec<_> = (0..3).flat_map(|i| [loss(i, 1.0), loss(i, -1.0)]).collect();
        Tensor::stack(&losses, 0).mean(Kind::Double)
    }

    /// Adam with a rate that falls from 0.1 to 0.1·`fall`; averages the variables over the last third of the way.
    fn fit(&self, steps: u64, fall: f64, loss: impl Fn(u64) -> Tensor) {
        let mut optimiser = tch::nn::Adam::default().build(&self.store, 0.1).unwrap();
        let variables: Vec<Tensor> = self.store.trainable_variables();
        let mut sums: Vec<Tensor> = variables.iter().map(|v| v.detach().zeros_like()).collect();
        for step in 0..steps {
            optimiser.set_lr(0.1 * fall.powf(step as f64 / steps as f64));
            optimiser.backward_step(&loss(step));
            if step >= steps - steps / 3 {
                sums.iter_mut().zip(&variables).for_each(|(sum, v)| *sum += v.detach());
            }
        }
        tch::no_grad(|| variables.into_iter().zip(sums).for_each(|(mut v, sum)| v.copy_(&(sum / (steps / 3) as f64))));
    }

    /// `w = M v`. `[d_in, C]`
    fn map(&self) -> Tensor {
        let prior = factors(self.weight());
        prior.a_col.tr() * prior.a_row * self.weight().prior_scale()
    }

    /// Mean and covariance of `σ_p E[W|U]` under q(U); what W adds around it is of the order of D².
    fn fitted(&self) -> (Tensor, Tensor) {
        let (prior, posterior) = (factors(self.weight()), &self.weight().posterior);
        // V is affine in ε: its value at the unit vectors gives the factor
        let at = |epsilon: &Tensor| {
            let mut noise = posterior.noise(Key::new(0), false);
            noise.epsilon = epsilon.view([1, 3]);
            posterior.draw(&prior, &noise).whitened.detach().view([-1])
        };
        let centre = at(&Tensor::zeros([3], (Kind::Double, tch::Device::Cpu)));
        let columns: Vec<_> = (0..3).map(|i| at(&eye(3).get(i)) - &centre).collect();
        let factor = self.map().matmul(&Tensor::stack(&columns, 1));
        (self.map().mv(&centre), factor.matmul(&factor.tr()))
    }

    /// The largest errors of mean and covariance.
    fn errors(&self) -> (f64, f64) {
        let ((mean, covariance), (exact_mean, exact)) = (self.fitted(), self.exact());
        (gap(&mean, &exact_mean), gap(&covariance, &exact))
    }

    /// The optimum of the expected ELBO is the exact posterior.
    #[track_caller]
    fn assert_recovered(&self) {
        let prior = factors(self.weight()); // Z and D are fixed
        self.fit(700, 1e-4, |_| self.expected_loss(&prior));
        let (mean, covariance) = self.errors();
        assert!(mean < 1e-4 && covariance < 1e-4, "off by {mean:e} and {covariance:e}");
    }
}

fn size() -> DatasetSize {
    DatasetSize::new(EXAMPLES as usize).unwrap()
}

fn inputs() -> Tensor {
    normal(Key::new(123), &[EXAMPLES, 2])
}

/// Invertible, and far from the identity.
fn mixing() -> Tensor {
    normal(Key::new(124), &[3, 3]) + eye(3)
}

#[test]
fn a_full_posterior_recovers_the_exact_one() {
    Regression::new(PosteriorConfig::Full, inputs(), &mixing()).assert_recovered();
}

/// The way a user goes: a few draws for each step, through the layer and a pass.
#[test]
fn noisy_gradients_recover_the_exact_posterior_to_a_hundredth() {
    let regression = Regression::new(PosteriorConfig::Full, inputs(), &mixing());
    let factors = regression.factors();
    let draws = |step: u64| (0..4).map(move |draw| Key::new(122).at(step).at(draw));
    let loss = |step| Tensor::stack(&draws(step).map(|key| regression.loss(&factors, key)).collect::<Vec<_>>(), 0);
    regression.fit(1000, 1e-3, |step| loss(step).mean(Kind::Double));
    let (mean, covariance) = regression.errors();
    assert!(mean < 1e-2 && covariance < 1e-2, "off by {mean:e} and {covariance:e}");
}

/// With one row, `V = m + a·E·Bᵀ` is a full Gaussian too.
#[test]
fn a_matrix_normal_posterior_of_one_row_recovers_the_exact_one() {
    Regression::new(PosteriorConfig::MatrixNormal, inputs(), &mixing()).assert_recovered();
}

/// Columns of ±1 that are orthogonal to each other and to the bias make the exact posterior diagonal.
#[test]
fn a_diagonal_posterior_recovers_the_exact_one_of_an_orthogonal_design() {
    let sign = |period: i64| move |i: i64| if (i / period) % 2 == 0 { 1.0 } else { -1.0 };
    let column = |period| Tensor::from_slice(&(0..EXAMPLES).map(sign(period)).collect::<Vec<_>>());
    let x = Tensor::stack(&[column(1), column(2)], 1);
    Regression::new(PosteriorConfig::Diagonal, x, &eye(3)).assert_recovered();
}

/// At the exact posterior the ELBO is the log evidence: every constant of likelihood and KL counts.
#[test]
fn the_bound_is_tight_at_the_exact_posterior() {
    let regression = Regression::new(PosteriorConfig::Full, inputs(), &mixing());
    let (mean, covariance) = regression.exact();
    let inverse = regression.map().inverse();
    let l = inverse.matmul(&covariance).matmul(&inverse.tr()).linalg_cholesky(false);
    let posterior = &regression.weight().posterior;
    tch::no_grad(|| {
        posterior.mean.shallow_clone().copy_(&inverse.mv(&mean).view([1, 3]));
        regression.store.variables()["fc.inducing_lower"].shallow_clone().copy_(&l);
        let raw: Vec<f64> = (0..3).map(|i| distribution::inverse_softplus(l.double_value(&[i, i]))).collect();
        posterior.sd.raw.shallow_clone().copy_(&Tensor::from_slice(&raw));
    });
    let factors = regression.factors();
    let elbo = |k| -scalar(&regression.loss(&factors, Key::new(125).at(k))) * EXAMPLES as f64;
    let elbos: Vec<f64> = tch::no_grad(|| (0..5000).map(elbo).collect());
    assert_mean("ELBO", &elbos, regression.log_evidence());
}
