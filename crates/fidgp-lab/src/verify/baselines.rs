//! One small case for each method FiD-GP is compared with.

use fidgp_zoo::baseline::svgp::{Rbf, WhitenedSvgp};
use fidgp_zoo::methods::batch_ensemble::BatchEnsembleLinear;
use fidgp_zoo::methods::ddu::ClassGaussians;
use fidgp_zoo::methods::sngp;
use tch::Tensor;

use super::case::Case;
use super::error::{Result, VerifyError};
use super::node::Node;
use super::setting::Setting;

pub(super) fn check_batch_ensemble(case: &mut Case, node: &Node, _root: &Node, setting: Setting) {
    case.uses(node, &["x", "W", "alpha", "gamma", "bias"]);
    case.check(node, "out_member_major", || {
        let tensor = |key: &str| setting.tensor(&node.need(key)?);
        let layer = BatchEnsembleLinear {
            weight: tensor("W")?,
            input_scale: tensor("alpha")?,
            output_scale: tensor("gamma")?,
            bias: tensor("bias")?,
        };
        Ok(layer.tiled(&tensor("x")?)?)
    });
    case.rest(node);
}

pub(super) fn check_sngp(case: &mut Case, node: &Node, _root: &Node, setting: Setting) {
    case.uses(node, &["train_features", "W", "b", "ridge", "test", "beta", "mean_field_factor"]);
    let tensor = |key: &str| setting.tensor(&node.need(key)?);
    let phi = |key: &str| Ok::<_, VerifyError>(sngp::random_features(&tensor(key)?, &tensor("W")?, &tensor("b")?)?);
    let precision = || {
        let ridge = node.get("ridge").map_or(Ok(1.0), |ridge| ridge.finite())?;
        Ok::<_, VerifyError>(sngp::precision(&phi("train_features")?, ridge)?)
    };
    let logits = || Ok::<_, VerifyError>(phi("test")?.f_matmul(&tensor("beta")?)?);
    let variance = || Ok::<_, VerifyError>(sngp::variance(&phi("test")?, &precision()?)?);
    case.check(node, "precision", precision);
    case.check(node, "logits", logits);
    case.check(node, "variance", variance);
    case.check(node, "logits_mean_field", || {
        Ok(sngp::mean_field_logits(&logits()?, &variance()?, node.need("mean_field_factor")?.finite()?)?)
    });
    case.rest(node);
}

pub(super) fn check_ddu(case: &mut Case, node: &Node, _root: &Node, setting: Setting) {
    case.uses(node, &["features", "labels", "query"]);
    let tensor = |key: &str| setting.tensor(&node.need(key)?);
    let fitted = || Ok::<_, VerifyError>(ClassGaussians::fit(&tensor("features")?, &node.need("labels")?.integers()?)?);
    case.check(node, "log_prob", || Ok(fitted()?.log_density(&tensor("query")?)?));
    case.check(node, "logsumexp", || Ok(fitted()?.score(&tensor("query")?)?));
    case.rest(node);
}

pub(super) fn check_svgp(case: &mut Case, node: &Node, _root: &Node, setting: Setting) {
    case.uses(node, &["Z", "x", "lengthscale", "outputscale", "jitter", "m", "L"]);
    let x = || setting.tensor(&node.need("x")?);
    let process = || read_process(node, setting);
    let predict = || Ok::<_, VerifyError>(process()?.predict(&x()?)?);
    case.check(node, "mean", || Ok(predict()?.mean));
    case.check(node, "cov", || Ok(predict()?.covariance));
    case.check(node, "kl", || Ok(process()?.kl()?));
    case.rest(node);
}

fn read_process(node: &Node, setting: Setting) -> Result<WhitenedSvgp> {
    let (inducing_points, count, _) = setting.matrix(&node.need("Z")?)?;
    let number = |key: &str| node.need(key)?.finite();
    let shaped = |key: &str, shape: &[i64]| -> Result<Tensor> { setting.shaped(&node.need(key)?, shape) };
    Ok(WhitenedSvgp {
        kernel: Rbf { lengthscale: number("lengthscale")?, outputscale: number("outputscale")? },
        jitter: number("jitter")?,
        inducing_points,
        mean: shaped("m", &[count])?,
        lower: shaped("L", &[count, count])?,
    })
}
