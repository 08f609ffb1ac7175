use serde::{Deserialize, Serialize};

use super::Classification;

/// A segmentation class by class, at boundaries and inside objects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Segmentation {
    /// Scores of each class, in the order of their ids.
    pub classes: Vec<ClassScore>,
    /// Pixels within two rows and columns of another class.
    pub boundary: Boundary,
    /// All others.
    pub interior: Boundary,
    /// Confidence of pixels against truth.
    pub pixels: Classification,
    /// Names of the maps in the run's `maps/` folder.
    #[serde(default)]
    pub maps: Vec<String>,
}

/// One class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassScore {
    /// Its name.
    pub name: String,
    /// Its pixels in the test set.
    pub pixels: u64,
    /// Intersection over union; none where it neither occurs nor is predicted.
    pub iou: Option<f64>,
    /// Share of its pixels that were given it; none where it does not occur.
    pub accuracy: Option<f64>,
}

/// Means over some pixels; none where there are none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Boundary {
    /// How many.
    pub pixels: u64,
    /// Share of wrong ones.
    pub error: Option<f64>,
    /// Total uncertainty, nats.
    pub total: Option<f64>,
    /// Aleatoric part, nats.
    pub aleatoric: Option<f64>,
    /// Epistemic part, nats.
    pub epistemic: Option<f64>,
}
