// The report of a run: reads the data, makes the parts, joins them by the row that is open.

// Make all parts over rows; extra: {suspects: [[op, row]], limits, details, commands, graphs}. A live page calls it with rows that grow.
function showReport(rows, extra) {
  const at = (id) => document.getElementById(id), marked = new Set(extra.suspects.map(([, row]) => row).filter((row) => row !== null));
  const compared = rows.metricNames().length > 0;
  at('rows-note').hidden = true;
  for (const id of ['filter-part', ...(compared ? ['network', 'two'] : [])]) at(id).hidden = false;
  let table = null;
  let graphs = null;
  const detail = new Detail(rows, at('detail'), extra, (row, step) => table.neighbour(row, step), (row) => {
    table.show(row);
    if (graphs && row !== null) graphs.show(rows.text('op', row));
  });
  const open = (row) => detail.open(row);
  table = new RowTable(rows, {view: at('rows-view'), table: at('rows'), filter: at('filter'), status: at('rows-status')}, open);
  const places = choosePlaces(rows, extra, table, compared ? new Plot(rows, {frame: at('plot'), choice: at('plot-metrics'), status: at('plot-status')}, open, marked, extra.limits) : null);
  if (compared) new Scatter(rows, {frame: at('scatter'), across: at('two-x'), up: at('two-y')}, open);
  if (rows.places.length > 1 && compared) {
    at('overview').hidden = false;
    new Overview(rows, at('overview-body'), (place, row) => {
      places.choose(place);
      if (row !== null) open(row);
    });
  }
  if (extra.graphs.length) {
    at('graph-part').hidden = false;
    graphs = reportGraphs(at('graph'), extra.graphs, (op) => {
      const row = worstRow(rows, op);
      if (row !== null) open(row);
    });
  }
  addCopyButtons(document);
  detail.follow();
  return {table, detail, open};
}

// The row that shows an op best: the worst verdict, outputs before inputs; null where it has none.
function worstRow(rows, op) {
  let best = null, least = Infinity;
  for (let row = 0; row < rows.length; row++) {
    const rank = 2 * URGENCY[rows.verdict(row)] + (rows.kind(row) !== 'output');
    if (rank < least && rows.text('op', row) === op) { best = row; least = rank; }
  }
  return best;
}

// Which place of a training is plotted: at first that of the best suspect, else the first one that has something failing.
function choosePlaces(rows, extra, table, plot) {
  const at = (id) => document.getElementById(id), select = at('plot-place'), back = at('unrestrict');
  let place = 0;
  const items = () => {
    const found = [], others = [];
    for (let row = 0; row < rows.length; row++) {
      if (rows.place(row) !== place) continue;
      const has = rows.metricNames().some((name) => rows.metric(name, row) !== null);
      if (has) (rows.kind(row) === 'output' ? found : others).push(row);
    }
    // Rows of a run that goes on come in any order.
    return (found.length ? found : others).sort((a, b) => rows.column('index', a) - rows.column('index', b) || a - b);
  };
  const draw = () => { if (plot) plot.show(items()); };
  const choose = (number) => {
    place = number;
    select.value = number;
    table.restrict((row) => rows.place(row) === number);
    back.hidden = false;
    back.textContent = 'only ' + rows.placeText(number) + ': show all places';
    draw();
  };
  const offer = () => {
    at('plot-place-label').hidden = rows.places.length < 2;
    select.replaceChildren(...rows.places.map((_, number) => make('option', {value: number}, printable(rows.placeText(number)))));
    select.value = place;
  };
  back.addEventListener('click', () => { back.hidden = true; table.restrict(null); });
  select.addEventListener('change', () => { place = Number(select.value); draw(); });
  const first = extra.suspects.map(([, row]) => row).find((row) => row !== null);
  const failing = rows.columns.verdict.indexOf(rows.verdicts.indexOf('fail'));
  if (rows.length) place = rows.place(first !== undefined ? first : Math.max(failing, 0));
  rows.onChange(() => { offer(); draw(); });
  offer();
  draw();
  return {choose};
}

async function startReport() {
  try {
    const found = await readData('report');
    showReport(new Rows(found.rows), {...found, graphs: await readData('graphs')});
    await new Promise((done) => requestAnimationFrame(() => done()));
  } catch (error) {
    document.getElementById('rows-note').append(' The rest cannot be shown: ' + error.message + '.');
  }
  ready();
}

if (document.getElementById('report')) startReport();
