//! Adam and SGD over one flat buffer.
//!
//! All parameters are moved into slices of one tensor, so an update is a handful of large operations instead of a
//! handful for each parameter, and the optimiser's state is two tensors that a checkpoint can hold.

use std::collections::BTreeMap;

use tch::nn::VarStore;
use tch::{Kind, Tensor};

use super::groups::Groups;
use crate::config::{GroupConfig, OptimiserConfig};
use crate::error::{LabError, Result};

const ADAM_EPSILON: f64 = 1e-8;

/// Numbers that are updated together on the CPU: a quarter of a megabyte of each buffer in f32.
const CPU_PIECE: i64 = 1 << 16;

/// Parameters of a network in one buffer, and what the optimiser remembers of them.
#[derive(Debug)]
pub struct Optimiser {
    config: OptimiserConfig,
    parameters: Vec<(String, Tensor)>,
    flat: Tensor,
    /// How many leading entries of the buffer are decayed.
    decayed: i64,
    first: Tensor,
    second: Option<Tensor>,
    steps: i64,
    groups: Option<Groups>,
}

impl Optimiser {
    /// Moves the trainable variables of `store` into one buffer; layers keep seeing them under their own names.
    ///
    /// # Errors
    /// When there is nothing to train.
    pub fn new(store: &VarStore, config: OptimiserConfig) -> Result<Self> {
        let trainable: BTreeMap<_, _> =
            store.variables().into_iter().filter(|(_, tensor)| tensor.requires_grad()).collect();
        let decays = fidgp::layer::decayed(store);
        let (decayed, rest): (Vec<_>, Vec<_>) = trainable.into_iter().partition(|(name, _)| decays.contains(name));
        let decayed_count = decayed.iter().map(|(_, tensor)| tensor.numel() as i64).sum();
        let mut parameters: Vec<_> = decayed.into_iter().chain(rest).collect();
        if parameters.is_empty() {
            return Err(LabError::config("network", "has no trainable parameters"));
        }
        let flat = tch::no_grad(|| {
            let flat =
                Tensor::cat(&parameters.iter().map(|(_, tensor)| tensor.detach().reshape([-1])).collect::<Vec<_>>(), 0);
            let mut offset = 0;
            for (_, tensor) in &mut parameters {
                let count = tensor.numel() as i64;
                tensor.set_data(&flat.narrow(0, offset, count).view_as(tensor));
                offset += count;
            }
            flat
        });
        let second = matches!(config, OptimiserConfig::Adam { .. }).then(|| flat.zeros_like());
        Ok(Self {
            config,
            parameters,
            decayed: decayed_count,
            first: flat.zeros_like(),
            second,
            flat,
            steps: 0,
            groups: None,
        })
    }

    /// Checks, without touching them, that there is something to train in `store` and that the groups fit it.
    ///
    /// # Errors
    /// As [`Self::new`] and [`Self::with_groups`].
    pub fn check(store: &VarStore, groups: &[GroupConfig]) -> Result<()> {
        let trainable: BTreeMap<_, _> =
            store.variables().into_iter().filter(|(_, tensor)| tensor.requires_grad()).collect();
        if trainable.is_empty() {
            return Err(LabError::config("network", "has no trainable parameters"));
        }
        groups.iter().try_for_each(|group| group.check(&trainable.keys().map(String::as_str)))
    }

    /// Gives some parameters a rate or decay of their own.
    ///
    /// # Errors
    /// When a group fits no parameter.
    pub fn with_groups(mut self, configs: &[GroupConfig]) -> Result<Self> {
        if !configs.is_empty() {
            let starts = self.parameters.iter().scan(0, |next, (_, tensor)| {
                let start = *next;
                *next += tensor.numel() as i64;
                Some(start)
            });
            let usual = |start: i64| if start < self.decayed { self.config.weight_decay() } else { 0.0 };
            let parameters = self.parameters.iter().zip(starts);
            let parameters = parameters.map(|((name, tensor), start)| (name.as_str(), tensor, usual(start)));
            self.groups = Some(Groups::new(configs, parameters)?);
        }
        Ok(self)
    }

    /// One step down a gradient, whose norm is cut to `clip`. The gradient is used up.
    pub fn step(&mut self, mut gradient: Tensor, learning_rate: f64, clip: Option<f64>) {
        tch::no_grad(|| {
            if let Some(limit) = clip {
                gradient *= (limit / (gradient.norm() + 1e-6)).clamp_max(1.0);
            }
            self.decay(&mut gradient);
            self.update(&gradient, learning_rate);
        });
    }

    /// The gradient of all parameters in one buffer; zero where the loss does not depend on one.
    ///
    /// # Errors
    /// When libtorch cannot differentiate the loss.
    pub fn gradient(&self, loss: &Tensor) -> Result<Tensor> {
        self.backward(loss, false)
    }

    /// The same, and what the loss was made of can be differentiated again.
    ///
    /// # Errors
    /// As [`Self::gradient`].
    pub fn kept_gradient(&self, loss: &Tensor) -> Result<Tensor> {
        self.backward(loss, true)
    }

    /// Moves all parameters.
    pub fn shift(&self, by: &Tensor) {
        let _ = tch::no_grad(|| self.flat.shallow_clone().g_add_(by));
    }

    fn backward(&self, loss: &Tensor, keep: bool) -> Result<Tensor> {
        let inputs: Vec<_> = self.parameters.iter().map(|(_, tensor)| tensor).collect();
        let gradients = Tensor::f_run_backward(&[loss], &inputs, keep, false)?;
        let flat = |(gradient, input): (&Tensor, &&Tensor)| {
            if gradient.defined() { gradient.reshape([-1]) } else { input.zeros_like().detach().reshape([-1]) }
        };
        Ok(Tensor::cat(&gradients.iter().zip(&inputs).map(flat).collect::<Vec<_>>(), 0))
    }

    fn decay(&self, gradient: &mut Tensor) {
        if let Some(groups) = &self.groups {
            let _ = gradient.g_add_(&(&self.flat * &groups.decay));
            return;
        }
        let weight_decay = self.config.weight_decay();
        if weight_decay > 0.0 && self.decayed > 0 {
            let decay = self.flat.narrow(0, 0, self.decayed) * weight_decay;
            let _ = gradient.narrow(0, 0, self.decayed).g_add_(&decay);
        }
    }

    fn update(&mut self, gradient: &Tensor, learning_rate: f64) {
        self.steps += 1;
        let length = self.flat.numel() as i64;
        // On the CPU piece by piece: what one operation leaves in the cache the next one finds there.
        let piece = if self.flat.device().is_cuda() { length } else { CPU_PIECE };
        for start in (0..length).step_by(piece as usize) {
            self.update_piece(gradient, learning_rate, start, piece.min(length - start));
        }
    }

    fn update_piece(&self, gradient: &Tensor, learning_rate: f64, start: i64, length: i64) {
        let part = |tensor: &Tensor| tensor.narrow(0, start, length);
        let (gradient, mut first, mut flat) = (part(gradient), part(&self.first), part(&self.flat));
        let own_rate = |step: Tensor| match &self.groups {
            Some(own) => step * part(&own.rate),
            None => step,
        };
        match (self.config, self.second.as_ref().map(part)) {
            (OptimiserConfig::Adam { betas: [b1, b2], .. }, Some(mut second)) => {
                let _ = first.g_mul_scalar_(b1).g_add_(&(&gradient * (1.0 - b1)));
                let _ = second.g_mul_scalar_(b2).g_add_(&(gradient.square() * (1.0 - b2)));
                let (c1, c2) = (1.0 - b1.powf(self.steps as f64), 1.0 - b2.powf(self.steps as f64));
                let scale = (second / c2).sqrt() + ADAM_EPSILON;
                let _ = flat.addcdiv_(&own_rate(first * (-learning_rate / c1)), &scale);
            }
            (OptimiserConfig::Sgd { momentum, .. }, _) | (OptimiserConfig::Adam { betas: [momentum, _], .. }, None) => {
                let _ = first.g_mul_scalar_(momentum).g_add_(&gradient);
                let nesterov = gradient + first * momentum;
                let _ = flat.g_add_(&own_rate(nesterov * -learning_rate));
            }
        }
    }

    /// What a checkpoint needs beside the parameters.
    pub fn state(&self) -> Vec<(String, Tensor)> {
        let steps = Tensor::from_slice(&[self.steps]);
        let mut state =
            vec![("optimiser.first".to_owned(), self.first.shallow_clone()), ("optimiser.steps".to_owned(), steps)];
        state.extend(self.second.as_ref().map(|second| ("optimiser.second".to_owned(), second.shallow_clone())));
        state
    }

    /// Steps made.
    pub fn steps(&self) -> i64 {
        self.steps
    }

    /// Counts on from so many steps.
    pub fn take_steps(&mut self, steps: i64) {
        self.steps = steps;
    }

    /// Takes the state of a checkpoint.
    ///
    /// # Errors
    /// When the state belongs to another optimiser or network.
    pub fn restore(&mut self, state: &BTreeMap<String, Tensor>) -> Result<()> {
        let find = |name: &str| {
            let found = state.get(name).filter(|tensor| {
                if name.ends_with("steps") { tensor.size() == [1] } else { tensor.size() == self.flat.size() }
            });
            found.ok_or_else(|| {
                LabError::config("checkpoint", format!("holds no `{name}` that fits this network and optimiser"))
            })
        };
        let (first, steps) = (find("optimiser.first")?, find("optimiser.steps")?);
        let second = if self.second.is_some() { Some(find("optimiser.second")?) } else { None };
        tch::no_grad(|| {
            self.first.copy_(first);
            if let (Some(mine), Some(theirs)) = (&mut self.second, second) {
                mine.copy_(theirs);
            }
        });
        self.steps = steps.to_kind(Kind::Int64).int64_value(&[0]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fidgp::Key;
    use fidgp::layer::Role;
    use tch::Device;
    use tch::nn::{self, OptimizerConfig};

    fn store() -> (VarStore, Tensor, Tensor) {
        let store = VarStore::new(Device::Cpu);
        let value = |seed: u64, shape: &[i64]| Key::new(seed).normal(shape, Kind::Float, Device::Cpu);
        let weight = Role::Decayed.of(&(store.root() / "fc")).var_copy("weight", &value(1, &[3, 2]));
        let mean = (store.root() / "fc").var_copy("inducing_mean", &value(2, &[4]));
        (store, weight, mean)
    }

    fn loss(weight: &Tensor, mean: &Tensor) -> Tensor {
        (weight.sin() * 2.0).square().sum(Kind::Float) + (mean - 1.5).pow_tensor_scalar(4).sum(Kind::Float)
    }

    /// Twenty steps of ours and of libtorch's own optimiser from the same start, plain weights decayed.
    fn compare(config: OptimiserConfig, theirs: impl Fn(&VarStore) -> nn::Optimizer) {
        let (mine, weight, mean) = store();
        let mut optimiser = Optimiser::new(&mine, config).unwrap();
        let (other, other_weight, other_mean) = store();
        let mut reference = theirs(&other);
        let decay = config.weight_decay();
        for _ in 0..20 {
            let gradient = optimiser.gradient(&loss(&weight, &mean)).unwrap();
            optimiser.step(gradient, config.learning_rate(), None);
            let penalty = other_weight.square().sum(Kind::Float) * (0.5 * decay);
            reference.backward_step(&(loss(&other_weight, &other_mean) + penalty));
        }
        for (a, b) in [(&weight, &other_weight), (&mean, &other_mean)] {
            let gap = (a - b).abs().max().double_value(&[]);
            assert!(gap < 1e-5, "{config:?}: {gap}");
        }
    }

    #[test]
    fn adam_is_libtorchs_adam() {
        let config = OptimiserConfig::Adam { learning_rate: 0.05, betas: [0.9, 0.999], weight_decay: 0.1 };
        compare(config, |store| nn::Adam::default().build(store, 0.05).unwrap());
    }

    #[test]
    fn sgd_is_libtorchs_nesterov() {
        let config = OptimiserConfig::Sgd { learning_rate: 0.001, momentum: 0.9, weight_decay: 0.1 };
        let sgd = nn::Sgd { momentum: 0.9, dampening: 0.0, wd: 0.0, nesterov: true };
        compare(config, |store| sgd.build(store, 0.001).unwrap());
    }

    #[test]
    fn a_gradient_is_cut_to_the_largest_norm() {
        let (store, weight, mean) = store();
        let config = OptimiserConfig::Sgd { learning_rate: 1.0, momentum: 0.0, weight_decay: 0.0 };
        let before = Tensor::cat(&[weight.flatten(0, -1), mean.copy()], 0).detach();
        let mut optimiser = Optimiser::new(&store, config).unwrap();
        optimiser.step(optimiser.gradient(&(loss(&weight, &mean) * 100.0)).unwrap(), 1.0, Some(0.5));
        let moved = (Tensor::cat(&[weight.flatten(0, -1), mean.shallow_clone()], 0).detach() - before).norm();
        assert!((moved.double_value(&[]) - 0.5).abs() < 1e-4, "{moved:?}");
    }

    #[test]
    fn groups_have_their_own_rate_and_decay() {
        let group = |parameters: &str, rate, weight_decay| GroupConfig {
            parameters: vec![parameters.to_owned()],
            rate,
            weight_decay,
        };
        let (store, weight, mean) = store();
        let (weight_before, mean_before) = (weight.detach().copy(), mean.detach().copy());
        let config = OptimiserConfig::Sgd { learning_rate: 1.0, momentum: 0.0, weight_decay: 0.5 };
        let groups = [group("*", 0.5, None), group("*.weight", 0.0, None), group("*_mean", 0.1, Some(0.2))];
        let nothing = (&weight + mean.sum(Kind::Float)).sum(Kind::Float) * 0.0;
        let mut optimiser = Optimiser::new(&store, config).unwrap().with_groups(&groups).unwrap();
        optimiser.step(optimiser.gradient(&nothing).unwrap(), 1.0, None);
        assert_eq!(weight, weight_before); // rate 0
        let expected = &mean_before * (1.0 - 0.1 * 0.2); // decay alone
        assert!((mean - expected).abs().max().double_value(&[]) < 1e-6);
        let error = Optimiser::new(&store, config).unwrap().with_groups(&[group("*.wieght", 1.0, None)]).unwrap_err();
        assert!(error.to_string().contains("`*.wieght` fits no parameter; there are fc."), "{error}");
        assert!(Optimiser::new(&store, config).unwrap().with_groups(&[group("*", -1.0, None)]).is_err());
    }

    #[test]
    fn a_restored_optimiser_goes_on_as_the_saved_one() {
        let config = OptimiserConfig::Adam { learning_rate: 0.05, betas: [0.9, 0.999], weight_decay: 0.0 };
        let (first, weight, mean) = store();
        let mut optimiser = Optimiser::new(&first, config).unwrap();
        let step = |optimiser: &mut Optimiser, weight: &Tensor, mean: &Tensor| {
            optimiser.step(optimiser.gradient(&loss(weight, mean)).unwrap(), 0.05, None);
        };
        (0..5).for_each(|_| step(&mut optimiser, &weight, &mean));
        let saved: BTreeMap<_, _> = optimiser.state().into_iter().map(|(name, tensor)| (name, tensor.copy())).collect();
        let (second, mut other_weight, mut other_mean) = store();
        tch::no_grad(|| (other_weight.copy_(&weight), other_mean.copy_(&mean)));
        let mut restored = Optimiser::new(&second, config).unwrap();
        restored.restore(&saved).unwrap();
        step(&mut optimiser, &weight, &mean);
        step(&mut restored, &other_weight, &other_mean);
        assert_eq!((weight, mean), (other_weight, other_mean));
        assert!(restored.restore(&BTreeMap::new()).unwrap_err().to_string().contains("optimiser.first"));
    }
}
