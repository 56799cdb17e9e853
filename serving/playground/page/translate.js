// Text in; translations and the alignment of the best one out.

import { $, busy, make, quoted, showCommand, shown, unpadded } from "./page.js";
import { address, predict } from "./server.js";

// What translates: `model()` its name, `known()` its signatures.
export function translatePanel(model, known) {
  const form = $("translate");

  async function translate() {
    const text = $("source").value;
    const name = "nbest" in known() ? "nbest" : "serving_default";
    showCommand(command(model(), name, text));
    const [found, aligned] = await Promise.all([
      predict(model(), name, { text: [text] }),
      "align" in known() ? predict(model(), "align", { text: [text] }) : null,
    ]);
    showTranslations(found);
    $("alignment").hidden = !aligned;
    if (aligned) showAlignment(aligned);
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    busy(form, translate);
  });
  $("source").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
}

function command(model, signature, text) {
  const body = JSON.stringify({ signature_name: signature, inputs: { text: [text] } });
  return `curl -d ${quoted(body)} \\\n  ${quoted(`${address(model)}:predict`)}`;
}

function showTranslations(found) {
  const texts = found.translations?.[0] ?? found.translation;
  const scores = found.scores?.[0] ?? found.score;
  const items = texts
    .map((text, index) => ({ text, score: scores[index] }))
    // Fewer hypotheses leave places without a score.
    .filter(({ score }) => Number.isFinite(score))
    .map(({ text, score }) => make("li", {}, make("span", { textContent: text, dir: "auto" }),
      make("span", { className: "score", textContent: score.toFixed(2), title: "score" })));
  $("nbest").replaceChildren(...items);
  $("answers").hidden = false;
}

function showAlignment(aligned) {
  const source = unpadded(aligned.source_tokens[0]);
  const target = unpadded(aligned.target_tokens[0]);
  const head = source.map((piece) => make("th", { scope: "col", textContent: shown(piece) }));
  const rows = target.map((piece, row) => {
    const cells = source.map((from, column) => cell(
      aligned.alignment[0][row][column], shown(piece), shown(from)));
    return make("tr", {}, make("th", { scope: "row", textContent: shown(piece) }), ...cells);
  });
  const table = make("table", { className: "heat" },
    make("thead", {}, make("tr", {}, make("td"), ...head)), make("tbody", {}, ...rows));
  table.querySelector("thead td").className = "corner";
  table.addEventListener("pointerover", ({ target: over }) => {
    const column = over.closest("tbody td")?.cellIndex;
    head.forEach((one, index) => one.classList.toggle("lit", index + 1 === column));
  });
  $("heat").replaceChildren(table);
}

function cell(weight, target, source) {
  const text = weight.toFixed(2);
  const node = make("td", { textContent: text, title: `${target} \u2190 ${source}: ${text}` });
  node.style.setProperty("--weight", weight);
  node.classList.toggle("some", weight >= 0.1);
  node.classList.toggle("strong", weight >= 0.7);
  return node;
}
