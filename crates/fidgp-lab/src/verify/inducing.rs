//! One weight matrix: prior, posterior, conditional, and what they pay.

use fidgp::conditional::{self, MatheronNoise};
use fidgp::distribution::{BoundMap, Bounded, kl_to_standard_normal};
use fidgp::linalg::{Check, Jitter};
use fidgp::posterior::{InducingNoise, PosteriorConfig, kl_unwhitened};
use fidgp::prior::{Grams, KroneckerPrior, PriorFactors, Sizes};
use fidgp::weight::{ConditionalNoise, Drawn, InducingConfig, InducingWeight, WeightNoise};
use fidgp::{Error, Key};
use tch::Tensor;
use tch::nn::VarStore;

use super::case::Case;
use super::covariance;
use super::error::{Result, VerifyError};
use super::node::Node;
use super::setting::{Precision, Setting, number};

const DIMS: [&str; 4] = ["d_out", "d_in", "M_out", "M_in"];
const INPUTS: [&str; 17] = [
    "z_row",
    "z_col",
    "d_row_raw",
    "d_col_raw",
    "q_mean",
    "q_sd_raw",
    "max_sd_u",
    "lamda_raw",
    "max_lamda",
    "prior_sd",
    "sqrt_width_scaling",
    "jitter_eps",
    "eps_u",
    "e1",
    "e2",
    "e3",
    "e4",
];

/// Factors `Lz_*` of more inducing points than dimensions are singular but for the jitter: f32 has few digits left.
const OVER_COMPLETE_F32: f64 = 5e-3;

/// A case: the weight as a layer would hold it, and its factors.
pub(super) struct Inducing<'a> {
    pub weight: InducingWeight,
    /// With the file's jitter.
    pub factors: PriorFactors,
    inputs: Node<'a>,
    setting: Setting,
}

pub(super) fn check(case: &mut Case, node: &Node, _root: &Node, setting: Setting) {
    let expected = node.get("expected").unwrap_or_else(|| node.clone());
    case.uses(node, &["dims", "inputs", "expected"]);
    for (part, known) in [("dims", &DIMS[..]), ("inputs", &INPUTS[..])] {
        if let Some(part) = node.get(part) {
            case.uses(&part, known);
        }
    }
    match Inducing::read(node, setting) {
        Ok(inducing) => inducing.check(case, &expected),
        Err(error) => case.give_up(&error, &[&expected]),
    }
    for part in [Some(expected), node.get("inputs"), node.get("dims"), Some(node.clone())].into_iter().flatten() {
        case.rest(&part);
    }
}

impl<'a> Inducing<'a> {
    pub fn read(node: &Node<'a>, setting: Setting) -> Result<Self> {
        let inputs = node.need("inputs")?;
        let (z_row, rows, d_out) = setting.matrix(&inputs.need("z_row")?)?;
        let (z_col, cols, d_in) = setting.matrix(&inputs.need("z_col")?)?;
        let sizes = Sizes { d_out, d_in, rows, cols };
        check_dims(node, sizes)?;
        let raw = |key: &str, shape: &[i64]| setting.shaped(&inputs.need(key)?, shape);
        let bound = |key: &str| inputs.get(key).map(|max| max.finite()).transpose();
        let mut weight = empty(&inputs, &node.path, sizes, setting)?;
        weight.prior = KroneckerPrior {
            name: node.path.clone(),
            z_row,
            z_col,
            d_row_raw: raw("d_row_raw", &[rows])?,
            d_col_raw: raw("d_col_raw", &[cols])?,
        };
        weight.posterior.mean = raw("q_mean", &[rows, cols])?;
        let bounded = |raw: Tensor, max: Option<f64>| Bounded { raw, max, map: BoundMap::Clamp };
        weight.posterior.sd = bounded(raw("q_sd_raw", &[rows, cols])?, bound("max_sd_u")?);
        weight.conditional_scale = bounded(raw("lamda_raw", &[])?, bound("max_lamda")?);
        let factors = weight.factors(Check::Now)?;
        Ok(Self { weight, factors, inputs, setting })
    }

    fn check(&self, case: &mut Case, expected: &Node) {
        self.check_parameters(case, expected);
        self.check_prior(case, expected);
        self.check_draws(case, expected);
        self.check_covariances(case, expected);
        self.check_divergences(case, expected);
    }

    fn check_parameters(&self, case: &mut Case, expected: &Node) {
        let (d_row, d_col) = self.weight.prior.d();
        case.check(expected, "d_row", || Ok(d_row));
        case.check(expected, "d_col", || Ok(d_col));
        case.check(expected, "q_sd", || Ok(self.sd()));
        case.check(expected, "lamda", || Ok(self.scale()));
        case.check(expected, "prior_sd_eff", || Ok(number(self.weight.prior_scale())));
    }

    fn check_prior(&self, case: &mut Case, expected: &Node) {
        let factors = &self.factors;
        let covariance = |z: &Tensor, d: &Tensor| z.matmul(&z.mt()) + d.square().diag(0);
        case.check(expected, "K_row", || Ok(covariance(&factors.z_row, &factors.d_row)));
        case.check(expected, "K_col", || Ok(covariance(&factors.z_col, &factors.d_col)));
        case.check(expected, "L_row", || Ok(factors.l_row.shallow_clone()));
        case.check(expected, "L_col", || Ok(factors.l_col.shallow_clone()));
        case.check(expected, "T_row", || Ok(factors.t_row()));
        case.check(expected, "T_col", || Ok(factors.t_col()));
        let Sizes { d_out, d_in, rows, cols } = self.weight.sizes();
        let grams = || factors.grams.as_ref().ok_or_else(|| Error::setting("grams", "omitted", "are needed"));
        let (row, col) = (self.gram_bound(rows > d_out), self.gram_bound(cols > d_in));
        case.check_within(expected, "Lz_row", row, || Ok(grams()?.z_row_chol.shallow_clone()));
        case.check_within(expected, "Lz_col", col, || Ok(grams()?.z_col_chol.shallow_clone()));
    }

    fn gram_bound(&self, over_complete: bool) -> f64 {
        let precision = self.setting.precision;
        if over_complete && precision == Precision::F32 { OVER_COMPLETE_F32 } else { precision.bound() }
    }

    fn check_draws(&self, case: &mut Case, expected: &Node) {
        let factors = &self.factors;
        let bound = self.setting.precision.bound();
        let psd = self.weight.prior_scale();
        case.check(expected, "v_white", || self.whitened());
        case.check(expected, "u", || Ok(factors.unwhiten(&self.whitened()?)));
        case.check(expected, "cond_mean_unit", || Ok(conditional::mean(factors, &self.whitened()?)));
        case.check(expected, "W_mean", || Ok(conditional::mean(factors, &self.whitened()?) * psd));
        case.check(expected, "u_bar", || Ok(conditional::matheron_prior_inducing(factors, &self.noise()?)?));
        case.check(expected, "noise_unit", || self.unit_noise());
        case.check(expected, "W_sample", || self.sample());
        case.check_as(expected, "W_sample", "W_sample (unmerged)", bound, || {
            let inducing = factors.unwhiten(&self.whitened()?);
            Ok(conditional::matheron_unmerged(factors, &inducing, &self.scale(), &self.noise()?)? * psd)
        });
    }

    fn check_covariances(&self, case: &mut Case, expected: &Node) {
        let exact = || Ok::<_, VerifyError>(covariance::exact(&self.without_jitter()?));
        let eigenvalues = || Ok::<_, VerifyError>(exact()?.f_linalg_eigvalsh("L")?);
        let coded = || covariance::coded(&self.factors, self.weight.sizes());
        case.check(expected, "cov_cond_exact_unit", exact);
        case.check(expected, "cov_noise_as_coded_unit", coded);
        case.check(expected, "cov_W_given_u", || Ok(coded()? * (self.scale() * self.weight.prior_scale()).square()));
        match self.setting.precision {
            Precision::F64 => case.check(expected, "max_abs_cov_gap", || Ok((coded()? - exact()?).abs().max())),
            Precision::F32 => {
                case.skip(expected, "max_abs_cov_gap", "a difference of near equals, checked in f64 only");
            }
        }
        case.check(expected, "cov_cond_min_eig", || Ok(eigenvalues()?.min()));
        case.check(expected, "cov_cond_max_eig", || Ok(eigenvalues()?.max()));
    }

    fn check_divergences(&self, case: &mut Case, expected: &Node) {
        let mean = &self.weight.posterior.mean;
        case.check(expected, "kl_cond", || Ok(self.kl_conditional()));
        case.check(expected, "kl_cond_isotropic_noise_vs_true_prior_conditional", || {
            Ok(conditional::kl_isotropic(&self.without_jitter()?, &self.scale()))
        });
        case.check(expected, "kl_u_whitened_diag", || Ok(kl_to_standard_normal(mean, &self.sd())));
        case.check(expected, "kl_u_unwhitened_diag", || Ok(kl_unwhitened(&self.factors, mean, &self.sd())));
    }

    /// s. `[R, C]`
    pub fn sd(&self) -> Tensor {
        self.weight.posterior.sd.value()
    }

    /// ε of q. `[R, C]`
    pub fn epsilon(&self) -> Result<Tensor> {
        let Sizes { rows, cols, .. } = self.weight.sizes();
        self.setting.shaped(&self.inputs.need("eps_u")?, &[rows, cols])
    }

    /// `V = m + s·ε`. `[R, C]`
    pub fn whitened(&self) -> Result<Tensor> {
        Ok(&self.weight.posterior.mean + self.sd() * self.epsilon()?)
    }

    /// KL of the scaled conditional. Scalar.
    pub fn kl_conditional(&self) -> Tensor {
        let Sizes { d_out, d_in, .. } = self.weight.sizes();
        conditional::kl_scaled(d_out * d_in, &self.scale())
    }

    /// λ. Scalar.
    fn scale(&self) -> Tensor {
        self.weight.conditional_scale.value()
    }

    /// e1 … e4.
    fn noise(&self) -> Result<MatheronNoise> {
        let Sizes { d_out, d_in, rows, cols } = self.weight.sizes();
        let read = |key: &str, shape: &[i64]| self.setting.shaped(&self.inputs.need(key)?, shape);
        Ok(MatheronNoise {
            weight: read("e1", &[d_out, d_in])?,
            row: read("e2", &[rows, cols])?,
            col: read("e3", &[rows, cols])?,
            corner: read("e4", &[rows, cols])?,
        })
    }

    /// `e1 − T_row ū T_col`: the draw around a zero mean at scale 1.
    fn unit_noise(&self) -> Result<Tensor> {
        let zero = self.weight.posterior.mean.zeros_like();
        let one = Tensor::ones([0_i64; 0], self.setting.options());
        Ok(conditional::matheron(&self.factors, &zero, &one, &self.noise()?)?)
    }

    /// W as a layer draws it.
    fn sample(&self) -> Result<Tensor> {
        let inducing = InducingNoise { epsilon: self.epsilon()?, member: 0, dropout: None };
        let noise = WeightNoise { inducing, conditional: ConditionalNoise::Matheron(self.noise()?) };
        match self.weight.draw(&self.factors, &noise)?.0 {
            Drawn::Weight(weight) => Ok(weight),
            Drawn::MeanAndScale { .. } => Err(Error::setting("draw", "mean and scale", "expected a weight").into()),
        }
    }

    fn without_jitter(&self) -> Result<PriorFactors> {
        Ok(self.weight.prior.factors(Jitter::NONE, Grams::Omitted)?)
    }
}

/// A weight with the file's settings; its tensors are replaced by the file's.
fn empty(inputs: &Node, name: &str, sizes: Sizes, setting: Setting) -> Result<InducingWeight> {
    let config = InducingConfig {
        inducing_rows: sizes.rows.into(),
        inducing_cols: sizes.cols.into(),
        cap_inducing: false,
        posterior: PosteriorConfig::Diagonal,
        max_sd_u: None,
        max_lamda: None,
        bound: BoundMap::Clamp,
        prior_sd: inputs.need("prior_sd")?.finite()?,
        sqrt_width_scaling: inputs.need("sqrt_width_scaling")?.flag()?,
        jitter: inputs.need("jitter_eps")?.finite()?,
        ..InducingConfig::default()
    };
    let mut store = VarStore::new(setting.device);
    store.set_kind(setting.kind());
    let mut weight = InducingWeight::init(&store.root(), sizes.d_out, sizes.d_in, &config, Key::new(0))?;
    name.clone_into(&mut weight.name);
    Ok(weight)
}

/// `dims`, where the file has them, must be those of Z.
fn check_dims(node: &Node, sizes: Sizes) -> Result<()> {
    let Some(dims) = node.get("dims") else { return Ok(()) };
    for (key, size) in DIMS.into_iter().zip([sizes.d_out, sizes.d_in, sizes.rows, sizes.cols]) {
        if let Some(dim) = dims.get(key) {
            let said = dim.integer()?;
            if said != size {
                return Err(VerifyError::malformed(
                    &dim.path,
                    format!("is {said}, but z_row and z_col make it {size}"),
                ));
            }
        }
    }
    Ok(())
}
