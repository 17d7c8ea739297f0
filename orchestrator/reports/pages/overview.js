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
    if (this.rows.over) return this.rows.over.metric;
    return this.rows.metrics.RelativeEuclideanDistance ? 'RelativeEuclideanDistance' : this.rows.metricNames()[0];
  }

  // A place's model, with its number and time only where places of one device and step need them.
  modelOf(place) {
    return this.parts.map((at) => place[at]).filter((part) => part !== null).join(' / ');
  }

  neededParts() {
    const found = [2], told = () => new Set(this.rows.places.map((place) => JSON.stringify([deviceOf(place), place[4], ...found.map((at) => place[at])]))).size;
    for (const at of [3, 0]) if (told() < this.rows.places.length) found.push(at);
    return found;
  }

  // The models that there are; the chosen one stays while it is called so.
  offerModels() {
    this.parts = this.neededParts();
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
    const deviceAt = positions(this.devices), stepAt = positions(this.steps);
    this.placeAt = new Map([...mine].map(([number, place]) => [deviceAt.get(deviceOf(place)) + '/' + stepAt.get(place[4]), number]));
    this.failing = new Map();
    // A merge of several hosts holds the rows that did not pass.
    this.merged = rows.places.some((place) => place[5] !== undefined);
    this.worst = new Map();
    this.ops = new Map();
    const metric = this.metric();
    this.mine = mine;
    this.over = this.overDevices(mine);
    if (this.over) {
      const {ops, steps, worst} = this.over;
      ops.forEach((op, at) => steps.forEach((name, column) => {
        const value = worst[at][column];
        if (value !== null) this.see(op, 'all', stepAt.get(name), {row: null, fails: false, value});
      }));
    }
    for (const [number, [failed, passed]] of rows.unstored) if (mine.has(number)) this.failing.set(number, [failed, passed + failed]);
    for (let row = 0; row < rows.length; row++) {
      const place = mine.get(rows.place(row));
      if (!place) continue;
      const fails = rows.verdict(row) === 'fail', device = deviceAt.get(deviceOf(place)), step = stepAt.get(place[4]);
      const counts = this.failing.get(rows.place(row)) || [0, 0];
      this.failing.set(rows.place(row), [counts[0] + fails, counts[1] + (rows.verdict(row) === 'pass' || fails)]);
      const value = rows.metric(metric, row);
      if (rows.kind(row) !== 'output' || (value === null && !fails)) continue;
      for (const on of [device, 'all']) this.see(rows.text('op', row), on, step, {row, fails, value});
    }
    const names = ['all devices, the worst', ...this.devices.map((name) => 'device ' + (name === null ? '–' : name))];
    this.deviceChoice.replaceChildren(...names.map((name, at) => make('option', {value: at ? at - 1 : 'all'}, printable(name))));
    this.deviceChoice.value = this.devices.includes(before) ? this.devices.indexOf(before) : 'all';
    this.deviceMap.show(this.devices.map(label), this.steps.map(label), (device, step) => this.count(device, step), (device, step) => this.count(device, step) > 0,
      (device, step) => this.count(device, step), [...this.failing.values()].reduce((most, [, all]) => Math.max(most, all), 1));
    this.drawOps();
  }

  // What a merge has at worst over all devices; null where the chosen places are not all of their model.
  overDevices(mine) {
    const [first] = mine.values(), model = first && first[2];
    if (!this.rows.over || !first || this.rows.places.filter((place) => place[2] === model).length > mine.size) return null;
    return this.rows.over.models.find((one) => one.model === model) || null;
  }

  // Take what an op is on a device, or on all, in a step, if it is the worst so far.
  see(op, on, step, found) {
    if (step === undefined) return;
    if (!this.ops.has(op)) this.ops.set(op, this.ops.size);
    const key = this.ops.get(op) + '/' + on + '/' + step, known = this.worst.get(key);
    const more = known && this.rank(found.fails, found.value) - this.rank(known.fails, known.value);
    if (!known || more > 0 || (more === 0 && known.row === null)) this.worst.set(key, found);
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
    const partly = this.rows.unstored.size && !(this.over && this.device === 'all');
    // Whether a value of which no row is stored is outside its limits is not known where such rows had no room.
    const marked = [...this.mine.keys()].some((number) => (this.rows.unstored.get(number) || [0])[0]) ? ', marked where the failing row is stored' : '';
    this.opsHead.textContent = 'Ops × steps: ' + distanceHeading(this.metric()) + (partly ? ', of the rows that the merge stores' : marked);
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
    const partly = this.merged && !(this.over && this.device === 'all');
    if (!found) return [name, where, partly ? 'no row is stored here' : 'was not compared'];
    if (found.row === null) return [name, where, distanceHeading(this.metric()) + ' ' + digits(found.value, 4) + ' at worst; no row of that is stored'];
    const place = this.rows.placeText(this.rows.place(found.row));
    return [name, place, distanceHeading(this.metric()) + ' ' + digits(found.value, 4) + ', ' + words(this.rows.verdict(found.row))];
  }

  choosePlace(device, step) {
    const place = this.placeAt.get(device + '/' + step);
    if (place !== undefined) this.choose(place, null);
  }

  chooseOp(op, step) {
    const found = this.cell(op, step);
    if (found && found.row !== null) this.choose(this.rows.place(found.row), found.row);
  }
}

function positions(names) {
  return new Map(names.map((name, at) => [name, at]));
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
