//! A server with a model that adds up its inputs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fidgp_serve::repository::Repository;
use fidgp_serve::server::Settings;
use fidgp_serve::{
    Address, Answer, Decision, Interval, Item, Limits, Model, ModelError, Options, Outputs, Prediction, Server,
    Signature, Takes, Tls,
};
use serde_json::{Value, json};

/// Its mean is the sum of the row; a row that begins with 13 is refused, 14 panics, 15 takes its time, 16 two milliseconds
/// for each draw.
pub struct Adder(f64);

impl Model for Adder {
    fn signature(&self) -> Signature {
        Signature {
            takes: Takes::Rows {
                features: vec!["a".to_owned(), "b".to_owned()],
                example: vec![json!(1.0), json!(2.0)],
                columns: Vec::new(),
            },
            gives: Outputs::Number("sum".to_owned()),
            draws: 8,
            levels: vec![0.9, 0.5],
            scores_ood: false,
            decides: true,
        }
    }

    fn predict(&mut self, items: &[Item], options: &Options) -> Result<Vec<Result<Answer, ModelError>>, ModelError> {
        let answer = |item: &Item| {
            let Item::Row(row) = item else { return Err(ModelError::Input("no row".to_owned())) };
            match row[0] {
                13.0 => return Err(ModelError::Input("13 is refused".to_owned())),
                14.0 => panic!("14"),
                15.0 => std::thread::sleep(Duration::from_millis(700)),
                16.0 => std::thread::sleep(Duration::from_millis(2 * options.draws.unwrap_or(8))),
                _ => {}
            }
            let mean = row.iter().sum::<f64>() + self.0;
            let interval = |level, half| Interval { level, lower: mean - half, upper: mean + half };
            let intervals = vec![interval(0.9, 1.0), interval(0.5, 0.5)];
            let prediction = Prediction::Number { mean, sd: 0.6, epistemic: 0.25, aleatoric: 0.5, intervals };
            Ok(Answer {
                features: row.iter().map(|cell| json!(cell)).collect(),
                decision: Some(Decision { decision: "accept".to_owned(), reason: "as sure as promised".to_owned() }),
                ..Answer::of(prediction, options.draws.unwrap_or(8))
            })
        };
        Ok(items.iter().map(answer).collect())
    }

    fn drift(&self) -> Vec<(String, f64)> {
        vec![("mean".to_owned(), 0.25)]
    }
}

fn bound(folder: &tempfile::TempDir, tls: Option<Tls>, limits: Limits, settings: Settings) -> Server {
    std::fs::write(folder.path().join("offset"), "0").unwrap();
    let open = |folder: &std::path::Path| -> Result<Box<dyn Model>, String> {
        let text = std::fs::read_to_string(folder.join("offset")).map_err(|error| error.to_string())?;
        Ok(Box::new(Adder(text.parse().map_err(|_| "offset is no number".to_owned())?)))
    };
    let models = vec![("adder".to_owned(), PathBuf::from(folder.path()))];
    let repository = Repository::open(models, limits.clone(), Box::new(open)).unwrap();
    let address = Address { host: "127.0.0.1".to_owned(), port: 0 };
    Server::bind(&address, tls, repository, limits, settings).unwrap()
}

pub struct Running {
    pub address: SocketAddr,
    pub stop: &'static AtomicBool,
    thread: Option<std::thread::JoinHandle<std::io::Result<()>>>,
    pub folder: tempfile::TempDir,
}

impl Running {
    pub fn start(limits: Limits, settings: Settings) -> Self {
        Self::start_with(limits, settings, None)
    }

    pub fn start_with(limits: Limits, settings: Settings, tls: Option<Tls>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = bound(&folder, tls, limits, settings);
        let (address, stop) = (server.address().unwrap(), &*Box::leak(Box::new(AtomicBool::new(false))));
        let thread = Some(std::thread::spawn(move || server.run(stop)));
        Self { address, stop, thread, folder }
    }

    /// How a server ends that cannot use its certificate; it is stopped where it can.
    pub fn try_tls(tls: Tls) -> std::io::Result<()> {
        let folder = tempfile::tempdir().unwrap();
        let stop = &*Box::leak(Box::new(AtomicBool::new(true)));
        bound(&folder, Some(tls), Limits::default(), Settings::default()).run(stop)
    }

    pub fn plain() -> Self {
        Self::start(Limits::default(), Settings::default())
    }

    /// Sends bytes and reads to the end: status, headers, body.
    pub fn send(&self, bytes: &[u8]) -> (u16, String, Vec<u8>) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let _ = stream.write_all(bytes); // it may have been refused already
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("headers") + 4;
        let head = String::from_utf8(answer[..end].to_vec()).unwrap().to_ascii_lowercase();
        (head[9..12].parse().unwrap(), head, answer[end..].to_vec())
    }

    /// Sends bytes and reads what comes; nothing where the server closes without a word. A server that still waits for the
    /// rest of a request is told after a while that there is none.
    pub fn send_any(&self, bytes: &[u8], patience: Duration) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(patience)).unwrap();
        let _ = stream.write_all(bytes); // it may have been refused already
        let mut answer = Vec::new();
        if stream.read_to_end(&mut answer).is_err() {
            let _ = stream.shutdown(std::net::Shutdown::Write);
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let _ = stream.read_to_end(&mut answer);
        }
        answer
    }

    pub fn ask(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> (u16, String, Vec<u8>) {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n",
            body.len()
        );
        self.send(&[head.as_bytes(), body].concat())
    }

    pub fn get(&self, path: &str) -> (u16, Value) {
        let (status, _, body) = self.ask("GET", path, "", b"");
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    /// The value of the first line of a metric.
    pub fn metric(&self, name: &str) -> f64 {
        let (_, _, body) = self.ask("GET", "/metrics", "", b"");
        let text = String::from_utf8(body).unwrap();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in\n{text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    pub fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let (status, _, answer) =
            self.ask("POST", path, "Content-Type: application/json\r\n", body.to_string().as_bytes());
        (status, serde_json::from_slice(&answer).unwrap_or(Value::Null))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}

pub fn rows(values: &[[f64; 2]]) -> Value {
    json!({"id": "7", "inputs": [{"name": "row", "shape": [values.len(), 2], "datatype": "FP64", "data": values}]})
}

pub const INFER: &str = "/v2/models/adder/infer";
