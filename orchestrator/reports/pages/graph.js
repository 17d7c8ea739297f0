// A network that Python has laid out (network.py, drawing()): drawn, panned, zoomed, and its ops selected and marked.

const VERDICT_SIGNS = {pass: '✓ ', fail: '✕ ', not_compared: '? ', expected_absent: '– '};

// The letters of a network of this width or height can just be read on a page.
const PAPER = 1300;

// As wide as a letter of an op is, and one of an edge's label.
const LETTER = 6.9;
const LABEL_LETTER = 5.8;

// How many columns a text takes; Chinese, Japanese and Korean letters take two.
function columns(text) {
  return [...text].reduce((sum, letter) => sum + (/[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]/.test(letter) ? 2 : 1), 0);
}

// The outline of an op: failing ones have six corners.
function outline(op, verdict, grow) {
  const left = op.x - op.width / 2 - grow, right = op.x + op.width / 2 + grow, top = op.y - op.height / 2 - grow, bottom = op.y + op.height / 2 + grow;
  if (verdict === 'fail') return `M${left - 10},${op.y}L${left},${top}H${right}L${right + 10},${op.y}L${right},${bottom}H${left}Z`;
  const r = 5;
  return `M${left + r},${top}H${right - r}q${r},0 ${r},${r}V${bottom - r}q0,${r} ${-r},${r}H${left + r}q${-r},0 ${-r},${-r}V${top + r}q0,${-r} ${r},${-r}Z`;
}

// The line of an edge, with its arrow head.
function edgePath(points) {
  let path = `M${points[0]},${points[1]}`;
  const last = points.length - 2;
  for (let at = 2; at <= last; at += 2) {
    const middle = (points[at - 1] + points[at + 1]) / 2;
    path += points[at] === points[at - 2] ? `V${points[at + 1]}` : `C${points[at - 2]},${middle} ${points[at]},${middle} ${points[at]},${points[at + 1]}`;
  }
  const back = points[last + 1] < points[last - 1] ? 5 : -5;
  return path + `M${points[last] - 3.5},${points[last + 1] + back}L${points[last]},${points[last + 1]}L${points[last] + 3.5},${points[last + 1] + back}`;
}

// What stands first in an op's box.
function boxTitle(op) {
  return (VERDICT_SIGNS[op.verdict] || '') + op.type + (op.failing ? ', ' + op.failing + ' outside limits' : '');
}

// Draw into an element of class "network". acts: choose(place) is called when an op is chosen by click, fold(group) for the head of an
// unfolded group. Returns what a page may do with it.
function drawNetwork(holder, drawing, acts, scale) {
  const margin = 24;
  const whole = `${-margin} ${-margin} ${drawing.width + 2 * margin} ${drawing.height + 2 * margin}`;
  const svg = make('svg', {viewBox: whole, role: 'img', 'aria-label': `the network: ${drawing.ops.length} ops`});
  const frames = make('g'), edges = make('g'), boxes = make('g');
  const elements = [], lines = [];
  for (const frame of drawing.frames || []) {
    const left = frame.x - frame.width / 2, top = frame.y - frame.height / 2;
    const about = ' (' + [frame.note, frame.count + ' ops'].filter(Boolean).join(', ') + ')';
    const room = Math.floor((frame.width - 20) / LETTER) - 2, whole = printable(frame.label);
    const fitting = '▾ ' + (room - about.length >= 12 ? middle(whole, room - about.length) + about : middle(whole, Math.max(6, room)));
    frames.append(make('g', {class: 'group-frame', 'data-fold': frame.group}, [make('rect', {x: left, y: top, width: frame.width, height: frame.height, rx: 8}),
      titled(make('text', {x: left + 10, y: top + 17}, fitting), frame.label)]));
  }
  for (const [source, target, text, x, y, points] of drawing.edges) {
    const line = make('path', {class: text === null ? 'edge waits' : 'edge', d: edgePath(points)});
    lines.push([source, target, line]);
    edges.append(line);
    if (!text) continue;
    const wide = LABEL_LETTER * columns(text) + 4;
    boxes.append(make('rect', {class: 'label-back', x: x - wide / 2, y: y - 8.5, width: wide, height: 11}), make('text', {class: 'label', x: x, y: y}, text));
  }
  drawing.ops.forEach((op, number) => {
    const top = op.y - op.height / 2, kind = op.group !== undefined ? 'group' : op.port !== undefined ? 'port' : null;
    const group = make('g', kind === 'group' ? {'data-group': op.group, class: 'group'} : kind ? {class: kind} : {'data-op': op.name, 'data-number': op.number});
    if (op.verdict) group.setAttribute('data-verdict', op.verdict);
    group.append(
      make('path', {class: 'halo', d: outline(op, op.verdict, 5)}),
      make('path', {class: 'box', d: outline(op, op.verdict, 0)}),
      make('text', {class: 'type', x: op.x, y: top + 16}, boxTitle(op)));
    let y = top + 30;
    for (const [text, name] of [...op.lines.map((line) => [line, null]), [op.weights, 'weights'], [op.origins, 'origins']]) {
      if (!text) continue;
      group.append(make('text', {class: name, x: op.x, y}, text));
      y += 14;
    }
    group.dataset.place = number;
    elements.push(group);
    boxes.append(group);
  });
  svg.append(frames, edges, boxes);
  holder.replaceChildren(svg);

  const size = ([width, height], times) => {
    svg.setAttribute('width', width * times);
    svg.setAttribute('height', height * times);
  };
  const smallest = () => Math.min(1, holder.clientWidth / (drawing.width + 2 * margin), holder.clientHeight / (drawing.height + 2 * margin));
  // Zoom so that the point of the drawing under (x, y) of the holder stays where it is.
  function zoomTo(wanted, x, y) {
    const next = Math.min(4, Math.max(Math.min(0.05, smallest()), wanted));
    const left = (holder.scrollLeft + x) / scale, top = (holder.scrollTop + y) / scale;
    scale = next;
    size([drawing.width + 2 * margin, drawing.height + 2 * margin], scale);
    holder.classList.toggle('far', scale < 0.3);
    holder.scrollLeft = left * scale - x;
    holder.scrollTop = top * scale - y;
    holder.dataset.scale = scale.toFixed(3);
    minimap.later();
  }
  // Where all of a long network is seen, single steps would lead nowhere.
  const zoom = (factor) => zoomTo(scale * (scale < 0.1 ? factor ** 3 : factor), holder.clientWidth / 2, holder.clientHeight / 2);
  function fit() {
    zoomTo(smallest(), 0, 0);
    holder.scrollLeft = holder.scrollTop = 0;
  }
  function centre(number) {
    const op = drawing.ops[number];
    if (scale < 0.6) zoomTo(1, 0, 0);
    holder.scrollLeft = (op.x + margin) * scale - holder.clientWidth / 2;
    holder.scrollTop = (op.y + margin) * scale - holder.clientHeight / 2;
  }
  function show(number, still) {
    for (const group of boxes.querySelectorAll('[data-selected]')) group.removeAttribute('data-selected');
    for (const [source, target, line] of lines) line.toggleAttribute('data-near', source === number || target === number);
    if (number === null) return;
    elements[number].setAttribute('data-selected', '1');
    if (!still) centre(number);
  }
  // Show the verdicts that ops have now.
  function repaint() {
    drawing.ops.forEach((op, number) => {
      const group = elements[number];
      if (op.verdict) group.setAttribute('data-verdict', op.verdict);
      else group.removeAttribute('data-verdict');
      group.querySelector('.halo').setAttribute('d', outline(op, op.verdict, 5));
      group.querySelector('.box').setAttribute('d', outline(op, op.verdict, 0));
      group.querySelector('.type').textContent = boxTitle(op);
    });
    minimap.later();
  }
  function highlight(places) {
    elements.forEach((group, number) => group.toggleAttribute('data-together', places.has(number)));
  }
  // Marks by place: start, end, between, or 'start end' for an op that is both: its data-mark is start, and it has data-end.
  function mark(marks) {
    elements.forEach((group, number) => {
      const found = marks.get(number);
      const flag = group.querySelector('.flag');
      if (flag) flag.remove();
      const both = found === 'start end';
      group.toggleAttribute('data-end', both);
      if (!found) return group.removeAttribute('data-mark');
      group.setAttribute('data-mark', both ? 'start' : found);
      if (found !== 'between') {
        const op = drawing.ops[number];
        // Below the box, where no edge has its label.
        group.append(make('text', {class: 'flag', x: op.x - op.width / 2, y: op.y + op.height / 2 + 17}, found.toUpperCase()));
      }
    });
  }

  // On paper: all of it where its letters can be read there, else what is in sight.
  if (!holder.print) onPrint((printing) => holder.print(printing));
  holder.print = (printing) => {
    const long = Math.max(drawing.width, drawing.height) > PAPER, full = [drawing.width + 2 * margin, drawing.height + 2 * margin];
    const sight = [holder.clientWidth, holder.clientHeight].map((space, at) => Math.min(space / scale, full[at]));
    if (printing && long && !holder.was) {
      holder.was = [holder.scrollLeft, holder.scrollTop];
      svg.setAttribute('viewBox', [...holder.was.map((at) => at / scale - margin), ...sight].join(' '));
      size(sight, 1);
    } else if (!printing && holder.was) {
      svg.setAttribute('viewBox', whole);
      size(full, scale);
      [holder.scrollLeft, holder.scrollTop] = holder.was;
      holder.was = null;
    }
  };

  const now = {zoomTo, zoomBy: (factor, x, y) => zoomTo(scale * factor, x, y), zoom, fit};
  const minimap = holder.minimap || (holder.minimap = new Minimap(holder));
  if (!holder.now) listenTo(holder);
  holder.now = now;
  svg.addEventListener('click', (event) => {
    if (holder.dataset.dragged) return;
    const group = event.target.closest('[data-place]'), frame = event.target.closest('text') && event.target.closest('[data-fold]');
    if (group) acts.choose(Number(group.dataset.place));
    else if (frame) acts.fold(Number(frame.dataset.fold));
  });
  minimap.show(drawing, {scale: () => scale, margin});
  zoomTo(scale, 0, 0);
  const onScreen = (x, y) => [(x + margin) * scale - holder.scrollLeft, (y + margin) * scale - holder.scrollTop];
  return {zoom, fit, centre, show, repaint, highlight, mark, onScreen, scale: () => scale};
}

// Keys, wheel and fingers act on what the holder shows now.
function listenTo(holder) {
  holder.addEventListener('wheel', (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const box = holder.getBoundingClientRect();
    holder.now.zoomBy(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
  }, {passive: false});
  holder.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== holder) return;
    const keys = {'+': () => holder.now.zoom(1.25), '=': () => holder.now.zoom(1.25), '-': () => holder.now.zoom(0.8), '0': () => holder.now.fit()};
    if (keys[event.key]) {
      event.preventDefault();
      keys[event.key]();
    }
  });
  dragAndPinch(holder, (factor, x, y) => holder.now.zoomBy(factor, x, y));
}

// A mouse drags, two fingers zoom; one finger pans as the browser does it.
function dragAndPinch(holder, zoomBy) {
  const fingers = new Map();
  let last = null;
  holder.addEventListener('pointerdown', (event) => {
    delete holder.dataset.dragged;
    fingers.set(event.pointerId, event);
    last = event.pointerType === 'mouse' && event.button === 0 ? event : null;
  });
  holder.addEventListener('pointermove', (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    if (fingers.size === 2) {
      const other = [...fingers.values()].find((finger) => finger.pointerId !== event.pointerId);
      const box = holder.getBoundingClientRect();
      const gap = (finger) => Math.max(1, Math.hypot(finger.clientX - other.clientX, finger.clientY - other.clientY));
      zoomBy(gap(event) / gap(before), (event.clientX + other.clientX) / 2 - box.left, (event.clientY + other.clientY) / 2 - box.top);
      fingers.set(event.pointerId, event);
    } else if (last) {
      const moved = Math.hypot(event.clientX - before.clientX, event.clientY - before.clientY);
      if (moved > 4 && !holder.dataset.dragged) {
        holder.dataset.dragged = '1';
        holder.classList.add('dragging');
        holder.setPointerCapture(event.pointerId);
      }
      if (holder.dataset.dragged) {
        holder.scrollLeft -= event.clientX - last.clientX;
        holder.scrollTop -= event.clientY - last.clientY;
      }
      last = event;
    }
  });
  for (const name of ['pointerup', 'pointercancel', 'pointerleave']) {
    holder.addEventListener(name, (event) => {
      fingers.delete(event.pointerId);
      last = null;
      holder.classList.remove('dragging');
    });
  }
}

// The buttons above a network; network() returns what showNetwork() returned, select(number) shows an op everywhere.
function networkTools(network, select) {
  const button = (text, label, act) => {
    const made = make('button', {type: 'button', 'aria-label': label, title: label}, text);
    made.addEventListener('click', act);
    return made;
  };
  const go = (step) => { const next = network().nextFailing(step); if (next !== null) select(next); };
  const failing = button('', 'the next op outside its limits (f; the one before: Shift + f)', () => go(1));
  // Its text names it.
  failing.removeAttribute('aria-label');
  failing.dataset.next = 'fail';
  const folding = [button('fold', 'fold all groups', () => network().foldAll(true)), button('unfold', 'unfold all groups', () => network().foldAll(false))];
  const bar = make('div', {class: 'network-tools'}, [
    button('+', 'zoom in (+)', () => network().zoom(1.25)),
    button('−', 'zoom out (-)', () => network().zoom(0.8)),
    button('all', 'all of the network (0)', () => network().fit()), ...folding, failing,
  ]);
  return {
    bar, go,
    // Offer what the network that is drawn now has.
    offer(count) {
      failing.hidden = !count;
      failing.textContent = 'next failing (' + count + ')';
      if (!network()) return;
      for (const each of folding) each.hidden = !network().folds;
      folding[1].disabled = Boolean(network().tooMany());
      folding[1].title = network().tooMany() || 'unfold all groups';
    },
  };
}
