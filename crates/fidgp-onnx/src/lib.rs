//! ONNX graphs as networks of fidgp's layers.

mod attributes;
mod backward;
mod cells;
mod constant;
mod element;
mod error;
mod export;
mod file;
mod finish;
mod found;
mod graph;
mod head;
mod import;
mod inline;
mod inspect;
mod logits;
mod names;
mod network;
#[expect(clippy::unnecessary_wraps, reason = "one signature for every operator of the table")]
mod ops;
mod part;
mod parts;
mod plain;
mod program;
mod proto;
mod roles;
mod rules;
mod sketch;
mod tangent;
mod writer;

pub use element::Element;
pub use error::{Error, Place, Result};
pub use export::{Exported, Source, check_bytes, self_contained};
pub use finish::Outputs;
pub use graph::{Graph, Port};
pub use import::{Import, Origin, Wanted};
pub use inspect::{Inspection, operators};
pub use network::GraphNetwork;
pub use plain::Plain;
pub use rules::{IntervalRule, Limit, OutlierRule, Outside, Rules, SetRule, SetScore, Uncertainty};
pub use sketch::Sketch;
pub use tangent::{Linearised, LinearisedLayer, OwnNoise};
