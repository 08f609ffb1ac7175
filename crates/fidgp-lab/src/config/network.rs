//! The networks a config can name: those of the zoo, and graphs.

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
