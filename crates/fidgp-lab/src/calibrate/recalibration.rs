//! A map of probabilities, where examples that it was not fitted to speak for one.

use fidgp_decision::ClassEvidence;
use fidgp_metrics::recalibration::{Choice, MapKind, choose};

use crate::error::Result;

/// Which maps of probabilities are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recalibrate {
    /// All of them; the best is used if it is better than none.
    #[default]
    Best,
    /// One kind, used if it is better than none.
    Only(MapKind),
    /// None.
    Never,
}

impl Recalibrate {
    fn kinds(self) -> Vec<MapKind> {
        match self {
            Self::Best => MapKind::ALL.to_vec(),
            Self::Only(kind) => vec![kind],
            Self::Never => Vec::new(),
        }
    }

    /// The map for what a model says of labelled examples.
    pub(super) fn choose(self, said: &[ClassEvidence], labels: &[usize]) -> Result<Option<Choice>> {
        let (kinds, classes) = (self.kinds(), said.first().map_or(0, |one| one.probabilities.len()));
        if kinds.is_empty() || said.is_empty() {
            return Ok(None);
        }
        let normalised = |one: &ClassEvidence| {
            let sum: f64 = one.probabilities.iter().sum();
            one.probabilities.iter().map(|p| p / sum).collect::<Vec<_>>()
        };
        let probs: Vec<f64> = said.iter().flat_map(normalised).collect();
        Ok(Some(choose(&probs, classes, labels, &kinds)?))
    }
}
