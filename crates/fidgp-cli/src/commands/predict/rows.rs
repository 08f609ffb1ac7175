//! `fidgp predict` of the rows of tables.

use std::fmt::Write;
use std::path::Path;

use fidgp::predict::Effort;
use fidgp_data::Sheet;
use fidgp_lab::LabError;
use fidgp_lab::predict::files::{self, RowPredictions};
use fidgp_lab::predict::{ClassPrediction, NumberPrediction, Predictor};
use fidgp_lab::source::{GivenRows, TableView};
use serde_json::{Map, Value, json};

use super::pictures::class_fields;
use super::rules::{Rules, Verdict, add};
use super::write::Writer;
use super::{Failed, Said};
use crate::args::Predict;
use crate::progress::ExampleBar;

/// What standard input is called.
const STDIN: &str = "standard input";

pub fn run(
    predictor: &mut Predictor,
    (arguments, rules): (&Predict, &Rules),
    effort: Effort,
    writer: &mut Writer,
) -> Result<(Said, Vec<Failed>), LabError> {
    let (mut said, mut failed) = (Said { table: String::new(), json: Vec::new() }, Vec::new());
    for file in &arguments.inputs {
        match predict(predictor, (file, arguments, rules), effort, (writer, &mut said)) {
            Ok(()) => {}
            Err(error @ (LabError::Data(_) | LabError::File { .. })) => failed.push((file.clone(), error)),
            Err(error) => return Err(error),
        }
    }
    if !said.table.is_empty() {
        let classes = predictor.trained().classes.len();
        let basis = predictor.basis(predictor.draws(effort));
        let words = if classes == 0 {
            "± is the standard deviation of a new observation".to_owned()
        } else {
            format!("uncertainty in nats, at most {:.2} for {classes} classes", (classes as f64).ln())
        };
        let _ = writeln!(said.table, "\n{words}; {basis}");
    }
    Ok((said, failed))
}

/// Predicts the rows of a file; they are written, or added to what is said, part by part.
fn predict(
    predictor: &mut Predictor,
    (file, arguments, rules): (&Path, &Predict, &Rules),
    effort: Effort,
    (writer, said): (&mut Writer, &mut Said),
) -> Result<(), LabError> {
    let name = if file.as_os_str() == "-" { Path::new(STDIN) } else { file };
    let sheet = if file.as_os_str() == "-" {
        Sheet::parse(name, crate::commands::standard_input()?)?
    } else {
        Sheet::open(file)?
    };
    let given = files::rows(predictor.trained(), (name, &sheet))?;
    drop(sheet);
    let (mut bar, all) = (ExampleBar::new("rows"), given.flags.len());
    let (mut table, mut json) = (String::new(), Vec::new());
    files::predict_rows(predictor, (name, &given), effort, &mut |trained, range, rows| {
        let (done, start, given) = (range.end, range.start, given.part(range));
        let (view, classes) = (trained.table.as_ref(), &trained.classes[..]);
        let told = Told { file, given: &given, view, classes, rules, top: arguments.top.get(), start };
        if writer.streams() {
            writer.rows(&told.json(&rows))?;
        } else if arguments.json {
            json.extend(told.json(&rows));
        } else {
            table += &told.table(&rows);
        }
        bar.show(done, all);
        Ok(())
    })?;
    said.table += &table;
    said.json.append(&mut json);
    Ok(())
}

/// What is told of the rows of a file.
struct Told<'a> {
    file: &'a Path,
    given: &'a GivenRows,
    view: Option<&'a TableView>,
    classes: &'a [String],
    rules: &'a Rules,
    top: usize,
    /// Rows of the file before these.
    start: usize,
}

impl Told<'_> {
    fn json(&self, rows: &RowPredictions) -> Vec<Value> {
        match rows {
            RowPredictions::Numbers(rows) => {
                rows.iter().enumerate().map(|(row, said)| self.number(row, said)).collect()
            }
            RowPredictions::Classes(rows) => rows.iter().enumerate().map(|(row, said)| self.class(row, said)).collect(),
        }
    }

    /// What is said of every row.
    fn row(&self, row: usize) -> Value {
        let features: Map<_, _> = self.given.names.iter().cloned().zip(self.given.row(row).iter().cloned()).collect();
        json!({"input": self.file.display().to_string(), "row": self.start + row, "features": features})
    }

    /// What is out of the ordinary, and what rules say of it.
    fn judged(&self, json: &mut Value, row: usize, out_of_range: &[String], verdict: Option<Verdict>) {
        json["out_of_range"] = json!(out_of_range);
        json["flags"] = json!(self.given.flags[row]);
        if let Some(verdict) = verdict {
            add(json, verdict.fields);
        }
    }

    fn number(&self, row: usize, said: &NumberPrediction) -> Value {
        let NumberPrediction { mean, sd, epistemic_sd, noise_sd, .. } = said;
        let mut json = self.row(row);
        add(
            &mut json,
            json!({"prediction": said, "mean": mean, "sd": sd, "aleatoric": noise_sd, "epistemic": epistemic_sd}),
        );
        let evidence = said.evidence(self.view);
        self.judged(&mut json, row, &evidence.outside.said, self.rules.of_number(&evidence));
        json
    }

    fn class(&self, row: usize, said: &ClassPrediction) -> Value {
        let mut json = self.row(row);
        add(&mut json, class_fields(self.classes, said, self.top));
        let evidence = said.evidence_of_row(self.inputs(row), self.view);
        self.judged(&mut json, row, &evidence.outside.said, self.rules.of_class(&evidence));
        json
    }

    /// A row as the network takes it.
    fn inputs(&self, row: usize) -> &[f64] {
        let width = self.given.inputs.len() / self.given.flags.len().max(1);
        self.given.inputs.get(row * width..(row + 1) * width).unwrap_or_default()
    }

    /// The cells of a row for people.
    fn features(&self, row: usize) -> String {
        let cell = |cell: &Value| match cell {
            Value::Null => "-".to_owned(),
            Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
            Value::String(text) => text.clone(),
            Value::Number(number) => number.as_f64().map_or(number.to_string(), |x| format!("{x}")),
            other => other.to_string(),
        };
        self.given.row(row).iter().map(cell).collect::<Vec<_>>().join(", ")
    }

    fn table(&self, rows: &RowPredictions) -> String {
        let count = self.given.flags.len();
        let width = (0..count).map(|row| self.features(row).chars().count()).max().unwrap_or(0).max(8);
        let head = match rows {
            RowPredictions::Numbers(_) => {
                format!("{:>10}  {:>8}  {:>9}  {:>9}", "mean", "±", "epistemic", "noise")
            }
            RowPredictions::Classes(_) => {
                format!("{:>7}  {:>6}  {:>9}  {:>9}  class", "prob.", "total", "aleatoric", "epistemic")
            }
        };
        let mut text = String::new();
        if self.start == 0 {
            let _ = writeln!(text, "{}\n{:>width$}  {head}", self.file.display(), "features");
        }
        for row in 0..count {
            let (numbers, remarks) = match rows {
                RowPredictions::Numbers(rows) => self.number_line(&rows[row]),
                RowPredictions::Classes(rows) => self.class_line(&rows[row], self.inputs(row)),
            };
            let _ = writeln!(text, "{:>width$}  {numbers}", self.features(row));
            for line in remarks.iter().chain(&self.given.flags[row]) {
                let _ = writeln!(text, "{:>width$}  {line}", "");
            }
        }
        text
    }

    fn number_line(&self, said: &NumberPrediction) -> (String, Vec<String>) {
        let NumberPrediction { mean, sd, epistemic_sd, noise_sd, .. } = said;
        let evidence = said.evidence(self.view);
        let remarks = remarks(self.rules.of_number(&evidence), evidence.outside.said);
        (format!("{mean:>10.4}  {sd:>8.4}  {epistemic_sd:>9.4}  {noise_sd:>9.4}"), remarks)
    }

    fn class_line(&self, said: &ClassPrediction, inputs: &[f64]) -> (String, Vec<String>) {
        let ClassPrediction { total, aleatoric, epistemic, .. } = said;
        let evidence = said.evidence_of_row(inputs, self.view);
        let remarks = remarks(self.rules.of_class(&evidence), evidence.outside.said);
        let best = said.top(1).into_iter().next().unwrap_or_default();
        let line = format!(
            "{:>5.1} %  {total:>6.3}  {aleatoric:>9.3}  {epistemic:>9.3}  {}",
            100.0 * best.1,
            self.classes[best.0]
        );
        (line, remarks)
    }
}

/// The decision, and features outside the training data that it does not name.
fn remarks(verdict: Option<Verdict>, outside: Vec<String>) -> Vec<String> {
    let lines = verdict.map_or_else(Vec::new, |verdict| verdict.lines);
    let unnamed: Vec<_> =
        outside.into_iter().filter(|said| !lines.iter().any(|line| line.contains(said.as_str()))).collect();
    lines.into_iter().chain(unnamed).collect()
}
