"use strict";
const $ = (id) => document.getElementById(id);
let features = [];

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
  const name = $("model").value;
  if (!name) { $("about").textContent = "No model is ready."; return; }
  const model = await asked("v2/models/" + encodeURIComponent(name), { headers: headers() });
  const rows = model.inputs[0].name === "row";
  $("pictures").hidden = rows;
  $("row").hidden = !rows;
  features = rows ? model.parameters.features : [];
  $("features").replaceChildren(...features.map((feature, place) => {
    const label = element("label", feature + " ");
    const input = element("input");
    input.type = "number"; input.step = "any"; input.id = "feature-" + place; input.required = true;
    label.append(input);
    return label;
  }));
  $("about").textContent = rows ? "This model predicts " + model.parameters.target + " from a row of numbers." : "This model looks at pictures.";
}

function show(nodes) { $("answer").replaceChildren(...nodes); $("answer").scrollIntoView({ block: "nearest" }); }
function fail(error) { show([element("p", error.message || String(error), "error")]); }
const round = (value) => Number(value).toPrecision(4);

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

function answerOf(input, model) {
  const nodes = [element("h2", input.input)];
  if (input.decision) nodes.push(element("p", input.decision + ": " + input.reason, "verdict " + input.decision));
  if (input.probabilities) {
    const classes = model.parameters.classes;
    const top = input.probabilities.map((p, place) => [classes[place], p]).sort((a, b) => b[1] - a[1]).slice(0, 5);
    if (!input.decision) nodes.push(element("p", input.class, "verdict"));
    nodes.push(bars(top.map(([name, p]) => [name, p, (100 * p).toFixed(1) + " %"]), 1));
    for (const set of input.sets || []) nodes.push(element("p", "With probability " + set.level + " one of: " + set.classes.join(", ")));
  } else if (input.mean !== undefined) {
    nodes.push(element("p", round(input.mean) + " ± " + round(input.sd), "verdict"));
    for (const part of input.intervals || []) nodes.push(element("p", "With probability " + part.level + " between " + round(part.lower) + " and " + round(part.upper)));
  } else if (input.map) {
    const map = element("img");
    map.src = input.map; map.alt = "Picture, prediction, and total, aleatoric and epistemic uncertainty side by side";
    nodes.push(map);
  }
  const parts = input.mean === undefined
    ? [["total", input.total], ["aleatoric", input.aleatoric], ["epistemic", input.epistemic]]
    : [["noise of the data (aleatoric)", input.aleatoric], ["unknown to the model (epistemic)", input.epistemic]];
  nodes.push(element("h2", "Uncertainty"));
  nodes.push(bars(parts.map(([name, value]) => [name, value, round(value)]), Math.max(...parts.map((part) => part[1]), 1e-12)));
  if (input.ood_p !== undefined) nodes.push(element("p", "Probability of so unusual an input among those like the training data: " + round(input.ood_p)));
  return nodes;
}

$("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  const query = new URLSearchParams({ model: $("model").value });
  if ($("draws").value) query.set("draws", $("draws").value);
  try {
    let options;
    if (features.length) {
      const row = Object.fromEntries(features.map((feature, place) => [feature, Number($("feature-" + place).value)]));
      options = { method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify({ row }) };
    } else {
      const file = $("file").files[0];
      if (!file) throw new Error("Choose a picture first.");
      options = { method: "POST", headers: headers({ "Content-Type": file.type || "application/octet-stream" }), body: file };
    }
    show([element("p", "…")]);
    const [said, model] = [await asked("predict?" + query, options), await asked("v2/models/" + encodeURIComponent($("model").value), { headers: headers() })];
    show([...said.inputs.flatMap((input) => answerOf(input, model)), ...said.failed.map((failed) => element("p", failed.error, "error"))]);
    await load();
  } catch (error) { fail(error); }
});

$("model").addEventListener("change", () => describe().catch(fail));
$("token").addEventListener("change", () => listModels().catch(fail));
$("file").addEventListener("change", () => {
  const file = $("file").files[0];
  $("preview").hidden = !file;
  if (file) $("preview").src = URL.createObjectURL(file);
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

async function load() {
  const response = await fetch("metrics", { headers: headers() });
  if (!response.ok) return;
  const wanted = {
    nv_inference_request_success: "answered requests", nv_inference_request_failure: "failed requests",
    nv_inference_count: "answered inputs", fidgp_queue_inputs: "waiting inputs", fidgp_epistemic_mean: "mean epistemic uncertainty",
    fidgp_ood_alarms_total: "out-of-distribution inputs",
  };
  const lines = [];
  for (const line of (await response.text()).split("\n")) {
    const found = line.match(/^([a-z_]+)(\{[^}]*\})? (\S+)/);
    if (!found || !(found[1] in wanted)) continue;
    const model = (found[2] || "").match(/model="([^"]*)"/);
    lines.push(element("dt", wanted[found[1]] + (model ? " (" + model[1] + ")" : "")), element("dd", found[3]));
  }
  $("load").replaceChildren(...lines);
}

listModels().then(load).catch(fail);
setInterval(() => load().catch(() => {}), 5000);
