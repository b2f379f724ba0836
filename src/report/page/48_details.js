// The panel beside the graph: details of one node, kernel or step, with links to the other levels.
const chip = (text, go, title) => el('span', {class: 'chip', onclick: go, title: title || text}, text);
const chips = (refs, textOf, go) => refs.slice(0, 40).map(ref => chip(textOf(ref), () => go(ref))).concat(refs.length > 40 ? [el('span', {class: 'muted'}, ` and ${refs.length - 40} more`)] : []);
const section = (title, ...content) => content.flat().filter(Boolean).length ? [el('h4', {}, title), ...content.flat().filter(Boolean)] : [];
const facts = pairs => el('div', {class: 'kv'}, pairs.filter(([, v]) => v !== undefined && v !== null && v !== '').map(([k, v]) => [el('span', {}, k), el('span', {}, v)]));

function overviewOfGraph(graph, view) {
  const kinds = Object.entries(kKindWords).filter(([kind]) => view.items.some(item => item.kind === kind));
  return [el('h3', {}, graph.name), el('div', {class: 'sub'}, graph.hasNodes ? `${count(graph.nodes.length)} nodes → ${count(graph.units.filter(u => u.steps.length).length)} kernels → ${count(graph.steps.length)} steps` : many(graph.steps.length, 'step')),
    el('div', {class: 'note'}, `${graph.hasNodes ? 'Click a node for its shapes, your source line, its kernel code and why its neighbours were not fused with it. Click a group to open it.' : 'A model file has a program, but no graph. Click a step for its buffers and its kernel code.'} Scroll to zoom, drag to move.`),
    ...section('Colours', el('div', {class: 'legend', style: 'flex-direction:column'}, kinds.map(([kind, words]) => el('span', {}, el('span', {class: 'dot', style: `background:${colourOf(kind)}`}), words)))),
    ...section('Longest kernels', [...graph.units].filter(u => u.ns).sort((a, b) => b.ns - a.ns).slice(0, 12).map(unit =>
      el('div', {class: 'help', style: 'padding:5px 0', onclick: () => view.show({unit: unit.id})}, el('span', {class: 'lost', style: 'color:inherit;flex-basis:64px'}, time(unit.ns)), el('span', {class: 't', style: 'font-weight:500'}, unit.label)))),
    ...section('Not fused', separateReasons(graph).slice(0, 8).map(({reason, items}) => el('div', {class: 'why'}, el('b', {}, `${items.length} × `), reason, '. ', el('span', {class: 'soft'}, meaningOf(reason)), ' ',
      chip('show', () => view.show({node: items[0].node >= 0 ? items[0].node : items[0].other})))))];
}

// "not fused with add+mul: why": grouped by the part behind the colon.
function separateReasons(graph) {
  const rows = new Map();
  for (const item of graph.separate) {
    const reason = item.reason.replace(/^not fused with [^:]*: /, '').replace(/^(operand \d+) is not computed by a prologue but by [^:]*: /, '$1 is not computed inside: ');
    if (!rows.has(reason)) rows.set(reason, []);
    rows.get(reason).push(item);
  }
  return [...rows].map(([reason, items]) => ({reason, items})).sort((a, b) => b.items.length - a.items.length);
}

function detailsOf(graph, ref, go, item) {
  if (ref.value !== undefined) return detailsOfInput(graph, ref.value, go);
  if (ref.node !== undefined) return detailsOfNode(graph, graph.nodes[ref.node], go);
  if (ref.unit !== undefined) return detailsOfUnit(graph, graph.units[ref.unit], go, item);
  return detailsOfStep(graph, graph.steps[ref.step], go);
}

function detailsOfInput(graph, value, go) {
  const readers = graph.nodes.filter(node => node.in.includes(value));
  return [el('h3', {}, '%' + graph.values[value][0]), el('div', {class: 'sub'}, 'input'), facts([['type', el('code', {}, graph.values[value][1])]]),
    ...section('Read by', chips(readers, node => node.op, node => go({node: node.id})))];
}

function detailsOfNode(graph, node, go) {
  const unit = node.unit >= 0 ? graph.units[node.unit] : null;
  const typed = value => value < 0 ? el('code', {}, 'none') : el('code', {}, '%' + graph.values[value][0] + ': ' + graph.values[value][1]);
  const readers = graph.nodes.filter(other => other.in.some(value => node.out.includes(value)));
  const makers = [...new Set(node.in.filter(v => v >= 0).map(v => graph.values[v][2]).filter(n => n >= 0))];
  const why = graph.separateOf.get(node.id) || [];
  return [el('h3', {}, node.op), el('div', {class: 'sub'}, node.at ? el('span', {title: node.at}, shortPlace(node.at)) : 'no place in your code is known'),
    ...section('Inputs', node.in.map(value => el('div', {}, typed(value)))),
    ...section('Results', node.out.map(value => el('div', {}, typed(value)))),
    ...(node.attrs ? section('Attributes', el('pre', {}, node.attrs)) : []),
    ...section('Became', unit ? chip('kernel ' + unit.label, () => go({unit: unit.id})) : el('span', {class: 'muted'}, 'no kernel: folded, or computed before the first call'),
      unit ? chips(unit.steps, s => 'step ' + s, s => go({step: s})) : null),
    ...section('Why not fused', why.map(({other, reason}) => el('div', {class: 'why'}, reason, '. ', el('span', {class: 'soft'}, meaningOf(reason)), ' ', other >= 0 ? chip('show ' + graph.nodes[other].op, () => go({node: other})) : null))),
    ...section('From', chips(makers, n => graph.nodes[n].op, n => go({node: n}))),
    ...section('To', chips(readers, n => n.op, n => go({node: n.id}))),
    ...(unit ? codeOf(graph, unit.steps) : [])];
}

function detailsOfUnit(graph, unit, go) {
  const why = unit.nodes.flatMap(node => (graph.separateOf.get(node) || []).filter(w => !unit.nodes.includes(w.other)));
  const lines = [...new Set(unit.nodes.filter(n => n >= 0).map(n => graph.nodes[n].at).filter(Boolean))];
  const step = unit.steps.length ? graph.steps[unit.steps[unit.steps.length - 1]] : null;
  return [el('h3', {}, unit.label), el('div', {class: 'sub'}, {loop: 'one fused loop kernel', contraction: 'a matmul, convolution or attention with its attached kernels', scatter: 'a scatter', step: 'a step of the runtime', call: 'an op that runs through PyTorch'}[unit.shownKind]),
    ...(step ? measured(graph, unit.steps.map(s => graph.steps[s])) : []),
    ...section('Made of', chips(unit.nodes.filter(n => n >= 0), n => graph.nodes[n].op, n => go({node: n}))),
    ...section('Your lines', lines.slice(0, 8).map(line => el('div', {}, el('code', {title: line}, shortPlace(line))))),
    ...section('Steps', chips(unit.steps, s => graph.steps[s].name + ' #' + s, s => go({step: s}))),
    ...section('Why not fused', why.slice(0, 12).map(({other, reason}) => el('div', {class: 'why'}, reason, '. ', el('span', {class: 'soft'}, meaningOf(reason)), ' ', other >= 0 && graph.nodes[other].unit >= 0 ? chip('show', () => go({unit: graph.nodes[other].unit})) : null))),
    ...codeOf(graph, unit.steps)];
}

function detailsOfStep(graph, step, go) {
  const buffer = id => { const b = graph.buffers[id]; return el('div', {}, el('code', {}, `%${id} "${b.name}" ${b.kind} ${b.type}` + (b.bytes !== undefined ? ` · ${bytes(b.bytes)}` : ''))); };
  return [el('h3', {}, step.name), el('div', {class: 'sub'}, `step ${step.id}: ${step.kind}` + (step.at ? ' · ' + shortPlace(step.at) : '')),
    ...measured(graph, [step]),
    step.runs ? facts([['runs', step.runs]]) : null, step.symbol ? facts([['binds', step.symbol]]) : null,
    ...section('Of', step.unit >= 0 && graph.hasNodes ? chip('kernel ' + graph.units[step.unit].label, () => go({unit: step.unit})) : null),
    ...section('Reads', step.reads.map(buffer)), ...section('Writes', step.writes.map(buffer)), ...codeOf(graph, [step.id])].filter(Boolean);
}

function measured(graph, steps) {
  const sum = key => steps.reduce((s, step) => s + (step[key] || 0), 0), ns = sum('ns'), best = sum('best');
  if (!ns) return [];
  const ideal = sum('ideal'), moved = sum('read') + sum('written'), share = ideal / best;
  const slower = [steps[0].byMemory, steps[0].byCompute].map(t => t || 0), limit = slower[0] >= slower[1] ? 'memory' : 'arithmetic';
  return [...section('Measured', facts([['time', `${time(ns)} · ${percent(ns / graph.ns)} of the call`],
    ['at best', best < 0.95 * ns ? `${time(best)}, in another call` : ''],
    ['computes', moved || sum('flops') ? `${round(sum('flops') / 1e6)} MFLOP · ${round(sum('flops') / best)} GFLOP/s` : ''],
    ['moves', moved ? `${bytes(moved)} · ${round(moved / best)} GB/s` : ''],
    ['limit', ideal ? `${limit}: ${time(ideal)} would be possible` : ''],
    ['reaches', ideal ? `${percent(share)} of its limit` : ''],
    [graph.onDevice ? 'blocks' : 'threads', graph.onDevice ? steps[0].grid : Math.max(...steps.map(s => s.workers)) || '']]),
    ideal ? el('div', {class: 'bar', style: 'margin-top:8px'}, el('i', {style: `width:${Math.min(100, 100 * share)}%;background:${shareColour(share)}`})) : null)];
}

const shareColour = share => share > PEAK_SHARE ? 'var(--good)' : share > 0.2 ? 'var(--warn)' : 'var(--bad)';

function codeOf(graph, steps) {
  const codes = [...new Set(steps.map(s => graph.steps[s].code).filter(c => c >= 0 && c !== undefined))];
  return codes.flatMap(c => {
    const code = graph.codes[c], parts = [];
    if (code.kernel >= 0) parts.push([code.problem ? 'epilogue' : 'loop IR', graph.kernels[code.kernel].loops], ['LLVM IR', graph.kernels[code.kernel].llvm], ['assembly', graph.kernels[code.kernel].assembly]);
    parts.push(['CUDA', code.cuda], ['SASS', code.sass]);
    for (const k of code.prologues) parts.push(['prologue', graph.kernels[k].loops]);
    if (code.problem) parts.push(['problem', code.problem + (code.algorithm ? '\nalgorithm ' + code.algorithm : '')]);
    return section('Code: ' + code.name, tabbed(parts.filter(([, text]) => text)));
  });
}

function tabbed(parts) {
  if (!parts.length) return null;
  const pre = el('pre', {});
  const head = el('div', {class: 'seg', style: 'display:inline-flex;box-shadow:none'}, parts.map(([name, text], k) => el('button', {onclick: () => open(k)}, name)));
  const open = k => { [...head.children].forEach((b, j) => b.classList.toggle('on', j === k)); pre.textContent = parts[k][1]; };
  open(0);
  return el('div', {}, head, pre);
}
