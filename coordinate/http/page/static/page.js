// What the page gains by a script: it changes as the board does, it has keys, and nothing that was typed is lost.
// Every view works without it. Nothing here writes HTML from text: a newer view comes from the server, is parsed as an
// inert document, and what differs is carried over.
"use strict";
(() => {
  const REST = 700; // ms between two looks while the board is busy
  const LOOK = 5000; // and at least this often: what is handed over or wakes up is no event
  const $ = (selector, from = document) => from.querySelector(selector);
  const main = $("#main");
  const live = $("#live");
  document.documentElement.classList.add("scripted");

  // --- what is typed is kept, also over a reload

  const fields = () => document.querySelectorAll("[data-draft] textarea");
  const keyOf = (field) => `draft ${field.form.dataset.draft} ${field.name}`;
  const typed = (within) => [...within.querySelectorAll("textarea")].some((field) => field.value !== field.defaultValue);

  // Where a browser keeps nothing, or no more, what is typed lasts as long as the view.
  const drafts = {
    get: (key) => { try { return sessionStorage.getItem(key); } catch { return null; } },
    set: (key, text) => { try { sessionStorage.setItem(key, text); } catch { /* forbidden, or full */ } },
    drop: (key) => { try { sessionStorage.removeItem(key); } catch { /* it was never there */ } },
    dropAll: () => { try { sessionStorage.clear(); } catch { /* there were none */ } },
  };

  function restoreDrafts() {
    for (const field of fields()) {
      const kept = drafts.get(keyOf(field));
      if (kept && field.value === field.defaultValue) field.value = kept;
    }
  }
  document.addEventListener("input", ({ target }) => {
    if (!target.matches("[data-draft] textarea")) return;
    if (target.value) drafts.set(keyOf(target), target.value);
    else drafts.drop(keyOf(target));
  });

  // --- a newer view

  function carry(old, fresh) {
    if (old.dataset.own !== undefined) return;
    if (old.dataset.revision && old.dataset.revision !== fresh.dataset.revision && typed(old)) {
      stale(old, "The words of this ask changed while you were writing.");
    }
    const stands = $(".stands", fresh);
    if (old.dataset.said && old.dataset.said !== fresh.dataset.said && stands && typed(old)) {
      stale(old, `${wordsOf(stands)}, while you were writing.`);
    }
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && name !== "open" && name !== "class") old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value && name !== "open") old.setAttribute(name, value);
    }
    if (old.nodeName === "TEXTAREA") {
      const untouched = old.value === old.defaultValue;
      old.defaultValue = fresh.defaultValue;
      if (untouched) old.value = fresh.defaultValue;
    } else carryChildren(old, fresh);
  }

  const nameOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.id || node.dataset.key || "" : "");
  const kept = (node) => node.nodeType === Node.ELEMENT_NODE && node.dataset.own !== undefined;

  function carryChildren(old, fresh) {
    const wanted = new Set([...fresh.children].map(nameOf).filter(Boolean));
    const there = new Map();
    for (const child of [...old.children]) {
      const name = nameOf(child);
      if (!name || kept(child)) continue;
      if (wanted.has(name)) there.set(name, child);
      else if (child.matches("[data-item]") && typed(child)) leave(child);
      else child.remove();
    }
    let at = old.firstChild;
    const pass = () => { while (at && kept(at)) at = at.nextSibling; };
    for (const each of [...fresh.childNodes]) {
      pass();
      const name = nameOf(each);
      const match = name ? there.get(name) : at && !nameOf(at) && at.nodeName === each.nodeName ? at : null;
      if (match && match.nodeName === each.nodeName) {
        if (match === at) at = at.nextSibling;
        else old.insertBefore(match, at);
        if (each.nodeType === Node.ELEMENT_NODE) carry(match, each);
        else if (match.data !== each.data) match.data = each.data;
      } else {
        const added = document.importNode(each, true);
        if (name && added.matches("[data-item], li")) added.classList.add("fresh");
        old.insertBefore(added, at);
      }
    }
    for (pass(); at; pass()) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  }

  function stale(item, said) {
    let note = $(":scope > .stale", item);
    if (!note) {
      note = document.createElement("p");
      note.className = "stale";
      note.dataset.own = "";
      note.setAttribute("role", "status");
      item.prepend(note);
    }
    note.textContent = said;
  }

  const wordsOf = (node) => node.textContent.replace(/\s+/g, " ").trim();

  // Somebody else was faster: the words stay where they were typed until they are copied or thrown away. Who it was and
  // what they said stands on the ask's own page, where one can say something else, too.
  async function leave(item) {
    item.dataset.own = "";
    item.classList.add("gone");
    for (const button of item.querySelectorAll("button")) button.disabled = true;
    stale(item, "This no longer waits for an answer. What you wrote is still here.");
    const away = document.createElement("button");
    away.type = "button";
    away.textContent = "Throw away";
    away.addEventListener("click", () => {
      for (const field of item.querySelectorAll("textarea")) drafts.drop(keyOf(field));
      item.remove();
    });
    const page = document.createElement("a");
    page.href = $("a.id", item)?.getAttribute("href") ?? location.pathname;
    page.textContent = "See what was said";
    $(".stale", item).append(" ", page, " ", away);
    try {
      const answer = await fetch(page.href, { headers: { Accept: "text/html" } });
      const stands = answer.ok && $(".stands", new DOMParser().parseFromString(await answer.text(), "text/html"));
      if (stands) $(".stale", item).firstChild.data = `${wordsOf(stands)}. What you wrote is still here.`;
    } catch { /* the link leads there */ }
  }

  function show(text) {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    if (!$("#views", fresh)) return;
    const focus = document.activeElement;
    const marks = focus && focus.selectionStart !== undefined ? [focus.selectionStart, focus.selectionEnd] : null;
    const anchor = focus?.closest?.("[data-item]") ?? [...document.querySelectorAll("[data-item]")]
      .find((item) => item.getBoundingClientRect().bottom > 60);
    const before = anchor?.getBoundingClientRect().top;
    document.title = fresh.title;
    carry($("#views"), $("#views", fresh));
    carry(main, $("#main", fresh));
    restoreDrafts();
    if (focus && focus !== document.activeElement && focus.isConnected) {
      focus.focus({ preventScroll: true });
      if (marks) focus.setSelectionRange(...marks);
    }
    if (anchor?.isConnected && window.scrollY > 0) {
      window.scrollBy({ top: anchor.getBoundingClientRect().top - before, behavior: "instant" });
    }
  }

  let looking = null, again = false, last = 0, took = 0, timer = 0;

  async function look() {
    if (looking) { again = true; return looking; }
    looking = (async () => {
      do {
        again = false; // what happens from here on is in the next look
        last = performance.now();
        try {
          const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
          signedOut(answer.redirected && new URL(answer.url).pathname === "/enter");
          if (answer.ok && out.hidden) show(await answer.text());
        } catch { /* the stream says that the server is away */ }
        took = performance.now() - last;
      } while (again);
    })();
    try { await looking; } finally { looking = null; }
  }

  function soon() {
    if (timer) return;
    const rest = Math.max(Number(main.dataset.rest || REST), 4 * took); // a large board is looked at less often
    timer = setTimeout(() => { timer = 0; look(); }, Math.max(40, last + rest - performance.now()));
  }

  // --- the log says when. A view that nobody sees holds no connection: browsers have few for one server.

  let stream = null;
  function follow() {
    if (document.hidden) {
      stream?.close();
      stream = null;
    } else if (!stream) {
      stream = new EventSource("/events");
      stream.addEventListener("log", soon);
      stream.addEventListener("open", () => { state(true); soon(); });
      stream.addEventListener("error", () => {
        state(false);
        if (stream?.readyState === EventSource.CLOSED) { // refused: signed out, maybe
          stream = null;
          setTimeout(follow, 2000);
          look();
        }
      });
    }
  }
  const out = $("#out");
  function signedOut(is) {
    if (out.hidden === is) out.hidden = !is;
  }
  function state(on) {
    live.classList.toggle("on", on);
    live.textContent = on ? "live" : "away";
  }
  document.addEventListener("visibilitychange", follow);
  setInterval(() => { if (!document.hidden) soon(); }, LOOK);

  // --- deeds, without leaving

  // What is to be known beside it stays until something else is said.
  function tell(text, bad = false, undo = null, notice = "") {
    const box = $("#said");
    box.replaceChildren([text, notice].filter(Boolean).join(". "));
    if (undo) {
      const button = document.createElement("button");
      button.textContent = "Undo";
      button.addEventListener("click", () => undo());
      box.append(button);
    }
    box.classList.toggle("bad", bad || !!notice);
    box.classList.add("on");
    clearTimeout(tell.timer);
    if (!notice) tell.timer = setTimeout(() => box.classList.remove("on"), bad ? 12000 : 6000);
  }

  async function send(action, body) {
    let answer, told;
    try {
      answer = await fetch(action, { method: "POST", body, headers: { Accept: "application/json" } });
      told = await answer.json();
    } catch {
      throw new Error("The server does not answer, so this may not have arrived. What you wrote stays here; try again when it is back.");
    }
    signedOut(answer.status === 401);
    if (answer.status === 401) throw new Error("You are signed out. What you wrote stays here.");
    const hint = told.hint?.includes("coordinate ") ? "" : told.hint; // what to type elsewhere does not help here
    if (!answer.ok) throw new Error([told.error, hint].filter(Boolean).join(": "));
    return told;
  }

  document.addEventListener("submit", async (event) => {
    const form = event.target, by = event.submitter;
    if (form.method !== "post" || form.getAttribute("action") === "/leave") {
      if (form.getAttribute("action") === "/leave") drafts.dropAll();
      return;
    }
    if (!("submitter" in event)) return; // an old browser: it knows which button was pressed, and sends the form itself
    event.preventDefault();
    if (form.dataset.busy) return;
    const field = $("textarea", form);
    if (by?.dataset.needs && field && !field.value.trim()) {
      tell(by.dataset.needs, true);
      field.focus();
      return;
    }
    form.dataset.busy = "1";
    ready = null;
    mayUndo = true;
    const action = by?.hasAttribute("formaction") ? by.getAttribute("formaction") : form.getAttribute("action");
    const body = new URLSearchParams(new FormData(form));
    if (by?.name) body.set(by.name, by.value);
    const item = form.closest("[data-item]"), next = neighbour(item);
    try {
      const { said, notice, response_seq } = await send(action, body);
      if (action === "/do/undo") return void await reopened(body.get("ask"), form.dataset.words, said);
      for (const field of form.querySelectorAll("textarea")) drafts.drop(keyOf(field));
      form.reset();
      const details = form.closest("details");
      if (details) details.open = false;
      tell(said, false, action === "/do/respond" ? () => takeBack(body, response_seq) : null, notice);
      await look();
      if (details?.contains(document.activeElement)) document.activeElement.blur();
      rest([item, next].find((each) => each?.isConnected) ?? main);
    } catch (error) {
      tell(error.message, true);
      look();
    } finally {
      delete form.dataset.busy;
    }
  });

  async function takeBack(body, response_seq) {
    const ask = body.get("ask");
    try {
      const { said } = await send("/do/undo", new URLSearchParams({ csrf: body.get("csrf"), ask, response_seq }));
      await reopened(ask, body.get("text"), said);
    } catch (error) {
      tell(error.message, true);
      look();
    }
  }

  // The words that were taken back are a draft again, where they were written.
  async function reopened(ask, words, said) {
    const name = `draft ${ask} text`;
    if (words && !drafts.get(name)) drafts.set(name, words);
    tell(said);
    await look();
    const item = document.getElementById(ask);
    if (item) rest(item);
  }

  // The focus goes on with what it was on; whoever has gone elsewhere meanwhile stays there.
  function rest(item) {
    if (!document.activeElement || document.activeElement === document.body) heading(item).focus();
  }

  document.addEventListener("change", ({ target }) => {
    if (target.matches("select[data-submits]")) target.form.requestSubmit();
  });

  // --- keys. What decides acts on the item that a person went to, and once: after it, the next one has the focus and
  // is not yet gone to, so that a key pressed twice says nothing on it.

  let ready = null, mayUndo = true;
  const goTo = (item) => { ready = item ?? null; mayUndo = true; };
  let tabbed = false;
  document.addEventListener("pointerdown", ({ target }) => goTo(target.closest("[data-item]")));
  document.addEventListener("focusin", ({ target }) => { if (tabbed) goTo(target.closest("[data-item]")); });
  const heading = (item) => $("h1[tabindex], h2[tabindex], h3[tabindex]", item) ?? item;
  const items = () => [...document.querySelectorAll("[data-item]")].filter((item) => item.getClientRects().length);
  const current = () => document.activeElement?.closest?.("[data-item]");
  function neighbour(item) {
    const all = items().filter((each) => each.parentNode === item?.parentNode), at = all.indexOf(item);
    return at < 0 ? null : all[at + 1] ?? all[at - 1];
  }
  function step(by) {
    const all = items();
    if (!all.length) return;
    const here = current(), at = all.indexOf(here);
    const to = by > 0 && here && here !== ready ? here : all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by))];
    goTo(to);
    to.focus();
    to.scrollIntoView({ block: "nearest" });
  }
  const press = (selector, item) => {
    const found = item && [...item.querySelectorAll(selector)].find((each) => each.checkVisibility?.() ?? each.getClientRects().length);
    found?.click();
  };
  const decide = (selector) => press(selector, current() === ready ? ready : null);
  function undoLast() {
    if (mayUndo) $("[data-act=undo]")?.click();
    mayUndo = false;
  }
  const KEYS = {
    j: () => step(1),
    k: () => step(-1),
    r: () => {
      const item = current() ?? items()[0];
      const details = item && $("details[id^=again]", item);
      if (details) details.open = true;
      $("textarea", item ?? document)?.focus();
    },
    s: () => decide("[data-act=snooze]"),
    u: undoLast,
    o: () => press("a.id", current() ?? items()[0]),
    "/": () => $("input[type=search]")?.focus(),
    "?": () => $("#keys").showModal(),
  };
  const PLACES = { y: "you", b: "boards", t: "tasks", w: "who", l: "log", c: "charts" };
  let going = 0;
  document.addEventListener("keydown", (event) => {
    const { key, target } = event;
    tabbed = key === "Tab";
    if (event.repeat && key !== "j" && key !== "k" && !target.matches("input, textarea, select")) return;
    if (key === "Enter" && (event.ctrlKey || event.metaKey) && target.matches("textarea")) {
      event.preventDefault();
      const by = $("[data-act=answer], button:not([name], [data-sure])", target.form);
      if (by) target.form.requestSubmit(by); // a verdict is pressed
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || $("dialog[open]")) return;
    if (target.matches("input, textarea, select")) {
      if (key === "Escape") {
        const item = target.closest("[data-item]");
        if (item) item.focus();
        else target.blur();
      }
      return;
    }
    if (going && performance.now() - going < 1500 && PLACES[key]) {
      event.preventDefault();
      going = 0;
      $(`#to-${PLACES[key]}`).click();
      return;
    }
    going = key === "g" ? performance.now() : 0;
    if (/^[1-9]$/.test(key)) decide(`[data-option="${key}"]`);
    else if (KEYS[key]) {
      event.preventDefault();
      KEYS[key]();
    }
  });

  restoreDrafts();
  state(false);
  live.textContent = "";
  follow();
})();
