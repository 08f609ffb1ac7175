use serde::Serialize;

use crate::record::nullable::number::serialize as number;

/// The lemma on every Bayesian layer.
#[derive(Clone, Debug, Serialize)]
pub struct Spectral {
    /// Most images of a set.
    pub images: usize,
    /// The layers, in the order of the network.
    pub layers: Vec<LayerSpectrum>,
    /// What it means, in words.
    pub says: String,
}

/// One layer.
#[derive(Clone, Debug, Serialize)]
pub struct LayerSpectrum {
    /// Its name.
    pub name: String,
    /// `σ_p λ (√d_in + √d_out)`, which the mean of ‖E‖ does not exceed.
    #[serde(serialize_with = "number")]
    pub noise_bound: f64,
    /// ‖E‖ of one draw, by power iteration.
    #[serde(serialize_with = "number")]
    pub noise_measured: f64,
    /// Directions inside the projection.
    pub rank: i64,
    /// The ID set.
    pub id: Residuals,
    /// The OoD sets.
    pub sets: Vec<SetSpectrum>,
}

/// Residuals of a set at one layer.
#[derive(Clone, Debug, Serialize)]
pub struct Residuals {
    /// S: the least s(x).
    #[serde(serialize_with = "number")]
    pub s_least: f64,
    /// The largest s(x); the lemma's proof has it 0 for ID inputs.
    #[serde(serialize_with = "number")]
    pub s_largest: f64,
    /// Quantiles of d(x): least, 5 %, median, 95 %, largest.
    pub d: [f64; 5],
}

/// One OoD set at one layer.
#[derive(Clone, Debug, Serialize)]
pub struct SetSpectrum {
    /// Its name.
    pub name: String,
    /// Its residuals.
    pub residuals: Residuals,
    /// The paper's inequality as measured: S of this set above 2‖E‖.
    pub inequality: bool,
    /// The lemma's conclusion as measured: every d(OoD) above every d(ID).
    pub separated: bool,
    /// `inf d(OoD) − sup d(ID)`.
    #[serde(serialize_with = "number")]
    pub margin: f64,
    /// The 5 % quantile of d(OoD) less the 95 % quantile of d(ID).
    #[serde(serialize_with = "number")]
    pub quantile_margin: f64,
    /// AUROC of d.
    #[serde(serialize_with = "number")]
    pub auroc: f64,
}
