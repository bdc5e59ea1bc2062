// What htmx does not do: keys, live refresh that can be paused, relative times, copying an id.
(() => {
  "use strict";
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const one = (selector, root = document) => root.querySelector(selector);
  const say = (text) => { const said = one("#said"); if (said) said.textContent = text; };

  // Relative times go stale: rewrite them from the moment they stand for.
  const words = (iso) => {
    const seconds = Math.round((Date.now() - Date.parse(iso)) / 1000);
    const size = Math.abs(seconds);
    if (size < 2) return "just now";
    const text = size < 120 ? `${size} s` : size < 7200 ? `${Math.floor(size / 60)} min`
      : size < 172800 ? `${Math.floor(size / 3600)} h` : `${Math.floor(size / 86400)} days`;
    return seconds < 0 ? `in ${text}` : `${text} ago`;
  };
  const tick = () => all("[data-ago]").forEach((node) => { node.textContent = words(node.dataset.ago); });
  setInterval(() => { if (!document.hidden) tick(); }, 5000);

  // Live refresh: never while hidden, paused, ticked or being worked on.
  const PAUSED = "lockhouse.paused";
  const store = {
    get: (key) => { try { return sessionStorage.getItem(key); } catch { return null; } },
    set: (key, value) => { try { sessionStorage.setItem(key, value); } catch { /* private mode */ } },
  };
  const paused = () => store.get(PAUSED) === "1";
  const showPause = () => {
    all("[data-pause]").forEach((button) => {
      button.hidden = false;
      button.textContent = paused() ? "Resume" : "Pause";
      button.setAttribute("aria-pressed", String(paused()));
    });
    all("[data-live-note]").forEach((note) => {
      note.classList.toggle("paused", paused());
      one("[data-live-word]", note).textContent = paused() ? "Refresh is paused." : "Refreshes by itself.";
    });
  };
  const togglePause = () => { store.set(PAUSED, paused() ? "0" : "1"); showPause(); say(paused() ? "Refresh paused" : "Refresh resumed"); };
  const busy = (node) => node.contains(document.activeElement) || one("input:checked", node) !== null
    || String(getSelection()).length > 0;
  setInterval(() => {
    if (document.hidden || paused()) return;
    all("[data-live]").forEach((node) => { if (!busy(node)) node.dispatchEvent(new CustomEvent("refresh")); });
  }, 10000);

  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.target.matches("[data-poll]") && document.hidden) event.preventDefault();
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    showPause();
    showTicked();
    tick();
    const news = one("[data-say]", event.target) || (event.target.matches("[data-say]") ? event.target : null);
    if (news) say(news.dataset.say);
  });
  ["htmx:sendError", "htmx:timeout"].forEach((name) => document.addEventListener(name, () => {
    all("[data-live-note]").forEach((note) => { one("[data-live-word]", note).textContent = "No answer from the server; what you see may be old."; });
    say("The server does not answer.");
  }));

  document.addEventListener("click", (event) => {
    const target = event.target.closest("[data-pause], [data-copy], [data-keys], [data-close], [data-keys-off], [data-print], [data-device-zone], [data-tick-all]");
    if (!target) return;
    if (target.matches("[data-pause]")) togglePause();
    if (target.matches("[data-keys]")) one("#keys").showModal();
    if (target.matches("[data-close]")) target.closest("dialog").close();
    if (target.matches("[data-print]")) window.print();
    if (target.matches("[data-device-zone]")) one(`#${target.dataset.deviceZone}`).value = Intl.DateTimeFormat().resolvedOptions().timeZone;
    if (target.matches("[data-tick-all]")) tickAll();
    if (target.matches("[data-keys-off]")) { keysOff(!off()); target.closest("dialog").close(); }
    if (target.matches("[data-copy]")) {
      navigator.clipboard.writeText(target.dataset.copy).then(() => {
        target.classList.add("copied");
        say("Copied");
        setTimeout(() => target.classList.remove("copied"), 1600);
      }, () => say("The browser did not allow copying."));
    }
  });

  // Ticked rows: how many, and all of a page at once.
  const showTicked = () => {
    const boxes = all("[data-rows] input[name=ref]");
    const ticked = boxes.filter((box) => box.checked).length;
    all("[data-ticked]").forEach((node) => { node.textContent = ticked ? ` ${ticked}` : ""; });
    all("[data-tick-all]").forEach((button) => {
      button.hidden = boxes.length === 0;
      button.textContent = ticked ? "Untick all" : "Tick all on this page";
    });
    return ticked;
  };
  const tickAll = () => {
    const boxes = all("[data-rows] input[name=ref]");
    const none = !boxes.some((box) => box.checked);
    boxes.forEach((box) => { box.checked = none; });
    say(`${showTicked()} rows ticked`);
  };
  document.addEventListener("change", (event) => { if (event.target.matches("[data-rows] input[name=ref]")) say(`${showTicked()} rows ticked`); });
  window.addEventListener("pageshow", showTicked);

  // A form is sent once: the second press changes nothing, and the server would not act twice anyway.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.dataset.sent === "1") { event.preventDefault(); return; }
    if (form.matches("[data-once]")) {
      form.dataset.sent = "1";
      const button = one("button[type=submit]", form);
      if (button) { button.classList.add("busy"); button.textContent = button.dataset.busy || button.textContent; }
    }
  });
  window.addEventListener("pageshow", () => all("form[data-once]").forEach((form) => { form.dataset.sent = ""; }));

  // Single keys can be turned off (WCAG 2.1.4).
  const OFF = "lockhouse.keys";
  const off = () => { try { return localStorage.getItem(OFF) === "off"; } catch { return false; } };
  const keysOff = (value) => { try { localStorage.setItem(OFF, value ? "off" : "on"); } catch { /* private mode */ } showKeys(); };
  const showKeys = () => {
    all("[data-keys-off]").forEach((button) => { button.textContent = off() ? "Turn single keys on" : "Turn single keys off"; });
    all("[data-keys]").forEach((button) => { button.hidden = false; });
  };
  let before = "";
  const go = (selector) => { const node = one(selector); if (node) node.click(); };
  const move = (step) => {
    const links = all("[data-rows] [data-row]");
    if (!links.length) return;
    const here = links.indexOf(document.activeElement);
    links[Math.min(links.length - 1, Math.max(0, here + step))].focus();
  };
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const dialog = one("#keys");
    if (event.key === "?") { dialog.open ? dialog.close() : dialog.showModal(); return; }
    if (off() || dialog.open) return;
    if (before === "g") {
      const place = { o: "overview", d: "dlq", w: "work", a: "audit" }[event.key];
      before = "";
      if (place) go(`.rail a[data-go="${place}"]`);
      return;
    }
    before = event.key === "g" ? "g" : "";
    const act = {
      j: () => move(1), k: () => move(-1), n: () => go("[data-older]"), p: () => go("[data-newer]"),
      r: () => go("[data-replay]"), ".": () => { if (one("[data-pause]")) togglePause(); },
      "/": () => { const find = one("#find"); if (find) { find.focus(); event.preventDefault(); } },
    }[event.key];
    if (act) act();
  });
  all("[data-device-zone], [data-print]").forEach((button) => { button.hidden = false; });
  showPause();
  showKeys();
})();
