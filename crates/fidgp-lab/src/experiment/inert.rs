//! Whether the epistemic part of a network's uncertainty says anything.

use super::task::{HeldOut, Task};
use crate::config::RunConfig;
use crate::error::Result;
use crate::evaluate::Spread;
use crate::model::Model;
use crate::record::Uncertainty;

/// The epistemic share below which draws practically do not differ.
const PRACTICALLY_NIL: f64 = 0.005;
/// Standard errors by which scrambled inputs must be below the others to be called lower.
const STANDARD_ERRORS: f64 = 2.0;

/// Uncertainty on held-out inputs, and on the same inputs scrambled.
#[derive(Clone, Debug, PartialEq)]
pub struct Spreads {
    /// Which inputs.
    pub part: HeldOut,
    /// As they are.
    pub own: Spread,
    /// Scrambled; none where that changes nothing.
    pub scrambled: Option<Spread>,
}

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
    let Some(spreads) = tch::no_grad(|| task.spreads(model, config.predict.draws))? else { return Ok(None) };
    let numbers = model.likelihood.reading().numbers().is_some();
    Ok(Some(record(config, &spreads, (numbers, model.posterior.is_some()), at_bounds(model))))
}

fn record(
    config: &RunConfig,
    spreads: &Spreads,
    (numbers, linearised): (bool, bool),
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
        warnings: warnings(spreads, advice(config, linearised), bounds.filter(|_| !linearised)),
    }
}

/// What to change, by what predicts.
fn advice(config: &RunConfig, linearised: bool) -> &'static str {
    if linearised {
        "try `fidgp fit-posterior RUN --set posterior.prior_precision=evidence`, or all layers in posterior.layers"
    } else if config.method.about().is_inducing {
        "fit a linearised posterior to what is trained (`fidgp fit-posterior RUN`), or train with a larger inducing.max_sd_u \
         and inducing.max_lamda"
    } else {
        "give the method more spread (dropout rate, prior deviation, members), or take another method"
    }
}

fn warnings(spreads: &Spreads, advice: &str, bounds: Option<AtBounds>) -> Vec<String> {
    let mut all = Vec::new();
    if spreads.own.share().is_none_or(|share| share < PRACTICALLY_NIL) {
        let limit = 100.0 * PRACTICALLY_NIL;
        all.push(format!(
            "the epistemic uncertainty is practically nil, less than {limit} % of the total: the draws do not differ, so it \
             cannot show what the network does not know; {advice}"
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
        warnings(spreads, "do something", Some(AtBounds { sd, lamda }))
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
