// One replay: a track for the host and for each thread; above them the efficiency of each launch,
// below them the critical path.
class TimelineView {
  constructor(parent, graph, app) {
    if (!graph.timeline) return void parent.append(el('div', {class: 'empty'}, 'No call of this graph was traced.'));
    this.graph = graph;
    this.app = app;
    const events = graph.timeline.events;
    this.track = track => track < 0 ? 'host' : `${graph.onDevice ? 'stream' : 'thread'} ${track}`;
    this.tracks = [...new Set(events.map(e => e[1]))].sort((a, b) => a - b);
    this.bySpan = graph.steps.filter(s => s.ns).sort((a, b) => a.begin - b.begin);
    this.from = 0;
    this.to = graph.timeline.ns;
    const idle = idleOf(graph), box = el('div', {class: 'canvas', style: `height:${138 + this.tracks.length * 46}px;flex:none`});
    const calls = graph.timeline.calls;
    parent.append(el('div', {class: 'page'}, el('h2', {}, 'One call', el('small', {}, `${calls.length > 1 ? `the fastest of ${calls.length} traced calls` : 'the traced call'}; scroll to zoom, drag to move, double click for the whole call, click a launch to see it in the graph`)),
      el('div', {class: 'cards', style: 'margin-bottom:16px'}, card(time(graph.ns), 'this call', `median of all: ${time(median(calls))}`), card(count(this.bySpan.length), 'launches and calls'),
        card(percent(1 - idle / graph.ns), 'of the time something runs', `nothing runs for ${time(idle)}`), card(String(this.tracks.filter(l => l >= 0).length), graph.onDevice ? 'streams' : 'threads at work'), this.overlap()),
      graph.onDevice ? el('p', {class: 'note'}, 'Times of the device, by events beside the launches, inside the graph that is replayed. The events keep a launch from beginning before its predecessor ends, which it may do otherwise. The host waits at the end of a traced call.') : null,
      el('div', {class: 'panel', style: 'padding:0;overflow:hidden'}, box),
      kindLegend(this.bySpan.map(step => step.colour)),
      el('h2', {}, 'Launches', el('small', {}, 'by time')), launchTable(graph, app, (a, b) => b.ns - a.ns)));
    this.surface = new Surface(box, (ctx, w, h) => this.draw(ctx, w, h));
    this.listen();
  }
  x(ns) { return this.left + (ns - this.from) / (this.to - this.from) * (this.surface.width - this.left - 12); }
  get left() { return 92; }
  ns(x) { return this.from + (x - this.left) / (this.surface.width - this.left - 12) * (this.to - this.from); }
  trackTop(k) { return 104 + k * 46; }
  draw(ctx, width, height) {
    ctx.font = '11px system-ui, "Liberation Sans", sans-serif';
    ctx.textBaseline = 'middle';
    this.drawAxis(ctx, width, height);
    this.drawShares(ctx);
    ctx.textAlign = 'left';
    this.tracks.forEach((track, k) => {
      ctx.fillStyle = palette.soft;
      ctx.fillText(this.track(track), 12, this.trackTop(k) + 17);
      ctx.fillStyle = palette.grid;
      ctx.globalAlpha = 0.6;
      ctx.fillRect(this.left, this.trackTop(k), width - this.left - 12, 34);
      ctx.globalAlpha = 1;
    });
    const row = new Map(this.tracks.map((track, k) => [track, k]));
    ctx.save();
    ctx.beginPath(); ctx.rect(this.left, 0, width - this.left - 12, height); ctx.clip();
    for (const [s, track, begin, end] of this.graph.timeline.events) {
      if (end < this.from || begin > this.to || s === -1) continue;
      if (s < -1) { this.drawHostWork(ctx, kHostWork[s], begin, end, this.trackTop(row.get(track))); continue; }
      const step = this.graph.steps[s], a = this.x(begin), b = this.x(end), y = this.trackTop(row.get(track));
      ctx.fillStyle = colourOf(step.colour);
      ctx.globalAlpha = this.over && this.over !== step ? 0.45 : 1;
      ctx.fillRect(a, y, Math.max(0.8, b - a - (b - a > 3 ? 0.8 : 0)), 34);
      if (b - a > 46) { ctx.fillStyle = '#fff'; ctx.fillText(fitted(ctx, step.name, b - a - 10), Math.max(a, this.left) + 5, y + 17); }
    }
    ctx.globalAlpha = 1;
    const bottom = this.trackTop(this.tracks.length) + 10;
    for (const step of this.bySpan) if (step.critical) { ctx.fillStyle = palette.accent; ctx.fillRect(this.x(step.begin), bottom, Math.max(1, this.x(step.end) - this.x(step.begin)), 7); }
    ctx.restore();
    ctx.fillStyle = palette.soft;
    ctx.fillText('critical path', 12, bottom + 4);
  }
  drawHostWork(ctx, words, begin, end, y) {
    const a = this.x(begin), b = this.x(end);
    ctx.globalAlpha = words === kHostWork[-3] ? 0.25 : 0.8;
    ctx.fillStyle = colourOf('step');
    ctx.fillRect(a, y, Math.max(0.8, b - a - 0.8), 34);
    ctx.globalAlpha = 1;
    if (b - a > 46) { ctx.fillStyle = words === kHostWork[-3] ? palette.soft : '#fff'; ctx.fillText(fitted(ctx, words, b - a - 10), Math.max(a, this.left) + 5, y + 17); }
  }
  // How much of the time several streams work at once.
  overlap() {
    if (!this.graph.onDevice || this.tracks.filter(l => l >= 0).length < 2) return null;
    const ends = this.graph.timeline.events.filter(e => e[0] >= 0 && e[1] >= 0).flatMap(([, , begin, end]) => [[begin, 1], [end, -1]]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    let busy = 0, last = 0, both = 0;
    for (const [at, by] of ends) { if (busy > 1) both += at - last; busy += by; last = at; }
    return card(time(both), 'on two streams or more');
  }
  drawAxis(ctx, width, height) {
    const span = this.to - this.from, rough = span / Math.max(3, width / 130);
    const step = [1, 2, 5].map(m => m * 10 ** Math.floor(Math.log10(rough))).concat(10 ** (Math.floor(Math.log10(rough)) + 1)).find(v => v >= rough);
    ctx.textAlign = 'center';
    for (let t = Math.ceil(this.from / step) * step; t <= this.to; t += step) {
      ctx.fillStyle = palette.grid; ctx.fillRect(this.x(t), 24, 1, height);
      ctx.fillStyle = palette.faint; ctx.fillText(time(t), this.x(t), 13);
    }
  }
  // A bar for each launch: its share of the machine's limit.
  drawShares(ctx) {
    const base = 92, tall = 60;
    ctx.textAlign = 'left';
    ctx.fillStyle = palette.soft;
    ctx.fillText('share of limit', 12, 50);
    ctx.fillStyle = palette.faint;
    ctx.fillText('0 to 100 %', 12, 66);
    ctx.fillStyle = palette.grid;
    ctx.fillRect(this.left, base - tall, this.surface.width - this.left - 12, 1);
    ctx.save();
    ctx.beginPath(); ctx.rect(this.left, 0, this.surface.width - this.left - 12, 100); ctx.clip();
    for (const step of this.bySpan) {
      if (step.share === undefined || step.end < this.from || step.begin > this.to) continue;
      const share = Math.min(1, step.share), a = this.x(step.begin), b = this.x(step.end);
      ctx.fillStyle = share > PEAK_SHARE ? palette.good : share > 0.2 ? palette.warn : palette.bad;
      ctx.fillRect(a, base - tall * share, Math.max(0.8, b - a), tall * share);
    }
    ctx.restore();
    ctx.fillStyle = palette.line;
    ctx.fillRect(this.left, base, this.surface.width - this.left - 12, 1);
  }
  at(event) {
    const [x, y] = this.surface.position(event), ns = this.ns(x), track = this.tracks[Math.floor((y - this.trackTop(0)) / 46)];
    if (x < this.left) return null;
    const slack = (this.to - this.from) / this.surface.width * 2;
    if (track === undefined) return this.bySpan.find(s => ns >= s.begin - slack && ns <= s.end + slack) || null;
    const found = this.graph.timeline.events.find(e => e[1] === track && ns >= e[2] - slack && ns <= e[3] + slack && e[0] >= 0);
    return found ? this.graph.steps[found[0]] : null;
  }
  listen() {
    const canvas = this.surface.canvas;
    let drag = null, moved = false;
    canvas.addEventListener('wheel', event => {
      event.preventDefault();
      const here = this.ns(this.surface.position(event)[0]), factor = Math.exp(event.deltaY * 0.0016);
      this.from = Math.max(0, here - (here - this.from) * factor);
      this.to = Math.min(this.graph.timeline.ns, here + (this.to - here) * factor);
      this.surface.request();
    }, {passive: false});
    canvas.addEventListener('dblclick', () => { this.from = 0; this.to = this.graph.timeline.ns; this.surface.request(); });
    canvas.addEventListener('pointerdown', event => { drag = event.clientX; moved = false; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener('pointerup', event => { const step = !moved && this.at(event); drag = null; if (step) this.app.goTo({step: step.id}); });
    canvas.addEventListener('pointermove', event => {
      if (drag !== null) {
        let by = (drag - event.clientX) / this.surface.width * (this.to - this.from);
        by = Math.max(-this.from, Math.min(this.graph.timeline.ns - this.to, by));
        if (Math.abs(event.clientX - drag) > 2) moved = true;
        if (moved) { this.from += by; this.to += by; drag = event.clientX; hideTip(); this.surface.request(); }
        return;
      }
      const step = this.at(event);
      if (step !== this.over) { this.over = step; this.surface.request(); }
      canvas.style.cursor = step ? 'pointer' : 'grab';
      step ? stepTip(event, step, this.graph) : hideTip();
    });
    canvas.addEventListener('pointerleave', () => { this.over = null; hideTip(); this.surface.request(); });
  }
}

function stepTip(event, step, graph) {
  showTip(event, el('b', {}, step.name), tipLine(`${time(step.ns)} · ${percent(step.ns / graph.ns)} of the call` + (step.delayed ? `; at best ${time(step.best)}` : '')),
    step.flops !== undefined ? tipLine(`${round(step.gflops)} GFLOP/s · ${round(step.gbs)} GB/s` + (step.share === undefined ? '' : ` · ${percent(step.share)} of its limit`)) : null,
    tipLine((graph.onDevice ? step.grid === undefined ? 'on the device' : many(step.grid, 'block') : many(step.workers, 'thread')) + (step.critical ? ' · on the critical path' : ''), true), step.at ? tipLine(shortPlace(step.at), true) : null);
}

const kHostWork = {'-2': 'enqueues the steps', '-3': 'waits for the device'};
const kKindWords = {contraction: 'matmuls, convolutions, attention', loop: 'fused loops', scatter: 'scatters', call: 'calls through PyTorch', copy: 'copies and fills', step: 'other steps', input: 'inputs'};
const kindLegend = kinds => el('div', {class: 'legend'}, Object.entries(kKindWords).filter(([kind]) => kinds.includes(kind)).map(([kind, words]) => el('span', {}, el('span', {class: 'dot', style: `background:${colourOf(kind)}`}), words)));

const card = (number, label, small) => el('div', {class: 'card'}, el('div', {class: 'l'}, label), el('div', {class: 'n'}, number), small ? el('div', {class: 's'}, small) : null);

function launchTable(graph, app, order, limit = 200) {
  const rows = kindsOfLaunches(graph).sort(order), most = Math.max(...rows.map(r => r.ns), 1);
  return el('div', {class: 'panel scroll', style: 'padding:4px 8px'}, el('table', {}, el('thead', {}, el('tr', {}, ['launch', '', 'times', 'time', 'of call', 'each, at best', 'GFLOP/s', 'GB/s', 'of limit', 'lost'].map((t, k) => el('th', {class: k > 1 ? 'r' : ''}, t)))),
    el('tbody', {}, rows.slice(0, limit).map(row => el('tr', {class: 'link', onclick: () => app.goTo({step: row.steps[0].id})},
      el('td', {}, el('span', {class: 'dot', style: `background:${colourOf(row.colour)}`}), row.name), el('td', {style: 'width:110px;padding-top:11px'}, el('div', {class: 'bar'}, el('i', {style: `width:${100 * row.ns / most}%;background:${colourOf(row.colour)}`}))),
      ...[count(row.steps.length), time(row.ns), percent(row.ns / graph.ns), time(row.best / row.steps.length), row.flops ? round(row.flops / row.best) : '–', row.moved ? round(row.moved / row.best) : '–', row.ideal ? percent(row.ideal / row.best) : '–', row.lost ? time(row.lost) : '–'].map(t => el('td', {class: 'r'}, t)))))));
}
