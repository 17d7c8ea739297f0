// The page of two results: the error of both along the network, and the filter of what changed.

function drawRuns(found) {
  const after = new Rows(found.after), before = new Rows(found.before), at = (id) => document.getElementById(id);
  if (!after.metricNames().length) return;
  at('network').hidden = false;
  at('place').textContent = found.place;
  const has = (rows, row) => rows.metricNames().some((name) => rows.metric(name, row) !== null);
  const all = (rows, kind) => [...Array(rows.length).keys()].filter((row) => has(rows, row) && (!kind || rows.kind(row) === kind));
  const outputs = all(after, 'output'), items = outputs.length ? outputs : all(after);
  const plot = new Plot(after, {frame: at('plot'), choice: at('plot-metrics'), status: at('plot-status')}, (row) => showChange(after.text('tensor', row)), new Set(), found.limits);
  plot.show(items, [{name: 'before', rows: before, rowOf: sameTensor(before, all(before), {rows: after, of: items})}], 'after');
  const first = items.findIndex((row) => after.text('tensor', row) === found.opens_at);
  if (first < 0) return;
  plot.point(first);
  const change = rowsOf().find((one) => one.dataset.tensor === found.opens_at);
  if (change) change.setAttribute('aria-current', 'true');
}

// Bring a tensor's change into sight.
function showChange(tensor) {
  const row = rowsOf().find((one) => one.dataset.tensor === tensor);
  document.getElementById('plot-status').textContent = printable(tensor) + (row ? ' is marked below' : ' is as before');
  for (const other of rowsOf()) other.removeAttribute('aria-current');
  if (!row) return;
  row.setAttribute('aria-current', 'true');
  row.scrollIntoView({block: 'center'});
}

function rowsOf() {
  return [...document.querySelectorAll('.changes tbody tr')];
}

function startDiff(found) {
  const rows = rowsOf(), texts = rows.map((row) => row.textContent.toLowerCase());
  const filter = document.getElementById('filter'), shown = document.getElementById('shown');
  if (rows.length > 1) {
    document.getElementById('finding').hidden = false;
    filter.addEventListener('input', () => {
      const wanted = wordsOf(filter.value);
      rows.forEach((row, at) => { row.hidden = !wanted.every((word) => texts[at].includes(word)); });
      for (const part of document.querySelectorAll('.changes')) part.hidden = !part.querySelector('tbody tr:not([hidden])');
      shown.textContent = wanted.length ? `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows` : '';
    });
  }
  if (found) drawRuns(found);
  ready();
}

readData('difference').then(startDiff, () => startDiff(null));
