//! Counters and histograms in the format that Prometheus reads.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::answer::Answer;

type Labels = Vec<(String, String)>;
type Histograms = Family<Labels, Histogram, fn() -> Histogram>;
type Whole = Family<Labels, Gauge<u64, AtomicU64>>;
type Real = Family<Labels, Gauge<f64, AtomicU64>>;

/// What a model may say of a prediction.
const VERDICTS: [&str; 3] = ["accept", "abstain", "out-of-distribution"];

/// What is counted for each model and version.
#[derive(Clone, Debug)]
struct OfModels {
    batch_size: Histograms,
    seconds: Histograms,
    success: Whole,
    failure: Whole,
    inputs: Whole,
    microseconds: Whole,
    queued: Whole,
    computed: Whole,
    batches: Whole,
    decisions: Family<Labels, Counter>,
    epistemic: Real,
    alarms: Family<Labels, Counter>,
    drift: Real,
}

impl OfModels {
    fn register(registry: &mut Registry) -> Self {
        let batches: fn() -> Histogram = || Histogram::new(exponential_buckets(1.0, 2.0, 9));
        let seconds: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 16));
        let all = Self {
            batch_size: Family::new_with_constructor(batches),
            seconds: Family::new_with_constructor(seconds),
            success: Family::default(),
            failure: Family::default(),
            inputs: Family::default(),
            microseconds: Family::default(),
            queued: Family::default(),
            computed: Family::default(),
            batches: Family::default(),
            decisions: Family::default(),
            epistemic: Family::default(),
            alarms: Family::default(),
            drift: Family::default(),
        };
        let Self { batch_size, seconds, success, failure, inputs, microseconds, .. } = all.clone();
        let Self { queued, computed, batches, decisions, epistemic, alarms, drift, .. } = all.clone();
        registry.register("fidgp_batch_size", "Inputs in a batch", batch_size);
        registry.register_with_unit("request_predict", "Time of a prediction request", Unit::Seconds, seconds);
        registry.register("nv_inference_request_success", "Answered requests", success);
        registry.register("nv_inference_request_failure", "Failed requests", failure);
        registry.register("nv_inference_count", "Answered inputs", inputs);
        registry.register("nv_inference_request_duration_us", "Time of all requests, microseconds", microseconds);
        registry.register("nv_inference_queue_duration_us", "Time of all requests in the queue, microseconds", queued);
        registry.register(
            "nv_inference_compute_infer_duration_us",
            "Time that the model took for all requests, microseconds",
            computed,
        );
        registry.register("nv_inference_exec_count", "Batches that the model was given", batches);
        registry.register("fidgp_decisions", "Inputs by decision", decisions);
        registry.register(
            "fidgp_epistemic_mean",
            "Mean epistemic uncertainty of about the last 1,000 inputs",
            epistemic,
        );
        registry.register("fidgp_ood_alarms", "Inputs called out-of-distribution", alarms);
        registry.register(
            "fidgp_drift_log10_e",
            "Evidence that inputs or predictions have changed since calibration, by series",
            drift,
        );
        all
    }

    /// Those under Triton's names.
    fn counts(&self) -> [&Whole; 7] {
        let Self { success, failure, inputs, microseconds, queued, computed, batches, .. } = self;
        [success, failure, inputs, microseconds, queued, computed, batches]
    }
}

/// What is counted of one model. With its last holder its numbers leave the page.
#[derive(Debug)]
pub struct ModelMetrics {
    all: OfModels,
    labels: Labels,
    series: Mutex<BTreeSet<String>>,
    /// Mean epistemic uncertainty lately, and of how many inputs.
    lately: Mutex<(f64, f64)>,
}

/// Inputs that a mean is of, when there have been so many.
const LATELY: f64 = 1000.0;

/// All metrics of a server.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    refused: Family<Labels, Counter>,
    unlogged: Counter,
    queue: Whole,
    bodies: Gauge<u64, AtomicU64>,
    models: OfModels,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let (refused, unlogged, queue) = (Family::default(), Counter::default(), Whole::default());
        let bodies = Gauge::default();
        registry.register(
            "fidgp_refused_requests",
            "Requests answered with an error, by status",
            Family::clone(&refused),
        );
        registry.register(
            "fidgp_unlogged_requests",
            "Requests that the prediction log could not take",
            Counter::clone(&unlogged),
        );
        registry.register("fidgp_queue_inputs", "Inputs that wait or are being answered", Family::clone(&queue));
        registry.register(
            "fidgp_body_bytes",
            "Bytes set aside for bodies of requests under way",
            Gauge::clone(&bodies),
        );
        let models = OfModels::register(&mut registry);
        Self { registry, refused, unlogged, queue, bodies, models }
    }
}

impl Metrics {
    /// Metrics of one more model, labelled with its name and version.
    pub fn model(&self, name: &str, version: &str) -> Arc<ModelMetrics> {
        let labels = vec![label("model", name), label("version", version)];
        let metrics =
            ModelMetrics { all: self.models.clone(), labels, series: Mutex::default(), lately: Mutex::default() };
        let (all, labels) = (&metrics.all, &metrics.labels); // zeros are shown from the start
        drop((all.batch_size.get_or_create(labels), all.seconds.get_or_create(labels)));
        for counted in all.counts() {
            drop(counted.get_or_create(labels));
        }
        drop(all.alarms.get_or_create(labels));
        Arc::new(metrics)
    }

    /// A request that was answered with an error.
    pub fn refused(&self, status: u16) {
        self.refused.get_or_create(&vec![label("status", &status.to_string())]).inc();
    }

    /// A request that was answered, and not logged.
    pub fn unlogged(&self) {
        self.unlogged.inc();
    }

    /// All of them, with the inputs that wait for each model and the bytes of bodies.
    pub fn text(&self, waiting: &[(String, usize)], bodies: u64) -> String {
        self.bodies.set(bodies);
        self.queue.clear();
        for (model, count) in waiting {
            self.queue.get_or_create(&vec![label("model", model)]).set(*count as u64);
        }
        let mut text = String::new();
        if encode(&mut text, &self.registry).is_err() {
            text.clear();
        }
        as_triton_has_them(&text)
    }
}

/// Triton's counters have no `_total` behind their names, which counters must have in this format, and gauges they are not.
fn as_triton_has_them(text: &str) -> String {
    let line = |line: &str| match line.strip_suffix(" gauge") {
        Some(begin) if begin.starts_with("# TYPE nv_inference_") => format!("{begin} unknown\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

fn label(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

impl ModelMetrics {
    /// A batch that the model was given.
    pub fn batch(&self, inputs: usize) {
        self.all.batch_size.get_or_create(&self.labels).observe(inputs as f64);
        self.all.batches.get_or_create(&self.labels).inc();
    }

    /// How long a request waited in the queue, and how long the model took for its batch.
    pub fn spent(&self, queued: Duration, computed: Duration) {
        for (counted, time) in [(&self.all.queued, queued), (&self.all.computed, computed)] {
            counted.get_or_create(&self.labels).inc_by(microseconds(time));
        }
    }

    /// A request that was answered.
    pub fn answered<'a>(&self, answers: impl Iterator<Item = &'a Answer>, time: Duration) {
        let (mut count, mut lately) = (0_u64, self.lately.lock().unwrap_or_else(PoisonError::into_inner));
        for answer in answers {
            count += 1;
            let (mean, of) = &mut *lately;
            *of = (*of + 1.0).min(LATELY);
            *mean += (answer.epistemic() - *mean) / *of;
            if let Some(verdict) = answer.verdict() {
                self.all.decisions.get_or_create(&self.with("decision", verdict)).inc();
                if verdict == "out-of-distribution" {
                    self.all.alarms.get_or_create(&self.labels).inc();
                }
            }
        }
        self.all.success.get_or_create(&self.labels).inc();
        self.all.inputs.get_or_create(&self.labels).inc_by(count);
        if lately.1 > 0.0 {
            self.all.epistemic.get_or_create(&self.labels).set(lately.0);
        }
        drop(lately);
        self.timed(time);
    }

    /// A request that failed.
    pub fn failed(&self, time: Duration) {
        self.all.failure.get_or_create(&self.labels).inc();
        self.timed(time);
    }

    /// What the model says of drift.
    pub fn drifted(&self, series: Vec<(String, f64)>) {
        let mut known = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, log10_e) in series {
            self.all.drift.get_or_create(&self.with("series", &name)).set(log10_e);
            known.insert(name);
        }
    }

    fn with(&self, name: &str, value: &str) -> Labels {
        [self.labels.clone(), vec![label(name, value)]].concat()
    }

    fn timed(&self, time: Duration) {
        self.all.seconds.get_or_create(&self.labels).observe(time.as_secs_f64());
        self.all.microseconds.get_or_create(&self.labels).inc_by(microseconds(time));
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A server whose models are often replaced would otherwise show, and keep, ever more of them.
impl Drop for ModelMetrics {
    fn drop(&mut self) {
        let (all, labels) = (&self.all, &self.labels);
        all.batch_size.remove(labels);
        all.seconds.remove(labels);
        for counted in all.counts() {
            counted.remove(labels);
        }
        all.epistemic.remove(labels);
        all.alarms.remove(labels);
        for verdict in VERDICTS {
            all.decisions.remove(&self.with("decision", verdict));
        }
        for name in self.series.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            all.drift.remove(&self.with("series", name));
        }
    }
}
