//! The networks a config can name: those of the zoo, graphs, and those that a program registers.

use fidgp_zoo::{FcnConfig, HrnetConfig, MlpConfig, ResnetCifarConfig, ResnetConfig, networks};

use super::GraphConfig;

networks! {
    /// The networks a config can name.
    pub enum NetworkConfig {
        /// Linear–BatchNorm–activation blocks and a linear head.
        Mlp(MlpConfig),
        /// ResNet-18, 34 or 50 under torchvision's names.
        Resnet(ResnetConfig),
        /// ResNet-20, 32, 44, 56 or 110 for 32×32 images, with option-A shortcuts.
        ResnetCifar(ResnetCifarConfig),
        /// A fully convolutional network on a dilated ResNet, for segmentation, under torchvision's names.
        Fcn(FcnConfig),
        /// HRNetV2, for segmentation, under the released names.
        Hrnet(HrnetConfig),
        /// A graph that another framework exported.
        Onnx(GraphConfig),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configs_go_through_json_and_name_what_is_wrong() {
        let json = r#"{"kind": "resnet", "depth": 50, "stem": "imagenet"}"#;
        let config: NetworkConfig = serde_json::from_str(json).unwrap();
        let again: NetworkConfig = serde_json::from_str(&serde_json::to_string(&config).unwrap()).unwrap();
        assert_eq!(again, config);
        let unknown = serde_json::from_str::<NetworkConfig>(r#"{"kind": "resnet-cifar", "wide": 3}"#).unwrap_err();
        assert!(unknown.to_string().contains("wide"), "{unknown}");
        let depth = serde_json::from_str::<NetworkConfig>(r#"{"kind": "resnet", "depth": 20}"#).unwrap_err();
        assert!(depth.to_string().contains("18, 34 or 50"), "{depth}");
        assert_eq!(config.name(), "resnet-50");
    }
}
