//! Graphs: every fixture of fidgp-onnx, and every file made to do harm.

use std::path::Path;

use fidgp_onnx::{Graph, Inspection, Plain, Wanted};
use tch::Kind;

use crate::crates;
use crate::targets::Target;

/// Read, looked at as a network, and made ready to be run as it is. Looking at it runs it once with one example.
pub fn of_graphs() -> Target {
    let fixtures = crates().join("fidgp-onnx/tests/fixtures");
    let read = |_: &Path, input: &[u8]| {
        let graph = Graph::of_bytes(input).map_err(|error| error.to_string())?;
        Plain::new(&graph, Kind::Float).map_err(|error| error.to_string())?;
        let inspection = Inspection::new(graph, &Wanted::default(), None);
        if inspection.is_understood() { Ok(()) } else { Err(inspection.to_string()) }
    };
    let corpus = [graphs(&fixtures), graphs(&fixtures.join("hostile"))].concat();
    Target { name: "onnx", weight: 1, corpus, read: Box::new(read), mend: |input| input }
}

fn graphs(folder: &Path) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(folder).expect("the fixtures").flatten().map(|entry| entry.path());
    let mut paths: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "onnx")).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a readable file")).collect()
}
