//! A graph that another framework exported, as a network.

use std::path::PathBuf;

use fidgp::layer::Network;
use fidgp_onnx::{Graph, Import, Wanted};
use fidgp_zoo::{Architecture, Error, Result, Takes};
use serde::{Deserialize, Serialize};

/// An ONNX file, and which of its inputs and outputs are meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Outputs of the last layer: the data's; those of the file where nobody said.
    #[serde(skip)]
    pub outputs: Option<i64>,
}

impl GraphConfig {
    /// The graph as a network, with its numbers.
    ///
    /// # Errors
    /// When the file cannot be used; the message names the node.
    pub fn import(&self) -> Result<Import> {
        if !self.path.exists() {
            let file = self.path.display();
            let why = format!("= {file} is not there; configs name it from the folder the command is given in");
            return Err(Error::Network { key: "path", why });
        }
        let wanted = Wanted { input: self.input.clone(), output: self.output.clone(), outputs: self.outputs };
        let import = Graph::read(&self.path).and_then(|graph| Import::new(graph, &wanted));
        import.map_err(|error| Error::Network { key: "path", why: format!("= {}: {error}", self.path.display()) })
    }
}

impl Architecture for GraphConfig {
    fn takes(&self) -> Takes {
        Takes::TableOrImages
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
