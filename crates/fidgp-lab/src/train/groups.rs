//! Parameters that learn at a rate of their own.

use tch::Tensor;

use crate::config::GroupConfig;
use crate::error::Result;

/// Rate and decay of every number of the flat buffer.
#[derive(Debug)]
pub struct Groups {
    /// Multiplies the learning rate.
    pub rate: Tensor,
    /// L2 penalty.
    pub decay: Tensor,
}

impl Groups {
    /// Lays the groups over parameters that stand in the buffer in this order, each with its usual decay.
    ///
    /// # Errors
    /// When a pattern fits no parameter, or a number is negative.
    pub fn new<'a>(
        configs: &[GroupConfig],
        parameters: impl Iterator<Item = (&'a str, &'a Tensor, f64)> + Clone,
    ) -> Result<Self> {
        for config in configs {
            config.check(&parameters.clone().map(|(name, _, _)| name))?;
        }
        let (mut rates, mut decays) = (Vec::new(), Vec::new());
        for (name, tensor, usual) in parameters {
            let own = || configs.iter().rev().filter(|config| config.has(name));
            let rate = own().next().map_or(1.0, |config| config.rate);
            let decay = own().find_map(|config| config.weight_decay).unwrap_or(usual);
            let spread = |value: f64| tensor.detach().full_like(value).reshape([-1]);
            rates.push(spread(rate));
            decays.push(spread(decay));
        }
        Ok(Self { rate: Tensor::cat(&rates, 0), decay: Tensor::cat(&decays, 0) })
    }
}
