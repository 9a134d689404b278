function named(path, key) {
  return path ? `${path}.${key}` : key;
}

function shown(value) {
  if (value === null || typeof value !== "object") return String(value);
  const type = value.constructor?.name ?? "object";
  return ArrayBuffer.isView(value) ? `${type} of length ${value.length}` : type;
}

function wrong(path, leaf, wanted, value) {
  return new TypeError(
    `${path}: expected ${wanted} (${leaf.is}), got ${shown(value)}`);
}

function view(memory, leaf) {
  return new globalThis[leaf.type](memory.buffer, leaf.at, leaf.length);
}

function takeNumber(memory, leaf, value, path) {
  const fits = typeof value === leaf.number ||
    (leaf.number === "boolean" && (value === 0 || value === 1));
  if (!fits) throw wrong(path, leaf, `a ${leaf.number}`, value);
  view(memory, leaf)[0] = leaf.number === "boolean" ? Number(value) : value;
}

function takeArray(memory, leaf, value, path) {
  const type = Object.prototype.toString.call(value).slice(8, -1);
  if (type !== leaf.type || value.length !== leaf.length) {
    throw wrong(path, leaf, `${leaf.type} of length ${leaf.length}`, value);
  }
  if (leaf.at && leaf.is.startsWith("bool")) value = value.map((x) => (x ? 1 : 0));
  if (leaf.at) view(memory, leaf).set(value);
  if (leaf.pointer) new DataView(memory.buffer).setUint32(leaf.pointer, leaf.at, true);
}

function take(memory, node, value, path) {
  if (node.number) return takeNumber(memory, node, value, path);
  if (node.type) return takeArray(memory, node, value, path);
  const keys = node.fields.map(([key]) => key);
  if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) {
    const kind = node.kind === "sequence" ? "an array" : "an object";
    throw new TypeError(
      `${path || "the argument"}: expected ${kind} with ${keys}, got ${shown(value)}`);
  }
  for (const key of Object.keys(value)) {
    if (!keys.includes(key) && value[key] != null) {
      throw new TypeError(`${named(path, key)} is not known; expected ${keys}`);
    }
  }
  for (const [key, child] of node.fields) {
    if (value[key] === undefined) throw new TypeError(`${named(path, key)} is missing`);
    take(memory, child, value[key], named(path, key));
  }
}

// Points the fields of results at their memory.
function point(memory, node) {
  if (node.pointer) {
    new DataView(memory.buffer).setUint32(node.pointer, node.at, true);
  }
  for (const [, child] of node.fields ?? []) point(memory, child);
}

function give(memory, node) {
  if (node.number) {
    const [value] = view(memory, node);
    return node.number === "boolean" ? value !== 0 : value;
  }
  if (node.type) return view(memory, node).slice();
  const result = node.kind === "sequence" ? [] : {};
  for (const [key, child] of node.fields) result[key] = give(memory, child);
  return result;
}

function caller(memory, name, description, code) {
  const { call, inputs, outputs, single } = description;
  return function (given = {}) {
    take(memory, inputs, given, "");
    point(memory, outputs);
    const status = code(...call);
    if (status !== 0) throw new Error(`${name} returned code ${status}`);
    const results = give(memory, outputs);
    return single ? Object.values(results)[0] : results;
  };
}

// Returns the compiled module of a source: an address, a response, bytes or a module.
async function compiled(source) {
  source = await source;
  if (source instanceof WebAssembly.Module) return source;
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) {
    return WebAssembly.compile(source);
  }
  if (typeof Response === "undefined" || !(source instanceof Response)) {
    const url = new URL(source, import.meta.url);
    if (url.protocol === "file:" && typeof process !== "undefined") {
      const system = "node:fs/promises"; // bundlers for browsers leave it alone
      const { readFile } = await import(/* @vite-ignore */ /* webpackIgnore: true */ system);
      return WebAssembly.compile(await readFile(url));
    }
    source = await fetch(url);
  }
  if (!source.ok) throw new Error(`${source.url}: status ${source.status}`);
  return WebAssembly.compile(await source.arrayBuffer());
}

/**
 * Loads the functions.
 *
 * @param source where the code is, if not beside this file: an address, a Response or
 *   a promise of one, bytes, or a WebAssembly.Module, which workers can share.
 */
export async function load(source = FILE()) {
  const module = await compiled(source);
  const { exports } = await WebAssembly.instantiate(module, {});
  const { memory } = exports;
  const missing = END - memory.buffer.byteLength;
  if (missing > 0) memory.grow(Math.ceil(missing / 65536));
  const library = { module, memory };
  for (const [name, description] of Object.entries(FUNCTIONS)) {
    library[name] = caller(memory, name, description, exports[name]);
  }
  return library;
}

export default load;
