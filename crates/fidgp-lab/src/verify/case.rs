//! Comparing what was computed with what the file expects.

use std::collections::BTreeSet;

use tch::{Device, Kind, Tensor};

use super::error::{Result, VerifyError};
use super::node::{Array, Node};
use super::row::{Row, Verdict};
use super::setting::Setting;

/// The rows of one case, as they come.
pub(super) struct Case {
    name: String,
    bound: f64,
    rows: Vec<Row>,
    /// Paths that have a row, or need none.
    seen: BTreeSet<String>,
}

impl Case {
    pub fn new(node: &Node, setting: Setting) -> Self {
        Self { name: node.path.clone(), bound: setting.precision.bound(), rows: Vec::new(), seen: BTreeSet::new() }
    }

    /// Compares the member `key` of `node` with what was computed.
    pub fn check(&mut self, node: &Node, key: &str, found: impl FnOnce() -> Result<Tensor>) {
        self.check_within(node, key, self.bound, found);
    }

    /// As [`Self::check`], with a bound of its own.
    pub fn check_within(&mut self, node: &Node, key: &str, bound: f64, found: impl FnOnce() -> Result<Tensor>) {
        self.check_as(node, key, &self.label(node, key), bound, found);
    }

    /// As [`Self::check`], under another name: for a second way to the same numbers.
    pub fn check_as(
        &mut self,
        node: &Node,
        key: &str,
        label: &str,
        bound: f64,
        found: impl FnOnce() -> Result<Tensor>,
    ) {
        self.seen.insert(node.path_of(key));
        let Some(expected) = node.get(key) else {
            return self.push(label, None, Verdict::NotChecked("not in the file".into()));
        };
        let compared = expected.array().and_then(|expected| Ok((found()?, expected)));
        match compared {
            Ok((found, expected)) => self.judge(label, &found, &expected, bound),
            Err(error @ VerifyError::Missing { .. }) => self.push(label, None, Verdict::NotChecked(error.to_string())),
            Err(error) => self.push(label, None, Verdict::Failed(error.first_line())),
        }
    }

    /// `error = max|Δ| / max(1, max|expected|)`, against the bound.
    fn judge(&mut self, label: &str, found: &Tensor, expected: &Array, bound: f64) {
        let shape = found.size();
        if shape != expected.shape && (found.numel() != 1 || expected.values.len() != 1) {
            let why = format!("computed shape {shape:?}, the file has {:?}", expected.shape);
            return self.push(label, None, Verdict::Failed(why));
        }
        let found = match plain(found) {
            Ok(found) => found,
            Err(error) => return self.push(label, None, Verdict::Failed(error.first_line())),
        };
        let comparison = Comparison::of(&found, expected);
        let verdict = comparison.verdict(&found, expected, bound);
        self.push(label, Some((comparison.absolute, comparison.relative, bound)), verdict);
    }

    /// A row for an estimate: passes when it is off by at most four of its standard errors.
    pub fn estimate(&mut self, node: &Node, key: &str, found: impl FnOnce() -> Result<Estimate>) {
        let label = self.label(node, key);
        self.seen.insert(node.path_of(key));
        let Some(expected) = node.get(key) else {
            return self.push(&label, None, Verdict::NotChecked("not in the file".into()));
        };
        let within = expected.number().and_then(|expected| Ok((expected, found()?)));
        match within {
            Ok((expected, found)) => {
                let scale = expected.abs().max(1.0);
                let (off, bound) = ((found.mean - expected).abs(), 4.0 * found.error);
                let why =
                    format!("{:.6} is not {expected:.6} within 4 standard errors of {:.1e}", found.mean, found.error);
                let verdict = if off <= bound { Verdict::Passed } else { Verdict::Failed(why) };
                self.push(&label, Some((off, off / scale, bound / scale)), verdict);
            }
            Err(error @ VerifyError::Missing { .. }) => self.push(&label, None, Verdict::NotChecked(error.to_string())),
            Err(error) => self.push(&label, None, Verdict::Failed(error.first_line())),
        }
    }

    /// A row that says why a quantity is not compared.
    pub fn skip(&mut self, node: &Node, key: &str, why: &str) {
        if let Some(entry) = node.get(key) {
            self.seen.insert(entry.path);
            self.push(&self.label(node, key), None, Verdict::NotChecked(why.to_owned()));
        }
    }

    /// Marks inputs that need no row of their own.
    pub fn uses(&mut self, node: &Node, keys: &[&str]) {
        self.seen.extend(keys.iter().map(|key| node.path_of(key)));
    }

    /// Says that the case could not be set up, and that nothing below the nodes was compared.
    pub fn give_up(&mut self, error: &VerifyError, nodes: &[&Node]) {
        self.push("inputs", None, Verdict::Failed(error.first_line()));
        for node in nodes {
            self.list(node, "its inputs cannot be used");
        }
    }

    /// Lists every entry of the node that has no row yet and is no remark.
    pub fn rest(&mut self, node: &Node) {
        self.list(node, "unknown key");
    }

    /// Lists them with a reason.
    pub fn list(&mut self, node: &Node, why: &str) {
        for (key, entry) in node.entries().unwrap_or_default() {
            let remark = key.ends_with("note") && entry.is_text();
            if !remark && !self.seen.contains(&entry.path) {
                self.seen.insert(entry.path.clone());
                self.push(&self.label(node, key), None, Verdict::NotChecked(why.to_owned()));
            }
        }
    }

    pub fn finish(self) -> Vec<Row> {
        self.rows
    }

    /// The path below the case, without the containers `inputs` and `expected`.
    fn label(&self, node: &Node, key: &str) -> String {
        let below = node.path.strip_prefix(&self.name).unwrap_or(&node.path).trim_start_matches('.');
        let below = below.strip_prefix("expected").unwrap_or(below).trim_start_matches('.');
        if below.is_empty() { key.to_owned() } else { format!("{below}.{key}") }
    }

    fn push(&mut self, quantity: &str, errors: Option<(f64, f64, f64)>, verdict: Verdict) {
        self.rows.push(Row {
            case: self.name.clone(),
            quantity: quantity.to_owned(),
            abs_error: errors.map(|errors| errors.0),
            rel_error: errors.map(|errors| errors.1),
            bound: errors.map(|errors| errors.2),
            verdict,
        });
    }
}

/// A mean over draws and the standard error of its difference from the expected one.
pub(super) struct Estimate {
    pub mean: f64,
    pub error: f64,
}

/// The largest difference between two arrays. NaN when a number on either side is not finite.
struct Comparison {
    absolute: f64,
    relative: f64,
    worst: usize,
}

impl Comparison {
    fn of(found: &[f64], expected: &Array) -> Self {
        let mut largest = Self { absolute: 0.0, relative: 0.0, worst: 0 };
        let mut scale = 1.0_f64;
        for (i, (found, expected)) in found.iter().zip(&expected.values).enumerate() {
            let off = (found - expected).abs();
            scale = scale.max(expected.abs());
            if !off.is_finite() {
                return Self { absolute: f64::NAN, relative: f64::NAN, worst: i };
            }
            if off > largest.absolute {
                largest = Self { absolute: off, worst: i, ..largest };
            }
        }
        Self { relative: largest.absolute / scale, ..largest }
    }

    fn verdict(&self, found: &[f64], expected: &Array, bound: f64) -> Verdict {
        if self.relative <= bound {
            return Verdict::Passed;
        }
        let place = if expected.shape.is_empty() {
            String::new()
        } else {
            format!(" at {:?}", place(self.worst, &expected.shape))
        };
        Verdict::Failed(format!("{} is not {}{place}", found[self.worst], expected.values[self.worst]))
    }
}

/// The indices of an entry of a row-major array.
fn place(mut flat: usize, shape: &[i64]) -> Vec<usize> {
    let mut indices: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&size| {
            let index = flat % size as usize;
            flat /= size as usize;
            index
        })
        .collect();
    indices.reverse();
    indices
}

/// The entries of a tensor, row by row.
pub(super) fn plain(tensor: &Tensor) -> Result<Vec<f64>> {
    let flat = tensor.detach().to_device(Device::Cpu).to_kind(Kind::Double).reshape([-1]);
    Ok(Vec::<f64>::try_from(flat)?)
}
