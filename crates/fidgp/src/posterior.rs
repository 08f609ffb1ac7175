//! q(U): the variational posterior of the inducing matrix, held in whitened space.
//!
//! Every family gives a value V and its divergence from the prior `N(0, I)`. Families without a flow have the KL in
//! closed form; a flow's is the one-sample estimate `log q0(v0) − log|det J_g(v0)| − log N(g(v0); 0, I)`.

use serde::{Deserialize, Serialize};
use tch::nn::Path;
use tch::{Kind, Tensor};

use crate::distribution::{
    BoundMap, Bounded, kl_to_standard_normal, normal_log_density_from_noise, standard_normal_log_density,
};
use crate::flow::{AnyFlow, Flow, FlowConfig, Flowed, StackedFlow};
use crate::linalg::log_det_lower;
use crate::prior::{PriorFactors, Sizes, layer_name};
use crate::{Error, Key, Result};

/// The family of q(U).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "family", deny_unknown_fields)]
pub enum PosteriorConfig {
    /// Elementwise Gaussian `N(m, s²)`: FFG-U.
    Diagonal,
    /// `V = m + A E Bᵀ` with triangular A and B.
    MatrixNormal,
    /// `vec V = m + L ε` with a full triangular L. Grows as (R·C)²; for small inducing matrices.
    Full,
    /// A mixture of Gaussians with separate means and one shared, learnt deviation.
    Ensemble {
        /// Number of members.
        members: i64,
    },
    /// The diagonal Gaussian pushed through a normalising flow: FiD-GP.
    Flow {
        /// The flow.
        flow: FlowConfig,
    },
}

struct Deviation {
    shape: Vec<i64>,
    init: f64,
    max: Option<f64>,
}

impl PosteriorConfig {
    /// Shape, start and bound of the deviations that are learnt.
    fn deviation(&self, (rows, cols): (i64, i64), init: f64, max: Option<f64>) -> Deviation {
        match self {
            // the diagonals of A and B: each carries the square root of the deviation of an entry
            Self::MatrixNormal => Deviation { shape: vec![rows + cols], init: init.sqrt(), max: max.map(f64::sqrt) },
            Self::Full => Deviation { shape: vec![rows * cols], init, max },
            _ => Deviation { shape: vec![rows, cols], init, max },
        }
    }
}

/// Settings that all families share.
#[derive(Clone, Debug, PartialEq)]
pub struct PosteriorOptions {
    /// The family.
    pub family: PosteriorConfig,
    /// Whether q lives in whitened space (the default) or on U itself.
    pub whitened: bool,
    /// Deviation of the means m at the start.
    pub init_mean: f64,
    /// Initial deviation s.
    pub init_sd: f64,
    /// Upper bound of s.
    pub max_sd: Option<f64>,
    /// How s is bounded.
    pub bound: BoundMap,
}

/// q(U) of one layer.
#[derive(Debug)]
pub struct Posterior {
    family: Family,
    whitened: bool,
    /// m. `[R, C]`, ensemble `[members, R, C]`
    pub mean: Tensor,
    /// s; for triangular families the diagonal of the factors.
    pub sd: Bounded,
}

#[derive(Debug)]
enum Family {
    Diagonal,
    MatrixNormal { row_lower: Tensor, col_lower: Tensor },
    Full { lower: Tensor },
    Ensemble,
    Flow(AnyFlow),
}

/// The randomness of one draw of V.
#[derive(Debug)]
pub struct InducingNoise {
    /// ε. `[R, C]`
    pub epsilon: Tensor,
    /// Chooses the member of an ensemble.
    pub member: u64,
    /// Key of a flow's dropout masks, in training.
    pub dropout: Option<Key>,
}

impl InducingNoise {
    /// The same tensor, not a copy.
    pub(crate) fn share(&self) -> Self {
        Self { epsilon: self.epsilon.shallow_clone(), ..*self }
    }
}

/// One draw of the whitened inducing matrix.
#[derive(Debug)]
pub struct InducingDraw {
    /// V. `[R, C]`
    pub whitened: Tensor,
    /// KL(q ‖ p), or its one-sample estimate. Scalar.
    pub kl: Tensor,
}

impl Posterior {
    /// `m ~ N(0, init_mean²)`, `s = init_sd`, the flow at its own start.
    ///
    /// # Errors
    /// When a setting is out of range or a family does not support `whitened = false`.
    pub fn init(path: &Path, sizes: Sizes, options: &PosteriorOptions, key: Key) -> Result<Self> {
        let name = layer_name(path);
        let PosteriorOptions { family, whitened, init_mean, init_sd, max_sd, bound } = options;
        if !whitened && !matches!(family, PosteriorConfig::Diagonal | PosteriorConfig::Flow { .. }) {
            return Err(Error::setting(
                format!("{name}: whitened_u"),
                false,
                "only the diagonal and flow families can be unwhitened",
            ));
        }
        let (rows, cols) = (sizes.rows, sizes.cols);
        let mean_shape = match family {
            PosteriorConfig::Ensemble { members } if *members < 1 => {
                return Err(Error::setting(
                    format!("{name}: members"),
                    members,
                    "an ensemble needs at least one member",
                ));
            }
            PosteriorConfig::Ensemble { members } => vec![*members, rows, cols],
            _ => vec![rows, cols],
        };
        let mean = key.fold("inducing_mean").normal(&mean_shape, Kind::Double, path.device()) * *init_mean;
        Bounded::raw_of(&format!("{name}: init_sd_u"), *init_sd, *max_sd, *bound)?; // before roots are taken of it
        let Deviation { shape, init, max } = family.deviation((rows, cols), *init_sd, *max_sd);
        let raw = Bounded::raw_of(&format!("{name}: init_sd_u"), init, max, *bound)?;
        Ok(Self {
            family: Family::init(path, family, (rows, cols), key).map_err(|error| error.of(&name))?,
            whitened: *whitened,
            mean: path.var_copy("inducing_mean", &mean),
            sd: Bounded { raw: path.var("_inducing_sd", &shape, tch::nn::Init::Const(raw)), max, map: *bound },
        })
    }

    /// The noise of one draw.
    pub fn noise(&self, key: Key, training: bool) -> InducingNoise {
        let (kind, device) = (self.mean.kind(), self.mean.device());
        self.noise_of(key, training, &mut |key, shape| key.normal(shape, kind, device))
    }

    /// The same, with `normal` making standard normals of a key and a shape.
    pub(crate) fn noise_of(
        &self,
        key: Key,
        training: bool,
        normal: &mut dyn FnMut(Key, &[i64]) -> Tensor,
    ) -> InducingNoise {
        let shape = &self.mean.size()[self.mean.dim() - 2..];
        InducingNoise {
            epsilon: normal(key.fold("epsilon"), shape),
            member: key.fold("member").seed(),
            dropout: training.then(|| key.fold("dropout")),
        }
    }

    /// Draws V ~ q and what it pays.
    pub fn draw(&self, prior: &PriorFactors, noise: &InducingNoise) -> InducingDraw {
        self.draw_whitened(noise).unwrap_or_else(|| self.draw_unwhitened(prior, noise))
    }

    /// The same where q lives in whitened space, so that no factors are needed.
    pub(crate) fn draw_whitened(&self, noise: &InducingNoise) -> Option<InducingDraw> {
        if !self.whitened {
            return None;
        }
        let sd = self.sd.value();
        Some(match &self.family {
            Family::Diagonal => {
                InducingDraw { whitened: &self.mean + &sd * &noise.epsilon, kl: kl_to_standard_normal(&self.mean, &sd) }
            }
            Family::Flow(flow) => {
                if let Some((mean, sd)) = flow.push_gaussian(&self.mean, &sd) {
                    let kl = kl_to_standard_normal(&mean, &sd);
                    return Some(InducingDraw { kl, whitened: mean + sd * &noise.epsilon });
                }
                let (value, log_q) = self.push(flow, &sd, noise);
                InducingDraw { kl: log_q - standard_normal_log_density(&value), whitened: value }
            }
            Family::MatrixNormal { row_lower, col_lower } => {
                let (a, b) = matrix_normal_factors(&sd, row_lower, col_lower);
                let whitened = &self.mean + a.matmul(&noise.epsilon).matmul(&b.mt());
                InducingDraw { whitened, kl: kl_matrix_normal(&self.mean, &a, &b) }
            }
            Family::Full { lower } => {
                let l = lower.tril(-1) + sd.diag(0);
                let shift = l.matmul(&noise.epsilon.reshape([-1, 1])).reshape_as(&self.mean);
                let trace = l.square().sum(l.kind()) + self.mean.square().sum(l.kind());
                let kl = (trace - self.mean.numel() as f64) * 0.5 - log_det_lower(&l);
                InducingDraw { whitened: &self.mean + shift, kl }
            }
            Family::Ensemble => {
                let members = self.mean.size()[0];
                let mean = self.mean.get((noise.member % members as u64) as i64);
                // KL is convex: the mixture pays at most the mean of its members' KLs.
                let kl = kl_to_standard_normal(&self.mean, &sd.expand_as(&self.mean)) / members as f64;
                InducingDraw { whitened: mean + &sd * &noise.epsilon, kl }
            }
        })
    }

    /// A draw of a q on U itself, diagonal or with a flow, carried into whitened space.
    fn draw_unwhitened(&self, prior: &PriorFactors, noise: &InducingNoise) -> InducingDraw {
        let sd = self.sd.value();
        if let Family::Flow(flow) = &self.family {
            let (value, log_q) = self.push(flow, &sd, noise);
            let whitened = prior.whiten(&value);
            return InducingDraw { kl: log_q - prior.log_density(&whitened), whitened };
        }
        let whitened = prior.whiten(&(&self.mean + &sd * &noise.epsilon));
        InducingDraw { whitened, kl: kl_unwhitened(prior, &self.mean, &sd) }
    }

    /// A draw through the flow and its log density.
    fn push(&self, flow: &AnyFlow, sd: &Tensor, noise: &InducingNoise) -> (Tensor, Tensor) {
        let Flowed { value, log_det } = flow.forward(&(&self.mean + sd * &noise.epsilon), noise.dropout);
        let log_q = normal_log_density_from_noise(&noise.epsilon, sd) - log_det.sum(log_det.kind());
        (value, log_q)
    }

    /// V at the centre of q: the mean, carried through the flow. `[R, C]`
    pub fn centre(&self, prior: &PriorFactors) -> Tensor {
        let mean = match &self.family {
            Family::Flow(flow) => flow.forward(&self.mean, None).value,
            Family::Ensemble => self.mean.mean_dim(0, false, self.mean.kind()),
            _ => self.mean.shallow_clone(),
        };
        if self.whitened { mean } else { prior.whiten(&mean) }
    }

    /// Whether two posteriors can be drawn in one batch: whitened, of one width and bound, diagonal or with equal flows
    /// that neither drop out (their masks would then depend on the batch) nor have a closed form.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let families = match (&self.family, &other.family) {
            (Family::Diagonal, Family::Diagonal) => true,
            (Family::Flow(mine), Family::Flow(theirs)) => {
                mine.config() == theirs.config() && mine.config().is_batched()
            }
            _ => false,
        };
        families
            && self.whitened
            && other.whitened
            && self.mean.size()[1] == other.mean.size()[1]
            && self.sd.has_bound_of(&other.sd)
    }

    /// Whether all randomness of a draw in training is in [`InducingNoise::epsilon`]: then a captured draw can be replayed.
    pub(crate) fn is_replayable(&self) -> bool {
        match &self.family {
            Family::Ensemble => false,
            Family::Flow(flow) => !flow.config().drops_out(),
            _ => true,
        }
    }

    /// The flow, if this family has one.
    pub fn flow(&self) -> Option<&AnyFlow> {
        match &self.family {
            Family::Flow(flow) => Some(flow),
            _ => None,
        }
    }
}

/// Draws of posteriors that are alike, as one batch: the same values as [`Posterior::draw`] one by one.
///
/// # Errors
/// When the posteriors are not alike.
pub(crate) fn draw_alike(
    posteriors: &[&Posterior],
    noise: &[&InducingNoise],
    training: bool,
) -> Result<Vec<InducingDraw>> {
    let alike = Alike::of(posteriors)?; // [L, R, C]
    let (Alike { rows, mean, sd, .. }, epsilon) = (&alike, alike.epsilon(noise));
    let (value, log_det) = alike.push(&epsilon, training);
    let over_row = |terms: &Tensor| terms.sum_dim_intlist(-1, false, terms.kind());
    let kl = match log_det {
        None => over_row(&((sd.square() + mean.square() - 1.0) * 0.5 - sd.log())),
        // log q0(v0) − log|det J| − log N(v; 0, I); the constants of both densities cancel
        Some(log_det) => over_row(&((value.square() - epsilon.square()) * 0.5 - sd.log())) - log_det,
    };
    let draws = rows.cut(&value, 0).into_iter().zip(rows.sums(&kl));
    Ok(draws.map(|(whitened, kl)| InducingDraw { whitened, kl }).collect())
}

/// Values V of several draws of posteriors that are alike, for prediction. `[K, R, C]` for each
///
/// # Errors
/// When the posteriors are not alike.
pub(crate) fn values_alike(posteriors: &[&Posterior], noise: &[Vec<&InducingNoise>]) -> Result<Vec<Tensor>> {
    let alike = Alike::of(posteriors)?;
    let epsilon = Tensor::stack(&noise.iter().map(|noise| alike.epsilon(noise)).collect::<Vec<_>>(), 0); // [K, L, R, C]
    Ok(alike.rows.cut(&alike.push(&epsilon, false).0, 1))
}

/// Posteriors of one width as a stack; those with fewer rows are filled up with rows that nobody looks at.
struct Alike {
    rows: Rows,
    mean: Tensor,
    sd: Tensor,
    flow: Option<StackedFlow>,
}

impl Alike {
    fn of(posteriors: &[&Posterior]) -> Result<Self> {
        let rows = Rows::of(posteriors);
        let like = &posteriors[0].sd;
        let raw = stack_rows(posteriors.iter().map(|posterior| &posterior.sd.raw), rows.most);
        let flows: Vec<_> = posteriors.iter().filter_map(|posterior| posterior.flow()).collect();
        Ok(Self {
            mean: stack_rows(posteriors.iter().map(|posterior| &posterior.mean), rows.most),
            sd: Bounded { raw, max: like.max, map: like.map }.value(),
            flow: if flows.is_empty() { None } else { Some(StackedFlow::new(&flows)?) },
            rows,
        })
    }

    /// ε of one draw. `[L, R, C]`
    fn epsilon(&self, noise: &[&InducingNoise]) -> Tensor {
        stack_rows(noise.iter().map(|noise| &noise.epsilon), self.rows.most)
    }

    /// `g(m + s·ε)` and `log|det J|` where there is a flow; in training its power iterations advance.
    fn push(&self, epsilon: &Tensor, training: bool) -> (Tensor, Option<Tensor>) {
        let v0 = &self.mean + &self.sd * epsilon;
        let Some(flow) = &self.flow else { return (v0, None) };
        let Flowed { value, log_det } = if training { flow.advance_and_forward(&v0) } else { flow.forward(&v0, None) };
        (value, Some(log_det))
    }
}

/// How many rows each member of a stack really has.
struct Rows {
    each: Vec<i64>,
    most: i64,
}

impl Rows {
    fn of(posteriors: &[&Posterior]) -> Self {
        let each: Vec<_> = posteriors.iter().map(|posterior| posterior.mean.size()[0]).collect();
        Self { most: each.iter().copied().max().unwrap_or(0), each }
    }

    /// The members of a stack along `axis`, without the rows they were filled up with; rows are the axis after it.
    fn cut(&self, stack: &Tensor, axis: i64) -> Vec<Tensor> {
        let members = stack.unbind(axis).into_iter().zip(&self.each);
        members.map(|(member, &rows)| if rows == self.most { member } else { member.narrow(axis, 0, rows) }).collect()
    }

    /// Sums over the rows of each member. `[L, R]` → L scalars
    fn sums(&self, of_rows: &Tensor) -> Vec<Tensor> {
        if self.each.iter().all(|&rows| rows == self.most) {
            return of_rows.sum_dim_intlist(-1, false, of_rows.kind()).unbind(0);
        }
        self.cut(of_rows, 0).iter().map(|rows| rows.sum(rows.kind())).collect()
    }
}

/// Matrices of one width along a new leading axis, filled up with zeros to `rows` rows. → `[L, rows, C]`
fn stack_rows<'a>(matrices: impl Iterator<Item = &'a Tensor>, rows: i64) -> Tensor {
    let filled = matrices.map(|matrix| match rows - matrix.size()[0] {
        0 => matrix.shallow_clone(),
        missing => matrix.constant_pad_nd([0, 0, 0, missing]),
    });
    Tensor::stack(&filled.collect::<Vec<_>>(), 0)
}

impl Family {
    fn init(path: &Path, config: &PosteriorConfig, (rows, cols): (i64, i64), key: Key) -> Result<Self> {
        let lower = |name: &str, n: i64| path.zeros(name, &[n, n]);
        Ok(match config {
            PosteriorConfig::Diagonal => Self::Diagonal,
            PosteriorConfig::Ensemble { .. } => Self::Ensemble,
            PosteriorConfig::MatrixNormal => Self::MatrixNormal {
                row_lower: lower("inducing_row_lower", rows),
                col_lower: lower("inducing_col_lower", cols),
            },
            PosteriorConfig::Full => Self::Full { lower: lower("inducing_lower", rows * cols) },
            PosteriorConfig::Flow { flow } => Self::Flow(flow.init(&(path / "flow"), cols, key.fold("flow"))?),
        })
    }
}

/// A and B from their strict lower parts and the joined diagonals.
fn matrix_normal_factors(sd: &Tensor, row_lower: &Tensor, col_lower: &Tensor) -> (Tensor, Tensor) {
    let rows = row_lower.size()[0];
    let a = row_lower.tril(-1) + sd.narrow(0, 0, rows).diag(0);
    let b = col_lower.tril(-1) + sd.narrow(0, rows, col_lower.size()[0]).diag(0);
    (a, b)
}

/// `½[tr(AAᵀ) tr(BBᵀ) + ‖m‖² − RC] − C ln det A − R ln det B`. Scalar.
fn kl_matrix_normal(mean: &Tensor, a: &Tensor, b: &Tensor) -> Tensor {
    let (rows, cols) = (a.size()[0] as f64, b.size()[0] as f64);
    let energy = |t: &Tensor| t.square().sum(t.kind());
    (energy(a) * energy(b) + energy(mean) - rows * cols) * 0.5 - log_det_lower(a) * cols - log_det_lower(b) * rows
}

/// `KL[N(m, diag s²) ‖ MN(0, K_r, K_c)]
///  = ½[Σ_ij s²_ij (K_r⁻¹)_ii (K_c⁻¹)_jj + ‖L_r⁻¹ m L_c⁻ᵀ‖² − RC] + C ln det L_r + R ln det L_c − Σ ln s`. Scalar.
pub fn kl_unwhitened(prior: &PriorFactors, mean: &Tensor, sd: &Tensor) -> Tensor {
    let precision_diagonal = |l: &Tensor| {
        let eye = Tensor::eye(l.size()[0], (l.kind(), l.device()));
        crate::linalg::solve_lower(l, &eye).square().sum_dim_intlist(0, false, l.kind())
    };
    let (rows, cols) = (mean.size()[0] as f64, mean.size()[1] as f64);
    let trace =
        (sd.square() * precision_diagonal(&prior.l_row).outer(&precision_diagonal(&prior.l_col))).sum(sd.kind());
    let quadratic = prior.whiten(mean).square().sum(mean.kind());
    let log_det = log_det_lower(&prior.l_row) * cols + log_det_lower(&prior.l_col) * rows - sd.log().sum(sd.kind());
    (trace + quadratic - rows * cols) * 0.5 + log_det
}
