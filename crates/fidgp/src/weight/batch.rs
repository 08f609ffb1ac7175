//! All weights of a network drawn together: what is small is stacked, so that the number of operations no longer grows
//! with the number of layers. On a GPU, where each small operation costs its launch, this is most of the time of a step.

use tch::Tensor;

use super::{ConditionalNoise, Drawn, InducingWeight, Kl, MeanWeight, Order, Stack, WeightNoise, groups};
use crate::Result;
use crate::conditional::{self, ConditionalKl, MatheronNoise};
use crate::distribution::Bounded;
use crate::linalg::{self, Batching};
use crate::posterior::{self, InducingDraw, InducingNoise};
use crate::prior::PriorFactors;

/// Draws every weight with its noise: the same as [`InducingWeight::draw`] one by one, up to rounding. What
/// [`draw_ahead`] has drawn is given.
///
/// # Errors
/// When Matheron noise meets factors without Gram factors.
pub fn draw_all(
    weights: &[&InducingWeight],
    stacks: &[Stack],
    noise: &[WeightNoise],
    ahead: Vec<Option<InducingDraw>>,
) -> Result<Vec<(Drawn, Kl)>> {
    let rest = |(index, drawn): (usize, Option<InducingDraw>)| {
        let now = || weights[index].posterior.draw(&layer(stacks, index), &noise[index].inducing);
        drawn.unwrap_or_else(now)
    };
    let inducing: Vec<_> = ahead.into_iter().enumerate().map(rest).collect();
    let lambdas = scales(weights);
    let mut drawn: Vec<Option<Drawn>> = weights.iter().map(|_| None).collect();
    for stack in stacks {
        let whitened = stack.join(|index| &inducing[index].whitened); // V  [L, R, C]
        let lambda = stack.join(|index| &lambdas[index]); // λ  [L]
        let noise = stack.join_noise(|index| &noise[index].conditional);
        let drawn_stack = draw_stack(weights[stack.members[0]], stack, &whitened, &lambda, &noise)?;
        for (&index, weight) in stack.members.iter().zip(drawn_stack.layers(stack.batching())) {
            drawn[index] = Some(weight);
        }
    }
    let kls = conditional_kls(weights, stacks, &lambdas);
    let draws = drawn.into_iter().flatten().zip(inducing).zip(kls);
    Ok(draws.map(|((drawn, draw), conditional)| (drawn, Kl { inducing: draw.kl, conditional })).collect())
}

/// Several draws of every weight for prediction: the same as [`draw_all`] one by one, up to rounding. The noise of V is given
/// for each draw and weight; that of W given U is asked for draw by draw.
///
/// # Errors
/// When Matheron noise meets factors without Gram factors.
pub(crate) fn draw_many(
    weights: &[&InducingWeight],
    stacks: &[Stack],
    inducing: &[Vec<InducingNoise>],
    conditional: &mut dyn FnMut(usize) -> Vec<ConditionalNoise>,
    batching: Batching,
) -> Result<Vec<Vec<Drawn>>> {
    let values = draw_many_inducing(weights, stacks, inducing)?;
    let lambdas = scales(weights);
    let whitened = |stack: &Stack| match stack.batching() {
        Batching::Together => Tensor::stack(&stack.members.iter().map(|&index| &values[index]).collect::<Vec<_>>(), 1),
        Batching::Apart => values[stack.members[0]].shallow_clone(),
    };
    let of_stacks: Vec<_> = stacks.iter().map(|stack| (whitened(stack), stack.join(|index| &lambdas[index]))).collect();
    let of_members = |stack: &Stack, noise: &[ConditionalNoise]| stack.join_noise(|index| &noise[index]);
    let draws = 0..inducing.len();
    let mut drawn: Vec<Vec<Option<Drawn>>> = inducing.iter().map(|_| weights.iter().map(|_| None).collect()).collect();
    let mut place = |k: usize, stack: &Stack, draw: &StackDraw| {
        for (&index, weight) in stack.members.iter().zip(draw.layers(batching)) {
            drawn[k][index] = Some(weight);
        }
    };
    match batching {
        Batching::Together => {
            let noise: Vec<_> = draws.clone().map(conditional).collect();
            for (stack, (whitened, lambda)) in stacks.iter().zip(&of_stacks) {
                let of_draws: Vec<_> = noise.iter().map(|noise| of_members(stack, noise)).collect();
                let joined = join_noise(&of_draws.iter().collect::<Vec<_>>(), Batching::Together);
                let all = draw_stack(weights[stack.members[0]], stack, whitened, lambda, &joined)?;
                draws.clone().for_each(|k| place(k, stack, &all.draw(k as i64)));
            }
        }
        Batching::Apart => {
            for k in draws {
                let noise = conditional(k);
                for (stack, (whitened, lambda)) in stacks.iter().zip(&of_stacks) {
                    let (like, whitened) = (weights[stack.members[0]], whitened.get(k as i64));
                    place(k, stack, &draw_stack(like, stack, &whitened, lambda, &of_members(stack, &noise))?);
                }
            }
        }
    }
    Ok(drawn.into_iter().map(|draw| draw.into_iter().flatten().collect()).collect())
}

/// V of every layer for every draw. `[K, R, C]` for each weight
fn draw_many_inducing(
    weights: &[&InducingWeight],
    stacks: &[Stack],
    noise: &[Vec<InducingNoise>],
) -> Result<Vec<Tensor>> {
    let mut values: Vec<Option<Tensor>> = weights.iter().map(|_| None).collect();
    for group in groups(weights, |a, b| a.posterior.is_like(&b.posterior)) {
        let posteriors: Vec<_> = group.iter().map(|&index| &weights[index].posterior).collect();
        if !posteriors[0].is_like(posteriors[0]) {
            let index = group[0]; // a family that is drawn alone
            let factors = layer(stacks, index);
            let value = |noise: &Vec<InducingNoise>| posteriors[0].draw(&factors, &noise[index]).whitened;
            values[index] = Some(Tensor::stack(&noise.iter().map(value).collect::<Vec<_>>(), 0));
            continue;
        }
        let of_draws: Vec<Vec<_>> =
            noise.iter().map(|noise| group.iter().map(|&index| &noise[index]).collect()).collect();
        let drawn = posterior::values_alike(&posteriors, &of_draws)?;
        for (&index, value) in group.iter().zip(drawn) {
            values[index] = Some(value);
        }
    }
    Ok(values.into_iter().flatten().collect())
}

impl Stack {
    /// Whether its tensors have a leading axis over its members.
    fn batching(&self) -> Batching {
        if self.factors.is_stacked() { Batching::Together } else { Batching::Apart }
    }

    /// A tensor of each member, as the factors are.
    fn join<'a>(&self, of: impl Fn(usize) -> &'a Tensor) -> Tensor {
        linalg::stack(&self.members.iter().map(|&index| of(index)).collect::<Vec<_>>(), self.batching())
    }

    /// The noise of each member, as the factors are.
    fn join_noise<'a>(&self, of: impl Fn(usize) -> &'a ConditionalNoise) -> ConditionalNoise {
        join_noise(&self.members.iter().map(|&index| of(index)).collect::<Vec<_>>(), self.batching())
    }
}

/// Draws of a stack: together, all tensors have a leading axis over its layers, before which there may be one over draws.
enum StackDraw {
    Weights(Tensor),
    Means { means: Tensor, scales: Tensor },
    Factors { left: Tensor, right: Tensor, scales: Tensor },
}

impl StackDraw {
    /// One of several draws.
    fn draw(&self, k: i64) -> Self {
        match self {
            Self::Weights(weights) => Self::Weights(weights.select(0, k)),
            Self::Means { means, scales } => Self::Means { means: means.select(0, k), scales: scales.shallow_clone() },
            Self::Factors { left, right, scales } => {
                Self::Factors { left: left.select(0, k), right: right.shallow_clone(), scales: scales.shallow_clone() }
            }
        }
    }

    /// The layers of a single draw.
    fn layers(&self, batching: Batching) -> Vec<Drawn> {
        let each = |tensor: &Tensor| match batching {
            Batching::Together => tensor.unbind(0),
            Batching::Apart => vec![tensor.shallow_clone()],
        };
        let with_scales = |means: Vec<MeanWeight>, scales: &Tensor| {
            let pairs = means.into_iter().zip(each(scales));
            pairs.map(|(mean, scale)| Drawn::MeanAndScale { mean, scale }).collect()
        };
        match self {
            Self::Weights(weights) => each(weights).into_iter().map(Drawn::Weight).collect(),
            Self::Means { means, scales } => {
                with_scales(each(means).into_iter().map(MeanWeight::Matrix).collect(), scales)
            }
            Self::Factors { left, right, scales } => {
                let pairs = each(left).into_iter().zip(each(right));
                with_scales(pairs.map(|(left, right)| MeanWeight::Factors { left, right }).collect(), scales)
            }
        }
    }
}

/// The weights of a stack, or their means where the noise is drawn on the outputs.
///
/// # Shapes
/// whitened `[.., L, R, C]`, lambda `[L]`, noise with the same leading axes as whitened; apart without L
fn draw_stack(
    like: &InducingWeight,
    stack: &Stack,
    whitened: &Tensor,
    lambda: &Tensor,
    noise: &ConditionalNoise,
) -> Result<StackDraw> {
    // σ_p W is linear in V and λ: scaling those instead of W leaves out a pass over the weights
    let (factors, whitened, scales) = (&stack.factors, &(whitened * like.prior_scale()), lambda * like.prior_scale());
    Ok(match noise {
        ConditionalNoise::Matheron(noise) => {
            StackDraw::Weights(conditional::matheron(factors, whitened, &scales, noise)?)
        }
        ConditionalNoise::Weights(noise) => StackDraw::Weights(conditional::reparam(factors, whitened, &scales, noise)),
        ConditionalNoise::Outputs if like.order() == Order::Factored => StackDraw::Factors {
            left: conditional::left_factor(factors, whitened),
            right: factors.a_col.shallow_clone(),
            scales,
        },
        ConditionalNoise::Outputs => StackDraw::Means { means: conditional::mean(factors, whitened), scales },
    })
}

/// Noise of several weights, or of several draws; all are of one kind.
fn join_noise(noise: &[&ConditionalNoise], batching: Batching) -> ConditionalNoise {
    let matheron = |part: fn(&MatheronNoise) -> &Tensor| {
        let parts = noise.iter().filter_map(|noise| match noise {
            ConditionalNoise::Matheron(noise) => Some(part(noise)),
            _ => None,
        });
        linalg::stack(&parts.collect::<Vec<_>>(), batching)
    };
    match noise[0] {
        ConditionalNoise::Matheron(_) => ConditionalNoise::Matheron(MatheronNoise {
            weight: matheron(|noise| &noise.weight),
            row: matheron(|noise| &noise.row),
            col: matheron(|noise| &noise.col),
            corner: matheron(|noise| &noise.corner),
        }),
        ConditionalNoise::Weights(_) => {
            let parts = noise.iter().filter_map(|noise| match noise {
                ConditionalNoise::Weights(noise) => Some(noise),
                _ => None,
            });
            ConditionalNoise::Weights(linalg::stack(&parts.collect::<Vec<_>>(), batching))
        }
        ConditionalNoise::Outputs => ConditionalNoise::Outputs,
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

/// V of every layer whose posterior is whitened: it needs no factors, so it can be drawn while they are made. Posteriors
/// that are alike are one batch.
///
/// # Errors
/// When flows that should be alike are not.
pub fn draw_ahead(
    weights: &[&InducingWeight],
    noise: &[WeightNoise],
    training: bool,
) -> Result<Vec<Option<InducingDraw>>> {
    let mut draws: Vec<Option<InducingDraw>> = weights.iter().map(|_| None).collect();
    for group in groups(weights, |a, b| a.posterior.is_like(&b.posterior)) {
        if let [index] = group[..] {
            let posterior = &weights[index].posterior;
            if let (true, Some(flow)) = (training, posterior.flow()) {
                crate::flow::Flow::advance_spectral(flow);
            }
            draws[index] = posterior.draw_whitened(&noise[index].inducing);
            continue;
        }
        let posteriors: Vec<_> = group.iter().map(|&index| &weights[index].posterior).collect();
        let noise: Vec<_> = group.iter().map(|&index| &noise[index].inducing).collect();
        for (index, draw) in group.iter().zip(posterior::draw_alike(&posteriors, &noise, training)?) {
            draws[*index] = Some(draw);
        }
    }
    Ok(draws)
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
    use crate::conditional::{Conditional, NoiseOn};
    use crate::flow::{CouplingConfig, FlowConfig, LipschitzConfig};
    use crate::linalg::Check;
    use crate::posterior::PosteriorConfig;
    use crate::weight::{InducingConfig, factors_batched};
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
        let shapes = [(6, 9), (5, 9), (6, 9), (7, 3), (3, 8), (9, 6), (6, 8)];
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
        for batching in [Batching::Together, Batching::Apart] {
            compare_batched(&weights, batching);
        }
    }

    fn compare_batched(weights: &[&InducingWeight], batching: Batching) {
        let stacks = factors_batched(weights, Check::Now, batching).unwrap();
        assert_eq!(stacks.len(), if batching == Batching::Together { 6 } else { 7 });
        let noise: Vec<_> = weights.iter().map(|weight| weight.noise(Key::new(9), false)).collect();
        compare_many(weights, &stacks, batching);
        let ahead = draw_ahead(weights, &noise, false).unwrap();
        let together = draw_all(weights, &stacks, &noise, ahead).unwrap();
        for ((weight, noise), (drawn, kl)) in weights.iter().zip(&noise).zip(&together) {
            let (alone, alone_kl) = weight.draw(&weight.factors(Check::Now).unwrap(), noise).unwrap();
            assert!((alone.matrix() - drawn.matrix()).abs().max().double_value(&[]) < 1e-10, "{}", weight.name);
            for (a, b) in [(&alone_kl.inducing, &kl.inducing), (&alone_kl.conditional, &kl.conditional)] {
                assert!((a - b).abs().double_value(&[]) < 1e-8 * a.abs().double_value(&[]).max(1.0), "{}", weight.name);
            }
        }
    }

    /// Several draws at once against the same draws one after the other.
    fn compare_many(weights: &[&InducingWeight], stacks: &[Stack], batching: Batching) {
        let noise: Vec<Vec<_>> =
            (0..3).map(|k| weights.iter().map(|weight| weight.noise(Key::new(11).at(k), false)).collect()).collect();
        let inducing: Vec<Vec<_>> = (0..3)
            .map(|k| weights.iter().map(|weight| weight.inducing_noise(Key::new(11).at(k), false)).collect())
            .collect();
        let mut conditional = |k: usize| noise[k].iter().map(|noise| noise.conditional.share()).collect();
        let many = draw_many(weights, stacks, &inducing, &mut conditional, batching).unwrap();
        for (noise, many) in noise.iter().zip(&many) {
            let ahead = draw_ahead(weights, noise, false).unwrap();
            let alone = draw_all(weights, stacks, noise, ahead).unwrap();
            for ((weight, (alone, _)), many) in weights.iter().zip(&alone).zip(many) {
                let gap = (alone.matrix() - many.matrix()).abs().max().double_value(&[]);
                assert!(gap < 1e-10, "{}: {gap}", weight.name);
            }
        }
    }

    #[test]
    fn together_is_the_same_as_one_by_one() {
        let kinds = [
            (Conditional::Matheron, NoiseOn::Weights),
            (Conditional::Reparam, NoiseOn::Weights),
            (Conditional::Reparam, NoiseOn::Outputs),
        ];
        for (conditional, noise) in kinds {
            for posterior in [
                PosteriorConfig::Diagonal,
                PosteriorConfig::MatrixNormal,
                PosteriorConfig::Flow { flow: FlowConfig::compat() },
                PosteriorConfig::Flow { flow: FlowConfig::Lipschitz(LipschitzConfig::default()) },
                PosteriorConfig::Flow { flow: FlowConfig::Coupling(CouplingConfig::default()) },
                PosteriorConfig::Flow { flow: FlowConfig::default() },
            ] {
                compare(&InducingConfig {
                    inducing_rows: 4.into(),
                    inducing_cols: 3.into(),
                    conditional,
                    noise,
                    posterior,
                    ..InducingConfig::default()
                });
            }
        }
    }
}
