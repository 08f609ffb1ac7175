//! What rules for decisions are told of a prediction.

use fidgp_decision::evidence::Outside;
use fidgp_decision::{ClassEvidence, NumberEvidence};

use super::{ClassPrediction, NumberPrediction};
use crate::source::TableView;

impl ClassPrediction {
    /// What rules are told of it where it is of a row, given as the network takes it.
    pub fn evidence_of_row(&self, row: &[f64], view: Option<&TableView>) -> ClassEvidence {
        let outside = view.map_or_else(Outside::default, |view| view.outside(row));
        ClassEvidence { outside, ..self.evidence() }
    }

    /// What rules are told of it.
    pub fn evidence(&self) -> ClassEvidence {
        ClassEvidence {
            probabilities: self.probabilities.clone(),
            total: self.total,
            aleatoric: self.aleatoric,
            epistemic: self.epistemic,
            outside: Outside::default(),
        }
    }
}

impl NumberPrediction {
    /// What rules are told of it.
    pub fn evidence(&self, view: Option<&TableView>) -> NumberEvidence {
        NumberEvidence {
            mean: self.mean,
            sd: self.sd,
            epistemic_sd: self.epistemic_sd,
            outside: view.map_or_else(Outside::default, |view| view.outside(&self.features)),
        }
    }
}
