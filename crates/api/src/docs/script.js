// What the page has beyond its text: buttons that copy samples, and the current section in the contents.
// Without it everything can still be read, linked to and selected.
(() => {
  "use strict";
  const MESSAGE_MILLISECONDS = 2000;
  document.documentElement.classList.add("scripted");

  // Screen readers read out what changes in it.
  const spoken = document.createElement("p");
  spoken.className = "spoken";
  spoken.setAttribute("role", "status");
  document.body.append(spoken);

  async function copy(code) {
    try {
      // Browsers offer this over https and on localhost alone.
      await navigator.clipboard.writeText(code.textContent);
      return true;
    } catch {
      getSelection().selectAllChildren(code);
      return document.execCommand("copy");
    }
  }

  for (const sample of document.querySelectorAll(".sample")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    let restore;
    button.addEventListener("click", async () => {
      const copied = await copy(sample.querySelector("code"));
      button.textContent = copied ? "Copied" : "Selected";
      spoken.textContent = copied ? "Copied" : "Selected. Copy it with the keyboard.";
      clearTimeout(restore);
      restore = setTimeout(() => {
        button.textContent = "Copy";
        spoken.textContent = "";
      }, MESSAGE_MILLISECONDS);
    });
    sample.append(button);
  }

  const wide = document.querySelector(".contents");
  const narrow = document.querySelector(".contents-narrow");
  const summary = narrow.querySelector("summary");
  const links = [...document.querySelectorAll("nav a")];
  const targets = [...wide.querySelectorAll("a")].map((link) => document.getElementById(link.hash.slice(1)));

  function mark() {
    // A section is current from where its heading enters the upper third until the next one does.
    const line = innerHeight / 3;
    const current = targets.findLast((target) => target.getBoundingClientRect().top <= line) ?? targets[0];
    for (const link of links) {
      if (link.hash !== `#${current.id}`) {
        link.removeAttribute("aria-current");
      } else if (!link.hasAttribute("aria-current")) {
        link.setAttribute("aria-current", "location");
        if (wide.contains(link)) show(link);
      }
    }
  }

  // Only the contents scroll, never the page.
  function show(link) {
    const above = link.getBoundingClientRect().top - wide.getBoundingClientRect().top;
    if (above < 0 || above > wide.clientHeight - 2 * link.offsetHeight) {
      wide.scrollTop += above - wide.clientHeight / 2;
    }
  }

  let marking = false;
  function markSoon() {
    if (marking) return;
    marking = true;
    requestAnimationFrame(() => {
      marking = false;
      mark();
    });
  }
  addEventListener("scroll", markSoon, { passive: true });
  addEventListener("resize", markSoon, { passive: true });
  mark();

  // On a phone the contents lie over the text, so they close when they have been used.
  narrow.addEventListener("click", (event) => {
    if (event.target.closest("a")) narrow.open = false;
  });
  narrow.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    narrow.open = false;
    summary.focus();
  });
})();
