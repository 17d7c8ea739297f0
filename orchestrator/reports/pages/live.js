// The page of a run of the service: the report's parts over rows that come as the run commits them.

const TAKEN_EVERY_MS = 200, LOOKED_EVERY_MS = 5000, OVERVIEW_SHARE = 50;

class LivePage {
  constructor(id) {
    this.id = id;
    this.api = API + '/runs/' + encodeURIComponent(id);
    this.rows = new LiveRows();
    this.extra = {suspects: [], limits: this.rows.limits, details: {}, commands: {}, graphs: [],
      link: (row) => rowLink(this.rows, row), find: (fragment) => this.linked(fragment), lacking: () => this.lacking()};
    this.waiting = [];
    this.last = 0;
    this.read = 0;
    this.looked = 0;
    this.shown = null;
    this.source = null;
    this.run = null;
    this.divergence = null;
    this.over = null;
    this.overviewDue = 0;
    this.overviewOf = null;
  }

  at(name) {
    return document.getElementById(name);
  }

  async start() {
    try {
      await this.look();
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 404) throw error;
      await this.await(null);
      ready();
      return;
    }
    document.addEventListener('visibilitychange', () => this.connect());
    this.void = this.run.void;
    await this.files();
    this.about();
    this.connect();
    ready();
  }

  // There is no such run yet: its job may wait for its turn. Whoever followed the link sees the run as soon as there is one.
  async await(known) {
    const {jobs} = await ask(API + '/jobs?run=' + encodeURIComponent(this.id)).catch(() => ({jobs: []}));
    const job = jobs.find((one) => one.run === this.id || (known && one.id === known.id)) || known, coming = job && ['queued', 'running'].includes(job.state);
    const said = !job ? 'There is no such run.' : 'Job ' + job.id + ' is ' + job.state + (coming ? ': its run is shown here as soon as it has begun.' : ' and left no run.');
    document.querySelector('main').replaceChildren(make('p', coming ? {id: 'job', role: 'status'} : {class: 'problem', role: 'alert'}, said));
    const look = async () => { if (!job || job.state !== 'queued') await ask(this.api).then(() => location.reload()); };
    setTimeout(() => look().catch(() => {}).then(() => this.await(job)), job ? LOOKED_EVERY_MS / 5 : LOOKED_EVERY_MS);
  }

  // Read what the run is; a run that was begun anew is another one.
  async look() {
    this.looked = Date.now();
    const run = await ask(this.api);
    if (this.run && this.run.started !== run.started) location.reload();
    this.run = run;
    this.tell(run);
    this.suspects();
    this.notes(run.events || []);
    this.steps().catch(() => {});
  }

  async files() {
    const found = await ask(this.api + '/files');
    this.at('files').replaceChildren(...found.files.flatMap((file) => [make('a', {href: this.api + '/files/' + encodeURIComponent(file.name), download: file.name}, file.name), ' ']));
  }

  // A browser has few connections to a service: a page that nobody sees takes none, and goes on where it was when it is seen.
  connect() {
    clearTimeout(this.again);
    if (this.source) this.source.close();
    this.source = null;
    if (document.hidden) { this.watch(); return; }
    const source = this.source = new EventSource(this.api + '/events?after=' + this.last + '&void=' + this.void);
    let opened = this.last > 0;
    source.addEventListener('open', () => {
      this.at('connection').textContent = '';
      if (opened) this.look().catch(() => {});
      opened = true;
    });
    source.addEventListener('row', (event) => {
      this.last = Number(event.lastEventId);
      this.waiting.push(JSON.parse(event.data));
      if (!this.timer) this.timer = setTimeout(() => this.take(), TAKEN_EVERY_MS);
    });
    source.addEventListener('progress', (event) => {
      const now = JSON.parse(event.data);
      this.read = now.last_id;
      this.tell(now);
      if (Date.now() - this.looked > LOOKED_EVERY_MS) this.look().catch(() => {});
    });
    source.addEventListener('divergence', (event) => {
      this.divergence = JSON.parse(event.data);
      this.suspects();
    });
    source.addEventListener('reset', () => { if (this.last) location.reload(); });
    source.addEventListener('end', () => {
      source.close();
      this.take();
      this.at('connection').textContent = '';
      this.finish().then(() => this.watch(), () => this.watch());
    });
    source.addEventListener('error', () => {
      this.at('connection').textContent = 'The service does not answer; trying again …';
      // A browser tries again by itself, but not after an answer that is no stream.
      if (source.readyState === EventSource.CLOSED) this.again = setTimeout(() => this.connect(), 1000);
    });
  }

  // All rows are here; were one missing, which must not be, they would be read anew, once.
  async finish() {
    await this.look();
    await this.files();
    this.about();
    const lacking = this.run.last_id === Math.max(this.read, this.last) && this.run.stored !== this.rows.length, tried = 'goldwatch ' + this.id;
    if (lacking && sessionStorage.getItem(tried) !== String(this.last)) {
      sessionStorage.setItem(tried, this.last);
      location.reload();
    }
    if (lacking) this.at('connection').textContent = this.rows.length + ' of ' + this.run.stored + ' rows could be read: the others are not as they were stored. The same command again compares them anew.';
    this.suspects(true);
    if (this.shown && location.hash !== this.followed) this.shown.detail.follow();
    else if (!this.shown && namesRow(location.hash)) tellAddress(location.hash, this.lacking());
  }

  // The row that an address names. Numbers are those of the table, which has all rows only when the run has ended.
  linked(fragment) {
    return this.run.state === 'running' && fragment.startsWith('#row-') ? null : linkedRow(this.rows, fragment);
  }

  lacking() {
    return this.run.state === 'running' ? 'has no row so far' : 'has no row here';
  }

  // A run that has ended may be begun anew or go on; one that nobody sees is asked about in a while.
  watch() {
    clearTimeout(this.again);
    this.again = setTimeout(async () => {
      try {
        await this.look();
        if (!document.hidden && (this.run.state === 'running' || this.run.last_id !== this.last)) { this.connect(); return; }
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
    if (!this.shown && (this.rows.length || this.rows.over)) {
      this.shown = showReport(this.rows, this.extra);
      this.network();
    } else if (this.shown && this.shown.detail.row === null && location.hash !== this.followed) this.shown.detail.follow();
    // An op that the address names is opened as soon as it has a row, once.
    if (this.shown && this.shown.detail.row !== null) this.followed = location.hash;
  }

  // Draw the network around the first suspect, or the first op outside its limits.
  async network() {
    const found = await ask(this.api + '/graphs').catch(() => ({graphs: []}));
    if (found.graphs.length) this.shown.network(found.graphs);
  }

  // Of a merge: what is worst over all devices, of which few rows are stored.
  async steps() {
    if (!this.run || this.run.stored >= this.run.rows) return;
    const {steps: found, unstored} = await ask(this.api + '/steps?limit=20');
    await this.overview();
    this.rows.lack(unstored.map((one) => [[one.time, one.device, one.model, one.model_id, one.step, one.host], one.failed, one.passed, one.rows]), this.over);
    if (!this.shown && this.over) this.take();
    if (!found.length) return;
    if (!this.at('all-devices')) {
      this.at('overview').after(make('section', {id: 'all-devices', 'aria-labelledby': 'all-devices-head'}, [
        make('h2', {id: 'all-devices-head'}, 'Worst over all devices: ' + distanceHeading(found[0].metric)), make('div', {class: 'view'}, make('table', {class: 'list', id: 'steps'}))]));
    }
    const head = (name) => make('th', {scope: 'col', ...(['devices', 'worst', 'mean'].includes(name) ? {class: 'number'} : {})}, name);
    const number = (value) => make('td', {class: 'number'}, digits(value, 4));
    this.at('steps').replaceChildren(make('thead', {}, make('tr', {}, ['step', 'tensor', 'devices', 'worst', 'mean'].map(head))),
      make('tbody', {}, found.map((one) => make('tr', {}, [make('td', {}, printable(one.step)), make('td', {class: 'name'}, printable(one.tensor)),
        make('td', {class: 'number'}, String(one.count)), number(one.worst), number(one.mean)]))));
  }

  // What is drawn of all devices is large where there are many ops and steps: while the run goes on it is not asked for all the time.
  async overview() {
    const began = Date.now(), of = [this.run.state, this.run.rows].join();
    if (of === this.overviewOf || (this.run.state === 'running' && began < this.overviewDue)) return;
    const found = await ask(this.api + '/overview');
    this.overviewDue = Date.now() + OVERVIEW_SHARE * (Date.now() - began);
    this.overviewOf = of;
    this.over = found.models.length ? found : null;
  }

  tell(now) {
    const run = this.run, broken = run.error, ended = now.state === 'finished' && run.summary;
    const verdict = broken ? 'incomplete' : now.verdict || 'running', said = {running: 'so far, the run goes on', stopped: 'so far, the run has stopped', finished: ''}[now.state];
    const counts = [['failed', 'fail', 'outside their limits' + (now.provisional ? ' (' + now.provisional + ' provisional)' : '')], ['not_compared', 'not_compared', 'not compared'], ['passed', 'pass', 'pass'], ['expected_absent', 'expected_absent', 'absent as expected']]
      .filter(([name]) => now[name]).flatMap(([name, is, text], at) => [at ? ' · ' : '', make('span', {class: 'count'}, [now[name] + ' ', make('span', {class: 'verdict', 'data-is': is}, text)])]);
    const shown = broken ? 'the run cannot be read' : now.verdict ? now.verdict + (said ? ' ' + said : '') : 'running, no failures so far';
    const done = [];
    if (now.ops) done.push(now.ops.come + ' of ' + plural(now.ops.expected, 'op'));
    if (now.files_done) done.push(now.files_done + (now.files_expected ? ' of ' + now.files_expected : '') + ' files');
    if (now.bytes_done) done.push(bytesText(now.bytes_done) + (now.bytes_expected ? ' of ' + bytesText(now.bytes_expected) : ''));
    const bar = now.progress === null || now.progress === undefined ? [] : [make('progress', {max: 1, value: now.progress, 'aria-label': 'progress'})];
    const sentence = broken || (ended && run.sentence), total = plural(now.rows, 'row') + (ended ? ' of ' + plural(run.summary.ops, 'op') : '');
    this.at('verdict').replaceChildren(
      make('p', {class: 'big'}, make('span', {class: 'verdict', 'data-is': verdict}, shown)),
      ...(sentence ? [make('p', {class: 'sentence'}, sentenceText(sentence))] : []),
      make('p', {class: 'counts'}, [total + ': ', ...(counts.length ? counts : ['none'])]),
      ...(ended && run.summary.models.length > 1 ? run.summary.models.map((model) => make('p', {}, sentenceText(modelText(model)))) : []),
      ...(ended && run.summary.hosts ? [make('ul', {class: 'hosts'}, run.summary.hosts.map((host) => make('li', {}, sentenceText(hostText(host)))))] : []),
      ...(ended && run.summary.warnings.length ? [make('ul', {class: 'warnings'}, run.summary.warnings.map((warning) => make('li', {}, sentenceText([warning.sentence, warning.next].filter(Boolean).join('; next: ')))))] : []),
      make('p', {class: 'quiet', id: 'progress'}, [...bar, ' ' + done.join(', ')]));
    document.title = (now.verdict || now.state) + ': ' + titleOf(run);
    if (!this.shown) this.at('rows-note').textContent = now.rows ? 'Rows come …' : 'No rows so far.';
  }

  // Tell who is suspect; where that changed, the network is drawn around another op.
  suspects(ended) {
    const summary = this.run && this.run.summary, found = summary ? [...(summary.suspects || []), ...(summary.culprits || [])] : [];
    const first = summary ? summary.first_divergence : this.divergence, focus = found.length ? found[0].op : first && first.op;
    if (this.shown && (ended || focus !== this.focus)) {
      this.network();
      this.shown.mark(found.map((one) => this.rowOf(one)).filter((row) => row !== null));
    }
    this.focus = focus;
    const link = (op) => make('a', {href: '#op-' + encodeURIComponent(op), class: 'name'}, sentenceText(op));
    if (found.length) {
      this.at('suspects').replaceChildren(make('div', {class: 'cards'}, found.map((one, at) => suspectCard(one, at, link, this.rows, this.run.commands[one.op]))));
      addCopyButtons(this.at('suspects'));
    } else if (this.run && this.run.error) {
      this.at('suspects').replaceChildren();
    } else {
      this.at('suspects').replaceChildren(first && first.op !== null
        ? make('p', {id: 'divergence'}, ['The first outside its limits' + (summary ? '' : ' so far' + (first.final === false ? ' (provisional)' : '')) + ' is ', link(first.op), '.'])
        : make('p', {class: 'quiet'}, summary ? 'No operator is suspect.' : 'Nothing is outside its limits so far.'));
    }
  }

  rowOf(suspect) {
    const place = suspect.place && [suspect.place.time, suspect.place.device, suspect.place.model, suspect.place.model_id, suspect.place.step, ...(suspect.place.host ? [suspect.place.host] : [])];
    for (let row = 0; row < this.rows.length; row++) {
      if (this.rows.text('tensor', row) !== suspect.tensor) continue;
      if (!place || place.every((part, at) => part === this.rows.places[this.rows.place(row)][at])) return row;
    }
    return null;
  }

  notes(events) {
    this.at('events').replaceChildren(...events.map((event) => make('li', {}, [make('time', {}, new Date(event.time).toLocaleString()), ' ' + printable(event.kind) + (event.op ? ' ' + printable(event.op) : ''), ': ' + printable(event.text)])));
  }

  about() {
    const run = this.run, everywhere = run.limit_texts.filter((limit) => !limit.includes(':')), single = run.limit_texts.filter((limit) => limit.includes(':'));
    const facts = [['folder', run.path], ['target', run.inputs.target], ['golden', run.inputs.golden], ['model', run.inputs.model || run.model], ['devices', run.devices.join(', ')],
      ['steps', run.steps.join(', ')], ['started', run.started], ['host', run.host], ['limits', everywhere.join('; ')]];
    this.at('about').replaceChildren(make('dl', {}, facts.filter(([, value]) => value).flatMap(([name, value]) => [make('dt', {}, name), make('dd', {class: 'name'}, printable(value))])),
      ...(single.length ? [make('details', {}, [make('summary', {}, plural(single.length, 'limit') + ' for single types and ops'), make('ul', {}, single.map((limit) => make('li', {class: 'name'}, printable(limit))))])] : []));
    this.at('title').textContent = printable(titleOf(run));
  }
}

function titleOf(run) {
  return nameOf(run) + (run && run.model ? ' (' + run.model + ')' : '');
}

function plural(count, word) {
  return count + ' ' + word + (count === 1 ? '' : 's');
}

// What a host's run came to, as report.py says it.
function hostText(host) {
  const counts = [[host.passed, 'pass'], [host.failed, 'fail'], [host.not_compared, 'not compared']].filter(([count, word]) => count || word !== 'not compared');
  return 'host ' + host.host + (host.state === 'finished' ? '' : ' (' + host.state + ')') + ': ' + host.verdict + ', ' + plural(host.rows, 'row') + ': '
    + counts.map(([count, word]) => count + ' ' + word).join(', ');
}

function modelText(model) {
  const agree = model.devices_agree === null ? '' : model.devices_agree ? '; its devices agree' : '; its devices do not agree';
  return 'model ' + model.model + ': ' + plural(model.rows, 'row') + ', ' + model.failed + ' outside their limits' + agree;
}

// What is known of a suspect, as report.py says it.
function suspectCard(one, at, link, rows, command) {
  const sentence = (words) => sentenceText(words[0].toUpperCase() + words.slice(1) + (words.endsWith('.') ? '' : '.'));
  const parts = [make('h3', {}, [at + 1 + '. ', link(one.op), ...(one.op_type ? [make('span', {class: 'quiet'}, ' (' + sentenceText(one.op_type) + ')')] : [])])];
  if (one.score !== undefined) {
    const place = one.place || {}, names = [['host', 'host'], ['step', 'step'], ['device', 'device'], ['model', 'model'], ['model_id', 'model id'], ['time', 'time']];
    const varying = rows.placeParts().map(([, name]) => name), where = names.filter(([, said]) => varying.includes(said)).map(([name, said]) => said + ' ' + (place[name] || '-'));
    parts.push(make('p', {class: 'quiet'}, printable([...(one.confidence === 'none' ? ['no suspect: no operator need be wrong'] : ['score ' + one.score.toFixed(0), 'confidence ' + one.confidence]), ...where].join(' · '))));
  } else {
    parts.push(make('p', {class: 'quiet'}, "an error of its own, run alone with the device's inputs"));
    if (one.metric) parts.push(make('p', {}, sentenceText(one.tensor + ' has ' + one.metric + ' ' + digits(one.value, 6) + ', limit ' + digits(one.limit, 6))));
  }
  if (one.evidence) parts.push(make('p', {}, sentence(one.evidence)));
  for (const entry of one.explanations || []) {
    const share = entry.share ? ' (' + (100 * entry.share).toFixed(0) + ' % of its error)' : '';
    parts.push(make('p', {}, [make('b', {}, printable(entry.kind)), share + ': ' + sentenceText(entry.sentence)]));
    parts.push(make('p', {class: 'next'}, 'Next: ' + sentence(entry.next)));
  }
  if (command) parts.push(commandBlock(command));
  return make('article', {class: 'card', 'data-op': one.op}, parts);
}

if (document.getElementById('live')) startPage(() => new LivePage(location.pathname.split('/').pop()).start());
