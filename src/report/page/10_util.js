'use strict';
// Helpers: elements, numbers as words, colours of the theme, the tooltip.
const $ = id => document.getElementById(id);
function el(tag, props, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(props || {})) {
    if (key === 'class') node.className = value;
    else if (key === 'style') node.style.cssText = value;
    else if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== null) node.setAttribute(key, value);
  }
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}
const round = (x, digits = 3) => {
  if (!isFinite(x)) return '–';
  if (x === 0) return '0';
  const places = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(x))));
  return x.toLocaleString('en-US', {maximumFractionDigits: Math.min(places, 6)});
};
const unitsOf = (x, names, step) => {
  let k = 0;
  while (Math.abs(x) >= step && k < names.length - 1) { x /= step; k++; }
  return [round(x), names[k]];
};
const time = ns => unitsOf(ns, ['ns', 'µs', 'ms', 's'], 1000).join(' ');
const bytes = n => unitsOf(n, ['B', 'KiB', 'MiB', 'GiB', 'TiB'], 1024).join(' ');
const count = n => n.toLocaleString('en-US');
const percent = x => !isFinite(x) ? '–' : x > 0 && x < 0.0001 ? '< 0.01 %' : (x >= 0.0995 ? Math.round(x * 100) : round(x * 100, 2)) + ' %';
const many = (n, word) => `${count(n)} ${word}${n === 1 ? '' : word.endsWith('ch') ? 'es' : 's'}`;

let palette = {};
function readPalette() {
  const style = getComputedStyle(document.documentElement);
  palette = {};
  for (const name of ['bg', 'panel', 'line', 'text', 'soft', 'faint', 'accent', 'accent-soft', 'good', 'warn',
    'bad', 'grid', 'k-contraction', 'k-loop', 'k-scatter', 'k-step', 'k-call', 'k-copy', 'k-group', 'k-input'])
    palette[name] = style.getPropertyValue('--' + name).trim();
}
const colourOf = kind => palette['k-' + kind] || palette['k-step'];
// Cold to hot for shares of 0 to 1.
function heat(share) {
  const t = Math.sqrt(Math.max(0, Math.min(1, share)));
  return `hsl(${Math.round(210 - 200 * t)} ${Math.round(55 + 30 * t)}% ${Math.round(62 - 8 * t)}%)`;
}
const kMany = ['#4f7df3', '#7c5cff', '#20b2aa', '#e0872b', '#d6609f', '#5aa845', '#c9a227', '#e05a5a', '#3f9fd8', '#9a6bd0', '#6b8e9e', '#b07d4f'];
const oneOf = text => {
  let h = 2166136261;
  for (let k = 0; k < text.length; k++) h = Math.imul(h ^ text.charCodeAt(k), 16777619);
  return kMany[(h >>> 0) % kMany.length];
};

function showTip(event, ...content) {
  const tip = $('tip');
  tip.replaceChildren(...content.flat().filter(x => x !== null && x !== undefined));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const x = Math.min(event.clientX + 14, innerWidth - box.width - 8);
  const y = event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 16;
  tip.style.left = Math.max(4, x) + 'px';
  tip.style.top = Math.max(4, y) + 'px';
}
const hideTip = () => { $('tip').hidden = true; };
const tipLine = (text, faint) => el('div', {class: faint ? 'f' : ''}, text);

// A canvas that fills its parent and is drawn at most once a frame. `draw(ctx, width, height)`.
class Surface {
  constructor(parent, draw) {
    this.canvas = el('canvas', {tabindex: 0});
    this.ctx = this.canvas.getContext('2d');
    this.draw = draw;
    this.pending = false;
    this.frames = [];  // milliseconds of the last draws
    parent.append(this.canvas);
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(parent);
    this.parent = parent;
    this.resize();
  }
  resize() {
    const ratio = devicePixelRatio || 1;
    this.width = this.parent.clientWidth;
    this.height = this.parent.clientHeight;
    this.canvas.width = Math.max(1, Math.round(this.width * ratio));
    this.canvas.height = Math.max(1, Math.round(this.height * ratio));
    if (this.resized && this.width > 0) this.resized();
    this.request();
  }
  paint() {
    const start = performance.now();
    const ratio = devicePixelRatio || 1;
    this.ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.ctx.clearRect(0, 0, this.width, this.height);
    this.draw(this.ctx, this.width, this.height);
    this.frames.push(performance.now() - start);
    if (this.frames.length > 600) this.frames.shift();
  }
  request() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => { this.pending = false; if (this.canvas.isConnected) this.paint(); });
  }
  position(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }
}

function fitted(ctx, text, width) {
  if (ctx.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (ctx.measureText(text.slice(0, middle) + '…').width <= width) low = middle; else high = middle - 1;
  }
  return low > 0 ? text.slice(0, low) + '…' : '';
}
