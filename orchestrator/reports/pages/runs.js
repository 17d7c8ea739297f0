// The list of a service's runs, asked for again and again.

const LISTED_EVERY_MS = 2000, LISTED = 200, MOST_LISTED = 1000;

class RunList {
  constructor() {
    this.filter = document.getElementById('filter');
    this.verdict = document.getElementById('verdict-choice');
    this.body = document.getElementById('runs').tBodies[0];
    const asked = new URLSearchParams(location.search);
    this.filter.value = asked.get('q') || '';
    this.verdict.value = asked.get('verdict') || '';
    for (const control of [this.filter, this.verdict]) control.addEventListener('input', () => this.changed());
    // What is sorted is named in the address; the larger, the worse and the newer come first at the first click.
    this.sort = asked.get('sort') || '';
    this.order = asked.get('order') || 'asc';
    for (const head of document.querySelectorAll('#runs th[data-sort]')) head.querySelector('button').addEventListener('click', () => this.sortBy(head.dataset.sort));
    this.picked = new Map();
    this.lines = new Map();
    this.limit = LISTED;
    this.more = document.getElementById('more');
    this.more.addEventListener('click', () => { this.limit = Math.min(this.limit + LISTED, MOST_LISTED); this.changed(); });
  }

  async start() {
    await this.show();
    ready();
    for (;;) {
      await new Promise((done) => setTimeout(done, LISTED_EVERY_MS));
      try {
        await this.show();
        document.getElementById('connection').textContent = '';
      } catch (error) {
        if (error instanceof NeedsToken) throw error;
        document.getElementById('connection').textContent = 'The service does not answer; trying again …';
      }
    }
  }

  query() {
    const found = new URLSearchParams();
    if (this.filter.value.trim()) found.set('q', this.filter.value.trim());
    if (this.verdict.value) found.set('verdict', this.verdict.value);
    if (this.sort) { found.set('sort', this.sort); found.set('order', this.order); }
    return found;
  }

  sortBy(name) {
    const first = ['verdict', 'run', 'model', 'host'].includes(name) ? 'asc' : 'desc';
    this.order = this.sort !== name ? first : this.order === 'asc' ? 'desc' : 'asc';
    this.sort = name;
    this.changed();
  }

  changed() {
    const query = this.query().toString();
    history.replaceState(null, '', location.pathname + (query ? '?' + query : ''));
    this.show().catch(() => {});
  }

  async show() {
    const query = this.query();
    query.set('limit', this.limit);
    const asked = query.toString(), found = await ask(API + '/runs?' + asked);
    // What was asked for last counts, not what comes last.
    const now = this.query();
    now.set('limit', this.limit);
    if (now.toString() !== asked) return;
    for (const head of document.querySelectorAll('#runs th[data-sort]')) head.setAttribute('aria-sort', head.dataset.sort !== this.sort ? 'none' : this.order === 'asc' ? 'ascending' : 'descending');
    this.fill(found.runs);
    const shown = found.runs.length, total = found.total;
    document.getElementById('runs-status').textContent = shown < total ? (this.sort ? 'the first ' : 'the newest ') + shown + ' of ' + total + ' runs' : total + (total === 1 ? ' run' : ' runs');
    this.more.hidden = shown === total;
    this.more.disabled = shown >= MOST_LISTED;
    this.more.textContent = shown >= MOST_LISTED ? 'the filter finds the others' : 'show more';
  }

  // Lines of runs that are as they were stay, and so does what is selected in them.
  fill(runs) {
    const lines = runs.map((run) => {
      const {age_s: age, ...told} = run, key = JSON.stringify(told), known = this.lines.get(run.id);
      if (!known || known.dataset.key !== key) {
        const line = this.line(run);
        line.dataset.key = key;
        return line;
      }
      const cell = known.querySelector('[data-head="age"]'), text = ageText(age);
      if (cell.textContent !== text) cell.textContent = text;
      return known;
    });
    this.lines = new Map(runs.map((run, at) => [run.id, lines[at]]));
    const same = lines.length === this.body.rows.length && lines.every((line, at) => line === this.body.rows[at]);
    if (same) return;
    const chosen = getSelection();
    if (!chosen.isCollapsed && this.body.contains(chosen.anchorNode)) return;
    const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset : {}, kind = focused.pick ? 'pick' : 'run';
    this.body.replaceChildren(...lines);
    if (focused[kind]) { const again = this.body.querySelector('[data-' + kind + '="' + focused[kind] + '"]'); if (again) again.focus(); }
  }

  // Two runs that are chosen lead to their difference, from the older to the newer.
  pick(run, chosen) {
    if (chosen) this.picked.set(run.id, run);
    else this.picked.delete(run.id);
    const place = document.getElementById('difference'), both = [...this.picked.values()].sort((a, b) => ((a.started || '') < (b.started || '') ? -1 : 1));
    place.replaceChildren(both.length === 2 ? make('a', {href: BASE + '/diff/' + both[0].id + '/' + both[1].id}, 'difference of ' + printable(nameOf(both[0])) + ' and ' + printable(nameOf(both[1])))
      : both.length ? both.length + ' chosen: choose two runs for their difference' : 'choose two runs for their difference');
  }

  line(run) {
    const verdict = run.verdict || 'running';
    const link = make('a', {href: BASE + '/runs/' + run.id, 'data-run': run.id, title: printable(run.path)}, breakable(printable(nameOf(run))));
    const progress = run.state === 'running' && run.progress !== null ? [make('progress', {max: 1, value: run.progress, 'aria-label': 'progress'})] : [words(run.state)];
    const first = run.first_divergence, box = make('input', {type: 'checkbox', 'data-pick': run.id, 'aria-label': 'choose ' + printable(nameOf(run)) + ' for a difference'});
    box.checked = this.picked.has(run.id);
    box.addEventListener('change', () => this.pick(run, box.checked));
    const cells = [
      ['', box], ['', make('span', {class: 'verdict', 'data-is': verdict}, run.verdict || 'none so far')], ['name', link], ['name', printable(run.model || '')],
      ['name', first ? make('a', {href: BASE + '/runs/' + run.id + '#op-' + encodeURIComponent(first.op)}, breakable(shortened(first.op, LONGEST_WORD))) : ''],
      ['number', String(run.devices.length), 'devices'], ['number', String(run.steps.length), 'steps'], ['number', String(run.rows), 'rows'], ['number', String(run.failed), 'fail'],
      ['', progress], ['', run.started ? new Date(run.started).toLocaleString() : ''], ['number', ageText(run.age_s), 'age'], ['name', run.error ? printable(run.error) : printable(run.host || '')],
    ];
    return make('tr', {'data-state': run.state}, cells.map(([kind, content, head]) => make('td', {class: kind || null, 'data-head': head}, content)));
  }
}

if (document.getElementById('runs')) startPage(() => new RunList().start());
