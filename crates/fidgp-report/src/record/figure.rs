use serde::{Deserialize, Serialize};

use super::{Classification, Forecasts, Regression1d, Segmentation};

/// The data of one figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Figure {
    /// A curve with its uncertainty.
    Regression1d(Regression1d),
    /// Predicted numbers beside the true ones.
    Forecasts(Forecasts),
    /// Confidence against truth.
    Classification(Classification),
    /// Class by class, at boundaries and inside objects.
    Segmentation(Box<Segmentation>),
}
