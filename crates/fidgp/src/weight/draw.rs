//! Draws of weights: V ~ q, then W given U (equation 8 of the paper), and what both pay.
//!
//! What is drawn is a [`Stack`] of weights of equal sizes and settings; a single weight is a stack of one. Training, prediction,
//! `fidgp verify` and the OoD scores all come through [`given_inducing`], which is where stacks are made of weights and weights of
//! stacks. On a GPU, where each small operation costs its launch, stacks are most of what makes a step fast.

use tch::Tensor;

use super::{ConditionalNoise, Drawn, InducingWeight, Kl, Stack, WeightNoise, WhitenedDraws, groups, whitened};
use crate::Result;
use crate::conditional::{self, ConditionalKl};
use crate::distribution::Bounded;
use crate::linalg::Batching;
use crate::posterior::InducingNoise;

/// Draws every weight once; what was drawn ahead is given.
///
/// # Errors
/// When Matheron noise meets factors without Gram factors.
pub fn draw(
    weights: &[&InducingWeight],
    stacks: &[Stack],
    noise: &[WeightNoise],
    ahead: WhitenedDraws,
) -> Result<Vec<(Drawn, Kl)>> {
    let inducing = ahead.completed(weights, stacks, noise); // V, KL(q(U) ‖ p(U))
    let lambdas = scales(weights); // λ
    let whitened: Vec<_> = inducing.iter().map(|draw| draw.whitened.shallow_clone()).collect();
    let drawn = given_inducing(weights, stacks, &whitened, &lambdas, |index| noise[index].conditional.share())?; // W given U
    let kls = conditional_kls(weights, stacks, &lambdas);
    let draws = drawn.into_iter().zip(inducing).zip(kls);
    Ok(draws.map(|((drawn, draw), conditional)| (drawn, Kl { inducing: draw.kl, conditional })).collect())
}

/// Several draws of every weight for prediction, without their KL. The noise of V is given for each draw and weight; that of W
/// given U is asked for draw by draw. Together, the draws are one more axis in front of the stacks; apart, they are made one
/// after the other.
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
    let whitened = whitened::of_draws(weights, stacks, inducing)?; // V  [K, R, C]
    let lambdas = scales(weights); // λ
    let draws = 0..inducing.len();
    match batching {
        Batching::Together => {
            let noise: Vec<_> = draws.clone().map(conditional).collect();
            let of_draws = |index: usize| {
                ConditionalNoise::joined(&noise.iter().map(|draw| draw[index].share()).collect::<Vec<_>>(), batching)
            };
            let drawn = given_inducing(weights, stacks, &whitened, &lambdas, of_draws)?; // W given U
            Ok(draws.map(|k| drawn.iter().map(|drawn| drawn.of_draw(k as i64)).collect()).collect())
        }
        Batching::Apart => {
            let one = |k: usize| {
                let whitened: Vec<_> = whitened.iter().map(|whitened| whitened.get(k as i64)).collect();
                let noise = conditional(k);
                given_inducing(weights, stacks, &whitened, &lambdas, |index| noise[index].share()) // W given U
            };
            draws.map(one).collect()
        }
    }
}

/// W given U of every weight, from V, λ and the noise of each: stack by stack.
///
/// # Shapes
/// V `[.., R, C]`, λ scalar, noise with the leading axes of V → `[.., d_out, d_in]`
fn given_inducing(
    weights: &[&InducingWeight],
    stacks: &[Stack],
    whitened: &[Tensor],
    lambdas: &[Tensor],
    noise: impl Fn(usize) -> ConditionalNoise,
) -> Result<Vec<Drawn>> {
    let mut drawn: Vec<Option<Drawn>> = weights.iter().map(|_| None).collect();
    for stack in stacks {
        let v = stack.join(|index| &whitened[index]); // [.., L, R, C]
        let lambda = stack.join_scalars(|index| &lambdas[index]); // [L]
        let noise = stack.join_noise(&noise);
        let all = weights[stack.members[0]].given_inducing(&stack.factors, &v, &lambda, &noise)?;
        for (&index, weight) in stack.members.iter().zip(all.members(stack.batching())) {
            drawn[index] = Some(weight);
        }
    }
    Ok(drawn.into_iter().flatten().collect())
}

/// λ of every weight.
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

/// The conditional KL of every weight: the function of λ for all at once, its factor for each.
fn conditional_kls(weights: &[&InducingWeight], stacks: &[Stack], lambdas: &[Tensor]) -> Vec<Tensor> {
    let plain = |weight: &&InducingWeight| {
        weight.config.conditional_kl == ConditionalKl::Paper && weight.config.lamda_penalty == 0.0
    };
    if weights.iter().all(plain) && !weights.is_empty() {
        let per_weight = conditional::kl_scaled(1, &Tensor::stack(lambdas, 0)).unbind(0);
        let count = |weight: &InducingWeight| (weight.sizes().d_out * weight.sizes().d_in) as f64;
        return weights.iter().zip(per_weight).map(|(weight, kl)| kl * count(weight)).collect();
    }
    let kl = |(index, weight): (usize, &&InducingWeight)| {
        weight.kl_conditional(&Stack::factors_of(stacks, index), &lambdas[index])
    };
    weights.iter().enumerate().map(kl).collect()
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
        let ahead = WhitenedDraws::draw(weights, &noise, false).unwrap();
        let together = draw(weights, &stacks, &noise, ahead).unwrap();
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
            let ahead = WhitenedDraws::draw(weights, noise, false).unwrap();
            let alone = draw(weights, stacks, noise, ahead).unwrap();
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
