//! A graph that is being written.

use std::collections::BTreeSet;

use tch::{Kind, Tensor};

use crate::error::Result;
use crate::proto::{
    AttributeKind, AttributeProto, DimensionProto, GraphProto, Length, NodeProto, TensorProto, TensorShapeProto,
    TensorTypeProto, TypeProto, ValueInfoProto,
};

/// A tensor as a message in f32, or in i64.
pub(crate) fn message(name: &str, tensor: &Tensor) -> Result<TensorProto> {
    let (dims, flat) = (tensor.size(), tensor.f_to_device(tch::Device::Cpu)?.f_reshape([-1])?);
    let name = name.to_owned();
    if tensor.kind() == Kind::Int64 {
        let bytes: Vec<u8> = Vec::<i64>::try_from(flat)?.into_iter().flat_map(i64::to_le_bytes).collect();
        return Ok(TensorProto { name, dims, data_type: 7, raw_data: bytes.into(), ..TensorProto::default() });
    }
    let numbers = Vec::<f32>::try_from(flat.f_to_kind(Kind::Float)?)?;
    let bytes: Vec<u8> = numbers.into_iter().flat_map(f32::to_le_bytes).collect();
    Ok(TensorProto { name, dims, data_type: 1, raw_data: bytes.into(), ..TensorProto::default() })
}

/// A matrix's numbers in f16; none where one of them is too large for it, or where it is no matrix of the
/// source in f32.
fn halved(tensor: &TensorProto) -> Result<Option<TensorProto>> {
    if tensor.data_type != 1 || tensor.dims.len() < 2 || tensor.name.starts_with("fidgp/") {
        return Ok(None);
    }
    let Ok(held) = crate::constant::tensor(tensor, &mut crate::file::External::none()) else { return Ok(None) };
    let half = held.f_to_kind(Kind::Half)?;
    if half.f_isfinite()?.f_all()?.int64_value(&[]) == 0 {
        return Ok(None);
    }
    let bits = Vec::<i16>::try_from(half.f_view_dtype(Kind::Int16)?.f_reshape([-1])?)?;
    let raw_data = bits.into_iter().flat_map(i16::to_le_bytes).collect::<Vec<u8>>().into();
    let name = format!("{}/f16", tensor.name);
    Ok(Some(TensorProto { name, dims: tensor.dims.clone(), data_type: 10, raw_data, ..TensorProto::default() }))
}

/// A graph that is being written.
#[derive(Debug)]
pub(crate) struct Writer {
    pub graph: GraphProto,
}

impl Writer {
    /// Adds a constant; its name.
    pub(crate) fn constant(&mut self, name: &str, tensor: &Tensor) -> Result<String> {
        self.graph.initializer.push(message(name, tensor)?);
        Ok(name.to_owned())
    }

    /// Drops constants that nothing uses.
    pub(crate) fn prune(&mut self) {
        let used: BTreeSet<&str> = self.graph.node.iter().flat_map(|node| &node.input).map(String::as_str).collect();
        self.graph.initializer.retain(|tensor| used.contains(tensor.name.as_str()));
    }

    /// Stores matrices in f16, and casts them before they are used.
    pub(crate) fn halve(&mut self) -> Result<()> {
        let mut casts = Vec::new();
        for tensor in &mut self.graph.initializer {
            let Some(half) = halved(tensor)? else { continue };
            casts.push((half.name.clone(), std::mem::replace(tensor, half).name));
        }
        let made = std::mem::take(&mut self.graph.node);
        for (half, name) in casts {
            self.node_with("Cast", &[&half], &name, &[("to", 1)]);
        }
        self.graph.node.extend(made);
        Ok(())
    }

    /// Adds a constant number; its name.
    pub(crate) fn number(&mut self, name: &str, value: f64) -> String {
        let raw_data = (value as f32).to_le_bytes().to_vec().into();
        self.graph.initializer.push(TensorProto {
            name: name.to_owned(),
            data_type: 1,
            raw_data,
            ..TensorProto::default()
        });
        name.to_owned()
    }

    /// Adds a list of numbers; its name.
    pub(crate) fn numbers(&mut self, name: &str, values: &[f64]) -> String {
        let raw_data = values.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect::<Vec<_>>().into();
        let dims = vec![values.len() as i64];
        self.graph.initializer.push(TensorProto {
            name: name.to_owned(),
            dims,
            data_type: 1,
            raw_data,
            ..TensorProto::default()
        });
        name.to_owned()
    }

    /// Adds a list of whole numbers; its name.
    pub(crate) fn whole(&mut self, name: &str, values: &[i64]) -> String {
        let raw_data = values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>().into();
        let dims = vec![values.len() as i64];
        self.graph.initializer.push(TensorProto {
            name: name.to_owned(),
            dims,
            data_type: 7,
            raw_data,
            ..TensorProto::default()
        });
        name.to_owned()
    }

    /// Adds a node with one output; its name.
    pub(crate) fn node(&mut self, operator: &str, inputs: &[&str], output: &str) -> String {
        self.node_with(operator, inputs, output, &[])
    }

    /// The same with settings, whole numbers.
    pub(crate) fn node_with(
        &mut self,
        operator: &str,
        inputs: &[&str],
        output: &str,
        settings: &[(&str, i64)],
    ) -> String {
        let setting = |(name, value): &(&str, i64)| AttributeProto {
            name: (*name).to_owned(),
            i: *value,
            r#type: AttributeKind::Int as i32,
            ..AttributeProto::default()
        };
        self.graph.node.push(NodeProto {
            input: inputs.iter().map(ToString::to_string).collect(),
            output: vec![output.to_owned()],
            name: output.to_owned(),
            op_type: operator.to_owned(),
            attribute: settings.iter().map(setting).collect(),
            ..NodeProto::default()
        });
        output.to_owned()
    }

    /// Names an output of the graph in f32, one row for each example.
    pub(crate) fn output(&mut self, name: &str, columns: Option<i64>) {
        self.output_of(1, name, columns);
    }

    /// Names an output that says yes or no.
    pub(crate) fn truth(&mut self, name: &str, columns: Option<i64>) {
        self.output_of(9, name, columns);
    }

    fn output_of(&mut self, elem_type: i32, name: &str, columns: Option<i64>) {
        let fixed = columns.map(|columns| DimensionProto { value: Some(Length::Fixed(columns)) });
        let rows = DimensionProto { value: Some(Length::Named("N".to_owned())) };
        let shape = TensorShapeProto { dim: std::iter::once(rows).chain(fixed).collect() };
        let tensor_type = Some(TensorTypeProto { elem_type, shape: Some(shape) });
        self.graph.output.push(ValueInfoProto { name: name.to_owned(), r#type: Some(TypeProto { tensor_type }) });
    }
}

/// Nodes and constants whose names are a prefix and a number.
pub(crate) struct Made<'a> {
    pub(crate) writer: &'a mut Writer,
    prefix: &'static str,
    count: usize,
}

impl<'a> Made<'a> {
    pub(crate) fn new(writer: &'a mut Writer, prefix: &'static str) -> Self {
        Self { writer, prefix, count: 0 }
    }

    pub(crate) fn name(&mut self) -> String {
        self.count += 1;
        format!("{}/{}", self.prefix, self.count)
    }

    pub(crate) fn node(&mut self, operator: &str, inputs: &[&str]) -> String {
        self.node_with(operator, inputs, &[])
    }

    pub(crate) fn node_with(&mut self, operator: &str, inputs: &[&str], settings: &[(&str, i64)]) -> String {
        let name = self.name();
        self.writer.node_with(operator, inputs, &name, settings)
    }

    pub(crate) fn number(&mut self, value: f64) -> String {
        let name = self.name();
        self.writer.number(&name, value)
    }

    pub(crate) fn list(&mut self, values: &[i64]) -> String {
        let name = self.name();
        self.writer.whole(&name, values)
    }
}
