// A little help for people with scripts; every page works without.
// What comes from the server as HTML was made and escaped there; what comes as JSON is only ever set as text.
"use strict";

(() => {
  const element = (name, className, text) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const send = (address, form, signal) =>
    fetch(address, {
      method: "POST",
      body: new URLSearchParams(new FormData(form)),
      credentials: "same-origin",
      redirect: "error",
      signal,
    });

  // --- the editor: checked while it is typed, previewed in place ---

  const editor = document.getElementById("editor");
  if (editor) {
    const query = document.getElementById("query");
    const path = document.getElementById("xpath");
    const verdict = document.getElementById("verdict");
    const trial = document.getElementById("trial");
    let waiting = 0;
    let running = null;

    const show = (found) => {
      const bad = found.state === "mistake";
      query.toggleAttribute("data-bad", bad);
      for (const field of [query, path]) {
        if (bad && found.field === field.name) field.setAttribute("aria-invalid", "true");
        else field.removeAttribute("aria-invalid");
      }
      if (found.state === "empty") {
        verdict.replaceChildren();
      } else if (bad) {
        const mistake = element("div", "mistake");
        const named = found.field && found.position === null ? `${found.field}: ` : "";
        mistake.append(element("p", "mistake-words", named + found.message));
        if (found.position !== null) {
          const place = element("pre", "caret", found.line + "\n");
          place.setAttribute("aria-hidden", "true");
          place.append(element("b", "", found.caret));
          mistake.append(place, element("p", "unseen", `at character ${found.position + 1}`));
        }
        verdict.replaceChildren(mistake);
      } else {
        const line = element("p", "good", "Good. Read as ");
        line.append(element("code", "", found.read));
        verdict.replaceChildren(line, ...found.notes.map((note) => element("p", "caution", note)));
      }
    };

    const check = async () => {
      if (running) running.abort();
      running = new AbortController();
      try {
        const answer = await send(editor.dataset.check, editor, running.signal);
        if (answer.ok) show(await answer.json());
      } catch (problem) {
        if (problem.name !== "AbortError") verdict.replaceChildren();
      }
    };

    const soon = () => {
      clearTimeout(waiting);
      waiting = setTimeout(check, 250);
    };
    query.addEventListener("input", soon);
    path.addEventListener("input", soon);
    if (query.value && !verdict.firstElementChild) soon();

    let trying = null;
    const preview = async (isAsked) => {
      if (trying) trying.abort(); // what is asked last is shown, whichever is answered first
      const mine = (trying = new AbortController());
      trial.classList.add("waiting");
      try {
        const answer = await send(editor.dataset.preview, editor, mine.signal);
        const words = await answer.text();
        if (answer.ok) {
          trial.innerHTML = words;
          // On a narrow page it is below the form: whoever asks for it is led there.
          if (isAsked && trial.getBoundingClientRect().top > window.innerHeight / 2) trial.scrollIntoView();
        } else if (answer.status === 422) check();
        else window.location.reload();
      } catch (problem) {
        if (problem.name !== "AbortError") throw problem;
      } finally {
        if (trying === mine) trial.classList.remove("waiting");
      }
    };
    // A text and how alike it must be (`~ "…" >= 0.3`): the threshold can be drawn to where it finds what is meant.
    const alike = document.getElementById("alike");
    const threshold = document.getElementById("threshold");
    const shape = /(~\s*"[^"]*"\s*>=\s*)([01](?:\.\d+)?)/;
    const weigh = () => {
      const found = shape.exec(query.value);
      alike.hidden = !found;
      if (!found) return;
      threshold.value = found[2];
      document.getElementById("threshold-shown").textContent = found[2];
    };
    let later = 0;
    threshold.addEventListener("input", () => {
      query.value = query.value.replace(shape, (_, start) => start + Number(threshold.value).toFixed(2));
      weigh();
      soon();
      clearTimeout(later);
      later = setTimeout(() => preview(false), 400);
    });
    query.addEventListener("input", weigh);
    weigh();

    // What belongs to a choice is shown with it.
    const belonging = () => {
      for (const part of editor.querySelectorAll("[data-with]")) {
        const [name, value] = part.dataset.with.split("=");
        part.hidden = editor.elements[name].value !== value;
      }
    };
    editor.addEventListener("change", belonging);
    belonging();
    const zone = editor.querySelector("[data-zone]");
    if (zone) zone.value = Intl.DateTimeFormat().resolvedOptions().timeZone || "";

    document.getElementById("preview-button").addEventListener("click", (event) => {
      event.preventDefault();
      preview(true);
    });
    query.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        preview(true);
      }
    });
    trial.addEventListener("click", (event) => {
      const example = event.target.closest("[data-example]");
      if (!example) return;
      event.preventDefault();
      query.value = example.dataset.example;
      weigh();
      query.focus();
      check();
    });
  }

  // --- pages that are open: what is new appears by itself ---

  const live = document.querySelector("[data-live]");
  if (live) {
    const seconds = Number(live.dataset.seconds || 3);
    const isBusy = () => live.querySelector("details[open]") || live.contains(document.activeElement);
    const look = async () => {
      if (document.hidden || isBusy()) return;
      try {
        const answer = await fetch(live.dataset.pulse || "/pulse", { credentials: "same-origin", redirect: "error" });
        if (!answer.ok) return;
        const pulse = await answer.json();
        if (String(pulse.last) === live.dataset.last) return;
        const page = await fetch(window.location.href, {
          credentials: "same-origin",
          headers: { Accept: "text/html" },
        });
        const fresh = new DOMParser().parseFromString(await page.text(), "text/html").querySelector("[data-live]");
        if (!page.ok || !fresh || isBusy()) return;
        live.replaceChildren(...fresh.childNodes);
        live.dataset.last = fresh.dataset.last;
        const first = live.querySelector(".match");
        if (first) first.parentElement.classList.add("fresh");
      } catch {
        // the site is away for a moment: the next look finds it
      }
    };
    setInterval(look, seconds * 1000);
  }

  // --- a file is put into the field that it belongs to ---

  for (const chooser of document.querySelectorAll("input[type=file][data-into]")) {
    chooser.addEventListener("change", async () => {
      const file = chooser.files[0];
      if (file) document.getElementById(chooser.dataset.into).value = await file.text();
      chooser.value = "";
    });
  }

  // --- one open menu at a time; Escape closes it ---

  document.addEventListener("toggle", (event) => {
    if (!event.target.matches?.("details.drop") || !event.target.open) return;
    for (const other of document.querySelectorAll("details.drop[open]")) if (other !== event.target) other.open = false;
  }, true);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const open of document.querySelectorAll("details.drop[open]")) {
      open.open = false;
      open.querySelector("summary").focus();
    }
  });
})();
