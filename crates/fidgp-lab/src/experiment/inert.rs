//! Whether the epistemic part of a network's uncertainty says anything.

use fidgp::linearised::Directions;

use super::task::{HeldOut, Spreads, Task};
use crate::config::RunConfig;
use crate::error::Result;
use crate::evaluate::Spread;
use crate::model::Model;
use crate::record::Uncertainty;

/// The epistemic share below which draws practically do not differ.
const PRACTICALLY_NIL: f64 = 0.005;
/// Standard errors by which scrambled inputs must be below the others to be called lower.
const STANDARD_ERRORS: f64 = 2.0;

/// The shares of a network's weights that sit at their bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct AtBounds {
    sd: f64,
    lamda: f64,
}

/// Measures how much of a network's predictive uncertainty is epistemic, and says what is wrong with it. None for a network
/// that has no such part, and for a task that cannot tell.
///
/// # Errors
/// When the inputs do not fit the model.
pub fn uncertainty(task: &dyn Task, model: &Model) -> Result<Option<Uncertainty>> {
    let network = model.network.as_ref();
    if !network.is_random() && network.members() == 1 && model.posterior.is_none() {
        return Ok(None);
    }
    let config = task.config();
    let spreads = tch::no_grad(|| task.spreads(model, config.predict.draws))?;
    Ok(spreads.map(|spreads| judged(config, model, &spreads)))
}

/// What spreads of a model say.
pub fn judged(config: &RunConfig, model: &Model, spreads: &Spreads) -> Uncertainty {
    let numbers = model.likelihood.reading().numbers().is_some();
    let linear = model.posterior.as_ref().map(|posterior| posterior.directions);
    record(config, spreads, (numbers, linear), at_bounds(model))
}

fn record(
    config: &RunConfig,
    spreads: &Spreads,
    (numbers, linear): (bool, Option<Directions>),
    bounds: Option<AtBounds>,
) -> Uncertainty {
    let finite = |number: f64| number.is_finite().then_some(number);
    let scrambled = spreads.scrambled.as_ref().and_then(|scrambled| finite(scrambled.epistemic().0));
    Uncertainty {
        part: if spreads.part == HeldOut::Validation { "validation" } else { "test" }.to_owned(),
        inputs: spreads.own.epistemic.len(),
        measure: if numbers { "variance" } else { "entropy" }.to_owned(),
        epistemic: finite(spreads.own.epistemic().0),
        share: spreads.own.share(),
        scrambled,
        sd_at_bound: bounds.map(|bounds| bounds.sd),
        lamda_at_bound: bounds.map(|bounds| bounds.lamda),
        warnings: warnings(spreads, linear.is_some(), advice(config, linear), bounds.filter(|_| linear.is_none())),
    }
}

/// What to change, by what predicts.
fn advice(config: &RunConfig, linear: Option<Directions>) -> &'static str {
    match linear {
        Some(Directions::Features) => {
            "try `fidgp fit-posterior RUN --set posterior.variance=3` (1 is usual), or all layers in posterior.layers"
        }
        Some(Directions::Gradients) => {
            "try `fidgp fit-posterior RUN --set posterior.prior_precision=evidence`, or all layers in posterior.layers"
        }
        None if config.method.about().is_inducing => {
            "fit a linearised posterior to what is trained (`fidgp fit-posterior RUN`), or train with a larger \
             inducing.max_sd_u and inducing.max_lamda"
        }
        None => "give the method more spread (dropout rate, prior deviation, members), or take another method",
    }
}

fn warnings(spreads: &Spreads, linearised: bool, advice: &str, bounds: Option<AtBounds>) -> Vec<String> {
    let mut all = Vec::new();
    let is_nil = spreads.own.share().is_none_or(|share| share < PRACTICALLY_NIL);
    // with many rows little is open at inputs like them: a law that knows of others is sound
    let rises = linearised && spreads.scrambled.as_ref().is_some_and(|scrambled| is_lower(&spreads.own, scrambled));
    if is_nil && !rises {
        let limit = 100.0 * PRACTICALLY_NIL;
        let why = if linearised { "its variance is small everywhere" } else { "the draws do not differ" };
        all.push(format!(
            "the epistemic uncertainty is practically nil, less than {limit} % of the total: {why}, so it cannot show what the \
             network does not know; {advice}"
        ));
    }
    if let Some(scrambled) = spreads.scrambled.as_ref().filter(|scrambled| is_lower(scrambled, &spreads.own)) {
        let ratio = scrambled.epistemic().0 / spreads.own.epistemic().0;
        all.push(format!(
            "the epistemic uncertainty is lower on scrambled inputs than on {} ones ({ratio:.2} times): do not use it to find \
             inputs unlike the training data; {advice}",
            if spreads.part == HeldOut::Validation { "validation" } else { "test" }
        ));
    }
    let half = 0.5;
    let bounds = bounds.unwrap_or_default();
    let at = |share: f64, what: &str, key: &str| {
        let share = 100.0 * share;
        format!(
            "{what} sit at their upper bound for {share:.0} % of the weights: {key} decides the uncertainty, not the data; raise \
             {key} if the validation metrics allow it"
        )
    };
    if bounds.sd > half {
        all.push(at(bounds.sd, "the deviations of q(U)", "inducing.max_sd_u"));
    }
    if bounds.lamda > half {
        all.push(at(bounds.lamda, "the conditional scales λ", "inducing.max_lamda"));
    }
    all
}

/// Warns of layers in which `train.alignment` has no effect, since their inducing columns explain every input.
pub fn warn_of_alignment(config: &RunConfig, model: &Model) {
    let weights = model.network.inducing();
    let layers = weights.iter().map(|weight| (weight.name.as_str(), weight.sizes().cols, weight.sizes().d_in));
    if let Some(said) = without_alignment(config.train.alignment, layers) {
        tracing::warn!("{said}");
    }
}

/// What to say of a weight of the alignment and layers, each with its inducing columns and its inputs.
fn without_alignment<'a>(weight: f64, layers: impl Iterator<Item = (&'a str, i64, i64)>) -> Option<String> {
    let (square, others): (Vec<_>, Vec<_>) = layers.partition(|(_, cols, inputs)| cols >= inputs);
    if weight <= 0.0 || square.is_empty() {
        return None;
    }
    let named: Vec<_> = square.iter().map(|(name, cols, inputs)| format!("{name} ({cols} for {inputs})")).collect();
    let whole = if others.is_empty() { ", which are all" } else { "" };
    Some(format!(
        "train.alignment = {weight} has no effect in layers with as many inducing columns as inputs{whole}: {}; take fewer \
         (inducing.inducing_cols) or leave train.alignment out",
        named.join(", ")
    ))
}

fn is_lower(scrambled: &Spread, own: &Spread) -> bool {
    let ((low, low_error), (high, high_error)) = (scrambled.epistemic(), own.epistemic());
    low + STANDARD_ERRORS * low_error.hypot(high_error) < high
}

/// The deviations of q(U) and, weight by weight, the λ that sit at their bounds; none without inducing layers.
fn at_bounds(model: &Model) -> Option<AtBounds> {
    let weights = model.network.inducing();
    if weights.is_empty() {
        return None;
    }
    let share = |counts: Vec<(i64, i64)>| {
        let (near, all) = counts.iter().fold((0, 0), |(near, all), (n, a)| (near + n, all + a));
        near as f64 / all.max(1) as f64
    };
    let lamda = |weight: &&fidgp::weight::InducingWeight| {
        let sizes = weight.sizes();
        let (near, _) = weight.conditional_scale.near_max();
        (near * sizes.d_out * sizes.d_in, sizes.d_out * sizes.d_in)
    };
    Some(tch::no_grad(|| AtBounds {
        sd: share(weights.iter().map(|weight| weight.posterior.sd.near_max()).collect()),
        lamda: share(weights.iter().map(lamda).collect()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spreads(own: [f64; 4], scrambled: [f64; 4]) -> Spreads {
        let of = |epistemic: [f64; 4]| Spread { epistemic: epistemic.to_vec(), total: vec![1.0; 4] };
        Spreads { part: HeldOut::Validation, own: of(own), scrambled: Some(of(scrambled)) }
    }

    fn said(spreads: &Spreads, sd: f64, lamda: f64) -> Vec<String> {
        warnings(spreads, false, "do something", Some(AtBounds { sd, lamda }))
    }

    #[test]
    fn a_linearised_posterior_of_many_rows_is_sound_while_it_rises_elsewhere() {
        let of_law = |spreads: &Spreads| warnings(spreads, true, "do something", None);
        assert_eq!(of_law(&spreads([1e-4, 1.1e-4, 1e-4, 1.1e-4], [2e-3; 4])), Vec::<String>::new());
        let nil = of_law(&spreads([1e-4, 1.1e-4, 1e-4, 1.1e-4], [1.05e-4; 4]));
        assert!(nil.len() == 1 && nil[0].contains("small everywhere") && !nil[0].contains("draws"), "{nil:?}");
    }

    #[test]
    fn advice_has_an_effect_on_what_predicts() {
        let text = include_str!("../../../../configs/table.toml");
        let config = crate::config::parse(text, &[]).unwrap();
        assert!(advice(&config, Some(Directions::Features)).contains("posterior.variance"));
        assert!(advice(&config, Some(Directions::Gradients)).contains("prior_precision=evidence"));
        assert!(advice(&config, None).contains("fidgp fit-posterior"));
    }

    #[test]
    fn an_alignment_without_effect_is_named() {
        let said = |weight, layers: &[(&'static str, i64, i64)]| without_alignment(weight, layers.iter().copied());
        assert_eq!(said(0.0, &[("fc1", 14, 14)]), None);
        assert_eq!(said(0.1, &[("fc1", 8, 14), ("fc2", 50, 51)]), None);
        let some = said(0.1, &[("fc1", 14, 14), ("fc2", 50, 51)]).unwrap();
        assert!(some.contains("as inputs: fc1 (14 for 14); take fewer") && !some.contains("fc2"), "{some}");
        let all = said(0.1, &[("fc1", 14, 14), ("fc2", 51, 51)]).unwrap();
        assert!(all.contains("which are all: fc1 (14 for 14), fc2 (51 for 51)"), "{all}");
    }

    #[test]
    fn a_healthy_posterior_is_not_warned_of() {
        let healthy = spreads([0.1, 0.12, 0.09, 0.11], [0.3, 0.4, 0.3, 0.35]);
        assert_eq!(said(&healthy, 0.4, 0.5), Vec::<String>::new());
        let alike = spreads([0.1, 0.12, 0.09, 0.11], [0.1, 0.115, 0.09, 0.105]);
        assert_eq!(said(&alike, 0.0, 0.0), Vec::<String>::new(), "within the error it is not lower");
    }

    #[test]
    fn each_fault_is_named_with_what_to_change() {
        let nil = said(&spreads([1e-4; 4], [2e-4; 4]), 0.0, 0.0);
        assert!(nil.len() == 1 && nil[0].contains("practically nil") && nil[0].ends_with("do something"), "{nil:?}");
        let lower = said(&spreads([0.1, 0.12, 0.09, 0.11], [0.01; 4]), 0.0, 0.0);
        assert!(lower.len() == 1 && lower[0].contains("lower on scrambled inputs"), "{lower:?}");
        let bounds = said(&spreads([0.1; 4], [0.2; 4]), 0.75, 0.6);
        assert!(bounds.len() == 2 && bounds[0].contains("max_sd_u") && bounds[0].contains("75 %"), "{bounds:?}");
        assert!(bounds[1].contains("inducing.max_lamda") && bounds[1].contains("60 %"), "{bounds:?}");
        let broken = said(&spreads([f64::NAN; 4], [0.2; 4]), 0.0, 0.0);
        assert!(broken[0].contains("practically nil"), "{broken:?}");
    }
}
