// The networks of a run in its report (report_graph.py). `open(name)` is called with the op that is clicked.

function reportGraphs(holder, graphs, open) {
  const box = make('div', {class: 'network', tabindex: 0, role: 'group', 'aria-label': 'the network: plus and minus zoom, 0 shows all, arrows move'});
  const words = make('span', {class: 'quiet'});
  let graph = graphs[0], network = null;

  function draw(whole) {
    const drawing = whole ? graph.whole : graph.near;
    network = drawNetwork(box, drawing, (place) => {
      network.show(place, true);
      open(drawing.ops[place].name);
    });
    const middle = drawing.ops.findIndex((op) => op.name === graph.focus);
    if (middle >= 0) network.show(middle);
    const all = drawing.ops.length === graph.count;
    const around = all ? [] : [', around ', make('span', {class: 'name'}, breakable(shortened(graph.focus, LONGEST_NAME)))];
    words.replaceChildren(all ? `all ${graph.count} ops` : `${drawing.ops.length} of ${graph.count} ops`, ...around);
    extent.hidden = !graph.whole;
    extent.textContent = whole ? 'only the neighbourhood' : graph.whole && graph.whole.ops.length < graph.count ? `${graph.whole.ops.length} ops` : 'the whole network';
    extent.setAttribute('aria-pressed', String(whole));
  }

  const extent = make('button', {type: 'button', 'data-extent': '1'});
  extent.addEventListener('click', () => draw(extent.getAttribute('aria-pressed') !== 'true'));
  const tools = networkTools(() => network);
  if (graphs.length > 1) {
    const choice = make('select', {'aria-label': 'which network'}, graphs.map((each, number) => make('option', {value: number}, printable(each.model))));
    choice.addEventListener('change', () => {
      graph = graphs[Number(choice.value)];
      draw(false);
    });
    tools.prepend(choice);
  }
  tools.append(extent, words);
  holder.append(tools, box);
  draw(false);
  return {
    // Show an op of the network that is drawn; nothing happens for one that is not.
    show(name) {
      const part = extent.getAttribute('aria-pressed') === 'true' ? graph.whole : graph.near;
      const place = part.ops.findIndex((op) => op.name === name);
      if (place >= 0) network.show(place);
    },
    colour: (verdictOf) => network.colour(verdictOf),
  };
}
