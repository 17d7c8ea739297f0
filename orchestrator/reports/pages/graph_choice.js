// From where to where: start, end, what lies between, and the command that cuts it out.

// A word as a shell reads it back, whatever is in it.
function shellWord(word) {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  if (printable(word) === word) return "'" + word.replace(/'/g, "'\"'\"'") + "'";
  const escaped = Array.from(new TextEncoder().encode(word), (byte) => {
    if (byte === 0x27 || byte === 0x5c) return '\\' + String.fromCharCode(byte);
    return byte < 0x20 || byte > 0x7e ? '\\x' + byte.toString(16).padStart(2, '0') : String.fromCharCode(byte);
  });
  return "$'" + escaped.join('').replace(/(\\x[0-9a-f]{2})(?=[0-9a-fA-F])/g, "$1'$'") + "'";
}

// A name as a glob that matches nothing else.
function globWord(name) {
  return name.replace(/[[*?]/g, '[$&]');
}

// All ops that are reached from one along its lists of neighbours, it included.
function reachedFrom(number, neighbours) {
  const found = new Set([number]);
  const waiting = [number];
  while (waiting.length) {
    for (const other of neighbours[waiting.pop()]) {
      if (!found.has(other)) {
        found.add(other);
        waiting.push(other);
      }
    }
  }
  return found;
}

// The choice of start and end in a network of ops (each with `inputs` [[producer or null, words], …]).
function makeChoice(data) {
  const ops = data.ops;
  const readers = ops.map(() => []), makers = ops.map(() => []);
  ops.forEach((op, number) => {
    for (const [producer] of op.inputs) {
      if (producer !== null && !makers[number].includes(producer)) {
        makers[number].push(producer);
        readers[producer].push(number);
      }
    }
  });
  const choice = {start: null, end: null, readers, makers, below: new Set(), between: new Set(), lost: ''};

  // Why an op cannot be the start or the end; empty when it can.
  choice.refusal = (number, which) => {
    if (!data.config && ops[number][which] === null) return ops[number].why;
    if (which === 'end' && choice.start !== null && !choice.below.has(number)) return 'it does not lie below the start';
    return '';
  };
  choice.choose = (number, which) => {
    if (choice.refusal(number, which)) return;
    choice[which] = number;
    choice.lost = '';
    if (which === 'start') choice.below = reachedFrom(number, readers);
    if (choice.end !== null && choice.start !== null && !choice.below.has(choice.end)) {
      choice.lost = `the end was ${printable(ops[choice.end].name)}, which does not lie below this start: choose another`;
      choice.end = null;
    }
    choice.between = new Set();
    if (choice.start !== null && choice.end !== null) {
      const above = reachedFrom(choice.end, makers);
      choice.between = new Set([...choice.below].filter((other) => above.has(other)));
    }
  };
  choice.clear = () => Object.assign(choice, {start: null, end: null, lost: '', below: new Set(), between: new Set()});
  choice.marks = () => {
    const found = new Map([...choice.between].map((number) => [number, 'between']));
    if (choice.end !== null) found.set(choice.end, 'end');
    if (choice.start !== null) found.set(choice.start, choice.start === choice.end ? 'start end' : 'start');
    return found;
  };
  // Why no command cuts out what is chosen; empty where one does.
  choice.noSubmodel = () => {
    if (!data.submodel) return printable(data.noSubmodel);
    const which = ['start', 'end'].find((each) => ops[choice[each]][each] === null);
    return which ? `${printable(ops[choice[which]].name)} cannot be the ${which} of a cut: ${printable(ops[choice[which]].why)}` : '';
  };
  // {submodel, config, asked}: the commands, null where one does not apply; the tensors of whose shapes the reader has to fill in what
  // stands in the command as ?.
  choice.commands = () => {
    const words = (before, inner, after) => [...before, ...inner, ...after].map(shellWord).join(' ');
    const start = ops[choice.start].start, end = ops[choice.end].end;
    // What nobody else tells: the shapes of what comes in.
    const shapes = new Map();
    for (const number of choice.between) {
      for (const [producer, , tensor, dims] of ops[number].inputs) {
        if (data.shapes && dims && !choice.between.has(producer)) shapes.set(tensor, dims);
      }
      if (data.shapes && ops[number].asked) shapes.set(...ops[number].asked);
    }
    const given = [...shapes].flatMap(([tensor, dims]) => ['--shape', `${tensor}=${dims}`]);
    const layers = [...choice.between].sort((a, b) => a - b).map((number) => ops[number].layer).filter((name) => name !== null);
    return {
      asked: choice.noSubmodel() ? [] : [...shapes].filter(([, dims]) => dims.includes('?')).map(([tensor]) => tensor),
      submodel: choice.noSubmodel() ? null : words(data.submodel[0], ['--start', start, '--end', end, ...given], data.submodel[1]),
      config: data.config && layers.length ? words(data.config[0], layers.flatMap((name) => ['--layers', globWord(name)]), data.config[1]) : null,
    };
  };
  return choice;
}
