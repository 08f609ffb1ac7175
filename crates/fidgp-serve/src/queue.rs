//! One queue and one worker thread for each model: requests wait, are joined into batches, and are answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::limits::Limits;
use crate::metrics::ModelMetrics;
use crate::model::{Item, Model, ModelError, Options};
use crate::turns::Turns;
use crate::{Answer, Signature};

/// The answers of one request, each or why there is none.
pub type Answers = Vec<Result<Answer, ModelError>>;

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Too many inputs wait already; at its pace the model has answered them in so many seconds.
    #[error("too many inputs are waiting for this model; try again in {0} s")]
    Full(u64),
    /// The worker has ended.
    #[error("this model is no longer served")]
    Gone,
}

struct Job {
    items: Vec<Item>,
    options: Options,
    reply: oneshot::Sender<Answers>,
    begun: Instant,
}

/// A model on its thread, and the way to it. When the last handle is dropped the worker answers what waits, and ends.
#[derive(Debug)]
pub struct Queue {
    sender: SyncSender<Job>,
    waiting: Arc<AtomicUsize>,
    most: usize,
    pace: Arc<Pace>,
    time: Duration,
    signature: Signature,
}

/// Seconds that the model took for an input lately, as bits of an f64.
#[derive(Debug, Default)]
struct Pace(AtomicU64);

impl Pace {
    fn saw(&self, inputs: usize, time: Duration) {
        let (now, before) = (time.as_secs_f64() / inputs.max(1) as f64, self.seconds());
        let mixed = if before > 0.0 { 0.7 * before + 0.3 * now } else { now };
        self.0.store(mixed.to_bits(), Ordering::Relaxed);
    }

    fn seconds(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

impl Queue {
    /// Starts a worker thread for the model.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(
        name: &str,
        mut model: Box<dyn Model>,
        limits: &Limits,
        metrics: Arc<ModelMetrics>,
        turns: Arc<Turns>,
    ) -> std::io::Result<Self> {
        let signature = model.signature();
        let (sender, jobs) = mpsc::sync_channel(limits.queue.max(1));
        let waiting = Arc::new(AtomicUsize::new(0));
        let pace = Arc::new(Pace::default());
        let limits = limits.clone();
        let (time, most) = (limits.time, limits.queue);
        let (counted, paced) = (waiting.clone(), pace.clone());
        let (left, in_company, own) = (None, false, signature.clone());
        let mut worker =
            Worker { jobs, waiting: counted, pace: paced, limits, metrics, turns, left, in_company, signature: own };
        std::thread::Builder::new().name(format!("model {name}")).spawn(move || worker.run(model.as_mut()))?;
        Ok(Self { sender, waiting, most, pace, time, signature })
    }

    /// What the model takes and gives.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Inputs that wait or are being answered.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Waits for the answers to some inputs.
    ///
    /// # Errors
    /// When too many wait already, or longer than a request may take, or when the worker has ended.
    pub async fn ask(&self, items: Vec<Item>, options: Options) -> Result<Answers, Refused> {
        let (reply, answers) = oneshot::channel();
        let count = items.len();
        let ahead = self.waiting() as f64 * self.pace.seconds();
        let full = || Refused::Full(again(ahead, self.time));
        if ahead > self.time.as_secs_f64() {
            return Err(full());
        }
        let place = Place::take(&self.waiting, count, self.most).ok_or_else(full)?;
        match self.sender.try_send(Job { items, options, reply, begun: Instant::now() }) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(full()),
            Err(TrySendError::Disconnected(_)) => return Err(Refused::Gone),
        }
        place.keep(); // the worker gives it back
        answers.await.map_err(|_| Refused::Gone)
    }
}

/// When to come again, whole seconds: when what waits is answered, and no later than a request may take.
fn again(ahead: f64, time: Duration) -> u64 {
    (ahead.ceil() as u64).clamp(1, time.as_secs().max(1))
}

/// Room in the queue for some inputs, given back unless it is kept.
struct Place<'a>(&'a AtomicUsize, usize);

impl<'a> Place<'a> {
    fn take(waiting: &'a AtomicUsize, count: usize, most: usize) -> Option<Self> {
        let fits = |now: usize| now.checked_add(count).filter(|sum| *sum <= most);
        waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).ok().map(|_| Self(waiting, count))
    }

    fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::AcqRel);
    }
}

/// What is beyond the numbers that a model can compute with has no answer.
fn finite(answer: Answer) -> Result<Answer, ModelError> {
    let beyond =
        || ModelError::Input("the model's answer is not a finite number: the input is too large for it".to_owned());
    answer.is_finite().then_some(answer).ok_or_else(beyond)
}

struct Worker {
    jobs: Receiver<Job>,
    waiting: Arc<AtomicUsize>,
    pace: Arc<Pace>,
    limits: Limits,
    metrics: Arc<ModelMetrics>,
    turns: Arc<Turns>,
    /// A job that did not fit into the last batch.
    left: Option<Job>,
    /// Whether the last batch was of several requests.
    in_company: bool,
    signature: Signature,
}

impl Worker {
    fn run(&mut self, model: &mut dyn Model) {
        while let Some(jobs) = self.next_batch() {
            self.answer(model, jobs);
        }
    }

    /// The next jobs that ask for the same and fit into a batch; none when nobody can ask any more. It waits for others only
    /// where others are about to come, or came lately: who asks alone is answered at once.
    fn next_batch(&mut self) -> Option<Vec<Job>> {
        let first = match self.left.take() {
            Some(job) => job,
            None => self.jobs.recv().ok()?,
        };
        let (options, mut count, mut jobs) = (first.options, first.items.len(), vec![first]);
        let most = self.signature.step(&options, self.limits.batch);
        let others = self.in_company || self.waiting.load(Ordering::Acquire) > count;
        let until = Instant::now() + if others { self.limits.window } else { Duration::ZERO };
        while count < most {
            match self.jobs.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(job) if job.options == options && count + job.items.len() <= most => {
                    count += job.items.len();
                    jobs.push(job);
                }
                Ok(job) => {
                    self.left = Some(job);
                    break;
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        self.in_company = jobs.len() > 1;
        Some(jobs)
    }

    fn answer(&self, model: &mut dyn Model, jobs: Vec<Job>) {
        let all: usize = jobs.iter().map(|job| job.items.len()).sum();
        let place = Place(&self.waiting, all);
        let mut jobs: Vec<Job> = jobs.into_iter().filter(|job| !job.reply.is_closed()).collect(); // who gave up is not answered
        let Some(options) = jobs.first().map(|job| job.options) else { return };
        let counts: Vec<usize> = jobs.iter().map(|job| job.items.len()).collect();
        let items: Vec<Item> = jobs.iter_mut().flat_map(|job| std::mem::take(&mut job.items)).collect();
        let begun = Instant::now();
        let gone = || jobs.iter().all(|job| job.reply.is_closed());
        let (answers, computed) = self.predict(model, &items, &options, &gone);
        let mut answers = answers.into_iter();
        self.pace.saw(items.len(), begun.elapsed()); // with the turns of other models
        for job in &jobs {
            self.metrics.spent(job.begun.elapsed().saturating_sub(computed), computed);
        }
        drop(place); // before anybody hears of it: who asks next finds room
        for (job, count) in jobs.into_iter().zip(counts) {
            let _ = job.reply.send(answers.by_ref().take(count).collect());
        }
    }

    /// All answers, step by step: a batch, or less of it where more draws are asked for. Where a step fails, each of its inputs is asked alone: one that the model cannot bear
    /// spoils no other, not even of its own request.
    /// Where nobody waits for an answer any more it stops. With the answers it says how long the model took.
    fn predict(
        &self,
        model: &mut dyn Model,
        items: &[Item],
        options: &Options,
        gone: &dyn Fn() -> bool,
    ) -> (Answers, Duration) {
        let (mut answers, mut computed) = (Vec::with_capacity(items.len()), Duration::ZERO);
        for batch in items.chunks(self.signature.step(options, self.limits.batch)) {
            let _turn = self.turns.take(); // for each step anew: a long request lets other models in between
            if gone() {
                break;
            }
            let begun = Instant::now();
            self.metrics.batch(batch.len());
            match attempt(model, batch, options) {
                Ok(answered) => answers.extend(answered),
                Err(error) if batch.len() == 1 => answers.push(Err(error)),
                Err(_) => {
                    for item in batch.iter().take_while(|_| !gone()) {
                        let alone = attempt(model, std::slice::from_ref(item), options);
                        answers.extend(alone.unwrap_or_else(|error| vec![Err(error)]));
                    }
                }
            }
            computed += begun.elapsed();
        }
        self.metrics.drifted(model.drift());
        (answers.into_iter().map(|answer| answer.and_then(finite)).collect(), computed)
    }
}

/// One answer for each item. A panic of the model is an error: the worker lives on.
fn attempt(model: &mut dyn Model, batch: &[Item], options: &Options) -> Result<Answers, ModelError> {
    let attempt = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| model.predict(batch, options)));
    let answered = attempt.unwrap_or_else(|_| Err(ModelError::Failed("the model panicked".to_owned())))?;
    if answered.len() == batch.len() {
        return Ok(answered);
    }
    Err(ModelError::Failed(format!("the model gave {} answers to {} inputs", answered.len(), batch.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_are_refused_come_again_when_what_waits_is_answered() {
        let minute = Duration::from_secs(60);
        let times: Vec<u64> = [0.0, 0.2, 3.2, 59.0, 1e300].into_iter().map(|ahead| again(ahead, minute)).collect();
        assert_eq!(times, [1, 1, 4, 59, 60]);
        assert_eq!(again(5.0, Duration::from_millis(200)), 1);
    }
}
