// A map of pictures to wander in: drag to move, wheel or + and - to come closer; a picture keeps its size, so that
// crowded places open up. Where pictures would hide each other, one is shown and the others are dots until one is close
// enough.
const ROOM = 0.4;
const DOT = 9;

// Which items are pictures: in their order, those of which no more than a part is covered by earlier ones.
function pictured(boxes, cell, first) {
  const cells = new Map();
  const shown = new Set();
  const order = first < 0 ? boxes.keys() : [first, ...boxes.keys()];
  for (const number of order) {
    if (shown.has(number)) continue;
    const { left, top, w, h } = boxes[number];
    const near = [];
    for (let column = Math.floor(left / cell) - 1; column <= Math.floor((left + w) / cell) + 1; column++) {
      for (let row = Math.floor(top / cell) - 1; row <= Math.floor((top + h) / cell) + 1; row++) near.push(...(cells.get(`${column},${row}`) || []));
    }
    let covered = 0;
    for (const other of near) {
      const across = Math.min(left + w, other.left + other.w) - Math.max(left, other.left);
      const down = Math.min(top + h, other.top + other.h) - Math.max(top, other.top);
      if (across > 0 && down > 0) covered += across * down;
    }
    if (covered > ROOM * w * h && number !== first) continue;
    shown.add(number);
    const key = `${Math.floor(left / cell)},${Math.floor(top / cell)}`;
    if (!cells.has(key)) cells.set(key, []);
    cells.get(key).push(boxes[number]);
  }
  return shown;
}

export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  const root = parentElement.querySelector(".map");
  root.tabIndex = 0;
  root.setAttribute("role", "application");
  root.setAttribute("aria-label", data.label);
  const view = root.tpipsView && root.tpipsName === data.name ? root.tpipsView : { x: 0, y: 0, zoom: 1 };
  root.tpipsView = view;
  root.tpipsName = data.name;
  const spots = data.items.map((item) => {
    const spot = document.createElement("button");
    spot.type = "button";
    spot.className = item.key === data.chosen ? "spot chosen" : "spot";
    spot.title = item.key;
    const image = document.createElement("img");
    image.alt = `Picture ${item.key}`;
    image.addEventListener("error", () => spot.classList.add("fault"));
    spot.append(image);
    return spot;
  });
  const first = data.items.findIndex((item) => item.key === data.chosen);
  let frame = 0, laidOut = "", shown = new Set(), boxes = [];
  const place = () => {
    frame = 0;
    const width = root.clientWidth, height = root.clientHeight, side = Math.max(38, Math.min(70, width / 15)) * Math.min(Math.sqrt(view.zoom), 2);
    const layout = `${width} ${height} ${view.zoom}`;
    if (layout !== laidOut) {  // moving alone changes nothing of what hides what
      boxes = data.items.map(({ x, y, ratio }) => {
        const w = side * Math.sqrt(ratio), h = side / Math.sqrt(ratio);
        return { w, h, left: (x * (width - 1.5 * side) + 0.75 * side) * view.zoom - w / 2, top: (y * (height - 1.5 * side) + 0.75 * side) * view.zoom - h / 2 };
      });
      shown = pictured(boxes, 1.5 * side, first);
      laidOut = layout;
    }
    spots.forEach((spot, number) => {
      const whole = boxes[number], dot = !shown.has(number);
      const w = dot ? DOT : whole.w, h = dot ? DOT : whole.h;
      const left = whole.left + view.x + (whole.w - w) / 2, top = whole.top + view.y + (whole.h - h) / 2;
      const seen = left > -w && top > -h && left < width && top < height;
      spot.classList.toggle("dot", dot);
      spot.tabIndex = dot || !seen ? -1 : 0;
      spot.style.width = `${w}px`;
      spot.style.height = `${h}px`;
      spot.style.transform = `translate(${left}px, ${top}px)`;
      spot.style.visibility = seen ? "visible" : "hidden";
      const image = spot.firstChild;
      if (seen && !dot && !image.getAttribute("src")) image.src = data.items[number].src;
    });
  };
  const draw = () => { if (!frame) frame = requestAnimationFrame(place); };
  const zoomAt = (factor, x, y) => {
    const zoom = Math.min(Math.max(view.zoom * factor, 1), 14);
    view.x = x - (x - view.x) * zoom / view.zoom;
    view.y = y - (y - view.y) * zoom / view.zoom;
    view.zoom = zoom;
    if (zoom === 1) view.x = view.y = 0;
    draw();
  };
  const middle = (factor) => zoomAt(factor, root.clientWidth / 2, root.clientHeight / 2);
  const move = (x, y) => { view.x += x; view.y += y; draw(); };
  const held = new Map();
  let moved = 0;
  // The root outlives a run of the script: the listeners of the last run go before those of this one come.
  root.tpipsLive?.abort();
  root.tpipsLive = new AbortController();
  const on = (target, name, act, options) => target.addEventListener(name, act, { signal: root.tpipsLive.signal, ...options });
  on(root, "wheel", (event) => {
    event.preventDefault();
    const box = root.getBoundingClientRect();
    zoomAt(Math.exp(-event.deltaY * 0.0016), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  on(root, "pointerdown", (event) => { held.set(event.pointerId, event); moved = 0; });
  on(root, "pointermove", (event) => {
    const last = held.get(event.pointerId);
    if (!last) return;
    const others = [...held.values()].filter((one) => one.pointerId !== event.pointerId);
    if (others.length) {
      const span = (one) => Math.hypot(one.clientX - others[0].clientX, one.clientY - others[0].clientY);
      const box = root.getBoundingClientRect();
      zoomAt(span(event) / Math.max(span(last), 1), (event.clientX + others[0].clientX) / 2 - box.left, (event.clientY + others[0].clientY) / 2 - box.top);
    } else move(event.clientX - last.clientX, event.clientY - last.clientY);
    moved += Math.abs(event.clientX - last.clientX) + Math.abs(event.clientY - last.clientY);
    held.set(event.pointerId, event);
  });
  for (const name of ["pointerup", "pointercancel", "pointerleave"]) on(root, name, (event) => held.delete(event.pointerId));
  on(root, "keydown", (event) => {
    const steps = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    if (steps[event.key]) move(...steps[event.key]);
    else if (event.key === "+" || event.key === "=") middle(1.3);
    else if (event.key === "-") middle(1 / 1.3);
    else return;
    event.preventDefault();
  });
  spots.forEach((spot, number) => on(spot, "click", () => {
    if (moved < 6) setTriggerValue("act", { action: "choose", key: data.items[number].key, choice: "", at: Date.now() });
  }));
  const knobs = document.createElement("div");
  knobs.className = "knobs";
  for (const [text, label, act] of [["+", "Closer", () => middle(1.5)], ["−", "Farther", () => middle(1 / 1.5)], ["⤢", "Show all", () => middle(0.001)]]) {
    const knob = document.createElement("button");
    Object.assign(knob, { type: "button", textContent: text, title: label });
    knob.setAttribute("aria-label", label);
    on(knob, "click", act);
    knobs.append(knob);
  }
  root.replaceChildren(...spots, knobs);
  const watch = new ResizeObserver(draw);
  watch.observe(root);
  place();
  return () => watch.disconnect();
}
