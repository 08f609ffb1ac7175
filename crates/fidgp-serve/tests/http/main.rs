//! The server over real sockets, with a model that adds up its inputs.

mod described;
mod encrypted;
mod malformed;
mod running;
mod strict;
mod under_load;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fidgp_serve::Limits;
use fidgp_serve::security::Token;
use fidgp_serve::server::Settings;
use running::{INFER, Running, rows};
use serde_json::{Value, json};

#[test]
fn the_protocol_is_spoken() {
    let server = Running::plain();
    assert_eq!(server.get("/v2/health/live"), (200, json!({"live": true})));
    assert_eq!(server.get("/v2/health/ready"), (200, json!({"ready": true})));
    assert_eq!(server.get("/v2").1["extensions"][0], "binary_tensor_data");
    let (_, model) = server.get("/v2/models/adder/versions/1");
    assert_eq!((&model["inputs"][0]["shape"], &model["outputs"][0]["name"]), (&json!([-1, 2]), &json!("mean")));
    assert_eq!(server.get("/v2/models/adder/ready").0, 200);
    let (status, said) = server.post(INFER, &rows(&[[1.0, 2.0], [3.0, 4.0]]));
    assert_eq!(status, 200, "{said}");
    assert_eq!(
        (&said["id"], &said["model_name"], &said["outputs"][0]["data"]),
        (&json!("7"), &json!("adder"), &json!([3.0, 7.0]))
    );
    let lower = said["outputs"].as_array().unwrap().iter().find(|output| output["name"] == "lower").unwrap();
    assert_eq!((&lower["shape"], &lower["data"]), (&json!([2, 2]), &json!([2.0, 2.5, 6.0, 6.5])));
}

#[test]
fn tensors_may_come_and_go_as_bytes() {
    let server = Running::plain();
    let numbers: Vec<u8> = [1.0f32, 2.5].iter().flat_map(|number| number.to_le_bytes()).collect();
    let json = json!({"inputs": [{"name": "row", "shape": [1, 2], "datatype": "FP32", "parameters": {"binary_data_size": 8}}], "outputs": [{"name": "mean", "parameters": {"binary_data": true}}]}).to_string();
    let headers = format!("Inference-Header-Content-Length: {}\r\n", json.len());
    let (status, head, body) = server.ask("POST", INFER, &headers, &[json.as_bytes(), &numbers].concat());
    assert_eq!(status, 200);
    let length: usize =
        head.split("inference-header-content-length: ").nth(1).unwrap().split("\r\n").next().unwrap().parse().unwrap();
    let (json, bytes) = body.split_at(length);
    let json: Value = serde_json::from_slice(json).unwrap();
    assert_eq!(json["outputs"][0]["parameters"]["binary_data_size"], 8);
    assert_eq!(bytes, 3.5f64.to_le_bytes());
}

#[test]
fn a_row_is_answered_as_predict_answers() {
    let server = Running::plain();
    let (status, said) = server.post("/predict?draws=3", &json!({"row": {"b": 2, "a": 1}}));
    assert_eq!((status, &said["inputs"][0]["mean"], &said["inputs"][0]["draws"]), (200, &json!(3.0), &json!(3)));
    let first = &said["inputs"][0];
    assert_eq!(
        (&first["row"], &first["features"], &first["flags"]),
        (&json!(0), &json!({"a": 1.0, "b": 2.0}), &json!([]))
    );
    let (status, said) = server.post("/predict", &json!({"rows": [[1, 2], [13, 0]]}));
    assert_eq!(
        (status, said["inputs"].as_array().unwrap().len(), &said["failed"][0]["error"]),
        (200, 1, &json!("13 is refused"))
    );
}

#[test]
fn what_is_wrong_is_said_and_nothing_more() {
    let server = Running::plain();
    for (path, body, status, word) in [
        (
            INFER,
            json!({"inputs": [{"name": "row", "shape": [1, 3], "datatype": "FP64", "data": [1, 2, 3]}]}),
            400,
            "[N, 2]",
        ),
        (
            INFER,
            json!({"inputs": [{"name": "row", "shape": [2, 2], "datatype": "FP64", "data": [1, 2, 3]}]}),
            400,
            "does not fit 3 elements",
        ),
        (
            INFER,
            json!({"inputs": [{"name": "row", "shape": [2, 18_446_744_073_709_551_615u64], "datatype": "FP64", "data": []}]}),
            400,
            "does not fit",
        ),
        (
            INFER,
            json!({"inputs": [{"name": "c", "shape": [1], "datatype": "FP64", "data": [1]}]}),
            400,
            "is not one of",
        ),
        (INFER, json!({"inputs": [], "surprise": 1}), 400, "surprise"),
        (INFER, json!({"inputs": [], "parameters": {"draws": 1_000_000}}), 400, "draws must be"),
        (INFER, rows(&[]), 400, "no inputs"),
        (INFER, rows(&[[13.0, 0.0]]), 400, "input 0: 13 is refused"),
        (INFER, rows(&[[14.0, 0.0]]), 500, "server's log"),
        (INFER, rows(&[[1e308, 1e308]]), 400, "not a finite number"),
        ("/v2/models/other/infer", rows(&[[1.0, 2.0]]), 404, "other"),
        ("/v2/models/adder/versions/9/infer", rows(&[[1.0, 2.0]]), 404, "version 1"),
        ("/predict?dreams=3", json!({"row": [1, 2]}), 400, "dreams"),
        ("/predict", json!({"row": {"a": 1, "c": 2}}), 400, "`c`"),
        ("/predict", json!({"row": {"a": 1}}), 400, "`b` is missing"),
        ("/predict", json!({"row": [1, 2], "rows": [[1, 2]]}), 400, "either"),
        ("/v2/repository/models/adder/unload", json!({}), 403, "--allow-control"),
        ("/nowhere", json!({}), 404, "nothing at this path"),
    ] {
        let (given, said) = server.post(path, &body);
        let error = said["error"].as_str().unwrap_or_default();
        assert!(given == status && error.contains(word), "{path} {body}: {given} {said}");
        assert!(!error.contains(&server.folder.path().display().to_string()), "a path of the server is shown: {error}");
    }
    assert_eq!(server.post(INFER, &rows(&[[1.0, 2.0]])).0, 200, "a model that panicked answers others");
}

#[test]
fn broken_http_is_refused() {
    let server = Running::plain();
    let (status, _, _) = server.ask("POST", INFER, "Inference-Header-Content-Length: 99999\r\n", b"{}");
    assert_eq!(status, 400);
    let (status, _, _) = server.ask("DELETE", "/v2", "", b"");
    assert_eq!(status, 405);
    let (status, _, _) = server.ask("POST", "/predict", "Content-Type: text/plain\r\n", b"1,2");
    assert_eq!(status, 415);
    let (status, _, _) =
        server.send(b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999\r\n\r\n");
    assert_eq!(status, 413);
    assert_eq!(server.get("/v2/health/live").0, 200);
}

#[test]
fn a_full_queue_says_so_and_lives() {
    let limits = Limits { queue: 4, batch: 2, ..Limits::default() };
    let server = Running::start(limits, Settings::default());
    let statuses: Vec<_> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..12).map(|_| scope.spawn(|| server.post(INFER, &rows(&[[15.0, 0.0]])).0)).collect();
        asking.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (done, full) = (
        statuses.iter().filter(|status| **status == 200).count(),
        statuses.iter().filter(|status| **status == 429).count(),
    );
    assert!(done >= 4 && full >= 1 && done + full == 12, "{statuses:?}");
    assert_eq!(server.post(INFER, &rows(&[[1.0, 2.0]])).0, 200);
}

#[test]
fn what_takes_too_long_is_ended() {
    let limits = Limits { time: Duration::from_millis(200), ..Limits::default() };
    let server = Running::start(limits, Settings::default());
    let (status, said) = server.post(INFER, &rows(&[[15.0, 0.0]]));
    assert_eq!((status, said["error"].as_str()), (503, Some("the request took too long")));
    assert!((server.metric("nv_inference_request_failure") - 1.0).abs() < 1e-9, "it counts as failed");
}

#[test]
fn a_token_is_asked_for() {
    let settings = Settings { token: Some(Token::new("0123456789abcdef").unwrap()), ..Settings::default() };
    let server = Running::start(Limits::default(), settings);
    assert_eq!(server.get("/v2/health/live").0, 200);
    for path in ["/v2", "/metrics", "/v2/models/adder"] {
        assert_eq!(server.get(path).0, 401, "{path}");
    }
    let (status, ..) = server.ask("GET", "/v2", "Authorization: Bearer 0123456789abcdef\r\n", b"");
    assert_eq!(status, 200);
}

#[test]
fn a_changed_folder_is_served_without_losing_a_request() {
    let server = Running::plain();
    let folder = server.folder.path().to_owned();
    let change = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        std::fs::write(folder.join("offset.new"), "1000").unwrap();
        std::fs::rename(folder.join("offset.new"), folder.join("offset")).unwrap();
    });
    let until = std::time::Instant::now() + Duration::from_secs(20);
    let mut last = 0.0;
    while last < 1000.0 && std::time::Instant::now() < until {
        let (status, said) = server.post(INFER, &rows(&[[1.0, 2.0]]));
        assert_eq!(status, 200, "{said}");
        last = said["outputs"][0]["data"][0].as_f64().unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    change.join().unwrap();
    assert!((last - 1003.0).abs() < 1e-9);
    std::fs::write(server.folder.path().join("offset"), "no number").unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(server.post(INFER, &rows(&[[1.0, 2.0]])).0, 200, "a folder that cannot be opened leaves the old model");
}

#[test]
fn a_stop_finishes_what_is_under_way() {
    let server = Running::plain();
    let (address, stop) = (server.address, server.stop);
    let asking = std::thread::spawn(move || server.post(INFER, &rows(&[[15.0, 0.0]])).0);
    std::thread::sleep(Duration::from_millis(250));
    stop.store(true, Ordering::Relaxed);
    assert_eq!(asking.join().unwrap(), 200);
    assert!(TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err(), "it still listens");
}

/// Also those whose connection was open before: it is closed after the answer that is under way, or refuses.
#[test]
fn a_stop_takes_nothing_new_on_open_connections() {
    let server = Running::plain();
    let one = rows(&[[15.0, 0.0]]).to_string();
    let request = format!(
        "POST {INFER} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{one}",
        one.len()
    );
    let ask = |stream: &mut TcpStream| -> Option<u16> {
        stream.write_all(request.as_bytes()).ok()?;
        let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            let head = answer.windows(4).position(|four: &[u8]| four == b"\r\n\r\n");
            let text = String::from_utf8_lossy(&answer[..head.unwrap_or(0)]).to_ascii_lowercase();
            let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            if head.zip(length).is_some_and(|(head, length)| answer.len() == head + 4 + length) {
                return text[9..12].parse().ok();
            }
            match stream.read(&mut piece).ok()? {
                0 => return None,
                count => answer.extend_from_slice(&piece[..count]),
            }
        }
    };
    let connect = || {
        let stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    };
    let (mut busy, mut idle) = (connect(), connect());
    assert_eq!((ask(&mut busy), ask(&mut idle)), (Some(200), Some(200)));
    std::thread::scope(|scope| {
        let under_way = scope.spawn(|| (ask(&mut busy), ask(&mut busy)));
        std::thread::sleep(Duration::from_millis(250));
        server.stop.store(true, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(250)); // it looks every 100 ms
        let late = ask(&mut idle);
        assert!(matches!(late, None | Some(503)), "an idle connection was answered: {late:?}");
        let (first, second) = under_way.join().unwrap();
        assert_eq!(first, Some(200), "what is under way is finished");
        assert!(matches!(second, None | Some(503)), "a busy connection was answered once more: {second:?}");
    });
}

#[test]
fn metrics_count() {
    let server = Running::plain();
    server.post(INFER, &rows(&[[1.0, 2.0], [3.0, 4.0]]));
    let (_, _, body) = server.ask("GET", "/metrics", "", b"");
    let text = String::from_utf8(body).unwrap();
    for line in [
        "nv_inference_count{model=\"adder\",version=\"1\"} 2",
        "nv_inference_request_success{model=\"adder\",version=\"1\"} 1",
        "nv_inference_exec_count{model=\"adder\",version=\"1\"} 1",
        "# TYPE nv_inference_count unknown",
        "nv_inference_queue_duration_us{",
        "nv_inference_compute_infer_duration_us{",
        "fidgp_body_bytes 0",
        "fidgp_queue_inputs{model=\"adder\"} 0",
        "fidgp_drift_log10_e{model=\"adder\",version=\"1\",series=\"mean\"} 0.25",
        "decision=\"accept\"",
        "request_predict_seconds_count",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"), "{text}");
}

#[test]
fn ids_are_passed_on_and_the_page_asks_nobody_else() {
    let server = Running::plain();
    let (_, head, page) = server.ask("GET", "/", "X-Request-Id: abc-1\r\nTraceparent: 00-0-0-01\r\n", b"");
    assert!(
        head.contains("x-request-id: abc-1")
            && head.contains("traceparent: 00-0-0-01")
            && head.contains("default-src 'none'"),
        "{head}"
    );
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("<title>fidgp</title>") && !page.contains("http://") && !page.contains("https://"));
}
