//! Every formula of the project against reference numbers.
//!
//! A golden file holds cases: inputs, and the quantities that follow from them, computed in f64 by other code. The
//! check runs the project's own functions on those inputs, in f64 or f32 and on any device, and compares. Sizes,
//! jitters and the number of cases all come from the file; what it does not know it lists as not checked.
//!
//! ```
//! use fidgp_lab::verify::{Precision, Summary, render, verify};
//!
//! let file = r#"{"auroc": {"id": [0.1, 0.4], "ood": [0.4, 0.9], "auroc": 0.875}, "novelty": 1}"#;
//! let rows = verify(file, Precision::F64, tch::Device::Cpu)?;
//! assert_eq!(Summary::of(&rows).to_string(), "1 passed, 0 failed, 1 not checked");
//! println!("{}", render(&rows));
//! # Ok::<(), fidgp_lab::verify::VerifyError>(())
//! ```

mod baselines;
mod case;
mod counts;
mod covariance;
mod error;
mod inducing;
mod kl_flow;
mod literal_flow;
mod metrics;
mod node;
mod projector;
mod released_flow;
mod render;
mod row;
mod setting;

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;
use tch::Device;

use case::Case;
use node::{Node, quote_non_finite};
use setting::Setting;

pub use error::{Result, VerifyError};
pub use render::render;
pub use row::{Row, Summary, Verdict};
pub use setting::Precision;

/// The reference numbers that ship with the project.
pub const GOLDEN: &str = include_str!("../../golden/golden.json");

/// Checks one case. `root` is for cases that refer to others.
type Check = fn(case: &mut Case, node: &Node, root: &Node, setting: Setting);

/// What the check knows, in the order of the report.
const FAMILIES: [(&str, Check); 17] = [
    ("inducing", inducing::check),
    ("bayesianize_crosscheck", elsewhere),
    ("released_flow", released_flow::check),
    ("kl_flow", kl_flow::check),
    ("paper_literal_flow", literal_flow::check),
    ("projector", projector::check),
    ("ood_score", projector::check_score),
    ("metrics", metrics::check),
    ("auroc", metrics::check_auroc),
    ("batchensemble_linear", baselines::check_batch_ensemble),
    ("sngp_head", baselines::check_sngp),
    ("ddu", baselines::check_ddu),
    ("svgp_whitened", baselines::check_svgp),
    ("param_counts", counts::check_parameters),
    ("macs", counts::check_macs),
    ("note", remark),
    ("notes", remark),
];

/// Checks every case of a golden file.
///
/// # Errors
/// When the file is not JSON, is not an object, or a family in it is neither an object nor a list of objects; the
/// error names the place. Everything smaller is a row that failed or was not checked.
pub fn verify(json: &str, precision: Precision, device: Device) -> Result<Vec<Row>> {
    let file: Value = serde_json::from_str(&quote_non_finite(json))?;
    let root = Node::root(&file);
    let setting = Setting { precision, device };
    let mut rows = Vec::new();
    let known = |key: &str| FAMILIES.iter().any(|(family, _)| *family == key);
    for (family, check) in FAMILIES {
        let Some(node) = root.get(family).filter(|node| !(is_remark(family) && node.is_text())) else { continue };
        for case in node.cases()? {
            rows.extend(guarded(&case, &root, setting, check));
        }
    }
    for (key, _) in root.entries()?.into_iter().filter(|(key, _)| !known(key)) {
        rows.push(Row {
            case: key.to_owned(),
            quantity: "all".to_owned(),
            abs_error: None,
            rel_error: None,
            bound: None,
            verdict: Verdict::NotChecked("unknown key".to_owned()),
        });
    }
    Ok(rows)
}

fn is_remark(family: &str) -> bool {
    family.starts_with("note")
}

/// Runs a check. Inputs are validated before libtorch sees them; should it panic all the same, the case has failed and
/// the others go on.
fn guarded(node: &Node, root: &Node, setting: Setting, check: Check) -> Vec<Row> {
    let mut case = Case::new(node, setting);
    let outcome = catch_unwind(AssertUnwindSafe(|| check(&mut case, node, root, setting)));
    if let Err(panic) = outcome {
        let words = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        let why =
            format!("could not be computed ({})", words.unwrap_or("no message").lines().next().unwrap_or_default());
        case.give_up(&VerifyError::malformed(&node.path, why), &[node]);
    }
    case.finish()
}

/// How another program agreed with the file: there is nothing to compute.
fn elsewhere(case: &mut Case, node: &Node, _root: &Node, _setting: Setting) {
    case.list(node, "says how another program agreed with the file");
}

fn remark(case: &mut Case, node: &Node, _root: &Node, _setting: Setting) {
    case.list(node, "a remark");
}
