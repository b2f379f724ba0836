// The page itself: tabs, the selected graph, the theme. The URL fragment stores the tab and the
// selected item of the graph (#graph:u12); ?theme=dark chooses a theme.
const TABS = {overview: ['Overview', OverviewView], graph: ['Graph', GraphView], timeline: ['Timeline', TimelineView], roofline: ['Roofline', RooflineView], memory: ['Memory', MemoryView], decisions: ['Decisions', DecisionsView]};

class App {
  constructor(reports) {
    this.reports = reports.map(prepareReport);
    this.report = reports[reports.length - 1];
    if (reports.length > 1) TABS.compare = ['Compare', CompareView];
    this.graph = this.report.graphs[0];
    document.title = 'gex report: ' + this.report.title;
    $('title').textContent = this.report.title;
    this.readTheme();
    this.fillGraphs();
    $('tabs').replaceChildren(...Object.entries(TABS).map(([key, [name]]) => el('button', {'data-tab': key, onclick: () => this.open(key)}, name)));
    $('theme').addEventListener('click', () => this.setTheme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'));
    addEventListener('keydown', event => { if (event.key === '/' && event.target.tagName !== 'INPUT') { event.preventDefault(); if (this.tab !== 'graph') this.open('graph'); $('search').focus(); } });
    addEventListener('hashchange', () => { const [tab, key] = this.place(); if (TABS[tab] && (tab !== this.tab || key)) { this.wanted = refOfKey(key); this.open(tab); } });
    const [first, key] = this.place();
    this.wanted = refOfKey(key);
    this.open(TABS[first] ? first : reports.length > 1 ? 'compare' : 'overview');
  }
  place() { return location.hash.slice(1).split(':'); }
  readTheme() {
    let theme = new URLSearchParams(location.search).get('theme');
    try { theme = theme || localStorage.getItem('gex-theme'); } catch (error) { /* a page without storage */ }
    document.documentElement.dataset.theme = theme || (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
    readPalette();
  }
  setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    try { localStorage.setItem('gex-theme', theme); } catch (error) { /* a page without storage */ }
    readPalette();
    this.open(this.tab);
  }
  fillGraphs() {
    const select = $('graphs');
    select.hidden = this.report.graphs.length < 2;
    select.replaceChildren(...this.report.graphs.map((graph, k) => el('option', {value: k}, `${graph.name} (${many(graph.hasNodes ? graph.nodes.length : graph.steps.length, graph.hasNodes ? 'node' : 'step')}${graph.ns ? ', ' + time(graph.ns) : ''})`)));
    select.addEventListener('change', () => { this.graph = this.report.graphs[+select.value]; this.open(this.tab); });
  }
  open(tab) {
    this.tab = tab;
    for (const button of $('tabs').children) button.classList.toggle('on', button.dataset.tab === tab);
    if (this.place()[0] !== tab) history.replaceState(null, '', '#' + tab);
    hideTip();
    $('view').replaceChildren();
    $('view').scrollTop = 0;
    if (!this.graph && tab !== 'compare') return void $('view').append(el('div', {class: 'empty'}, 'Nothing was compiled while this report was written.'));
    this.view = new TABS[tab][1]($('view'), this.graph, this);
  }
  goTo(ref) { this.wanted = ref; this.open('graph'); }
}

// "n3": a node, "u3": a kernel, "s3": a step, "v3": a value.
function refOfKey(key) {
  const found = /^([nusv])(\d+)$/.exec(key || '');
  return found ? {[{n: 'node', u: 'unit', s: 'step', v: 'value'}[found[1]]]: +found[2]} : null;
}

window.gexApp = new App(JSON.parse($('gex-data').textContent));
