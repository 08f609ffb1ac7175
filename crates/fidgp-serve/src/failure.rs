//! Why a request was not answered.

use axum::Json;
use axum::body::Bytes;
use axum::extract::multipart::MultipartError;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::protocol::BadRequest;
use crate::queue::Refused;

/// Why a request was not answered.
#[derive(Debug)]
pub struct Failure {
    status: StatusCode,
    why: String,
    /// Seconds after which to try again, where that may help.
    again: u64,
}

impl Failure {
    /// A status and its reason.
    pub fn new(status: StatusCode, why: impl Into<String>) -> Self {
        Self { status, why: why.into(), again: 1 }
    }

    /// A body of a kind that the model does not take.
    pub fn unsupported(why: &str) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why)
    }

    /// A form that is broken or too large. What the reader has no status for is the sender's fault as well.
    pub fn of_multipart(error: &MultipartError) -> Self {
        let status = error.status();
        Self::new(if status.is_server_error() { StatusCode::BAD_REQUEST } else { status }, error.body_text())
    }
}

impl From<BadRequest> for Failure {
    fn from(error: BadRequest) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error.0)
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        let (status, again) = match refused {
            Refused::Full(again) => (StatusCode::TOO_MANY_REQUESTS, again),
            Refused::Gone => (StatusCode::SERVICE_UNAVAILABLE, 1),
        };
        Self { again, ..Self::new(status, refused.to_string()) }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(json!({"error": self.why}))).into_response();
        if matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(self.again));
        }
        response
    }
}

/// The body of a request, at most as large as may be.
///
/// # Errors
/// When it is larger, or ends early.
pub async fn body(request: Request) -> Result<Bytes, Failure> {
    Bytes::from_request(request, &()).await.map_err(|error| {
        let status = error.status();
        let why = if status == StatusCode::PAYLOAD_TOO_LARGE {
            "the body is too large".to_owned()
        } else {
            error.body_text()
        };
        Failure::new(status, why)
    })
}
