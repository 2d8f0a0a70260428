// A wall or strip of pictures; one opens large, with what is known of it and what can be done with it.
// Texts reach the page as text nodes and attributes only: keys and metadata are other people's.

const SIGN = new Intl.NumberFormat("en", { minimumFractionDigits: 3, maximumFractionDigits: 3, signDisplay: "always" });
const PLAIN = new Intl.NumberFormat("en", { minimumFractionDigits: 3, maximumFractionDigits: 3 });
const minus = (text) => text.replace("-", "−");

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

// One row's share of a score: a bar from the common zero line.
function shareRow(term, value, number, scale) {
  const bar = make("span", { class: "bar", "aria-hidden": "true" },
    make("i", { class: value < 0 ? "minus" : "plus",
      style: `left:${scale.zero + Math.min(value, 0) * scale.unit}%;width:${Math.abs(value) * scale.unit}%` }),
    make("b", { style: `left:${scale.zero}%` }));
  return make("li", { class: `t${number % 6}` },
    make("span", { class: "aspect" }, term.weight < 0 ? `unlike by ${term.aspect}` : term.aspect), bar,
    make("span", { class: "value" }, minus(SIGN.format(value))));
}

function scaleOf(items) {
  const values = items.flatMap((item) => item.shares || []);
  const low = Math.min(0, ...values), high = Math.max(0, ...values);
  const unit = high > low ? 100 / (high - low) : 0;
  return { zero: -low * unit, unit };
}

// Words in the place of a picture that is away.
function orPlaceholder(image, item) {
  image.addEventListener("error", () => {
    image.replaceWith(make("span", { class: "fault", role: "img", "aria-label": `${item.alt}: not available` }, "picture not available"));
  });
  return image;
}

function tile(item, open, scale, data) {
  const caption = [];
  if (item.score !== undefined) caption.push(make("span", { class: "score" }, minus(PLAIN.format(item.score))));
  const shares = (item.shares || []).length > 1
    ? make("ul", { class: "shares" }, ...item.shares.map((value, n) => shareRow(data.terms[n], value, n, scale))) : null;
  const image = make("img", { src: item.src, alt: item.alt, loading: "lazy", decoding: "async" });
  const button = make("button", { type: "button", class: "tile", title: item.title, "aria-haspopup": "dialog", onclick: open },
    image,
    item.rank ? make("span", { class: "rank", "aria-hidden": "true" }, String(item.rank)) : null,
    item.mark ? make("span", { class: `mark ${item.mark}` }, item.mark === "new" ? "new" : item.moved || "kept") : null,
    make("span", { class: "over", "aria-hidden": "true" }, ...caption, shares));
  orPlaceholder(image, item);
  const ratio = item.width && item.height ? Math.min(Math.max(item.width / item.height, 0.45), 2.6) : 1;
  return make("li", { style: `--ratio:${ratio}`, "data-key": item.key }, button);
}

function details(item, data, scale, act) {
  const parts = [make("h2", {}, item.title)];
  if (item.score !== undefined) {
    parts.push(make("p", { class: "line" }, make("strong", {}, minus(PLAIN.format(item.score))), ` ${item.scoreNote || "score"}`));
  }
  if ((item.shares || []).length) {
    parts.push(make("ul", { class: "shares", "aria-label": "Each row's share of the score" },
      ...item.shares.map((value, n) => shareRow(data.terms[n], value, n, scale))));
  }
  if (item.changed) parts.push(make("p", { class: "line" }, item.changed));
  for (const group of data.actions || []) {
    const buttons = group.choices.map((choice) => make("button", {
      type: "button", class: "chip", onclick: () => act({ action: group.action, key: item.key, choice: choice.value }),
    }, choice.label));
    parts.push(make("div", { class: "group", role: "group", "aria-label": group.label }, make("span", { class: "what" }, group.label), ...buttons));
  }
  parts.push(make("p", {}, make("a", { href: item.full, target: "_blank", rel: "noopener" }, "Open full size")));
  if ((item.facts || []).length) {
    const list = make("dl", {});
    for (const [name, value] of item.facts) list.append(make("dt", {}, name), make("dd", {}, value));
    parts.push(list);
  }
  return parts;
}

// A strip with arrows for those who have only a mouse, each there while something is left on its side.
function rolled(list) {
  const step = (way) => list.scrollBy({ left: way * list.clientWidth * 0.8, behavior: "smooth" });
  // By keyboard the pictures themselves are gone along.
  const arrow = (side, text, way) => make("button", { type: "button", class: `roll ${side}`, tabindex: "-1", "aria-hidden": "true", onclick: () => step(way) }, text);
  const frame = make("div", { class: "rolled" }, list, arrow("left", "‹", -1), arrow("right", "›", 1));
  const look = () => {
    frame.classList.toggle("before", list.scrollLeft > 4);
    frame.classList.toggle("after", list.scrollLeft < list.scrollWidth - list.clientWidth - 4);
  };
  list.addEventListener("scroll", look, { passive: true });
  new ResizeObserver(look).observe(list);
  return frame;
}

export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  const root = parentElement.querySelector(".pictures");
  root.querySelector("dialog")?.close();
  const scale = scaleOf(data.items);
  const dialog = make("dialog", { "aria-label": "Picture" });
  let shown = 0;
  const act = (what) => { dialog.close(); setTriggerValue("act", { ...what, at: Date.now() }); };
  const show = (place) => {
    shown = (place + data.items.length) % data.items.length;
    const item = data.items[shown];
    dialog.replaceChildren(
      make("div", { class: "stage" }, orPlaceholder(make("img", { src: item.large, alt: item.alt }), item)),
      make("div", { class: "side" },
        make("div", { class: "bar-top" },
          make("button", { type: "button", "aria-label": "Previous picture", onclick: () => show(shown - 1) }, "←"),
          make("button", { type: "button", "aria-label": "Next picture", onclick: () => show(shown + 1) }, "→"),
          make("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => dialog.close() }, "✕")),
        ...details(item, data, scale, act)));
    if (!dialog.open) dialog.showModal();
  };
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "ArrowRight") show(shown + 1);
    else if (event.key === "ArrowLeft") show(shown - 1);
    else return;
    event.preventDefault();
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => list.children[shown]?.querySelector("button")?.focus());
  const choose = (place) => data.pick ? act({ action: data.pick, key: data.items[place].key, choice: "" }) : show(place);
  const list = make("ol", { class: data.strip ? "strip" : "wall", "aria-label": data.label },
    ...data.items.map((item, place) => tile(item, () => choose(place), scale, data)));
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const place = [...list.children].indexOf(event.target.closest("li"));
    const next = step && list.children[place + step];
    if (next) { next.querySelector("button").focus(); event.preventDefault(); }
  });
  root.style.setProperty("--height", `${data.height || 190}px`);
  root.replaceChildren(data.strip ? rolled(list) : list, dialog);
  // The next page begins at its first picture, though the button that leads there is at the end of the one before.
  const first = data.items[0]?.rank;
  const turned = first && root.tpipsFirst && first !== root.tpipsFirst;
  root.tpipsFirst = first;
  if (turned && list.getBoundingClientRect().top < 0) list.scrollIntoView({ block: "start" });
  document.getElementById("tpips-first")?.remove();  // what stood in the wall's place
  return () => { if (dialog.open) dialog.close(); };
}
