"use strict";
// Shows /openapi.json and tries operations with a token that never leaves this page's memory.

const at = (id) => document.getElementById(id);

function node(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "on") Object.entries(value).forEach(([event, act]) => made.addEventListener(event, act));
    else if (value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

let api = null;

function resolve(value) {
  if (!value || !value.$ref) return value;
  return value.$ref.slice(2).split("/").reduce((found, key) => found[key], api);
}

function row(...cells) {
  return node("tr", {}, ...cells.map((cell) => node("td", {}, cell)));
}

function typeOf(schema) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.type === "array") return typeOf(schema.items) + ", …";
  return [schema.type, schema.format].filter(Boolean).join(" ");
}

function parameterRows(parameters, fields) {
  return parameters.map((given) => {
    const parameter = resolve(given);
    const field = node("input", { placeholder: typeOf(parameter.schema), "aria-label": parameter.name });
    fields.push([parameter, field]);
    const name = node("code", {}, parameter.name + (parameter.required ? " *" : ""));
    return row(name, node("span", {}, parameter.in), parameter.description || "", field);
  });
}

function answerRows(responses) {
  return Object.entries(responses).map(([status, given]) => {
    const answer = resolve(given);
    const content = Object.entries(answer.content || {}).map(
      ([media, body]) => [media, typeOf(body.schema)].filter(Boolean).join(" "));
    return row(node("code", {}, status), answer.description || "", content.join(", "));
  });
}

async function attempt(method, path, fields, body, out) {
  const query = new URLSearchParams();
  const headers = {};
  for (const [parameter, field] of fields) {
    const value = field.value.trim();
    if (!value) continue;
    if (parameter.in === "path") path = path.replace(`{${parameter.name}}`, encodeURIComponent(value));
    else if (parameter.in === "query") query.append(parameter.name, value);
    else headers[parameter.name] = value;
  }
  const token = at("token").value.trim();
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body) headers["Content-Type"] = "application/json";
  out.textContent = "…";
  try {
    const target = query.size ? `${path}?${query}` : path;
    const answer = await fetch(target, { method, headers, body: body ? body.value : undefined });
    out.textContent = `${answer.status} ${answer.statusText}\n\n`;
    const type = answer.headers.get("content-type") || "";
    if (type.includes("json")) {
      out.textContent += JSON.stringify(await answer.json(), null, 2);
      return;
    }
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      out.append(part.value);
    }
  } catch (error) {
    out.textContent += String(error);
  }
}

function inside(method, path, operation) {
  const fields = [];
  const rows = parameterRows(operation.parameters || [], fields);
  const content = operation.requestBody && Object.entries(operation.requestBody.content)[0];
  const body = content ? node("textarea", { spellcheck: "false", "aria-label": "body" }) : null;
  if (body) body.value = "{\n  \"metadata\": {\"name\": \"\"},\n  \"spec\": {}\n}";
  const out = node("pre", { hidden: "" });
  const act = () => { out.hidden = false; attempt(method.toUpperCase(), path, fields, body, out); };
  return node("div", { class: "inside" },
    rows.length ? node("table", {}, ...rows) : null,
    body ? node("p", {}, `Body: ${content[0]}, ${typeOf(content[1].schema)}`) : null, body,
    node("p", {}, node("button", { type: "button", on: { click: act } }, "Try it")), out,
    node("h4", {}, "Answers"), node("table", {}, ...answerRows(operation.responses)));
}

function card(path, method, operation) {
  const made = node("details", {},
    node("summary", {}, node("span", { class: `method ${method}` }, method.toUpperCase()),
      node("code", {}, path), node("span", { class: "words" }, operation.summary || "")));
  const open = () => { if (made.open && made.children.length === 1) made.append(inside(method, path, operation)); };
  made.addEventListener("toggle", open);
  return made;
}

function show() {
  const kind = at("kind").value;
  const words = at("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const cards = [];
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const text = `${path} ${method} ${operation.summary}`.toLowerCase();
      if (!(operation.tags || []).includes(kind) || !words.every((word) => text.includes(word))) continue;
      cards.push(card(path, method, operation));
    }
  }
  at("operations").replaceChildren(...cards);
}

async function begin() {
  api = await (await fetch("/openapi.json")).json();
  at("about").textContent = `${api.info.description} Version ${api.info.version}.`;
  for (const tag of [...api.tags, { name: "gateway", description: "the gateway itself" }]) {
    at("kind").append(node("option", { value: tag.name }, `${tag.name} (${tag.description})`));
  }
  at("kind").addEventListener("change", show);
  at("search").addEventListener("input", show);
  at("who").addEventListener("submit", (event) => event.preventDefault());
  show();
}

begin().catch((error) => { at("about").textContent = `The description cannot be read: ${error}`; });
