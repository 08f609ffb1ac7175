//! What is asked for is given, and nothing is taken that means nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use fidgp_serve::Limits;
use fidgp_serve::log::PredictionLog;
use fidgp_serve::server::Settings;
use serde_json::{Value, json};

use crate::running::{INFER, Running, rows};

const PATIENT: Duration = Duration::from_secs(20);

#[test]
fn one_level_may_be_asked_for() {
    let server = Running::plain();
    let mut request = rows(&[[1.0, 2.0]]);
    request["parameters"] = json!({"level": 0.5});
    let (status, said) = server.post(INFER, &request);
    let lower = said["outputs"].as_array().unwrap().iter().find(|output| output["name"] == "lower").unwrap();
    assert_eq!((status, &lower["shape"], &lower["data"]), (200, &json!([1, 1]), &json!([2.5])));
    let (status, said) = server.post("/predict?level=0.9", &json!({"row": [1, 2]}));
    assert_eq!(
        (status, &said["inputs"][0]["intervals"]),
        (200, &json!([{"level": 0.9, "lower": 2.0, "upper": 4.0}])),
        "{said}"
    );
    request["parameters"] = json!({"level": 0.8});
    let (status, said) = server.post(INFER, &request);
    assert!(status == 400 && said["error"].as_str().unwrap().contains("[0.9, 0.5]"), "{said}");
}

#[test]
fn parameters_that_mean_nothing_are_refused() {
    let server = Running::plain();
    let with = |place: &str, parameters: Value| {
        let mut request = rows(&[[1.0, 2.0]]);
        match place {
            "input" => request["inputs"][0]["parameters"] = parameters,
            "output" => request["outputs"] = json!([{"name": "mean", "parameters": parameters}]),
            _ => request["parameters"] = parameters,
        }
        let (status, said) = server.post(INFER, &request);
        (status, said["error"].as_str().unwrap_or_default().to_owned())
    };
    for (place, parameters, word) in [
        ("input", json!({"shared_memory_region": "x"}), "shared_memory_region"),
        ("output", json!({"classification": 3}), "classification"),
        ("output", json!({"binary_data": 1}), "true or false"),
        ("request", json!({"binary_data_output": "yes"}), "true or false"),
        ("request", json!({"priority": 1}), "priority"),
    ] {
        let (status, error) = with(place, parameters);
        assert!(status == 400 && error.contains(word), "{word}: {status} {error}");
    }
    let (status, _, body) = server.ask("POST", INFER, "Content-Encoding: gzip\r\n", b"\x1f\x8b");
    assert!(status == 415 && String::from_utf8_lossy(&body).contains("Content-Encoding"));
}

#[test]
fn the_repository_is_listed_and_steered_only_where_that_was_asked_for() {
    let server = Running::plain();
    assert_eq!(server.post("/v2/repository/index", &json!({"ready": true})).1[0]["state"], "READY");
    assert_eq!(server.post("/v2/repository/index", &json!({"models": []})).0, 400);
    let settings = Settings { control: true, ..Settings::default() };
    let server = Running::start(Limits::default(), settings);
    let (load, unload) = ("/v2/repository/models/adder/load", "/v2/repository/models/adder/unload");
    assert_eq!(server.post(load, &json!({"parameters": {"config": "{}"}})).0, 400);
    assert_eq!(server.post(unload, &json!({"parameters": {"unload_dependents": false}})).0, 200);
    assert_eq!(server.post("/v2/repository/index", &json!({"ready": true})).1, json!([]));
    assert_eq!(server.post(INFER, &rows(&[[1.0, 2.0]])).0, 404);
    assert_eq!(server.get("/v2/health/ready").0, 503);
    assert_eq!(server.post(load, &json!({})).0, 200);
    assert_eq!(server.post(INFER, &rows(&[[1.0, 2.0]])).0, 200);
    assert_eq!(server.post("/v2/repository/models/other/load", &json!({})).0, 400);
}

/// The numbers of models that are no longer served leave the page of metrics: it would grow with every update.
#[test]
fn metrics_do_not_grow_with_updates() {
    let settings = Settings { control: true, ..Settings::default() };
    let server = Running::start(Limits::default(), settings);
    let lines = || {
        server.post(INFER, &rows(&[[1.0, 2.0]]));
        let (_, _, body) = server.ask("GET", "/metrics", "", b"");
        String::from_utf8(body).unwrap().lines().count()
    };
    let first = lines();
    for _ in 0..5 {
        assert_eq!(server.post("/v2/repository/models/adder/load", &json!({})).0, 200);
    }
    let until = Instant::now() + Duration::from_secs(20);
    while lines() != first {
        assert!(Instant::now() < until, "{first} lines became {}", lines());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn large_headers_and_idle_connections_are_ended() {
    let limits = Limits { header_time: Duration::from_millis(500), header: 16 << 10, ..Limits::default() };
    let server = Running::start(limits, Settings::default());
    let head = format!("GET /v2 HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "a".repeat(40 << 10));
    let said = String::from_utf8_lossy(&server.send_any(head.as_bytes(), PATIENT)).into_owned();
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 431"), "{said}");
    let many = format!("GET /v2 HTTP/1.1\r\nHost: x\r\n{}\r\n", "a: b\r\n".repeat(500));
    let said = String::from_utf8_lossy(&server.send_any(many.as_bytes(), PATIENT)).into_owned();
    assert!(said.starts_with("HTTP/1.1 431"), "{said}");
    for begun in ["", "GET /v2 HT", "GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"] {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(begun.as_bytes()).unwrap();
        let mut said = Vec::new();
        let ended = stream.read_to_end(&mut said);
        assert!(ended.is_ok(), "after {begun:?} the connection stays open: {ended:?}");
    }
    assert_eq!(server.get("/v2/health/live").0, 200);
}

#[test]
fn more_connections_than_may_be_are_closed() {
    let limits = Limits { connections: 3, ..Limits::default() };
    let server = Running::start(limits, Settings::default());
    let held: Vec<_> = (0..3).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    let until = Instant::now() + Duration::from_secs(20);
    let asks = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    while !server.send_any(asks, PATIENT).is_empty() {
        assert!(Instant::now() < until, "a fourth connection is answered");
    }
    drop(held);
    while server.send_any(asks, PATIENT).is_empty() {
        assert!(Instant::now() < until, "places are not given back");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What was answered stands in the log, whatever happens to the program afterwards; a log that cannot be written loses no answer.
#[test]
fn an_answer_is_in_the_log_before_it_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.jsonl");
    let log = PredictionLog::open(&path, 1 << 20, 1, true).unwrap();
    let server = Running::start(Limits::default(), Settings { log: Some(log), ..Settings::default() });
    for number in 101..=120 {
        assert_eq!(server.post(INFER, &rows(&[[f64::from(number), 2.0]])).0, 200);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), number as usize - 100, "an answer came before its line");
        let line: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!((&line["features"][0], &line["model"]), (&json!(f64::from(number)), &json!("adder")));
    }
}

/// Memory for bodies is taken as they come: a few that announce much and send little hold up nobody. What has come is bounded.
#[test]
fn slow_bodies_hold_up_nobody() {
    let limits = Limits { body: 1 << 20, ..Limits::default() };
    let server = Running::start(limits, Settings::default());
    let begun = |head: &str, body: &[u8]| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream
            .write_all(&[format!("POST {INFER} HTTP/1.1\r\nHost: x\r\n{head}\r\n").as_bytes(), body].concat())
            .unwrap();
        stream
    };
    let slow: Vec<_> = (0..12).map(|_| begun("Content-Length: 1048576\r\n", b"{")).collect();
    let chunked: Vec<_> = (0..12).map(|_| begun("Transfer-Encoding: chunked\r\n", b"1\r\n{\r\n")).collect();
    assert_eq!(server.post(INFER, &rows(&[[1.0, 2.0]])).0, 200);
    let half = vec![b' '; 1_000_000];
    let held: Vec<_> = (0..4).map(|_| begun("Content-Length: 1048576\r\n", &half)).collect();
    let until = Instant::now() + Duration::from_secs(20);
    let large = json!({"inputs": [], "id": "x".repeat(900_000)});
    while server.post(INFER, &large).0 != 503 {
        assert!(Instant::now() < until, "more is held than there is room for");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(server.post(INFER, &rows(&[[1.0, 2.0]])).0, 200, "small requests still fit");
    let chunk = format!("{:x}\r\n{}\r\n0\r\n\r\n", 1_100_000, " ".repeat(1_100_000));
    let head = format!("POST {INFER} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}");
    drop((slow, chunked, held));
    let said = String::from_utf8_lossy(&server.send_any(head.as_bytes(), PATIENT)).into_owned();
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 413") || said.starts_with("HTTP/1.1 503"), "{said}");
}

/// No other site's page may read an answer: nothing of CORS is ever said, and a preflight is refused.
#[test]
fn other_sites_are_told_nothing() {
    let server = Running::plain();
    let origin = "Origin: https://elsewhere.example\r\nAccess-Control-Request-Method: POST\r\n";
    for (method, path, status) in [("GET", "/v2", 200), ("OPTIONS", INFER, 405), ("OPTIONS", "/predict", 405)] {
        let (given, head, _) = server.ask(method, path, origin, b"");
        assert!(given == status && !head.contains("access-control"), "{method} {path}: {head}");
    }
}
