//! V of all weights of a network. Posteriors that are alike are one batch, whatever the sizes of their weights.

use tch::Tensor;

use super::{InducingWeight, Stack, WeightNoise, groups};
use crate::Result;
use crate::flow::Flow;
use crate::posterior::{self, InducingDraw, InducingNoise};

/// What a draw can do without factors: V of the weights whose posterior is whitened. On a GPU it is drawn while they are made.
#[derive(Debug)]
pub struct WhitenedDraws(Vec<Option<InducingDraw>>);

impl WhitenedDraws {
    /// Draws V where no factors are needed; in training the power iterations of the flows advance.
    ///
    /// # Errors
    /// When flows that should be alike are not.
    pub fn draw(weights: &[&InducingWeight], noise: &[WeightNoise], training: bool) -> Result<Self> {
        let mut draws = Self::none(weights.len());
        for group in groups(weights, |a, b| a.posterior.is_like(&b.posterior)) {
            if let [index] = group[..] {
                let posterior = &weights[index].posterior;
                if let (true, Some(flow)) = (training, posterior.flow()) {
                    Flow::advance_spectral(flow);
                }
                draws.0[index] = posterior.draw_whitened(&noise[index].inducing);
                continue;
            }
            let posteriors: Vec<_> = group.iter().map(|&index| &weights[index].posterior).collect();
            let noise: Vec<_> = group.iter().map(|&index| &noise[index].inducing).collect();
            for (index, draw) in group.iter().zip(posterior::draw_alike(&posteriors, &noise, training)?) {
                draws.0[*index] = Some(draw);
            }
        }
        Ok(draws)
    }

    /// Nothing of so many weights.
    pub(super) fn none(count: usize) -> Self {
        Self((0..count).map(|_| None).collect())
    }

    /// With what needs the factors.
    pub(super) fn completed(
        self,
        weights: &[&InducingWeight],
        stacks: &[Stack],
        noise: &[WeightNoise],
    ) -> Vec<InducingDraw> {
        let now =
            |index: usize| weights[index].posterior.draw(&Stack::factors_of(stacks, index), &noise[index].inducing);
        self.0.into_iter().enumerate().map(|(index, draw)| draw.unwrap_or_else(|| now(index))).collect()
    }
}

/// V of every weight for every draw, without the KL. `[K, R, C]` for each weight
///
/// # Errors
/// When flows that should be alike are not.
pub(super) fn of_draws(
    weights: &[&InducingWeight],
    stacks: &[Stack],
    noise: &[Vec<InducingNoise>],
) -> Result<Vec<Tensor>> {
    let mut values: Vec<Option<Tensor>> = weights.iter().map(|_| None).collect();
    for group in groups(weights, |a, b| a.posterior.is_like(&b.posterior)) {
        let posteriors: Vec<_> = group.iter().map(|&index| &weights[index].posterior).collect();
        if !posteriors[0].is_like(posteriors[0]) {
            let index = group[0]; // a family that is drawn alone
            let factors = Stack::factors_of(stacks, index);
            let value = |noise: &Vec<InducingNoise>| posteriors[0].draw(&factors, &noise[index]).whitened;
            values[index] = Some(Tensor::stack(&noise.iter().map(value).collect::<Vec<_>>(), 0));
            continue;
        }
        let of_draws: Vec<Vec<_>> =
            noise.iter().map(|noise| group.iter().map(|&index| &noise[index]).collect()).collect();
        for (&index, value) in group.iter().zip(posterior::values_alike(&posteriors, &of_draws)?) {
            values[index] = Some(value);
        }
    }
    Ok(values.into_iter().flatten().collect())
}
