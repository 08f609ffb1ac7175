//! Scores of class probabilities, and the ranking of two sets. Both are defined in f64, whatever the precision.

use fidgp_metrics::{OodScores, Predictions, ReliabilityTable};

use super::case::Case;
use super::error::{Result, VerifyError};
use super::node::Node;
use super::setting::{Setting, number};

pub(super) fn check(case: &mut Case, node: &Node, _root: &Node, _setting: Setting) {
    case.uses(node, &["probs", "targets", "ece"]);
    match Labelled::read(node) {
        Ok(labelled) => labelled.check(case, node),
        Err(error) => case.give_up(&error, &[node]),
    }
    case.rest(node);
}

struct Labelled {
    probs: Vec<f64>,
    classes: usize,
    labels: Vec<usize>,
}

impl Labelled {
    fn read(node: &Node) -> Result<Self> {
        let probs = node.need("probs")?;
        let array = probs.array()?;
        let [_, classes] = array.shape[..] else {
            return Err(VerifyError::malformed(&probs.path, format!("has shape {:?}, expected a matrix", array.shape)));
        };
        let targets = node.need("targets")?;
        let label = |label: i64| {
            usize::try_from(label).map_err(|_| VerifyError::malformed(&targets.path, "has a negative label"))
        };
        let labels = targets.integers()?.into_iter().map(label).collect::<Result<Vec<_>>>()?;
        Ok(Self { probs: array.values, classes: classes as usize, labels })
    }

    fn predictions(&self) -> Result<Predictions<'_>> {
        Ok(Predictions::new(&self.probs, self.classes, &self.labels)?)
    }

    fn check(&self, case: &mut Case, node: &Node) {
        for (bins, _) in node.get("ece").and_then(|ece| ece.entries().ok()).unwrap_or_default() {
            if let (Ok(count), Some(ece)) = (bins.parse::<usize>(), node.get("ece")) {
                case.check(&ece, bins, || {
                    let table = ReliabilityTable::equal_width(&self.predictions()?, count)?;
                    Ok(number(table.ece().value))
                });
            }
        }
        if let Some(ece) = node.get("ece") {
            case.rest(&ece);
        }
        case.check(node, "nll", || Ok(number(self.predictions()?.nll())));
        case.check(node, "acc", || Ok(number(self.predictions()?.accuracy())));
        case.check(node, "brier", || Ok(number(self.predictions()?.brier())));
    }
}

pub(super) fn check_auroc(case: &mut Case, node: &Node, _root: &Node, _setting: Setting) {
    case.uses(node, &["id", "ood"]);
    case.check(node, "auroc", || {
        let scores = |key: &str| Ok::<_, VerifyError>(node.need(key)?.array()?.values);
        Ok(number(OodScores::new(&scores("id")?, &scores("ood")?)?.auroc()))
    });
    case.rest(node);
}
