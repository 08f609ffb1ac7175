"use strict";
const $ = (id) => document.getElementById(id);
let columns = []; // what a row has: names, what they hold, texts that are known
let example = [];
let gaps = false; // whether a value may be missing
let chosen = null; // the picture to send
let described = 0; // how often a model was asked for: an answer to an earlier question is not shown

function headers(more) {
  const token = $("token").value.trim();
  return token ? { ...more, Authorization: "Bearer " + token } : { ...more };
}

async function asked(path, options) {
  const response = await fetch(path, options);
  if (response.status === 401) $("token-label").hidden = false;
  const text = await response.text();
  let body;
  try { body = JSON.parse(text); } catch { body = { error: text || response.statusText }; }
  if (!response.ok && !(body.failed && body.failed.length)) throw new Error(body.error || response.statusText);
  return body;
}

function element(tag, text, classes) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (classes) made.className = classes;
  return made;
}

async function listModels() {
  const models = await asked("v2/repository/index", { method: "POST", headers: headers() });
  const chosen = $("model").value;
  $("model").replaceChildren(...models.filter((model) => model.state === "READY").map((model) => {
    const option = element("option", model.name);
    option.value = model.name;
    option.selected = model.name === chosen;
    return option;
  }));
  await describe();
}

async function describe() {
  const name = $("model").value, turn = ++described;
  if (!name) { $("about").textContent = "No model is ready."; return; }
  const model = await asked("v2/models/" + encodeURIComponent(name), { headers: headers() });
  if (turn !== described) return;
  const { takes, features, example: middle, target, classes } = model.parameters;
  const rows = takes === "row";
  $("pictures").hidden = rows;
  $("row").hidden = !rows;
  gaps = rows && Boolean(model.parameters.columns);
  columns = rows ? model.parameters.columns || features.map((name) => ({ name, holds: "number" })) : [];
  example = (rows && middle) || [];
  $("example").hidden = rows && !example.length;
  $("features").replaceChildren(...columns.map(field));
  $("answer").replaceChildren();
  take(null);
  const few = classes && classes.length <= 6 ? " (" + classes.join(", ") + ")" : "";
  const gives = target ? "predicts " + target : "chooses one of " + (classes || []).length + " classes" + few;
  const words = rows ? gives + (gaps ? " from a row. Leave a field empty if its value is missing." : " from a row of numbers.")
    : model.inputs[0].name === "picture" ? "gives every pixel of a picture one of " + classes.length + " classes" + few + "."
      : gives + " for a picture.";
  $("about").textContent = "This model " + words;
}

/* A field for a column, as it suits what the column holds. */
function field(column, place) {
  const label = element("label", column.name + " "), known = element("datalist");
  const input = element(column.holds === "boolean" ? "select" : "input");
  if (column.holds === "boolean") {
    for (const [value, text] of [["", "missing"], ["true", "yes"], ["false", "no"]]) {
      const option = element("option", text);
      option.value = value;
      input.append(option);
    }
  } else if (column.holds === "text") {
    known.id = "known-" + place;
    known.append(...(column.levels || []).map((level) => { const option = element("option"); option.value = level; return option; }));
    input.type = "text"; input.setAttribute("list", known.id);
  } else if (column.holds === "date") {
    input.type = "date";
  } else {
    input.type = "number"; input.step = "any"; input.required = !gaps;
  }
  input.id = "feature-" + place;
  label.append(input, known);
  return label;
}

/* What stands in a field, as the server takes it; nothing is a missing value. */
function valueOf(column, place) {
  const text = $("feature-" + place).value;
  if (text === "") return null;
  return column.holds === "number" ? Number(text) : column.holds === "boolean" ? text === "true" : text;
}

function show(nodes) { $("answer").replaceChildren(...nodes); $("answer").scrollIntoView({ block: "nearest" }); }
function fail(error) { show([element("p", error.message || String(error), "error")]); }
const round = (value) => { const small = Math.abs(value) < 1e-3 && Number(value) !== 0; return small ? Number(value).toExponential(1) : Number(value).toPrecision(4); };

function bars(rows, most) {
  const table = element("table");
  for (const [name, value, said] of rows) {
    const line = element("tr");
    const cell = element("td");
    const meter = element("meter");
    meter.max = most; meter.value = Math.max(0, value); meter.setAttribute("aria-label", name);
    cell.append(meter);
    line.append(element("th", name), cell, element("td", said, "number"));
    table.append(line);
  }
  return table;
}

/* The picture with one of its maps over it. The server sends them side by side: picture, prediction, total, aleatoric, epistemic. */
function overlay(source) {
  const box = element("div"), canvas = element("canvas"), layer = element("select"), strength = element("input");
  const names = ["prediction", "total uncertainty", "aleatoric uncertainty", "epistemic uncertainty"];
  layer.append(...names.map((name, place) => { const option = element("option", name); option.value = place + 1; return option; }));
  strength.type = "range"; strength.min = 0; strength.max = 100; strength.value = 60;
  canvas.setAttribute("role", "img");
  const image = new Image();
  const draw = () => {
    const gap = 4, width = (image.width - 4 * gap) / 5;
    canvas.width = width; canvas.height = image.height;
    const brush = canvas.getContext("2d");
    brush.drawImage(image, 0, 0, width, image.height, 0, 0, width, image.height);
    brush.globalAlpha = strength.value / 100;
    brush.drawImage(image, layer.value * (width + gap), 0, width, image.height, 0, 0, width, image.height);
    canvas.setAttribute("aria-label", "The picture with its " + names[layer.value - 1] + " over it");
  };
  image.addEventListener("load", draw);
  layer.addEventListener("change", draw);
  strength.addEventListener("input", draw);
  image.src = source;
  const labelled = (text, control) => { const label = element("label", text + " "); label.append(control); return label; };
  box.append(canvas, labelled("Map", layer), labelled("Strength", strength));
  return box;
}

/* Where the uncertainty comes from, in words. Standard deviations add as squares, entropies as they are. */
function inWords(input) {
  const number = input.mean !== undefined;
  const part = (value) => (number ? value * value : Math.max(0, value));
  const all = part(input.aleatoric) + part(input.epistemic);
  if (!(all > 1e-9)) return "The model sees no uncertainty here.";
  const share = Math.round((100 * part(input.epistemic)) / all);
  const words = share >= 50 ? "Most of the uncertainty is the model's own: it has learnt too little about inputs like this one, and more data would help."
    : "Most of the uncertainty lies in the data: more data of the same kind would change little.";
  return words + " (" + share + " % epistemic" + (number ? ", of the variance)" : ")");
}

/* A picture of simple shapes: something to try before there is a file. */
function drawn() {
  const canvas = element("canvas");
  canvas.width = 96; canvas.height = 96;
  const brush = canvas.getContext("2d");
  const sky = brush.createLinearGradient(0, 0, 0, 96);
  sky.addColorStop(0, "#4a90d9"); sky.addColorStop(0.6, "#cfe6f7"); sky.addColorStop(0.61, "#3c7a34"); sky.addColorStop(1, "#24501f");
  brush.fillStyle = sky; brush.fillRect(0, 0, 96, 96);
  brush.fillStyle = "#b5452b"; brush.fillRect(34, 40, 32, 28);
  brush.fillStyle = "#5a2d1c"; brush.beginPath(); brush.moveTo(28, 42); brush.lineTo(50, 22); brush.lineTo(72, 42); brush.fill();
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

function take(file) {
  chosen = file;
  $("preview").hidden = !file;
  if (!file) $("file").value = "";
  if ($("preview").src) URL.revokeObjectURL($("preview").src);
  if (file) $("preview").src = URL.createObjectURL(file);
  else $("preview").removeAttribute("src");
}

function answerOf(input, model) {
  const nodes = [element("h2", input.input)];
  if (input.decision) nodes.push(element("p", input.decision + ": " + input.reason, "verdict " + input.decision));
  if (input.probabilities) {
    const classes = model.parameters.classes;
    const top = input.probabilities.map((p, place) => [classes[place], p]).sort((a, b) => b[1] - a[1]).slice(0, 5);
    nodes.push(element("p", input.class + " (" + (100 * input.probability).toFixed(1) + " %)", "verdict"));
    nodes.push(bars(top.map(([name, p]) => [name, p, (100 * p).toFixed(1) + " %"]), 1));
    for (const set of input.sets || []) nodes.push(element("p", "With probability " + set.level + " one of: " + set.classes.join(", ")));
  } else if (input.mean !== undefined) {
    nodes.push(element("p", round(input.mean) + " ± " + round(input.sd), "verdict"));
    const end = (value, none) => (value === null ? none : round(value));
    for (const part of input.intervals || []) nodes.push(element("p", "With probability " + part.level + " between " + end(part.lower, "minus infinity") + " and " + end(part.upper, "infinity")));
  } else if (input.map) {
    nodes.push(overlay(input.map));
    const classes = model.parameters.classes;
    const top = input.shares.map((share, place) => [classes[place], share]).filter((one) => one[1] > 0).sort((a, b) => b[1] - a[1]).slice(0, 5);
    nodes.push(element("h2", "Share of the pixels"), bars(top.map(([name, share]) => [name, share, (100 * share).toFixed(1) + " %"]), 1));
  }
  const parts = input.mean === undefined
    ? [["total", input.total], ["aleatoric", input.aleatoric], ["epistemic", input.epistemic]]
    : [["noise of the data (aleatoric)", input.aleatoric], ["unknown to the model (epistemic)", input.epistemic]];
  nodes.push(element("h2", "Uncertainty"));
  nodes.push(bars(parts.map(([name, value]) => [name, value, round(value)]), Math.max(...parts.map((part) => part[1]), 1e-12)));
  nodes.push(element("p", inWords(input)));
  if (input.ood_p !== undefined) nodes.push(element("p", "Probability of so unusual an input among those like the training data: " + round(input.ood_p)));
  const notes = [...(input.flags || []), ...(input.out_of_range || [])];
  if (notes.length) {
    const list = element("ul");
    list.append(...notes.map((note) => element("li", note)));
    nodes.push(element("h2", "Notes on this input"), list);
  }
  return nodes;
}

$("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  const name = $("model").value, turn = described; // another model may be chosen before the answer is there
  const query = new URLSearchParams({ model: name });
  if ($("draws").value) query.set("draws", $("draws").value);
  try {
    let options;
    if (columns.length) {
      const row = Object.fromEntries(columns.map((column, place) => [column.name, valueOf(column, place)]));
      options = { method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify({ row }) };
    } else {
      const file = chosen;
      if (!file) throw new Error("Choose a picture first.");
      options = { method: "POST", headers: headers({ "Content-Type": file.type || "application/octet-stream" }), body: file };
    }
    show([element("p", "…")]);
    const [said, model] = [await asked("predict?" + query, options), await asked("v2/models/" + encodeURIComponent(name), { headers: headers() })];
    if (turn !== described) return;
    show([...said.inputs.flatMap((input) => answerOf(input, model)), ...said.failed.map((failed) => element("p", failed.error, "error"))]);
    await load();
  } catch (error) { if (turn === described) fail(error); }
});

$("model").addEventListener("change", () => describe().then(load).catch(fail));
$("token").addEventListener("change", () => listModels().catch(fail));
$("file").addEventListener("change", () => take($("file").files[0] || null));
$("example").addEventListener("click", async () => {
  if (columns.length) columns.forEach((_, place) => {
    const value = example[place];
    $("feature-" + place).value = typeof value === "number" ? Number(value.toPrecision(4)) : value === null ? "" : String(value);
  });
  else take(await drawn());
  $("ask").requestSubmit();
});
for (const [name, over] of [["dragover", true], ["dragleave", false], ["drop", false]]) {
  $("drop").addEventListener(name, (event) => {
    event.preventDefault();
    $("drop").classList.toggle("over", over);
    if (name === "drop" && event.dataTransfer.files.length) {
      $("file").files = event.dataTransfer.files;
      $("file").dispatchEvent(new Event("change"));
    }
  });
}

/* Metrics as Prometheus reads them: name, labels, value. */
function metricsOf(text) {
  const found = [];
  for (const line of text.split("\n")) {
    const parts = line.match(/^([a-z0-9_]+)(?:\{(.*)\})? (\S+)/);
    if (!parts) continue;
    const labels = [...(parts[2] || "").matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)].map((one) => [one[1], one[2]]);
    found.push({ name: parts[1], labels: Object.fromEntries(labels), value: Number(parts[3]) });
  }
  return found;
}

/* The time within which this share of the requests was answered, in words; within a bucket it is taken as even. */
function within(buckets, share) {
  const ends = buckets.map((one) => [one.labels.le === "+Inf" ? Infinity : Number(one.labels.le), one.value]).sort((a, b) => a[0] - b[0]);
  const wanted = ends.length ? share * ends[ends.length - 1][1] : 0;
  if (!wanted) return "no request yet";
  let [before, counted] = [0, 0];
  for (const [end, count] of ends) {
    if (count >= wanted) {
      if (end === Infinity) return "more than " + before + " s";
      const time = before + (end - before) * (wanted - counted) / (count - counted);
      return time < 1 ? Number((1000 * time).toPrecision(2)) + " ms" : Number(time.toPrecision(2)) + " s";
    }
    [before, counted] = [end, count];
  }
  return "";
}

/* What the panel shows of a model: pairs of words. */
function panel(metrics) {
  const all = (name) => metrics.filter((one) => one.name === name);
  const one = (name) => (all(name)[0] || { value: 0 }).value;
  const number = (value) => (Number.isInteger(value) ? String(value) : String(round(value)));
  const inputs = one("nv_inference_count"), batches = one("fidgp_batch_size_count");
  const times = all("request_predict_seconds_bucket"), decisions = all("fidgp_decisions_total");
  const lines = [["answered requests", number(one("nv_inference_request_success"))], ["failed requests", number(one("nv_inference_request_failure"))],
    ["half of them took at most", within(times, 0.5)], ["99 % of them took at most", within(times, 0.99)],
    ["answered inputs", number(inputs)], ["waiting inputs", number(one("fidgp_queue_inputs"))],
    ["inputs in a batch, mean", batches ? number(one("fidgp_batch_size_sum") / batches) : "no batch yet"]];
  for (const [verdict, words] of [["accept", "accepted inputs"], ["abstain", "abstentions"], ["out-of-distribution", "out-of-distribution inputs"]]) {
    const count = decisions.filter((one) => one.labels.decision === verdict).reduce((sum, one) => sum + one.value, 0);
    if (decisions.length) lines.push([words, count + (inputs ? " (" + Math.round((100 * count) / inputs) + " %)" : "")]);
  }
  if (inputs) lines.push(["mean epistemic uncertainty", number(one("fidgp_epistemic_mean"))]);
  for (const drift of all("fidgp_drift_log10_e")) lines.push(["evidence of drift (log10) in " + drift.labels.series, number(drift.value)]);
  return lines;
}

async function load() {
  const response = await fetch("metrics", { headers: headers() });
  if (!response.ok) return;
  const metrics = metricsOf(await response.text()), name = $("model").value;
  const lines = name ? panel(metrics.filter((one) => one.labels.model === name)) : [];
  $("load").replaceChildren(...lines.flatMap(([words, value]) => [element("dt", words), element("dd", value)]));
}

listModels().then(load).catch(fail);
setInterval(() => load().catch(() => {}), 5000);
