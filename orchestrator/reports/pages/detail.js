const MOST_NEIGHBOURS = 12;

// One row in detail: all metrics, shapes and files; histogram and axes where compare-op has looked at the tensor.

class Detail {
  // extra: {details: by row, commands: by op; link(row): how a row is named in addresses, by its number without; find(fragment): the row that one names; lacking(): why none is}; neighbour(row, step) gives the row before or behind; changed(row or null) is told.
  constructor(rows, panel, extra, neighbour, changed) {
    this.rows = rows;
    this.panel = panel;
    this.extra = extra;
    this.neighbour = neighbour;
    this.changed = changed;
    this.row = null;
    document.addEventListener('keydown', (event) => { if (event.key === 'Escape' && this.row !== null) this.close(); });
    window.addEventListener('hashchange', () => this.follow());
  }

  // Show the row that the address names, or none.
  follow() {
    const row = this.extra.find ? this.extra.find(location.hash) : linkedRow(this.rows, location.hash);
    tellAddress(location.hash, row !== null || !namesRow(location.hash) ? '' : this.extra.lacking ? this.extra.lacking() : 'has no row here');
    if (row === this.row) return;
    if (row === null) this.hide();
    else this.show(row);
  }

  address(row) {
    return this.extra.link ? this.extra.link(row) : '#row-' + (this.rows.rank(row) + 1);
  }

  open(row) {
    location.hash = this.address(row);  // its event comes later, and finds the row shown
    this.show(row);
  }

  close() {
    history.pushState(null, '', location.pathname + location.search);
    tellAddress('', '');
    this.hide();
  }

  hide() {
    this.row = null;
    this.panel.hidden = true;
    this.changed(null);
    // The table has made its lines anew meanwhile.
    const back = this.before && this.before.isConnected && this.before !== document.body ? this.before : document.querySelector('#rows tr[tabindex="0"]');
    if (back) back.focus({preventScroll: true});
    this.before = null;
  }

  show(row) {
    if (this.row === null) this.before = document.activeElement;
    this.row = row;
    this.panel.dataset.tensor = this.rows.text('tensor', row);
    this.panel.replaceChildren(this.bar(row), ...this.about(row), ...this.around(row), ...this.metrics(row), ...this.overSteps(row), ...this.closer(row));
    addCopyButtons(this.panel);
    this.panel.hidden = false;
    this.panel.scrollTop = 0;
    if (this.curveDue) this.curveDue();
    this.changed(row);
    this.panel.focus({preventScroll: true});
  }

  bar(row) {
    const bar = make('div', {class: 'bar'});
    for (const [step, said, name] of [[-1, '↑', 'the row before'], [1, '↓', 'the next row']]) {
      const other = this.neighbour(row, step);
      const button = make('button', {type: 'button', 'aria-label': name, title: name, disabled: other === null ? '' : null}, said);
      button.addEventListener('click', () => this.open(other));
      bar.append(button);
    }
    const close = make('button', {type: 'button', class: 'close'}, 'close (Esc)');
    close.addEventListener('click', () => this.close());
    bar.append(make('a', {href: this.address(row)}, 'link'), close);
    return bar;
  }

  about(row) {
    const rows = this.rows, verdict = rows.verdict(row), text = (name) => printable(rows.text(name, row));
    const head = make('h2', {class: 'name'}, text('tensor'));
    const said = make('p', {}, [make('span', {class: 'verdict', 'data-is': verdict}, words(verdict)), text('reason') ? ': ' + sentenceText(text('reason')) : '']);
    const slice = rows.column('slice', row), number = rows.column('op_sequence', row), overflow = rows.column('overflow', row);
    const others = {
      op_type: [['number in the model', number === null ? '' : String(number)]],
      warning: [
        ['worst slice', slice === null ? '' : 'index ' + slice[1] + ' of axis ' + slice[0]], ['NaN', sides(rows.column('nan', row))],
        ['Inf', sides(rows.column('inf', row))], ['overflow', overflow === null ? '' : overflow ? 'yes' : 'no'],
      ],
    };
    const shown = {golden: (value) => (value === '*' ? '' : value), warning: words};
    const facts = [['where', rows.placeText(rows.place(row))]];
    for (const name in ROW_LABELS) {
      if (name === 'tensor' || name === 'reason') continue;
      facts.push([ROW_LABELS[name], (shown[name] || String)(text(name))], ...(others[name] || []));
    }
    const list = make('dl');
    for (const [name, value] of facts) if (value) list.append(make('dt', {}, name), make('dd', {class: 'name'}, value));
    return [head, said, list];
  }

  // The ops that feed this one, and those that it feeds, with their worst verdicts.
  around(row) {
    const found = this.neighboursOf && this.neighboursOf(this.rows.text('op', row)), verdicts = found ? worstVerdicts(this.rows) : null;
    const list = (title, names) => {
      const lines = names.slice(0, MOST_NEIGHBOURS).map((name) => {
        const known = verdicts.get(name), shown = shortened(name, LONGEST_WORD);
        const sign = known ? [make('span', {class: 'verdict', 'data-is': known}, words(known)), ' '] : [];
        return make('li', {}, [...sign, known ? make('a', {class: 'name', href: '#op-' + encodeURIComponent(name)}, shown) : make('span', {class: 'name'}, shown)]);
      });
      const more = names.length - lines.length;
      return names.length ? [make('h3', {}, title), make('ul', {class: 'neighbours'}, [...lines, ...(more > 0 ? [make('li', {class: 'quiet'}, 'and ' + more + ' more')] : [])])] : [];
    };
    return found ? [...list('Fed by', found.before), ...list('Feeds', found.after)] : [];
  }

  metrics(row) {
    const rows = this.rows, lines = [];
    for (const name of rows.metricNames()) {
      const value = rows.metric(name, row);
      if (value === null) continue;
      lines.push([printable(name), name === 'CosineSimilarity' ? cosineText(value) : digits(value, 7), this.limit(name, row)]);
      if (name === 'CosineSimilarity') lines.push(['1 − CosineSimilarity', digits(value, 7), '']);
    }
    const deviation = rows.column('deviation', row);
    if (deviation) {
      lines.push(['StandardDeviation, target', digits(deviation[1], 7), ''], ['StandardDeviation, golden', digits(deviation[3], 7), '']);
      lines.push(['mean, target', digits(deviation[0], 7), ''], ['mean, golden', digits(deviation[2], 7), '']);
    }
    if (!lines.length) return [make('p', {class: 'quiet'}, 'There is no metric: nothing was compared.')];
    const body = lines.map(([name, value, limit]) => make('tr', {}, [make('th', {scope: 'row'}, name), make('td', {class: 'number'}, value), make('td', {class: 'number quiet'}, limit)]));
    return [make('h3', {}, 'Metrics'), make('table', {}, make('tbody', {}, body))];
  }

  // Where there are several steps, the tensor's error over them as a curve: of its own device, and of others beside it.
  overSteps(row) {
    const rows = this.rows, tensor = rows.text('tensor', row), kind = rows.kind(row), own = rows.places[rows.place(row)];
    const lines = new Map();
    this.curveDue = null;
    for (let other = 0; other < rows.length; other++) {
      const place = rows.places[rows.place(other)];
      if (rows.text('tensor', other) !== tensor || rows.kind(other) !== kind || place[2] !== own[2] || place[4] === null) continue;
      const device = deviceOf(place);
      if (!lines.has(device)) lines.set(device, new Map());
      lines.get(device).set(place[4], other);
    }
    const mine = lines.get(deviceOf(own)) || new Map(), steps = [...mine.keys()].sort(byNumber);
    if (steps.length < 2 || !rows.metricNames().length) return [];
    const devices = [...lines.keys()].filter((device) => device !== deviceOf(own)).sort(byNumber);
    const others = devices.map((device) => ({name: 'device ' + label(device), rows,
      rowOf: (item) => { const found = lines.get(device).get(rows.places[rows.place(item)][4]); return found === undefined ? null : found; }}));
    if (!this.curve) {
      const parts = {frame: make('div', {class: 'frame', tabindex: 0, role: 'application', id: 'over-steps',
        'aria-label': 'the error of this tensor over the steps: up and down point at a step, Enter opens its row'}),
        choice: make('span', {role: 'group', 'aria-label': 'metrics'}), status: make('span', {role: 'status'}),
        axis: {words: 'steps', noun: 'step', label: (item) => label(rows.places[rows.place(item)][4])}};
      const holder = make('div', {}, [make('div', {class: 'choices'}, [parts.choice]), make('div', {}, [parts.frame]), make('p', {class: 'quiet'}, [parts.status])]);
      this.curve = {holder, plot: new Plot(rows, parts, (item) => this.open(item), new Set(), this.extra.limits)};
    }
    this.curve.plot.marked = new Set([row]);
    this.curveDue = () => this.curve.plot.show(steps.map((step) => mine.get(step)), others, 'device ' + label(deviceOf(own)));
    return [make('h3', {}, 'Over the steps'), this.curve.holder];
  }

  // The limit of a metric that decided about the row.
  limit(name, row) {
    for (const limit of this.rows.text('decided_by', row).split('; ')) {
      const found = /([A-Za-z0-9_]+)([<>]=?)([^<>=]+)$/.exec(limit);
      if (found && found[1] === name) return 'limit ' + found[2].replace('<=', '≤').replace('>=', '≥') + ' ' + found[3];
    }
    return '';
  }

  closer(row) {
    const found = this.extra.details[row], command = this.extra.commands[this.rows.text('op', row)];
    if (!found) {
      return command ? [make('h3', {}, 'Element by element'), make('p', {class: 'quiet'}, 'This command looks at every element; a report that is made afterwards shows here where the error sits.'),
        commandBlock(command)] : [];
    }
    const parts = [make('h3', {}, 'What the error looks like')];
    for (const one of found.findings) {
      parts.push(make('p', {}, [make('b', {}, one.kind), ' (' + digits(100 * one.share, 3) + ' %): ' + sentenceText(one.sentence)]));
    }
    if (found.bad !== undefined) parts.push(make('p', {class: 'quiet'}, found.bad + ' of ' + found.count + ' elements are off by more than rounding.'));
    parts.push(make('h3', {}, 'Histogram of the errors'), ...histogram(found.histogram, 'error'));
    if (found.signed_ulp_histogram) parts.push(make('h3', {}, 'Histogram in units of the last place'), ...histogram(found.signed_ulp_histogram, 'units'));
    parts.push(make('h3', {}, 'Where the error sits: share of the squared error along each axis'));
    for (const axis in found.where) parts.push(...axisHeat(axis, found.where[axis]));
    if (found.files.length) parts.push(make('h3', {}, 'Files'), ...found.files.map((name) => make('p', {class: 'name'}, printable(name))));
    return parts;
  }
}

function sides(counts) {
  return counts === null ? '' : counts[0] + ' in the target, ' + counts[1] + ' in golden data';
}

// As many digits as the distance to 1 vouches for.
function cosineText(value) {
  if (typeof value !== 'number') return digits(value, 7);
  const places = value === 0 ? 0 : Math.min(17, Math.max(1, 6 - Math.floor(Math.log10(Math.abs(value)))));
  return (1 - value).toFixed(places);
}

// Bars, each as high as the logarithm of its count; the counts and edges are told by a title.
function histogram(found, unit) {
  const {edges, counts} = found, most = Math.max(...counts, 1), wide = 600 / counts.length;
  const svg = make('svg', {class: 'bars', viewBox: '0 0 600 150', role: 'img', 'aria-label': 'histogram of ' + counts.length + ' bins'});
  counts.forEach((count, at) => {
    const high = count ? 8 + 100 * Math.log(1 + count) / Math.log(1 + most) : 0;
    const title = digits(edges[at], 3) + ' to ' + digits(edges[at + 1], 3) + ' ' + unit + ': ' + count + ' elements';
    svg.append(make('g', {}, [titled(make('rect', {x: at * wide + 1, y: 124 - high, width: Math.max(1, wide - 2), height: high, class: 'bar'}), title)]));
    if (wide > 26 && count) svg.append(make('text', {x: (at + 0.5) * wide, y: 120 - high, class: 'count'}, String(count)));
  });
  svg.append(make('line', {x1: 0, y1: 124, x2: 600, y2: 124, class: 'rule'}));
  const every = Math.ceil(edges.length / 7), last = edges.length - 1;
  edges.forEach((edge, at) => {
    if (at !== last && (at % every || last - at < every)) return;
    const anchor = at === 0 ? 'start' : at === last ? 'end' : 'middle', size = Math.abs(edge);
    const said = size >= 1e4 ? edge.toExponential(size % 10 ** Math.floor(Math.log10(size)) ? 1 : 0).replace('e+', 'e') : digits(edge, 3);
    svg.append(make('text', {x: at * wide, y: 142, class: 'edge', 'text-anchor': anchor}, said));
  });
  return [make('p', {class: 'quiet'}, 'How many elements have an error of this size; a bar grows with the logarithm of its count.'), svg];
}

// A strip of cells along an axis, the darker the more of the error lies there, and the strongest in words.
function axisHeat(axis, found) {
  const {shares, width, length} = found, most = Math.max(...shares, 1e-300), wide = 600 / shares.length;
  const svg = make('svg', {class: 'strip', viewBox: '0 0 600 26', preserveAspectRatio: 'none', role: 'img', 'aria-label': 'share of the error along axis ' + axis});
  shares.forEach((share, at) => {
    const from = at * width, last = Math.min(length, from + width) - 1;
    const title = 'index ' + (from === last ? from : from + ' to ' + last) + ': ' + digits(100 * share, 3) + ' %';
    svg.append(titled(make('rect', {x: at * wide, y: 0, width: Math.max(0.5, wide - (wide > 4 ? 1 : 0)), height: 26, class: 'heat', 'fill-opacity': 0.08 + 0.92 * share / most}), title));
  });
  const best = shares.indexOf(Math.max(...shares)), from = best * width, last = Math.min(length, from + width) - 1;
  const said = 'axis ' + axis + ' (' + length + '): most at index ' + (from === last ? from : from + ' to ' + last) + ', ' + digits(100 * shares[best], 3) + ' %';
  return [make('p', {class: 'quiet'}, said), svg];
}

// How others are led to a row: its op, and where its worst row is not meant, the tensor and the place.
function rowLink(rows, row) {
  const op = '#op-' + encodeURIComponent(rows.text('op', row));
  return worstRow(rows, rows.text('op', row)) === row ? op : op + '&' + encodeURIComponent(rowPart(rows, row));
}

function rowPart(rows, row) {
  return [rows.text('tensor', row), ...rows.places[rows.place(row)].map((part) => part || '')].join(' ');
}

// The row that an address names by its op (#op-NAME) or by its number in the table (#row-N), null where there is none (yet).
function linkedRow(rows, fragment) {
  const numbered = /^#row-(\d+)$/.exec(fragment);
  if (numbered) {
    for (let row = 0; row < rows.length; row++) if (rows.rank(row) + 1 === Number(numbered[1])) return row;
    return null;
  }
  const found = /^#op-([^&]+)(?:&(.+))?$/.exec(fragment);
  if (!found) return null;
  let op, part;
  try { [op, part] = found.slice(1).map((text) => (text === undefined ? null : decodeURIComponent(text))); } catch (error) { return null; }
  if (part === null) return worstRow(rows, op);
  for (let row = 0; row < rows.length; row++) if (rows.text('op', row) === op && rowPart(rows, row) === part) return row;
  return null;
}

function namesRow(fragment) {
  return /^#(op|row)-/.test(fragment);
}

// Say that what an address names is not here; an empty reason says that it is.
function tellAddress(fragment, reason) {
  const said = document.getElementById('address');
  said.hidden = !reason;
  let name = fragment.slice(fragment.indexOf('-') + 1).split('&')[0];
  try { name = decodeURIComponent(name); } catch (error) { /* shown as it is */ }
  said.textContent = reason ? 'The address names ' + (fragment.startsWith('#row-') ? 'row ' : 'the op ') + shortened(name, LONGEST_WORD) + ', which ' + reason + '.' : '';
}
