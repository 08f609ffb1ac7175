//! `POST /predict`: a picture or a row, without a protocol to learn. Answers have the fields of
//! `fidgp predict --json`, and all probabilities.

use axum::extract::{FromRequest, Multipart, Request};
use axum::http::header::CONTENT_TYPE;
use serde::Deserialize;
use serde_json::Map;

use crate::failure::{self, Failure};
use crate::limits::Limits;
use crate::model::{Item, Options, Signature, Takes};
use crate::protocol::{BadRequest, check_count, level, options};
use crate::rows::rows;

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
        Ok((options(&named, signature, limits)?, level(&named, signature)?))
    }
}

/// The inputs of a request, each with a name for the answer.
pub async fn items(request: Request, signature: &Signature, limits: &Limits) -> Result<Vec<(String, Item)>, Failure> {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let items = match (&signature.takes, kind.as_str()) {
        (Takes::Pictures { .. }, "multipart/form-data") => files(request, limits).await?,
        (Takes::Pictures { .. }, kind) if kind.starts_with("image/") || kind == "application/octet-stream" => {
            let body = failure::body(request).await?;
            vec![("picture".to_owned(), Item::Picture(body.to_vec()))]
        }
        (Takes::Rows { .. }, "application/json") => {
            let body = failure::body(request).await?;
            let named = |(number, item)| (format!("row {number}"), item);
            rows(&body, signature, limits)?.into_iter().enumerate().map(named).collect()
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

async fn files(request: Request, limits: &Limits) -> Result<Vec<(String, Item)>, Failure> {
    let mut parts = Multipart::from_request(request, &()).await.map_err(|error| BadRequest::new(error.body_text()))?;
    let mut items = Vec::new();
    while let Some(part) = parts.next_field().await.map_err(|error| Failure::of_multipart(&error))? {
        check_count(items.len() + 1, limits)?;
        let name = part.file_name().or(part.name()).unwrap_or("picture").to_owned();
        let bytes = part.bytes().await.map_err(|error| Failure::of_multipart(&error))?;
        items.push((name, Item::Picture(bytes.to_vec())));
    }
    Ok(items)
}
