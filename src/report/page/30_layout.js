// A layered layout: ranks from top to bottom, few crossings, neighbours above each other.
// `vertices`: {w, h, order}; `edges`: pairs of indices. Sets x and y (centres).
// A generator, so that the page can answer in between: see Slices.
const kRankGap = 34, kSideGap = 18;

function* layoutSteps(vertices, edges) {
  const parts = connectedParts(vertices.length, edges);
  let right = 0, tall = 0, top = 0, widest = 0;
  for (const [number, part] of parts.entries()) {
    const index = new Map(part.vertices.map((v, k) => [v, k])), own = part.vertices.map(v => vertices[v]);
    yield* layoutConnected(own, part.edges.map(([a, b]) => [index.get(a), index.get(b)]));
    const x0 = Math.min(...own.map(v => v.x - v.w / 2)), x1 = Math.max(...own.map(v => v.x + v.w / 2));
    const y0 = Math.min(...own.map(v => v.y - v.h / 2)), y1 = Math.max(...own.map(v => v.y + v.h / 2));
    // The largest component comes first, the others are stacked beside it.
    if (number === 0) tall = Math.max(y1 - y0, 400);
    else if (top + y1 - y0 > tall) { right += widest + kColumnGap; top = widest = 0; }
    for (const v of own) { v.x += right - x0; v.y += top - y0; v.gutter += right - x0; v.column += 1000 * number; }
    widest = Math.max(widest, x1 - x0);
    if (number === 0) { right = widest + kColumnGap; widest = 0; } else top += y1 - y0 + 2 * kRankGap;
    yield;
  }
}

// Open groups are boxes that only hold their own members: each is laid out alone, from the inside
// out, and is one vertex of the layout around it. `box`: {members, boxes, lines, title, order};
// `boxes` are those of its members that are boxes themselves.
const kBoxPad = 12, kBoxTitle = 20;

function* layoutBoxes(box) {
  for (const inner of box.boxes) yield* layoutBoxes(inner);
  const index = new Map(box.members.map((v, k) => [v, k]));
  yield* layoutSteps(box.members, box.lines.map(([a, b]) => [index.get(a), index.get(b)]));
  let x0 = Infinity, y0 = Infinity, x1 = -Infinity, y1 = -Infinity;
  for (const v of box.members) {
    x0 = Math.min(x0, v.x - v.w / 2); x1 = Math.max(x1, v.x + v.w / 2);
    y0 = Math.min(y0, v.y - v.h / 2); y1 = Math.max(y1, v.y + v.h / 2);
  }
  box.w = Math.max(x1 - x0, box.title) + 2 * kBoxPad;
  box.h = y1 - y0 + 2 * kBoxPad + kBoxTitle;
  // Positions of the members are relative to the middle of the box.
  for (const v of box.members) { v.x -= (x0 + x1) / 2; v.y -= (y0 + y1 - kBoxTitle) / 2; v.gutter -= (x0 + x1) / 2; }
}

// From positions within each box to those on the page.
function placeBoxes(box, x, y) {
  for (const v of box.members) { v.x += x; v.y += y; v.gutter += x; }
  for (const inner of box.boxes) placeBoxes(inner, inner.x, inner.y);
}

function connectedParts(n, edges) {
  const parent = Array.from({length: n}, (_, k) => k);
  const find = v => { while (parent[v] !== v) v = parent[v] = parent[parent[v]]; return v; };
  for (const [a, b] of edges) parent[find(a)] = find(b);
  const parts = new Map();
  for (let v = 0; v < n; v++) { if (!parts.has(find(v))) parts.set(find(v), {vertices: [], edges: []}); parts.get(find(v)).vertices.push(v); }
  for (const edge of edges) parts.get(find(edge[0])).edges.push(edge);
  return [...parts.values()].sort((a, b) => b.vertices.length - a.vertices.length);
}

function* layoutConnected(vertices, edges) {
  const n = vertices.length;
  const below = Array.from({length: n}, () => []), above = Array.from({length: n}, () => []);
  for (const [a, b] of edges) {
    // Edges against the order come from cycles of collapsed groups: they are drawn but do not
    // affect ranks.
    if (vertices[a].order < vertices[b].order) { below[a].push(b); above[b].push(a); }
  }
  const byOrder = vertices.map((_, k) => k).sort((a, b) => vertices[a].order - vertices[b].order);
  const rank = new Int32Array(n);
  for (const v of byOrder) for (const b of below[v]) rank[b] = Math.max(rank[b], rank[v] + 1);
  // Vertices without predecessors are placed just above their first reader.
  for (const v of byOrder) if (!above[v].length && below[v].length) rank[v] = Math.min(...below[v].map(b => rank[b])) - 1;
  const ranks = [];
  for (const v of byOrder) (ranks[rank[v]] = ranks[rank[v]] || []).push(v);
  for (let r = 0; r < ranks.length; r++) ranks[r] = ranks[r] || [];
  yield;
  yield* reduceCrossings(ranks, above, below, n);
  let y = 0;
  for (const row of ranks) {
    const height = Math.max(0, ...row.map(v => vertices[v].h));
    for (const v of row) vertices[v].y = y + height / 2;
    if (row.length) y += height + kRankGap;
  }
  yield* placeSideways(ranks, vertices, above, below);
  fold(ranks, vertices, y);
}

// Tall graphs are split into columns, so that the whole has about the aspect ratio of a screen.
const kTall = 1500, kColumnGap = 90, kShape = 1.5;

function fold(ranks, vertices, height) {
  for (const v of vertices) { v.column = 0; v.gutter = 0; }
  if (height < kTall) return;
  const widths = ranks.map(row => row.length ? Math.max(...row.map(v => vertices[v].x + vertices[v].w / 2)) - Math.min(...row.map(v => vertices[v].x - vertices[v].w / 2)) : 0);
  const usual = [...widths].sort((a, b) => a - b)[Math.floor(widths.length * 0.9)] + kColumnGap;
  const columns = Math.max(1, Math.round(Math.sqrt(height * kShape / usual)));
  const limit = Math.max(kTall / 2, height / columns);
  let left = 0, top = 0, row = 0, column = 0;
  while (row < ranks.length) {
    let end = row, low = Infinity, high = -Infinity;
    for (; end < ranks.length; end++) {
      const members = ranks[end];
      if (members.length && vertices[members[0]].y - top > limit && end > row) break;
      for (const v of members) { low = Math.min(low, vertices[v].x - vertices[v].w / 2); high = Math.max(high, vertices[v].x + vertices[v].w / 2); }
    }
    const next = end < ranks.length ? Math.min(...ranks[end].map(v => vertices[v].y - vertices[v].h / 2), Infinity) : 0;
    for (let r = row; r < end; r++) for (const v of ranks[r]) Object.assign(vertices[v], {x: vertices[v].x - low + left, y: vertices[v].y - top, column, gutter: left + high - low + kColumnGap / 2});
    if (high > low) { left += high - low + kColumnGap; column++; }
    top = next;
    row = end;
  }
}

function* reduceCrossings(ranks, above, below, n) {
  const place = new Float64Array(n);
  ranks.forEach(row => row.forEach((v, k) => { place[v] = k; }));
  const sweep = (rows, neighbours) => {
    for (const row of rows) {
      if (row.length < 2) continue;
      const wanted = new Map(row.map(v => [v, neighbours[v].length ? neighbours[v].reduce((s, u) => s + place[u], 0) / neighbours[v].length : place[v]]));
      row.sort((a, b) => wanted.get(a) - wanted.get(b));
      row.forEach((v, k) => { place[v] = k; });
    }
  };
  const backwards = [...ranks].reverse();
  for (let k = 0; k < 4; k++) { sweep(ranks, above); yield; sweep(backwards, below); yield; }
}

function* placeSideways(ranks, vertices, above, below) {
  for (const row of ranks) {
    let x = 0;
    for (const v of row) { vertices[v].x = x + vertices[v].w / 2; x += vertices[v].w + kSideGap; }
    for (const v of row) vertices[v].x -= x / 2;
  }
  const sweep = (rows, first, second) => {
    for (const row of rows) {
      const wanted = row.map(v => {
        const list = first[v].length ? first[v] : second[v];
        return list.length ? list.reduce((s, u) => s + vertices[u].x, 0) / list.length : vertices[v].x;
      });
      let edge = -Infinity, shift = 0;
      row.forEach((v, k) => {
        vertices[v].x = Math.max(wanted[k], edge + vertices[v].w / 2);
        edge = vertices[v].x + vertices[v].w / 2 + kSideGap;
        shift += wanted[k] - vertices[v].x;
      });
      for (const v of row) vertices[v].x += shift / row.length;
    }
  };
  const backwards = [...ranks].reverse();
  for (let k = 0; k < 5; k++) { sweep(ranks, above, below); yield; sweep(backwards, below, above); yield; }
}

// Long work in parts, between which the page draws and answers. `steps` is a generator; `finish` is
// called after its last step.
const kSliceMs = 12;

class Slices {
  constructor(steps, finish) {
    this.steps = steps;
    this.finish = finish;
    this.ended = false;  // or replaced by other work
  }
  work(milliseconds = kSliceMs) {
    const end = performance.now() + milliseconds;
    while (!this.ended) {
      if (this.steps.next().done) { this.ended = true; this.finish(); } else if (performance.now() > end) return;
    }
  }
  workLater() {
    setTimeout(() => { this.work(); if (!this.ended) this.workLater(); });
  }
}
