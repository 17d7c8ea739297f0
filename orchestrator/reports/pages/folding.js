// A large network in groups that fold (folding.py): the drawings of unfolded groups put into one another, and what a page does with ops.

const FRAME_PAD = 16, FRAME_HEAD = 24, MOST_UNFOLDED = 3000;

// Where a coordinate comes to lie when intervals [from, to, length wanted] are stretched; what lies behind moves on.
function stretched(intervals) {
  const ends = [...new Set(intervals.flatMap(([from, to]) => [from, to]))].sort((a, b) => a - b), moved = ends.slice(0, 1);
  for (let at = 1; at < ends.length; at++) {
    const over = intervals.filter(([from, to]) => from <= ends[at - 1] && to >= ends[at]).map(([from, to, wanted]) => wanted / (to - from));
    moved.push(moved[at - 1] + (ends[at] - ends[at - 1]) * Math.max(1, ...over));
  }
  const last = ends.length - 1;
  return (value) => {
    if (!ends.length || value <= ends[0]) return value;
    if (value >= ends[last]) return moved[last] + value - ends[last];
    const at = ends.findIndex((end) => end > value);
    return moved[at - 1] + (value - ends[at - 1]) / (ends[at] - ends[at - 1]) * (moved[at] - moved[at - 1]);
  };
}

// The drawing of a group in which some groups are unfolded, as drawNetwork() takes it.
function composed(groups, id, open) {
  const {drawing} = groups[id], inner = new Map();
  drawing.ops.forEach((box, place) => { if (open.has(box.group)) inner.set(place, composed(groups, box.group, open)); });
  const side = (box, middle, length) => [box[middle] - box[length] / 2, box[middle] + box[length] / 2];
  const wide = [...inner].map(([place, part]) => [...side(drawing.ops[place], 'x', 'width'), part.width + 2 * FRAME_PAD]);
  const high = [...inner].map(([place, part]) => [...side(drawing.ops[place], 'y', 'height'), part.height + 2 * FRAME_PAD + FRAME_HEAD]);
  const x = stretched(wide), y = stretched(high), found = {width: x(drawing.width), height: y(drawing.height), ops: [], edges: [], frames: []};
  const places = [], rooms = drawing.ops.map((box, place) => {
    const part = inner.get(place);
    if (!part) {
      places[place] = found.ops.push({...box, x: x(box.x), y: y(box.y)}) - 1;
      return found.ops[places[place]];
    }
    const [left, right] = side(box, 'x', 'width').map(x), [top, bottom] = side(box, 'y', 'height').map(y);
    const room = {x: (left + right) / 2, y: (top + bottom) / 2, width: right - left, height: bottom - top, group: box.group};
    const first = found.ops.length, over = (right - left - part.width) / 2, down = top + FRAME_HEAD + FRAME_PAD;
    places[place] = -1;
    found.frames.push(room, ...part.frames.map((frame) => ({...frame, x: frame.x + over + left, y: frame.y + down})));
    found.ops.push(...part.ops.map((op) => ({...op, x: op.x + over + left, y: op.y + down})));
    found.edges.push(...part.edges.map(([source, target, text, lx, ly, points]) => [source < 0 ? -1 : source + first, target < 0 ? -1 : target + first, text, lx + over + left, ly + down,
      points.map((value, at) => value + (at % 2 ? down : over + left))]));
    return room;
  });
  // A point at the upper or lower side of a box stays there.
  const kept = (place, px, py) => {
    const box = drawing.ops[place], room = rooms[place];
    const upper = py < box.y, edge = upper ? box.y - box.height / 2 : box.y + box.height / 2;
    return [room.x + (px - box.x) * room.width / box.width, (upper ? room.y - room.height / 2 : room.y + room.height / 2) + py - edge];
  };
  for (const [source, target, text, lx, ly, points] of drawing.edges) {
    const moved = points.map((value, at) => (at % 2 ? y(value) : x(value))), last = points.length - 2, box = drawing.ops[source];
    if (Math.abs(Math.abs(points[1] - box.y) - box.height / 2) < 1) moved.splice(0, 2, ...kept(source, points[0], points[1]));
    moved.splice(last, 2, ...kept(target, points[last], points[last + 1]));
    found.edges.push([places[source], places[target], text, ...kept(target, lx, ly), moved]);
  }
  return found;
}

// Draw a network into an element of class "network": data has a drawing, or groups that fold with the readers of constants. Ops are named by
// their numbers; select(number) is called when one is chosen by click, failing(count) when it is known how many are outside their limits.
function showNetwork(holder, data, select, failing = () => {}) {
  const groups = data.groups || [{drawing: data.drawing}], open = new Set([0]), parent = new Map(), home = new Map(), inside = groups.map(() => []);
  groups.forEach((group, id) => group.drawing.ops.forEach((box) => {
    if (box.group !== undefined) parent.set(box.group, id);
    else if (box.number >= 0) home.set(box.number, id);
  }));
  groups.forEach((group, id) => group.drawing.ops.forEach((box) => {
    if (box.number >= 0) for (let at = id; at !== undefined; at = parent.get(at)) inside[at].push(box);
  }));
  const numbers = [...home.keys()].sort((a, b) => a - b), boxOf = new Map(inside[0].map((box) => [box.number, box]));
  let drawn = null, flat = null, places = new Map(), selected = null, marks = new Map(), scale = 1;

  function tally() {
    groups.forEach((group) => group.drawing.ops.forEach((box) => {
      if (box.group === undefined) return;
      const all = inside[box.group].map((one) => one.verdict).filter(Boolean);
      box.failing = all.filter((verdict) => verdict === 'fail').length;
      box.verdict = all.length ? all.reduce((worst, one) => (URGENCY[one] < URGENCY[worst] ? one : worst)) : null;
    }));
    failing(inside[0].filter((box) => box.verdict === 'fail').length);
  }

  function draw() {
    flat = data.groups ? composed(groups, 0, open) : data.drawing;
    for (const frame of flat.frames || []) Object.assign(frame, {label: groups[frame.group].label, note: groups[frame.group].note, count: inside[frame.group].length});
    places = new Map(flat.ops.map((op, place) => [op.number, place]).filter(([number]) => number >= 0));
    drawn = drawNetwork(holder, flat, {choose, fold: (group) => toggle(group)}, scale);
    remark();
    drawn.show(places.has(selected) ? places.get(selected) : null, true);
  }

  function choose(place) {
    const op = flat.ops[place];
    if (op.group !== undefined) toggle(op.group);
    else if (op.port !== undefined) { if (op.port >= 0) select(op.port, false); } else select(op.number, true);
  }

  // Fold or unfold a group; its upper left corner stays where it is.
  function toggle(group) {
    const corner = () => {
      const found = flat.ops.find((op) => op.group === group) || flat.frames.find((frame) => frame.group === group);
      return [found.x - found.width / 2, found.y - found.height / 2];
    };
    const before = drawn.onScreen(...corner());
    scale = drawn.scale();
    if (open.has(group)) open.delete(group);
    else open.add(group);
    draw();
    const now = drawn.onScreen(...corner());
    holder.scrollLeft += now[0] - Math.max(before[0], 0);
    holder.scrollTop += now[1] - Math.max(before[1], 0);
  }

  // Unfold all groups that an op is in.
  function reach(number) {
    let changed = false;
    for (let at = home.get(number); at; at = parent.get(at)) if (!open.has(at)) { open.add(at); changed = true; }
    if (changed) { scale = drawn ? drawn.scale() : 1; draw(); }
  }

  // The op that is drawn for another: a constant stands in the box of its reader.
  function shownFor(number) {
    const reader = data.constants && data.constants[number];
    return reader === undefined ? number : reader;
  }

  function remark() {
    const found = new Map();
    for (const [number, mark] of marks) {
      const place = places.get(number);
      if (place !== undefined) found.set(place, mark);
    }
    drawn.mark(found);
  }

  tally();
  draw();
  return {
    has: (number) => home.has(shownFor(number)),
    zoom: (factor) => drawn.zoom(factor),
    fit: () => drawn.fit(),
    top: () => drawn.centre(0),
    // Show an op, null for none; `still` leaves what is in sight as it is, if the op is in it.
    show(number, still) {
      selected = number === null ? null : shownFor(number);
      if (selected !== null && home.has(selected)) reach(selected);
      drawn.show(places.has(selected) ? places.get(selected) : null, still);
    },
    mark(found) { marks = found; remark(); },
    // Highlight ops that belong together.
    highlight(found) {
      const [first] = found.filter((number) => home.has(number));
      for (const number of found.slice(0, 50)) if (home.has(number)) reach(number);
      drawn.highlight(new Set(found.map((number) => places.get(number))));
      if (first !== undefined) drawn.centre(places.get(first));
    },
    // Give ops the verdicts that verdictOf(name) tells.
    colour(verdictOf) {
      for (const box of inside[0]) box.verdict = verdictOf(box.name);
      tally();
      const now = data.groups ? composed(groups, 0, open) : data.drawing;
      flat.ops.forEach((op, place) => Object.assign(op, {verdict: now.ops[place].verdict, failing: now.ops[place].failing}));
      drawn.repaint();
    },
    // The number of the next op outside its limits behind (before) the one that is shown, null where none is.
    nextFailing(step) {
      const found = numbers.filter((number) => boxOf.get(number).verdict === 'fail');
      if (!found.length) return null;
      const next = step > 0 ? found.find((number) => selected === null || number > selected) : [...found].reverse().find((number) => selected === null || number < selected);
      return next !== undefined ? next : step > 0 ? found[0] : found[found.length - 1];
    },
    folds: groups.length > 1,
    // Why not everything can be unfolded; empty where it can.
    tooMany: () => (inside[0].length > MOST_UNFOLDED ? inside[0].length + ' ops are too many to be drawn at once' : ''),
    foldAll(folded) {
      open.clear();
      open.add(0);
      if (!folded) groups.forEach((group, id) => open.add(id));
      draw();
      if (folded) drawn.fit();
    },
    // Fold the group that the op which is shown is in.
    foldAround() {
      const group = home.get(selected);
      if (group) toggle(group);
    },
    count: inside[0].length,
  };
}
