// The three levels of a graph as items and edges, and the groups that they collapse into.
function levelOf(graph, level) {
  if (level === 'tensors') return tensorLevel(graph);
  return level === 'kernels' ? kernelLevel(graph) : programLevel(graph);
}

const isWeight = (graph, value) => graph.inputs.length > 24 && !/^(x|input|ids|mask|tokens)/i.test(graph.values[value][0]);

function tensorLevel(graph) {
  const items = [], edges = [], of = new Map(), producer = new Map();
  graph.inputs.forEach(value => {
    if (isWeight(graph, value)) return;
    producer.set(value, items.length);
    items.push({key: 'v' + value, label: '%' + graph.values[value][0], sub: graph.values[value][1], kind: 'input', ns: 0, path: [], ref: {value}});
  });
  for (const node of graph.nodes) {
    if (node.parent !== undefined || node.op === 'constant') continue;
    const unit = node.unit >= 0 ? graph.units[node.unit] : null;
    of.set(node.id, items.length);
    node.out.forEach(value => producer.set(value, items.length));
    items.push({key: 'n' + node.id, label: node.op, sub: node.out.length ? graph.values[node.out[0]][1] : '', kind: unit ? unit.kind : 'step',
      ns: unit && unit.nodes[unit.nodes.length - 1] === node.id ? unit.ns : 0, path: pathOf(node.at), ref: {node: node.id}, unit: node.unit});
    const me = items.length - 1;
    for (const value of new Set(node.in)) if (producer.has(value)) edges.push([producer.get(value), me]);
  }
  return {items, edges};
}

function kernelLevel(graph) {
  const items = graph.units.map(unit => {
    const last = unit.nodes.length ? graph.nodes[unit.nodes[unit.nodes.length - 1]] : null;
    const anchor = unit.nodes.map(n => graph.nodes[n]).find(n => n && n.at) || last;
    return {key: 'u' + unit.id, label: unit.label, sub: unit.ns ? time(unit.ns) : many(unit.nodes.length, 'node'), kind: unit.shownKind,
      ns: unit.ns, path: pathOf(anchor && anchor.at), ref: {unit: unit.id}};
  });
  const hidden = new Set(graph.units.filter(u => !u.steps.length).map(u => u.id));  // constants, views
  const seen = new Set(), edges = [], unitOf = new Map();
  graph.nodes.forEach(node => node.out.forEach(value => unitOf.set(value, node)));
  const source = value => {  // through nodes that have no launch of their own
    const found = [], todo = [value], met = new Set();
    while (todo.length) {
      const node = unitOf.get(todo.pop());
      if (!node || met.has(node.id)) continue;
      met.add(node.id);
      if (node.unit >= 0 && !hidden.has(node.unit)) found.push(node.unit); else todo.push(...node.in);
    }
    return found;
  };
  for (const unit of graph.units) {
    if (hidden.has(unit.id)) continue;
    for (const n of unit.nodes) if (n >= 0) for (const value of graph.nodes[n].in) for (const from of value < 0 ? [] : source(value)) {
      const key = from * 100003 + unit.id;
      if (from !== unit.id && !seen.has(key)) { seen.add(key); edges.push([from, unit.id]); }
    }
  }
  const index = new Map();
  const shown = items.filter((item, k) => !hidden.has(k) && (index.set(k, index.size), true));
  return {items: shown, edges: edges.map(([a, b]) => [index.get(a), index.get(b)])};
}

function programLevel(graph) {
  const root = id => graph.buffers[id].root === undefined ? id : graph.buffers[id].root;
  const items = [], edges = [], writer = new Map(), index = new Map();
  for (const step of graph.steps) {
    if (step.kind === 'record' || step.kind === 'wait') continue;
    index.set(step.id, items.length);
    const seen = new Set();
    for (const id of step.reads) {
      const from = writer.get(root(id));
      if (from !== undefined && from !== step.id && !seen.has(from)) { seen.add(from); edges.push([index.get(from), items.length]); }
    }
    for (const id of step.writes) writer.set(root(id), step.id);
    items.push({key: 's' + step.id, label: step.name, sub: step.ns ? time(step.ns) : step.kind, kind: step.colour, ns: step.ns, path: pathOf(step.at), ref: {step: step.id}});
  }
  return {items, edges};
}

// Groups: a tree over the items. Each group: {key, name, items, parent, children, depth}.
function groupsOf(items) {
  const rootGroup = {key: '', name: '', children: new Map(), items: [], all: [], parent: null};
  // By module paths if there are any, else by the user's functions and files, else by repeated
  // blocks.
  const hasModules = items.some(item => item.path.length && !item.path.isLine);
  const paths = items.some(item => item.path.length) ? items.map(item => hasModules && item.path.isLine ? [] : item.path) : repeatedBlocks(items);
  items.forEach((item, k) => {
    let at = rootGroup;
    at.all.push(k);
    for (const name of paths[k]) {
      if (!at.children.has(name)) at.children.set(name, {key: at.key + '/' + name, name, children: new Map(), items: [], all: [], parent: at});
      at = at.children.get(name);
      at.all.push(k);
    }
    at.items.push(k);
  });
  const byKey = new Map();
  const simplify = (group) => {
    // Groups with one member, or with all members of their parent, are dropped.
    for (const child of [...group.children.values()]) {
      simplify(child);
      if (child.all.length < 2 || child.all.length === group.all.length) {
        group.items.push(...child.items);
        group.children.delete(child.name);
        for (const inner of child.children.values()) { inner.parent = group; group.children.set(child.name + '/' + inner.name, inner); }
      }
    }
    stackRepeats(group, items);
  };
  simplify(rootGroup);
  const collect = (group, depth) => { group.depth = depth; byKey.set(group.key, group); for (const child of group.children.values()) collect(child, depth + 1); };
  collect(rootGroup, 0);
  return {root: rootGroup, byKey};
}

// Three or more equal children in a row become one group: "layer.0 … layer.11".
function stackRepeats(group, items) {
  const children = [...group.children.values()].sort((a, b) => a.all[0] - b.all[0]);
  const sign = child => child.all.map(k => items[k].label).join(',');
  for (let k = 0; k < children.length;) {
    let end = k + 1;
    const own = sign(children[k]);
    while (end < children.length && sign(children[end]) === own) end++;
    if (end - k >= 3 && end - k < group.children.size + (group.items.length ? 1 : 0)) {
      const run = children.slice(k, end), name = `${run[0].name} … ${run[run.length - 1].name}`;
      const stack = {key: group.key + '/' + name, name, children: new Map(), items: [], all: run.flatMap(c => c.all), parent: group, repeats: run.length};
      for (const child of run) { group.children.delete(child.name); child.parent = stack; stack.children.set(child.name, child); }
      group.children.set(name, stack);
    }
    if (end - k >= 3) for (let j = k + 1; j < end; j++) children[j].repeated = true;
    k = end;
  }
}

// Without source locations: the longest run of equal blocks.
function repeatedBlocks(items) {
  const tokens = items.map(item => item.label + '|' + item.sub.replace(/[\d.,]+ (ns|µs|ms)/, '')), n = tokens.length;
  let best = {cover: 0, period: 0, start: 0};
  for (let period = 3; period <= n / 3; period++) {
    let run = 0;
    for (let k = 0; k + period < n; k++) {
      run = tokens[k] === tokens[k + period] ? run + 1 : 0;
      if (run >= 2 * period && run + period > best.cover * 1.1) best = {cover: run + period, period, start: k + 1 - run};
    }
  }
  if (best.cover < n * 0.3) return items.map(() => []);
  const blocks = Math.floor(best.cover / best.period);
  return items.map((_, k) => {
    const block = Math.floor((k - best.start) / best.period);
    return k >= best.start && block < blocks ? ['blocks', 'block ' + (block + 1)] : [];
  });
}
