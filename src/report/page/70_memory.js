// The arena over the steps of a call: each value is a rectangle of its address range and lifetime.
class MemoryView {
  constructor(parent, graph, app) {
    this.graph = graph;
    this.app = app;
    const memory = graph.memory, rows = memory.rows;
    const alive = new Float64Array(memory.positions + 1);
    for (const [, , size, first, last] of rows) for (let p = first; p <= last; p++) alive[p] += size;
    this.peak = alive.reduce((best, size, p) => size > alive[best] ? p : best, 0);
    this.alive = alive;
    const outside = memory.outside;
    const ratio = memory.lower_bound ? memory.total / memory.lower_bound : 1;
    const box = el('div', {class: 'canvas', style: 'height:470px;flex:none'});
    const workspace = rows.filter(r => graph.buffers[r[0]].name === 'workspace').reduce((s, r) => Math.max(s, r[2]), 0);
    parent.append(el('div', {class: 'page'}, el('h2', {}, 'Memory', el('small', {}, 'each rectangle is a value: its addresses and the steps during which it is needed')),
      el('div', {class: 'cards', style: 'margin-bottom:16px'}, card(bytes(memory.total), 'arena for temporaries', `${rows.length} values, ${bytes(memory.without_reuse)} without reuse`),
        card(bytes(memory.lower_bound), 'lower bound', ratio < 1.005 ? 'reached: no plan needs less' : `the arena is ${round(ratio)} × as large`), outside.constant ? card(bytes(outside.constant), 'weights and constants', 'kept between calls') : null, card(bytes(outside.input || 0), outside.constant ? 'inputs' : 'inputs and weights', 'memory of the caller'), card(bytes(outside.output || 0), 'results', 'new in each call'), workspace ? card(bytes(workspace), 'largest workspace') : null),
      memory.why ? el('div', {class: 'why'}, 'More than the lower bound: ' + memory.why) : null,
      memory.later.length ? el('div', {class: 'note'}, `${memory.later.length} values are placed once their size is known and are not shown.`) : null,
      rows.length ? el('div', {class: 'panel', style: 'padding:0;overflow:hidden'}, box) : el('div', {class: 'panel empty'}, 'This graph needs no temporaries.'),
      rows.length ? this.holders() : null));
    if (!rows.length) return;
    this.stepAt = new Map();
    memory.position_of_step.forEach((p, s) => { if (!this.stepAt.has(p)) this.stepAt.set(p, graph.steps[s]); });
    this.surface = new Surface(box, (ctx, w, h) => this.draw(ctx, w, h));
    const canvas = this.surface.canvas;
    canvas.addEventListener('pointermove', event => this.hover(event));
    canvas.addEventListener('pointerleave', () => { this.over = null; this.line = null; hideTip(); this.surface.request(); });
    canvas.addEventListener('click', event => { const step = this.stepAt.get(this.position(event)); if (step) app.goTo({step: step.id}); });
  }
  holders() {
    const {graph} = this, at = this.graph.memory.rows.filter(r => r[3] <= this.peak && this.peak <= r[4]).sort((a, b) => b[2] - a[2]);
    const step = graph.steps[graph.memory.position_of_step.indexOf(this.peak)];
    return [el('h2', {}, 'Values alive at the peak', el('small', {}, `${bytes(this.alive[this.peak])} at step ${this.peak}` + (step ? ` (${step.name})` : ''))),
      el('div', {class: 'panel scroll', style: 'padding:4px 8px'}, el('table', {}, el('thead', {}, el('tr', {}, ['value', 'type', 'written by', 'bytes', 'share', 'needed'].map((t, k) => el('th', {class: k > 2 ? 'r' : ''}, t)))),
        el('tbody', {}, at.slice(0, 40).map(r => el('tr', {}, el('td', {}, el('span', {class: 'dot', style: `background:${oneOf(String(r[0]))}`}), `%${r[0]} ${graph.buffers[r[0]].name}`), el('td', {}, el('code', {}, graph.buffers[r[0]].type)), el('td', {}, this.writerOf(r[0])),
          ...[bytes(r[2]), percent(r[2] / this.alive[this.peak]), `steps ${r[3]} to ${r[4]}`].map(t => el('td', {class: 'r'}, t)))))))];
  }
  writerOf(buffer) {
    const step = this.graph.steps.find(s => s.writes.includes(buffer));
    return step ? el('span', {class: 'chip', onclick: () => this.app.goTo({step: step.id}), title: step.at || step.name}, step.name + (step.at ? ' · ' + shortPlace(step.at) : '')) : '';
  }
  px(p) { return 78 + p / this.graph.memory.positions * (this.surface.width - 92); }
  py(offset) { return this.surface.height - 40 - offset / (this.graph.memory.total * 1.05) * (this.surface.height - 60); }
  position(event) { return Math.floor((this.surface.position(event)[0] - 78) / (this.surface.width - 92) * this.graph.memory.positions); }
  hover(event) {
    const [x, y] = this.surface.position(event), p = this.position(event), memory = this.graph.memory;
    this.line = x >= 78 && p < memory.positions ? p : null;
    this.over = memory.rows.find(r => x >= this.px(r[3]) && x <= this.px(r[4] + 1) && y <= this.py(r[1]) && y >= this.py(r[1] + r[2])) || null;
    this.surface.request();
    if (this.line === null) return hideTip();
    const step = this.stepAt.get(p), r = this.over;
    showTip(event, r ? el('b', {}, `%${r[0]} ${this.graph.buffers[r[0]].name}`) : el('b', {}, `step ${p}`), r ? tipLine(`${this.graph.buffers[r[0]].type} · ${bytes(r[2])} · steps ${r[3]} to ${r[4]}`) : null,
      tipLine(`${bytes(this.alive[p])} alive` + (step ? ` at ${step.name}` : ''), true));
  }
  draw(ctx, width, height) {
    const memory = this.graph.memory;
    ctx.font = '11px system-ui, "Liberation Sans", sans-serif';
    ctx.textBaseline = 'middle';
    for (let k = 0; k <= 4; k++) {
      const offset = memory.total * k / 4;
      ctx.fillStyle = palette.grid; ctx.fillRect(78, this.py(offset), width - 92, 1);
      ctx.fillStyle = palette.faint; ctx.textAlign = 'right'; ctx.fillText(bytes(offset), 70, this.py(offset));
    }
    ctx.textAlign = 'center';
    for (let k = 0; k <= 8; k++) { const p = Math.round(memory.positions * k / 8); ctx.fillStyle = palette.faint; ctx.fillText(p, this.px(p), height - 26); }
    ctx.fillStyle = palette.soft; ctx.fillText('steps of the program', width / 2, height - 10);
    for (const r of memory.rows) {
      const x = this.px(r[3]), y = this.py(r[1] + r[2]), w = Math.max(1, this.px(r[4] + 1) - x), h = Math.max(1, this.py(r[1]) - y);
      ctx.globalAlpha = this.over && this.over !== r ? 0.55 : 0.9;
      ctx.fillStyle = oneOf(String(r[0])); ctx.fillRect(x, y, w, h);
      ctx.globalAlpha = 1;
      ctx.strokeStyle = palette.panel; ctx.lineWidth = 0.7;
      if (w > 2.5 && h > 2.5) ctx.strokeRect(x, y, w, h);
      if (w > 50 && h > 13) { ctx.fillStyle = '#fff'; ctx.textAlign = 'left'; ctx.fillText(fitted(ctx, this.graph.buffers[r[0]].name, w - 8), x + 4, y + h / 2); }
    }
    const mark = (y, text, colour) => { ctx.strokeStyle = colour; ctx.setLineDash([6, 4]); ctx.lineWidth = 1.3; ctx.beginPath(); ctx.moveTo(78, y); ctx.lineTo(width - 14, y); ctx.stroke(); ctx.setLineDash([]); ctx.fillStyle = colour; ctx.textAlign = 'right'; ctx.fillText(text, width - 18, y - 8); };
    if (memory.total > memory.lower_bound * 1.02) { mark(this.py(memory.total), 'arena ' + bytes(memory.total), palette.bad); mark(this.py(memory.lower_bound), 'lower bound', palette.good); } else mark(this.py(memory.total), 'arena, at the lower bound: ' + bytes(memory.total), palette.good);
    ctx.strokeStyle = palette.text; ctx.globalAlpha = 0.5; ctx.lineWidth = 1;
    ctx.beginPath(); ctx.moveTo(this.px(this.peak + 0.5), 20); ctx.lineTo(this.px(this.peak + 0.5), height - 40); ctx.stroke();
    ctx.globalAlpha = 1; ctx.fillStyle = palette.text; ctx.textAlign = 'center'; ctx.fillText('peak', Math.min(width - 30, this.px(this.peak + 0.5)), 12);
    if (this.line !== null && this.line !== undefined) { ctx.fillStyle = palette.accent; ctx.fillRect(this.px(this.line + 0.5), 20, 1, height - 60); }
  }
}
