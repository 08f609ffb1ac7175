//! Counters and histograms in the format that Prometheus reads.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::answer::Answer;

type Labels = Vec<(String, String)>;

/// What is counted of one model.
#[derive(Clone, Debug)]
pub struct ModelMetrics {
    /// Inputs in the batches that the model was given.
    pub batch_size: Histogram,
    seconds: Histogram,
    success: Gauge<u64, AtomicU64>,
    failure: Gauge<u64, AtomicU64>,
    inputs: Gauge<u64, AtomicU64>,
    microseconds: Gauge<u64, AtomicU64>,
    decisions: Family<Labels, Counter>,
    epistemic: Gauge<f64, AtomicU64>,
    alarms: Counter,
}

/// All metrics of a server.
#[derive(Debug)]
pub struct Metrics {
    registry: std::sync::Mutex<Registry>,
    refused: Family<Labels, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let (mut registry, refused) = (Registry::default(), Family::default());
        registry.register(
            "fidgp_refused_requests",
            "Requests answered with an error, by status",
            Family::clone(&refused),
        );
        Self { registry: std::sync::Mutex::new(registry), refused }
    }
}

impl Metrics {
    /// Metrics of one more model, labelled with its name and version.
    pub fn model(&self, name: &str, version: &str) -> Arc<ModelMetrics> {
        let batches = || Histogram::new(exponential_buckets(1.0, 2.0, 9));
        let seconds = || Histogram::new(exponential_buckets(0.001, 2.0, 16));
        let metrics = ModelMetrics {
            batch_size: batches(),
            seconds: seconds(),
            success: Gauge::default(),
            failure: Gauge::default(),
            inputs: Gauge::default(),
            microseconds: Gauge::default(),
            decisions: Family::default(),
            epistemic: Gauge::default(),
            alarms: Counter::default(),
        };
        let labels = [("model", name), ("version", version)]
            .map(|(key, value)| (key.to_owned().into(), value.to_owned().into()));
        let mut registry = self.registry.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let of_model = registry.sub_registry_with_labels(labels.into_iter());
        let ModelMetrics { batch_size, seconds, success, failure, inputs, microseconds, decisions, epistemic, alarms } =
            metrics.clone();
        of_model.register("fidgp_batch_size", "Inputs in a batch", batch_size);
        of_model.register_with_unit("request_predict", "Time of a prediction request", Unit::Seconds, seconds);
        of_model.register("nv_inference_request_success", "Answered requests", success);
        of_model.register("nv_inference_request_failure", "Failed requests", failure);
        of_model.register("nv_inference_count", "Answered inputs", inputs);
        of_model.register("nv_inference_request_duration_us", "Time of all requests, microseconds", microseconds);
        of_model.register("fidgp_decisions", "Inputs by decision", decisions);
        of_model.register("fidgp_epistemic_mean", "Mean epistemic uncertainty of the last request", epistemic);
        of_model.register("fidgp_ood_alarms", "Inputs called out-of-distribution", alarms);
        Arc::new(metrics)
    }

    /// A request that was answered with an error.
    pub fn refused(&self, status: u16) {
        self.refused.get_or_create(&vec![("status".to_owned(), status.to_string())]).inc();
    }

    /// All of them, and the inputs that wait for each model.
    pub fn text(&self, waiting: &[(String, usize)]) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if encode(&mut text, &registry).is_err() {
            text.clear();
        }
        let end = text.rfind("# EOF").unwrap_or(text.len());
        let mut queue =
            "# HELP fidgp_queue_inputs Inputs that wait or are being answered.\n# TYPE fidgp_queue_inputs gauge\n"
                .to_owned();
        for (model, count) in waiting {
            let _ = writeln!(queue, "fidgp_queue_inputs{{model=\"{}\"}} {count}", label(model));
        }
        text.insert_str(end, &queue);
        text
    }
}

/// A label's value as the format wants it.
fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

impl ModelMetrics {
    /// A request that was answered.
    pub fn answered<'a>(&self, answers: impl Iterator<Item = &'a Answer>, time: Duration) {
        let (mut count, mut epistemic) = (0_u64, 0.0);
        for answer in answers {
            count += 1;
            epistemic += answer.epistemic();
            if let Some(verdict) = answer.verdict() {
                self.decisions.get_or_create(&vec![("decision".to_owned(), verdict.to_owned())]).inc();
                if verdict == "out-of-distribution" {
                    self.alarms.inc();
                }
            }
        }
        self.success.inc();
        self.inputs.inc_by(count);
        if count > 0 {
            self.epistemic.set(epistemic / count as f64);
        }
        self.timed(time);
    }

    /// A request that failed.
    pub fn failed(&self, time: Duration) {
        self.failure.inc();
        self.timed(time);
    }

    /// Answered requests so far.
    pub fn successes(&self) -> u64 {
        self.success.inner().load(Ordering::Relaxed)
    }

    fn timed(&self, time: Duration) {
        self.seconds.observe(time.as_secs_f64());
        self.microseconds.inc_by(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }
}
