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
    return found;
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
    const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.run : null;
    this.body.replaceChildren(...found.runs.map((run) => this.line(run)));
    if (focused) { const link = this.body.querySelector('a[data-run="' + focused + '"]'); if (link) link.focus(); }
    const shown = found.runs.length, total = found.total;
    document.getElementById('runs-status').textContent = shown < total ? 'the newest ' + shown + ' of ' + total + ' runs' : total + (total === 1 ? ' run' : ' runs');
    this.more.hidden = shown === total;
    this.more.disabled = shown >= MOST_LISTED;
    this.more.textContent = shown >= MOST_LISTED ? 'the filter finds the others' : 'show more';
  }

  line(run) {
    const verdict = run.verdict || 'running';
    const link = make('a', {href: BASE + '/runs/' + run.id, 'data-run': run.id, title: printable(run.path)}, breakable(printable(nameOf(run))));
    const progress = run.state === 'running' && run.progress !== null ? [make('progress', {max: 1, value: run.progress, 'aria-label': 'progress'})] : [words(run.state)];
    const cells = [
      ['', make('span', {class: 'verdict', 'data-is': verdict}, run.verdict || 'none so far')], ['name', link], ['name', printable(run.model || '')],
      ['number', String(run.devices.length), 'devices'], ['number', String(run.steps.length), 'steps'], ['number', String(run.rows), 'rows'], ['number', String(run.failed), 'fail'],
      ['', progress], ['', run.started ? new Date(run.started).toLocaleString() : ''], ['number', ageText(run.age_s), 'age'], ['name', run.error ? printable(run.error) : printable(run.host || '')],
    ];
    return make('tr', {'data-state': run.state}, cells.map(([kind, content, head]) => make('td', {class: kind || null, 'data-head': head}, content)));
  }
}

if (document.getElementById('runs')) startPage(() => new RunList().start());
