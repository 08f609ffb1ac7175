//! A wrapped network that starts at a trained one, and the BatchNorm statistics that go with it.

use std::collections::HashMap;

use fidgp::layer::{CustomWeight, Factors, Layer, Mode, Network, Pass, Slot};
use fidgp::linalg::Check;
use fidgp::weight::InducingWeight;
use tch::nn::VarStore;
use tch::{Kind, Tensor};

use crate::import::is_of;
use crate::import_report::{ImportReport, Mismatch};
use crate::pretrained::start_weight;
use crate::start_report::StartReport;
use crate::{Error, Result};

/// Starts every weight of a wrapped network at the trained tensors: Bayesian weights at the best fit of their rank, all
/// others as they are, once for each member where there are several. What a method has beside the plain network's
/// variables stays as it was made. `dense` has the plain network's names: its `VarStore::variables`, or a file's tensors.
///
/// # Errors
/// When a tensor is missing, has another shape, or cannot be fitted; then nothing is changed.
pub fn start_network(
    network: &dyn Network,
    store: &VarStore,
    dense: impl IntoIterator<Item = (String, Tensor)>,
) -> Result<StartReport> {
    let dense: HashMap<_, _> = dense.into_iter().collect();
    let bayesian = network.inducing();
    let plain = plain_variables(network, store, &dense);
    check(&plain, &bayesian, &dense)?;
    let before: Vec<_> = store.variables().into_values().map(|variable| (variable.copy(), variable)).collect();
    let started = start_all(&bayesian, &plain, &dense);
    if started.is_ok() {
        network.custom().into_iter().for_each(CustomWeight::started);
    } else {
        tch::no_grad(|| before.into_iter().for_each(|(value, mut variable)| variable.copy_(&value)));
    }
    started
}

fn start_all(
    bayesian: &[&InducingWeight],
    plain: &[(String, Tensor)],
    dense: &HashMap<String, Tensor>,
) -> Result<StartReport> {
    let layers =
        bayesian.iter().map(|weight| start_weight(weight, &matrix(&weight.name, dense))).collect::<Result<_>>()?;
    tch::no_grad(|| {
        for (name, variable) in plain {
            variable.shallow_clone().copy_(&dense[name]);
        }
    });
    Ok(StartReport { layers, copied: plain.len() })
}

/// The variables that do not belong to a Bayesian weight, and of another method's weight those that the plain network has
/// too.
fn plain_variables(network: &dyn Network, store: &VarStore, dense: &HashMap<String, Tensor>) -> Vec<(String, Tensor)> {
    let is_plain = |(name, _): &(String, Tensor)| {
        let of = |layer: &str| is_of(name, layer);
        network.slots().into_iter().all(|slot| match slot {
            Slot::Planned(_) | Slot::Dense(_) => true,
            Slot::Inducing(weight) => !of(&weight.name),
            Slot::Custom(weight) => !of(weight.name()) || dense.contains_key(name),
        })
    };
    store.variables().into_iter().filter(is_plain).collect()
}

/// Whether a tensor is a variable's, or one that each of its members can have. `[out]`, `[K, out]`
fn fits(tensor: &Tensor, variable: &Tensor) -> bool {
    let (tensor, variable) = (tensor.size(), variable.size());
    tensor == variable || (variable.len() > 1 && tensor == variable[1..])
}

/// A layer's weight as a matrix with the bias, if there is one, as its last column. `[d_out, d_in]`
fn matrix(layer: &str, dense: &HashMap<String, Tensor>) -> Tensor {
    let weight = dense[&format!("{layer}.weight")].flatten(1, -1);
    match dense.get(&format!("{layer}.bias")) {
        Some(bias) => Tensor::cat(&[weight, bias.unsqueeze(1)], 1),
        None => weight,
    }
}

fn check(plain: &[(String, Tensor)], bayesian: &[&InducingWeight], dense: &HashMap<String, Tensor>) -> Result<()> {
    let mut report = ImportReport::default();
    for (name, variable) in plain {
        match dense.get(name) {
            Some(tensor) if !fits(tensor, variable) => {
                let (file, network) = (tensor.size(), variable.size());
                report.shape_mismatch.push(Mismatch { name: name.clone(), file, network });
            }
            Some(_) => report.matched.push(name.clone()),
            None => report.missing.push(name.clone()),
        }
    }
    let weights = bayesian.iter().map(|weight| format!("{}.weight", weight.name));
    report.missing.extend(weights.filter(|name| !dense.contains_key(name)));
    let fits = report.missing.is_empty() && report.shape_mismatch.is_empty();
    if fits { Ok(()) } else { Err(Error::Import(Box::new(report))) }
}

/// Replaces every running mean and variance by its average over the given batches of training images, each counting as its
/// images do, the Bayesian weights at their posterior mean. Returns the number of batches.
///
/// # Shapes
/// batches `[N, ..]`, normalised as for training
///
/// # Errors
/// When there is no batch or one does not fit the network; then the statistics are unchanged.
pub fn reestimate_batch_norm(network: &dyn Network, batches: impl IntoIterator<Item = Tensor>) -> Result<u64> {
    let own = |layer: &dyn Layer| -> Vec<(f64, Tensor)> {
        let momentum = layer.momentum().unwrap_or(1.0);
        layer.running().into_iter().map(|(_, statistic)| (momentum, statistic.shallow_clone())).collect()
    };
    let statistics: Vec<_> = network.layers().into_iter().flat_map(own).collect();
    let before: Vec<_> = statistics.iter().map(|(_, statistic)| statistic.copy()).collect();
    let averaged = tch::no_grad(|| averages(network, &statistics, batches));
    let values = averaged.as_ref().map_or(&before, |(averages, _)| averages);
    tch::no_grad(|| {
        for ((_, statistic), value) in statistics.iter().zip(values) {
            statistic.shallow_clone().copy_(value);
        }
    });
    averaged.map(|(_, count)| count)
}

fn averages(
    network: &dyn Network,
    statistics: &[(f64, Tensor)],
    batches: impl IntoIterator<Item = Tensor>,
) -> Result<(Vec<Tensor>, u64)> {
    let factors = Factors::of(&network.inducing(), Check::Now)?;
    let mut averages: Vec<_> =
        statistics.iter().map(|(_, statistic)| statistic.zeros_like().to_kind(Kind::Double)).collect();
    let (mut count, mut rows) = (0, 0);
    for batch in batches {
        for (_, statistic) in statistics {
            _ = statistic.shallow_clone().zero_();
        }
        _ = network.forward(&batch, &mut Pass::mean(&network.inducing(), &factors, Mode::Train)?)?;
        count += 1;
        let own_rows = batch.size().first().copied().unwrap_or(1);
        rows += own_rows;
        for (average, (momentum, statistic)) in averages.iter_mut().zip(statistics) {
            // From zero, one pass leaves momentum times the batch's own statistic.
            let own = statistic.to_kind(Kind::Double) / *momentum;
            *average += (own - &*average) * (own_rows as f64 / rows as f64);
        }
    }
    if count == 0 {
        return Err(Error::setting("batches", 0, "give at least one batch of training images"));
    }
    Ok((averages, count))
}
