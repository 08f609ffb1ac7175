//! A graph that another framework exported, as a network.

use std::path::{Path, PathBuf};

use fidgp::layer::Network;
use fidgp_onnx::{Graph, Import, Wanted};
use fidgp_zoo::{Architecture, Error, Result, Takes};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Whether a file is a graph, by its name.
pub fn is_graph(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("onnx"))
}

/// An ONNX file, and which of its inputs and outputs are meant.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphConfig {
    /// The .onnx file.
    pub path: PathBuf,
    /// The input that is meant, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// The output that is meant, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// SHA-256 of the file, with the data that lie beside it: another file is refused. A run writes it down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Outputs of the last layer: the data's; those of the file where nobody said.
    #[serde(skip)]
    pub outputs: Option<i64>,
    /// Whether the outputs are to be logits: a sigmoid at the end is left out then.
    #[serde(skip)]
    pub logits: bool,
    /// The copy in the folder of a run, which is read instead of the file.
    #[serde(skip)]
    pub kept: Option<PathBuf>,
}

/// What the config says, wherever the file lies now.
impl PartialEq for GraphConfig {
    fn eq(&self, other: &Self) -> bool {
        let same_file = self.sha256.is_none() || other.sha256.is_none() || self.sha256 == other.sha256;
        same_file && (&self.path, &self.input, &self.output) == (&other.path, &other.input, &other.output)
    }
}

impl GraphConfig {
    /// The file that is read: the copy of a run, else the one that was named.
    pub fn file(&self) -> &Path {
        self.kept.as_deref().unwrap_or(&self.path)
    }

    /// The whole graph in one piece, for the folder of a run or a model; with its digest.
    ///
    /// # Errors
    /// When the file cannot be read, or is another one than the config has the digest of.
    pub fn content(&self) -> Result<(Vec<u8>, String)> {
        let file = self.file();
        let refused = |why: String| Error::Network { key: "path", why: format!("= {}: {why}", file.display()) };
        let content = fidgp_onnx::self_contained(file).map_err(|error| refused(error.to_string()))?;
        let digest = format!("{:x}", Sha256::digest(&content));
        match &self.sha256 {
            Some(known) if *known != digest => Err(refused(format!(
                "has the SHA-256 {digest}, but network.sha256 = {known}: it was replaced since. Give the file of the training, \
                 or train anew without network.sha256"
            ))),
            _ => Ok((content, digest)),
        }
    }

    /// The graph as a network, with its numbers.
    ///
    /// # Errors
    /// When the file cannot be used; the message names the node.
    pub fn import(&self) -> Result<Import> {
        let path = self.file();
        if !path.exists() {
            let file = path.display();
            let why = format!("= {file} is not there; configs name it from the folder the command is given in");
            return Err(Error::Network { key: "path", why });
        }
        let wanted = Wanted {
            input: self.input.clone(),
            output: self.output.clone(),
            outputs: self.outputs,
            logits: self.logits,
        };
        if self.sha256.is_some() {
            self.content()?; // it is the file of the digest
        }
        let import = Graph::read(path).and_then(|graph| Import::new(graph, &wanted));
        import.map_err(|error| Error::Network { key: "path", why: format!("= {}: {error}", path.display()) })
    }
}

impl Architecture for GraphConfig {
    fn takes(&self) -> Takes {
        Takes::Any
    }

    fn fit(&mut self, _: &[i64], outputs: i64) -> Result<()> {
        self.outputs = Some(outputs);
        Ok(())
    }

    fn network(&self) -> Result<Box<dyn Network>> {
        Ok(Box::new(self.import()?.network))
    }

    fn name(&self) -> String {
        self.path.file_stem().map_or_else(|| "onnx".to_owned(), |name| format!("onnx-{}", name.display()))
    }
}
