//! Projections on the rows of an inducing matrix, and the score built on them.

use fidgp::ood::{CompatResidual, ResidualHead, Ridge, Subspace, Tap, compat_residual, ridge_inverse};
use fidgp::spectral::exact_norm;
use tch::Tensor;

use super::case::Case;
use super::error::{Result, VerifyError};
use super::node::Node;
use super::setting::Setting;

pub(super) fn check(case: &mut Case, node: &Node, _root: &Node, setting: Setting) {
    case.uses(node, &["U", "z", "lambda_reg", "jitter"]);
    match Projections::read(node, setting) {
        Ok(projections) => projections.check(case, node, setting),
        Err(error) => case.give_up(&error, &[node]),
    }
    case.rest(node);
}

struct Projections {
    inducing: Tensor,
    ridge: Ridge,
    coded: Subspace,
    orthogonal: Subspace,
}

impl Projections {
    fn read(node: &Node, setting: Setting) -> Result<Self> {
        let (inducing, ..) = setting.matrix(&node.need("U")?)?;
        let ridge = ridge(node)?;
        let (coded, orthogonal) = (Subspace::softened(&inducing, ridge)?, Subspace::orthogonal(&inducing)?);
        Ok(Self { inducing, ridge, coded, orthogonal })
    }

    /// Points of the space that P acts on.
    fn points(&self, node: &Node, setting: Setting) -> Result<Tensor> {
        let (points, columns) = (setting.tensor(node)?, self.inducing.size()[1]);
        if points.size().last() == Some(&columns) {
            return Ok(points);
        }
        Err(VerifyError::malformed(&node.path, format!("has shape {:?}, expected [.., {columns}]", points.size())))
    }

    fn check(&self, case: &mut Case, node: &Node, setting: Setting) {
        let z = || self.points(&node.need("z")?, setting);
        let inverse = || ridge_inverse(&self.inducing, self.ridge.absolute);
        let unexplained = |p: Tensor| Tensor::eye(p.size()[0], setting.options()) - p;
        case.check(node, "P_coded", || Ok(self.coded.projector()));
        case.check(node, "residual_norm_coded", || Ok(self.coded.score(&z()?)?));
        case.check(node, "P_pinv", || Ok(self.orthogonal.projector()));
        case.check(node, "residual_norm_pinv", || Ok(self.orthogonal.score(&z()?)?));
        case.check(node, "P_star_argmin", || Ok(inverse()?));
        case.check(node, "P_star_U", || Ok(inverse()?.matmul(&self.inducing)));
        case.check(node, "singular_values", || Ok(self.inducing.f_svd(true, true)?.1));
        case.check(node, "norm_I_minus_P_coded", || Ok(exact_norm(&unexplained(self.coded.projector()))));
    }
}

pub(super) fn check_score(case: &mut Case, node: &Node, _root: &Node, setting: Setting) {
    case.uses(node, &["feature", "grad", "mlp", "U", "lambda_reg", "jitter"]);
    if let Some(mlp) = node.get("mlp") {
        case.uses(&mlp, &["W1", "b1", "W2", "b2"]);
        case.rest(&mlp);
    }
    match score(node, setting) {
        Ok(CompatResidual { product, mapped, residual, score }) => {
            case.check(node, "z", || Ok(product));
            case.check(node, "f", || Ok(mapped));
            case.check(node, "residual", || Ok(residual));
            case.check(node, "score", || Ok(score));
        }
        Err(error) => case.give_up(&error, &[node]),
    }
    case.rest(node);
}

fn score(node: &Node, setting: Setting) -> Result<CompatResidual> {
    let tensor = |key: &str| setting.tensor(&node.need(key)?);
    let mlp = node.need("mlp")?;
    let layer = |weight: &str, bias: &str| {
        let (weight, out, _) = setting.matrix(&mlp.need(weight)?)?;
        Ok::<_, VerifyError>((weight, setting.shaped(&mlp.need(bias)?, &[out])?))
    };
    let tap = Tap { feature: tensor("feature")?, gradient: tensor("grad")? };
    let head = ResidualHead { first: layer("W1", "b1")?, second: layer("W2", "b2")? };
    let subspace = Subspace::softened(&setting.matrix(&node.need("U")?)?.0, ridge(node)?)?;
    Ok(compat_residual(&tap, &head, &subspace)?)
}

/// The file's ridge, or the released code's where it gives none.
fn ridge(node: &Node) -> Result<Ridge> {
    let number = |key: &str, usual: f64| node.get(key).map_or(Ok(usual), |number| number.finite());
    Ok(Ridge {
        absolute: number("lambda_reg", Ridge::COMPAT.absolute)?,
        relative: number("jitter", Ridge::COMPAT.relative)?,
    })
}
