// Asks the model server, through the playground's own server.

export class Refused extends Error {}

let settings;

// What this playground was started with: {model, server}.
export async function readSettings() {
  settings ??= await json(await fetch("settings.json"));
  return settings;
}

// The address of a model's REST API as a terminal would give it.
export const address = (model) => `${settings.server}${path(model)}`;

export async function predict(model, signature, inputs) {
  const body = JSON.stringify({ signature_name: signature, inputs });
  const answer = await json(await send(`.${path(model)}:predict`, { method: "POST", body }));
  return answer.outputs;
}

// The signatures of the model: name -> names of inputs.
export async function signatures(model) {
  const answer = await json(await send(`.${path(model)}/metadata`));
  const found = answer.metadata.signature_def.signature_def;
  return Object.fromEntries(
    Object.entries(found).map(([name, one]) => [name, Object.keys(one.inputs ?? {}).sort()]));
}

export async function versions(model) {
  return (await json(await send(`.${path(model)}`))).model_version_status;
}

const path = (model) => `/v1/models/${encodeURIComponent(model)}`;

async function send(target, options) {
  try {
    return await fetch(target, options);
  } catch {
    throw new Refused("The playground does not answer. Is it still running?");
  }
}

async function json(response) {
  const answer = await response.json().catch(() => ({}));
  if (!response.ok || answer.error) {
    throw new Refused(answer.error ?? `The server answers with HTTP ${response.status}`);
  }
  return answer;
}
