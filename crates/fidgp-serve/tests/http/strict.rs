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
    let head = format!("GET /v2 HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "a".repeat(40 << 10));
    let said = String::from_utf8_lossy(&server.send_any(head.as_bytes(), PATIENT)).into_owned();
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 431"), "{said}");
    let many = format!("GET /v2 HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "a: b\r\n".repeat(500));
    let said = String::from_utf8_lossy(&server.send_any(many.as_bytes(), PATIENT)).into_owned();
    assert!(said.starts_with("HTTP/1.1 431"), "{said}");
    for begun in ["", "GET /v2 HT", "GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"] {
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
    let asks = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
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
    let limits = Limits { body: 1 << 20, time: Duration::from_secs(600), ..Limits::default() };
    let server = Running::start(limits, Settings::default());
    let taken = || server.metric("fidgp_body_bytes");
    let begun = |head: &str, body: &[u8]| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream
            .write_all(&[format!("POST {INFER} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n").as_bytes(), body].concat())
            .unwrap();
        stream
    };
    let slow: Vec<_> = (0..12).map(|_| begun("Content-Length: 1048576\r\n", b"{")).collect();
    let chunked: Vec<_> = (0..12).map(|_| begun("Transfer-Encoding: chunked\r\n", b"1\r\n{\r\n")).collect();
    assert_eq!(server.post(INFER, &rows(&[[1.0, 2.0]])).0, 200);
    let half = vec![b' '; 1_000_000];
    let held: Vec<_> = (0..4).map(|_| begun("Content-Length: 1048576\r\n", &half)).collect();
    // all of it must have come before more is sent, or that takes the place of one of these
    let until = Instant::now() + Duration::from_secs(120);
    while taken() < 4_000_000.0 {
        assert!(Instant::now() < until, "{} bytes of four bodies have come", taken());
        std::thread::sleep(Duration::from_millis(20));
    }
    let large = json!({"inputs": [], "id": "x".repeat(900_000)});
    let (status, said) = server.post(INFER, &large);
    assert_eq!(status, 503, "more is held than there is room for: {said}");
    assert!(said["error"].as_str().unwrap().contains("too many requests are being read"), "{said}");
    assert_eq!(server.post(INFER, &rows(&[[1.0, 2.0]])).0, 200, "small requests still fit");
    let chunk = format!("{:x}\r\n{}\r\n0\r\n\r\n", 1_100_000, " ".repeat(1_100_000));
    let head = format!("POST {INFER} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}");
    drop((slow, chunked, held));
    while taken() > 0.0 {
        assert!(Instant::now() < until, "{} bytes are not given back", taken());
        std::thread::sleep(Duration::from_millis(20));
    }
    let said = String::from_utf8_lossy(&server.send_any(head.as_bytes(), PATIENT)).into_owned();
    assert!(said.starts_with("HTTP/1.1 413") && said.contains("--body-mb"), "{said}");
}

/// KServe's client names the model in the body once more. Another name than that of the path is refused.
#[test]
fn the_model_may_be_named_in_the_body_too() {
    let server = Running::plain();
    for (field, value, status) in [
        ("model_name", "adder", 200),
        ("model_version", "1", 200),
        ("model_name", "other", 400),
        ("model_version", "2", 400),
    ] {
        let mut request = rows(&[[1.0, 2.0]]);
        request[field] = json!(value);
        let (given, said) = server.post(INFER, &request);
        assert!(
            given == status && (status == 200 || said["error"].as_str().unwrap().contains(field)),
            "{field}: {said}"
        );
    }
}

/// A folder that cannot be opened any more is reported, without the words of the error and without its path.
#[test]
fn the_index_names_no_path() {
    let server = Running::start(Limits::default(), Settings { control: true, ..Settings::default() });
    std::fs::write(server.folder.path().join("offset"), "no number").unwrap();
    assert_eq!(server.post("/v2/repository/models/adder/load", &json!({})).0, 400);
    let (_, listed) = server.post("/v2/repository/index", &json!({}));
    assert_eq!(listed[0]["state"], "READY", "{listed}");
    let reason = listed[0]["reason"].as_str().unwrap();
    let path = server.folder.path().display().to_string();
    assert!(
        reason.contains("the server's log") && !reason.contains(&path) && !reason.contains("no number"),
        "{reason}"
    );
}

/// A page of another site must not steer the server, nor read it under a name that it had pointed here.
#[test]
fn pages_of_other_sites_are_refused() {
    let unload = "/v2/repository/models/adder/unload";
    let control = || Settings { control: true, ..Settings::default() };
    let server = Running::start(Limits::default(), control());
    let ask = |method: &str, path: &str, host: &str, more: &str| {
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\nContent-Length: 0\r\n\r\n");
        server.send(head.as_bytes()).0
    };
    for more in ["Origin: https://evil.example\r\n", "Origin: null\r\n", "Sec-Fetch-Site: cross-site\r\n"] {
        assert_eq!(ask("POST", unload, "localhost", more), 403, "{more}");
    }
    for path in ["/v2", "/metrics", "/v2/models/adder"] {
        assert_eq!(ask("GET", path, "evil.example", ""), 403, "{path}");
    }
    let own = format!("Origin: http://{}\r\n", server.address);
    assert_eq!(ask("POST", "/v2/repository/index", &server.address.to_string(), &own), 200);
    assert_eq!(ask("GET", "/v2/models/adder", "127.0.0.1", ""), 200, "it is served still");
    let token = fidgp_serve::security::Token::new("0123456789abcdef").unwrap();
    let closed = Running::start(Limits::default(), Settings { token: Some(token), ..control() });
    let authorised =
        "Host: models.example\r\nAuthorization: Bearer 0123456789abcdef\r\nOrigin: https://models.example\r\n";
    let head = format!("POST {unload} HTTP/1.1\r\n{authorised}Connection: close\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(closed.send(head.as_bytes()).0, 200, "who brings the token is no stranger");
}

/// What announces more than it may is told so, though it sends on.
#[test]
fn who_sends_too_much_hears_why() {
    let server = Running::start(Limits { body: 100_000, ..Limits::default() }, Settings::default());
    for _ in 0..20 {
        let (status, said) = server.post(INFER, &json!({"id": "x".repeat(180_000)}));
        assert!(status == 413 && said["error"].as_str().unwrap().contains("100000 bytes"), "{status} {said}");
    }
}

/// More inputs than a request may hold are refused by the shape, before bytes become numbers; lists among the parameters too.
#[test]
fn what_would_grow_is_refused_first() {
    let server = Running::plain();
    let tensor = |shape: &Value| json!({"inputs": [{"name": "row", "shape": shape, "datatype": "FP64", "data": []}]});
    for (request, word) in [
        (tensor(&json!([2000, 0])), "2000 inputs are more than the 1024"),
        (tensor(&json!([18_446_744_073_709_551_615u64, 2])), "are more than the 1024"),
        (json!({"inputs": [], "parameters": {"draws": [1, 2]}}), "a number, a text"),
        (json!({"inputs": [], "parameters": {"draws": {"a": 1}}}), "a number, a text"),
        (json!({"inputs": [], "parameters": {"tolerance": 0.1}}), "tolerance is for models that classify pictures"),
    ] {
        let (status, said) = server.post(INFER, &request);
        assert!(status == 400 && said["error"].as_str().unwrap().contains(word), "{word}: {said}");
    }
    let (status, said) = server.post("/predict", &json!({"rows": vec![[1.0, 2.0]; 1025]}));
    assert!(status == 400 && said["error"].as_str().unwrap().contains("1025 inputs are more"), "{said}");
    let (status, said) = server.post("/predict?tolerance=0.1", &json!({"row": [1.0, 2.0]}));
    assert!(status == 400 && said["error"].as_str().unwrap().contains("tolerance is for"), "{said}");
}

/// The trace that a request belongs to stands in the log of predictions; what is no trace does not.
#[test]
fn the_log_names_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.jsonl");
    let log = PredictionLog::open(&path, 1 << 20, 1, false).unwrap();
    let server = Running::start(Limits::default(), Settings { log: Some(log), ..Settings::default() });
    let trace = "0af7651916cd43dd8448eb211c80319c";
    for (parent, expected) in [
        (format!("00-{trace}-b7ad6b7169203331-01"), json!(trace)),
        ("00-zz-b7ad6b7169203331-01".to_owned(), Value::Null),
        (format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)), Value::Null),
    ] {
        let headers = format!("Content-Type: application/json\r\nTraceparent: {parent}\r\n");
        assert_eq!(server.ask("POST", "/predict", &headers, br#"{"row": [1, 2]}"#).0, 200);
        let text = std::fs::read_to_string(&path).unwrap();
        let line: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!((&line["trace_id"], line.get("features")), (&expected, None), "{line}");
    }
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
