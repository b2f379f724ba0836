// Overview, decisions and comparison.
const kPhases = {read: 'reading the file', model: 'loading the model file', dynamo: 'Dynamo', aot: 'AOTAutograd', import: 'import', passes: 'passes', fuse: 'fusion and lowering', save: 'saving to the cache', load: 'loading from the cache', frozen: 'frozen weights', code: 'code generation', plan: 'plan and captures', session: 'session', run: 'first run'};

function stacked(parts, textOf) {
  const total = parts.reduce((s, p) => s + p[1], 0) || 1;
  return el('div', {}, el('div', {class: 'stack'}, parts.map(([name, value, colour], k) => el('i', {style: `width:${100 * value / total}%;background:${colour || kMany[k % kMany.length]}`, title: `${name}: ${textOf(value)}`}))),
    el('div', {class: 'legend'}, parts.map(([name, value, colour], k) => el('span', {}, el('span', {class: 'dot', style: `background:${colour || kMany[k % kMany.length]}`}), name, ' ', el('b', {}, textOf(value)), ` ${percent(value / total)}`))));
}

class OverviewView {
  constructor(parent, graph, app) {
    const report = app.report, memory = graph.memory, help = whatWouldHelp(graph);
    const flops = graph.steps.reduce((s, x) => s + (x.ns ? x.flops || 0 : 0), 0), busy = graph.steps.reduce((s, x) => s + x.ns, 0);
    const byKind = new Map();
    for (const step of graph.steps) if (step.ns) byKind.set(step.colour, (byKind.get(step.colour) || 0) + step.ns);
    const parts = [...byKind].sort((a, b) => b[1] - a[1]).map(([kind, ns]) => [kKindWords[kind] || kind, ns, colourOf(kind)]);
    if (graph.timeline) parts.push(['nothing runs', idleOf(graph), palette.line]);
    const calls = graph.timeline ? graph.timeline.calls : [], fallbacks = ((report.extra.graphs || {})[graph.name] || {}).calls || [];
    parent.append(el('div', {class: 'page'},
      el('p', {class: 'lead'}, inShort(graph)),
      el('div', {class: 'cards'},
        graph.timeline ? card(time(graph.ns), 'fastest call', `median ${time(median(calls))} of ${calls.length}`) : null,
        card(count(graph.steps.filter(s => s.kind === 'launch').length), 'launches', graph.hasNodes ? `from ${count(graph.nodes.length)} nodes` : 'of a model file'),
        graph.timeline ? card([round(flops / graph.ns), el('small', {}, 'GFLOP/s')], 'arithmetic, over the call', graph.limits.known ? `${percent(flops / graph.ns / graph.limits.gflops)} of the peak of ${round(graph.limits.gflops)}` : '') : null,
        card(bytes(memory.total), 'memory for temporaries', `lower bound ${bytes(memory.lower_bound)}`),
        card(bytes((memory.outside.constant || 0) + (memory.outside.input || 0)), 'inputs and weights', 'outside of the arena'),
        fallbacks.length ? card(String(fallbacks.length), 'ops through PyTorch', 'Decisions says why') : null,
        report.first_call.length ? card(time(1e9 * report.first_call.reduce((s, p) => s + p[1], 0)), 'first call', 'compiling included') : null),
      el('div', {class: 'cols', style: 'margin-top:18px'},
        el('div', {class: 'panel'}, el('h2', {}, 'What would help', el('small', {}, `time lost against the limits of this ${graph.onDevice ? 'GPU' : 'machine'}; click for details`)),
          help.length ? help.slice(0, 9).map(item => el('div', {class: 'help', onclick: () => item.step ? app.goTo({step: item.step.id}) : item.tab && app.open(item.tab)},
            el('div', {class: 'lost'}, item.lost ? time(item.lost) : '', item.lost ? el('small', {}, percent(item.lost / graph.ns)) : null), el('div', {}, el('div', {class: 't'}, item.title), el('div', {class: 'w'}, item.words)))) :
            el('p', {class: 'note'}, !graph.timeline ? 'Nothing was timed.' : !graph.limits.known ? 'The limits of this device are not known: the launches that take longest are in the timeline.' : 'Nothing stands out: every launch that matters reaches half of its limit or more.')),
        el('div', {}, el('div', {class: 'panel'}, el('h2', {}, 'Where the time of a call goes'), graph.timeline ? stacked(parts, time) : el('p', {class: 'note'}, 'No call was traced.')),
          report.first_call.length ? el('div', {class: 'panel', style: 'margin-top:18px'}, el('h2', {}, 'Where the first call’s time goes'), stacked(report.first_call.filter(p => p[1] > 0).map(([name, s]) => [kPhases[name] || name, s * 1e9]), time)) : null)),
      graph.timeline ? [el('h2', {}, 'Longest launches', el('small', {}, 'equal ones together; click to see one in the graph')), launchTable(graph, app, (a, b) => b.ns - a.ns, 8)] : null,
      el('h2', {}, 'Made with'), el('div', {class: 'panel'}, facts([['machine', `${report.machine.name}, ${report.machine.threads} threads`], ['target', graph.target], ['code', graph.generator], ['gex', report.gex], ['written', report.created.replace('T', ' ').replace('Z', ' UTC')],
            graph.onDevice ? ['device', graph.limits.where] : ['', ''], ['sizes', Object.entries(graph.sizes).map(([k, v]) => `${k} = ${v}`).join(', ')]]))));
  }
}

const table = (heads, rows, right = []) => el('div', {class: 'panel scroll', style: 'padding:4px 8px'}, el('table', {}, el('thead', {}, el('tr', {}, heads.map((h, k) => el('th', {class: right.includes(k) ? 'r' : ''}, h)))),
  el('tbody', {}, rows.map(row => el('tr', row.go ? {class: 'link', onclick: row.go} : {}, (row.cells || row).map((c, k) => el('td', {class: right.includes(k) ? 'r' : ''}, c)))))));

class DecisionsView {
  constructor(parent, graph, app) {
    const page = el('div', {class: 'page'}), add = (title, small, content) => content && page.append(el('h2', {}, title, el('small', {}, small)), content);
    const extra = (app.report.extra.graphs || {})[graph.name] || {};
    if (extra.eager) page.append(el('div', {class: 'why'}, 'Runs through PyTorch as a whole: ' + extra.eager));
    if (extra.recompile) page.append(el('div', {class: 'why'}, 'Compiled again because ' + extra.recompile));
    if (extra.end) page.append(el('div', {class: 'why'}, 'The graph ends at ' + extra.end));
    if (graph.hasNodes) this.addCompile(graph, app, add);
    else page.append(el('p', {class: 'note'}, 'A model file does not store what passes and fusion did: write a report of the model that it was compiled from.'));
    if ((extra.calls || []).length) add('Calls through PyTorch', 'why, and your line', table(['op', 'reason', 'at'], extra.calls.map(c => [el('code', {}, c.op), c.reason, shortPlace(c.at)])));
    if (graph.captures.length) add('Captures', 'one for each set of sizes', table(['sizes', 'calls', 'arena', 'lower bound', 'reason'], graph.captures.map(c => [c.key.length ? c.key.join(', ') : 'fixed', count(c.hits), bytes(c.arena_bytes), bytes(c.lower_bound), [c.reason, c.note ? el('div', {class: 'muted'}, c.note) : null]]), [1, 2, 3]));
    if (graph.tuned.length) add('Kernels chosen by measuring', '', table(['finding'], graph.tuned.map(t => [t])));
    const chosen = candidateRows(graph);
    if (chosen.length) add('Candidates with their costs', 'how products and convolutions could be computed: processor time on one thread, measured when the report was written, for at most a second in all', table(['launch', 'times', 'chosen', 'time', 'others', 'of the fastest'],
      chosen.map(row => ({go: () => app.goTo({step: row.step.id}), cells: [row.name, count(row.times), row.candidates[0][0], time(row.candidates[0][1] * 1e3), row.candidates.slice(1).map(([name, us], k) => [k ? ', ' : '', `${name} `, el('b', {}, time(us * 1e3))]), el('span', {class: row.loss > 1.03 ? 'up' : 'muted'}, round(row.loss, 3))]})), [1, 3, 5]));
    if (chosen.some(row => row.loss > 1.1)) page.append(el('p', {class: 'note'}, 'A choice that takes more than 1.1 of the fastest: the option autotune measures the candidates and uses the fastest.'));
    const problems = graph.codes.filter(c => c.problem);
    if (problems.length) add('Products, convolutions, attention', 'how each is computed', table(['launch', 'problem', 'algorithm', 'attached'], problems.map(c => [c.name, el('code', {}, c.problem), c.algorithm || 'by its sizes', [c.kernel >= 0 ? 'epilogue ' : '', c.prologues.length ? many(c.prologues.length, 'prologue') : '']])));
    if (graph.guards.length) add('Checked for each new set of sizes', '', table(['condition'], graph.guards.map(g => [el('code', {}, g)])));
    const counts = Object.entries(graph.counts).filter(([name]) => !name.startsWith('pass.'));
    if (counts.length) add('Counted', '', table(['what', 'how often'], counts.map(([name, n]) => [name, count(n)]), [1]));
    const remarks = graph.remarks.filter(r => !r.startsWith('not fused:'));
    if (remarks.length) add('Remarks of passes', '', table(['remark'], remarks.map(r => [r])));
    if ((extra.notes || []).length) add('Notes', '', table(['note'], extra.notes.map(n => [n])));
    parent.append(page);
  }

  addCompile(graph, app, add) {
    add('Passes', 'nodes before and after; passes that ran several times together', passTable(graph));
    const reasons = separateReasons(graph);
    add('Not fused, and why', `${many(graph.separate.length, 'pair')} of neighbours that are two launches`, reasons.length ? table(['times', 'reason', 'what it means', 'first'], reasons.map(({reason, items}) => ({go: () => app.goTo({node: Math.max(items[0].node, items[0].other)}), cells: [count(items.length), reason, el('span', {class: 'soft'}, meaningOf(reason)), nodeText(graph, items[0].node)]})), [0]) : el('p', {class: 'note'}, 'Everything that can be fused was fused.'));
  }
}

// One row for launches with equal candidates, those that lose most time first.
function candidateRows(graph) {
  const rows = new Map();
  for (const step of graph.steps.filter(s => s.candidates)) {
    const key = step.name + JSON.stringify(step.candidates), fastest = Math.min(...step.candidates.map(c => c[1]));
    if (!rows.has(key)) rows.set(key, {name: step.name, step, times: 0, candidates: step.candidates, loss: step.candidates[0][1] / fastest, lost: step.candidates[0][1] - fastest});
    rows.get(key).times++;
  }
  return [...rows.values()].sort((a, b) => b.lost * b.times - a.lost * a.times);
}
const nodeText = (graph, id) => id >= 0 && graph.nodes[id] ? graph.nodes[id].op + (graph.nodes[id].at ? ' at ' + shortPlace(graph.nodes[id].at) : '') : '';

function passTable(graph) {
  const rows = new Map();
  for (const run of graph.passes) {
    if (!rows.has(run.name)) rows.set(run.name, {name: run.name, runs: 0, count: 0, delta: 0, seconds: 0, before: run.before});
    const row = rows.get(run.name);
    row.runs++; row.count += run.count; row.delta += run.after - run.before; row.seconds += run.seconds; row.after = run.after;
  }
  if (!graph.passes.length) return el('p', {class: 'note'}, 'The program came from the cache, which does not store what the passes did.');
  const most = Math.max(1, ...graph.passes.map(p => Math.max(p.before, p.after)));
  const points = [graph.passes[0].before, ...graph.passes.map(p => p.after)];
  const W = 1200, H = 84, line = points.map((n, k) => `${k ? 'L' : 'M'}${(k / Math.max(1, points.length - 1) * W).toFixed(1)},${(H - 4 - n / most * (H - 12)).toFixed(1)}`).join('');
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', `0 0 ${W} ${H}`); svg.setAttribute('preserveAspectRatio', 'none'); svg.style.cssText = 'width:100%;height:84px;display:block';
  svg.innerHTML = `<path d="${line}L${W},${H}L0,${H}Z" fill="var(--accent-soft)"/><path d="${line}" fill="none" stroke="var(--accent)" stroke-width="2" vector-effect="non-scaling-stroke"/>`;
  const effective = [...rows.values()].filter(r => r.count || r.delta).sort((a, b) => b.seconds - a.seconds);
  const idle = [...rows.values()].filter(r => !r.count && !r.delta), sum = key => idle.reduce((s, r) => s + r[key], 0);
  const together = idle.length ? [{name: el('span', {class: 'muted', title: idle.map(r => r.name).join(', ')}, `${idle.length} passes changed nothing`), runs: sum('runs'), count: 0, delta: 0, seconds: sum('seconds')}] : [];
  return el('div', {}, el('div', {class: 'panel', style: 'padding:10px 14px;margin-bottom:12px'}, el('div', {class: 'muted', style: 'font-size:12px'}, `nodes over ${graph.passes.length} runs of passes: ${count(points[0])} → ${count(points[points.length - 1])}`), svg),
    table(['pass', 'runs', 'changes', 'nodes', 'time'], [...effective, ...together].map(r => [r.name, count(r.runs), r.count ? count(r.count) : el('span', {class: 'muted'}, '–'),
      r.delta ? el('span', {class: r.delta < 0 ? 'down' : ''}, (r.delta > 0 ? '+' : '') + count(r.delta)) : el('span', {class: 'muted'}, '±0'), time(r.seconds * 1e9)]), [1, 2, 3, 4]));
}

class CompareView {
  constructor(parent, _, app) {
    const [a, b] = app.reports, page = el('div', {class: 'page'});
    page.append(el('h2', {}, 'Before and after', el('small', {}, `${a.title} (${a.created.slice(0, 16).replace('T', ' ')}) → ${b.title} (${b.created.slice(0, 16).replace('T', ' ')})`)));
    const pairs = matched(a.graphs, b.graphs);
    for (const [left, right] of pairs) {
      if (pairs.length > 1) page.append(el('h2', {}, left.name));
      page.append(compareFigures(left, right, a, b), el('h2', {}, 'Launches', el('small', {}, 'sorted by change of time; each launch counts with its fastest run')), compareLaunches(left, right), ...compareDecisions(left, right));
    }
    const alone = [...a.graphs.filter(g => !pairs.some(p => p[0] === g)).map(g => 'only before: ' + g.name), ...b.graphs.filter(g => !pairs.some(p => p[1] === g)).map(g => 'only after: ' + g.name)];
    if (alone.length) page.append(el('p', {class: 'note'}, alone.join('; ')));
    parent.append(page);
  }
}
function matched(left, right) {
  const pairs = [], rest = [...right];
  for (const graph of left) {
    const at = rest.findIndex(g => g.name === graph.name);
    if (at >= 0) pairs.push([graph, rest.splice(at, 1)[0]]);
  }
  return pairs.length || !left.length || !rest.length ? pairs : [[left[0], rest[0]]];
}
const change = (before, after, worse = 1) => {
  if (before === after) return el('span', {class: 'muted'}, 'same');
  if (!before) return el('span', {class: worse > 0 ? 'up' : 'down'}, 'new');
  const by = after / before - 1;
  return el('span', {class: Math.abs(by) < 0.02 ? 'muted' : by * worse > 0 ? 'up' : 'down'}, `${by > 0 ? '+' : '−'}${round(Math.abs(by) * 100, 3)} %`);
};
function compareFigures(left, right, a, b) {
  const sum = (graph, f) => graph.steps.reduce((s, x) => s + (f(x) || 0), 0), seconds = r => r.first_call.reduce((s, p) => s + p[1], 0) * 1e9;
  const all = [['fastest call', left.ns, right.ns, time], ['median call', left.timeline ? median(left.timeline.calls) : 0, right.timeline ? median(right.timeline.calls) : 0, time], ['time inside launches', sum(left, s => s.best), sum(right, s => s.best), time],
    ['launches', left.steps.filter(s => s.kind === 'launch').length, right.steps.filter(s => s.kind === 'launch').length, count], ['nodes', left.nodes.length, right.nodes.length, count], ['distinct kernels', left.codes.length, right.codes.length, count],
    ['bytes moved', sum(left, s => s.read + s.written), sum(right, s => s.read + s.written), bytes], ['arena', left.memory.total, right.memory.total, bytes], ['lower bound', left.memory.lower_bound, right.memory.lower_bound, bytes], ['pairs not fused', left.separate.length, right.separate.length, count], ['first call', seconds(a), seconds(b), time]];
  const rows = all.filter(([, x, y]) => x || y);
  return table(['', 'before', 'after', 'change'], rows.map(([name, x, y, text]) => [name, text(x), text(y), change(x, y)]), [1, 2, 3]);
}
function compareLaunches(left, right) {
  const rows = new Map();
  for (const [side, graph] of [[0, left], [1, right]]) for (const row of kindsOfLaunches(graph)) {
    if (!rows.has(row.name)) rows.set(row.name, {name: row.name, colour: row.colour, n: [0, 0], ns: [0, 0]});
    const entry = rows.get(row.name);
    entry.n[side] += row.steps.length; entry.ns[side] += row.best;
  }
  const list = [...rows.values()].sort((a, b) => Math.abs(b.ns[1] - b.ns[0]) - Math.abs(a.ns[1] - a.ns[0])), most = Math.max(1, ...list.flatMap(r => r.ns));
  const bar = (ns, colour) => el('div', {class: 'bar', style: 'margin:2px 0'}, el('i', {style: `width:${100 * ns / most}%;background:${colour}`}));
  return table(['launch', '', 'times', 'before', 'after', 'difference', ''], list.slice(0, 120).map(r => [[el('span', {class: 'dot', style: `background:${colourOf(r.colour)}`}), r.name], el('div', {style: 'width:150px'}, bar(r.ns[0], palette.faint), bar(r.ns[1], colourOf(r.colour))),
    r.n[0] === r.n[1] ? count(r.n[0]) : `${r.n[0]} → ${r.n[1]}`, r.n[0] ? time(r.ns[0]) : '–', r.n[1] ? time(r.ns[1]) : '–', el('span', {class: r.ns[1] > r.ns[0] ? 'up' : 'down'}, (r.ns[1] > r.ns[0] ? '+' : '−') + time(Math.abs(r.ns[1] - r.ns[0]))), change(r.ns[0], r.ns[1])]), [2, 3, 4, 5, 6]);
}
function compareDecisions(left, right) {
  const names = [...new Set([...Object.keys(left.counts), ...Object.keys(right.counts)])].filter(n => left.counts[n] !== right.counts[n]);
  const reasons = graph => new Map(separateReasons(graph).map(r => [r.reason, r.items.length])), x = reasons(left), y = reasons(right);
  const changed = [...new Set([...x.keys(), ...y.keys()])].filter(r => x.get(r) !== y.get(r));
  return [el('h2', {}, 'Decisions that changed'), names.length || changed.length ? table(['what', 'before', 'after'], [...names.map(n => [n, count(left.counts[n] || 0), count(right.counts[n] || 0)]), ...changed.map(r => ['not fused: ' + r, count(x.get(r) || 0), count(y.get(r) || 0)])], [1, 2]) : el('p', {class: 'note'}, 'None: the passes made the same changes.')];
}
