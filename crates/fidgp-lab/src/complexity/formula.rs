//! The lines of the paper's complexity table, as printed and mended.

use fidgp::conditional::{Conditional, NoiseOn};
use fidgp::flow::{DiagonalConfig, FlowConfig};
use fidgp::posterior::PosteriorConfig;
use fidgp::weight::InducingConfig;
use fidgp_zoo::baseline::batch_ensemble::BatchEnsembleConfig;
use fidgp_zoo::baseline::slot::BaselineSlot;
use fidgp_zoo::{LayerPlan, RuleSlot};

/// The letters of the formulas; d_in = d_out = d and M_in = M_out = M.
#[derive(Clone, Copy, Debug)]
pub struct LayerSizes {
    /// d.
    pub width: i64,
    /// M.
    pub inducing: i64,
    /// N.
    pub inputs: i64,
    /// K.
    pub passes: i64,
}

/// A line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Plain weights.
    Deterministic,
    /// K members by rank-one factors.
    BatchEnsemble,
    /// Inducing weights, diagonal posterior.
    Ffgu,
    /// Inducing weights, flow, noise drawn elementwise.
    Reparam,
    /// Inducing weights, flow, Matheron draws.
    Matheron,
}

impl Subject {
    /// In the order of the table.
    pub const ALL: [Self; 5] = [Self::Deterministic, Self::BatchEnsemble, Self::Ffgu, Self::Reparam, Self::Matheron];

    /// As the table calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deterministic => "Deterministic",
            Self::BatchEnsemble => "BatchEnsemble",
            Self::Ffgu => "FFG-U",
            Self::Reparam => "FiD-GP, Reparam",
            Self::Matheron => "FiD-GP, Matheron",
        }
    }

    /// Storage as printed.
    pub fn storage_formula(self) -> &'static str {
        match self {
            Self::Deterministic => "d_in·d_out",
            Self::BatchEnsemble => "K·d_in·d_out",
            Self::Ffgu => "d_in·M_in + d_out·M_out + 2·M_in·M_out",
            Self::Reparam => "d_in·M_in + d_out·M_out + M_in",
            Self::Matheron => "d_in·M_in + d_out·M_out + K·M_in·M_out + M_in",
        }
    }

    /// Storage as it is: mean and deviation of q(U) are parameters of FiD-GP too, K draws of U are not; members of a
    /// BatchEnsemble share their weight.
    pub fn mended_formula(self) -> &'static str {
        match self {
            Self::Deterministic | Self::Ffgu => self.storage_formula(),
            Self::BatchEnsemble => "d_in·d_out + K(d_in + d_out)",
            Self::Reparam | Self::Matheron => "d_in·M_in + d_out·M_out + 2·M_in·M_out + M_in",
        }
    }

    /// Time as printed.
    pub fn time_formula(self) -> &'static str {
        match self {
            Self::Deterministic => "N·d_in·d_out",
            Self::BatchEnsemble => "N·K·d_in·d_out",
            Self::Ffgu => "N·K·d_in·d_out + 2M_in³ + 2M_out³ + K(d_out·M_out·M_in + M_in·d_out·d_in)",
            Self::Reparam => "N·K(d_in·d_out + M_in) + 2M_in³ + 2M_out³",
            Self::Matheron => "N·K(d_in·d_out + M_in) + 2M_in³ + 2M_out³ + K(d_out·M_out·M_in + M_in·d_out·d_in)",
        }
    }

    pub(super) fn storage_paper(self, LayerSizes { width: d, inducing: m, passes: k, .. }: LayerSizes) -> i64 {
        match self {
            Self::Deterministic => d * d,
            Self::BatchEnsemble => k * d * d,
            Self::Ffgu => 2 * d * m + 2 * m * m,
            Self::Reparam => 2 * d * m + m,
            Self::Matheron => 2 * d * m + k * m * m + m,
        }
    }

    pub(super) fn storage_mended(self, sizes: LayerSizes) -> i64 {
        let LayerSizes { width: d, inducing: m, passes: k, .. } = sizes;
        match self {
            Self::Deterministic | Self::Ffgu => self.storage_paper(sizes),
            Self::BatchEnsemble => d * d + 2 * k * d,
            Self::Reparam | Self::Matheron => 2 * d * m + 2 * m * m + m,
        }
    }

    pub(super) fn macs_paper(self, LayerSizes { width: d, inducing: m, inputs: n, passes: k }: LayerSizes) -> i64 {
        let (cubes, draw) = (4 * m * m * m, k * (d * m * m + m * d * d));
        match self {
            Self::Deterministic => n * d * d,
            Self::BatchEnsemble => n * k * d * d,
            Self::Ffgu => n * k * d * d + cubes + draw,
            Self::Reparam => n * k * (d * d + m) + cubes,
            Self::Matheron => n * k * (d * d + m) + cubes + draw,
        }
    }

    /// The layer, with the flow of the table (a slope and a shift for each column).
    pub(super) fn plan(self, sizes: LayerSizes) -> LayerPlan {
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
        match self {
            Self::Deterministic => LayerPlan::dense(),
            Self::BatchEnsemble => {
                let config = BatchEnsembleConfig { members: sizes.passes, ..BatchEnsembleConfig::default() };
                LayerPlan::dense().rule("*", None, RuleSlot::Baseline(BaselineSlot::BatchEnsemble(config)))
            }
            Self::Ffgu => inducing(PosteriorConfig::Diagonal, Conditional::Matheron, NoiseOn::Weights),
            Self::Reparam => inducing(flow(), Conditional::Reparam, NoiseOn::Outputs),
            Self::Matheron => inducing(flow(), Conditional::Matheron, NoiseOn::Weights),
        }
    }
}
