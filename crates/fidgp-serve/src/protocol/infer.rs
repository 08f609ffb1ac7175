//! A request to infer: tensors in, and what is wanted of the answer.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::scalars::scalars;
use super::{BadRequest, Data, Datatype, Parts};
use crate::limits::Limits;
use crate::model::{Item, Options, Signature, Takes};

/// A request as it comes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InferRequest {
    /// Chosen by the client, sent back.
    pub id: Option<String>,
    /// The model of the path once more, as KServe's client sends it.
    pub model_name: Option<String>,
    /// Its version once more.
    pub model_version: Option<String>,
    /// `draws`, `tolerance`, `level`, `binary_data_output`.
    #[serde(default, deserialize_with = "scalars")]
    pub parameters: Map<String, Value>,
    /// Tensors.
    pub inputs: Vec<RequestTensor>,
    /// Which outputs are wanted; all without it.
    pub outputs: Option<Vec<RequestedOutput>>,
}

/// A tensor of a request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestTensor {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<u64>,
    /// The type of its elements.
    pub datatype: Datatype,
    /// `binary_data_size`.
    #[serde(default, deserialize_with = "scalars")]
    pub parameters: Map<String, Value>,
    /// Its elements, unless they follow as bytes.
    pub data: Option<Data>,
}

/// An output that is wanted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestedOutput {
    /// Its name.
    pub name: String,
    /// `binary_data`.
    #[serde(default, deserialize_with = "scalars")]
    pub parameters: Map<String, Value>,
}

impl InferRequest {
    /// Reads a body, tensors as bytes included.
    ///
    /// # Errors
    /// When it is not what the protocol says; the message names the field.
    pub fn read(parts: &Parts, limits: &Limits) -> Result<Self, BadRequest> {
        let mut request: Self =
            serde_json::from_slice(parts.json).map_err(|error| BadRequest::new(error.to_string()))?;
        let mut rest = parts.tensors;
        for tensor in &mut request.inputs {
            tensor.check_rows(limits)?; // before its bytes become anything larger
            tensor.take_bytes(&mut rest)?;
            tensor.check()?;
        }
        if rest.is_empty() {
            return Ok(request);
        }
        Err(BadRequest::new(format!("{} bytes follow the JSON that no input asks for by binary_data_size", rest.len())))
    }

    /// Refuses a request that names another model or version than its path.
    ///
    /// # Errors
    /// When it does.
    pub fn check_address(&self, model: &str, version: &str) -> Result<(), BadRequest> {
        for (field, given, served) in
            [("model_name", &self.model_name, model), ("model_version", &self.model_version, version)]
        {
            if let Some(given) = given.as_ref().filter(|given| *given != served) {
                return Err(BadRequest::new(format!("{field} is {given:?}, the path leads to {served:?}")));
            }
        }
        Ok(())
    }
}

impl RequestTensor {
    /// Refuses more inputs than a request may hold by what the shape says.
    fn check_rows(&self, limits: &Limits) -> Result<(), BadRequest> {
        let rows = self.shape.first().copied().unwrap_or(1);
        if rows <= limits.inputs() as u64 {
            return Ok(());
        }
        Err(BadRequest::new(format!("input `{}`: {}", self.name, too_many(rows, limits))))
    }

    /// Takes its elements from the bytes behind the JSON, where it says that they are there.
    fn take_bytes(&mut self, rest: &mut &[u8]) -> Result<(), BadRequest> {
        only_parameter(&self.parameters, "binary_data_size", &self.name)?;
        let Some(size) = self.parameters.get("binary_data_size") else { return Ok(()) };
        let name = &self.name;
        if self.data.is_some() {
            return Err(BadRequest::new(format!("input `{name}` has both data and binary_data_size")));
        }
        let size = size.as_u64().and_then(|size| usize::try_from(size).ok());
        let size =
            size.ok_or_else(|| BadRequest::new(format!("input `{name}`: binary_data_size is no whole number")))?;
        let Some((bytes, others)) = rest.split_at_checked(size) else {
            let why = format!("input `{name}`: binary_data_size is {size}, {} bytes are left", rest.len());
            return Err(BadRequest::new(why));
        };
        let data = Data::from_bytes(self.datatype, bytes)
            .map_err(|error| BadRequest::new(format!("input `{name}`: {error}")))?;
        (self.data, *rest) = (Some(data), others);
        Ok(())
    }

    /// Whether shape, type and elements fit.
    fn check(&self) -> Result<(), BadRequest> {
        let name = &self.name;
        let Some(data) = &self.data else { return Err(BadRequest::new(format!("input `{name}` has no data"))) };
        if (self.datatype == Datatype::Bytes) != matches!(data, Data::Bytes(_)) && !data.is_empty() {
            return Err(BadRequest::new(format!("input `{name}`: its data are not of its datatype")));
        }
        let wanted = self.shape.iter().try_fold(1_u64, |product, side| product.checked_mul(*side));
        if wanted == Some(data.len() as u64) {
            return Ok(());
        }
        Err(BadRequest::new(format!("input `{name}`: shape {:?} does not fit {} elements", self.shape, data.len())))
    }
}

/// What the request asks for in its parameters. `binary_data_output` is read elsewhere.
///
/// # Errors
/// On a parameter that is not known, cannot be, or means nothing to the model.
pub fn options(parameters: &Map<String, Value>, signature: &Signature, limits: &Limits) -> Result<Options, BadRequest> {
    let mut options = Options::default();
    for (name, value) in parameters {
        match name.as_str() {
            "draws" => {
                let draws = value.as_u64().filter(|draws| (1..=limits.draws).contains(draws));
                let wrong = || BadRequest::new(format!("draws must be a whole number from 1 to {}", limits.draws));
                options.draws = Some(draws.ok_or_else(wrong)?);
            }
            "tolerance" if !signature.bears_tolerance() => {
                let why = "tolerance is for models that classify pictures; ask this one for more `draws` instead";
                return Err(BadRequest::new(why));
            }
            "tolerance" => {
                let tolerance = value.as_f64().filter(|tolerance| *tolerance > 0.0 && *tolerance < 1.0);
                let wrong = || BadRequest::new("tolerance must be a number between 0 and 1; 0.01 is one per cent");
                options.tolerance = Some(tolerance.ok_or_else(wrong)?);
            }
            "level" => {}
            "binary_data_output" if value.is_boolean() => {}
            "binary_data_output" => return Err(BadRequest::new("binary_data_output must be true or false")),
            _ => {
                return Err(BadRequest::new(format!(
                    "parameter `{name}` is not known; there are draws, tolerance, level and binary_data_output"
                )));
            }
        }
    }
    Ok(options)
}

/// The one level of sets or intervals that a request asks for; all of them without it.
///
/// # Errors
/// When the model was not calibrated for it.
pub fn level(parameters: &Map<String, Value>, signature: &Signature) -> Result<Option<f64>, BadRequest> {
    let Some(value) = parameters.get("level") else { return Ok(None) };
    let known = |level: &f64| signature.levels.iter().any(|known| (known - level).abs() < 1e-9);
    let levels = &signature.levels;
    let unknown = || {
        BadRequest::new(format!("level {value} is not one that this model was calibrated for; there are {levels:?}"))
    };
    value.as_f64().filter(known).ok_or_else(unknown).map(Some)
}

/// Refuses parameters of a tensor that mean nothing here.
fn only_parameter(parameters: &Map<String, Value>, known: &str, tensor: &str) -> Result<(), BadRequest> {
    match parameters.keys().find(|name| *name != known) {
        Some(other) => Err(BadRequest::new(format!("`{tensor}`: parameter `{other}` is not known; there is {known}"))),
        None => Ok(()),
    }
}

impl RequestedOutput {
    /// Whether it is wanted as bytes, where it says so.
    ///
    /// # Errors
    /// On any other parameter.
    pub fn binary(&self) -> Result<Option<bool>, BadRequest> {
        only_parameter(&self.parameters, "binary_data", &self.name)?;
        let wrong = || BadRequest::new(format!("`{}`: binary_data must be true or false", self.name));
        self.parameters.get("binary_data").map(|flag| flag.as_bool().ok_or_else(wrong)).transpose()
    }
}

/// The inputs of a model in a request's tensors.
///
/// # Errors
/// When the tensors are not those of the model, or are too many.
pub fn items(tensors: &[RequestTensor], signature: &Signature, limits: &Limits) -> Result<Vec<Item>, BadRequest> {
    let items = match &signature.takes {
        Takes::Pictures { size } => pictures(only(tensors, &["image", "picture"])?, *size)?,
        Takes::Rows { features, columns, .. } if !columns.is_empty() => cells(tensors, features)?,
        Takes::Rows { features, .. } if is_matrix(tensors) => matrix(only(tensors, &["row"])?, features.len())?,
        Takes::Rows { features, .. } => columns(tensors, features)?,
    };
    check_count(items.len(), limits)?;
    Ok(items)
}

/// Refuses a request of nothing, or of too much.
///
/// # Errors
/// So.
pub fn check_count(count: usize, limits: &Limits) -> Result<(), BadRequest> {
    match count {
        0 => Err(BadRequest::new("the request has no inputs")),
        count if count > limits.inputs() => Err(BadRequest::new(too_many(count as u64, limits))),
        _ => Ok(()),
    }
}

/// That a request holds too much.
pub fn too_many(count: u64, limits: &Limits) -> String {
    let of_queue = if limits.queue < limits.items { ", as many as may wait (the server's option --queue)" } else { "" };
    format!("{count} inputs are more than the {} of a request{of_queue}", limits.inputs())
}

fn only<'a>(tensors: &'a [RequestTensor], names: &[&str]) -> Result<&'a RequestTensor, BadRequest> {
    match tensors {
        [tensor] if names.contains(&tensor.name.as_str()) => Ok(tensor),
        _ => {
            let given: Vec<_> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
            Err(BadRequest::new(format!("inputs are {given:?}, the model takes one of {names:?}")))
        }
    }
}

/// Picture files, or pixels in the model's own size.
fn pictures(tensor: &RequestTensor, size: Option<[i64; 3]>) -> Result<Vec<Item>, BadRequest> {
    match (&tensor.data, size) {
        (Some(Data::Bytes(files)), _) => Ok(files.iter().cloned().map(Item::Picture).collect()),
        (Some(data @ (Data::Numbers(_) | Data::Octets(_))), Some(size)) => {
            let wanted = size.map(|side| side as u64);
            if tensor.shape.len() != 4 || tensor.shape[1..] != wanted {
                let why = format!(
                    "input `{}` has shape {:?}, the model takes [N, {}, {}, {}]",
                    tensor.name, tensor.shape, size[0], size[1], size[2]
                );
                return Err(BadRequest::new(why));
            }
            let each = wanted.iter().product::<u64>().max(1) as usize;
            let Data::Numbers(numbers) = data else {
                return Ok(data.octets().chunks_exact(each).map(of_octets).collect());
            };
            if numbers.iter().any(|pixel| !(0.0..=255.0).contains(pixel)) {
                return Err(BadRequest::new(format!(
                    "input `{}`: pixels are numbers from 0 to 255, not normalised",
                    tensor.name
                )));
            }
            let of_numbers = |pixels: &[f64]| Item::Pixels(pixels.iter().map(|pixel| *pixel as f32).collect());
            Ok(numbers.chunks_exact(each).map(of_numbers).collect())
        }
        _ => Err(BadRequest::new("this model takes picture files (datatype BYTES)")),
    }
}

fn of_octets(pixels: &[u8]) -> Item {
    Item::Pixels(pixels.iter().map(|pixel| f32::from(*pixel)).collect())
}

/// The numbers of a tensor.
fn numbers(tensor: &RequestTensor) -> Result<Cow<'_, [f64]>, BadRequest> {
    let wrong = || BadRequest::new(format!("input `{}` must hold numbers", tensor.name));
    tensor.data.as_ref().and_then(Data::numbers).ok_or_else(wrong)
}

fn is_matrix(tensors: &[RequestTensor]) -> bool {
    matches!(tensors, [tensor] if tensor.name == "row")
}

/// All features in one tensor. `[N, features]`
fn matrix(tensor: &RequestTensor, features: usize) -> Result<Vec<Item>, BadRequest> {
    let numbers = numbers(tensor)?;
    if tensor.shape.len() != 2 || tensor.shape[1] != features as u64 {
        return Err(BadRequest::new(format!(
            "input `row` has shape {:?}, the model takes [N, {features}]",
            tensor.shape
        )));
    }
    numbers.chunks_exact(features.max(1)).map(|row| finite(row.to_vec())).collect()
}

/// A tensor for each feature, by name. `[N]` or `[N, 1]` each
fn columns(tensors: &[RequestTensor], features: &[String]) -> Result<Vec<Item>, BadRequest> {
    let matrix = format!(", or one [N, {}] called `row`", features.len());
    let read = |tensor: &RequestTensor| numbers(tensor).map(Cow::into_owned);
    by_name(tensors, features, &matrix, read)?.into_iter().map(finite).collect()
}

/// The same for models whose columns hold more than numbers: texts (datatype BYTES), of which an empty one is a missing value,
/// or numbers.
fn cells(tensors: &[RequestTensor], features: &[String]) -> Result<Vec<Item>, BadRequest> {
    let texts = |tensor: &RequestTensor| match &tensor.data {
        Some(Data::Bytes(texts)) => {
            let text = |bytes: &Vec<u8>| String::from_utf8(bytes.clone());
            let wrong = |_| BadRequest::new(format!("input `{}` holds a text that is not UTF-8", tensor.name));
            texts.iter().map(text).collect::<Result<Vec<_>, _>>().map_err(wrong)
        }
        _ => Ok(numbers(tensor)?.iter().map(f64::to_string).collect()),
    };
    Ok(by_name(tensors, features, "", texts)?.into_iter().map(Item::Cells).collect())
}

/// The rows of tensors, one for each feature.
fn by_name<T: Clone>(
    tensors: &[RequestTensor],
    features: &[String],
    or: &str,
    read: impl Fn(&RequestTensor) -> Result<Vec<T>, BadRequest>,
) -> Result<Vec<Vec<T>>, BadRequest> {
    let column = |name: &String| {
        let tensor = tensors.iter().find(|tensor| tensor.name == *name);
        let missing = || BadRequest::new(format!("there is no input `{name}`; the model takes {features:?}{or}"));
        read(tensor.ok_or_else(missing)?)
    };
    if let Some(other) = tensors.iter().find(|tensor| !features.contains(&tensor.name)) {
        return Err(BadRequest::new(format!("input `{}` is not one of the model's {features:?}", other.name)));
    }
    let columns = features.iter().map(column).collect::<Result<Vec<_>, _>>()?;
    let rows = columns.first().map_or(0, Vec::len);
    if columns.iter().any(|column| column.len() != rows) {
        return Err(BadRequest::new("the inputs have different numbers of rows"));
    }
    Ok((0..rows).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect())
}

/// A row without NaN and infinity.
pub fn finite(row: Vec<f64>) -> Result<Item, BadRequest> {
    match row.iter().position(|value| !value.is_finite()) {
        Some(place) => Err(BadRequest::new(format!("feature {place} is not a finite number"))),
        None => Ok(Item::Row(row)),
    }
}
