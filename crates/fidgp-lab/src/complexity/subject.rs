//! The layers of the complexity table.

use fidgp::conditional::{Conditional, NoiseOn};
use fidgp::flow::{DiagonalConfig, FlowConfig};
use fidgp::posterior::PosteriorConfig;
use fidgp::weight::InducingConfig;
use fidgp_zoo::LayerPlan;
use fidgp_zoo::methods::batch_ensemble::BatchEnsembleConfig;

use crate::record::complexity::{LayerSizes, Subject};

/// The layer, with the flow of the table (a slope and a shift for each column).
pub(super) fn plan(subject: Subject, sizes: LayerSizes) -> LayerPlan {
    let inducing = |posterior: PosteriorConfig, conditional: Conditional, noise: NoiseOn| {
        let (rows, cols) = (sizes.inducing, sizes.inducing);
        let config = InducingConfig {
            inducing_rows: rows.into(),
            inducing_cols: cols.into(),
            posterior,
            ..InducingConfig::default()
        };
        LayerPlan::all(InducingConfig { conditional, noise, ..config })
    };
    let flow = || PosteriorConfig::Flow { flow: FlowConfig::Diagonal(DiagonalConfig::default()) };
    match subject {
        Subject::Deterministic => LayerPlan::dense(),
        Subject::BatchEnsemble => {
            let config = BatchEnsembleConfig { members: sizes.passes, ..BatchEnsembleConfig::default() };
            LayerPlan::dense().custom("*", config)
        }
        Subject::Ffgu => inducing(PosteriorConfig::Diagonal, Conditional::Matheron, NoiseOn::Weights),
        Subject::Reparam => inducing(flow(), Conditional::Reparam, NoiseOn::Outputs),
        Subject::Matheron => inducing(flow(), Conditional::Matheron, NoiseOn::Weights),
    }
}
