// A training at a glance: how many tensors fail on each device in each step, and how far each op is off step by step.

class Overview {
  // choose(place number, row or null) shows a place, or one of its rows.
  constructor(rows, body, choose) {
    this.rows = rows;
    this.body = body;
    this.choose = choose;
    this.models = [];
    this.device = null;
    this.opsHead = make('b', {});
    this.modelChoice = make('select', {'aria-label': 'model'});
    this.deviceChoice = make('select', {'aria-label': 'device'});
    this.modelChoice.addEventListener('change', () => { this.model = this.modelChoice.value; this.device = null; this.gather(); });
    this.deviceChoice.addEventListener('change', () => { this.device = this.deviceChoice.value; this.drawOps(); });
    const devices = make('div', {class: 'frame', tabindex: 0, role: 'application', 'aria-label': 'tensors outside their limits by device and step'});
    const ops = make('div', {class: 'frame', tabindex: 0, role: 'application', 'aria-label': 'the largest distance by op and step'});
    body.replaceChildren(
      make('div', {class: 'heat-head'}, [make('b', {}, 'Devices × steps: tensors outside their limits'), this.modelChoice]), devices,
      make('div', {class: 'heat-head'}, [this.opsHead, make('label', {}, ['on ', this.deviceChoice])]), ops);
    this.deviceMap = new HeatMap(devices, (device, step) => this.aboutDevice(device, step), (device, step) => this.choosePlace(device, step));
    this.opMap = new HeatMap(ops, (op, step) => this.aboutOp(op, step), (op, step) => this.chooseOp(op, step));
    rows.onChange(() => this.gather());
    this.gather();
  }

  metric() {
    return this.rows.metrics.RelativeEuclideanDistance ? 'RelativeEuclideanDistance' : this.rows.metricNames()[0];
  }

  modelOf(place) {
    const varying = this.rows.placeParts().map(([at]) => at);
    return [2, 3, 0].filter((at) => at === 2 || varying.includes(at)).map((at) => place[at]).filter((part) => part !== null).join(' / ');
  }

  // The models that there are; the chosen one stays while it is called so.
  offerModels() {
    const found = [...new Set(this.rows.places.map((place) => this.modelOf(place)))];
    if (found.join('\n') === this.models.join('\n') && found.length) return;
    this.models = found;
    if (!found.includes(this.model)) this.model = found[0];
    this.modelChoice.replaceChildren(...found.map((name) => make('option', {value: name}, printable(name) || 'all')));
    this.modelChoice.value = this.model;
    this.modelChoice.hidden = found.length < 2;
  }

  gather() {
    this.offerModels();
    const rows = this.rows, mine = new Map();
    rows.places.forEach((place, number) => { if (this.modelOf(place) === this.model) mine.set(number, place); });
    const named = (name) => [...new Set([...mine.values()].map(name))].sort(byNumber);
    const before = this.device === null || this.device === 'all' ? undefined : this.devices[this.device];
    this.devices = named(deviceOf);
    this.steps = named((place) => place[4]);
    this.placeAt = new Map([...mine].map(([number, place]) => [this.devices.indexOf(deviceOf(place)) + '/' + this.steps.indexOf(place[4]), number]));
    this.failing = new Map();
    // A merge of several hosts holds the rows that did not pass.
    this.merged = rows.places.some((place) => place[5] !== undefined);
    this.opsHead.textContent = 'Ops × steps: ' + distanceHeading(this.metric()) + (this.merged ? ', of the rows that the merge stores' : '');
    this.worst = new Map();
    this.ops = new Map();
    const metric = this.metric();
    for (const [number, [failed, passed]] of rows.unstored) if (mine.has(number)) this.failing.set(number, [failed, passed + failed]);
    for (let row = 0; row < rows.length; row++) {
      const place = mine.get(rows.place(row));
      if (!place) continue;
      const fails = rows.verdict(row) === 'fail', device = this.devices.indexOf(deviceOf(place)), step = this.steps.indexOf(place[4]);
      const counts = this.failing.get(rows.place(row)) || [0, 0];
      this.failing.set(rows.place(row), [counts[0] + fails, counts[1] + (rows.verdict(row) === 'pass' || fails)]);
      const value = rows.metric(metric, row);
      if (rows.kind(row) !== 'output' || (value === null && !fails)) continue;
      const op = rows.text('op', row);
      if (!this.ops.has(op)) this.ops.set(op, this.ops.size);
      for (const on of [device, 'all']) {
        const key = this.ops.get(op) + '/' + on + '/' + step, known = this.worst.get(key);
        if (!known || this.rank(fails, value) > this.rank(known.fails, known.value)) this.worst.set(key, {row, fails, value});
      }
    }
    const names = ['all devices, the worst', ...this.devices.map((name) => 'device ' + (name === null ? '–' : name))];
    this.deviceChoice.replaceChildren(...names.map((name, at) => make('option', {value: at ? at - 1 : 'all'}, printable(name))));
    this.deviceChoice.value = this.devices.includes(before) ? this.devices.indexOf(before) : 'all';
    this.deviceMap.show(this.devices.map(label), this.steps.map(label), (device, step) => this.count(device, step), (device, step) => this.count(device, step) > 0,
      (device, step) => this.count(device, step), Math.max(...[...this.failing.values()].map(([, all]) => all), 1));
    this.drawOps();
  }

  rank(fails, value) {
    return (fails ? 1e300 : 0) + (typeof value === 'number' ? value : 1e299);
  }

  count(device, step) {
    const counts = this.failing.get(this.placeAt.get(device + '/' + step));
    return counts ? counts[0] : null;
  }

  drawOps() {
    const names = [...this.ops.keys()];
    this.device = this.deviceChoice.value || 'all';
    const cell = (op, step) => this.worst.get(op + '/' + this.device + '/' + step);
    this.cell = cell;
    this.opMap.show(names, this.steps.map(label), (op, step) => (cell(op, step) ? cell(op, step).value : null), (op, step) => cell(op, step).fails);
  }

  aboutDevice(device, step) {
    const counts = this.failing.get(this.placeAt.get(device + '/' + step));
    const where = 'device ' + label(this.devices[device]) + ', step ' + label(this.steps[step]);
    const stored = this.merged && !this.rows.unstored.size ? '' : ' of ' + (counts || [])[1];
    return [where, counts ? counts[0] + stored + ' tensors are outside their limits' : this.merged ? 'no row is stored here' : 'nothing was compared'];
  }

  aboutOp(op, step) {
    const found = this.cell(op, step), name = this.opMap.shown(LONGEST_NAME)[op], where = 'step ' + label(this.steps[step]);
    if (!found) return [name, where, this.merged ? 'no row is stored here' : 'was not compared'];
    const place = this.rows.placeText(this.rows.place(found.row));
    return [name, place, distanceHeading(this.metric()) + ' ' + digits(found.value, 4) + ', ' + words(this.rows.verdict(found.row))];
  }

  choosePlace(device, step) {
    const place = this.placeAt.get(device + '/' + step);
    if (place !== undefined) this.choose(place, null);
  }

  chooseOp(op, step) {
    const found = this.cell(op, step);
    if (found) this.choose(this.rows.place(found.row), found.row);
  }
}

function label(name) {
  return name === null ? '–' : printable(name);
}

function byNumber(a, b) {
  return (Number(a) - Number(b)) || String(a).localeCompare(String(b), 'en', {numeric: true});
}

// The device of a place, with its host before it where the run has several.
function deviceOf(place) {
  return place[5] === undefined ? place[1] : place[5] + '/' + (place[1] === null ? '–' : place[1]);
}
