// Derived data that the views need, computed once per graph.
const PEAK_SHARE = 0.5;  // launches above half of their limit are not listed

function prepareReport(report) {
  report.graphs.forEach(graph => prepareGraph(graph, report.machine));
  return report;
}

function prepareGraph(graph, machine) {
  graph.machine = machine;
  graph.onDevice = (graph.target || '').startsWith('cuda');
  graph.limits = limitsOf(graph, machine);
  graph.hasNodes = graph.nodes.length > 0;  // not of a model file: its units have none either
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
  takeLimits(graph);
  for (const unit of graph.units) {
    unit.ns = unit.steps.reduce((sum, s) => sum + graph.steps[s].ns, 0);
    const call = unit.steps.map(s => graph.steps[s]).find(step => step.kind === 'call');
    unit.label = call ? call.name : unit.label || unit.kind;
    unit.shownKind = call ? 'call' : unit.kind;
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

// What launches are compared with: of the GPU that runs the graph, else of the host. `known` is
// false for a device that says nothing of itself.
function limitsOf(graph, machine) {
  const device = graph.device;
  if (!graph.onDevice) return {...machine, known: machine.gflops > 0 && machine.bandwidth > 0, where: `${machine.name}, ${many(machine.threads, 'thread')}`, how: 'measured when the report was written'};
  if (!device || !(device.gflops > 0) || !(device.bandwidth > 0)) return {known: false, where: device && device.name || 'GPU', how: ''};
  return {known: true, gflops: device.gflops, tensor: device.tensor_gflops, bandwidth: device.bandwidth, cache_bandwidth: 0, where: `${device.name}, ${many(device.multiprocessors, 'multiprocessor')}`,
    how: 'memory: measured by copies; arithmetic: from its clock and number of cores'};
}
const peakOf = (graph, step) => graph.limits.tensor && step.code >= 0 && graph.codes[step.code].tensor_cores ? graph.limits.tensor : graph.limits.gflops;

// The shortest time that the machine's limits allow, and what is lost against it. A launch counts
// with the shortest time that it took in any traced call: in the others something interrupted it.
const kShortInterruption = 20000;

function takeLimits(graph) {
  const limits = graph.limits;
  for (const step of graph.steps) {
    if (!step.ns) continue;
    step.best = Math.min(step.ns, step.least || step.ns);
    step.delayed = step.ns > 1.5 * step.best && step.ns - step.best > kShortInterruption ? step.ns - step.best : 0;
    if (step.flops === undefined) continue;
    const moved = step.read + step.written;
    step.gflops = step.flops / step.best;
    step.gbs = moved / step.best;
    step.intensity = moved > 0 ? step.flops / moved : Infinity;
    if (!limits.known) continue;
    const cached = limits.cache_bandwidth > limits.bandwidth && moved > 0 && moved / limits.threads < 512 * 1024;
    step.byMemory = moved / (cached ? limits.cache_bandwidth : limits.bandwidth);  // GB/s: bytes for each nanosecond
    step.byCompute = step.flops / peakOf(graph, step);
    step.ideal = Math.max(step.byMemory, step.byCompute);
    step.share = step.ideal / step.best;
    step.lost = Math.max(0, step.best - step.ideal);
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
    if (!rows.has(key)) rows.set(key, {name: step.name, kind: step.kind, colour: step.colour, steps: [], ns: 0, best: 0, delayed: 0, lost: 0, ideal: 0, flops: 0, moved: 0, workers: 0, code});
    const row = rows.get(key);
    row.steps.push(step);
    row.ns += step.ns;
    row.best += step.best;
    row.delayed += step.delayed;
    row.lost += step.lost || 0;
    row.ideal += step.ideal || 0;
    row.flops += step.flops || 0;
    row.moved += (step.read || 0) + (step.written || 0);
    row.workers = Math.max(row.workers, step.workers);
  }
  return [...rows.values()];
}

// What a launch lacks, in words; nothing if it reaches half of its limit.
function adviceFor(graph, row) {
  const n = row.steps.length, each = row.best / n, first = row.steps[0], reaches = row.ideal / row.best;
  if (row.lost < 0.01 * graph.ns || row.lost < 2000 || reaches > PEAK_SHARE) return null;
  const rate = first.byMemory >= first.byCompute ? `Limited by memory: reaches ${round(row.moved / row.best)} of ${round(row.moved / row.ideal)} GB/s` :
    `Limited by arithmetic: reaches ${round(row.flops / row.best)} of ${round(peakOf(graph, first))} GFLOP/s`;
  const words = [`${rate} (${percent(reaches)}); possible: ${time(row.ideal / n)} instead of ${time(each)}.`];
  words.push(fewPoints(graph, row, each));
  if (row.colour === 'copy') words.push('It only moves data into another layout.');
  const unit = first.unit >= 0 ? graph.units[first.unit] : null;
  const why = unit && unit.nodes.flatMap(node => graph.separateOf.get(node) || [])[0];
  if (why) words.push('Why it is not fused: ' + why.reason + '.');
  if (first.at) words.push(`Your line: ${shortPlace(first.at)}.`);
  return {lost: row.lost, title: timesName(row), step: first, words: words.filter(Boolean).join(' ')};
}
// Why a launch cannot use the whole machine.
function fewPoints(graph, row, each) {
  const first = row.steps[0], {threads} = graph.machine, processors = graph.device && graph.device.multiprocessors;
  if (first.ordered) return 'It runs on one worker, in order, because several of its stores may write one element.';
  if (graph.onDevice) return first.grid < processors ? `Its grid has ${many(first.grid, 'block')} for ${many(processors, 'multiprocessor')}: a larger batch or fewer, larger kernels would help.` : each < 5000 ? 'It is about as short as a launch can be: fusing it with a neighbour would help.' : '';
  if (row.workers !== 1 || threads < 2) return '';
  return each < 20000 ? 'It is too small to be divided among threads: fusing it with a neighbour or a larger batch would help.' : `It runs on one of ${threads} threads: its grid has too few points.`;
}
const timesName = row => (row.steps.length > 1 ? `${row.steps.length} × ` : '') + row.name;

function whatWouldHelp(graph) {
  const advice = [], rows = kindsOfLaunches(graph);
  for (const row of rows) {
    const first = row.steps[0];
    const found = row.kind !== 'call' ? adviceFor(graph, row) : {lost: row.ns, title: timesName(row), step: first, words: `Runs through PyTorch and takes ${time(row.ns)}.${first.at ? ` Your line: ${shortPlace(first.at)}.` : ''} Ops that gex knows run inside the program; the Decisions tab says why this one does not.`};
    if (found) advice.push(found);
  }
  const idle = idleOf(graph), delayed = rows.filter(row => row.kind !== 'call').reduce((sum, row) => sum + row.delayed, 0);
  if (graph.timeline && idle > 0.05 * graph.ns)
    advice.push({lost: idle, title: 'Nothing runs', step: null, tab: 'timeline', words: `For ${time(idle)} of ${time(graph.ns)} no launch runs: the call itself (checks, memory of the results) and the gaps between launches. Fewer, larger launches make that smaller.`});
  if (delayed > 0.05 * graph.ns)
    advice.push({lost: delayed, title: 'Interruptions', step: null, tab: 'timeline', words: `Launches took ${time(delayed)} longer in this call than in the calls where each was fastest: other work on the machine interrupted them. All other figures here are of their fastest runs. Measure again on an idle machine.`});
  const memory = graph.memory;
  if (memory.why) advice.push({lost: 0, title: `${bytes(memory.total - memory.lower_bound)} of memory above the lower bound`, tab: 'memory', words: memory.why + '.'});
  return advice.sort((a, b) => b.lost - a.lost);
}

// One call in one or two sentences.
function inShort(graph) {
  if (!graph.timeline) return 'No call was traced: give arguments to gex.report, or call the function inside the block, to see where the time goes.';
  const rows = kindsOfLaunches(graph).sort((a, b) => b.ns - a.ns), steps = graph.steps.filter(s => s.ns), last = rows[0];
  const kinds = [many(steps.filter(s => s.kind === 'launch').length, 'launch')], calls = steps.filter(s => s.kind === 'call').length;
  if (calls) kinds.push(`${many(calls, 'call')} through PyTorch`);
  const ideal = steps.reduce((sum, s) => sum + (s.ideal || 0), 0), compared = steps.reduce((sum, s) => sum + (s.ideal ? s.best : 0), 0);
  const words = [`A call takes ${time(graph.ns)}: ${kinds.join(' and ')}${graph.hasNodes ? ` from ${many(graph.nodes.length, 'node')}` : ''}.`];
  if (last) words.push(`${percent(last.ns / graph.ns)} of it goes to ${timesName(last).replace(/\.+$/, '…')}.`);
  if (compared > 0.05 * graph.ns) words.push(`At the limits of this ${graph.onDevice ? 'GPU' : 'machine'} the launches would need ${time(ideal)} instead of ${time(compared)}.`);
  return words.join(' ');
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

// What a reason of "not fused" means and whether anything can be done about it.
const kReasons = [
  [/reduction over the rows does not fit/, 'A norm or softmax needs whole rows, but a matmul finishes one tile at a time: the values go through memory once. This is the usual boundary between the two; nothing needs to be done.'],
  [/two contractions/, 'Each matmul, convolution or attention is a launch of its own.'],
  [/takes no consumers|through PyTorch/, 'An op that runs through PyTorch cannot be part of a kernel. Replace it by ops that gex knows (gex ops lists them).'],
  [/recomputed/, 'Fusing would repeat its work for each reader: one round trip through memory is cheaper.'],
  [/too many operators|reads too many tensors|many parts/, 'Kernels have a limit of size, beyond which they spill registers.'],
  [/needed in memory/, 'Another step reads these values from memory, so they are stored in any case.'],
  [/different axes/, 'One kernel works on one row at a time, and these two reduce different axes of the same values.'],
  [/different rows/, 'One kernel works on one row at a time, and the rows of these two differ: a transpose or reshape between them may be the cause.'],
  [/depends on the first and feeds the second/, 'Another step must run between the two.'],
  [/shape that the loops do not cover|more than one loop/, 'The loops of the one kernel do not visit the elements of the other.'],
  [/cover different elements|in a different order/, 'A product or convolution hands its own results over in the order in which it computes them; here they are joined with others or read in another order.'],
  [/local memory/, 'A whole row does not fit into the memory of one worker: shorter rows or a smaller type would fit.'],
  [/different numbers of cores/, 'Your limits of cores differ between the two.'],
  [/reads it from memory|reads nothing from memory/, 'This op takes its operand from memory only.'],
  [/whole batch|across its rows/, 'It needs elements of other rows than the one it computes.'],
];
const meaningOf = reason => (kReasons.find(([pattern]) => pattern.test(reason)) || [null, ''])[1];
