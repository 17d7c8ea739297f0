// A heat map: a field of cells, the larger the value the stronger the colour; failing cells have a cross. Pointer and arrow keys tell what a
// cell is, a click or Enter chooses it.

const HEAT_LABEL = 7.4, HEAT_TOP = 6, HEAT_BOTTOM = 26;

class HeatMap {
  // parts: {frame: what can have the focus}; about(row, column) gives lines of text; choose(row, column) is optional.
  constructor(frame, about, choose) {
    this.frame = frame;
    this.about = about;
    this.choose = choose;
    this.rows = [];
    this.columns = [];
    this.cursor = null;
    this.drawing = new Drawing(frame, 120, (...to) => this.paint(...to));
    const canvas = this.drawing.canvas;
    canvas.addEventListener('pointermove', (event) => this.point(this.cellAt(event)));
    canvas.addEventListener('pointerleave', () => this.point(null));
    canvas.addEventListener('click', (event) => this.pick(this.cellAt(event)));
    frame.addEventListener('keydown', (event) => this.onKey(event));
    frame.addEventListener('blur', () => this.point(null));
  }

  // rows, columns: labels; value(row, column): a number, a text that is not finite, or null; fails(row, column); said(row, column) is what
  // stands in a failing cell, if anything; largest is what has the strongest colour, that of the values by default.
  show(rows, columns, value, fails, said, largest) {
    Object.assign(this, {rows, columns, value, fails, said});
    const found = [...this.all()].filter((one) => typeof one === 'number' && one > 0).map((one) => Math.log10(one));
    this.most = largest ? Math.log10(largest) : found.reduce((most, one) => Math.max(most, one), -Infinity);
    this.decades = Math.max(3, this.most - found.reduce((least, one) => Math.min(least, one), Infinity));
    this.cell = Math.max(1, Math.min(22, 520 / rows.length));
    this.drawing.resize(Math.ceil(HEAT_TOP + HEAT_BOTTOM + this.cell * rows.length));
  }

  *all() {
    for (let row = 0; row < this.rows.length; row++) for (let column = 0; column < this.columns.length; column++) yield this.value(row, column);
  }

  // From 0 to 1. The largest is 1 though all may be alike, and what is not finite too.
  strength(value) {
    if (typeof value !== 'number') return 1;
    return value > 0 ? Math.min(1, Math.max(0, 1 + (Math.log10(value) - this.most) / this.decades)) : 0;
  }

  left(width) {
    const longest = this.rows.reduce((most, name) => Math.max(most, Math.min(name.length, 60)), 0);
    return this.cell >= 11 ? Math.min(width * 0.45, 12 + longest * HEAT_LABEL) : 34;
  }

  paint(context, width) {
    if (!this.value) return;
    const left = this.left(width), wide = Math.min(60, (width - left - 8) / this.columns.length), high = this.cell;
    this.place = {left, wide};
    context.textBaseline = 'middle';
    for (let row = 0; row < this.rows.length; row++) {
      for (let column = 0; column < this.columns.length; column++) this.paintCell(context, row, column, left + column * wide, HEAT_TOP + row * high, wide, high);
    }
    context.fillStyle = token('quiet');
    context.textAlign = 'right';
    const names = this.shown(Math.floor((left - 10) / HEAT_LABEL)), every = Math.max(1, Math.ceil(14 / high));
    for (let row = 0; row < this.rows.length; row += every) {
      context.fillText(high >= 11 ? names[row] : String(row + 1), left - 6, HEAT_TOP + (row + 0.5) * high);
    }
    context.textAlign = 'center';
    const longest = this.columns.reduce((most, name) => Math.max(most, name.length), 1) * HEAT_LABEL + 8;
    for (let column = 0; column < this.columns.length; column += Math.max(1, Math.ceil(longest / wide))) {
      context.fillText(this.columns[column], left + (column + 0.5) * wide, HEAT_TOP + this.rows.length * high + 12);
    }
    if (this.cursor) {
      context.strokeStyle = token('ink');
      context.lineWidth = 2;
      context.strokeRect(left + this.cursor[1] * wide, HEAT_TOP + this.cursor[0] * high, wide, high);
    }
  }

  // The labels of the rows in so many letters, no two alike.
  shown(most) {
    if (this.fitted && this.fitted.most === most && this.fitted.rows === this.rows) return this.fitted.names;
    const found = shortenedAll(this.rows, Math.max(8, most));
    this.fitted = {most, rows: this.rows, names: this.rows.map((name) => found.get(name))};
    return this.fitted.names;
  }

  paintCell(context, row, column, x, y, wide, high) {
    const value = this.value(row, column), gap = wide > 4 && high > 4 ? 1 : 0;
    if (value === null) {
      context.fillStyle = token('panel');
      context.fillRect(x, y, wide - gap, high - gap);
      return;
    }
    const fails = this.fails(row, column), share = this.strength(value);
    context.fillStyle = token('panel');
    context.fillRect(x, y, wide - gap, high - gap);
    context.globalAlpha = 0.12 + 0.88 * share;
    context.fillStyle = token(fails ? 'fail' : 'series-1');
    context.fillRect(x, y, wide - gap, high - gap);
    context.globalAlpha = 1;
    if (!fails) return;
    context.strokeStyle = token(share > 0.5 ? 'paper' : 'ink');
    if (this.said && wide > 24 && high > 13) {
      context.fillStyle = context.strokeStyle;
      context.textAlign = 'center';
      context.fillText('✕ ' + this.said(row, column), x + wide / 2, y + high / 2 + 1);
    } else if (wide > 8 && high > 8) drawMark(context, 'fail', x + wide / 2, y + high / 2, Math.min(4, high / 4));
  }

  cellAt(event) {
    if (!this.place) return null;
    const [x, y] = this.drawing.point(event);
    const column = Math.floor((x - this.place.left) / this.place.wide), row = Math.floor((y - HEAT_TOP) / this.cell);
    return row >= 0 && column >= 0 && row < this.rows.length && column < this.columns.length ? [row, column] : null;
  }

  point(cell) {
    this.cursor = cell;
    this.drawing.draw();
    if (!cell) this.drawing.tell(null);
    else this.drawing.tell(this.about(...cell), this.place.left + (cell[1] + 1) * this.place.wide, HEAT_TOP + (cell[0] + 0.5) * this.cell);
  }

  pick(cell) {
    if (cell && this.choose) this.choose(...cell);
  }

  onKey(event) {
    const move = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[event.key];
    if (event.key === 'Enter') this.pick(this.cursor);
    if (!move || !this.rows.length) return;
    event.preventDefault();
    const [row, column] = this.cursor || [-move[0], -move[1]];
    this.point([within(row + move[0], this.rows.length), within(column + move[1], this.columns.length)]);
  }
}

function within(number, length) {
  return Math.min(length - 1, Math.max(0, number));
}
