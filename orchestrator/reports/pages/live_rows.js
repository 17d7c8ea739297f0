// The rows of a run that goes on, as the service tells of them.

// Rows as result.json has them, kept as Rows keeps them. A row that was found again takes the place of the one before.
class LiveRows extends Rows {
  constructor() {
    super(columnsOf([]));
    this.known = new Map();
    this.ranks = null;
    this.decided = new Set();
    this.limits = {};
  }

  take(found) {
    const fresh = [];
    for (const row of found) {
      this.limit(row.decided_by);
      const key = JSON.stringify([row.host, row.time, row.device, row.model, row.model_id, row.step, row.target_file, row.op, row.kind, row.tensor_index]);
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
    this.ranks = null;
  }

  // Rows come in any order: theirs is that of the tables, place by place along the network.
  rank(row) {
    if (this.ranks === null) {
      const places = [], numbers = this.columns, order = Array.from({length: this.length}, (_, at) => at);
      this.placeOrder().forEach((number, at) => { places[number] = at; });
      order.sort((a, b) => places[numbers.place[a]] - places[numbers.place[b]] || numbers.index[a] - numbers.index[b]
        || (numbers.op_sequence[a] || 0) - (numbers.op_sequence[b] || 0) || numbers.kind[a] - numbers.kind[b] || numbers.tensor[a] - numbers.tensor[b] || a - b);
      this.ranks = new Array(this.length);
      order.forEach((number, at) => { this.ranks[number] = at; });
    }
    return this.ranks[row];
  }

  placeOrder() {
    return super.placeOrder().sort((a, b) => {
      for (const part of [5, 0, 1, 2, 3, 4]) {
        const [x, y] = [this.places[a][part] || '', this.places[b][part] || ''];
        if (x !== y) return Number(x) - Number(y) || (x < y ? -1 : 1);
      }
      return 0;
    });
  }

  // Limits to draw, as distances: those that are the same for all rows.
  limit(decided) {
    if (this.decided.has(decided)) return;
    this.decided.add(decided);
    for (const limit of decided.split('; ')) {
      const match = LIMIT.exec(limit);
      if (!match) continue;
      const value = match[1] === 'CosineSimilarity' ? 1 - Number(match[3]) : Number(match[3]);
      this.limits[match[1]] = match[1] in this.limits && this.limits[match[1]] !== value ? null : value;
    }
  }

  replace(at, row) {
    const document = columnsOf([row]);
    const put = (table, name, value) => { (table[name] || (table[name] = []))[at] = value; };
    for (const name in document.texts) put(this.texts, name, document.texts[name][0][0]);
    for (const name in document.columns) put(this.columns, name, document.columns[name][0]);
    for (const name in this.metrics) if (!(name in document.metrics)) this.metrics[name][at] = null;
    for (const name in document.metrics) put(this.metrics, name, document.metrics[name][0]);
    this.columns.place[at] = this.placeNumber(document.places[0]);
    this.held.add(this.columns.place[at]);
    this.searchable.length = Math.min(this.searchable.length, at);
  }
}

const LIVE_VERDICTS = ['pass', 'fail', 'not_compared', 'expected_absent'], LIVE_KINDS = ['input', 'output', 'op'];
const LIVE_FIRST = ['CosineSimilarity', 'RelativeEuclideanDistance', 'WorstSliceDistance', 'MaxAbsoluteError'];

// The document that Rows.append takes of rows of result.json.
function columnsOf(rows) {
  const texts = {}, metrics = {}, each = (value) => rows.map(value);
  const plain = (value) => (value === null || value === undefined ? null : String(value));
  for (const name in ROW_LABELS) texts[name] = [each((row) => plain(row[name])), rows.map((_, at) => at)];
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
      index: each((row) => row.index), tensor: each((row) => row.tensor_index), op_sequence: each((row) => row.op_sequence), nan: counts('nan'), inf: counts('inf'),
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
