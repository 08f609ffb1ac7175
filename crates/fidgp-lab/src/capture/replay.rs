//! Prediction as a CUDA graph: after a few batches the work of all draws on one batch is recorded, and from then on only the
//! batch and the noise are overwritten. Whatever cannot be captured runs as before.

use fidgp::predict::{Passes, Runner};
use fidgp_torch::{Graph, GraphError, SideStream};
use tch::{Device, Tensor};

use super::{aside, record};

/// Batches before the capture: they choose kernels and allocate workspaces, which a capture may not.
const WARM_UP: usize = 2;

/// Runs draws on CUDA.
#[derive(Debug)]
pub struct Replayed<'a> {
    passes: Passes<'a>,
    device: Device,
    capture: Capture,
}

/// How far the capture is.
#[derive(Debug)]
enum Capture {
    /// Operations are launched one by one.
    Off,
    /// So many batches of this size, the first one's, were warm-up: noise is kept in it, so a capture must have it too.
    Warming(SideStream, usize, Vec<i64>),
    /// Batches of this size are replayed.
    Ready(Captured),
}

#[derive(Debug)]
struct Captured {
    graph: Graph,
    batch: Tensor,
    outputs: Vec<Tensor>,
}

impl<'a> Replayed<'a> {
    /// Draws on a device.
    pub fn new(mut passes: Passes<'a>, device: usize) -> Self {
        let capture = match SideStream::new(device) {
            Ok(stream) => {
                passes.keep_noise();
                Capture::Warming(stream, 0, Vec::new())
            }
            Err(error) => not_captured(&error),
        };
        Self { passes, device: Device::Cuda(device), capture }
    }

    fn outputs(&mut self, batch: &Tensor) -> fidgp::Result<Vec<Tensor>> {
        let mut all = Vec::new();
        self.passes.outputs(batch, &mut |outputs| {
            all.push(outputs);
            Ok(())
        })?;
        Ok(all)
    }

    fn captured(&mut self, batch: &Tensor, stream: SideStream) -> Result<Captured, GraphError> {
        let batch = batch.copy();
        let (graph, outputs) = record(self.device, stream, || self.outputs(&batch))?;
        Ok(Captured { graph, batch, outputs })
    }

    /// The outputs of a batch, by whichever way it is the turn of.
    fn next(&mut self, batch: &Tensor, number: u64) -> fidgp::Result<Vec<Tensor>> {
        match std::mem::replace(&mut self.capture, Capture::Off) {
            Capture::Off => {
                let mut outputs = Vec::new();
                self.passes.run(batch, number, &mut |output| {
                    outputs.push(output);
                    Ok(())
                })?;
                Ok(outputs)
            }
            Capture::Warming(stream, done, size) if done > 0 && size != batch.size() => {
                self.capture = Capture::Warming(stream, done, size);
                self.passes.renew_noise(number);
                self.outputs(batch)
            }
            Capture::Warming(stream, done, _) if done < WARM_UP => {
                self.passes.renew_noise(number);
                match aside(self.device, stream, || self.outputs(batch)) {
                    Ok(outputs) => {
                        self.capture = Capture::Warming(stream, done + 1, batch.size());
                        outputs
                    }
                    Err(error) => self.give_up(&error, batch, number),
                }
            }
            Capture::Warming(stream, ..) => match self.captured(batch, stream) {
                Ok(captured) => {
                    self.capture = Capture::Ready(captured);
                    self.next(batch, number)
                }
                Err(error) => self.give_up(&error, batch, number),
            },
            Capture::Ready(captured) if captured.batch.size() != batch.size() => {
                self.capture = Capture::Ready(captured);
                self.passes.renew_noise(number);
                self.outputs(batch)
            }
            Capture::Ready(mut captured) => {
                captured.batch.copy_(batch);
                self.passes.renew_noise(number);
                if let Err(error) = captured.graph.replay() {
                    return self.give_up(&error, batch, number);
                }
                let outputs = captured.outputs.iter().map(Tensor::copy).collect();
                self.capture = Capture::Ready(captured);
                Ok(outputs)
            }
        }
    }

    fn give_up(&mut self, error: &GraphError, batch: &Tensor, number: u64) -> fidgp::Result<Vec<Tensor>> {
        self.capture = not_captured(error);
        self.next(batch, number)
    }
}

impl<'a> Runner<'a> for Replayed<'a> {
    fn run(
        &mut self,
        batch: &Tensor,
        number: u64,
        each: &mut dyn FnMut(Tensor) -> fidgp::Result<()>,
    ) -> fidgp::Result<()> {
        tch::no_grad(|| self.next(batch, number))?.into_iter().try_for_each(each)
    }

    fn replace(&mut self, passes: Passes<'a>) {
        self.passes.overwrite(passes);
    }
}

fn not_captured(error: &GraphError) -> Capture {
    super::warn("prediction", error);
    Capture::Off
}
