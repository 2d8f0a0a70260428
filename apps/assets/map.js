// A map of pictures to wander in: drag to move, wheel or + and - to come closer; a picture keeps its size, so that
// crowded places open up.

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
    Object.assign(image, { src: item.src, alt: `Picture ${item.key}`, loading: "lazy" });
    spot.append(image);
    return spot;
  });
  let frame = 0;
  const place = () => {
    frame = 0;
    const width = root.clientWidth, height = root.clientHeight, side = Math.max(34, Math.min(66, width / 16)) * Math.sqrt(view.zoom);
    spots.forEach((spot, number) => {
      const { x, y, ratio } = data.items[number];
      const w = side * Math.sqrt(ratio), h = side / Math.sqrt(ratio);
      spot.style.width = `${w}px`;
      spot.style.height = `${h}px`;
      const left = (x * (width - side) + side / 2) * view.zoom + view.x - w / 2;
      const top = (y * (height - side) + side / 2) * view.zoom + view.y - h / 2;
      spot.style.transform = `translate(${left}px, ${top}px)`;
      spot.style.visibility = left > -w && top > -h && left < width && top < height ? "visible" : "hidden";
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
