//! The answer to a request: the tensors that were asked for, as JSON or as bytes.

use serde_json::{Value, json};

use super::infer::RequestedOutput;
use super::metadata::{TensorMetadata, outputs};
use super::{BadRequest, Data, InferRequest};
use crate::answer::{Answer, Prediction};
use crate::model::Signature;

/// An output, and whether as bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    tensor: TensorMetadata,
    binary: bool,
}

/// What a request wants of the answer: all outputs where it names none.
///
/// # Errors
/// When it names one that the model does not have.
pub fn wanted(request: &InferRequest, signature: &Signature) -> Result<Vec<Wanted>, BadRequest> {
    let binary = request.parameters.get("binary_data_output").and_then(Value::as_bool).unwrap_or(false);
    let all = outputs(signature);
    let find = |output: &RequestedOutput| {
        let found = all.iter().find(|tensor| tensor.name == output.name);
        let names = || all.iter().map(|tensor| tensor.name.as_str()).collect::<Vec<_>>();
        let tensor = found.ok_or_else(|| {
            BadRequest::new(format!("the model has no output `{}`; there are {:?}", output.name, names()))
        })?;
        Ok(Wanted { tensor: tensor.clone(), binary: output.binary()?.unwrap_or(binary) })
    };
    match &request.outputs {
        Some(named) if !named.is_empty() => named.iter().map(find).collect(),
        _ => Ok(all.iter().map(|tensor| Wanted { tensor: tensor.clone(), binary }).collect()),
    }
}

/// The answer's JSON, and the tensors that follow it as bytes.
///
/// # Errors
/// When a number is not finite: JSON has none such, and nobody should act on it.
pub fn respond(
    (model, version): (&str, &str),
    id: Option<&str>,
    wanted: &[Wanted],
    answers: &[Answer],
) -> Result<(String, Vec<Vec<u8>>), BadRequest> {
    let (mut tensors, mut tails) = (Vec::new(), Vec::new());
    for Wanted { tensor, binary } in wanted {
        let data = column(&tensor.name, answers);
        if let Data::Numbers(numbers) = &data
            && numbers.iter().any(|number| !number.is_finite())
        {
            return Err(BadRequest::new(format!("output `{}` is not a finite number", tensor.name)));
        }
        let each = if answers.is_empty() { 0 } else { data.len() / answers.len() };
        let shape = if tensor.shape.len() == 1 { vec![answers.len()] } else { vec![answers.len(), each] };
        let mut written = json!({"name": tensor.name, "datatype": tensor.datatype, "shape": shape});
        if *binary {
            let bytes = data.to_bytes(tensor.datatype);
            written["parameters"] = json!({"binary_data_size": bytes.len()});
            tails.push(bytes);
        } else {
            written["data"] = match &data {
                Data::Bytes(files) if tensor.name == "map" => {
                    json!(files.iter().map(|file| base64(file)).collect::<Vec<_>>())
                }
                data => json!(data),
            };
        }
        tensors.push(written);
    }
    let mut body = json!({"model_name": model, "model_version": version, "outputs": tensors});
    if let Some(id) = id {
        body["id"] = id.into();
    }
    Ok((body.to_string(), tails))
}

/// One output of all answers, row-major.
fn column(name: &str, answers: &[Answer]) -> Data {
    if matches!(name, "class" | "set" | "decision" | "flags" | "map") {
        Data::Bytes(answers.iter().flat_map(|answer| texts(name, answer)).collect())
    } else {
        Data::Numbers(answers.iter().flat_map(|answer| numbers(name, answer)).collect())
    }
}

fn texts(name: &str, answer: &Answer) -> Vec<Vec<u8>> {
    let bytes = |text: &str| text.as_bytes().to_vec();
    match (name, &answer.prediction) {
        ("class", Prediction::Classes { best, .. }) => vec![bytes(&best.class)],
        ("set", Prediction::Classes { sets, .. }) => {
            sets.iter().map(|set| json!(set.classes).to_string().into_bytes()).collect()
        }
        ("map", Prediction::Pixels { map, .. }) => vec![map.clone()],
        ("decision", _) => vec![bytes(answer.verdict().unwrap_or_default())],
        ("flags", _) => vec![json!(answer.flags).to_string().into_bytes()],
        _ => Vec::new(),
    }
}

fn numbers(name: &str, answer: &Answer) -> Vec<f64> {
    if let (Some(ood), "ood_score" | "ood_p") = (&answer.ood, name) {
        return vec![if name == "ood_p" { ood.ood_p } else { ood.ood_score }];
    }
    match &answer.prediction {
        Prediction::Classes { probabilities: values, uncertainty, .. }
        | Prediction::Pixels { shares: values, uncertainty, .. } => match name {
            "probabilities" | "shares" => values.clone(),
            "total" => vec![uncertainty.total],
            "aleatoric" => vec![uncertainty.aleatoric],
            _ => vec![uncertainty.epistemic],
        },
        Prediction::Number { mean, sd, epistemic, aleatoric, intervals } => match name {
            "mean" => vec![*mean],
            "sd" => vec![*sd],
            "aleatoric" => vec![*aleatoric],
            "lower" => intervals.iter().map(|interval| interval.lower.max(f64::MIN)).collect(),
            "upper" => intervals.iter().map(|interval| interval.upper.min(f64::MAX)).collect(),
            _ => vec![*epistemic],
        },
    }
}

/// Bytes as text: JSON has no other way to hold a file.
pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let word = three.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        let letter = move |place: usize| {
            if place > three.len() { '=' } else { char::from(LETTERS[(word >> (18 - 6 * place) & 63) as usize]) }
        };
        (0..4).map(letter).collect::<Vec<_>>()
    };
    bytes.chunks(3).flat_map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        for (text, expected) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(text.as_bytes()), expected);
        }
    }
}
