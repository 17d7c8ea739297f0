// Two metrics against each other: every row a point whose shape is its verdict.

// Below the title of the upright axis.
const SCATTER_TOP = 32;

class Scatter {
  // parts: {frame, across: select, up: select}; open(row) shows a row.
  constructor(rows, parts, open) {
    this.rows = rows;
    this.parts = parts;
    this.open = open;
    this.cursor = null;
    for (const select of [parts.across, parts.up]) select.addEventListener('change', () => this.gather());
    this.offer();
    this.drawing = new Drawing(parts.frame, window.innerWidth < 700 ? 300 : 400, (...to) => this.paint(...to));
    this.drawing.canvas.addEventListener('pointermove', (event) => this.point(this.nearest(event)));
    this.drawing.canvas.addEventListener('pointerleave', () => this.point(null));
    this.drawing.canvas.addEventListener('click', (event) => { const at = this.nearest(event); if (at !== null) this.open(this.points[at].row); });
    parts.frame.addEventListener('keydown', (event) => this.onKey(event));
    parts.frame.addEventListener('blur', () => this.point(null));
    rows.onChange(() => { this.offer(); this.gather(); });
    this.gather();
  }

  // Offer the metrics that there are; what was chosen stays.
  offer() {
    const names = this.rows.metricNames(), pick = (wanted, other) => (names.includes(wanted) ? wanted : names[Math.min(other, names.length - 1)]);
    if (names.join() === this.offered) return;
    this.offered = names.join();
    for (const [select, chosen] of [[this.parts.across, pick('CosineSimilarity', 0)], [this.parts.up, pick('MaxAbsoluteError', 1)]]) {
      const before = select.value;
      select.replaceChildren(...names.map((name) => make('option', {value: name}, distanceHeading(name))));
      select.value = before || chosen;
    }
  }

  gather() {
    const across = this.parts.across.value, up = this.parts.up.value;
    this.points = [];
    for (let row = 0; row < this.rows.length; row++) {
      const x = this.rows.metric(across, row), y = this.rows.metric(up, row);
      if (x !== null && y !== null) this.points.push({row, x, y});
    }
    // Failing ones on top.
    this.points.sort((a, b) => (this.rows.verdict(b.row) !== 'fail') - (this.rows.verdict(a.row) !== 'fail') || a.row - b.row);
    this.cursor = null;
    this.drawing.draw();
  }

  paint(context, width, height) {
    if (!this.points) return;
    const bottom = height - 40, right = width - 16;
    const across = new LogAxis(this.points.map((point) => point.x), 64, right, 64), up = new LogAxis(this.points.map((point) => point.y), bottom, SCATTER_TOP);
    context.textBaseline = 'middle';
    context.lineWidth = 1;
    context.strokeStyle = token('line');
    context.fillStyle = token('quiet');
    context.textAlign = 'center';
    for (const [x, said] of across.marks(52)) {
      this.rule(context, x, SCATTER_TOP, x, bottom);
      context.fillText(said, Math.min(x, right - 16), bottom + 13);
    }
    context.textAlign = 'right';
    for (const [y, said] of up.marks(26)) {
      this.rule(context, 64, y, right, y);
      context.fillText(said, 58, y);
    }
    context.fillText(distanceHeading(this.parts.across.value) + ' →', right, bottom + 30);
    context.textAlign = 'left';
    context.fillText('↑ ' + distanceHeading(this.parts.up.value), 8, 9);
    const colours = {};
    for (const point of this.points) {
      const verdict = this.rows.verdict(point.row);
      point.left = across.at(point.x);
      point.top = up.at(point.y);
      context.strokeStyle = context.fillStyle = colours[verdict] || (colours[verdict] = verdictColour(verdict));
      context.globalAlpha = verdict === 'fail' ? 1 : 0.6;
      drawMark(context, verdict, point.left, point.top, verdict === 'fail' ? 4 : 3.2);
    }
    context.globalAlpha = 1;
    if (this.cursor === null) return;
    const point = this.points[this.cursor];
    context.strokeStyle = token('ink');
    context.lineWidth = 2;
    context.beginPath();
    context.arc(point.left, point.top, 8, 0, 7);
    context.stroke();
  }

  rule(context, x, y, to, down) {
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(to, down);
    context.stroke();
  }

  nearest(event) {
    const [x, y] = this.drawing.point(event);
    let best = null, least = 400;
    this.points.forEach((point, at) => {
      const far = (point.left - x) ** 2 + (point.top - y) ** 2;
      if (far <= least) { least = far; best = at; }
    });
    return best;
  }

  point(at) {
    if (at === this.cursor && at === null) return;
    this.cursor = at;
    this.drawing.draw();
    if (at === null) {
      this.drawing.tell(null);
      return;
    }
    const point = this.points[at], rows = this.rows;
    this.drawing.tell([rows.name(point.row),
      [rows.placeText(rows.place(point.row)), words(rows.verdict(point.row))].filter(Boolean).join(' · '),
      distanceHeading(this.parts.across.value) + ' ' + digits(point.x, 4), distanceHeading(this.parts.up.value) + ' ' + digits(point.y, 4)], point.left, point.top);
  }

  onKey(event) {
    const step = {ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1}[event.key];
    if (event.key === 'Enter' && this.cursor !== null) this.open(this.points[this.cursor].row);
    if (!step || !this.points.length) return;
    event.preventDefault();
    // From the worst on: failing ones are the last that were drawn.
    this.point(this.cursor === null ? this.points.length - 1 : within(this.cursor + step, this.points.length));
  }
}
