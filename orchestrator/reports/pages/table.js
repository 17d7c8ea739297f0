// The table of all rows: only those in sight are in the document, however many there are. Names wrap, so rows differ in height: heights are
// guessed, and corrected as soon as a row has been in sight.

const ROW_WINDOW = 60, PRINTED_ROWS = 1000, PRINTED_METRICS = 4;
// Of a place: host, step and device.
const SHORT_PARTS = [5, 4, 1];

class RowTable {
  // parts: {view: what scrolls, table: the table with an empty head and body, filter: the input, failing: the button "only failing", status}; open(row) shows a row; suspects: names of ops.
  constructor(rows, parts, open, suspects) {
    this.rows = rows;
    this.suspects = new Set(suspects);
    this.paper = make('p', {class: 'paper'});
    parts.view.before(this.paper);
    this.parts = parts;
    this.open = open;
    this.body = parts.table.tBodies[0];
    this.order = [];
    this.heights = [];
    // What fails comes first, in the order of the network.
    this.sorted = {name: 'verdict', up: true};
    this.only = null;
    this.active = -1;
    this.wait = 0;
    this.makeHead();
    parts.filter.addEventListener('input', () => this.refilter());
    parts.failing.addEventListener('click', () => {
      parts.failing.setAttribute('aria-pressed', String(!this.onlyFailing()));
      this.refilter();
    });
    parts.view.addEventListener('scroll', () => this.later(), {passive: true});
    this.body.addEventListener('click', (event) => this.onClick(event));
    this.body.addEventListener('keydown', (event) => this.onKey(event));
    window.addEventListener('resize', () => { this.heights = []; this.later(); });
    onPrint((printing) => { if (printing) this.print(); else this.draw(true); });
    rows.onChange(() => { this.makeHead(); this.refilter(true); });
    this.refilter();
  }

  makeHead() {
    const metrics = this.rows.metricNames(), needed = this.rows.neededParts(), now = metrics.join() + needed.join();
    if (now === this.made) return;
    this.made = now;
    // On a phone the first metric is in sight: a verdict is its mark, and step and device stand below the tensor.
    const phone = window.innerWidth < 700, behind = [];
    this.below = phone ? this.rows.placeParts().filter(([at]) => needed.includes(at) && SHORT_PARTS.includes(at)) : [];
    const order = {name: 'order', title: '#', width: 7, number: true, key: (row) => this.rows.rank(row), cell: (row) => String(this.rows.rank(row) + 1)};
    this.columns = [
      {name: 'tensor', title: 'tensor', width: 0, key: (row) => this.rows.text('tensor', row)},
      {name: 'verdict', title: 'verdict', width: phone ? 8 : 17, key: (row) => URGENCY[this.rows.verdict(row)]},
    ];
    if (phone) behind.push(order);
    else this.columns.unshift(order);
    // Of several places, and on a phone, the metrics come before what is long and mostly alike.
    const type = {name: 'op_type', title: 'type', width: 15, key: (row) => this.rows.text('op_type', row)}, late = needed.length || phone;
    (late ? behind : this.columns).push(type);
    for (const [part, name] of this.rows.placeParts().filter(([at]) => needed.includes(at))) {
      const cell = (row) => printable(this.rows.places[this.rows.place(row)][part] || '–');
      const key = (row) => { const value = this.rows.places[this.rows.place(row)][part]; return value === null || value === '' || isNaN(value) ? value : Number(value); };
      const long = !SHORT_PARTS.includes(part);
      (long || phone ? behind : this.columns).push({name, title: name, width: part === 2 ? 30 : long && part !== 3 ? 20 : 8, key, cell});
    }
    for (const [at, name] of metrics.entries()) {
      this.columns.push({name, metric: true, more: at >= PRINTED_METRICS, title: heading(name), width: name === 'CosineSimilarity' ? 15 : 12.5, number: true, key: (row) => sortable(name, this.rows.metric(name, row)),
        cell: (row) => metricText(name, this.rows.metric(name, row), 4)});
    }
    this.columns.push(...behind);
    const columns = make('colgroup', {}, this.columns.map((column) => make('col', {class: kindOf(column), 'data-column': column.name})));
    columns.querySelectorAll('col').forEach((col, at) => { if (this.columns[at].width) col.style.width = this.columns[at].width + 'ch'; });
    const cells = this.columns.map((column) => {
      const head = make('th', {scope: 'col', 'data-column': column.name, 'data-title': column.title, 'data-metric': column.metric ? column.name : null,
        class: kindOf(column), title: column.metric ? column.name : null}, make('button', {type: 'button'}, column.title));
      head.addEventListener('click', () => this.sortBy(column));
      return head;
    });
    this.parts.table.replaceChildren(...[columns, make('thead', {}, make('tr', {}, cells)), this.body]);
    this.parts.table.toggleAttribute('data-places', needed.length > 0);
    this.fixed = this.columns.reduce((sum, column) => sum + column.width, 0);
    this.parts.table.style.minWidth = 'calc(' + this.fixed + 'ch + ' + (phone ? 10 : 22) + 'rem)';
    this.models = this.columns.some((column) => column.name === 'model');
    this.markSorted();
  }

  markSorted() {
    for (const head of this.parts.table.tHead.rows[0].cells) {
      const mine = head.dataset.column === this.sorted.name;
      head.setAttribute('aria-sort', mine ? (this.sorted.up ? 'ascending' : 'descending') : 'none');
    }
  }

  // The worst first at the first click: small cosines, large distances, failing verdicts.
  sortBy(column) {
    const up = this.sorted.name === column.name ? !this.sorted.up : !column.metric || column.name === 'CosineSimilarity';
    this.sorted = {name: column.name, up};
    this.markSorted();
    this.arrange();
    this.parts.view.scrollTop = 0;
    this.draw(true);
  }

  // Show only rows of which keep(row) is true (null: all), besides the filter's text.
  restrict(keep) {
    this.only = keep;
    this.refilter();
  }

  // Filter and sort anew; where rows only came, what is in sight stays there.
  refilter(stay) {
    const found = this.rows.matching(this.parts.filter.value);
    const failing = found.filter((row) => this.rows.verdict(row) === 'fail');
    this.order = (this.onlyFailing() ? failing : found).filter((row) => !this.only || this.only(row));
    this.parts.table.dataset.shown = this.order.length;
    this.parts.table.setAttribute('aria-rowcount', this.order.length + 1);
    const all = this.rows.length;
    this.parts.status.textContent = (this.order.length === all ? '' : this.order.length + ' of ') + all + (all === 1 ? ' row' : ' rows') + this.unstored();
    const active = stay && this.active >= 0 ? this.arranged[this.active] : null;
    this.arrange();
    if (stay) this.active = this.order.indexOf(active);
    else this.parts.view.scrollTop = 0;
    this.draw(true);
  }

  onlyFailing() {
    return this.parts.failing.getAttribute('aria-pressed') === 'true';
  }

  // How many rows a merge has besides.
  unstored() {
    const count = this.rows.unstoredCount();
    return count ? ' of ' + (this.rows.length + count) + ', of which the merge stores no others' : '';
  }

  arrange() {
    const column = this.columns.find((one) => one.name === this.sorted.name) || this.columns[0];
    const keys = new Map(this.order.map((row) => [row, column.key(row)])), sign = this.sorted.up ? 1 : -1;
    this.order.sort((a, b) => {
      const x = keys.get(a), y = keys.get(b);
      // What has no number is last either way.
      if (x === null || y === null) return (x === null) - (y === null) || a - b;
      return (x < y ? -sign : x > y ? sign : 0) || a - b;
    });
    this.active = -1;
    this.arranged = this.order;
  }

  later() {
    if (!this.wait) this.wait = requestAnimationFrame(() => { this.wait = 0; this.draw(false); });
  }

  height(row) {
    if (this.heights[row] === undefined) {
      const letters = this.letters, name = Math.min(this.rows.text('tensor', row).length, LONGEST_NAME + 30);
      const model = this.models ? String(this.rows.places[this.rows.place(row)][2]).length : 0;
      const lines = Math.max(Math.ceil(name / letters), Math.ceil(this.rows.text('op_type', row).length / 13), Math.ceil(model / 28), 1);
      return lines * 20 + 11 + (this.below.length ? 20 : 0);
    }
    return this.heights[row];
  }

  nameWidth() {
    const at = this.columns.findIndex((column) => column.name === 'tensor');
    const width = this.parts.table.tHead.rows[0].cells[at].clientWidth;
    return width > 40 ? width - 16 : 300;
  }

  // Draw the rows in sight; all of them anew where `fresh`.
  draw(fresh) {
    const view = this.parts.view, count = this.order.length;
    this.letters = Math.max(8, Math.floor(this.nameWidth() / 8));
    let above = 0, first = 0;
    const wanted = view.scrollTop - 400;
    while (first < count && above + this.height(this.order[first]) < wanted) above += this.height(this.order[first++]);
    const last = Math.min(first + ROW_WINDOW, count);
    let below = 0;
    for (let at = last; at < count; at++) below += this.height(this.order[at]);
    if (fresh || first !== this.first || last !== this.last) this.fill(first, last);
    this.parts.table.parentNode.style.paddingTop = above + 'px';
    this.parts.table.parentNode.style.paddingBottom = below + 'px';
    for (const line of this.body.rows) this.heights[line.dataset.row] = line.offsetHeight || this.heights[line.dataset.row];
  }

  fill(first, last) {
    const focused = this.body.contains(document.activeElement);
    this.first = first;
    this.last = last;
    const lines = [];
    for (let at = first; at < last; at++) lines.push(this.line(at));
    this.body.replaceChildren(...lines);
    if (focused) this.focusActive();
  }

  line(at) {
    const row = this.order[at], rows = this.rows, verdict = rows.verdict(row);
    const cells = this.columns.map((column) => {
      if (column.name === 'tensor') {
        const name = rows.text('tensor', row);
        return make('td', {class: 'name', title: name.length > LONGEST_NAME ? printable(name) : null}, [...breakable(rows.name(row)), ...this.where(row)]);
      }
      if (column.name === 'verdict') return make('td', {}, make('span', {class: 'verdict', 'data-is': verdict}, words(verdict)));
      if (column.name === 'op_type') return make('td', {class: 'type'}, shortened(rows.text('op_type', row), 80));
      return make('td', {class: kindOf(column)}, column.cell(row));
    });
    const chosen = row === this.opened;
    return make('tr', {'data-row': row, 'data-tensor': rows.text('tensor', row), 'data-verdict': verdict, 'aria-rowindex': at + 2,
      tabindex: at === Math.max(this.active, 0) || (at === this.first && this.active < 0) ? 0 : -1, 'aria-selected': chosen ? 'true' : null}, cells);
  }

  // On a phone, where the row belongs.
  where(row) {
    const place = this.rows.places[this.rows.place(row)];
    return this.below.length ? [make('div', {class: 'where'}, this.below.map(([at, name]) => name + ' ' + printable(place[at] || '–')).join(' · '))] : [];
  }

  onClick(event) {
    const line = event.target.closest('tr[data-row]');
    // Whoever selects text does not mean the row.
    if (!line || String(getSelection())) return;
    this.active = this.order.indexOf(Number(line.dataset.row));
    this.open(Number(line.dataset.row));
  }

  onKey(event) {
    const line = event.target.closest('tr[data-row]');
    if (!line || event.ctrlKey || event.altKey || event.metaKey) return;
    const at = this.order.indexOf(Number(line.dataset.row)), last = this.order.length - 1;
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      this.active = at;
      this.open(this.order[at]);
      return;
    }
    const steps = {ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + 15, PageUp: at - 15, Home: 0, End: last};
    if (!(event.key in steps)) return;
    event.preventDefault();
    this.active = Math.min(last, Math.max(0, steps[event.key]));
    this.reveal(this.active);
    this.focusActive();
  }

  focusActive() {
    const line = this.body.querySelector('tr[aria-rowindex="' + (this.active + 2) + '"]');
    if (line) line.focus({preventScroll: true});
  }

  // Scroll so that the row at this place of the order is in sight.
  reveal(at) {
    const view = this.parts.view, head = this.parts.table.tHead.offsetHeight;
    let top = 0;
    for (let before = 0; before < at; before++) top += this.height(this.order[before]);
    const bottom = top + this.height(this.order[at]) + head;
    if (top < view.scrollTop) view.scrollTop = top;
    else if (bottom > view.scrollTop + view.clientHeight - 20) view.scrollTop = bottom - view.clientHeight + 20;
    this.draw(true);
  }

  // Mark a row as the one that is open, and bring it into sight where the filter shows it.
  show(row) {
    this.opened = row;
    const at = this.order.indexOf(row);
    if (at >= 0) {
      this.active = at;
      this.reveal(at);
    } else this.draw(true);
  }

  // The row before or behind another in the present order; null at the ends.
  neighbour(row, step) {
    const at = this.order.indexOf(row) + step;
    return at >= 0 && at < this.order.length ? this.order[at] : null;
  }

  // On paper, of more rows than are printed, unless they were sorted otherwise: those of the suspects, then the worst.
  print() {
    const left = this.columns.filter((column) => column.more).length, all = this.columns.filter((column) => column.metric).length;
    const said = left ? [all - left + ' of ' + all + ' metrics are printed; all are printed of a row that is open.'] : [];
    const order = this.order, worst = ['order', 'verdict'].includes(this.sorted.name) && this.sorted.up;
    if (order.length > PRINTED_ROWS) {
      this.order = (worst ? worstFirst(this.rows, order, this.suspects) : order).slice(0, PRINTED_ROWS);
      const which = worst ? 'those of the suspects, then the worst.' : 'the first ones in this order.';
      said.unshift('Printed are ' + PRINTED_ROWS + ' of ' + order.length + ' rows: ' + which);
    }
    this.paper.textContent = said.join(' ');
    this.fill(0, this.order.length);
    this.order = order;
    this.parts.table.parentNode.style.paddingTop = this.parts.table.parentNode.style.paddingBottom = '0';
    this.first = -1;
  }
}

function kindOf(column) {
  return [column.number ? 'number' : '', column.more ? 'more' : ''].filter(Boolean).join(' ') || null;
}

// Rows, those of some ops at places where these fail first, then by verdict, the largest error first.
function worstFirst(rows, order, ops) {
  const name = rows.metrics.RelativeEuclideanDistance ? 'RelativeEuclideanDistance' : rows.metricNames()[0];
  const error = (value) => (typeof value === 'number' ? value : value === null ? -1 : Infinity);
  const placed = (row) => rows.place(row) + ' ' + rows.text('op', row);
  const failing = new Set(order.filter((row) => ops.has(rows.text('op', row)) && rows.verdict(row) === 'fail').map(placed));
  const keys = new Map(order.map((row) => [row, [!failing.has(placed(row)), URGENCY[rows.verdict(row)], -error(name ? rows.metric(name, row) : null)]]));
  return [...order].sort((a, b) => {
    const x = keys.get(a), y = keys.get(b), at = x.findIndex((part, number) => part !== y[number]);
    return at < 0 ? a - b : x[at] < y[at] ? -1 : 1;
  });
}

// What a metric is sorted by: the cosine itself, not its distance to 1.
function sortable(name, value) {
  if (value === 'Infinity') return Infinity;
  if (value === '-Infinity') return -Infinity;
  return typeof value !== 'number' ? null : name === 'CosineSimilarity' ? -value : value;
}
