//! A graph written again: its inputs normalised inside, its weights drawn K times, their predictions put together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use prost::Message;
use tch::Tensor;

use crate::error::{Error, Result};
use crate::file::{self, External};
use crate::finish::{self, Outputs};
use crate::graph::constant_message;
use crate::import::{Import, Origin};
use crate::inline;
use crate::logits;
use crate::names;
use crate::proto::{GraphProto, ModelProto, NodeProto, StringStringEntryProto, TensorProto};
use crate::rules::{self, Rules};
use crate::tangent::{self, Linearised, Stated};
use crate::writer::{Writer, message};

/// Bytes of one message in the format of ONNX files.
const MOST_BYTES: u64 = (1 << 31) - 1;

/// A graph whose weights are to be others.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// A file, with the files its tensors lie in.
    File(&'a Path),
    /// A file in memory.
    Bytes(&'a [u8]),
}

impl Source<'_> {
    fn read(self) -> Result<ModelProto> {
        match self {
            Self::File(path) => file::read(path),
            Self::Bytes(bytes) => file::decode(bytes.to_vec().into()).map_err(Error::graph),
        }
    }

    fn external(self) -> External {
        match self {
            Self::File(path) => External::beside(path),
            Self::Bytes(_) => External::none(),
        }
    }
}

/// What is exported.
#[derive(Debug)]
pub struct Exported<'a> {
    /// The graph itself.
    pub source: Source<'a>,
    /// How it became a network.
    pub import: &'a Import,
    /// For each draw the values of the network's variables, by name.
    pub draws: Vec<BTreeMap<String, Tensor>>,
    /// Mean and deviation of every channel or feature: inputs come as they are, and are normalised inside.
    pub normalisation: Option<[Vec<f64>; 2]>,
    /// Axes of the input: 4 of pictures, 2 of rows.
    pub axes: usize,
    /// What comes out.
    pub outputs: Outputs,
    /// Rules that say what to do with it.
    pub rules: Option<Rules>,
    /// Free text by name, beside that of the source.
    pub metadata: BTreeMap<String, String>,
    /// Whether matrices are stored in f16; they are cast to f32 before they are used.
    pub half: bool,
    /// The law around the one draw that is given; the draws themselves are the law without it.
    pub linearised: Option<Linearised>,
}

impl Exported<'_> {
    /// The file.
    ///
    /// # Errors
    /// When the source cannot be read or used, or is older than opset 13.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let mut model = self.source.read()?;
        let mut graph = model.graph.take().unwrap_or_default();
        let opset = inline::opsets(&model.opset_import).get("").copied().unwrap_or(0);
        if opset < 13 {
            return Err(Error::graph(format!("its opset is {opset}; export the source again with opset 17 or later")));
        }
        load(&mut graph, self.source.external())?;
        self.promote(&mut graph);
        let mut writer = Writer { graph: GraphProto { name: "fidgp".to_owned(), ..GraphProto::default() } };
        let x = self.input(&mut writer, &graph)?;
        let outputs = self.copies(&mut writer, &graph, &x)?;
        self.finish(&mut writer, &x, &outputs)?;
        if let Some(rules) = &self.rules {
            rules::write(&mut writer, rules, (&self.import.network.input().name, &self.outputs))?;
        }
        writer.prune();
        if self.half {
            writer.halve()?;
        }
        check_names(&writer.graph)?;
        let mut metadata = self.import.metadata.clone();
        metadata.extend(self.metadata.clone());
        let entry =
            |(key, value): (&String, &String)| StringStringEntryProto { key: key.clone(), value: value.clone() };
        let written = ModelProto {
            ir_version: model.ir_version.max(8),
            producer_name: "fidgp".to_owned(),
            producer_version: env!("CARGO_PKG_VERSION").to_owned(),
            graph: Some(writer.graph),
            metadata_props: metadata.iter().map(entry).collect(),
            ..model
        };
        encoded(&written)
    }

    /// What is made of the network's outputs.
    fn finish(&self, writer: &mut Writer, x: &str, outputs: &[String]) -> Result<()> {
        let Some(law) = &self.linearised else {
            finish::write(writer, outputs, &self.outputs, None);
            return Ok(());
        };
        let stated = tangent::write(writer, self.import, law, (x, &outputs[0]))?;
        match (&self.outputs, stated, &law.normals) {
            (Outputs::Classes { classes, temperature, map }, stated, Some(normals)) => {
                logits::write(writer, &outputs[0], &stated, normals, (*classes, *temperature, map.as_ref()))
            }
            (Outputs::Numbers { .. }, Stated::Variance(variance), None) => {
                finish::write(writer, outputs, &self.outputs, Some(&(variance, law.curvature)));
                Ok(())
            }
            _ => Err(Error::graph(
                "a linearised posterior draws the logits of classes, and states the variance of numbers",
            )),
        }
    }

    /// Makes the network's weights that are Constant nodes into initialisers.
    fn promote(&self, graph: &mut GraphProto) {
        let wanted: BTreeSet<&str> = self.import.origins.iter().map(|origin| origin.initialiser.as_str()).collect();
        let mut promoted = Vec::new();
        graph.node.retain(|node| {
            let (Some(message), [name]) = (constant_message(node), &node.output[..]) else { return true };
            if !wanted.contains(name.as_str()) {
                return true;
            }
            promoted.push(TensorProto { name: name.clone(), ..message.clone() });
            false
        });
        graph.initializer.extend(promoted);
    }

    /// The input as the source takes it: its name.
    fn input(&self, writer: &mut Writer, graph: &GraphProto) -> Result<String> {
        let port = self.import.network.input();
        let info = graph.input.iter().find(|info| info.name == port.name).cloned();
        writer.graph.input.push(info.ok_or_else(|| Error::graph(format!("no input `{}`", port.name)))?);
        let Some([mean, sd]) = &self.normalisation else { return Ok(port.name.clone()) };
        let mut shape = vec![1; port.shape.as_ref().map_or(self.axes, Vec::len)];
        let channels = shape.get_mut(1);
        *channels.ok_or_else(|| Error::graph(format!("the input `{}` has no channels", port.name)))? =
            mean.len() as i64;
        let [mean, sd] = [mean, sd].map(|list| Tensor::from_slice(list).view(&shape[..]));
        let (mean, sd) = (writer.constant("fidgp/mean", &mean)?, writer.constant("fidgp/sd", &sd)?);
        let centred = writer.node("Sub", &[&port.name, &mean], "fidgp/centred");
        Ok(writer.node("Div", &[&centred, &sd], "fidgp/normalised"))
    }

    /// The source's nodes, those that a draw touches once for each draw. The names of the network's outputs.
    fn copies(&self, writer: &mut Writer, graph: &GraphProto, x: &str) -> Result<Vec<String>> {
        let output = &self.import.logits;
        let needed = needed(graph, output);
        if !graph.node.iter().any(|node| node.output.contains(output)) {
            return Err(Error::graph(format!(
                "the output `{output}` is within a function; export the source without functions"
            )));
        }
        let changed = self.changed(graph)?;
        let drawn: BTreeSet<&str> = if self.draws.len() > 1 { self.drawn()? } else { BTreeSet::new() };
        for tensor in graph.initializer.iter().filter(|tensor| needed.contains(tensor.name.as_str())) {
            if !drawn.contains(tensor.name.as_str()) {
                let own = changed.get(tensor.name.as_str()).map(|origin| self.value(0, origin, tensor)).transpose()?;
                let mut own = own.unwrap_or_else(|| tensor.clone());
                own.name = names::in_export(&tensor.name);
                writer.graph.initializer.push(own);
            }
        }
        let touched = touched(graph, &drawn);
        let is_layer =
            |name: &str| changed.get(name).is_some_and(|origin| origin.variable.strip_suffix(".value").is_none());
        let mut outputs = Vec::new();
        for draw in 0..self.draws.len() {
            for tensor in graph.initializer.iter().filter(|tensor| drawn.contains(tensor.name.as_str())) {
                let mut own = self.value(draw, changed[tensor.name.as_str()], tensor)?;
                own.name = of_draw(draw, &tensor.name);
                writer.graph.initializer.push(own);
            }
            let name = |name: &str| {
                if name == self.import.network.input().name {
                    return x.to_owned();
                }
                if touched.contains(name) { of_draw(draw, name) } else { names::in_export(name) }
            };
            for node in graph.node.iter().filter(|node| node.output.iter().any(|made| needed.contains(made.as_str()))) {
                let own = node.output.iter().any(|made| touched.contains(made.as_str()));
                if own || draw == 0 {
                    let norm = node.op_type == "BatchNormalization" && node.input.get(1).is_some_and(|x| is_layer(x));
                    let node = if norm { predicting(node) } else { node.clone() };
                    writer.graph.node.push(NodeProto {
                        name: if own { of_draw(draw, &node.name) } else { node.name.clone() },
                        input: node.input.iter().map(|one| name(one)).collect(),
                        output: node.output.iter().map(|one| name(one)).collect(),
                        ..node
                    });
                }
            }
            outputs.push(name(output));
        }
        Ok(outputs)
    }

    /// Initialisers that are variables of the network.
    fn changed(&self, graph: &GraphProto) -> Result<BTreeMap<&str, &Origin>> {
        let mut found = BTreeMap::new();
        for origin in &self.import.origins {
            if graph.initializer.iter().all(|tensor| tensor.name != origin.initialiser) {
                return Err(Error::graph(format!("`{}` is no initialiser of the graph itself", origin.initialiser)));
            }
            if let Some(other) = found.insert(origin.initialiser.as_str(), origin) {
                let (one, other) = (&origin.variable, &other.variable);
                let why = format!(
                    "`{}` is both `{one}` and `{other}`: export the source with PyTorch's newer exporter",
                    origin.initialiser
                );
                return Err(Error::graph(why));
            }
        }
        Ok(found)
    }

    /// Initialisers that differ between draws.
    fn drawn(&self) -> Result<BTreeSet<&str>> {
        let mut found = BTreeSet::new();
        for origin in &self.import.origins {
            let values = self.draws.iter().map(|draw| &draw[&origin.variable]);
            let first = &self.draws[0][&origin.variable];
            let mut differs = false;
            for value in values.skip(1) {
                differs |= !first.f_equal(value)?;
            }
            if differs {
                found.insert(origin.initialiser.as_str());
            }
        }
        Ok(found)
    }

    /// A variable as the source holds it.
    fn value(&self, draw: usize, origin: &Origin, like: &TensorProto) -> Result<TensorProto> {
        let value = &self.draws[draw][&origin.variable];
        if like.data_type != 1 {
            let why = format!("`{}` is not in f32; export the source in f32", origin.initialiser);
            return Err(Error::graph(why));
        }
        message(&like.name, &origin.in_file(value)?)
    }
}

/// BatchNorm of a network that was exported in training mode, which is to normalise with the statistics that were trained.
fn predicting(norm: &NodeProto) -> NodeProto {
    let mut norm = norm.clone();
    norm.attribute.retain(|attribute| attribute.name != "training_mode");
    norm.output.truncate(1);
    norm
}

/// The file of a graph with the data of all files its tensors lie in.
///
/// # Errors
/// When the file cannot be read, or is too large for one.
pub fn self_contained(source: &Path) -> Result<Vec<u8>> {
    let mut model = file::read(source)?;
    let mut graph = model.graph.take().unwrap_or_default();
    if graph.initializer.iter().all(|tensor| tensor.data_location != 1) {
        return fidgp_files::bytes(source).map_err(|error| Error::file(source, format!("cannot be read: {error}")));
    }
    load(&mut graph, External::beside(source))?;
    encoded(&ModelProto { graph: Some(graph), ..model })
}

/// The bytes of a model, which no reader takes from 2 GiB on.
fn encoded(model: &ModelProto) -> Result<Vec<u8>> {
    check_bytes(model.encoded_len() as u64)?;
    Ok(model.encode_to_vec())
}

/// Fails where a file would have more bytes than a reader takes.
///
/// # Errors
/// From 2 GiB on.
pub fn check_bytes(bytes: u64) -> Result<()> {
    if bytes > MOST_BYTES { Err(Error::graph(too_large(bytes))) } else { Ok(()) }
}

fn too_large(bytes: u64) -> String {
    let (have, most) = (bytes as f64 / 1e6, MOST_BYTES as f64 / 1e6);
    format!(
        "the file would have {have:.0} MB, and no runtime takes more than {most:.0} MB: store fewer draws, or use --dtype f16"
    )
}

/// Takes data of other files into this one.
fn load(graph: &mut GraphProto, mut external: External) -> Result<()> {
    for tensor in graph.initializer.iter_mut().filter(|tensor| tensor.data_location == 1) {
        let loaded = crate::constant::bytes_of(tensor, &mut external);
        let named = |problem| Error::graph(format!("initialiser `{}`: {problem}", tensor.name));
        tensor.raw_data = loaded.map_err(|problem| named(problem.to_string()))?;
        (tensor.data_location, tensor.external_data) = (0, Vec::new());
    }
    Ok(())
}

/// Fails where two values have one name, which no runtime takes.
fn check_names(graph: &GraphProto) -> Result<()> {
    let inputs = graph.input.iter().map(|info| info.name.as_str());
    let constants = graph.initializer.iter().map(|tensor| tensor.name.as_str());
    let made = graph.node.iter().flat_map(|node| node.output.iter().map(String::as_str));
    let mut known = BTreeSet::new();
    match inputs.chain(constants).chain(made).find(|name| !name.is_empty() && !known.insert(*name)) {
        Some(name) => Err(Error::graph(format!(
            "`{name}` would stand for two values of the exported graph: export the source with other names of inputs and outputs"
        ))),
        None => Ok(()),
    }
}

fn of_draw(draw: usize, name: &str) -> String {
    if name.is_empty() { String::new() } else { format!("draw{draw}/{name}") }
}

/// Everything an output depends on, by name.
fn needed<'a>(graph: &'a GraphProto, output: &'a str) -> BTreeSet<&'a str> {
    let mut needed = BTreeSet::from([output]);
    for node in graph.node.iter().rev() {
        if node.output.iter().any(|made| needed.contains(made.as_str())) {
            needed.extend(node.input.iter().map(String::as_str).filter(|name| !name.is_empty()));
        }
    }
    needed
}

/// Everything that depends on one of these values, and they themselves.
fn touched<'a>(graph: &'a GraphProto, from: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
    let mut touched = from.clone();
    for node in &graph.node {
        if node.input.iter().any(|name| touched.contains(name.as_str())) {
            touched.extend(node.output.iter().map(String::as_str).filter(|name| !name.is_empty()));
        }
    }
    touched
}
