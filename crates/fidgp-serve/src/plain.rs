//! `POST /predict`: a picture or a row, without a protocol to learn. Answers are those of `fidgp predict --json`.

use axum::extract::{FromRequest, Multipart, Request};
use axum::http::header::CONTENT_TYPE;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::failure::{self, Failure};
use crate::limits::Limits;
use crate::model::{Item, Options, Signature, Takes};
use crate::protocol::{BadRequest, check_count, finite, level, options};

/// What may stand behind the question mark of `/predict`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// Which model, where several are served.
    pub model: Option<String>,
    /// Weight draws.
    pub draws: Option<u64>,
    /// Largest Monte-Carlo error of a probability.
    pub tolerance: Option<f64>,
    /// One level of sets or intervals.
    pub level: Option<f64>,
}

impl Query {
    /// The options among them, and the level.
    ///
    /// # Errors
    /// When one is out of range.
    pub fn options(&self, signature: &Signature, limits: &Limits) -> Result<(Options, Option<f64>), BadRequest> {
        let mut named = Map::new();
        if let Some(draws) = self.draws {
            named.insert("draws".to_owned(), draws.into());
        }
        if let Some(tolerance) = self.tolerance {
            named.insert("tolerance".to_owned(), tolerance.into());
        }
        if let Some(level) = self.level {
            named.insert("level".to_owned(), level.into());
        }
        Ok((options(&named, limits)?, level(&named, signature)?))
    }
}

/// Rows as JSON: values in the model's order, or by the names of its features.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    row: Option<Row>,
    #[serde(default)]
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Row {
    Values(Vec<Value>),
    Named(Map<String, Value>),
}

/// The inputs of a request, each with a name for the answer.
pub async fn items(request: Request, signature: &Signature, limits: &Limits) -> Result<Vec<(String, Item)>, Failure> {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let items = match (&signature.takes, kind.as_str()) {
        (Takes::Pictures { .. }, "multipart/form-data") => files(request).await?,
        (Takes::Pictures { .. }, kind) if kind.starts_with("image/") || kind == "application/octet-stream" => {
            let body = failure::body(request).await?;
            vec![("picture".to_owned(), Item::Picture(body.to_vec()))]
        }
        (Takes::Rows { features, mixed, .. }, "application/json") => {
            let body = failure::body(request).await?;
            rows(&body, features, *mixed)?
        }
        (Takes::Pictures { .. }, _) => {
            return Err(Failure::unsupported(
                "send a picture file (Content-Type: image/png, image/jpeg or image/webp), or several as multipart/form-data",
            ));
        }
        (Takes::Rows { .. }, _) => {
            return Err(Failure::unsupported(
                "send JSON (Content-Type: application/json): {\"row\": {\"feature\": 1.5, …}} or {\"rows\": [[1.5, …], …]}",
            ));
        }
    };
    check_count(items.len(), limits)?;
    Ok(items)
}

async fn files(request: Request) -> Result<Vec<(String, Item)>, Failure> {
    let mut parts = Multipart::from_request(request, &()).await.map_err(|error| BadRequest::new(error.body_text()))?;
    let mut items = Vec::new();
    while let Some(part) = parts.next_field().await.map_err(|error| Failure::of_multipart(&error))? {
        let name = part.file_name().or(part.name()).unwrap_or("picture").to_owned();
        let bytes = part.bytes().await.map_err(|error| Failure::of_multipart(&error))?;
        items.push((name, Item::Picture(bytes.to_vec())));
    }
    Ok(items)
}

fn rows(body: &[u8], features: &[String], mixed: bool) -> Result<Vec<(String, Item)>, BadRequest> {
    let read: Rows = serde_json::from_slice(body).map_err(|error| BadRequest::new(error.to_string()))?;
    if read.row.is_some() && !read.rows.is_empty() {
        return Err(BadRequest::new("give either `row` or `rows`"));
    }
    let rows = read.row.into_iter().chain(read.rows).enumerate();
    let item = |(number, row): (usize, Row)| {
        let item = values(row, features).and_then(|values| {
            let named = features.iter().zip(&values);
            if mixed {
                Ok(Item::Cells(named.map(|(name, value)| cell(name, value)).collect::<Result<_, _>>()?))
            } else {
                finite(named.map(|(name, value)| as_number(name, value)).collect::<Result<_, _>>()?)
            }
        });
        let item = item.map_err(|error| BadRequest::new(format!("row {number}: {error}")))?;
        Ok((format!("row {number}"), item))
    };
    rows.map(item).collect()
}

/// A value as the cell of a table; `null` is a missing one.
fn cell(name: &str, value: &Value) -> Result<String, BadRequest> {
    match value {
        Value::Null => Ok(String::new()),
        Value::Bool(yes) => Ok(yes.to_string()),
        Value::Number(number) => Ok(number.to_string()),
        Value::String(text) => Ok(text.clone()),
        Value::Array(_) | Value::Object(_) => {
            Err(BadRequest::new(format!("`{name}` is neither a number, a text, true or false, nor null")))
        }
    }
}

fn as_number(name: &str, value: &Value) -> Result<f64, BadRequest> {
    value.as_f64().ok_or_else(|| BadRequest::new(format!("`{name}` is not a number")))
}

fn values(row: Row, features: &[String]) -> Result<Vec<Value>, BadRequest> {
    match row {
        Row::Values(values) if values.len() == features.len() => Ok(values),
        Row::Values(values) => Err(BadRequest::new(format!(
            "has {} values, the model takes {}: {features:?}",
            values.len(),
            features.len()
        ))),
        Row::Named(named) => {
            if let Some(other) = named.keys().find(|name| !features.contains(name)) {
                return Err(BadRequest::new(format!("`{other}` is not one of the model's features {features:?}")));
            }
            let value =
                |name: &String| named.get(name).cloned().ok_or_else(|| BadRequest::new(format!("`{name}` is missing")));
            features.iter().map(value).collect()
        }
    }
}
