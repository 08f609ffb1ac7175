//! Predictions of networks with several members, whose outputs are blocks of rows: members are averaged as draws are.

use fidgp::objective::Gaussian;
use fidgp::predict::{self, Classified, Draws, Regressed};
use tch::{Kind, Tensor};

use crate::error::Result;

/// Classifies batches with all draws or members.
///
/// # Shapes
/// batches of `[n_i, ..]`, labels `[N]` → fields of N rows
///
/// # Errors
/// As [`predict::classify`].
pub fn classify(draws: &Draws, members: i64, batches: &[Tensor], labels: Option<&Tensor>) -> Result<Classified> {
    if members == 1 {
        return Ok(predict::classify(draws, batches, labels)?);
    }
    let mut parts = Vec::new();
    let mut start = 0;
    for batch in batches {
        let rows = batch.size()[0];
        let labels = labels.map(|labels| labels.narrow(0, start, rows));
        let all = predict::classify(draws, std::slice::from_ref(batch), None)?; // [K·n, classes]
        parts.push(averaged(&all, members, labels.as_ref())?);
        start += rows;
    }
    joined(&parts)
}

fn averaged(all: &Classified, members: i64, labels: Option<&Tensor>) -> Result<Classified> {
    let each = all.probs.view([members, -1, all.probs.size()[1]]); // [K, n, classes]
    let probs = each.mean_dim(0, false, each.kind());
    let aleatoric = all.aleatoric.view([members, -1]).mean_dim(0, false, each.kind());
    let total = -(&probs * probs.clamp_min(f64::MIN_POSITIVE).log()).sum_dim_intlist(-1, false, probs.kind());
    let nll = |labels: &Tensor| -> Result<Tensor> {
        let index = labels.to_device(each.device()).view([1, -1, 1]).expand([members, -1, 1], false);
        let own = each.clamp_min(f64::MIN_POSITIVE).log().f_gather(-1, &index, false)?.squeeze_dim(-1); // [K, n]
        Ok(-own.mean_dim(0, false, own.kind()))
    };
    let mean_nll = labels.map(nll).transpose()?;
    Ok(Classified { epistemic: (&total - &aleatoric).clamp_min(0.0), probs, total, aleatoric, mean_nll })
}

/// Several parts of a set as one.
pub fn joined(parts: &[Classified]) -> Result<Classified> {
    let join = |part: fn(&Classified) -> &Tensor| Tensor::f_cat(&parts.iter().map(part).collect::<Vec<_>>(), 0);
    let mean_nll: Vec<_> = parts.iter().filter_map(|part| part.mean_nll.as_ref()).collect();
    Ok(Classified {
        probs: join(|part| &part.probs)?,
        total: join(|part| &part.total)?,
        aleatoric: join(|part| &part.aleatoric)?,
        epistemic: join(|part| &part.epistemic)?,
        mean_nll: if mean_nll.is_empty() { None } else { Some(Tensor::f_cat(&mean_nll, 0)?) },
    })
}

/// Means and noise of every draw or member. `[K, N]`
///
/// # Errors
/// As [`predict::regress`].
pub fn regress(draws: &Draws, members: i64, likelihood: &Gaussian, batches: &[Tensor]) -> Result<Regressed> {
    if members == 1 {
        return Ok(predict::regress(draws, likelihood, batches)?);
    }
    let (mut means, mut noise) = (Vec::new(), Vec::new());
    for batch in batches {
        let all = predict::regress(draws, likelihood, std::slice::from_ref(batch))?; // [1, K·n]
        means.push(all.means.reshape([members, -1]));
        noise.push(all.noise.reshape([members, -1]));
    }
    let join = |parts: &[Tensor]| Tensor::f_cat(parts, 1).map(|all| all.to_kind(Kind::Double));
    Ok(Regressed { means: join(&means)?, noise: join(&noise)? })
}
