// A document of doubles for the page's script: two samples, contents of three sections in both places.
import assert from "node:assert/strict";

class Double {
  children = [];
  attributes = new Map();
  handlers = new Map();
  textContent = "";
  open = false;
  top = 0;
  focused = false;
  append(child) { this.children.push(child); }
  setAttribute(name, value) { this.attributes.set(name, value); }
  removeAttribute(name) { this.attributes.delete(name); }
  hasAttribute(name) { return this.attributes.has(name); }
  addEventListener(name, handler) { this.handlers.set(name, handler); }
  getBoundingClientRect() { return { top: this.top }; }
  contains(other) { return this.children.includes(other); }
  focus() { this.focused = true; }
  closest() { return this; }
}

const linkTo = (id) => Object.assign(new Double(), { hash: `#${id}`, offsetHeight: 30 });
const contents = () => {
  const nav = Object.assign(new Double(), { clientHeight: 300, scrollTop: 0 });
  nav.children = ["one", "two", "three"].map(linkTo);
  nav.querySelectorAll = () => nav.children;
  nav.querySelector = () => nav.summary;
  nav.summary = new Double();
  return nav;
};
const [wide, narrow] = [contents(), contents()];
const sections = new Map(["one", "two", "three"].map((id) => [id, Object.assign(new Double(), { id })]));
const samples = ["curl a", "{}"].map((text) => {
  const sample = new Double();
  const code = Object.assign(new Double(), { textContent: text });
  sample.querySelector = () => code;
  return sample;
});

const classes = [];
const body = new Double();
const found = { ".sample": samples, "nav a": [...narrow.children, ...wide.children] };
let commands = [];
let commandWorks = true;
globalThis.document = {
  body,
  documentElement: { classList: { add: (name) => classes.push(name) } },
  createElement: () => new Double(),
  querySelector: (selector) => ({ ".contents": wide, ".contents-narrow": narrow })[selector],
  querySelectorAll: (selector) => found[selector],
  getElementById: (id) => sections.get(id),
  execCommand: (command) => (commands.push(command), commandWorks),
};
const windowHandlers = new Map();
globalThis.addEventListener = (name, handler) => windowHandlers.set(name, handler);
globalThis.innerHeight = 900;
globalThis.requestAnimationFrame = (next) => next();
let selected;
globalThis.getSelection = () => ({ selectAllChildren: (node) => (selected = node) });
const timers = [];
globalThis.setTimeout = (next) => timers.push(next);
globalThis.clearTimeout = () => {};
let written;
const clipboard = { writeText: async (text) => (written = text) };
const browser = { clipboard };
Object.defineProperty(globalThis, "navigator", { value: browser, configurable: true });
const place = (tops) => [...sections.values()].forEach((section, index) => (section.top = tops[index]));
place([0, 500, 2000]);
