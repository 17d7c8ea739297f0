// The page of a run of the service: the report's parts over rows that come as the run commits them.

const TAKEN_EVERY_MS = 200, LOOKED_EVERY_MS = 5000;

// Rows as result.json has them, kept as Rows keeps them. A row that was found again takes the place of the one before.
class LiveRows extends Rows {
  constructor() {
    super(columnsOf([]));
    this.known = new Map();
  }

  take(found) {
    const fresh = [];
    for (const row of found) {
      const key = JSON.stringify([row.time, row.device, row.model, row.model_id, row.step, row.target_file, row.op, row.kind, row.tensor_index, row.host]);
      const at = this.known.get(key);
      if (at === undefined) {
        this.known.set(key, this.length + fresh.length);
        fresh.push(row);
      } else if (at >= this.length) {
        fresh[at - this.length] = row;
      } else {
        this.replace(at, row);
      }
    }
    this.append(columnsOf(fresh));
  }

  replace(at, row) {
    const document = columnsOf([row]);
    const put = (table, name, value) => { (table[name] || (table[name] = []))[at] = value; };
    for (const name in document.texts) put(this.texts, name, document.texts[name][0][0]);
    for (const name in document.columns) put(this.columns, name, document.columns[name][0]);
    for (const name in this.metrics) if (!(name in document.metrics)) this.metrics[name][at] = null;
    for (const name in document.metrics) put(this.metrics, name, document.metrics[name][0]);
    this.columns.place[at] = this.placeNumber(document.places[0]);
    this.searchable.length = Math.min(this.searchable.length, at);
  }
}

const LIVE_VERDICTS = ['pass', 'fail', 'not_compared', 'expected_absent'], LIVE_KINDS = ['input', 'output', 'op'];
const LIVE_TEXTS = ['op', 'op_type', 'tensor', 'golden', 'reason', 'target_file', 'golden_file', 'target_dtype', 'golden_dtype', 'decided_by', 'warning'];
const LIVE_FIRST = ['CosineSimilarity', 'RelativeEuclideanDistance', 'WorstSliceDistance', 'MaxAbsoluteError'];

// The document that Rows.append takes of rows of result.json.
function columnsOf(rows) {
  const texts = {}, metrics = {}, each = (value) => rows.map(value);
  for (const name of LIVE_TEXTS) texts[name] = [each((row) => row[name]), rows.map((_, at) => at)];
  texts.shape = [each((row) => (row.shape === null ? null : row.shape.join(' × ') || 'scalar')), rows.map((_, at) => at)];
  texts.group = [each((row) => (row.group.length > 1 ? row.group.join(', ') : null)), rows.map((_, at) => at)];
  const names = new Set(rows.flatMap((row) => Object.keys(row.metrics)));
  const ordered = [...LIVE_FIRST.filter((name) => names.has(name)), ...[...names].filter((name) => !LIVE_FIRST.includes(name) && name !== 'StandardDeviation')];
  for (const name of ordered) {
    const values = each((row) => liveMetric(name, row));
    if (values.some((value) => value !== null)) metrics[name] = values;
  }
  const counts = (name) => each((row) => (row[name] && (row[name].target || row[name].golden) ? [row[name].target, row[name].golden] : null));
  return {
    count: rows.length, verdicts: LIVE_VERDICTS, kinds: LIVE_KINDS, texts, metrics,
    places: each((row) => [row.time, row.device, row.model, row.model_id, row.step, ...(row.host === undefined ? [] : [row.host])]),
    columns: {
      place: rows.map((_, at) => at), verdict: each((row) => LIVE_VERDICTS.indexOf(row.verdict)), kind: each((row) => LIVE_KINDS.indexOf(row.kind)),
      index: each((row) => row.index), op_sequence: each((row) => row.op_sequence), nan: counts('nan'), inf: counts('inf'),
      overflow: each((row) => (row.overflow === null ? null : Number(row.overflow))),
      slice: each((row) => (row.worst_slice ? [row.worst_slice.axis, row.worst_slice.index] : null)),
      deviation: each((row) => {
        const found = row.metrics.StandardDeviation;
        return found ? [found.target.mean, found.target.std, found.golden.mean, found.golden.std] : null;
      }),
    },
  };
}

// A metric as the page holds it: of the cosine its distance to 1. result.json writes NaN too where nothing was measured.
function liveMetric(name, row) {
  const value = row.metrics[name];
  if (value === undefined || value === null || (value === 'NaN' && (row.verdict !== 'fail' || name === 'DifferentElements'))) return null;
  return name === 'CosineSimilarity' && typeof value === 'number' ? 1 - value : value;
}

class LivePage {
  constructor(id) {
    this.id = id;
    this.api = '/api/runs/' + encodeURIComponent(id);
    this.rows = new LiveRows();
    this.waiting = [];
    this.last = 0;
    this.shown = null;
    this.run = null;
    this.divergence = null;
    window.addEventListener('hashchange', () => this.follow());
  }

  at(name) {
    return document.getElementById(name);
  }

  async start() {
    await this.look();
    this.about();
    this.connect();
    ready();
  }

  // Read what the run is; a run that was begun anew is another one.
  async look() {
    const run = await ask(this.api);
    if (this.run && this.run.started !== run.started) location.reload();
    this.run = run;
    this.tell(run);
    this.suspects();
    this.notes(run.events || []);
    const files = await ask(this.api + '/files');
    this.at('files').replaceChildren(...files.files.flatMap((file) => [make('a', {href: this.api + '/files/' + encodeURIComponent(file.name), download: file.name}, file.name), ' ']));
  }

  connect() {
    const source = new EventSource(this.api + '/events?after=' + this.last);
    let opened = false;
    source.addEventListener('open', () => {
      this.at('connection').textContent = '';
      if (opened || this.last) this.look().catch(() => {});
      opened = true;
    });
    source.addEventListener('row', (event) => {
      this.last = Number(event.lastEventId);
      this.waiting.push(JSON.parse(event.data));
      if (!this.timer) this.timer = setTimeout(() => this.take(), TAKEN_EVERY_MS);
    });
    source.addEventListener('progress', (event) => this.tell(JSON.parse(event.data)));
    source.addEventListener('divergence', (event) => {
      this.divergence = JSON.parse(event.data);
      this.suspects();
    });
    source.addEventListener('reset', () => { if (this.last) location.reload(); });
    source.addEventListener('end', () => {
      source.close();
      this.take();
      this.at('connection').textContent = '';
      this.look().then(() => this.watch(), () => this.watch());
    });
    source.addEventListener('error', () => {
      this.at('connection').textContent = 'The service does not answer; trying again …';
      // A browser tries again by itself, but not after an answer that is no stream.
      if (source.readyState === EventSource.CLOSED) setTimeout(() => this.connect(), 1000);
    });
  }

  // A run that has ended may be begun anew or go on.
  watch() {
    setTimeout(async () => {
      try {
        await this.look();
        if (this.run.state === 'running') { this.connect(); return; }
      } catch (error) { /* asked again */ }
      this.watch();
    }, LOOKED_EVERY_MS);
  }

  take() {
    clearTimeout(this.timer);
    this.timer = 0;
    const found = this.waiting;
    this.waiting = [];
    if (found.length) this.rows.take(found);
    document.documentElement.dataset.rows = this.rows.length;
    document.documentElement.dataset.last = this.last;
    if (!this.shown && this.rows.metricNames().length) this.show();
    this.follow();
  }

  show() {
    const link = (row) => '#op-' + encodeURIComponent(this.rows.text('op', row));
    this.shown = showReport(this.rows, {suspects: [], limits: {}, details: {}, commands: {}, graphs: [], link});
  }

  // Open the op that the address names, as soon as it has a row.
  follow() {
    const found = /^#op-(.+)$/.exec(location.hash);
    if (!found || !this.shown) {
      if (this.shown) this.shown.detail.follow();
      return;
    }
    let op = found[1];
    try { op = decodeURIComponent(op); } catch (error) { return; }
    const row = worstRow(this.rows, op);
    if (row !== null) location.replace('#row-' + row);
  }

  tell(now) {
    const verdict = now.verdict || 'running', said = {running: 'so far, the run goes on', stopped: 'so far, the run has stopped', finished: ''}[now.state];
    const counts = [['failed', 'fail', 'outside their limits'], ['not_compared', 'not_compared', 'not compared'], ['passed', 'pass', 'pass'], ['expected_absent', 'expected_absent', 'absent as expected']]
      .filter(([name]) => now[name]).flatMap(([name, is, text], at) => [at ? ' · ' : '', make('span', {class: 'count'}, [now[name] + ' ', make('span', {class: 'verdict', 'data-is': is}, text)])]);
    const shown = now.verdict ? now.verdict + (said ? ' ' + said : '') : 'running, no failures so far';
    const done = [];
    if (now.files_done) done.push(now.files_done + (now.files_expected ? ' of ' + now.files_expected : '') + ' files');
    if (now.bytes_done) done.push(bytesText(now.bytes_done) + (now.bytes_expected ? ' of ' + bytesText(now.bytes_expected) : ''));
    const bar = now.progress === null || now.progress === undefined ? [] : [make('progress', {max: 1, value: now.progress, 'aria-label': 'progress'})];
    this.at('verdict').replaceChildren(
      make('p', {class: 'big'}, make('span', {class: 'verdict', 'data-is': verdict}, shown)),
      make('p', {class: 'counts'}, [now.rows + ' rows: ', ...(counts.length ? counts : ['none'])]),
      make('p', {class: 'quiet', id: 'progress'}, [...bar, ' ' + done.join(', ')]));
    document.title = (now.verdict || now.state) + ': ' + nameOf(this.run);
    if (!this.shown) this.at('rows-note').textContent = now.rows ? 'Rows come …' : 'No rows so far.';
  }

  suspects() {
    const summary = this.run && this.run.summary, found = summary ? [...(summary.suspects || []), ...(summary.culprits || [])] : [];
    const link = (op) => make('a', {href: '#op-' + encodeURIComponent(op), class: 'name'}, printable(op));
    if (found.length) {
      this.at('suspects').replaceChildren(make('div', {class: 'cards'}, found.map((one, at) => make('article', {class: 'card', 'data-op': one.op}, [
        make('h3', {}, [at + 1 + '. ', link(one.op)]),
        ...(one.evidence ? [make('p', {}, printable(one.evidence))] : []),
        ...(one.explanations || []).map((entry) => make('p', {}, [make('b', {}, printable(entry.kind)), ': ' + printable(entry.sentence)])),
      ]))));
      return;
    }
    const first = summary ? summary.first_divergence : this.divergence;
    this.at('suspects').replaceChildren(first && first.op !== null
      ? make('p', {id: 'divergence'}, ['The first outside its limits' + (summary ? '' : ' so far') + ' is ', link(first.op), '.'])
      : make('p', {class: 'quiet'}, summary ? 'No operator is suspect.' : 'Nothing is outside its limits so far.'));
  }

  notes(events) {
    this.at('events').replaceChildren(...events.map((event) => make('li', {}, [make('time', {}, new Date(event.time).toLocaleString()), ' ' + printable(event.kind) + (event.op ? ' ' + printable(event.op) : ''), ': ' + printable(event.text)])));
  }

  about() {
    const run = this.run, facts = [['folder', run.path], ['model', run.model], ['devices', run.devices.join(', ')], ['steps', run.steps.join(', ')], ['started', run.started], ['host', run.host], ['error', run.error]];
    this.at('about').replaceChildren(make('dl', {}, facts.filter(([, value]) => value).flatMap(([name, value]) => [make('dt', {}, name), make('dd', {class: 'name'}, printable(value))])));
    this.at('title').textContent = printable(nameOf(run));
  }
}

if (document.getElementById('live')) startPage(() => new LivePage(location.pathname.split('/').pop()).start());
