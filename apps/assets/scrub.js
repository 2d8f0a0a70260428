// Frames and their curves under one hand: pointing at the curves, or the arrow keys, shows that frame.

const SPACE = "http://www.w3.org/2000/svg";
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}
function drawn(tag, attributes) {
  const node = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  const root = parentElement.querySelector(".scrub");
  const count = data.frames.length;
  if (root.tpipsClip !== data.frames[0].src) { root.tpipsClip = data.frames[0].src; root.tpipsFrame = null; }
  // At first the frame that is least like the reference: beside itself the reference would tell nothing.
  const likeness = data.frames.map((_, frame) => data.curves.reduce((sum, curve) => sum + curve.values[frame], 0));
  const kept = root.tpipsFrame ?? data.reference;
  let now = kept === data.reference ? likeness.indexOf(Math.min(...likeness)) : Math.min(kept, count - 1);
  const values = data.curves.flatMap((curve) => curve.values);
  const low = Math.min(...values), high = Math.max(...values), reach = Math.max(high - low, 1e-6);
  const across = (frame) => (count > 1 ? (1000 * frame) / (count - 1) : 500);
  const up = (value) => 290 - (280 * (value - low)) / reach;
  const shown = make("img", { alt: "" }), caption = make("figcaption");
  const fixed = make("img", { src: data.frames[data.reference].src, alt: `Reference: ${data.frames[data.reference].label}` });
  const choose = make("button", { type: "button" }, "Compare with this frame instead");
  choose.addEventListener("click", () => setTriggerValue("act", { action: "reference", key: String(now), choice: "", at: Date.now() }));
  const numbers = data.curves.map(() => make("b"));
  const legend = make("ul", { "aria-label": "Similarity of this frame to the reference" },
    ...data.curves.map((curve, number) => make("li", { class: `t${number % 6}` }, make("i"), make("span", {}, curve.aspect), numbers[number])));
  const chart = drawn("svg", { viewBox: "0 0 1000 300", preserveAspectRatio: "none", tabindex: "0", role: "slider", "aria-label": "Frame", "aria-valuemin": "0", "aria-valuemax": String(count - 1) });
  chart.append(drawn("line", { x1: 0, x2: 1000, y1: 299, y2: 299 }), drawn("line", { class: "fixed", x1: across(data.reference), x2: across(data.reference), y1: 0, y2: 300 }));
  data.curves.forEach((curve, number) => chart.append(drawn("path", { class: `t${number % 6}`, d: curve.values.map((value, frame) => `${frame ? "L" : "M"}${across(frame).toFixed(1)} ${up(value).toFixed(1)}`).join("") })));
  const mark = drawn("line", { class: "now", y1: 0, y2: 300 });
  chart.append(mark);
  const show = (frame) => {
    now = root.tpipsFrame = Math.min(Math.max(frame, 0), count - 1);
    shown.src = data.frames[now].src;
    shown.alt = caption.textContent = data.frames[now].label;
    mark.setAttribute("x1", across(now));
    mark.setAttribute("x2", across(now));
    chart.setAttribute("aria-valuenow", String(now));
    chart.setAttribute("aria-valuetext", data.frames[now].label);
    numbers.forEach((number, place) => { number.textContent = data.curves[place].values[now].toFixed(3).replace("-", "−"); });
  };
  const follow = (event) => {
    const box = chart.getBoundingClientRect();
    show(Math.round(((event.clientX - box.left) / box.width) * (count - 1)));
  };
  chart.addEventListener("pointermove", follow);
  chart.addEventListener("pointerdown", follow);
  chart.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10, Home: -count, End: count };
    if (!steps[event.key]) return;
    show(now + steps[event.key]);
    event.preventDefault();
  });
  const both = make("div", { class: "both" },
    make("figure", {}, fixed, make("figcaption", {}, `Reference: ${data.frames[data.reference].label}`)),
    make("figure", {}, shown, caption), make("div", {}, legend, make("p", {}, choose)));
  const axis = make("div", { class: "axis", "aria-hidden": "true" }, make("span", {}, data.frames[0].label), make("span", {}, "frames; up is more like the reference"), make("span", {}, data.frames[count - 1].label));
  const ends = [high, low].map((value) => make("span", { "aria-hidden": "true" }, value.toFixed(2).replace("-", "−")));
  root.replaceChildren(both, make("div", { class: "chart" }, chart, make("div", { class: "ends" }, ...ends)), axis);
  data.frames.forEach((frame) => { new Image().src = frame.src; });
  show(now);
}
