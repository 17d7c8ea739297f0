// The error of every op along the network: several metrics over the order of the ops, on a scale of powers of ten.

const PLOT_LEFT = 52, PLOT_RIGHT = 14, PLOT_TOP = 16, PLOT_BOTTOM = 34, LEAST_SPAN = 4, MOST_SERIES = 4, MOST_LINES = 8;

// For each row of one run that of the same tensor in another: of several that are alike each its own.
function sameTensor(rows, of, mine) {
  const waiting = new Map(), found = new Map(), key = (all, row) => all.kind(row) + ' ' + all.text('tensor', row);
  for (const row of of) {
    const name = key(rows, row);
    if (!waiting.has(name)) waiting.set(name, []);
    waiting.get(name).push(row);
  }
  for (const row of mine.of) found.set(row, (waiting.get(key(mine.rows, row)) || []).shift());
  return (row) => { const other = found.get(row); return other === undefined ? null : other; };
}

class Plot {
  // parts: {frame: what can have the focus, choice: where the metrics are chosen, status, axis: what stands below, {words, noun, label(item)}
  // where it is not the network}; open(row) shows a row.
  // marked: rows to mark as suspects. limits: {metric: limit} to draw.
  constructor(rows, parts, open, marked, limits) {
    this.rows = rows;
    this.parts = parts;
    this.open = open;
    this.marked = marked;
    this.limits = limits;
    this.axis = parts.axis || {words: 'tensors in the order of the network', noun: 'tensor', label: (item, at) => String(at + 1)};
    this.items = [];
    this.others = [];
    this.legend = make('p', {class: 'legend', hidden: ''});
    parts.frame.before(this.legend);
    this.cursor = -1;
    this.pointers = new Map();
    this.chosen = ['CosineSimilarity', 'RelativeEuclideanDistance'].filter((name) => rows.metrics[name]);
    if (!this.chosen.length) this.chosen = rows.metricNames().slice(0, 1);
    this.drawing = new Drawing(parts.frame, window.innerWidth < 700 ? 260 : 340, (...to) => this.paint(...to));
    this.offerMetrics();
    this.listen();
  }

  // Show these rows, in this order; where they only grew, what was zoomed stays. Others are shown beside them by one metric:
  // {name, rows, rowOf(item): their row of the same tensor or null}; own is what these rows are called then.
  show(items, others = [], own = '') {
    this.own = own;
    this.others = others.slice(0, MOST_LINES - 1);
    const grew = this.items.length && items[0] === this.items[0] && items.length >= this.items.length;
    const zoomed = grew && (this.from > 0 || this.to < this.items.length - 1);
    this.items = items;
    this.cursor = -1;
    this.drawing.tell(null);
    if (zoomed) this.span(this.from, this.to);
    else this.span(0, items.length - 1);
  }

  offerMetrics() {
    const buttons = this.rows.metricNames().map((name) => {
      const button = make('button', {type: 'button', 'data-plot': name, 'aria-pressed': 'false'}, distanceHeading(name));
      button.addEventListener('click', () => {
        const at = this.chosen.indexOf(name);
        if (this.others.length) this.chosen = [name];
        else if (at >= 0 && this.chosen.length > 1) this.chosen.splice(at, 1);
        else if (at < 0) this.chosen = [...this.chosen.slice(-(MOST_SERIES - 1)), name];
        this.pressed();
        this.drawing.draw();
      });
      return button;
    });
    this.parts.choice.replaceChildren(...buttons);
    this.pressed();
  }

  pressed() {
    for (const button of this.parts.choice.children) {
      const at = this.shownMetrics().indexOf(button.dataset.plot);
      button.setAttribute('aria-pressed', at >= 0);
      button.dataset.series = at >= 0 && !this.others.length ? at + 1 : '';
    }
  }

  shownMetrics() {
    return this.others.length ? this.chosen.slice(-1) : this.chosen;
  }

  // What is drawn: a line for each metric, or one for these rows and for each of the others.
  lines() {
    const mine = {name: this.own, rows: this.rows, rowOf: (row) => row}, [metric] = this.shownMetrics();
    if (this.others.length) return [mine, ...this.others].map((one) => ({...one, metric}));
    return this.chosen.map((name) => ({...mine, name: distanceHeading(name), metric: name}));
  }

  valueOf(line, item) {
    const row = line.rowOf(item);
    return row === null ? null : line.rows.metric(line.metric, row);
  }

  fails(line, item) {
    return line.rows.isOutside(line.metric, line.rowOf(item));
  }

  tellLines() {
    this.legend.hidden = !this.others.length;
    this.legend.replaceChildren(...(this.others.length ? this.lines() : []).flatMap((line, at) => [make('span', {class: 'series-' + (at + 1)}, ['●']), ' ' + line.name + ' ']));
  }

  span(from, to) {
    const last = Math.max(this.items.length - 1, 0), least = Math.min(LEAST_SPAN, last);
    let width = Math.min(Math.max(Math.round(to - from), least), last);
    this.from = Math.min(Math.max(0, Math.round(from)), last - width);
    this.to = this.from + width;
    this.parts.frame.dataset.from = this.from;
    this.parts.frame.dataset.to = this.to;
    const count = this.items.length;
    this.pressed();
    this.tellLines();
    this.parts.status.textContent = !count ? 'nothing was compared'
      : this.from === 0 && this.to === last ? (count === 1 ? '1 ' + this.axis.noun : 'all ' + count + ' ' + this.axis.noun + 's') : this.axis.noun + 's ' + (this.from + 1) + ' to ' + (this.to + 1) + ' of ' + count;
    this.drawing.draw();
  }

  zoom(factor, middle) {
    const width = this.to - this.from, wanted = width * factor;
    const rounded = factor < 1 ? Math.floor(wanted) : Math.max(Math.ceil(wanted), width + 1);
    const share = width ? (middle - this.from) / width : 0.5;
    this.span(middle - share * rounded, middle - share * rounded + rounded);
  }

  x(at) {
    const width = Math.max(this.to - this.from, 1);
    return PLOT_LEFT + (at - this.from + 0.5) / (width + 1) * (this.drawing.width - PLOT_LEFT - PLOT_RIGHT);
  }

  at(x) {
    const share = (x - PLOT_LEFT) / (this.drawing.width - PLOT_LEFT - PLOT_RIGHT);
    return this.from + share * (Math.max(this.to - this.from, 1) + 1) - 0.5;
  }

  nearest(x) {
    return Math.min(this.to, Math.max(this.from, Math.round(this.at(x))));
  }

  paint(context, width, height) {
    const bottom = height - PLOT_BOTTOM;
    const values = [], lines = this.lines();
    for (const line of lines) {
      for (let at = this.from; at <= this.to; at++) values.push(this.items.length ? this.valueOf(line, this.items[at]) : null);
    }
    // A limit is always in sight, however far from it the values are.
    values.push(...this.shownMetrics().map((name) => this.limits[name]).filter((limit) => typeof limit === 'number' && limit > 0));
    const axis = this.scale = new LogAxis(values, bottom, PLOT_TOP);
    context.textBaseline = 'middle';
    for (const [y, said] of axis.marks(26)) {
      context.strokeStyle = token('line');
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(PLOT_LEFT, Math.round(y) + 0.5);
      context.lineTo(width - PLOT_RIGHT, Math.round(y) + 0.5);
      context.stroke();
      context.fillStyle = token('quiet');
      context.textAlign = 'right';
      context.fillText(said, PLOT_LEFT - 6, y);
    }
    this.paintOrder(context, width, bottom);
    this.paintMarked(context, bottom);
    this.paintLimits(context, width, bottom);
    // These rows lie on top of others.
    lines.map((line, at) => [line, token('series-' + (at + 1))]).reverse().forEach(([line, colour]) => this.paintSeries(context, line, colour, width));
    this.paintLimitWords(context);
    if (this.selecting) {
      const [a, b] = this.selecting;
      context.fillStyle = token('link');
      context.globalAlpha = 0.15;
      context.fillRect(Math.min(a, b), PLOT_TOP, Math.abs(b - a), bottom - PLOT_TOP);
      context.globalAlpha = 1;
    }
    if (this.cursor >= this.from && this.cursor <= this.to && this.items.length) {
      context.strokeStyle = token('ink');
      context.lineWidth = 1;
      context.setLineDash([3, 3]);
      context.beginPath();
      context.moveTo(this.x(this.cursor), PLOT_TOP);
      context.lineTo(this.x(this.cursor), bottom);
      context.stroke();
      context.setLineDash([]);
    }
  }

  paintOrder(context, width, bottom) {
    context.fillStyle = token('quiet');
    context.textAlign = 'center';
    const span = this.to - this.from + 1, most = Math.max(2, Math.floor((width - PLOT_LEFT) / 90));
    const rough = span / most, power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
    const step = Math.max(1, [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough));
    for (let at = Math.ceil((this.from + 1) / step) * step - 1; at <= this.to; at += step) {
      const label = at >= this.from ? this.axis.label(this.items[at], at) : '', half = context.measureText(label).width / 2;
      if (at >= this.from) context.fillText(label, Math.min(this.x(at), width - PLOT_RIGHT - half), bottom + 12);
    }
    context.textAlign = 'right';
    context.fillText(this.axis.words, width - PLOT_RIGHT, bottom + 27);
  }

  // Suspects: a band over the whole height and a flag on top.
  paintMarked(context, bottom) {
    context.fillStyle = token('end');
    for (let at = this.from; at <= this.to; at++) {
      if (!this.marked.has(this.items[at])) continue;
      const x = this.x(at), half = Math.max(1.5, Math.min(8, (this.x(1) - this.x(0)) / 2));
      context.globalAlpha = 0.18;
      context.fillRect(x - half, PLOT_TOP, 2 * half, bottom - PLOT_TOP);
      context.globalAlpha = 1;
      context.beginPath();
      context.moveTo(x - 5, PLOT_TOP - 12);
      context.lineTo(x + 5, PLOT_TOP - 12);
      context.lineTo(x, PLOT_TOP - 2);
      context.fill();
    }
  }

  // A limit's words stand above its line, or below it where another limit's line would run through them.
  paintLimits(context, width, bottom) {
    this.limitWords = [];
    const lines = this.shownMetrics().map((name) => (typeof this.limits[name] === 'number' && this.limits[name] > 0 ? this.scale.at(this.limits[name]) : NaN));
    this.shownMetrics().forEach((name, at) => {
      const limit = this.limits[name], y = lines[at], crossed = lines.some((other) => other < y && other > y - 17);
      if (!(y >= PLOT_TOP && y <= bottom)) return;
      context.strokeStyle = context.fillStyle = token('series-' + (at + 1));
      context.setLineDash([6, 4]);
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(PLOT_LEFT, y);
      context.lineTo(width - PLOT_RIGHT, y);
      context.stroke();
      context.setLineDash([]);
      const words = 'limit ' + digits(limit, 3), wide = context.measureText(words).width;
      this.limitWords.push([words, wide, at % 2 ? PLOT_LEFT + 4 : width - PLOT_RIGHT - 4 - wide, crossed ? y + 9 : y - 8, context.fillStyle]);
    });
  }

  // On top of the curves, which would run through them.
  paintLimitWords(context) {
    context.textAlign = 'left';
    for (const [words, wide, x, y, colour] of this.limitWords) {
      context.globalAlpha = 0.85;
      context.fillStyle = token('paper');
      context.fillRect(x - 3, y - 7, wide + 6, 14);
      context.globalAlpha = 1;
      context.fillStyle = colour;
      context.fillText(words, x, y);
    }
  }

  // Of many tensors in one pixel the smallest and the largest value; failing ones on top, with their own mark.
  paintSeries(context, line, colour, width) {
    const failing = [], dense = this.to - this.from + 1 > (width - PLOT_LEFT - PLOT_RIGHT) / 3;
    context.strokeStyle = context.fillStyle = colour;
    context.lineWidth = 1.3;
    context.globalAlpha = dense ? 1 : 0.55;
    context.beginPath();
    let pixel = null, least = 0, most = 0, open = false;
    const stroke = () => {
      if (pixel === null) return;
      if (open) context.lineTo(pixel, most);
      else context.moveTo(pixel, most);
      context.lineTo(pixel, least === most ? least + 0.5 : least);
      open = true;
    };
    for (let at = this.from; at <= this.to && this.items.length; at++) {
      const item = this.items[at], value = this.valueOf(line, item);
      if (value === null) continue;
      const x = dense ? Math.round(this.x(at)) : this.x(at), y = this.scale.at(value);
      if (this.fails(line, item)) failing.push([x, y]);
      if (x !== pixel) {
        stroke();
        pixel = x;
        least = most = y;
      } else {
        least = Math.min(least, y);
        most = Math.max(most, y);
      }
    }
    stroke();
    context.stroke();
    context.globalAlpha = 1;
    if (!dense) {
      for (let at = this.from; at <= this.to && this.items.length; at++) {
        const item = this.items[at], value = this.valueOf(line, item);
        if (value !== null && !this.fails(line, item)) drawMark(context, 'pass', this.x(at), this.scale.at(value), 2.6);
      }
    }
    for (const [x, y] of failing) drawMark(context, 'fail', x, y, dense ? 2.5 : 4);
  }

  // Point at one of the tensors.
  point(at) {
    this.cursor = at;
    if (at < 0) this.drawing.tell(null);
    else this.drawing.tell(this.about(this.items[at]), this.x(at), this.drawing.height / 3);
    this.drawing.draw();
  }

  about(row) {
    const rows = this.rows, lines = [rows.name(row)];
    lines.push([rows.text('op_type', row), words(rows.verdict(row)), this.marked.has(row) ? 'suspect' : ''].filter(Boolean).map(printable).join(' · '));
    for (const line of this.lines()) {
      const value = this.valueOf(line, row);
      lines.push(line.name + ' ' + (value === null ? '–' : digits(value, 4)));
    }
    return lines;
  }

  listen() {
    const frame = this.parts.frame, canvas = this.drawing.canvas;
    frame.addEventListener('keydown', (event) => this.onKey(event));
    frame.addEventListener('blur', () => this.point(-1));
    canvas.addEventListener('wheel', (event) => this.onWheel(event), {passive: false});
    canvas.addEventListener('dblclick', () => this.span(0, this.items.length - 1));
    canvas.addEventListener('pointerdown', (event) => this.onDown(event));
    canvas.addEventListener('pointermove', (event) => this.onMove(event));
    canvas.addEventListener('pointerup', (event) => this.onUp(event));
    canvas.addEventListener('pointercancel', (event) => { this.pointers.delete(event.pointerId); this.selecting = null; this.drawing.draw(); });
    canvas.addEventListener('pointerleave', () => { if (!this.pointers.size) this.point(-1); });
  }

  onKey(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || !this.items.length) return;
    const width = this.to - this.from, step = Math.max(1, Math.round(width / 5)), middle = this.cursor >= 0 ? this.cursor : (this.from + this.to) / 2;
    const acts = {
      '+': () => this.zoom(0.6, middle), '=': () => this.zoom(0.6, middle), '-': () => this.zoom(1 / 0.6, middle), '_': () => this.zoom(1 / 0.6, middle),
      '0': () => this.span(0, this.items.length - 1),
      ArrowLeft: () => this.span(this.from - step, this.to - step), ArrowRight: () => this.span(this.from + step, this.to + step),
      ArrowDown: () => this.step(1), ArrowUp: () => this.step(-1),
      Enter: () => { if (this.cursor >= 0) this.open(this.items[this.cursor]); },
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  }

  // To the next or previous tensor.
  step(by) {
    const at = this.cursor < 0 ? (by > 0 ? this.from : this.to) : Math.min(this.items.length - 1, Math.max(0, this.cursor + by));
    if (at > this.to) this.span(this.from + at - this.to, at);
    if (at < this.from) this.span(at, this.to - this.from + at);
    this.point(at);
  }

  onWheel(event) {
    // Whoever scrolls the page over the plot does not mean it.
    if (!event.deltaY || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    this.zoom(event.deltaY < 0 ? 0.75 : 1 / 0.75, Math.min(this.to, Math.max(this.from, this.at(this.drawing.point(event)[0]))));
  }

  onDown(event) {
    if (event.button) return;
    const [x] = this.drawing.point(event);
    this.drawing.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, {x, from: x});
    this.moved = false;
    this.held = {from: this.from, to: this.to, at: this.at(x)};
    if (this.pointers.size === 2) this.held.gap = this.gap();
  }

  gap() {
    const [a, b] = [...this.pointers.values()];
    return Math.max(10, Math.abs(a.x - b.x));
  }

  onMove(event) {
    const [x, y] = this.drawing.point(event), pointer = this.pointers.get(event.pointerId);
    if (!pointer) {
      if (!this.items.length) return;
      this.cursor = this.nearest(x);
      this.drawing.draw();
      this.drawing.tell(this.about(this.items[this.cursor]), this.x(this.cursor), y);
      return;
    }
    pointer.x = x;
    if (Math.abs(x - pointer.from) > 5) this.moved = true;
    if (!this.moved) return;
    const held = this.held;
    if (this.pointers.size === 2) {
      const factor = held.gap / this.gap(), width = (held.to - held.from) * factor, share = (held.at - held.from) / Math.max(1, held.to - held.from);
      this.span(held.at - share * width, held.at - share * width + width);
    } else if (event.pointerType === 'touch' || event.shiftKey) {
      const by = held.at - this.at(x) + this.from - held.from;
      this.span(held.from + by, held.to + by);
    } else {
      this.selecting = [pointer.from, x];
      this.drawing.draw();
    }
  }

  onUp(event) {
    const pointer = this.pointers.get(event.pointerId);
    this.pointers.delete(event.pointerId);
    if (!pointer || this.pointers.size) return;
    if (this.selecting) {
      const [a, b] = this.selecting.map((x) => this.at(x));
      this.selecting = null;
      this.span(Math.ceil(Math.min(a, b)), Math.floor(Math.max(a, b)));
    } else if (!this.moved && this.items.length) this.open(this.items[this.nearest(pointer.x)]);
  }
}
