//! Who is to blame for a loss that is not finite.

use fidgp::layer::{Factors, Mode};
use fidgp::linalg::{Check, check_finite};
use fidgp::weight::InducingWeight;

use super::checkpoint;
use super::step::{StepInput, Stepper};
use crate::error::LabError;
use crate::model::Model;

/// The culprit in the step that was just made, before its gradient was used: a parameter, a covariance, the inputs, or the
/// first layer that makes something infinite of finite numbers. No full stop at its end.
pub fn culprit(model: &Model, stepper: &Stepper, input: &StepInput) -> String {
    if let Some(parameters) = not_finite_parameters(model) {
        return parameters;
    }
    let weights = model.network.inducing();
    if let Err(error) = Factors::of(&weights, Check::Now) {
        return cause(&error.into());
    }
    if let Some(layer) = needs_more_jitter(&weights) {
        return format!("a covariance of `{layer}` cannot be factorised with its jitter; raise inducing.jitter");
    }
    if let Err(error) = check_finite("the inputs of that batch", &input.x, "") {
        return sentence(&error);
    }
    broken_layer(stepper, input, Mode::Train).unwrap_or_else(|| {
        let last = model.network.head().map_or(String::new(), |head| format!(" of `{head}`"));
        format!("all parameters are finite, and so are the outputs{last}, but not their loss")
    })
}

/// A layer with a covariance that has no factor with the jitter it is given, the one thing that a step on CUDA tries.
fn needs_more_jitter<'a>(weights: &[&'a InducingWeight]) -> Option<&'a str> {
    let factors = Factors::of(weights, Check::Deferred).ok()?;
    let failed = |layer: &&str| {
        let own = factors.get(layer);
        own.is_ok_and(|own| [own.t_row(), own.t_col()].iter().any(|t| check_finite(layer, t, "").is_err()))
    };
    weights.iter().map(|weight| weight.name.as_str()).find(failed)
}

/// The first layer that makes something infinite of finite numbers when a batch goes through the network again.
pub fn broken_layer(stepper: &Stepper, input: &StepInput, mode: Mode) -> Option<String> {
    match stepper.broken_layer(input, mode) {
        Ok(broken) => Some(format!("all parameters are finite, {}", broken?)),
        Err(error) => Some(cause(&error)),
    }
}

/// What an error says is not finite, or its text.
pub fn cause(error: &LabError) -> String {
    match error {
        LabError::Method(fidgp::Error::NonFinite { what, count, total, .. }) => {
            format!("`{what}` holds {count} non-finite values out of {total}")
        }
        other => sentence(other),
    }
}

/// The parameters that are not finite. Buffers are not asked: BatchNorm's statistics have taken in the batch that failed.
pub fn not_finite_parameters(model: &Model) -> Option<String> {
    let trained = checkpoint::variables(&model.store).into_iter().filter(|(_, tensor)| tensor.requires_grad());
    checkpoint::not_finite(&trained.collect::<Vec<_>>())
}

/// An error's text without its full stop.
fn sentence<E: std::error::Error>(error: &E) -> String {
    error.to_string().trim_end_matches(['.', ' ']).to_owned()
}

#[cfg(test)]
mod tests {
    use fidgp::Key;
    use fidgp::weight::InducingConfig;
    use tch::Device;
    use tch::nn::VarStore;

    use super::*;

    #[test]
    fn a_covariance_that_needs_more_jitter_is_found() {
        let store = VarStore::new(Device::Cpu);
        let config = InducingConfig { jitter: 0.0, ..InducingConfig::default() };
        let weight = InducingWeight::init(&(store.root() / "fc"), 8, 8, &config, Key::new(1)).unwrap();
        assert_eq!(needs_more_jitter(&[&weight]), None);
        // ever more of the same direction: their products are singular
        let rows =
            tch::Tensor::linspace(1.0, 2.0, 8, (tch::Kind::Float, Device::Cpu)).unsqueeze(1).expand([8, 8], false);
        tch::no_grad(|| weight.prior.z_row.shallow_clone().copy_(&(rows * 1e7)));
        assert_eq!(needs_more_jitter(&[&weight]), Some("fc"));
    }
}
