//! `fidgp serve`: the real program over real sockets.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::deploy::trained;
use crate::{Place, decisions, fixture};

/// A server that is ended with its test.
pub struct Serving {
    child: Child,
    port: u16,
    heard: mpsc::Receiver<String>,
}

impl Serving {
    pub fn start(place: &Place, words: &[&str]) -> Self {
        let mut command = place.command(&["serve", "--port", "0", "--device", "cpu", "--threads", "1"]);
        let child = command.args(words).stderr(Stdio::piped()).spawn().expect("the program starts");
        let (say, heard) = mpsc::channel();
        let mut serving = Self { child, port: 0, heard }; // ended also where nothing is served
        let lines = BufReader::new(serving.child.stderr.take().expect("a pipe")).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(say.send(line))));
        let mut said = Vec::new();
        loop {
            let line = serving.heard.recv_timeout(Duration::from_secs(120));
            let line = line.unwrap_or_else(|_| panic!("it does not serve: {said:?}"));
            if let Some((_, address)) = line.split_once("http://127.0.0.1:") {
                serving.port = address.split(' ').next().and_then(|port| port.parse().ok()).expect("a port");
                return serving;
            }
            said.push(line);
        }
    }

    fn ask(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> (u16, Value) {
        let (status, body) = self.bytes(method, path, kind, body);
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    fn text(&self, path: &str) -> String {
        String::from_utf8(self.bytes("GET", path, "text/plain", b"").1).unwrap()
    }

    fn bytes(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("headers") + 4;
        let status = String::from_utf8_lossy(&answer[9..12]).parse().unwrap();
        (status, answer[end..].to_vec())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number")).collect()
}

/// Everything that `fidgp predict --json` says of an input is said by the server, under the same names.
fn says_what_was_predicted(served: &Value, predicted: &Value) {
    for (name, value) in predicted.as_object().expect("an object") {
        if name != "input" && name != "prediction" {
            same(&served[name], value, name);
        }
    }
}

/// Numbers may differ in their last digits, where others shared the batch.
fn same(served: &Value, predicted: &Value, name: &str) {
    match (served, predicted) {
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            assert!((a - b).abs() <= 1e-6 * (1.0 + b.abs()), "{name}: {a} is served, {b} was predicted");
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).for_each(|(a, b)| same(a, b, name));
        }
        (Value::Object(a), Value::Object(b)) if a.len() == b.len() => {
            b.iter().for_each(|(key, b)| same(a.get(key).unwrap_or(&Value::Null), b, &format!("{name}/{key}")));
        }
        _ => assert_eq!(served, predicted, "{name}"),
    }
}

/// A picture sent as a file, and its pixels sent as a tensor, are answered as `fidgp predict` answers.
#[test]
fn a_picture_is_answered_as_predict_answers() {
    let place = Place::new();
    let picture = picture(&place);
    let model = trained().to_str().unwrap();
    let said = place
        .fidgp(&["predict", model, picture.to_str().unwrap(), "--json", "--device", "cpu", "--threads", "1"])
        .ends(0);
    let expected: Value = serde_json::from_str(&said.out).unwrap();
    let serving = Serving::start(&place, &[&format!("small={model}"), "--log", "log.jsonl"]);
    let (status, said) = serving.ask("POST", "/predict", "image/png", &fs::read(&picture).unwrap());
    assert_eq!(status, 200, "{said}");
    says_what_was_predicted(&said["inputs"][0], &expected["inputs"][0]);
    assert!(said["inputs"][0]["top"].as_array().is_some_and(|top| top.len() == 3), "{said}");
    let request = json!({"inputs": [{"name": "picture", "shape": [0], "datatype": "BYTES", "data": []}]});
    let (status, said) =
        serving.ask("POST", "/v2/models/small/infer", "application/json", request.to_string().as_bytes());
    assert!(status == 400 && said["error"].as_str().unwrap().contains("input `picture`"), "{said}");
    let request = json!({"inputs": [{"name": "image", "shape": [1, 3, 32, 32], "datatype": "UINT8", "data": vec![128; 3072]}], "outputs": [{"name": "probabilities"}]});
    let (status, said) =
        serving.ask("POST", "/v2/models/small/infer", "application/json", request.to_string().as_bytes());
    assert_eq!(status, 200, "{said}");
    let sum: f64 = numbers(&said["outputs"][0]["data"]).iter().sum();
    assert!((sum - 1.0).abs() < 1e-6, "{sum}");
    let (status, said) = serving.ask("POST", "/predict", "image/png", b"no picture at all");
    assert!(status == 400 && said["failed"][0]["error"].as_str().unwrap().contains("JPEG, PNG or WebP"), "{said}");
    let log = fs::read_to_string(place.path("log.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 2, "{log}");
}

/// A closed form draws nothing: its answers are those that the rules were fitted to.
#[test]
fn rules_of_a_closed_form_are_for_its_answers() {
    let place = crate::decisions::place();
    for command in ["fit-posterior", "calibrate"] {
        place.fidgp(&[command, "run", "--data", "data", "--device", "cpu"]).ends(0);
    }
    let serving = Serving::start(&place, &["run"]);
    let row = json!({"row": {"size, m2": 0.5, "age": 0.5}}).to_string();
    let (status, said) = serving.ask("POST", "/predict", "application/json", row.as_bytes());
    let answer = &said["inputs"][0];
    assert!(status == 200 && answer["decision"].is_string(), "{said}");
    assert_eq!((&answer["draws"], &answer["flags"]), (&json!(0), &json!([])), "{said}");
}

/// A row with texts and gaps is answered as `fidgp predict` answers, by both protocols.
#[test]
fn a_row_of_texts_is_answered_as_predict_answers() {
    let place = crate::mixed::trained();
    place.fidgp(&["calibrate", "run", "--data", "data", "--device", "cpu", "--threads", "1"]).ends(0);
    place.write("new.csv", "member,since,city,size\nno,2024-01-05,Atlantis,\n");
    let said = place.fidgp(&["predict", "run", "new.csv", "--json", "--device", "cpu", "--threads", "1"]).ends(0);
    let expected = serde_json::from_str::<Value>(&said.out).unwrap()["inputs"][0].clone();
    let serving = Serving::start(&place, &["run", "--log", "log.jsonl", "--log-inputs"]);
    let row = json!({"row": {"member": false, "since": "2024-01-05", "city": "Atlantis", "size": null}});
    let (status, said) = serving.ask("POST", "/predict", "application/json", row.to_string().as_bytes());
    assert_eq!(status, 200, "{said}");
    assert!(expected["flags"].as_array().is_some_and(|flags| flags.len() == 2) && expected["sets"].is_array());
    says_what_was_predicted(&said["inputs"][0], &expected);
    let (_, model) = serving.ask("GET", "/v2/models/run", "text/plain", b"");
    let columns = &model["parameters"]["columns"];
    let holds: Vec<_> = columns.as_array().unwrap().iter().map(|column| column["holds"].as_str().unwrap()).collect();
    assert_eq!(holds, ["text", "number", "boolean", "date"], "{columns}");
    assert_eq!(columns[0]["levels"], json!(["Bonn", "Kiel, Süd", "Ulm"]));
    let example = json!({"row": model["parameters"]["example"]}).to_string();
    let (status, said) = serving.ask("POST", "/predict", "application/json", example.as_bytes());
    assert_eq!((status, &said["inputs"][0]["flags"]), (200, &json!([])), "{said}");
    let text = |name: &str, text: &str| json!({"name": name, "shape": [1], "datatype": "BYTES", "data": [text]});
    let inputs = [text("member", "no"), text("since", "2024-01-05"), text("city", "Atlantis"), text("size", "")];
    let ask = |inputs: &Value| {
        let request = json!({"inputs": inputs}).to_string();
        serving.ask("POST", "/v2/models/run/infer", "application/json", request.as_bytes())
    };
    let (status, said) = ask(&json!(inputs));
    assert_eq!(status, 200, "{said}");
    let (status, said) = ask(&json!(inputs[1..]));
    assert!(status == 400 && said["error"].as_str().unwrap().contains("there is no input `member`"), "{said}");
    let bad = json!({"rows": [[1, "soon", "Bonn", 1]]});
    let (status, said) = serving.ask("POST", "/predict", "application/json", bad.to_string().as_bytes());
    assert!(status == 400, "{said}");
    let log = fs::read_to_string(place.path("log.jsonl")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["features"], json!(["Atlantis", null, false, "2024-01-05"]), "as `predict --jsonl` has them");
    let metrics = serving.text("/metrics");
    for series in ["feature:member", "feature:city", "feature:since"] {
        assert!(metrics.contains(&format!("series=\"{series}\"")), "{series} is missing in\n{metrics}");
    }
    let found = place.fidgp(&["monitor", "run", "log.jsonl", "--json"]).out;
    let found: Value = serde_json::from_str(&found).unwrap();
    let member = found["series"].as_array().unwrap().iter().find(|series| series["name"] == "feature:member").unwrap();
    assert_eq!(member["seen"], lines.len(), "a yes or no is watched: {member}");
}

/// SIGTERM ends it well; two folders of one name are misuse, as is a folder that holds no model.
#[test]
fn it_ends_when_asked_and_refuses_what_cannot_be_served() {
    let place = Place::new();
    let model = trained().to_str().unwrap();
    let mut serving = Serving::start(&place, &[model]);
    assert_eq!(serving.ask("GET", "/v2/health/ready", "text/plain", b"").0, 200);
    assert!(Command::new("kill").args(["-TERM", &serving.child.id().to_string()]).status().unwrap().success());
    let ended = (0..300).find_map(|_| {
        std::thread::sleep(Duration::from_millis(100));
        serving.child.try_wait().unwrap()
    });
    assert_eq!(ended.expect("it ends within 30 s").code(), Some(0));
    place.fidgp(&["serve", model, model, "--port", "0"]).ends(2).says(&["two models are called", "NAME=FOLDER"]);
    fs::create_dir(place.path("empty")).unwrap();
    place.fidgp(&["serve", "empty", "--port", "0"]).ends(2).says(&["neither a run folder"]);
    place.fidgp(&["serve", "nowhere", "--port", "0"]).ends(2).says(&["nowhere"]);
}

/// One image of the fixture as a PNG.
fn picture(place: &Place) -> std::path::PathBuf {
    let bytes = fs::read(fixture("cifar100-small").join("cifar-100-binary/train.bin")).unwrap();
    let planar = &bytes[2..3074];
    let rgb = (0..1024).flat_map(|pixel| (0..3).map(move |channel| planar[channel * 1024 + pixel])).collect();
    let path = place.path("picture.png");
    image::RgbImage::from_raw(32, 32, rgb).unwrap().save(Path::new(&path)).unwrap();
    path
}

/// A table model that was calibrated: intervals of one level, decisions, evidence of drift, and a log that `fidgp monitor` reads.
/// After kill -9 every answer stands in the log, whole.
#[test]
fn what_was_answered_is_in_the_log_after_a_kill() {
    let place = decisions::place();
    place.fidgp(&["calibrate", "run", "--data", "data", "--device", "cpu", "--threads", "1"]).ends(0);
    let mut serving = Serving::start(&place, &["houses=run", "--log", "log.jsonl", "--log-inputs", "--window-ms", "0"]);
    let (_, model) = serving.ask("GET", "/v2/models/houses", "text/plain", b"");
    let (levels, example) = (numbers(&model["parameters"]["levels"]), numbers(&model["parameters"]["example"]));
    assert!(levels.len() > 1 && example.len() == 2 && example.iter().all(|mean| (0.2..0.8).contains(mean)), "{model}");
    let row = json!({"row": example}).to_string();
    let path = format!("/predict?level={}", levels[0]);
    let (status, said) = serving.ask("POST", &path, "application/json", row.as_bytes());
    assert_eq!((status, said["inputs"][0]["intervals"].as_array().map(Vec::len)), (200, Some(1)), "{said}");
    assert_eq!(said["inputs"][0]["decision"], "accept", "{said}");
    place.write("one.csv", &format!("{},{}\n", example[0], example[1]));
    let predicted = place.fidgp(&["predict", "run", "one.csv", "--json", "--device", "cpu", "--threads", "1"]).ends(0);
    let predicted: Value = serde_json::from_str(&predicted.out).unwrap();
    let (_, whole) = serving.ask("POST", "/predict", "application/json", row.as_bytes());
    says_what_was_predicted(&whole["inputs"][0], &predicted["inputs"][0]);
    let (status, said) = serving.ask("POST", "/predict?draws=2", "application/json", row.as_bytes());
    let remark = said["inputs"][0]["flags"][0].as_str().unwrap_or_default();
    assert!(status == 200 && remark.contains(&format!("are for {} draws", predicted["draws"])), "{said}");
    let far = json!({"rows": [[1e308, 0.5], [9.0, 0.5], example]}).to_string();
    let (status, said) = serving.ask("POST", "/predict", "application/json", far.as_bytes());
    assert_eq!((status, said["inputs"].as_array().map(Vec::len)), (200, Some(2)), "{said}");
    assert!(said["failed"][0]["error"].as_str().unwrap().contains("too large"), "{said}");
    assert_eq!(said["inputs"][0]["decision"], "out-of-distribution");
    let metrics = serving.text("/metrics");
    for line in [
        "fidgp_ood_alarms_total{model=\"houses\",version=\"1\"} 1",
        "fidgp_drift_log10_e{model=\"houses\",version=\"1\",series=\"mean\"}",
    ] {
        assert!(metrics.contains(line), "{line} is missing in\n{metrics}");
    }
    let answered = AtomicUsize::new(5);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Ok(status) = try_ask(serving.port, &row) {
                    assert_eq!(status, 200);
                    answered.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        std::thread::sleep(Duration::from_millis(700));
        let killed = Command::new("kill").args(["-KILL", &serving.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
    });
    serving.child.wait().unwrap();
    let log = fs::read_to_string(place.path("log.jsonl")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("a whole line")).collect();
    let answered = answered.into_inner();
    assert!(
        answered > 5 && (answered..=answered + 4).contains(&lines.len()),
        "{answered} answers, {} lines",
        lines.len()
    );
    let said = place.fidgp(&["monitor", "run", "log.jsonl"]);
    assert!(said.out.contains(&format!("{} lines", lines.len())), "{said:?}");
}

/// Status of an answer; an error where the server is gone.
fn try_ask(port: u16, row: &str) -> std::io::Result<u16> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let head = "POST /predict HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length:";
    stream.write_all(format!("{head} {}\r\n\r\n{row}", row.len()).as_bytes())?;
    let mut said = Vec::new();
    stream.read_to_end(&mut said)?;
    let gone = || std::io::Error::other("no whole answer");
    let text = String::from_utf8_lossy(&said).into_owned();
    let end = text.find("\r\n\r\n").ok_or_else(gone)?;
    serde_json::from_str::<Value>(&text[end..]).map_err(|_| gone())?;
    text.get(9..12).and_then(|status| status.parse().ok()).ok_or_else(gone)
}

/// A picture is refused by what it declares, before it is decoded.
#[test]
fn a_picture_of_too_many_pixels_is_refused() {
    let place = Place::new();
    let serving = Serving::start(&place, &[&format!("small={}", trained().display()), "--picture-mp", "1"]);
    let large = image::GrayImage::new(1200, 1000);
    let mut bytes = std::io::Cursor::new(Vec::new());
    large.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    let (status, said) = serving.ask("POST", "/predict", "image/png", bytes.get_ref());
    assert!(status == 400 && said["failed"][0]["error"].as_str().unwrap().contains("1200000 pixels"), "{said}");
}

/// With `--requests json` every request is a line of JSON with its ids, and nothing else is on standard error.
#[test]
fn requests_are_lines_of_json_where_that_is_asked_for() {
    let place = Place::new();
    let serving = Serving::start(&place, &[&format!("small={}", trained().display()), "--requests", "json"]);
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let mut stream = TcpStream::connect(("127.0.0.1", serving.port)).unwrap();
    let head = format!(
        "GET /v2 HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: me-7\r\nTraceparent: 00-{trace}-b7ad6b7169203331-01\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
    let line = serving.heard.recv_timeout(Duration::from_secs(60)).expect("a line");
    let line: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    assert_eq!((&line["id"], &line["trace_id"]), (&json!("me-7"), &json!(trace)), "{line}");
    assert_eq!(
        (&line["method"], &line["path"], &line["status"]),
        (&json!("GET"), &json!("/v2"), &json!(200)),
        "{line}"
    );
    assert!(line["timestamp"].is_string() && line["ms"].is_number(), "{line}");
}
