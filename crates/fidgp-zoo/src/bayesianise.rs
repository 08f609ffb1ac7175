//! The verb: a plain network becomes a Bayesian one.

use fidgp::Key;
use fidgp::layer::{Network, init};
use tch::nn::Path;

use crate::{LayerPlan, Result};

/// Says of a network which of its layers are Bayesian, or hold the weight of another method, and which are plain. It has no
/// numbers yet; [`init`](fidgp::layer::init) gives them, and [`start_network`](crate::start_network) makes them those of a trained
/// plain network. Of two plans the last one counts.
///
/// ```
/// use fidgp::{Key, layer::init, weight::InducingConfig};
/// use fidgp_zoo::{LayerPlan, MlpConfig, bayesianise};
/// use tch::{Device, nn::VarStore};
///
/// let mut network = MlpConfig { inputs: 4, hidden: vec![16, 16], outputs: 1, ..MlpConfig::default() }.network()?;
/// bayesianise(&mut network, &LayerPlan::all(InducingConfig::default()).dense_layers("fc3"))?;
/// let store = VarStore::new(Device::Cpu);
/// init(&mut network, &store.root(), Key::new(1))?;
/// # Ok::<(), fidgp_zoo::Error>(())
/// ```
///
/// # Errors
/// When the plan names a layer that the network does not have, or the network has numbers already.
pub fn bayesianise(network: &mut dyn Network, plan: &LayerPlan) -> Result<()> {
    let layers = network.layers();
    let named: Vec<_> = layers.iter().filter_map(|layer| Some((layer.name(), layer.operation().kind()?))).collect();
    let plan = plan.for_layers(&named, network.head());
    plan.check(&named)?;
    for layer in network.layers_mut() {
        let Some(kind) = layer.operation().kind() else { continue };
        let config = plan.slot_for(layer.name(), kind);
        layer.slot_mut().map_or(Ok(()), |slot| slot.set(config))?;
    }
    Ok(())
}

/// A network by a plan, its numbers under `path`: [`bayesianise`] and [`init`](fidgp::layer::init).
///
/// # Errors
/// When the plan names a layer that the network does not have, or a setting is out of range.
pub fn build<N: Network>(mut network: N, path: &Path, plan: &LayerPlan, key: Key) -> Result<N> {
    bayesianise(&mut network, plan)?;
    init(&mut network, path, key)?;
    Ok(network)
}
