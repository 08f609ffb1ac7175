//! Settings of a Bayesian weight.

use serde::{Deserialize, Serialize};

use crate::conditional::{Conditional, ConditionalKl, NoiseOn};
use crate::distribution::BoundMap;
use crate::linalg::Jitter;
use crate::posterior::PosteriorConfig;
use crate::prior::{MOST_INDUCING, Sizes, ZStart};
use crate::{Error, Result};

/// The size of an inducing matrix in one direction: a number, or `"sqrt"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub enum InducingSize {
    /// So many for every layer.
    Count(i64),
    /// The square root of the layer's own size, rounded down: bayesianize's default.
    Root,
}

/// A size as files have it.
#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "must be a whole number, or \"sqrt\"")]
enum Written {
    Number(i64),
    Word(String),
}

const ROOT: &str = "sqrt";

impl From<i64> for InducingSize {
    fn from(size: i64) -> Self {
        Self::Count(size)
    }
}

impl TryFrom<Written> for InducingSize {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Number(size) => Ok(Self::Count(size)),
            Written::Word(word) if word == ROOT => Ok(Self::Root),
            Written::Word(word) => Err(format!("must be a whole number, or \"{ROOT}\", not \"{word}\"")),
        }
    }
}

impl From<InducingSize> for Written {
    fn from(size: InducingSize) -> Self {
        match size {
            InducingSize::Count(size) => Self::Number(size),
            InducingSize::Root => Self::Word(ROOT.to_owned()),
        }
    }
}

impl std::fmt::Display for InducingSize {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Self::Count(size) => write!(f, "{size}"),
            Self::Root => f.write_str(ROOT),
        }
    }
}

/// How a layer's weight is made Bayesian. Names follow bayesianize where it has the same thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "the switches of bayesianize's configs, under their names")]
pub struct InducingConfig {
    /// R, the rows of U (the paper's M_out).
    pub inducing_rows: InducingSize,
    /// C, the columns of U (the paper's M_in).
    pub inducing_cols: InducingSize,
    /// Reduce R to d_out and C to d_in where they exceed them; the released code does not.
    pub cap_inducing: bool,
    /// q(U).
    pub posterior: PosteriorConfig,
    /// Whether q lives in whitened space.
    pub whitened_u: bool,
    /// Initial deviation of q(U).
    pub init_sd_u: f64,
    /// Upper bound of that deviation.
    pub max_sd_u: Option<f64>,
    /// How W is drawn given U.
    pub conditional: Conditional,
    /// Where Reparam noise is drawn.
    pub noise: NoiseOn,
    /// Which conditional KL is charged.
    pub conditional_kl: ConditionalKl,
    /// Initial conditional scale λ.
    pub init_lamda: f64,
    /// Upper bound of λ.
    pub max_lamda: Option<f64>,
    /// Whether λ is learnt.
    pub learn_lamda: bool,
    /// Weight of the penalty β_λ λ² (0: none).
    pub lamda_penalty: f64,
    /// How s and λ are bounded.
    pub bound: BoundMap,
    /// Prior deviation of a weight, before width scaling.
    pub prior_sd: f64,
    /// Divide the prior deviation by √d_in.
    pub sqrt_width_scaling: bool,
    /// Where the prior's inducing locations Z start.
    pub init_z: ZStart,
    /// Initial D of the prior.
    pub init_d: f64,
    /// Relative jitter of the Choleskys.
    pub jitter: f64,
}

impl Default for InducingConfig {
    fn default() -> Self {
        Self {
            inducing_rows: InducingSize::Count(128),
            inducing_cols: InducingSize::Count(128),
            cap_inducing: true,
            posterior: PosteriorConfig::Flow { flow: crate::flow::FlowConfig::default() },
            whitened_u: true,
            init_sd_u: 1e-3,
            max_sd_u: Some(0.1),
            conditional: Conditional::Matheron,
            noise: NoiseOn::Weights,
            conditional_kl: ConditionalKl::Paper,
            init_lamda: 1e-3,
            max_lamda: Some(0.03),
            learn_lamda: true,
            lamda_penalty: 0.0,
            bound: BoundMap::Smooth,
            prior_sd: 1.0,
            sqrt_width_scaling: true,
            init_z: ZStart::Normal,
            init_d: 1e-3,
            jitter: Jitter::FIDGP.relative,
        }
    }
}

impl InducingConfig {
    /// `σ_p`: the deviation of a weight under the prior.
    pub(super) fn prior_scale(&self, d_in: i64) -> f64 {
        self.prior_sd / if self.sqrt_width_scaling { (d_in as f64).sqrt() } else { 1.0 }
    }

    /// The inducing sizes for a weight `[d_out, d_in]`, after the cap.
    pub fn sizes(&self, d_out: i64, d_in: i64) -> Sizes {
        let of = |size: InducingSize, width: i64| match size {
            InducingSize::Count(size) if self.cap_inducing => size.min(width),
            InducingSize::Count(size) => size,
            InducingSize::Root => width.isqrt().max(1),
        };
        Sizes { d_out, d_in, rows: of(self.inducing_rows, d_out), cols: of(self.inducing_cols, d_in) }
    }

    /// Whether the settings are possible; an error begins with `name`, the layer or section they are of.
    pub fn check(&self, name: &str) -> Result<()> {
        let wrong = |setting: &str, value: &dyn ToString, advice: &str| {
            Err(Error::setting(format!("{name}: {setting}"), value.to_string(), advice))
        };
        let possible = |size: &InducingSize| match size {
            InducingSize::Count(size) => (1..=MOST_INDUCING).contains(size),
            InducingSize::Root => true,
        };
        if ![self.inducing_rows, self.inducing_cols].iter().all(possible) {
            let size = format!("{}x{}", self.inducing_rows, self.inducing_cols);
            return wrong("inducing_rows x inducing_cols", &size, &format!("must be 1 to {MOST_INDUCING} each"));
        }
        if self.prior_sd <= 0.0 || !self.prior_sd.is_finite() {
            return wrong("prior_sd", &self.prior_sd, "must be greater than 0");
        }
        if self.jitter < 0.0 || !self.jitter.is_finite() {
            return wrong("jitter", &self.jitter, "must be 0 or greater; 1e-5 is usual");
        }
        if self.lamda_penalty < 0.0 || !self.lamda_penalty.is_finite() {
            return wrong("lamda_penalty", &self.lamda_penalty, "must be 0 (no penalty) or greater");
        }
        if self.conditional == Conditional::Matheron && self.noise == NoiseOn::Outputs {
            return wrong(
                "noise",
                &"outputs",
                "Matheron noise is correlated between weights; use conditional = \"reparam\"",
            );
        }
        if self.conditional == Conditional::Matheron && self.conditional_kl == ConditionalKl::Exact {
            return wrong("conditional_kl", &"exact", "is the KL of Reparam; Matheron's is exact with \"paper\"");
        }
        Ok(())
    }
}
