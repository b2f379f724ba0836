// Derived data that the views need, computed once per graph.
const PEAK_SHARE = 0.5;  // launches above half of their limit are not listed

function prepareReport(report) {
  report.graphs.forEach(graph => prepareGraph(graph, report.machine));
  return report;
}

function prepareGraph(graph, machine) {
  graph.machine = machine;
  graph.onDevice = (graph.target || '').startsWith('cuda');  // the measured limits are the host's
  graph.nodes.forEach((node, id) => { node.id = id; node.steps = []; });
  graph.units.forEach((unit, id) => { unit.id = id; unit.ns = 0; });
  graph.steps.forEach((step, id) => Object.assign(step, {id, ns: 0, busy: 0, begin: Infinity, end: -Infinity, workers: 0}));
  graph.kindOf = step => step.kind === 'launch' ? (step.unit >= 0 ? graph.units[step.unit].kind : 'copy') : step.kind === 'call' ? 'call' :
    step.kind === 'copy' || step.kind === 'fill' ? 'copy' : 'step';
  for (const step of graph.steps) {
    if (step.kind === 'launch' && step.name === 'copy') step.kind2 = 'copy';
    step.colour = step.kind2 || graph.kindOf(step);
  }
  takeTimes(graph);
  takeLimits(graph, machine);
  for (const unit of graph.units) {
    unit.ns = unit.steps.reduce((sum, s) => sum + graph.steps[s].ns, 0);
    for (const node of unit.nodes) if (node >= 0) graph.nodes[node].steps.push(...unit.steps);
  }
  graph.ns = graph.timeline ? graph.timeline.ns : 0;
  takeCriticalPath(graph);
  graph.separateOf = new Map();
  for (const item of graph.separate)
    for (const [node, other] of [[item.node, item.other], [item.other, item.node]]) {
      if (node < 0) continue;
      if (!graph.separateOf.has(node)) graph.separateOf.set(node, []);
      graph.separateOf.get(node).push({other, reason: item.reason});
    }
}

function takeTimes(graph) {
  const workers = new Map();
  for (const [s, worker, begin, end] of graph.timeline ? graph.timeline.events : []) {
    if (s < 0) continue;
    const step = graph.steps[s];
    step.begin = Math.min(step.begin, begin);
    step.end = Math.max(step.end, end);
    step.busy += end - begin;
    if (!workers.has(s)) workers.set(s, new Set());
    workers.get(s).add(worker);
  }
  for (const step of graph.steps) {
    step.workers = workers.has(step.id) ? workers.get(step.id).size : 0;
    step.ns = step.end > step.begin ? step.end - step.begin : 0;
  }
}

// The shortest time that the machine's limits allow, and what is lost against it.
function takeLimits(graph, machine) {
  for (const step of graph.steps) {
    if (step.flops === undefined || !step.ns) continue;
    const moved = step.read + step.written;
    step.gflops = step.flops / step.ns;
    step.gbs = moved / step.ns;
    if (graph.onDevice) continue;
    const roof = moved > 0 && moved / machine.threads < 512 * 1024 && machine.cache_bandwidth > machine.bandwidth ?
      machine.cache_bandwidth : machine.bandwidth;
    step.byMemory = moved / roof;             // GB/s: bytes for each nanosecond
    step.byCompute = step.flops / machine.gflops;
    step.ideal = Math.max(step.byMemory, step.byCompute);
    step.share = step.ideal / step.ns;
    step.lost = Math.max(0, step.ns - step.ideal);
    step.intensity = moved > 0 ? step.flops / moved : Infinity;
  }
}

// Walks backwards from the step that ends last, each time to the latest step it had to wait for.
function takeCriticalPath(graph) {
  const root = id => graph.buffers[id].root === undefined ? id : graph.buffers[id].root;
  const writer = new Map(), readers = new Map(), lastOf = new Map();
  for (const step of graph.steps) {
    const before = new Set();
    for (const id of step.reads) if (writer.has(root(id))) before.add(writer.get(root(id)));
    for (const id of step.writes) {
      if (writer.has(root(id))) before.add(writer.get(root(id)));
      for (const r of readers.get(root(id)) || []) before.add(r);
    }
    const stream = step.segment + ':' + (step.stream || 0);
    if (lastOf.has(stream)) before.add(lastOf.get(stream));
    lastOf.set(stream, step.id);
    before.delete(step.id);
    step.before = [...before];
    for (const id of step.reads) {
      if (!readers.has(root(id))) readers.set(root(id), []);
      readers.get(root(id)).push(step.id);
    }
    for (const id of step.writes) { writer.set(root(id), step.id); readers.set(root(id), []); }
  }
  let at = null;
  for (const step of graph.steps) if (step.ns && (!at || step.end > at.end)) at = step;
  while (at) {
    at.critical = true;
    const now = at;
    at = null;
    for (const b of now.before) {
      const step = graph.steps[b];
      if (step.ns && !step.critical && (!at || step.end > at.end)) at = step;
    }
  }
}

const idleOf = graph => {
  const spans = graph.steps.filter(s => s.ns).map(s => [s.begin, s.end]).sort((a, b) => a[0] - b[0]);
  let idle = 0, until = 0;
  for (const [begin, end] of spans) { if (begin > until) idle += begin - until; until = Math.max(until, end); }
  return idle + Math.max(0, graph.ns - until);
};

// Launches with the same name and problem as one row, sorted by lost time.
function kindsOfLaunches(graph) {
  const rows = new Map();
  for (const step of graph.steps) {
    if (!step.ns) continue;
    const code = step.code >= 0 ? graph.codes[step.code] : null;
    const key = step.kind + '|' + step.name + '|' + (code && code.problem || '') + '|' + step.flops;
    if (!rows.has(key)) rows.set(key, {name: step.name, kind: step.kind, colour: step.colour, steps: [], ns: 0, lost: 0, ideal: 0, flops: 0, moved: 0, workers: 0, code});
    const row = rows.get(key);
    row.steps.push(step);
    row.ns += step.ns;
    row.lost += step.lost || 0;
    row.ideal += step.ideal || 0;
    row.flops += step.flops || 0;
    row.moved += (step.read || 0) + (step.written || 0);
    row.workers = Math.max(row.workers, step.workers);
  }
  return [...rows.values()];
}

function whatWouldHelp(graph) {
  const machine = graph.machine, advice = [];
  for (const row of kindsOfLaunches(graph)) {
    const n = row.steps.length, each = row.ns / n, first = row.steps[0];
    const title = (n > 1 ? `${n} × ` : '') + row.name;
    if (row.kind === 'call') {
      advice.push({lost: row.ns, title, step: first, words: `Runs through PyTorch and takes ${time(row.ns)}.${first.at ? ` Your line: ${shortPlace(first.at)}.` : ''} Ops that gex knows run inside the program; the Decisions tab says why this one does not.`});
      continue;
    }
    if (row.lost < 0.01 * graph.ns || row.lost < 2000) continue;
    const reaches = row.ideal / row.ns, words = [];
    if (reaches > PEAK_SHARE) continue;
    const memoryBound = first.byMemory >= first.byCompute;
    words.push(memoryBound ? `Limited by memory: reaches ${round(row.moved / row.ns)} of ${round(row.moved / row.ideal)} GB/s` :
      `Limited by arithmetic: reaches ${round(row.flops / row.ns)} of ${round(machine.gflops)} GFLOP/s`);
    words[0] += ` (${percent(reaches)}); possible: ${time(row.ideal / n)} instead of ${time(each)}.`;
    if (first.ordered) words.push('It runs on one worker, in order, because several of its stores may write one element.');
    else if (row.workers === 1 && machine.threads > 1) words.push(each < 20000 ? 'It is too small to be divided among threads: fusing it with a neighbour or a larger batch would help.' : `It runs on one of ${machine.threads} threads: its grid has too few points.`);
    if (row.colour === 'copy') words.push('It only moves data into another layout.');
    const unit = first.unit >= 0 ? graph.units[first.unit] : null;
    const why = unit && unit.nodes.flatMap(node => graph.separateOf.get(node) || [])[0];
    if (why) words.push('Why it is not fused: ' + why.reason + '.');
    advice.push({lost: row.lost, title, step: first, words: words.join(' ')});
  }
  const idle = idleOf(graph);
  if (graph.timeline && idle > 0.05 * graph.ns)
    advice.push({lost: idle, title: 'Nothing runs', step: null, tab: 'timeline', words: `For ${time(idle)} of ${time(graph.ns)} no launch runs: the call itself (checks, memory of the results) and the gaps between launches. Fewer, larger launches make that smaller.`});
  const memory = graph.memory;
  if (memory.why) advice.push({lost: 0, title: `${bytes(memory.total - memory.lower_bound)} of memory above the lower bound`, tab: 'memory', words: memory.why + '.'});
  return advice.sort((a, b) => b.lost - a.lost);
}

const median = list => { const sorted = [...list].sort((a, b) => a - b); return sorted[sorted.length >> 1] || 0; };

// The last folder and the file are enough to identify a line.
const shortPlace = at => (at || '').replace(/^\/(?:[^/:]+\/)*([^/:]+\/[^/:]+:\d)/, '…/$1');

// Where a node belongs, outermost first: the module path, or the user's lines.
function pathOf(at) {
  if (!at) return [];
  const module = / of ([\w.]+)(?:\(.*)?$/.exec(at);  // a pass may have added its name in brackets
  if (module) return module[1].replace(/\.(\d+)(?=\.|$)/g, '\u0000$1').split('.').map(part => part.replaceAll('\u0000', '.'));
  const line = /^(.*?):(\d+)(?: in ([^\s(]+).*)?$/.exec(at);
  if (line) return Object.assign([(line[3] && line[3] !== '<module>' ? line[3] + ' · ' : '') + line[1].split('/').pop()], {isLine: true});
  return at.split('/').filter(Boolean).slice(0, -1);
}
