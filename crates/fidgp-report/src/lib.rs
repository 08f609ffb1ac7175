//! What is left of a run and what is told of it: records, charts and pages, without libtorch.
//!
//! `record` reads and writes the documents (`results.json`, `metrics.jsonl`, `ood.json` …), `words` says what a number
//! means, `charts` draws, `pages` puts the three together into one HTML file that needs nothing else. A page is made from its
//! documents alone.

pub mod charts;
pub mod pages;
pub mod record;
pub mod words;

pub use pages::write::{Map, REPORT_FILE, Report, ReportError, Run, Section, files, write_report, write_sections};
