//! What came of an import.

use std::collections::HashSet;
use std::fmt::{self, Display, Formatter};

use serde::Serialize;

/// What an import found; names of the network unless said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ImportReport {
    /// Found under the same name.
    pub matched: Vec<String>,
    /// Found under another name: (name in the file, name in the network).
    pub renamed: Vec<(String, String)>,
    /// In the network but not in the file.
    pub missing: Vec<String>,
    /// In the file but not in the network, by the file's names.
    pub unexpected: Vec<String>,
    /// Found with another shape.
    pub shape_mismatch: Vec<Mismatch>,
}

/// A tensor with two shapes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    /// Its name in the network.
    pub name: String,
    /// Its shape in the file.
    pub file: Vec<i64>,
    /// Its shape in the network.
    pub network: Vec<i64>,
}

impl ImportReport {
    /// Tensors that have a value in the file.
    pub fn found(&self) -> usize {
        self.matched.len() + self.renamed.len()
    }

    /// How many tensors there are of each kind.
    pub fn line(&self) -> String {
        let [matched, renamed] = [self.matched.len(), self.renamed.len()];
        let [missing, unused] = [self.missing.len(), self.unexpected.len()];
        format!("{matched} tensors matched, {renamed} renamed, {missing} missing, {unused} unused")
    }

    /// Layers of the file none of whose tensors has a place in the network, by the file's names.
    pub fn unused_layers(&self) -> Vec<&str> {
        let renamed = self.renamed.iter().map(|(from, _)| from);
        let other_shape = self.shape_mismatch.iter().map(|mismatch| &mismatch.name);
        let used: HashSet<&str> =
            self.matched.iter().chain(renamed).chain(other_shape).map(|name| layer_of(name)).collect();
        let mut unused: Vec<&str> = self.unexpected.iter().map(|name| layer_of(name)).collect();
        unused.retain(|layer| !used.contains(layer));
        unused.sort_unstable();
        unused.dedup();
        unused
    }
}

/// `layer1.0.conv1` of `layer1.0.conv1.weight`.
fn layer_of(tensor: &str) -> &str {
    tensor.rsplit_once('.').map_or(tensor, |(layer, _)| layer)
}

/// Names shown in one row of the table.
const SHOWN: usize = 6;

impl Display for ImportReport {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let renamed = self.renamed.iter().map(|(from, to)| format!("{from} > {to}")).collect::<Vec<_>>();
        let shapes =
            self.shape_mismatch.iter().map(|m| format!("{} {:?} in the file, {:?} here", m.name, m.file, m.network));
        row(f, "matched", &self.matched, 0)?;
        row(f, "renamed", &renamed, 3)?;
        row(f, "missing", &self.missing, SHOWN)?;
        row(f, "unexpected", &self.unexpected, SHOWN)?;
        row(f, "other shape", &shapes.collect::<Vec<_>>(), SHOWN)
    }
}

fn row(f: &mut Formatter, label: &str, names: &[String], shown: usize) -> fmt::Result {
    let listed = names.iter().take(shown).cloned().collect::<Vec<_>>().join(", ");
    let more =
        if shown > 0 && names.len() > shown { format!(", and {} more", names.len() - shown) } else { String::new() };
    let line = format!("{label:<12} {:>5}  {listed}{more}", names.len());
    writeln!(f, "{}", line.trim_end())
}
