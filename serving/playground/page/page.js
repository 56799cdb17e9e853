// What all parts of the page share.

export const $ = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  const node = Object.assign(document.createElement(tag), attributes);
  node.append(...children);
  return node;
}

// SentencePiece marks the beginning of a word by a low line.
export const shown = (piece) => piece.replaceAll("\u2581", " ").trim() || "\u2423";

export function unpadded(pieces) {
  let length = pieces.length;
  while (length && pieces[length - 1] === "") length -= 1;
  return pieces.slice(0, length);
}

export function showError(error) {
  $("error").textContent = error.message;
  $("error").hidden = false;
}

// Runs what a form asks for, one request at a time, and shows what went wrong.
export async function busy(form, work) {
  if (form.getAttribute("aria-busy") === "true") return;
  form.setAttribute("aria-busy", "true");
  $("error").hidden = true;
  try {
    await work();
  } catch (error) {
    showError(error);
  } finally {
    form.removeAttribute("aria-busy");
  }
}

export function showCommand(text) {
  $("curl").textContent = text;
  $("command").hidden = false;
}

export const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

$("copy").addEventListener("click", async () => {
  const button = $("copy");
  try {
    await navigator.clipboard.writeText($("curl").textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren($("curl"));
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
});
