// The whole of a network in a corner, with what of it is in sight; a click or a drag goes there.

const MINIMAP = [150, 210], MINIMAP_PHONE = [90, 130];

class Minimap {
  constructor(holder) {
    this.holder = holder;
    this.canvas = make('canvas', {class: 'minimap', 'aria-hidden': 'true'});
    const frame = make('div', {class: 'network-frame'});
    holder.replaceWith(frame);
    frame.append(holder, this.canvas);
    holder.addEventListener('scroll', () => this.later(), {passive: true});
    new ResizeObserver(() => this.later()).observe(holder);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.later());
    this.canvas.addEventListener('pointerdown', (event) => { this.canvas.setPointerCapture(event.pointerId); this.go(event); });
    this.canvas.addEventListener('pointermove', (event) => { if (event.buttons) this.go(event); });
  }

  // show(drawing, {scale(), margin}): what is drawn now.
  show(drawing, view) {
    this.drawing = drawing;
    this.view = view;
    this.later();
  }

  later() {
    if (!this.wait) this.wait = requestAnimationFrame(() => { this.wait = 0; this.paint(); });
  }

  paint() {
    const {holder, drawing} = this;
    if (!drawing) return;
    const most = window.innerWidth < 700 ? MINIMAP_PHONE : MINIMAP, ratio = window.devicePixelRatio || 1;
    const whole = [drawing.width, drawing.height].map((length) => length + 2 * this.view.margin), scale = this.view.scale();
    this.canvas.hidden = whole[0] * scale <= holder.clientWidth + 1 && whole[1] * scale <= holder.clientHeight + 1;
    if (this.canvas.hidden) return;
    // A long network is not shrunk to a line.
    this.times = [Math.min(most[0] / whole[0], 0.25), Math.min(most[1] / whole[1], 0.25)];
    const [x, y] = this.times, size = [Math.max(24, whole[0] * x), Math.max(24, whole[1] * y)];
    this.canvas.width = size[0] * ratio;
    this.canvas.height = size[1] * ratio;
    this.canvas.style.width = size[0] + 'px';
    this.canvas.style.height = size[1] + 'px';
    const context = this.canvas.getContext('2d');
    context.scale(ratio, ratio);
    const box = (op, colour, least) => {
      const wide = Math.max(least, op.width * x), high = Math.max(least, op.height * y);
      context.fillStyle = colour;
      context.fillRect((op.x + this.view.margin) * x - wide / 2, (op.y + this.view.margin) * y - high / 2, wide, high);
    };
    const plain = token('strong-line'), fail = token('fail');
    for (const frame of drawing.frames || []) box(frame, token('line'), 1);
    for (const op of drawing.ops) if (op.verdict !== 'fail') box(op, plain, 1);
    for (const op of drawing.ops) if (op.verdict === 'fail') box(op, fail, 3);
    context.strokeStyle = token('focus');
    context.lineWidth = 2;
    context.strokeRect(holder.scrollLeft / scale * x + 1, holder.scrollTop / scale * y + 1, Math.max(4, Math.min(size[0], holder.clientWidth / scale * x) - 2),
      Math.max(4, Math.min(size[1], holder.clientHeight / scale * y) - 2));
  }

  go(event) {
    const edge = this.canvas.getBoundingClientRect(), scale = this.view.scale(), [x, y] = this.times;
    this.holder.scrollLeft = (event.clientX - edge.left) / x * scale - this.holder.clientWidth / 2;
    this.holder.scrollTop = (event.clientY - edge.top) / y * scale - this.holder.clientHeight / 2;
  }
}
