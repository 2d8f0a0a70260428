// Aspects as chips that are placed on one of three pictures, or on "can't tell" (the paper's Figures 9 and 10).

const CANNOT_TELL = "can't tell";
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  const root = parentElement.querySelector(".chips");
  if (root.tpipsItem !== data.item) { root.tpipsItem = data.item; root.tpipsPlaced = {}; root.tpipsOrder = []; root.tpipsSent = false; }
  const placed = root.tpipsPlaced;
  let picked = null;
  const aspects = data.aspects.map((one) => one.text);
  const current = () => picked ?? aspects.find((aspect) => !(aspect in placed)) ?? null;
  const put = (aspect, where) => {
    if (!aspect || root.tpipsSent) return;
    placed[aspect] = where;
    root.tpipsOrder = [...root.tpipsOrder.filter((one) => one !== aspect), aspect];
    picked = null;
    draw();
  };
  const back = () => { const last = root.tpipsOrder.pop(); if (last) { delete placed[last]; draw(); } };
  const done = () => aspects.every((aspect) => aspect in placed);
  const save = () => {
    if (!done() || root.tpipsSent) return;
    root.tpipsSent = true;
    setTriggerValue("act", { action: "answers", key: data.item, choice: JSON.stringify(placed), at: Date.now() });
  };
  const skip = () => setTriggerValue("act", { action: "skip", key: data.item, choice: "", at: Date.now() });
  const chip = (aspect) => {
    const node = make("button", { type: "button", "data-name": `chip ${aspect}`, class: aspect === current() ? "chip now" : "chip", draggable: "true", title: data.aspects.find((one) => one.text === aspect).hint,
      onclick: (event) => { event.stopPropagation(); delete placed[aspect]; picked = aspect; draw(); },
      ondragstart: (event) => event.dataTransfer.setData("text/plain", aspect) }, aspect);
    return node;
  };
  const target = (node, where) => {
    node.addEventListener("dragover", (event) => { event.preventDefault(); node.classList.add("over"); });
    node.addEventListener("dragleave", () => node.classList.remove("over"));
    node.addEventListener("drop", (event) => { event.preventDefault(); const aspect = event.dataTransfer.getData("text/plain"); if (aspects.includes(aspect)) put(aspect, where); });
    node.addEventListener("click", () => put(current(), where));
    return node;
  };
  const on = (where) => aspects.filter((aspect) => placed[aspect] === where).map(chip);
  const slot = (picture) => {
    const inside = [make("img", { src: picture.src, alt: picture.alt }), picture.key ? make("span", { class: "key" }, picture.key) : make("span", { class: "key" }, "reference")];
    const place = picture.member
      ? target(make("button", { type: "button", class: "place", "data-name": `place ${picture.member}`, "aria-label": `${picture.alt}, key ${picture.key}` }, ...inside), picture.member)
      : make("div", { class: "place still" }, ...inside);
    return make("div", { class: "slot" }, place, make("div", { class: "held" }, ...(picture.member ? on(picture.member) : [])));
  };
  const draw = () => {
    const aspect = current();
    const question = make("p", { class: "ask", "aria-live": "polite" });
    if (aspect) question.append(data.question[0], make("b", {}, aspect), data.question[1]);
    else question.append("All placed. Save to go on.");
    const tray = make("div", { class: "tray", role: "group", "aria-label": "Senses to place" }, ...aspects.filter((one) => !(one in placed)).map(chip));
    const none = target(make("div", { class: "none" },
      make("button", { type: "button", class: "pass", "data-name": "none", "aria-label": "Can't tell, key 0" }, "Can’t tell (0)"), ...on(CANNOT_TELL)), CANNOT_TELL);
    const buttons = make("div", { class: "row" },
        make("button", { type: "button", class: "save", "data-name": "save", disabled: !done(), onclick: save }, "Save and next"),
        make("button", { type: "button", "data-name": "back", onclick: back }, "Take back"),
        make("button", { type: "button", onclick: skip }, "Skip"),
        make("span", { class: "keys" }, make("kbd", {}, data.keys), " picture  ", make("kbd", {}, "0"), " can’t tell  ", make("kbd", {}, "⌫"), " take back  ", make("kbd", {}, "Enter"), " save"));
    const places = make("div", { class: data.triangle ? "places triangle" : "places" }, ...data.pictures.map(slot));
    // Whoever goes by keyboard stays where they were, and comes to Save when all is placed.
    const held = root.getRootNode().activeElement?.dataset.name;
    root.replaceChildren(question, tray, make("div", { class: "table" }, places, make("div", { class: "aside" }, none, buttons)));
    if (held) (root.querySelector(done() ? ".save" : `[data-name="${CSS.escape(held)}"]`) ?? root.querySelector(".chip.now"))?.focus();
  };
  // As much of the window as is left below: pictures, chips and Save are seen at once, without scrolling.
  const fit = () => {
    const page = root.getRootNode().host?.closest(".stMain");
    const top = root.getBoundingClientRect().top + (page?.scrollTop ?? window.scrollY);
    root.style.setProperty("--room", `${Math.max(Math.floor(window.innerHeight - top - 12), 400)}px`);
  };
  // What has the focus takes Enter itself while an item is not complete. Then only the item's own buttons do, links, and
  // what is open above the page: the button with the name, which has the focus after it was used, does not.
  const actsItself = (from) => {
    if (!from.closest?.("button, a, summary") || from.matches(".place, .pass")) return false;
    return !done() || root.contains(from) || Boolean(from.closest('a, summary, [aria-expanded="true"], [role="dialog"], [data-testid="stPopoverBody"]'));
  };
  const press = (event) => {
    const from = event.composedPath()[0];
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, textarea, select, [contenteditable]")) return;
    if (event.key === "Enter" && actsItself(from)) return;
    const picture = data.pictures.find((one) => one.key === event.key);
    if (picture) put(current(), picture.member);
    else if (event.key === "0") put(current(), CANNOT_TELL);
    else if (event.key === "Backspace") back();
    else if (event.key === "Enter" && done()) save();
    else return;
    event.preventDefault();
    event.stopPropagation();  // the button that names the sitting would open and close besides
  };
  root.tpipsLive?.abort();
  root.tpipsLive = new AbortController();
  document.addEventListener("keydown", press, { signal: root.tpipsLive.signal, capture: true });
  window.addEventListener("resize", fit, { signal: root.tpipsLive.signal });
  draw();
  fit();
  // What stands above may still be on its way, and moves this down when it comes.
  const watch = new ResizeObserver(fit);
  const page = root.getRootNode().host?.closest(".stMainBlockContainer");
  if (page) watch.observe(page);
  root.tpipsLive.signal.addEventListener("abort", () => watch.disconnect());
  const live = root.tpipsLive;
  return () => live.abort();
}
