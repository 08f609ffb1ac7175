//! The content of `complexity.json`: the paper's complexity table beside what is counted and measured.

use serde::Serialize;

use super::Hardware;

/// One method at one size.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The method.
    pub method: &'static str,
    /// d_in = d_out.
    pub width: i64,
    /// M_in = M_out.
    pub inducing: i64,
    /// Numbers by the paper's storage formula, as printed.
    pub storage_paper: i64,
    /// The same with its two errors mended.
    pub storage_mended: i64,
    /// Trainable numbers that the layer really has.
    pub storage_counted: i64,
    /// Multiply-accumulates of N inputs and K passes by the paper's time formula.
    pub macs_paper: i64,
    /// By our order of evaluation, factorisations included.
    pub macs_ours: i64,
    /// Median time of such a prediction, factorisations included, in milliseconds.
    pub measured_ms: f64,
}

/// All rows.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// N.
    pub inputs: i64,
    /// K.
    pub passes: i64,
    /// The device in words.
    pub device: String,
    /// For growing d.
    pub by_width: Vec<Row>,
    /// For growing M.
    pub by_inducing: Vec<Row>,
    /// The commit of this program.
    pub commit: String,
    /// Where it ran.
    pub hardware: Hardware,
    /// The command that was given.
    pub command: Option<String>,
}

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

    /// Numbers by the printed formula.
    pub fn storage_paper(self, LayerSizes { width: d, inducing: m, passes: k, .. }: LayerSizes) -> i64 {
        match self {
            Self::Deterministic => d * d,
            Self::BatchEnsemble => k * d * d,
            Self::Ffgu => 2 * d * m + 2 * m * m,
            Self::Reparam => 2 * d * m + m,
            Self::Matheron => 2 * d * m + k * m * m + m,
        }
    }

    /// Numbers by the mended one.
    pub fn storage_mended(self, sizes: LayerSizes) -> i64 {
        let LayerSizes { width: d, inducing: m, passes: k, .. } = sizes;
        match self {
            Self::Deterministic | Self::Ffgu => self.storage_paper(sizes),
            Self::BatchEnsemble => d * d + 2 * k * d,
            Self::Reparam | Self::Matheron => 2 * d * m + 2 * m * m + m,
        }
    }

    /// Multiply-accumulates by the printed formula.
    pub fn macs_paper(self, LayerSizes { width: d, inducing: m, inputs: n, passes: k }: LayerSizes) -> i64 {
        let (cubes, draw) = (4 * m * m * m, k * (d * m * m + m * d * d));
        match self {
            Self::Deterministic => n * d * d,
            Self::BatchEnsemble => n * k * d * d,
            Self::Ffgu => n * k * d * d + cubes + draw,
            Self::Reparam => n * k * (d * d + m) + cubes,
            Self::Matheron => n * k * (d * d + m) + cubes + draw,
        }
    }
}
