// The rows of a run: columns out of a document, to which a live page appends. Views are told of changes, at most so often.

const TOLD_EVERY_MS = 250;

class Rows {
  constructor(document) {
    this.length = 0;
    this.places = [];
    this.verdicts = document.verdicts;
    this.kinds = document.kinds;
    this.texts = {};
    this.columns = {};
    this.metrics = {};
    this.listeners = [];
    this.searchable = [];
    this.took = 0;
    this.held = new Set();
    this.numbers = new Map();
    this.append(document);
    this.lack(document.unstored || [], document.over || null);
  }

  // What a merge counts and does not hold: for the number of a place [rows outside their limits, rows that pass, all]; and what it has at
  // worst over all devices, {metric, models: [{model, steps, ops, worst}]} or null.
  lack(found, over) {
    this.unstored = new Map(found.map(([parts, ...counts]) => [this.placeNumber(parts), counts]));
    this.over = over;
    this.changed();
  }

  // Take the rows of one more document of the same form.
  append(document) {
    const first = this.length, last = first + document.count;
    this.shortNames = null;
    const place = document.places.map((parts) => this.placeNumber(parts));
    for (const name in document.texts) {
      const [texts, at] = document.texts[name];
      extend(this.texts, name, first, at.map((number) => texts[number]));
    }
    for (const name in document.columns) extend(this.columns, name, first, document.columns[name]);
    for (const name in document.metrics) extend(this.metrics, name, first, document.metrics[name]);
    for (let row = first; row < last; row++) this.columns.place[row] = place[this.columns.place[row]];
    for (const number of place) this.held.add(number);
    this.length = last;
    this.changed();
  }

  changed() {
    if (!this.listeners.length || this.waiting) return;
    this.waiting = setTimeout(() => {
      this.waiting = 0;
      const began = performance.now();
      for (const listener of this.listeners) listener();
      this.took = performance.now() - began;
    }, Math.max(TOLD_EVERY_MS, 4 * this.took));
  }

  placeNumber(parts) {
    const key = JSON.stringify(parts), known = this.numbers.get(key);
    if (known !== undefined) return known;
    this.numbers.set(key, this.places.length);
    return this.places.push(parts) - 1;
  }

  // A row's place in the order of the table, from 0.
  rank(row) {
    return row;
  }

  // The numbers of the places as they are offered.
  placeOrder() {
    return this.places.map((_, number) => number).filter((number) => this.held.has(number));
  }

  onChange(listener) {
    this.listeners.push(listener);
  }

  text(name, row) {
    const column = this.texts[name];
    const value = column && column[row];
    return value === undefined || value === null ? '' : value;
  }

  // A row's tensor as it is shown in one line of text or more: whole, or so that it is no other's.
  name(row) {
    const name = this.text('tensor', row);
    if (name.length <= LONGEST_NAME) return printable(name);
    if (!this.shortNames) this.shortNames = shortenedAll(this.texts.tensor.filter((one) => one && one.length > LONGEST_NAME), LONGEST_NAME);
    return this.shortNames.get(name);
  }

  column(name, row) {
    const column = this.columns[name];
    return column === undefined || column[row] === undefined ? null : column[row];
  }

  verdict(row) {
    return this.verdicts[this.columns.verdict[row]];
  }

  kind(row) {
    return this.kinds[this.columns.kind[row]];
  }

  place(row) {
    return this.columns.place[row];
  }

  // A metric as the page holds it: a number, a text that is not finite, or null. Of CosineSimilarity it is the distance to 1.
  metric(name, row) {
    const column = this.metrics[name];
    return column === undefined || column[row] === undefined ? null : column[row];
  }

  // Whether a failing row breaks its limit of this metric; of a row that keeps all limits that the page can read every metric is outside.
  isOutside(name, row) {
    if (this.verdict(row) !== 'fail') return false;
    const limits = limitsOf(this.text('decided_by', row));
    const broken = (metric) => limits[metric] !== undefined && !limits[metric](this.metric(metric, row));
    return broken(name) || !Object.keys(limits).some(broken);
  }

  metricNames() {
    return Object.keys(this.metrics);
  }

  // The rows that hold all words of a text in any case: in tensor, op, type or verdict.
  matching(text) {
    const found = [], wanted = wordsOf(text);
    for (let row = this.searchable.length; row < this.length; row++) {
      const verdict = this.verdict(row);
      this.searchable.push(
        [this.text('tensor', row), this.text('op', row), this.text('op_type', row), verdict, words(verdict)].join('\n').toLowerCase());
    }
    for (let row = 0; row < this.length; row++) if (wanted.every((word) => this.searchable[row].includes(word))) found.push(row);
    return found;
  }

  // The parts of a place that differ between places: [number of the part, its name].
  placeParts() {
    const all = [[5, 'host'], [4, 'step'], [1, 'device'], [2, 'model'], [3, 'model id'], [0, 'time']];
    // A merge holds rows of few of its places.
    const merged = this.places.length > 0 && this.places[0][5] !== undefined;
    return all.filter(([at]) => (merged && [5, 4, 1].includes(at)) || this.places.some((place) => place[at] !== this.places[0][at]));
  }

  // How many rows are counted and not held.
  unstoredCount() {
    return [...this.unstored.values()].reduce((sum, [, , all]) => sum + all, 0);
  }

  // The parts that are needed to tell one place from another on paper: model, its number and time only where those before do not.
  neededParts() {
    const found = [], told = () => new Set(this.places.map((place) => JSON.stringify(found.map((at) => place[at])))).size;
    for (const [at] of this.placeParts()) if ([5, 4, 1].includes(at) || told() < this.places.length) found.push(at);
    return found;
  }

  // What tells a row's place from the others', such as "step 3, device 1"; empty where there is one place only.
  placeText(number) {
    return this.placeParts().map(([at, name]) => name + ' ' + printable(this.places[number][at] || '–')).join(', ');
  }
}

function extend(table, name, length, values) {
  const column = table[name] || (table[name] = []);
  while (column.length < length) column.push(null);
  for (const value of values) column.push(value);
}

// One limit of a row's decided_by, what it is restricted to left out.
const LIMIT = /^(?:.*:)?([^:<>=]+)([<>]=?)([-+.0-9a-z]+)$/;

// The limits of a row's decided_by: for each metric what tells whether a distance keeps it.
const readLimits = {};

function limitsOf(decided) {
  if (!(decided in readLimits)) {
    const found = readLimits[decided] = {};
    for (const limit of decided.split('; ')) {
      const match = LIMIT.exec(limit);
      if (!match) continue;
      const most = match[1] === 'CosineSimilarity' ? 1 - Number(match[3]) : Number(match[3]);
      found[match[1]] = match[2].endsWith('=') ? (value) => value <= most : (value) => value < most;
    }
  }
  return readLimits[decided];
}

// Short names of the metrics for headings; what is drawn of the cosine is its distance to 1.
const HEADINGS = {
  CosineSimilarity: 'cosine', RelativeEuclideanDistance: 'relative distance', WorstSliceDistance: 'worst slice', MaxAbsoluteError: 'max abs. error',
  AccumulatedRelativeError: 'accum. rel. error', KullbackLeiblerDivergence: 'KL divergence', MeanAbsoluteError: 'mean abs. error',
  RootMeanSquareError: 'RMS error', MaxRelativeError: 'max rel. error', MeanRelativeError: 'mean rel. error', DifferentElements: 'different elements',
  DifferentCount: 'how many differ', FirstDifferent: 'first different', LargestUlps: 'largest ulps', DifferentStretches: 'different stretches',
};

function heading(name) {
  return HEADINGS[name] || printable(name);
}

function distanceHeading(name) {
  return name === 'CosineSimilarity' ? '1 − cosine' : heading(name);
}

// A metric for the eye. A cosine near 1 is written as its distance to 1: 1 − 3.2e-7.
function metricText(name, value, count) {
  if (name !== 'CosineSimilarity' || typeof value !== 'number') return digits(value, count);
  if (value === 0) return '1';
  if (Math.abs(value) >= 0.01) return digits(1 - value, count);
  return (value < 0 ? '1 + ' : '1 − ') + digits(Math.abs(value), count);
}
