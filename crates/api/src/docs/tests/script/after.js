// What the script must have done to the document of doubles.
assert.deepEqual(classes, ["scripted"]);

const [first, second] = samples.map((sample) => sample.children[0]);
assert.equal(samples[0].children.length, 1);
assert.deepEqual([first.type, first.textContent, second.textContent], ["button", "Copy", "Copy"]);
const spoken = body.children[0];
assert.equal(spoken.attributes.get("role"), "status");

await first.handlers.get("click")();
assert.deepEqual([written, first.textContent, spoken.textContent], ["curl a", "Copied", "Copied"]);
assert.equal(second.textContent, "Copy");
timers.pop()();
assert.deepEqual([first.textContent, spoken.textContent], ["Copy", ""]);

// Over plain http there is no clipboard: the older way, and if that is refused, a selection.
browser.clipboard = undefined;
await second.handlers.get("click")();
assert.deepEqual([commands, selected.textContent, second.textContent], [["copy"], "{}", "Copied"]);
commandWorks = false;
await second.handlers.get("click")();
assert.equal(second.textContent, "Selected");
assert.match(spoken.textContent, /keyboard/);

const current = (nav) => nav.children.filter((link) => link.attributes.get("aria-current") === "location");
const marked = () => [wide, narrow].map((nav) => current(nav).map((link) => link.hash).join());
assert.deepEqual(marked(), ["#one", "#one"]);
for (const [tops, section] of [[[-400, 100, 1600], "#two"], [[-2400, -1900, -400], "#three"], [[0, 500, 2000], "#one"]]) {
  place(tops);
  windowHandlers.get("scroll")();
  assert.deepEqual(marked(), [section, section]);
}

narrow.open = true;
narrow.handlers.get("click")({ target: narrow.children[1] });
assert.equal(narrow.open, false);
narrow.open = true;
narrow.handlers.get("keydown")({ key: "Escape" });
assert.deepEqual([narrow.open, narrow.summary.focused], [false, true]);
