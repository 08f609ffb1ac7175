//! Pages: one HTML file each that needs nothing else: no network, no fonts, no scripts.

/// The page of several configs side by side.
pub mod comparison;
/// The page of the complexity table.
pub mod complexity;
/// Corrupted images.
pub mod corruptions;
/// The growth of times as tables and charts.
pub mod growth;
/// The page of what logs of predictions say.
pub mod monitor;
/// The page of an out-of-distribution benchmark.
pub mod ood;
/// The page of finished runs.
pub mod run;
/// How far a model can be trusted.
pub mod trust;
/// Runs in, files out.
pub mod write;

mod finished;
mod html;
