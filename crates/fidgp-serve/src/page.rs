//! The page at `/`: drop a picture or fill in a row, and see the answer with its uncertainty. No build step, no outside requests.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

/// Its text.
pub async fn html() -> Response {
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], include_str!("page/index.html")).into_response()
}

/// Its looks.
pub async fn css() -> Response {
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("page/page.css")).into_response()
}

/// All paths, what they take and what they answer, as OpenAPI says it.
pub async fn openapi() -> Response {
    ([(CONTENT_TYPE, "application/json")], include_str!("page/openapi.json")).into_response()
}

/// What it does.
pub async fn js() -> Response {
    ([(CONTENT_TYPE, "text/javascript; charset=utf-8")], include_str!("page/page.js")).into_response()
}
