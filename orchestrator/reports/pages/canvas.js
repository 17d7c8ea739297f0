// What every drawing on a canvas shares: its size in real pixels, axes of powers of ten, the text that follows the pointer, colours.

// A canvas that fills its frame; draw(context, width, height) is called whenever its size or the colours change.
class Drawing {
  constructor(frame, height, draw) {
    this.frame = frame;
    this.height = height;
    this.canvas = make('canvas', {'aria-hidden': 'true'});
    this.context = this.canvas.getContext('2d');
    this.paint = draw;
    this.tip = make('div', {class: 'tip', role: 'tooltip', hidden: ''});
    frame.append(this.canvas, this.tip);
    new ResizeObserver(() => this.draw()).observe(frame);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.draw());
    onPrint(() => this.draw());
  }

  draw() {
    const width = Math.max(120, this.frame.clientWidth), ratio = window.devicePixelRatio || 1;
    this.width = width;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.width = width + 'px';
    this.canvas.style.height = this.height + 'px';
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, width, this.height);
    this.context.font = '12px ' + token('sans');
    this.paint(this.context, width, this.height);
  }

  resize(height) {
    this.height = height;
    this.draw();
  }

  // Where an event is, in the canvas' pixels.
  point(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  // Show lines of text beside a point; none hides them.
  tell(lines, x, y) {
    this.tip.hidden = !lines;
    if (!lines) return;
    this.tip.replaceChildren(...lines.map((line, at) => make('div', {class: at ? null : 'name'}, line)));
    const wide = this.tip.offsetWidth, high = this.tip.offsetHeight;
    const left = x + 14 + wide > this.width ? x - 14 - wide : x + 14;
    this.tip.style.left = Math.max(0, Math.min(this.width - wide, left)) + 'px';
    this.tip.style.top = Math.max(0, Math.min(this.height - high, y - high / 2)) + 'px';
  }
}

// An axis of powers of ten from pixel `from` to pixel `to`, with a place of its own for 0 and less at its start and for what is not finite at
// its end.
class LogAxis {
  // Zero and what is not finite have a place of their own at the ends, `beyond` pixels from the others.
  constructor(values, from, to, beyond = 22) {
    let least = Infinity, most = -Infinity, zero = false, endless = false;
    for (const value of values) {
      if (typeof value !== 'number') endless = endless || value !== null;
      else if (value <= 0) zero = true;
      else {
        if (value < least) least = value;
        if (value > most) most = value;
      }
    }
    if (least > most) { least = 1e-3; most = 1; }
    this.low = Math.floor(Math.log10(least) + 1e-9);
    this.high = Math.max(this.low + 1, Math.ceil(Math.log10(most) - 1e-9));
    this.zero = zero;
    this.endless = endless;
    const sign = Math.sign(to - from);
    this.start = from;
    this.end = to;
    this.from = from + (zero ? beyond * sign : 0);
    this.to = to - (endless ? beyond * sign : 0);
  }

  at(value) {
    if (typeof value !== 'number') return value === '-Infinity' ? this.start : this.end;
    if (value <= 0) return this.start;
    const share = (Math.log10(value) - this.low) / (this.high - this.low);
    return this.from + share * (this.to - this.from);
  }

  // [pixel, text] of each mark, no closer than `room` pixels.
  marks(room) {
    const found = [], step = Math.max(1, Math.ceil((this.high - this.low) * room / Math.abs(this.to - this.from)));
    for (let power = this.low; power <= this.high; power += step) found.push([this.at(10 ** power), power === 0 ? '1' : power === 1 ? '10' : '1e' + power]);
    if (this.zero) found.push([this.start, '0']);
    if (this.endless) found.push([this.end, 'NaN, ∞']);
    return found;
  }
}

// A mark whose shape tells the verdict as well as its colour.
function drawMark(context, verdict, x, y, size) {
  context.beginPath();
  if (verdict === 'fail') {
    context.lineWidth = 2;
    context.moveTo(x - size, y - size);
    context.lineTo(x + size, y + size);
    context.moveTo(x + size, y - size);
    context.lineTo(x - size, y + size);
    context.stroke();
  } else if (verdict === 'not_compared') {
    context.lineWidth = 1.5;
    context.strokeRect(x - size, y - size, 2 * size, 2 * size);
  } else {
    context.arc(x, y, size * 0.8, 0, 7);
    context.fill();
  }
}

function verdictColour(verdict) {
  return token({fail: 'fail', not_compared: 'not-compared', pass: 'pass'}[verdict] || 'absent');
}
