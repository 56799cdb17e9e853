// Finds out what the model is, shows what fits it, and how it is.

import { captionPanel } from "./caption.js";
import { $, showCommand, quoted } from "./page.js";
import { address, readSettings, signatures, versions } from "./server.js";
import { translatePanel } from "./translate.js";

const PAUSE = 5000;
const STATES = { AVAILABLE: "good", LOADING: "wait", START: "wait", UNLOADING: "wait", END: "bad" };
const PANELS = { translate: "text", caption: "image_bytes" };

let model = "";
let known = {};

function fits(panel) {
  const inputs = known.serving_default ?? [];
  if (panel === "translate") return "nbest" in known && inputs.join() === PANELS[panel];
  return inputs.includes(PANELS[panel]);
}

function showPanels() {
  for (const panel of Object.keys(PANELS)) $(panel).hidden = !fits(panel);
  const asks = (known.serving_default ?? []).includes("question");
  $("question-row").hidden = !asks;
  $("picture-heading").textContent = asks ? "Ask about a picture" : "Caption a picture";
  for (const id of ["answers", "alignment", "command", "error"]) $(id).hidden = true;
  const other = Object.keys(known).length && !Object.keys(PANELS).some(fits);
  $("unknown").hidden = !other;
  if (!other) return;
  const inputs = known.serving_default ?? [];
  $("unknown").textContent = `This page translates and captions. The model "${model}" does neither: `
    + `it has the signatures ${Object.keys(known).sort().join(", ")}.`;
  const body = JSON.stringify({ inputs: Object.fromEntries(inputs.map((name) => [name, ["..."]])) });
  showCommand(`curl -d ${quoted(body)} \\\n  ${quoted(`${address(model)}:predict`)}`);
}

function showStatus(state, text) {
  if ($("status-text").textContent === text) return;
  $("status").dataset.state = state;
  $("status-text").textContent = text;
}

async function look() {
  const asked = model;
  try {
    const found = await versions(asked);
    if (asked !== model) return;
    const answering = found.filter((one) => one.state === "AVAILABLE");
    const [newest] = answering.length ? answering : found;
    showStatus(STATES[newest.state] ?? "none", `version ${newest.version}, ${newest.state.toLowerCase()}`);
    if (answering.length && !Object.keys(known).length) {
      known = await signatures(asked);
      showPanels();
    }
  } catch (error) {
    if (asked !== model) return;
    known = {};
    showPanels();
    showStatus("bad", error.message);
  }
}

function choose(name) {
  model = name;
  known = {};
  showPanels();
  return look();
}

$("model-form").addEventListener("submit", (event) => {
  event.preventDefault();
  choose($("model-name").value.trim());
});
$("model-name").addEventListener("change", () => choose($("model-name").value.trim()));
translatePanel(() => model, () => known);
captionPanel(() => model, () => known);

const settings = await readSettings();
$("model-name").value = settings.model;
await choose(settings.model);
setInterval(look, PAUSE);
