use serde::Serialize;

/// What the procedure gives.
#[derive(Clone, Debug, Serialize)]
pub struct PaperProtocol {
    /// The layers that were scored.
    pub layers: Vec<String>,
    /// Most images of a set.
    pub images: usize,
    /// AUROC of the ID images against the same ID images, for each repeat. Anything but 1/2 is an artefact.
    pub null: Vec<f64>,
    /// AUROC of the ID images against each set, for each repeat.
    pub sets: Vec<(String, Vec<f64>)>,
    /// Whether the null control held: exactly 1/2 every time.
    pub passed: bool,
}
