// The report of a run: reads the data, makes the parts, joins them by the row that is open.

// Make all parts over rows; extra: {suspects: [[op, row]], limits, details, commands, graphs}. A live page calls it with rows that grow, and
// with what Detail takes to name rows in addresses.
function showReport(rows, extra) {
  const at = (id) => document.getElementById(id), marked = new Set(extra.suspects.map(([, row]) => row).filter((row) => row !== null));
  at('rows-note').hidden = true;
  at('filter-part').hidden = false;
  let table = null, plot = null, overview = null, graphs = null, offered = '';
  const detail = new Detail(rows, at('detail'), extra, (row, step) => table.neighbour(row, step), (row) => {
    table.show(row);
    if (graphs && row !== null) graphs.show(rows.text('op', row));
  });
  detail.neighboursOf = (op) => (graphs ? graphs.neighbours(op) : null);
  const open = (row) => detail.open(row);
  table = new RowTable(rows, {view: at('rows-view'), table: at('rows'), filter: at('filter'), failing: at('only-failing'), status: at('rows-status')}, open, extra.suspects.map(([op]) => op));
  const places = choosePlaces(rows, extra, table, () => plot);
  // What needs metrics, or several places, comes as soon as there are some.
  const grow = () => {
    if (rows.places.length > 1 && !overview && (rows.metricNames().length || rows.over)) {
      at('overview').hidden = false;
      overview = new Overview(rows, at('overview-body'), (place, row) => {
        places.choose(place);
        if (row !== null) open(row);
      });
    }
    const metrics = rows.metricNames();
    if (!metrics.length) return;
    if (!plot) {
      at('network').hidden = at('two').hidden = false;
      plot = new Plot(rows, {frame: at('plot'), choice: at('plot-metrics'), status: at('plot-status')}, open, marked, extra.limits);
      new Scatter(rows, {frame: at('scatter'), across: at('two-x'), up: at('two-y')}, open);
      places.draw();
    } else if (offered !== metrics.join()) plot.offerMetrics();
    offered = metrics.join();
  };
  const network = (found) => {
    at('graph-part').hidden = !found.length;
    at('graph').replaceChildren();
    graphs = found.length ? reportGraphs(at('graph'), found, (op) => {
      const row = worstRow(rows, op);
      if (row !== null) open(row);
    }) : null;
  };
  const colour = () => {
    if (!graphs) return;
    const verdicts = worstVerdicts(rows);
    graphs.colour((op) => verdicts.get(op) || null);
  };
  const count = () => {
    const failing = rows.columns.verdict.filter((verdict) => rows.verdicts[verdict] === 'fail').length;
    at('only-failing').hidden = !failing && at('only-failing').getAttribute('aria-pressed') !== 'true';
    at('only-failing').textContent = 'only failing (' + failing + ')';
  };
  rows.onChange(() => { grow(); colour(); count(); });
  count();
  grow();
  network(extra.graphs);
  addCopyButtons(document);
  detail.follow();
  return {
    table, detail, open,
    // Draw networks that came later, without verdicts.
    network(found) { network(found); colour(); },
    // Mark other rows as suspects.
    mark(found) {
      marked.clear();
      for (const row of found) marked.add(row);
      table.suspects = new Set(found.filter((row) => row !== null).map((row) => rows.text('op', row)));
      places.prefer(found);
      places.draw();
    },
  };
}

// The worst verdict of each op.
function worstVerdicts(rows) {
  const found = new Map();
  for (let row = 0; row < rows.length; row++) {
    const op = rows.text('op', row), verdict = rows.verdict(row), known = found.get(op);
    if (known === undefined || URGENCY[verdict] < URGENCY[known]) found.set(op, verdict);
  }
  return found;
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
function choosePlaces(rows, extra, table, plotNow) {
  const at = (id) => document.getElementById(id), select = at('plot-place'), beside = at('plot-beside'), back = at('unrestrict');
  let place = 0;
  const items = (place) => {
    const found = [], others = [];
    for (let row = 0; row < rows.length; row++) {
      if (rows.place(row) !== place) continue;
      const has = rows.metricNames().some((name) => rows.metric(name, row) !== null);
      if (has) (rows.kind(row) === 'output' ? found : others).push(row);
    }
    // Rows of a run that goes on come in any order.
    return (found.length ? found : others).sort((a, b) => rows.rank(a) - rows.rank(b));
  };
  // The places whose lines are drawn beside that of the chosen one: those that differ in nothing but the device, or the step, or one.
  const others = () => {
    const mine = rows.places[place], parts = {devices: [1, 5], steps: [4, 0]}[beside.value];
    const differs = (other) => other.map((part, number) => (part === mine[number] ? null : number)).filter((number) => number !== null);
    const alike = (number) => { const found = differs(rows.places[number]); return found.length > 0 && found.every((part) => parts.includes(part) || part === 3 || part === 0); };
    return parts ? rows.placeOrder().filter(alike) : rows.placeOrder().filter((number) => beside.value !== '' && number === Number(beside.value) && number !== place);
  };
  const draw = () => {
    if (!plotNow()) return;
    const mine = items(place), found = others(), drawn = found.slice(0, MOST_LINES - 1);
    plotNow().show(mine, drawn.map((number) => ({name: rows.placeText(number), rows, rowOf: sameTensor(rows, items(number), {rows, of: mine})})), rows.placeText(place));
    at('plot-more').textContent = found.length > drawn.length ? drawn.length + ' of ' + found.length + ' are drawn' : '';
  };
  const offerBeside = () => {
    const chosen = beside.value, several = (part) => new Set(rows.places.map((one) => one[part])).size > 1;
    const all = [['', 'nothing'], ...(several(1) || several(5) ? [['devices', 'the other devices']] : []), ...(several(4) ? [['steps', 'the other steps']] : []),
      ...rows.placeOrder().map((number) => [String(number), rows.placeText(number)])];
    beside.replaceChildren(...all.map(([value, text]) => make('option', {value}, printable(text))));
    beside.value = all.some(([value]) => value === chosen) ? chosen : '';
  };
  beside.addEventListener('change', () => draw());
  const choose = (number) => {
    place = number;
    chosen = true;
    select.value = number;
    table.restrict((row) => rows.place(row) === number);
    back.hidden = false;
    back.textContent = 'only ' + rows.placeText(number) + ': show all places';
    draw();
  };
  const offer = () => {
    at('plot-place-label').hidden = at('plot-beside-label').hidden = rows.places.length < 2;
    offerBeside();
    select.replaceChildren(...rows.placeOrder().map((number) => make('option', {value: number}, printable(rows.placeText(number)))));
    select.value = place;
  };
  back.addEventListener('click', () => { back.hidden = true; table.restrict(null); });
  select.addEventListener('change', () => { place = Number(select.value); chosen = true; draw(); });
  // Until somebody chooses, that where something fails, also of rows that come later.
  let chosen = false;
  const prefer = (suspects) => {
    if (chosen || !rows.length) return;
    const first = suspects.find((row) => row !== null), failing = rows.columns.verdict.indexOf(rows.verdicts.indexOf('fail'));
    place = rows.place(first !== undefined ? first : Math.max(failing, 0));
  };
  prefer(extra.suspects.map(([, row]) => row));
  rows.onChange(() => {
    // A merge names places before it has rows of them.
    if (!rows.held.has(place)) prefer([]);
    offer();
    draw();
  });
  offer();
  draw();
  return {choose, draw, prefer(suspects) { prefer(suspects); offer(); }};
}

async function startReport() {
  try {
    const found = await readData('report');
    showReport(new Rows(found.rows), {...found, graphs: await readData('graphs')});
    await new Promise((done) => requestAnimationFrame(() => done()));
  } catch (error) {
    document.getElementById('rows-note').append(' They cannot be shown here: ' + error.message + '.');
  }
  ready();
}

if (document.getElementById('report')) startReport();
