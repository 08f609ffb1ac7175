//! Paths and what is done for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::timeout::TimeoutLayer;

use crate::answer::Answer;
use crate::bodies::Room;
use crate::failure::{Failure, body};
use crate::limits::Limits;
use crate::log::{PredictionLog, Source};
use crate::metrics::ModelMetrics;
use crate::model::{Item, ModelError, Options, Takes};
use crate::plain;
use crate::protocol::{self, BadRequest, IndexRequest, InferRequest, ServerMetadata};
use crate::repository::{Repository, Served};
use crate::security::{Neighbours, Token};

/// What all requests share.
#[derive(Debug)]
pub struct App {
    /// The models.
    pub repository: Repository,
    /// Bounds.
    pub limits: Limits,
    /// Asked for, where there is one.
    pub token: Option<Token>,
    /// Looked for where there is none.
    pub neighbours: Neighbours,
    /// Where answers are written.
    pub log: Option<PredictionLog>,
    /// Whether models may be loaded and unloaded by request.
    pub control: bool,
    /// Whether new requests are taken.
    pub ready: AtomicBool,
    /// Memory for bodies.
    pub room: Room,
    /// Numbers requests that bring no id.
    pub requests: AtomicU64,
}

type Shared = State<Arc<App>>;

/// All paths.
pub fn router(app: Arc<App>) -> Router {
    let (time, body) = (app.limits.time, app.limits.body);
    let open = Router::new()
        .route("/", get(crate::page::html))
        .route("/page.css", get(crate::page::css))
        .route("/page.js", get(crate::page::js))
        .route("/openapi.json", get(crate::page::openapi))
        .route("/v2/health/live", get(|| async { Json(json!({"live": true})) }))
        .route("/v2/health/ready", get(ready));
    let closed = Router::new()
        .route("/predict", post(predict))
        .route("/v2", get(|| async { Json(ServerMetadata::default()) }))
        .route("/v2/models/{model}", get(model_metadata))
        .route("/v2/models/{model}/versions/{version}", get(model_metadata))
        .route("/v2/models/{model}/ready", get(model_ready))
        .route("/v2/models/{model}/versions/{version}/ready", get(model_ready))
        .route("/v2/models/{model}/infer", post(infer))
        .route("/v2/models/{model}/versions/{version}/infer", post(infer))
        .route("/v2/repository/index", post(index).get(index))
        .route("/v2/repository/models/{model}/load", post(load))
        .route("/v2/repository/models/{model}/unload", post(unload))
        .route("/metrics", get(metrics))
        .layer(middleware::from_fn_with_state(app.clone(), admit));
    open.merge(closed)
        .fallback(|| async { Failure::new(StatusCode::NOT_FOUND, "there is nothing at this path; see GET v2") })
        .method_not_allowed_fallback(|| async {
            Failure::new(StatusCode::METHOD_NOT_ALLOWED, "this path takes another method")
        })
        .layer(DefaultBodyLimit::max(body))
        .layer(CatchPanicLayer::custom(|_| {
            Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "the server failed; its log says more").into_response()
        }))
        .layer(TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, time))
        .layer(middleware::from_fn_with_state(app.clone(), frame))
        .with_state(app)
}

/// Puts ids and safe headers around every answer, makes every error JSON, and counts it.
async fn frame(State(app): Shared, request: Request, next: Next) -> Response {
    let source = Source { request: request_id(&app, request.headers()), trace: trace_id(request.headers()) };
    let passed_on: Vec<_> = ["traceparent", "tracestate"]
        .into_iter()
        .filter_map(|name| Some((HeaderName::from_static(name), request.headers().get(name)?.clone())))
        .collect();
    let (method, path, begun) = (request.method().clone(), request.uri().path().to_owned(), Instant::now());
    let mut request = request;
    request.extensions_mut().insert(source.clone());
    let mut response = next.run(request).await;
    let status = response.status();
    if status.is_client_error() || status.is_server_error() {
        app.repository.metrics.refused(status.as_u16());
        if response.headers().get(header::CONTENT_TYPE).is_none_or(|kind| kind != "application/json") {
            let why = if status == StatusCode::SERVICE_UNAVAILABLE {
                "the request took too long"
            } else {
                status.canonical_reason().unwrap_or("refused")
            };
            response = Failure::new(status, why).into_response();
        }
    }
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&source.request) {
        headers.insert("x-request-id", id);
    }
    headers.extend(passed_on);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    let (id, trace_id) = (source.request, source.trace);
    let (status, ms) = (status.as_u16(), begun.elapsed().as_secs_f64() * 1e3);
    tracing::info!(target: "serve", %method, path, status, id, trace_id, ms);
    response
}

/// The id of the trace that a request belongs to: `traceparent` is `00-TRACE-SPAN-FLAGS`.
fn trace_id(headers: &HeaderMap) -> Option<String> {
    let mut parts = headers.get("traceparent")?.to_str().ok()?.split('-');
    let (_, trace) = (parts.next()?, parts.next()?);
    let hex = trace.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    (trace.len() == 32 && hex && trace.bytes().any(|byte| byte != b'0')).then(|| trace.to_owned())
}

/// The id of a request, as it came or new.
fn request_id(app: &App, headers: &HeaderMap) -> String {
    let given = headers.get("x-request-id").and_then(|id| id.to_str().ok());
    let sound = |id: &&str| !id.is_empty() && id.len() <= 128 && id.bytes().all(|byte| byte.is_ascii_graphic());
    given.filter(sound).map_or_else(|| format!("fidgp-{}", app.requests.fetch_add(1, Ordering::Relaxed)), str::to_owned)
}

/// Refuses who brings no token, and takes no more bodies than memory was set aside for.
async fn admit(State(app): Shared, request: Request, next: Next) -> Response {
    if app.token.as_ref().is_some_and(|token| !token.is_in(request.headers())) {
        let mut response =
            Failure::new(StatusCode::UNAUTHORIZED, "send the header `Authorization: Bearer TOKEN`").into_response();
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return response;
    }
    let refused = app.token.is_none().then(|| app.neighbours.refuse(request.method(), request.headers())).flatten();
    if let Some(why) = refused {
        return Failure::new(StatusCode::FORBIDDEN, why).into_response();
    }
    if request.headers().get(header::CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
        return Failure::unsupported("send the body as it is, without Content-Encoding").into_response();
    }
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    match app.room.received(request).await {
        Ok((request, _place)) => next.run(request).await,
        Err(failure) => failure.into_response(),
    }
}

async fn ready(State(app): Shared) -> Response {
    let all = app.repository.list().iter().all(|listed| listed.state == "READY");
    if all && app.ready.load(Ordering::Relaxed) {
        return Json(json!({"ready": true})).into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"ready": false}))).into_response()
}

/// A model's name and, where the path has one, its version.
#[derive(Debug, serde::Deserialize)]
struct Address {
    model: String,
    version: Option<String>,
}

fn find(app: &App, address: &Address) -> Result<Arc<Served>, Failure> {
    let missing = || {
        Failure::new(
            StatusCode::NOT_FOUND,
            format!("no model called `{}` is served; see POST v2/repository/index", address.model),
        )
    };
    let served = app.repository.get(&address.model).ok_or_else(missing)?;
    match &address.version {
        Some(version) if *version != served.version => Err(Failure::new(
            StatusCode::NOT_FOUND,
            format!("`{}` has version {}, not {version}", address.model, served.version),
        )),
        _ => Ok(served),
    }
}

async fn model_metadata(State(app): Shared, Path(address): Path<Address>) -> Result<Response, Failure> {
    let served = find(&app, &address)?;
    Ok(Json(protocol::metadata(&address.model, &served.version, served.queue.signature())).into_response())
}

async fn model_ready(State(app): Shared, Path(address): Path<Address>) -> Result<Response, Failure> {
    find(&app, &address)?;
    Ok(Json(json!({"name": address.model, "ready": true})).into_response())
}

async fn index(State(app): Shared, request: Request) -> Result<Response, Failure> {
    let asked = IndexRequest::read(&body(request).await?)?;
    let mut listed = app.repository.list();
    listed.retain(|model| !asked.ready || model.state == "READY");
    Ok(Json(listed).into_response())
}

async fn load(State(app): Shared, Path(name): Path<String>, request: Request) -> Result<Response, Failure> {
    control(&app)?;
    protocol::check_control(&body(request).await?)?;
    let loading = app.clone();
    let done = tokio::task::spawn_blocking(move || loading.repository.load(&name)).await;
    done.unwrap_or_else(|error| Err(error.to_string())).map_err(|why| {
        tracing::warn!(target: "serve", "load: {why}");
        Failure::new(StatusCode::BAD_REQUEST, "the model could not be loaded; the server's log says why")
    })?;
    Ok(Json(json!({})).into_response())
}

async fn unload(State(app): Shared, Path(name): Path<String>, request: Request) -> Result<Response, Failure> {
    control(&app)?;
    protocol::check_control(&body(request).await?)?;
    app.repository.unload(&name).map_err(|why| Failure::new(StatusCode::BAD_REQUEST, why))?;
    Ok(Json(json!({})).into_response())
}

fn control(app: &App) -> Result<(), Failure> {
    let off = || {
        Failure::new(
            StatusCode::FORBIDDEN,
            "models cannot be loaded or unloaded here; start the server with --allow-control",
        )
    };
    app.control.then_some(()).ok_or_else(off)
}

async fn metrics(State(app): Shared) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    (kind, app.repository.metrics.text(&app.repository.waiting(), app.room.taken())).into_response()
}

async fn infer(State(app): Shared, Path(address): Path<Address>, request: Request) -> Result<Response, Failure> {
    let served = find(&app, &address)?;
    let source = source_of(&request);
    let length = request.headers().get(protocol::JSON_LENGTH).map(|length| length.to_str().unwrap_or("").to_owned());
    let body = body(request).await?;
    let request = InferRequest::read(&protocol::split(&body, length.as_deref())?, &app.limits)?;
    request.check_address(&address.model, &served.version)?;
    let wanted = protocol::wanted(&request, served.queue.signature())?;
    let options = protocol::options(&request.parameters, served.queue.signature(), &app.limits)?;
    let level = protocol::level(&request.parameters, served.queue.signature())?;
    let items = protocol::items(&request.inputs, served.queue.signature(), &app.limits)?;
    let answers = ask(&app, &served, (&address.model, source), items, (options, Needs::All)).await?;
    let sound = |(place, answer): (usize, Result<Answer, ModelError>)| {
        answer.map(|answer| at(level, answer)).map_err(|error| of_model(&error, &format!("input {place}: ")))
    };
    let answers = answers.into_iter().enumerate().map(sound).collect::<Result<Vec<_>, _>>()?;
    let responded = protocol::respond((&address.model, &served.version), request.id.as_deref(), &wanted, &answers);
    let (json, tensors) = responded.map_err(|error| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, error.0))?;
    let kind =
        HeaderValue::from_static(if tensors.is_empty() { "application/json" } else { "application/octet-stream" });
    let mut response = Response::new(Body::from(protocol::join(&json, &tensors)));
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    if !tensors.is_empty() {
        response.headers_mut().insert(protocol::JSON_LENGTH, HeaderValue::from(json.len()));
    }
    Ok(response)
}

async fn predict(
    State(app): Shared,
    query: Result<Query<plain::Query>, axum::extract::rejection::QueryRejection>,
    request: Request,
) -> Result<Response, Failure> {
    let Query(query) = query.map_err(|error| BadRequest::new(error.body_text()))?;
    let (name, served) = match &query.model {
        Some(model) => {
            let address = Address { model: model.clone(), version: None };
            (model.clone(), find(&app, &address)?)
        }
        None => app
            .repository
            .only()
            .ok_or_else(|| BadRequest::new("several models are served (or none): say which with ?model=NAME"))?,
    };
    let (options, level) = query.options(served.queue.signature(), &app.limits)?;
    let source = source_of(&request);
    let (names, items): (Vec<_>, Vec<_>) =
        plain::items(request, served.queue.signature(), &app.limits).await?.into_iter().unzip();
    let answers = ask(&app, &served, (&name, source), items, (options, Needs::One)).await?;
    let (mut said, mut failed) = (Vec::new(), Vec::new());
    for (place, (input, answer)) in names.into_iter().zip(answers).enumerate() {
        match answer {
            Ok(answer) => said.push(named(&input, place, &at(level, answer), &served.queue.signature().takes)?),
            Err(ModelError::Input(why)) => failed.push(json!({"input": input, "error": why})),
            Err(error) => return Err(of_model(&error, "")),
        }
    }
    let status = if said.is_empty() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    let mut body = json!({"model": name, "inputs": said, "failed": failed});
    if said_nothing(&body) {
        body["error"] = "no input could be read".into();
    }
    Ok((status, Json(body)).into_response())
}

/// An answer with the sets or intervals of one level, where one is asked for.
fn at(level: Option<f64>, mut answer: Answer) -> Answer {
    if let Some(level) = level {
        answer.keep_level(level);
    }
    answer
}

fn said_nothing(body: &Value) -> bool {
    body["inputs"].as_array().is_some_and(Vec::is_empty)
}

/// An answer with the names of its input, as `fidgp predict --json` writes it.
fn named(input: &str, place: usize, answer: &Answer, takes: &Takes) -> Result<Value, Failure> {
    let mut value = serde_json::to_value(answer)
        .map_err(|error| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    if let crate::answer::Prediction::Pixels { map, .. } = &answer.prediction {
        value["map"] = format!("data:image/png;base64,{}", protocol::base64(map)).into();
    }
    value["input"] = input.into();
    if let Takes::Rows { features, .. } = takes {
        let cells = features.iter().cloned().zip(answer.features.iter().cloned());
        value["row"] = place.into();
        value["features"] = Value::Object(cells.collect());
        value["out_of_range"] = json!(answer.out_of_range);
        value["flags"] = json!(answer.flags);
    }
    Ok(value)
}

fn source_of(request: &Request) -> Source {
    request.extensions().get::<Source>().cloned().unwrap_or_default()
}

/// A request to a model. It counts as failed unless it is answered, also where its time runs out and nobody looks after it.
struct Asked<'a> {
    metrics: &'a ModelMetrics,
    begun: Instant,
    answered: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.metrics.failed(self.begun.elapsed());
        }
    }
}

/// Which inputs must be answered, for a request to be.
#[derive(Clone, Copy)]
enum Needs {
    /// Tensors hold all of them.
    All,
    /// The others are listed as failed.
    One,
}

impl Needs {
    fn met<T>(self, answers: &[Result<T, ModelError>]) -> bool {
        let failed = answers.iter().any(|answer| matches!(answer, Err(ModelError::Failed(_))));
        !failed
            && match self {
                Self::All => answers.iter().all(Result::is_ok),
                Self::One => answers.iter().any(Result::is_ok),
            }
    }
}

/// Waits for the model, and counts and logs what it says.
async fn ask(
    app: &Arc<App>,
    served: &Served,
    (model, source): (&str, Source),
    items: Vec<Item>,
    (options, needs): (Options, Needs),
) -> Result<Vec<Result<Answer, ModelError>>, Failure> {
    if !app.ready.load(Ordering::Relaxed) {
        return Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping"));
    }
    let mut asked = Asked { metrics: &served.metrics, begun: Instant::now(), answered: false };
    let answers = served.queue.ask(items, options).await?;
    if needs.met(&answers) {
        asked.answered = true;
        served.metrics.answered(answers.iter().flatten(), asked.begun.elapsed());
    }
    if app.log.is_some() {
        let sound: Vec<Answer> = answers.iter().flatten().cloned().collect();
        let (writing, model) = (app.clone(), model.to_owned());
        let write = move || writing.log.as_ref().map_or(Ok(()), |log| log.write(&model, &source, &sound));
        let written = tokio::task::spawn_blocking(write).await;
        if let Err(error) = written.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            app.repository.metrics.unlogged();
            tracing::warn!(target: "serve", "the prediction log cannot be written: {error}");
        }
    }
    Ok(answers)
}

fn of_model(error: &ModelError, place: &str) -> Failure {
    match error {
        ModelError::Input(why) => Failure::new(StatusCode::BAD_REQUEST, format!("{place}{why}")),
        ModelError::Failed(why) => {
            tracing::error!(target: "serve", "the model failed: {why}");
            Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "the model failed; the server's log says more")
        }
    }
}

/// How often folders are looked at for changes.
pub const LOOK_EVERY: Duration = Duration::from_secs(2);
