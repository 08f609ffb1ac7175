//! All weights of a network drawn together: what is small is stacked, so that the number of operations no longer grows
//! with the number of layers. On a GPU, where each small operation costs its launch, this is most of the time of a step.

use tch::Tensor;

use super::{ConditionalNoise, Drawn, InducingWeight, Kl, MeanWeight, Stack, WeightNoise, groups};
use crate::Result;
use crate::conditional::{self, ConditionalKl, MatheronNoise};
use crate::distribution::Bounded;
use crate::posterior::{self, InducingDraw};
use crate::prior::PriorFactors;

/// Draws every weight with its noise: the same as [`InducingWeight::draw`] one by one, up to rounding.
///
/// # Errors
/// When Matheron noise meets factors without Gram factors.
pub fn draw_all(
    weights: &[&InducingWeight],
    stacks: &[Stack],
    noise: &[WeightNoise],
    training: bool,
) -> Result<Vec<(Drawn, Kl)>> {
    let inducing = draw_inducing(weights, stacks, noise, training)?;
    let lambdas = scales(weights);
    let mut drawn: Vec<Option<Drawn>> = weights.iter().map(|_| None).collect();
    for stack in stacks {
        let part =
            |of: &dyn Fn(usize) -> Tensor| join(&stack.members.iter().map(|&index| of(index)).collect::<Vec<_>>());
        let whitened = part(&|index| inducing[index].whitened.shallow_clone()); // V  [L, R, C]
        let lambda = part(&|index| lambdas[index].shallow_clone()); // λ  [L]
        for (&index, weight) in stack.members.iter().zip(draw_stack(weights, stack, &whitened, &lambda, noise)?) {
            drawn[index] = Some(weight);
        }
    }
    let kls = conditional_kls(weights, stacks, &lambdas);
    let draws = drawn.into_iter().flatten().zip(inducing).zip(kls);
    Ok(draws.map(|((drawn, draw), conditional)| (drawn, Kl { inducing: draw.kl, conditional })).collect())
}

/// The weights of a stack, or their means where the noise is drawn on the outputs.
///
/// # Shapes
/// whitened `[L, R, C]`, lambda `[L]`
fn draw_stack(
    weights: &[&InducingWeight],
    stack: &Stack,
    whitened: &Tensor,
    lambda: &Tensor,
    noise: &[WeightNoise],
) -> Result<Vec<Drawn>> {
    let (factors, like) = (&stack.factors, weights[stack.members[0]]);
    let scale = like.prior_scale();
    let noise: Vec<_> = stack.members.iter().map(|&index| &noise[index].conditional).collect();
    let drawn = match noise[0] {
        ConditionalNoise::Matheron(_) => {
            conditional::matheron(factors, whitened, lambda, &join_matheron(&noise))?
        }
        ConditionalNoise::Weights(_) => {
            let parts = noise.iter().filter_map(|noise| match noise {
                ConditionalNoise::Weights(noise) => Some(noise.shallow_clone()),
                _ => None,
            });
            conditional::reparam(factors, whitened, lambda, &join(&parts.collect::<Vec<_>>()))
        }
        ConditionalNoise::Outputs => return Ok(means(like, factors, whitened, &(lambda * scale))),
    };
    Ok((drawn * scale).unbind(0).into_iter().map(Drawn::Weight).collect())
}

/// Mean and scale of every weight of a stack, for noise on the outputs.
fn means(like: &InducingWeight, factors: &PriorFactors, whitened: &Tensor, scale: &Tensor) -> Vec<Drawn> {
    let means: Vec<_> = if like.sizes().is_cheaper_factored() {
        let left = conditional::left_factor(factors, whitened) * like.prior_scale();
        let pairs = left.unbind(0).into_iter().zip(factors.a_col.unbind(0));
        pairs.map(|(left, right)| MeanWeight::Factors { left, right }).collect()
    } else {
        let mean = conditional::mean(factors, whitened) * like.prior_scale();
        mean.unbind(0).into_iter().map(MeanWeight::Matrix).collect()
    };
    means.into_iter().zip(scale.unbind(0)).map(|(mean, scale)| Drawn::MeanAndScale { mean, scale }).collect()
}

fn join_matheron(noise: &[&ConditionalNoise]) -> MatheronNoise {
    let of = |part: fn(&MatheronNoise) -> &Tensor| {
        let parts = noise.iter().filter_map(|noise| match noise {
            ConditionalNoise::Matheron(noise) => Some(part(noise).shallow_clone()),
            _ => None,
        });
        join(&parts.collect::<Vec<_>>())
    };
    MatheronNoise {
        weight: of(|noise| &noise.weight),
        row: of(|noise| &noise.row),
        col: of(|noise| &noise.col),
        corner: of(|noise| &noise.corner),
    }
}

/// Tensors of one shape along a new leading axis; a single one is not copied.
fn join(parts: &[Tensor]) -> Tensor {
    match parts {
        [one] => one.unsqueeze(0),
        many => Tensor::stack(many, 0),
    }
}

/// The conditional KL of every layer: the function of λ for all at once, its factor for each.
fn conditional_kls(weights: &[&InducingWeight], stacks: &[Stack], lambdas: &[Tensor]) -> Vec<Tensor> {
    let plain = |weight: &&InducingWeight| {
        weight.config.conditional_kl == ConditionalKl::Paper && weight.config.lamda_penalty == 0.0
    };
    if weights.iter().all(plain) && !weights.is_empty() {
        let per_weight = conditional::kl_scaled(1, &Tensor::stack(lambdas, 0)).unbind(0);
        let count = |weight: &InducingWeight| (weight.sizes().d_out * weight.sizes().d_in) as f64;
        return weights.iter().zip(per_weight).map(|(weight, kl)| kl * count(weight)).collect();
    }
    let kl = |(index, weight): (usize, &&InducingWeight)| weight.kl_conditional(&layer(stacks, index), &lambdas[index]);
    weights.iter().enumerate().map(kl).collect()
}

/// The factors of one weight.
fn layer(stacks: &[Stack], index: usize) -> PriorFactors {
    let find = |stack: &Stack| {
        let place = stack.members.iter().position(|&member| member == index)?;
        Some(stack.factors.layer(place as i64))
    };
    stacks.iter().find_map(find).expect("every weight is in a stack")
}

/// V of every layer, posteriors that are alike as one batch.
fn draw_inducing(
    weights: &[&InducingWeight],
    stacks: &[Stack],
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
            draws[index] = Some(posterior.draw(&layer(stacks, index), &noise[index].inducing));
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
        let shapes = [(6, 9), (5, 9), (6, 9), (7, 3), (9, 6), (6, 8)];
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
        let stacks = factors(&weights, Check::Now).unwrap();
        let noise: Vec<_> = weights.iter().map(|weight| weight.noise(Key::new(9), false)).collect();
        let together = draw_all(&weights, &stacks, &noise, false).unwrap();
        for ((weight, noise), (drawn, kl)) in weights.iter().zip(&noise).zip(&together) {
            let (alone, alone_kl) = weight.draw(&weight.factors(Check::Now).unwrap(), noise).unwrap();
            assert!((alone.matrix() - drawn.matrix()).abs().max().double_value(&[]) < 1e-10, "{}", weight.name);
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
