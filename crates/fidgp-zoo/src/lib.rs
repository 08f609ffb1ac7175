//! Networks made of fidgp's layers, and what is done to a whole network.
//!
//! The order of the modules is the order of use: a network's config makes it plain, [`bayesianise`] says by a [`LayerPlan`] which
//! layers are Bayesian, `init` gives it numbers, and the rest reads or writes the result.
//!
//! ```
//! use fidgp::Key;
//! use fidgp::weight::InducingConfig;
//! use fidgp_zoo::{LayerPlan, MlpConfig};
//! use tch::{Device, nn::VarStore};
//!
//! let store = VarStore::new(Device::Cpu);
//! let plan = LayerPlan::all(InducingConfig::default()).size("fc2", 8, 8).dense_layers("fc3");
//! let config = MlpConfig { inputs: 4, hidden: vec![16, 16], outputs: 1, ..MlpConfig::default() };
//! let network = config.init(&store.root(), &plan, Key::new(1))?;
//! # Ok::<(), fidgp_zoo::Error>(())
//! ```

pub mod architecture;
pub mod baseline;
mod bayesianise;
pub mod bayesianize;
pub mod compress;
pub mod cost;
mod cost_table;
pub mod draw_cost;
pub mod error;
mod explained;
pub mod fcn;
pub mod hrnet;
mod hrnet_module;
pub mod import;
mod import_report;
pub mod methods;
pub mod minimum;
mod mlp;
mod nearest;
pub mod orders;
pub mod own;
pub mod plan;
pub mod pretrained;
pub mod resnet;
mod resnet_block;
pub mod resnet_cifar;
mod resnet_trunk;
mod start_report;
mod thousands;
pub mod weights;
pub mod wrap;

pub use architecture::{Architecture, Takes};
pub use bayesianise::{bayesianise, build};
pub use cost::{Cost, Counting, LayerCost, cost};
pub use cost_table::write_total;
pub use draw_cost::DrawCost;
pub use error::{Error, Result};
pub use explained::Explained;
pub use fcn::{Fcn, FcnConfig};
pub use fidgp::layer::{LayerGeometry, LayerKind, Operation, trace};
pub use hrnet::{Hrnet, HrnetConfig};
pub use import::{ImportMode, import, import_tensors, is_of};
pub use import_report::{ImportReport, Mismatch};
pub use methods::{Method, mean_field_from_bayesianize};
pub use mlp::{Activation, Mlp, MlpConfig};
pub use orders::{Orders, Work};
pub use plan::{LayerPlan, Rule, RuleSlot};
pub use pretrained::start_weight;
pub use resnet::{Depth, Resnet, ResnetConfig, Stem};
pub use resnet_cifar::{ResnetCifar, ResnetCifarConfig};
pub use start_report::{LayerFit, StartReport};
pub use thousands::thousands;
pub use wrap::{reestimate_batch_norm, start_network};

/// The program of the guide's page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/use/rust.md")]
struct Guide;
