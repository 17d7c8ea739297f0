// The original model beside the compiled one: which of its ops were fused into which, and where to find them.

const MOST_FUSIONS = 300;

// data: as the page's, with data.original; select(number) shows a compiled op; detail: where an original op is told of. Returns what the page
// tells: show(number or null), a compiled op; null where the original model is not known.
function showOriginal(data, select, detail) {
  if (!data.original) return null;
  const {ops, sources} = data.original, byId = (id) => document.getElementById(id), holders = ops.map(() => []);
  sources.forEach((found, number) => { for (const one of new Set(found)) holders[one].push(number); });
  byId('beside').hidden = byId('compiled-head').hidden = false;
  byId('beside-head').textContent = 'Original model: ' + data.original.name;
  let network = null;
  const tools = networkTools(() => network, (number) => choose(number));
  network = showNetwork(byId('original'), data.original.network, (number) => choose(number, true), (count) => tools.offer(count));
  const failing = (data.original.network.groups || [data.original.network]).flatMap((group) => group.drawing.ops).filter((box) => box.number >= 0 && box.verdict === 'fail').length;
  tools.offer(failing);
  byId('beside-tools').append(tools.bar);
  network.top();

  const link = (name, act) => {
    const button = make('button', {type: 'button', class: 'link name'}, shortened(name, LONGEST_WORD) || '(an op without a name)');
    button.addEventListener('click', act);
    return button;
  };
  const linkTo = (number) => link(ops[number].name, () => choose(number));

  // An original op: what it was compiled into, and with what.
  function choose(number, still) {
    network.show(number, still);
    network.highlight([]);
    const op = ops[number], found = holders[number], together = [...new Set(found.flatMap((one) => sources[one]))].filter((one) => one !== number);
    select(found.length ? found[0] : null);
    const parts = [make('h2', {class: 'name'}, printable(op.name)), make('p', {}, 'an op of the original model, type ' + printable(op.type))];
    if (op.weights) parts.push(make('p', {class: 'words'}, 'weights ' + printable(op.weights)));
    const list = (title, items) => (items.length ? [make('h3', {}, title), make('ul', {}, items.slice(0, 50).map((item) => make('li', {}, [item])))] : []);
    if (!found.length) parts.push(make('p', {id: 'not-compiled'}, 'No compiled op names it: the compiler computed it beforehand or left it out.'));
    parts.push(...list('compiled into', found.map((one) => link(data.ops[one].name, () => select(one)))), ...list('together with', together.map(linkTo)),
      ...list('takes of', [...new Set(op.inputs)].map(linkTo)), ...list('gives', op.outputs.map(printable)));
    detail(parts, number);
  }

  byId('fusions').replaceChildren(...fusionList());

  function fusionList() {
    const fused = sources.map((found, number) => [number, found]).filter(([, found]) => found.length > 1);
    const gone = ops.map((_, number) => number).filter((number) => !holders[number].length && !ops[number].constant);
    const count = (all, shown) => (all.length > shown.length ? [make('p', {class: 'quiet'}, 'and ' + (all.length - shown.length) + ' more')] : []);
    const lines = fused.slice(0, MOST_FUSIONS), left = gone.slice(0, MOST_FUSIONS);
    return [
      make('details', {}, [make('summary', {}, fused.length + ' compiled ops are several original ones'),
        make('ul', {}, lines.map(([number, found]) => make('li', {}, [link(data.ops[number].name, () => select(number)), ' ← ', ...found.flatMap((one, at) => [at ? ', ' : '', linkTo(one)])]))), ...count(fused, lines)]),
      make('details', {}, [make('summary', {}, gone.length + ' original ops, constants aside, are in no compiled one'), make('ul', {}, left.map((number) => make('li', {}, [linkTo(number), ' ', make('small', {class: 'quiet'}, printable(ops[number].type))]))),
        ...count(gone, left)]),
    ];
  }

  return {
    link: (name) => { const number = ops.findIndex((op) => op.name === name); return number < 0 ? null : linkTo(number); },
    // Bring the original ops of a compiled one into sight, and mark them.
    show(number) {
      network.show(null);
      network.highlight(number === null ? [] : sources[number]);
    },
  };
}
