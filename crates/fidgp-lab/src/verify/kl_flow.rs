//! The one-sample KL of a flow posterior, and its mean over many draws.

use fidgp::Key;
use fidgp::distribution::{normal_log_density_from_noise, standard_normal_log_density};
use fidgp::flow::{Flow, Flowed};
use tch::Tensor;

use super::case::{Case, Estimate};
use super::error::{Result, VerifyError};
use super::inducing::Inducing;
use super::node::Node;
use super::released_flow::Made;
use super::setting::Setting;

/// The estimate is a mean of `BATCHES` means over `DRAWS` draws; their spread gives its standard error.
const BATCHES: u64 = 400;
const DRAWS: i64 = 512;

pub(super) fn check(case: &mut Case, node: &Node, root: &Node, setting: Setting) {
    case.uses(node, &["case", "flow", "kl_mc_stderr"]);
    match Pushed::read(node, root, setting) {
        Ok(pushed) => pushed.check(case, node),
        Err(error) => case.give_up(&error, &[node]),
    }
    case.rest(node);
}

/// q of one case, pushed through a flow.
struct Pushed<'a> {
    inducing: Inducing<'a>,
    made: Made<'a>,
    setting: Setting,
}

impl<'a> Pushed<'a> {
    fn read(node: &Node, root: &Node<'a>, setting: Setting) -> Result<Self> {
        let inducing = Inducing::read(&referred(node, "case", root, "inducing")?, setting)?;
        let made = Made::read(&referred(node, "flow", root, "released_flow")?, setting)?;
        let cols = inducing.weight.sizes().cols;
        if made.dim != cols {
            let why = format!("puts a flow on {} columns on an inducing matrix with {cols}", made.dim);
            return Err(VerifyError::malformed(&node.path, why));
        }
        Ok(Self { inducing, made, setting })
    }

    fn check(&self, case: &mut Case, node: &Node) {
        let kl_conditional = || self.inducing.kl_conditional();
        case.check(node, "u0", || self.inducing.whitened());
        case.check(node, "u1", || Ok(self.draw()?.flowed.value));
        case.check(node, "logdet_rows", || Ok(self.draw()?.flowed.log_det));
        case.check(node, "log_q0", || Ok(self.draw()?.log_q0));
        case.check(node, "log_p", || Ok(self.draw()?.log_p));
        case.check(node, "kl_hat", || Ok(self.draw()?.kl()));
        case.check(node, "kl_cond", || Ok(kl_conditional()));
        case.check(node, "kl_total", || Ok(self.draw()?.kl() + kl_conditional()));
        case.estimate(node, "kl_mc_mean", || {
            let theirs = node.need("kl_mc_stderr")?.finite()?;
            let ours = self.monte_carlo()?;
            Ok(Estimate { error: theirs.hypot(ours.error), ..ours })
        });
    }

    /// The draw that the file's noise makes.
    fn draw(&self) -> Result<Draw> {
        Ok(self.draw_from(&self.inducing.epsilon()?))
    }

    /// `[.., R, C]` standard normals → the draw and its densities, summed over everything.
    fn draw_from(&self, epsilon: &Tensor) -> Draw {
        let sd = self.inducing.sd().expand_as(epsilon);
        let flowed = self.made.flow.forward(&(&self.inducing.weight.posterior.mean + &sd * epsilon), None);
        Draw {
            log_q0: normal_log_density_from_noise(epsilon, &sd),
            log_p: standard_normal_log_density(&flowed.value),
            flowed,
        }
    }

    fn monte_carlo(&self) -> Result<Estimate> {
        let sizes = self.inducing.weight.sizes();
        let key = Key::new(0).fold("verify").fold("kl_mc_mean");
        let batch = |i: u64| {
            let epsilon = key.at(i).normal(&[DRAWS, sizes.rows, sizes.cols], self.setting.kind(), self.setting.device);
            self.draw_from(&epsilon).kl().double_value(&[]) / DRAWS as f64
        };
        let means: Vec<f64> = tch::no_grad(|| (0..BATCHES).map(batch).collect());
        Ok(Estimate { mean: fidgp_metrics::mean(&means)?, error: fidgp_metrics::standard_error(&means)? })
    }
}

struct Draw {
    flowed: Flowed,
    log_q0: Tensor,
    log_p: Tensor,
}

impl Draw {
    /// `log q0(v0) − log|det J| − log N(g(v0); 0, I)`. Scalar.
    fn kl(&self) -> Tensor {
        &self.log_q0 - self.flowed.log_det.sum(self.log_q0.kind()) - &self.log_p
    }
}

/// The case that an index refers to; the first where there is none.
fn referred<'a>(node: &Node, key: &str, root: &Node<'a>, family: &str) -> Result<Node<'a>> {
    let index = node.get(key).map_or(Ok(0), |index| index.integer())?;
    let cases = root.need(family)?.cases()?;
    let found = usize::try_from(index).ok().and_then(|index| cases.into_iter().nth(index));
    found.ok_or_else(|| VerifyError::Missing { path: format!("{family}[{index}]") })
}
