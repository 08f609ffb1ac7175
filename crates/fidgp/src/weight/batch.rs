//! All weights of a network drawn together: what is small is stacked, so that the number of operations no longer grows
//! with the number of layers. On a GPU, where each small operation costs its launch, this is most of the time of a step.

use tch::Tensor;

use super::{ConditionalNoise, Drawn, InducingWeight, Kl, WeightNoise};
use crate::conditional::{self, MatheronNoise};
use crate::distribution::Bounded;
use crate::linalg::solve_lower;
use crate::posterior::{self, InducingDraw};
use crate::prior::{GramFactors, PriorFactors};
use crate::{Error, Result};

/// Draws every weight with its noise: the same as [`InducingWeight::draw`] one by one, up to rounding.
///
/// # Errors
/// When Matheron noise meets factors without Gram factors.
pub fn draw_all(
    weights: &[&InducingWeight],
    priors: &[&PriorFactors],
    noise: &[WeightNoise],
    training: bool,
) -> Result<Vec<(Drawn, Kl)>> {
    let inducing = draw_inducing(weights, priors, noise, training)?;
    let lambdas = scales(weights);
    let corners = whitened_corners(priors, noise)?;
    let mut draws = Vec::with_capacity(weights.len());
    for (index, (weight, draw)) in weights.iter().zip(inducing).enumerate() {
        let (prior, lambda, scale) = (priors[index], &lambdas[index], weight.prior_scale());
        let drawn = match &noise[index].conditional {
            ConditionalNoise::Matheron(noise) => {
                // V̄ = A_r e1 A_cᵀ + what does not depend on e1
                let data = prior.a_row.matmul(&noise.weight).matmul(&prior.a_col.mt());
                let corner = corners[index]
                    .as_ref()
                    .ok_or_else(|| Error::setting("corner", "none", "every Matheron draw has one"))?;
                let merged = &draw.whitened - lambda * (data + corner);
                Drawn::Weight((conditional::mean(prior, &merged) + lambda * &noise.weight) * scale)
            }
            ConditionalNoise::Weights(noise) => {
                Drawn::Weight(conditional::reparam(prior, &draw.whitened, lambda, noise) * scale)
            }
            ConditionalNoise::Outputs => {
                Drawn::MeanAndScale { mean: conditional::mean(prior, &draw.whitened) * scale, scale: lambda * scale }
            }
        };
        draws.push((drawn, Kl { inducing: draw.kl, conditional: weight.kl_conditional(prior, lambda) }));
    }
    Ok(draws)
}

/// Indices of equal items, in the order of their first members.
fn groups<T>(items: &[T], alike: impl Fn(&T, &T) -> bool) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        match groups.iter_mut().find(|group| alike(&items[group[0]], item)) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}

/// V of every layer, posteriors that are alike as one batch.
fn draw_inducing(
    weights: &[&InducingWeight],
    priors: &[&PriorFactors],
    noise: &[WeightNoise],
    training: bool,
) -> Result<Vec<InducingDraw>> {
    let mut draws: Vec<Option<InducingDraw>> = weights.iter().map(|_| None).collect();
    for group in groups(weights, |a, b| a.posterior.is_like(&b.posterior)) {
        if let [index] = group[..] {
            let posterior = &weights[index].posterior;
            if let (true, Some(flow)) = (training, posterior.flow()) {
                crate::flow::Flow::advance_spectral(flow);
            }
            draws[index] = Some(posterior.draw(priors[index], &noise[index].inducing));
            continue;
        }
        let posteriors: Vec<_> = group.iter().map(|&index| &weights[index].posterior).collect();
        let noise: Vec<_> = group.iter().map(|&index| &noise[index].inducing).collect();
        for (index, draw) in group.iter().zip(posterior::draw_alike(&posteriors, &noise, training)?) {
            draws[*index] = Some(draw);
        }
    }
    Ok(draws.into_iter().flatten().collect())
}

/// λ of every layer.
fn scales(weights: &[&InducingWeight]) -> Vec<Tensor> {
    let mut scales: Vec<Option<Tensor>> = weights.iter().map(|_| None).collect();
    for group in groups(weights, |a, b| a.conditional_scale.is_like(&b.conditional_scale)) {
        let parts: Vec<_> = group.iter().map(|&index| &weights[index].conditional_scale).collect();
        for (index, scale) in group.iter().zip(Bounded::stack(&parts).value().unbind(0)) {
            scales[*index] = Some(scale);
        }
    }
    scales.into_iter().flatten().collect()
}

/// What of the whitened ū does not depend on e1, for every Matheron layer:
/// `L_r⁻¹ (chol(Z_r Z_rᵀ) e2 D_c + D_r e3 chol(Z_c Z_cᵀ)ᵀ + D_r e4 D_c) L_c⁻ᵀ`. `[R, C]`
fn whitened_corners(priors: &[&PriorFactors], noise: &[WeightNoise]) -> Result<Vec<Option<Tensor>>> {
    let mut corners: Vec<Option<Tensor>> = priors.iter().map(|_| None).collect();
    let matheron: Vec<(usize, &PriorFactors, &MatheronNoise)> = priors
        .iter()
        .zip(noise)
        .enumerate()
        .filter_map(|(index, (prior, noise))| match &noise.conditional {
            ConditionalNoise::Matheron(noise) => Some((index, *prior, noise)),
            _ => None,
        })
        .collect();
    for group in groups(&matheron, |a, b| a.2.row.size() == b.2.row.size()) {
        let members: Vec<_> = group.iter().map(|&place| matheron[place]).collect();
        for ((index, _, _), corner) in members.iter().zip(whitened_corner(&members)?.unbind(0)) {
            corners[*index] = Some(corner);
        }
    }
    Ok(corners)
}

fn whitened_corner(members: &[(usize, &PriorFactors, &MatheronNoise)]) -> Result<Tensor> {
    let stack = |pick: fn(&PriorFactors) -> &Tensor| {
        Tensor::stack(&members.iter().map(|member| pick(member.1)).collect::<Vec<_>>(), 0)
    };
    let noise = |pick: fn(&MatheronNoise) -> &Tensor| {
        Tensor::stack(&members.iter().map(|member| pick(member.2)).collect::<Vec<_>>(), 0)
    };
    let missing = || Error::setting("grams", "omitted", "Matheron draws need `Grams::Factored`");
    let grams: Vec<&GramFactors> =
        members.iter().map(|member| member.1.grams.as_ref().ok_or_else(missing)).collect::<Result<_>>()?;
    let gram =
        |pick: fn(&GramFactors) -> &Tensor| Tensor::stack(&grams.iter().map(|gram| pick(gram)).collect::<Vec<_>>(), 0);
    let (d_row, d_col) = (stack(|prior| &prior.d_row).unsqueeze(-1), stack(|prior| &prior.d_col).unsqueeze(-2));
    let rows = gram(|gram| &gram.z_row_chol).matmul(&noise(|noise| &noise.row)) * &d_col;
    let cols =
        noise(|noise| &noise.col).matmul(&gram(|gram| &gram.z_col_chol).mt()) + noise(|noise| &noise.corner) * &d_col;
    let corner = solve_lower(&stack(|prior| &prior.l_row), &(rows + d_row * cols));
    Ok(solve_lower(&stack(|prior| &prior.l_col), &corner.mt()).mt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use crate::conditional::Conditional;
    use crate::flow::{CouplingConfig, FlowConfig, LipschitzConfig};
    use crate::linalg::Check;
    use crate::posterior::PosteriorConfig;
    use crate::weight::{InducingConfig, factors};
    use tch::nn::VarStore;
    use tch::{Device, Kind};

    /// Moves every trainable number off its start: a flow at the identity has no log-determinant to get wrong.
    fn disturb(store: &VarStore) {
        tch::no_grad(|| {
            for (name, mut variable) in store.variables().into_iter().filter(|(_, variable)| variable.requires_grad()) {
                let noise = Key::new(6).fold(&name).normal(&variable.size(), Kind::Double, Device::Cpu);
                let moved = &variable + noise * 0.1;
                variable.copy_(&moved);
            }
        });
    }

    fn compare(config: &InducingConfig) {
        let mut store = VarStore::new(Device::Cpu);
        let shapes = [(6, 9), (5, 9), (7, 3), (6, 8)];
        let weights: Vec<_> = shapes
            .iter()
            .enumerate()
            .map(|(index, &(rows, cols))| {
                InducingWeight::init(&(store.root() / format!("l{index}")), rows, cols, config, Key::new(4)).unwrap()
            })
            .collect();
        store.set_kind(Kind::Double);
        disturb(&store);
        let weights: Vec<_> = weights.iter().collect();
        let priors = factors(&weights, Check::Now).unwrap();
        let priors: Vec<_> = priors.iter().collect();
        let noise: Vec<_> = weights.iter().map(|weight| weight.noise(Key::new(9), false)).collect();
        let together = draw_all(&weights, &priors, &noise, false).unwrap();
        for (((weight, prior), noise), (drawn, kl)) in weights.iter().zip(&priors).zip(&noise).zip(&together) {
            let (alone, alone_kl) = weight.draw(prior, noise).unwrap();
            let (Drawn::Weight(a), Drawn::Weight(b)) = (&alone, drawn) else { panic!("weights were asked for") };
            assert!((a - b).abs().max().double_value(&[]) < 1e-10, "{}", weight.name);
            for (a, b) in [(&alone_kl.inducing, &kl.inducing), (&alone_kl.conditional, &kl.conditional)] {
                assert!((a - b).abs().double_value(&[]) < 1e-8 * a.abs().double_value(&[]).max(1.0), "{}", weight.name);
            }
        }
    }

    #[test]
    fn together_is_the_same_as_one_by_one() {
        for conditional in [Conditional::Matheron, Conditional::Reparam] {
            for posterior in [
                PosteriorConfig::Diagonal,
                PosteriorConfig::MatrixNormal,
                PosteriorConfig::Flow { flow: FlowConfig::compat() },
                PosteriorConfig::Flow { flow: FlowConfig::Lipschitz(LipschitzConfig::default()) },
                PosteriorConfig::Flow { flow: FlowConfig::Coupling(CouplingConfig::default()) },
                PosteriorConfig::Flow { flow: FlowConfig::default() },
            ] {
                compare(&InducingConfig {
                    inducing_rows: 4,
                    inducing_cols: 3,
                    conditional,
                    posterior,
                    ..InducingConfig::default()
                });
            }
        }
    }
}
