// A picture in; its caption, or the answer to a question, and where the model looked, out.

import { $, busy, make, quoted, showCommand, showError, shown, unpadded } from "./page.js";
import { address, predict } from "./server.js";

const PROBLEMS = {
  1: "The file is empty.",
  2: "This is no picture that the model can read. Give it a JPEG, PNG, GIF or BMP file.",
  3: "The picture has more pixels than the model takes. Give it a smaller one.",
  4: "The file is torn: a part of the picture is missing.",
};

// Where the maps are: signature -> [names of the pieces or null, maps].
const MAPS = { align: ["target_tokens", "alignment"], attention: [null, "weights"] };

export function captionPanel(model, known) {
  const form = $("caption");
  let file = null;

  function take(chosen) {
    if (!chosen) return;
    file = chosen;
    URL.revokeObjectURL($("preview").src);
    $("preview").src = URL.createObjectURL(file);
    $("preview").alt = `Your picture, ${file.name}`;
    $("preview").hidden = false;
    $("map").hidden = true;
    $("drop").classList.add("full");
    form.querySelector("[type=submit]").disabled = false;
    form.requestSubmit();
  }

  async function caption() {
    const inputs = { image_bytes: [{ b64: await base64(file) }] };
    const asks = known().serving_default.includes("question");
    if (asks) inputs.question = [$("question").value];
    showCommand(command(model(), file.name, asks ? $("question").value : null));
    const name = Object.keys(MAPS).find((one) => one in known()) ?? "serving_default";
    const found = await predict(model(), name, inputs);
    clear();
    if (found.error_code?.[0]) {
      throw new Error(PROBLEMS[found.error_code[0]] ?? "The picture cannot be read.");
    }
    const text = (found.caption ?? found.answer)[0] || "(no words)";
    $("caption-answer").replaceChildren(make("p", { className: "answer", textContent: text }));
    if (name in MAPS) showPieces(found, ...MAPS[name]);
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (file) busy(form, caption);
  });
  $("file").addEventListener("change", () => take($("file").files[0]));
  for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
    $("drop").addEventListener(kind, (event) => {
      event.preventDefault();
      $("drop").classList.toggle("over", kind === "dragenter" || kind === "dragover");
      if (kind === "drop") take(event.dataTransfer.files[0]);
    });
  }
  $("preview").addEventListener("error", () => {
    $("preview").hidden = true;
    $("drop").classList.remove("full");
    showError(new Error(PROBLEMS[2]));
  });
}

function clear() {
  $("caption-answer").replaceChildren();
  $("pieces-row").hidden = true;
  $("map").hidden = true;
}

function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(new Error(`${file.name} cannot be read`));
    reader.readAsDataURL(file);
  });
}

function command(model, file, question) {
  const before = '{"inputs": {"image_bytes": [{"b64": "';
  const after = question === null ? '"}]}}' : `"}], "question": [${JSON.stringify(question)}]}}`;
  return `{ printf %s ${quoted(before)}; base64 -w0 ${quoted(file)}; printf %s ${quoted(after)}; } |\n`
    + `  curl -d @- ${quoted(`${address(model)}:predict`)}`;
}

function showPieces(found, names, maps) {
  const grids = found[maps][0];
  const pieces = names ? unpadded(found[names][0]) : grids.map((_, index) => `look ${index + 1}`);
  const buttons = pieces.map((piece, index) => {
    const button = make("button", { type: "button", textContent: shown(piece) });
    button.setAttribute("role", "radio");
    button.addEventListener("click", () => choose(index));
    return button;
  });

  function choose(index) {
    buttons.forEach((button, other) => {
      button.setAttribute("aria-checked", String(other === index));
      button.tabIndex = other === index ? 0 : -1;
    });
    drawMap(grids[index]);
  }

  // Assigned, so that those of the picture before are gone.
  $("pieces").onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = (buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length;
    choose(next);
    buttons[next].focus();
  };
  $("pieces").replaceChildren(...buttons);
  $("pieces-row").hidden = !buttons.length;
  if (buttons.length) choose(0);
}

// Darkens the picture but for where the weights of the grid are; the largest is clear.
function drawMap(grid) {
  const map = $("map");
  map.width = grid[0].length;
  map.height = grid.length;
  const pixels = new ImageData(map.width, map.height);
  const most = Math.max(...grid.flat(), 1e-9);
  grid.flat().forEach((weight, cell) => {
    pixels.data.set([8, 9, 20, Math.round(215 * (1 - weight / most))], 4 * cell);
  });
  map.getContext("2d").putImageData(pixels, 0, 0);
  map.hidden = false;
}
