//! Bodies of requests, in a bounded memory.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::failure::Failure;
use crate::protocol::BadRequest;

/// Memory for bodies: four of the largest, whatever the number of connections.
#[derive(Debug)]
pub struct Room {
    /// Kibibytes that are free.
    memory: Arc<Semaphore>,
    /// Bytes of the largest body.
    most: usize,
}

impl Room {
    /// For bodies of at most so many bytes.
    pub fn new(most: usize) -> Self {
        Self { memory: Arc::new(Semaphore::new(Self::kibibytes(most))), most }
    }

    fn kibibytes(most: usize) -> usize {
        4 * (most / 1024 + 1)
    }

    /// Bytes that are taken.
    pub fn taken(&self) -> u64 {
        Self::kibibytes(self.most).saturating_sub(self.memory.available_permits()) as u64 * 1024
    }

    /// A request with its whole body, and the room that was taken for it.
    ///
    /// # Errors
    /// When the body is too large, broken, or there is no room.
    pub async fn received(&self, request: Request) -> Result<(Request, OwnedSemaphorePermit), Failure> {
        let (head, mut body) = request.into_parts();
        match self.whole(&head.headers, &mut body).await {
            Ok((bytes, room)) => Ok((Request::from_parts(head, Body::from(bytes)), room)),
            Err(failure) => {
                if !head.headers.contains_key(header::EXPECT) {
                    read_away(&mut body, self.most.saturating_mul(4)).await;
                }
                Err(failure)
            }
        }
    }

    /// The whole body, and the room that was taken for it. Room is taken for what has come, not for what was announced: who sends
    /// slowly holds up nobody.
    async fn whole(&self, headers: &HeaderMap, body: &mut Body) -> Result<(Vec<u8>, OwnedSemaphorePermit), Failure> {
        let most = self.most;
        let too_large = || {
            let why = format!("the body is larger than {most} bytes; the server's option --body-mb sets the limit");
            Failure::new(StatusCode::PAYLOAD_TOO_LARGE, why)
        };
        let full = |_| {
            Failure::new(StatusCode::SERVICE_UNAVAILABLE, "too many requests are being read; try again in a second")
        };
        let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if length.is_some_and(|length| length > most) {
            return Err(too_large());
        }
        let (mut bytes, mut room) = (Vec::new(), self.memory.clone().try_acquire_many_owned(1).map_err(full)?);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| BadRequest::new("the body is broken or ends early"))?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > most {
                return Err(too_large());
            }
            bytes.extend_from_slice(&data);
            let more = (bytes.len() / 1024 + 1).saturating_sub(room.num_permits()) as u32;
            room.merge(self.memory.clone().try_acquire_many_owned(more).map_err(full)?);
        }
        Ok((bytes, room))
    }
}

/// Reads on for a moment and keeps nothing. Who still sends when the connection is closed would not hear why.
async fn read_away(body: &mut Body, most: usize) {
    let reading = async {
        let mut read = 0;
        while let Some(Ok(frame)) = body.frame().await {
            read += frame.data_ref().map_or(0, Bytes::len);
            if read > most {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(2), reading).await;
}
