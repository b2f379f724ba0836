// The graph view: a canvas with pan, zoom, groups and search, and a panel with details of the
// selected item.
const kShownAtFirst = 48;
const kAtOnce = 1000;  // so many vertices are arranged at once, more in slices
const kReadable = 0.32;  // below this scale vertices have no text and are only rectangles

// Adds an edge to the innermost box that contains both ends; it connects the members of that box that
// are the ends or contain them.
function joinBoxes(a, b) {
  while (a.around !== b.around) if (a.level > b.level) a = a.around; else b = b.around;
  const box = a.around, key = a.order * 1048576 + b.order;
  if (a !== b && !box.joined.has(key)) { box.joined.add(key); box.lines.push([a, b]); }
  return [a, b];
}

class GraphView {
  constructor(parent, graph, app) {
    this.graph = graph;
    this.app = app;
    this.level = graph.hasNodes ? app.level || 'kernels' : 'program';
    this.colouring = app.colouring || 'kind';
    this.canvasBox = el('div', {class: 'canvas'});
    this.side = el('div', {class: 'side'});
    parent.append(el('div', {class: 'full'}, this.canvasBox, this.side));
    this.surface = new Surface(this.canvasBox, (ctx, w, h) => this.draw(ctx, w, h));
    this.surface.resized = () => { if (!this.fittedOnce && this.vertices) this.fit(); };
    this.scale = 1; this.dx = 0; this.dy = 0;
    this.selected = null;
    this.addTools();
    this.listen();
    this.setLevel(this.level);
    if (app.wanted) { this.show(app.wanted); app.wanted = null; } else this.fillSide();
  }

  addTools() {
    this.levels = el('div', {class: 'seg'}, ...(this.graph.hasNodes ? ['tensors', 'kernels', 'program'] : ['program']).map(level =>
      el('button', {'data-level': level, onclick: () => this.setLevel(level)}, {tensors: 'Tensors', kernels: 'Kernels', program: 'Program'}[level])));
    this.colours = el('div', {class: 'seg'}, ...['kind', 'time'].map(by =>
      el('button', {'data-by': by, onclick: () => { this.colouring = this.app.colouring = by; this.markTools(); this.surface.request(); }}, by === 'kind' ? 'Kind' : 'Time')));
    const search = el('input', {type: 'search', placeholder: 'Search (press /)', style: 'width:190px', id: 'search'});
    this.results = el('div', {class: 'results', hidden: ''});
    search.addEventListener('input', () => this.find(search.value));
    search.addEventListener('keydown', event => {
      if (event.key === 'Enter' && this.found && this.found.length) { this.select(this.found[0], true); this.results.hidden = true; }
      if (event.key === 'Escape') { search.value = ''; this.find(''); this.surface.canvas.focus(); }
    });
    this.search = search;
    this.canvasBox.append(el('div', {class: 'over'}, this.levels, this.colours,
      el('button', {class: 'btn', onclick: () => this.fit(), title: 'Show all (f)'}, 'Fit'),
      el('button', {class: 'btn', onclick: () => this.expandAll(true)}, 'Expand'),
      el('button', {class: 'btn', onclick: () => this.expandAll(false)}, 'Collapse'),
      el('div', {style: 'position:relative'}, search, this.results)));
  }
  markTools() {
    for (const b of this.levels.children) b.classList.toggle('on', b.dataset.level === this.level);
    for (const b of this.colours.children) b.classList.toggle('on', b.dataset.by === this.colouring);
  }

  setLevel(level, keep) {
    this.level = this.app.level = level;
    this.markTools();
    const {items, edges} = levelOf(this.graph, level);
    this.items = items;
    this.edges = edges;
    this.indexOf = new Map(items.map((item, k) => [item.key, k]));
    this.most = Math.max(1, ...items.map(item => item.ns));
    this.groups = groupsOf(items);
    this.groupOf = new Array(items.length).fill(null);
    for (const group of this.groups.byKey.values()) for (const k of group.items) this.groupOf[k] = group;
    this.collapsed = new Set();
    this.collapseToFit();
    this.arrangeAtOnce();
    if (!keep) { this.selected = null; this.fit(); this.fillSide(); }
  }
  // Opens groups from the outermost inwards until the screen has enough items. Of equal groups only
  // the first is opened.
  collapseToFit() {
    const open = [this.groups.root];
    for (const group of this.groups.byKey.values()) if (group.key) this.collapsed.add(group.key);
    let shown = this.groups.root.items.length + this.groups.root.children.size;
    for (let k = 0; k < open.length; k++) {
      for (const child of open[k].children.values()) {
        const more = child.items.length + child.children.size - 1;
        if (shown + more > kShownAtFirst || child.repeated) continue;
        shown += more;
        this.collapsed.delete(child.key);
        open.push(child);
      }
    }
  }
  expandAll(open) {
    this.collapsed = new Set(open ? [] : [...this.groups.root.children.values()].map(g => g.key));
    this.arrange(() => this.fit());
  }
  toggle(key) {
    if (this.collapsed.has(key)) this.collapsed.delete(key); else this.collapsed.add(key);
    this.arrange(() => this.surface.request());
  }

  // What is drawn for an item: itself, or the outermost closed group around it.
  standIn(k) {
    let found = null;
    for (let group = this.groupOf[k]; group && group.key; group = group.parent) if (this.collapsed.has(group.key)) found = group;
    return found;
  }
  // Until a large graph is arranged, the old picture stays. `then` is called after that.
  arrange(then) {
    const next = this.collect();
    if (this.slices) this.slices.ended = true;
    this.slices = new Slices(layoutBoxes(next.page), () => { placeBoxes(next.page, 0, 0); Object.assign(this, next); this.over = null; this.frameGroups(); then(); });
    if (next.vertices.length > kAtOnce) this.slices.workLater(); else this.slices.work(Infinity);
  }
  arrangeAtOnce() {
    this.arrange(() => {});
    this.slices.work(Infinity);
  }
  // What is to be drawn, without positions.
  collect() {
    const vertices = [], vertexOf = new Int32Array(this.items.length);
    const ofGroup = new Map(), ctx = this.surface.ctx, widths = new Map();
    // Repeated layers have the same labels.
    const widthOf = label => {
      if (!widths.has(label)) widths.set(label, ctx.measureText(label).width);
      return widths.get(label);
    };
    ctx.font = '600 13px system-ui, "Liberation Sans", sans-serif';
    this.items.forEach((item, k) => {
      const group = this.standIn(k);
      if (!group) {
        vertexOf[k] = vertices.length;
        const width = Math.min(230, Math.max(84, widthOf(item.label) + 26, item.sub.length * 6.3 + 22));
        vertices.push({item: k, key: item.key, label: item.label, sub: item.sub, kind: item.kind, ns: item.ns, w: width, h: item.kind === 'input' ? 34 : 44, order: k});
        return;
      }
      if (!ofGroup.has(group.key)) {
        ofGroup.set(group.key, vertices.length);
        const repeats = group.repeats && group.children.size === group.repeats ? ` ×${group.repeats}` : '';
        const width = Math.min(260, Math.max(158, widthOf(group.name + repeats) + 34));
        vertices.push({group, key: group.key, label: group.name + repeats, sub: '', kind: 'group', ns: 0, w: width, h: 52, order: k, stack: !!group.repeats});
      }
      const vertex = vertices[ofGroup.get(group.key)];
      vertex.ns += item.ns;
      vertexOf[k] = ofGroup.get(group.key);
    });
    for (const v of vertices) if (v.group) v.sub = many(v.group.all.length, this.level === 'tensors' ? 'node' : this.level === 'kernels' ? 'kernel' : 'step') + (v.ns ? ' · ' + time(v.ns) : '');
    const seen = new Set(), lines = [], {page, boxes} = this.boxesOf(vertices, widthOf);
    for (const [a, b] of this.edges) {
      const from = vertexOf[a], to = vertexOf[b], key = from * vertices.length + to;
      if (from === to || seen.has(key)) continue;
      seen.add(key);
      lines.push([from, to, ...joinBoxes(vertices[from], vertices[to])]);
    }
    return {vertices, vertexOf, lines, page, boxes};
  }
  // The boxes of the open groups, and the page, which is the box around everything.
  boxesOf(vertices, widthOf) {
    const boxes = new Map();
    const boxOf = group => {
      if (!boxes.has(group.key)) {
        const box = {group, members: [], boxes: [], lines: [], joined: new Set(), title: group.key ? widthOf(group.name) + 24 : 0, order: Infinity, level: 0, around: null, w: 0, h: 0};
        boxes.set(group.key, box);
        if (group.parent) { box.around = boxOf(group.parent); box.level = box.around.level + 1; box.around.members.push(box); box.around.boxes.push(box); }
      }
      return boxes.get(group.key);
    };
    const page = boxOf(this.groups.root);
    for (const v of vertices) {
      v.around = boxOf(v.group ? v.group.parent : this.groupOf[v.item]);
      v.level = v.around.level + 1;
      v.around.members.push(v);
      for (let box = v.around; box; box = box.around) box.order = Math.min(box.order, v.order);
    }
    return {page, boxes};
  }
  // Frames around the open groups, and the bounds of everything.
  frameGroups() {
    this.frames = [];
    for (const box of this.boxes.values())
      if (box.around) this.frames.push({group: box.group, depth: box.level, x0: box.x - box.w / 2, x1: box.x + box.w / 2, y0: box.y - box.h / 2, y1: box.y + box.h / 2});
    this.frames.sort((a, b) => a.depth - b.depth);
    this.bounds = this.page.members.reduce((b, v) => [Math.min(b[0], v.x - v.w / 2), Math.min(b[1], v.y - v.h / 2), Math.max(b[2], v.x + v.w / 2), Math.max(b[3], v.y + v.h / 2)], [Infinity, Infinity, -Infinity, -Infinity]);
  }

  fit() {
    const {width, height} = this.surface;
    if (!this.vertices.length || !width) return;
    this.fittedOnce = true;
    const [x0, y0, x1, y1] = this.bounds;
    const whole = Math.min((width - 80) / (x1 - x0 + 1), (height - 110) / (y1 - y0 + 1), 1.15);
    // A tall graph is shown from its top at a size that can be read.
    const folded = this.page.members.some(v => v.column % 1000);
    this.scale = folded || whole > 0.45 ? whole : 0.7;
    // What is wider than the screen begins at its left edge.
    this.dx = Math.max(width / 2 - (x0 + x1) / 2 * this.scale, (x1 - x0) * this.scale > width ? 24 - x0 * this.scale : -Infinity);
    this.dy = whole >= this.scale ? Math.max(80 - y0 * this.scale, height / 2 - (y0 + y1) / 2 * this.scale + 20) : 80 - y0 * this.scale;
    this.surface.request();
  }
  centre(v) {
    this.scale = Math.max(this.scale, 0.75);
    this.dx = this.surface.width / 2 - v.x * this.scale;
    this.dy = this.surface.height / 2 - v.y * this.scale;
    this.surface.request();
  }

  listen() {
    const canvas = this.surface.canvas;
    let drag = null, moved = false;
    canvas.addEventListener('wheel', event => {
      event.preventDefault();
      const [x, y] = this.surface.position(event);
      this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0016)), x, y);
    }, {passive: false});
    canvas.addEventListener('pointerdown', event => { drag = [event.clientX, event.clientY]; moved = false; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener('pointermove', event => {
      if (drag) {
        const dx = event.clientX - drag[0], dy = event.clientY - drag[1];
        if (moved || Math.abs(dx) + Math.abs(dy) > 3) {
          moved = true; drag = [event.clientX, event.clientY];
          this.dx += dx; this.dy += dy; hideTip(); this.surface.request();
        }
        return;
      }
      this.hover(event);
    });
    canvas.addEventListener('pointerup', event => { if (drag && !moved) this.click(event); drag = null; });
    canvas.addEventListener('pointerleave', () => { hideTip(); this.over = null; this.surface.request(); });
    canvas.addEventListener('dblclick', event => { const hit = this.hit(event); if (hit && hit.group) this.toggle(hit.group.key); });
    canvas.addEventListener('keydown', event => { if (event.key === 'f') this.fit(); });
  }
  zoom(factor, x, y) {
    const next = Math.min(4, Math.max(0.01, this.scale * factor)), ratio = next / this.scale;
    this.dx = x - (x - this.dx) * ratio; this.dy = y - (y - this.dy) * ratio; this.scale = next;
    this.surface.request();
  }
  hit(event) {
    const [px, py] = this.surface.position(event), x = (px - this.dx) / this.scale, y = (py - this.dy) / this.scale;
    for (const v of this.vertices) if (Math.abs(x - v.x) <= v.w / 2 && Math.abs(y - v.y) <= v.h / 2) return v;
    for (let k = this.frames.length - 1; k >= 0; k--) {
      const f = this.frames[k];
      if (x >= f.x0 && x <= f.x1 && y >= f.y0 && y <= f.y0 + 18) return {group: f.group, frame: true};
    }
    return null;
  }
  hover(event) {
    const hit = this.hit(event);
    this.surface.canvas.style.cursor = hit ? 'pointer' : 'grab';
    const over = hit && !hit.frame ? hit : null;
    if (over !== this.over) { this.over = over; this.surface.request(); }
    if (!hit) return hideTip();
    if (hit.group) return showTip(event, el('b', {}, hit.group.name), tipLine(many(hit.group.all.length, 'item') + (hit.frame ? ' · click to close' : ' · click to open'), true));
    showTip(event, el('b', {}, hit.label), tipLine(hit.sub), hit.ns ? tipLine(`${time(hit.ns)} · ${percent(hit.ns / (this.graph.ns || 1))} of the call`, true) : null);
  }
  click(event) {
    const hit = this.hit(event);
    if (!hit) { this.selected = null; this.fillSide(); return this.surface.request(); }
    if (hit.group) { const key = hit.group.key; this.toggle(key); return; }
    this.select(this.items[hit.item].key, false);
  }

  // Opens all groups around an item and selects it.
  select(key, centre) {
    const k = this.indexOf.get(key);
    if (k === undefined) return false;
    let opened = false;
    for (let group = this.groupOf[k]; group && group.key; group = group.parent) opened = this.collapsed.delete(group.key) || opened;
    if (opened) this.arrangeAtOnce();
    this.selected = key;
    history.replaceState(null, '', '#graph:' + key);
    if (centre || opened) this.centre(this.vertices[this.vertexOf[k]]);
    this.fillSide();
    this.surface.request();
    return true;
  }
  // ref: {node}, {unit}, {step} or {value}; changes the level.
  show(ref) {
    if (ref.unit !== undefined && !this.graph.hasNodes) ref = {step: this.graph.units[ref.unit].steps[0]};
    const [level, key] = ref.step !== undefined ? ['program', 's' + ref.step] : ref.unit !== undefined ? ['kernels', 'u' + ref.unit] :
      ref.value !== undefined ? ['tensors', 'v' + ref.value] : ['tensors', 'n' + ref.node];
    if (level !== this.level) this.setLevel(level, true);
    this.select(key, true);
  }
  find(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.found = [];
    if (words.length) for (const item of this.items) {
      const all = (item.label + ' ' + item.sub + ' ' + item.path.join('/') + ' ' + item.key).toLowerCase();
      if (words.every(w => all.includes(w))) this.found.push(item.key);
    }
    this.matches = new Set(this.found);
    this.results.hidden = !words.length;
    this.results.replaceChildren(...(this.found.length ? this.found.slice(0, 60).map(key => {
      const item = this.items[this.indexOf.get(key)];
      return el('div', {onclick: () => { this.select(key, true); this.results.hidden = true; }}, item.label, el('small', {}, item.path.slice(-2).join('/') || item.sub));
    }) : [el('div', {class: 'muted'}, 'nothing found')]));
    this.surface.request();
  }

  fillOf(v) {
    if (this.colouring === 'time' && v.kind !== 'input') return heat(v.ns / (v.group ? Math.max(this.graph.ns, 1) : this.most));
    return colourOf(v.kind);
  }
  draw(ctx, width, height) {
    const {scale: s, dx, dy} = this;
    const x0 = -dx / s, y0 = -dy / s, x1 = (width - dx) / s, y1 = (height - dy) / s;
    this.drawGrid(ctx, width, height);
    ctx.save();
    ctx.translate(dx, dy);
    ctx.scale(s, s);
    this.drawFrames(ctx, x0, y0, x1, y1);
    this.drawEdges(ctx, x0, y0, x1, y1);
    const plain = s < kReadable, byColour = new Map();
    for (const v of this.vertices) {
      if (v.x + v.w / 2 < x0 || v.x - v.w / 2 > x1 || v.y + v.h / 2 < y0 || v.y - v.h / 2 > y1) continue;
      if (!plain) { this.drawVertex(ctx, v, s); continue; }
      const colour = this.fillOf(v);
      if (!byColour.has(colour)) byColour.set(colour, []);
      byColour.get(colour).push(v);
    }
    for (const [colour, list] of byColour) { ctx.fillStyle = colour; for (const v of list) ctx.fillRect(v.x - v.w / 2, v.y - v.h / 2, v.w, v.h); }
    const k = plain && this.selected !== null ? this.indexOf.get(this.selected) : undefined;
    if (k !== undefined) { const v = this.vertices[this.vertexOf[k]]; ctx.strokeStyle = palette.accent; ctx.lineWidth = 3 / s; ctx.strokeRect(v.x - v.w / 2, v.y - v.h / 2, v.w, v.h); }
    ctx.restore();
  }
  drawGrid(ctx, width, height) {
    if (this.scale < 0.3) return;
    const gap = 40 * this.scale;
    ctx.fillStyle = palette.grid;
    for (let x = ((this.dx % gap) + gap) % gap; x < width; x += gap)
      for (let y = ((this.dy % gap) + gap) % gap; y < height; y += gap) ctx.fillRect(x, y, 1.5, 1.5);
  }
  drawFrames(ctx, x0, y0, x1, y1) {
    for (const f of this.frames) {
      if (f.x1 < x0 || f.x0 > x1 || f.y1 < y0 || f.y0 > y1) continue;
      if (this.scale < 0.25) { if (f.depth === 1 && this.scale > 0.05) { ctx.strokeStyle = palette.line; ctx.lineWidth = 1 / this.scale; ctx.strokeRect(f.x0, f.y0, f.x1 - f.x0, f.y1 - f.y0); } continue; }
      ctx.globalAlpha = 0.5;
      ctx.fillStyle = f.depth % 2 ? palette.panel : palette.bg;
      ctx.beginPath(); ctx.roundRect(f.x0, f.y0, f.x1 - f.x0, f.y1 - f.y0, 12); ctx.fill();
      ctx.globalAlpha = 1;
      ctx.strokeStyle = palette.line; ctx.lineWidth = Math.max(1, 0.7 / this.scale); ctx.stroke();
      if (this.scale > 0.3) {
        ctx.fillStyle = palette.soft;
        ctx.font = '11px system-ui, "Liberation Sans", sans-serif';
        ctx.textAlign = 'left'; ctx.textBaseline = 'middle';
        ctx.fillText(fitted(ctx, '– ' + f.group.name, f.x1 - f.x0 - 16), f.x0 + 10, f.y0 + 14);
      }
    }
  }
  drawEdges(ctx, x0, y0, x1, y1) {
    const marked = this.markedVertex();
    const curve = ([, , outerA, outerB], a, b) => {
      const from = a.y + a.h / 2, to = b.y - b.h / 2, bend = Math.max(12, Math.min(60, Math.abs(to - from) / 2));
      ctx.moveTo(a.x, from);
      if (outerA.column < outerB.column) {  // through the gap beside its column
        const gap = outerA.gutter, r = 10;
        ctx.lineTo(a.x, from + 6); ctx.quadraticCurveTo(a.x, from + 16, a.x + r, from + 16); ctx.lineTo(gap - r, from + 16);
        ctx.quadraticCurveTo(gap, from + 16, gap, from + 6); ctx.lineTo(gap, to - 8); ctx.quadraticCurveTo(gap, to - 18, gap + r, to - 18);
        ctx.lineTo(b.x - r, to - 18); ctx.quadraticCurveTo(b.x, to - 18, b.x, to - 8); ctx.lineTo(b.x, to);
        return;
      }
      if (this.scale < 0.15) return ctx.lineTo(b.x, to);
      // The edge is routed around items between its ends.
      const long = to - from > 110 && Math.abs(a.x - b.x) < 40, bow = long ? Math.max(a.w, b.w) / 2 + 26 + Math.min(70, (to - from) * 0.05) : 0;
      if (!long) return ctx.bezierCurveTo(a.x, from + bend, b.x, to - bend, b.x, to);
      const side = Math.max(a.x, b.x) + bow;
      ctx.bezierCurveTo(a.x, from + 22, side, from + 4, side, from + 44);
      ctx.lineTo(side, to - 44);
      ctx.bezierCurveTo(side, to - 4, b.x, to - 22, b.x, to);
    };
    ctx.strokeStyle = palette.faint;
    ctx.globalAlpha = 0.55;
    ctx.lineWidth = Math.max(1, 0.6 / this.scale);
    ctx.beginPath();
    const near = [];
    let drawn = 0;  // long paths cost more than their parts do
    // Zoomed out, edges between neighbours are shorter than a pixel.
    const shortest = this.scale < 0.12 ? 12 / this.scale : 0;
    for (const line of this.lines) {
      const a = this.vertices[line[0]], b = this.vertices[line[1]];
      if (Math.max(a.x, b.x) < x0 || Math.min(a.x, b.x) > x1 || Math.max(a.y, b.y) < y0 || Math.min(a.y, b.y) > y1) continue;
      if (marked >= 0 && (line[0] === marked || line[1] === marked)) { near.push([line, a, b]); continue; }
      if (shortest && Math.abs(a.x - b.x) + Math.abs(a.y - b.y) < shortest) continue;
      curve(line, a, b);
      if (++drawn % 64 === 0) { ctx.stroke(); ctx.beginPath(); }
    }
    ctx.stroke();
    ctx.globalAlpha = 1;
    ctx.strokeStyle = palette.accent;
    ctx.lineWidth = Math.max(2, 1.2 / this.scale);
    ctx.beginPath();
    for (const edge of near) curve(...edge);
    ctx.stroke();
  }
  markedVertex() {
    if (this.over) return this.vertices.indexOf(this.over);
    const k = this.selected === null ? undefined : this.indexOf.get(this.selected);
    return k === undefined ? -1 : this.vertexOf[k];
  }
  drawVertex(ctx, v, s) {
    const x = v.x - v.w / 2, y = v.y - v.h / 2, colour = this.fillOf(v);
    const dim = this.matches && this.matches.size && !(v.item !== undefined && this.matches.has(v.key)) && !v.group;
    ctx.globalAlpha = dim ? 0.35 : 1;
    if (v.stack) for (const off of [8, 4]) {
      ctx.fillStyle = palette.panel; ctx.strokeStyle = palette.line; ctx.lineWidth = 1;
      ctx.beginPath(); ctx.roundRect(x + off, y + off, v.w, v.h, 9); ctx.fill(); ctx.stroke();
    }
    ctx.fillStyle = palette.panel;
    ctx.beginPath(); ctx.roundRect(x, y, v.w, v.h, v.kind === 'input' ? v.h / 2 : 9); ctx.fill();
    // Clipping to rounded corners takes most of the time of drawing. Zoomed out, the corners are smaller than a pixel.
    const rounded = s > 0.6;
    if (rounded) { ctx.save(); ctx.clip(); }
    ctx.fillStyle = colour;
    ctx.fillRect(x, y, 5, v.h);
    if (v.ns && this.graph.ns) { ctx.globalAlpha *= 0.16; ctx.fillRect(x, y, v.w * Math.min(1, v.ns / (v.group ? this.graph.ns : this.most)), v.h); ctx.globalAlpha = dim ? 0.35 : 1; }
    if (rounded) ctx.restore();
    const chosen = this.selected === v.key && v.item !== undefined;
    ctx.strokeStyle = chosen || v === this.over ? palette.accent : palette.line;
    ctx.lineWidth = chosen ? 2.5 : 1.2;
    ctx.beginPath(); ctx.roundRect(x, y, v.w, v.h, v.kind === 'input' ? v.h / 2 : 9); ctx.stroke();
    if (s >= kReadable) {
      ctx.textAlign = 'left'; ctx.textBaseline = 'middle';
      ctx.fillStyle = palette.text;
      ctx.font = '600 13px system-ui, "Liberation Sans", sans-serif';
      ctx.fillText(v.shownLabel ??= fitted(ctx, v.label, v.w - 24), x + 14, v.y - (v.sub ? 8 : 0));
      if (v.sub) {
        ctx.fillStyle = palette.soft;
        ctx.font = '11px system-ui, "Liberation Sans", sans-serif';
        ctx.fillText(v.shownSub ??= fitted(ctx, v.sub, v.w - 24), x + 14, v.y + 9);
      }
    }
    ctx.globalAlpha = 1;
  }

  fillSide() {
    const item = this.selected === null ? null : this.items[this.indexOf.get(this.selected)];
    this.side.replaceChildren(...(item ? detailsOf(this.graph, item.ref, ref => this.show(ref), item) : overviewOfGraph(this.graph, this)));
    this.side.scrollTop = 0;
  }
}
