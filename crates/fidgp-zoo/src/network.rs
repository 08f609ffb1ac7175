//! Any network of this crate, as a run's config names it.

use fidgp::Key;
use fidgp::layer::Network;
use serde::{Deserialize, Serialize};
use tch::nn::Path;

use crate::{FcnConfig, HrnetConfig, LayerGeometry, LayerPlan, MlpConfig, ResnetCifarConfig, ResnetConfig, Result};

/// A network and its sizes: `{ kind = "resnet", depth = 18, stem = "cifar", classes = 100 }`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum NetworkConfig {
    /// A multilayer perceptron.
    Mlp(MlpConfig),
    /// ResNet-18/34/50.
    Resnet(ResnetConfig),
    /// ResNet-20/56 for CIFAR.
    ResnetCifar(ResnetCifarConfig),
    /// A fully convolutional network on a dilated ResNet, for segmentation.
    Fcn(FcnConfig),
    /// HRNetV2, for segmentation.
    Hrnet(HrnetConfig),
}

impl NetworkConfig {
    /// Builds the network under `path` by the plan.
    ///
    /// # Errors
    /// When a size or setting is out of range, or the plan names a layer there is not.
    pub fn init(&self, path: &Path, plan: &LayerPlan, key: Key) -> Result<Box<dyn Network>> {
        Ok(match self {
            Self::Mlp(config) => Box::new(config.init(path, plan, key)?),
            Self::Resnet(config) => Box::new(config.init(path, plan, key)?),
            Self::ResnetCifar(config) => Box::new(config.init(path, plan, key)?),
            Self::Fcn(config) => Box::new(config.init(path, plan, key)?),
            Self::Hrnet(config) => Box::new(config.init(path, plan, key)?),
        })
    }

    /// Its layers, for images of the given height and width (of no meaning for vectors).
    pub fn geometry(&self, input: [i64; 2]) -> Vec<LayerGeometry> {
        match self {
            Self::Mlp(config) => config.geometry(),
            Self::Resnet(config) => config.geometry(input),
            Self::ResnetCifar(config) => config.geometry(input),
            Self::Fcn(config) => config.geometry(input),
            Self::Hrnet(config) => config.geometry(input),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configs_go_through_json_and_name_what_is_wrong() {
        let json = r#"{"kind": "resnet", "depth": 50, "stem": "imagenet", "classes": 1000}"#;
        let config: NetworkConfig = serde_json::from_str(json).unwrap();
        let again: NetworkConfig = serde_json::from_str(&serde_json::to_string(&config).unwrap()).unwrap();
        assert_eq!(again, config);
        let unknown = serde_json::from_str::<NetworkConfig>(r#"{"kind": "resnet-cifar", "wide": 3}"#).unwrap_err();
        assert!(unknown.to_string().contains("wide"), "{unknown}");
        let depth = serde_json::from_str::<NetworkConfig>(r#"{"kind": "resnet", "depth": 20}"#).unwrap_err();
        assert!(depth.to_string().contains("18, 34 or 50"), "{depth}");
    }
}
