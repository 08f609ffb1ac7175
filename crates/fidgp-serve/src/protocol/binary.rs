//! The binary tensor extension: JSON first, its length in a header, then the tensors' bytes in order.

use super::BadRequest;

/// The name of the header that says how long the JSON is.
pub const JSON_LENGTH: &str = "inference-header-content-length";

/// A body in two parts.
#[derive(Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The JSON.
    pub json: &'a [u8],
    /// What follows it.
    pub tensors: &'a [u8],
}

/// Splits a body; without the header it is all JSON.
///
/// # Errors
/// When the header is no number, or longer than the body.
pub fn split<'a>(body: &'a [u8], header: Option<&str>) -> Result<Parts<'a>, BadRequest> {
    let Some(header) = header else { return Ok(Parts { json: body, tensors: &[] }) };
    let wrong =
        || BadRequest::new(format!("Inference-Header-Content-Length is {header:?}, the body has {} bytes", body.len()));
    let length: usize = header.trim().parse().map_err(|_| wrong())?;
    let (json, tensors) = body.split_at_checked(length).ok_or_else(wrong)?;
    Ok(Parts { json, tensors })
}

/// A JSON text and tensors as one body.
pub fn join(json: &str, tensors: &[Vec<u8>]) -> Vec<u8> {
    [json.as_bytes().to_vec(), tensors.concat()].concat()
}
