// The networks of a run in its report (report_graph.py). `open(name)` is called with the op that is clicked.

function reportGraphs(holder, graphs, open) {
  const box = make('div', {class: 'network', tabindex: 0, role: 'group',
    'aria-label': 'the network: plus and minus zoom, 0 shows all, arrows move, f goes to the next op outside its limits, Shift and f to the one before'});
  const words = make('span', {class: 'quiet'});
  let graph = graphs[0], network = null, numbers = new Map(), failing = 0;

  function select(number, still) {
    network.show(number, still);
    for (const [name, at] of numbers) if (at === number) open(name);
  }

  function draw(whole) {
    const shown = whole ? graph.whole : graph.near, groups = shown.groups || [{drawing: shown.drawing}];
    numbers = new Map(groups.flatMap((group) => group.drawing.ops.filter((op) => op.number >= 0).map((op) => [op.name, op.number])));
    network = showNetwork(box, shown, select, (count) => { failing = count; tools.offer(count); });
    if (numbers.has(graph.focus)) network.show(numbers.get(graph.focus));
    tools.offer(failing);
    const all = network.count === graph.count;
    const around = all || whole ? [] : [', around ', make('span', {class: 'name'}, breakable(shortened(graph.focus, LONGEST_NAME)))];
    const left = whole && !all ? `all ${graph.count} ops, of which ${graph.count - network.count} are constants` : null;
    words.replaceChildren(left || (all ? `all ${graph.count} ops` : `${network.count} of ${graph.count} ops`), ...around);
    extent.hidden = !graph.whole;
    extent.textContent = whole ? 'only the neighbourhood' : 'the whole network';
    extent.setAttribute('aria-pressed', String(whole));
  }

  const extent = make('button', {type: 'button', 'data-extent': '1'});
  extent.addEventListener('click', () => draw(extent.getAttribute('aria-pressed') !== 'true'));
  const tools = networkTools(() => network, select);
  if (graphs.length > 1) {
    const choice = make('select', {'aria-label': 'which network'}, graphs.map((each, number) => make('option', {value: number}, printable(each.model))));
    choice.addEventListener('change', () => {
      graph = graphs[Number(choice.value)];
      draw(false);
    });
    tools.bar.prepend(choice);
  }
  tools.bar.append(extent, words);
  holder.append(tools.bar, box);
  box.addEventListener('keydown', (event) => {
    if (event.key.toLowerCase() !== 'f' || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    tools.go(event.shiftKey ? -1 : 1);
    // The row that opens takes the focus; the next f is for the network, too.
    box.focus({preventScroll: true});
  });
  draw(false);
  return {
    // Show an op of the network that is drawn; nothing happens for one that is not.
    show(name) {
      if (numbers.has(name)) network.show(numbers.get(name));
    },
    colour: (verdictOf) => network.colour(verdictOf),
    // The names of the ops that feed an op, and of those that it feeds, in the network that is chosen; null where it is not known there.
    neighbours(name) {
      const at = graph.names.indexOf(name);
      if (at < 0) return null;
      const readers = graph.names.filter((_, number) => graph.sources[number].includes(at));
      return {before: graph.sources[at].map((number) => graph.names[number]), after: readers};
    },
  };
}
