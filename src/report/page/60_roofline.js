// Every launch by arithmetic intensity and speed, under the machine's measured roofline.
class RooflineView {
  constructor(parent, graph, app) {
    this.graph = graph;
    this.app = app;
    this.points = graph.steps.filter(step => step.flops > 0 && step.ns && isFinite(step.intensity));
    const machine = this.limits = graph.limits;
    this.points = machine.known ? this.points : [];
    const box = el('div', {class: 'canvas', style: 'height:440px;flex:none'});
    parent.append(el('div', {class: 'page'}, el('h2', {}, 'Roofline', el('small', {}, [machine.where, machine.how].filter(Boolean).join('; '))),
      this.points.length ? el('div', {class: 'panel', style: 'padding:0;overflow:hidden'}, box) : el('div', {class: 'empty panel'}, machine.known ? 'No launch was timed.' : 'The limits of this device are not known.'),
      this.points.length ? kindLegend(this.points.map(p => p.colour)) : null,
      el('p', {class: 'note'}, 'A launch on a roof is as fast as this machine allows. Left of the ridge memory is the limit: fewer bytes (fusion, smaller types) help. Right of it arithmetic is. The area of a point is its share of the call; the names are those that lose most time. Launches whose data stays in the cache may lie above the memory roof.'),
      el('h2', {}, 'Launches', el('small', {}, 'by time lost against their limit')), launchTable(graph, app, (a, b) => b.lost - a.lost)));
    if (!this.points.length) return;
    const xs = this.points.map(p => p.intensity), ys = this.points.map(p => p.gflops);
    const ridge = machine.gflops / machine.bandwidth;
    this.x0 = Math.log10(Math.min(...xs, ridge / 40)) - 0.2; this.x1 = Math.log10(Math.max(...xs, ridge * 10)) + 0.2;
    this.y0 = Math.log10(Math.max(machine.gflops / 1e6, Math.min(...ys))) - 0.3; this.y1 = Math.log10(Math.max(machine.gflops, machine.tensor || 0, ...ys)) + 0.35;
    this.named = [];
    for (const step of [...this.points].sort((a, b) => b.lost - a.lost)) if (step.lost > 0.01 * graph.ns && this.named.length < 6 && !this.named.some(s => s.name === step.name)) this.named.push(step);
    this.surface = new Surface(box, (ctx, w, h) => this.draw(ctx, w, h));
    this.surface.canvas.addEventListener('pointermove', event => {
      const step = this.at(event);
      if (step !== this.over) { this.over = step; this.surface.request(); }
      this.surface.canvas.style.cursor = step ? 'pointer' : 'default';
      step ? stepTip(event, step, graph) : hideTip();
    });
    this.surface.canvas.addEventListener('pointerleave', () => { this.over = null; hideTip(); this.surface.request(); });
    this.surface.canvas.addEventListener('click', event => { const step = this.at(event); if (step) app.goTo({step: step.id}); });
  }
  px(intensity) { return 66 + (Math.log10(intensity) - this.x0) / (this.x1 - this.x0) * (this.surface.width - 90); }
  py(gflops) { return this.surface.height - 46 - (Math.log10(gflops) - this.y0) / (this.y1 - this.y0) * (this.surface.height - 66); }
  radius(step) { return 3.5 + 26 * Math.sqrt(step.ns / this.graph.ns); }
  at(event) {
    const [x, y] = this.surface.position(event);
    let found = null, near = Infinity;
    for (const step of this.points) {
      const d = Math.hypot(x - this.px(step.intensity), y - this.py(step.gflops)) - this.radius(step);
      if (d < Math.min(4, near)) { near = d; found = step; }
    }
    return found;
  }
  draw(ctx, width, height) {
    const machine = this.limits;
    ctx.font = '11px system-ui, "Liberation Sans", sans-serif';
    ctx.textBaseline = 'middle';
    for (let k = Math.ceil(this.x0); k <= this.x1; k++) {
      ctx.fillStyle = palette.grid; ctx.fillRect(this.px(10 ** k), 16, 1, height - 62);
      ctx.fillStyle = palette.faint; ctx.textAlign = 'center'; ctx.fillText(round(10 ** k), this.px(10 ** k), height - 32);
    }
    for (let k = Math.ceil(this.y0); k <= this.y1; k++) {
      ctx.fillStyle = palette.grid; ctx.fillRect(66, this.py(10 ** k), width - 90, 1);
      ctx.fillStyle = palette.faint; ctx.textAlign = 'right'; ctx.fillText(round(10 ** k), 58, this.py(10 ** k));
    }
    ctx.fillStyle = palette.soft;
    ctx.textAlign = 'center'; ctx.fillText('FLOP for each byte moved', width / 2 + 20, height - 13);
    ctx.save(); ctx.translate(16, height / 2 - 20); ctx.rotate(-Math.PI / 2); ctx.fillText('GFLOP/s', 0, 0); ctx.restore();
    ctx.save();
    ctx.beginPath(); ctx.rect(66, 10, width - 84, height - 56); ctx.clip();
    const roof = (rate, name, colour, dash) => {
      const ridge = machine.gflops / rate, low = 10 ** this.x0;
      ctx.strokeStyle = colour; ctx.lineWidth = 2; ctx.setLineDash(dash);
      ctx.beginPath(); ctx.moveTo(this.px(low), this.py(low * rate)); ctx.lineTo(this.px(ridge), this.py(machine.gflops)); ctx.lineTo(this.px(10 ** this.x1), this.py(machine.gflops)); ctx.stroke();
      ctx.setLineDash([]);
      const at = 10 ** (this.x0 + 0.12 * (this.x1 - this.x0)), slope = Math.atan2(this.py(at * 10 * rate) - this.py(at * rate), this.px(at * 10) - this.px(at));
      ctx.save(); ctx.translate(this.px(at), this.py(at * rate)); ctx.rotate(slope); ctx.fillStyle = colour; ctx.textAlign = 'left'; ctx.fillText(`${name} ${round(rate)} GB/s`, 0, -9); ctx.restore();
    };
    if (machine.cache_bandwidth > machine.bandwidth) roof(machine.cache_bandwidth, 'cache', palette.faint, [5, 4]);
    roof(machine.bandwidth, 'memory', palette.accent, []);
    ctx.fillStyle = palette.accent; ctx.textAlign = 'right';
    ctx.fillText(`peak ${round(machine.gflops)} GFLOP/s`, width - 28, this.py(machine.gflops) - 10);
    if (machine.tensor) {
      const ridge = this.px(machine.tensor / machine.bandwidth), y = this.py(machine.tensor);
      ctx.strokeStyle = palette.accent; ctx.lineWidth = 2;
      ctx.beginPath(); ctx.moveTo(this.px(machine.gflops / machine.bandwidth), this.py(machine.gflops)); ctx.lineTo(ridge, y); ctx.lineTo(this.px(10 ** this.x1), y); ctx.stroke();
      ctx.fillText(`tensor cores ${round(machine.tensor)} GFLOP/s`, width - 28, y - 10);
    }
    for (const step of [...this.points].sort((a, b) => b.ns - a.ns)) {
      ctx.beginPath(); ctx.arc(this.px(step.intensity), this.py(Math.max(step.gflops, 10 ** this.y0)), this.radius(step), 0, 7);
      ctx.fillStyle = colourOf(step.colour); ctx.globalAlpha = this.over === step ? 0.95 : 0.5; ctx.fill();
      ctx.globalAlpha = 1; ctx.strokeStyle = this.over === step ? palette.text : colourOf(step.colour); ctx.lineWidth = 1.2; ctx.stroke();
    }
    this.drawNames(ctx, width);
    ctx.restore();
  }
  // Beside the points that lose most time, where there is room.
  drawNames(ctx, width) {
    const taken = [];
    ctx.font = '600 11px system-ui, "Liberation Sans", sans-serif';
    for (const step of this.named) {
      const name = fitted(ctx, step.name, 190), w = ctx.measureText(name).width, x = this.px(step.intensity), y = this.py(step.gflops), r = this.radius(step) + 6;
      const left = x + r + w > width - 30, box = {x: left ? x - r - w : x + r, y: y - 7, w, h: 14};
      if (taken.some(t => box.x < t.x + t.w + 4 && t.x < box.x + box.w + 4 && box.y < t.y + t.h && t.y < box.y + box.h)) continue;
      taken.push(box);
      ctx.textAlign = 'left';
      ctx.lineWidth = 3; ctx.strokeStyle = palette.panel; ctx.strokeText(name, box.x, y);
      ctx.fillStyle = palette.text; ctx.fillText(name, box.x, y);
    }
  }
}
