// The graph page: search, the detail of an op, start and end.

const MOST_RESULTS = 300;

// What of an op is searched, best first: its name, its type and originals, its parameters.
function searchTexts(op) {
  const lower = (text) => text.toLowerCase();
  return {
    name: lower(op.name),
    verdict: words(op.verdict || ''),
    about: lower([op.type, ...(op.originals || [])].join('\n')),
    parameters: op.parameters.map(([key, value]) => lower(key + ': ' + value)),
  };
}

// How well a text finds an op: [rank from 0, the parameter that it was found by or null]; null where it does not.
function searchRank(own, text) {
  if (own.name === text) return [0, null];
  if (own.verdict === text) return [1, null];
  if (own.name.startsWith(text)) return [2, null];
  if (own.name.includes(text)) return [3, null];
  if (own.about.includes(text)) return [4, null];
  const at = own.parameters.findIndex((entry) => entry.includes(text));
  return at >= 0 ? [5, at] : null;
}

// The numbers of the ops that a text finds, else all its words, best first, each with the parameter that it was found by.
function searchOps(texts, wanted) {
  const text = wanted.trim().toLowerCase(), parts = wordsOf(wanted);
  if (!text) return texts.map((_, number) => [number, null]);
  const found = [[], [], [], [], [], [], []];
  texts.forEach((own, number) => {
    const [rank, at] = searchRank(own, text) || [6, null], each = rank < 6 ? [] : parts.map((part) => searchRank(own, part));
    if (each.every(Boolean)) found[rank].push([number, rank < 6 ? at : each.map(([, parameter]) => parameter).find((parameter) => parameter !== null) ?? null]);
  });
  return found.flat();
}

// The sign of a verdict before a name; the word is read out.
function verdictMark(verdict) {
  return verdict ? [make('span', {class: 'verdict', 'data-is': verdict, role: 'img', 'aria-label': words(verdict)}), ' '] : [];
}

function startPage(data) {
  const ops = data.ops;
  const byId = (id) => document.getElementById(id);
  const texts = ops.map(searchTexts);
  const choice = makeChoice(data);
  let selected = null, matches = [], listed = 0, active = 0, opener = byId('graph');

  byId('plain').remove();
  byId('workbench').hidden = false;
  let network = null;
  const tools = networkTools(() => network, (number) => select(number));
  network = showNetwork(byId('graph'), data.network, select, (count) => tools.offer(count));
  tools.offer(ops.filter((op) => op.verdict === 'fail').length);
  tools.bar.append(make('span', {class: 'quiet'}, 'drag or scroll to move, Ctrl + wheel or two fingers to zoom'));
  byId('tools').append(tools.bar);

  // Show an op, and name it in the address.
  function select(number, still) {
    const address = number === null ? location.pathname + location.search : addressOf(number);
    if (address !== location.hash && (number !== null || location.hash)) history.pushState(null, '', address);
    byId('address').hidden = true;
    look(number, still);
  }

  function addressOf(number) {
    return '#op-' + encodeURIComponent(ops[number].name);
  }

  // Show the op that the address names; say so where there is none.
  function follow() {
    const named = /^#op-(.+)$/.exec(location.hash);
    let name = null;
    try { name = named && decodeURIComponent(named[1]); } catch (error) { name = named[1]; }
    const number = name === null ? -1 : ops.findIndex((op) => op.name === name);
    byId('address').hidden = name === null || number >= 0;
    byId('address').textContent = name === null ? '' : 'The address names the op ' + shortened(name, LONGEST_WORD) + ', which is not in this network.';
    if (number >= 0 || name === null) look(number >= 0 ? number : null);
    return number >= 0;
  }

  function look(number, still) {
    selected = number;
    if (document.activeElement === byId('search')) opener = byId('search');
    else if (document.activeElement === byId('graph')) opener = byId('graph');
    network.show(number, still);
    showDetail();
    if (original) original.show(number);
  }

  function choose(number, which) {
    choice.choose(number, which);
    showChoice();
    showDetail();
  }

  // What is told of an op of the original model, in the place of a compiled one.
  const original = showOriginal(data, select, (parts) => byId('detail').replaceChildren(...parts));
  byId('workbench').toggleAttribute('data-beside', original !== null);

  const shortNames = shortenedAll(ops.map((op) => op.name), 120), named = (number) => shortNames.get(ops[number].name) || '(an op without a name)';

  function link(number) {
    const button = make('button', {type: 'button', class: 'link name'}, named(number));
    button.addEventListener('click', () => { select(number); byId('detail').focus({preventScroll: true}); });
    return button;
  }

  function showDetail() {
    const holder = byId('detail');
    if (selected === null) {
      holder.replaceChildren(make('p', {class: 'quiet'}, 'Find an op above, or choose one in the drawing.'));
      delete holder.dataset.op;
      return;
    }
    const op = ops[selected];
    holder.dataset.op = op.name;
    const parts = [make('h2', {class: 'name'}, printable(op.name) || named(selected)), make('p', {}, ['type ' + printable(op.type) + ' · ', make('a', {href: addressOf(selected)}, 'link')])];
    if (!network.has(selected)) parts.push(make('p', {class: 'quiet'}, 'A constant that no op reads is not drawn.'));
    parts.push(chooseButtons(selected));
    if (op.originals && op.originals.length) {
      parts.push(make('h3', {}, op.originals.length > 1 ? `from ${op.originals.length} original ops` : 'original op'));
      parts.push(make('ul', {}, op.originals.map((name) => make('li', {class: 'name'}, [(original && original.link(name)) || printable(name)]))));
    } else if (op.originals) {
      parts.push(make('p', {class: 'quiet'}, 'The compiler made it: no original op is behind it.'));
    }
    parts.push(...flowParts(op));
    parts.push(...rowParts(data.rows[op.name]));
    parts.push(...parameterParts(op.parameters));
    holder.replaceChildren(...parts);
  }

  function chooseButtons(number) {
    const parts = [], reasons = [];
    for (const which of ['start', 'end']) {
      const refusal = choice.refusal(number, which);
      const button = make('button', {type: 'button', 'data-choose': which, 'aria-pressed': String(choice[which] === number), title: refusal || null}, which + ' here');
      button.disabled = Boolean(refusal);
      button.addEventListener('click', () => {
        choose(number, which);
        const again = byId('detail').querySelector(`button[data-choose=${which}]`);
        if (again) again.focus();
      });
      parts.push(button);
      if (refusal) reasons.push(`no ${which}: ${refusal}`);
    }
    const same = new Set(reasons.map((reason) => reason.slice(reason.indexOf(':'))));
    if (same.size === 1 && reasons.length === 2) reasons.splice(0, 2, 'no start and no end' + [...same][0]);
    return make('div', {class: 'buttons'}, [...parts, ...reasons.map((reason) => make('small', {class: 'quiet'}, reason))]);
  }

  function flowParts(op) {
    const parts = [];
    if (op.inputs.length) {
      parts.push(make('h3', {}, 'takes'));
      parts.push(make('ul', {}, op.inputs.map(([producer, words]) => make('li', {}, [
        make('span', {class: 'words'}, printable(words) || 'a tensor'), ...(producer === null ? [] : [' of ', link(producer)])]))));
    }
    if (op.weights) parts.push(make('h3', {}, 'weights'), make('p', {class: 'words'}, printable(op.weights)));
    const readers = choice.readers[selected];
    if (op.outputs.length) {
      parts.push(make('h3', {}, 'gives'));
      parts.push(make('ul', {}, op.outputs.map((words) => make('li', {class: 'words'}, printable(words) || 'a tensor'))));
    }
    if (readers.length) {
      parts.push(make('h3', {}, 'to'));
      parts.push(make('ul', {}, readers.slice(0, 50).map((number) => make('li', {}, [link(number)]))));
      if (readers.length > 50) parts.push(make('p', {class: 'quiet'}, `and ${readers.length - 50} more`));
    }
    return parts;
  }

  function rowParts(found) {
    if (!found) return [];
    const lines = found.rows.map((row) => make('li', {}, [
      make('span', {class: 'verdict', 'data-is': row.verdict}, row.verdict.replace('_', ' ')), ' ',
      make('span', {class: 'name'}, printable(row.tensor)), row.place ? ` (${printable(row.place)})` : '',
      ...Object.entries(row.metrics).map(([name, value]) => make('div', {class: 'words'}, `${name} ${digits(value, 3)}`)),
      ...(row.reason ? [make('div', {class: 'quiet'}, printable(row.reason))] : [])]));
    const rest = found.more ? [make('p', {class: 'quiet'}, `and ${found.more} more rows that are no worse`)] : [];
    return [make('h3', {}, 'compared'), make('ul', {}, lines), ...rest];
  }

  function parameterParts(parameters) {
    if (!parameters.length) return [];
    const body = make('tbody', {}, parameters.map(([key, value]) => make('tr', {}, [make('th', {scope: 'row'}, printable(key)), make('td', {class: 'words'}, printable(value))])));
    const parts = [make('summary', {}, parameters.length === 1 ? '1 parameter' : `${parameters.length} parameters`)];
    if (parameters.length > 8) {
      const filter = make('input', {type: 'search', placeholder: 'find a parameter', 'aria-label': 'find a parameter'});
      filter.addEventListener('input', () => {
        const text = filter.value.trim().toLowerCase();
        [...body.rows].forEach((row, at) => { row.hidden = !texts[selected].parameters[at].includes(text); });
      });
      parts.push(filter);
    }
    const folded = make('details', {}, [...parts, make('table', {}, [body])]);
    folded.open = window.innerWidth > 900;
    return [folded];
  }

  function showChoice() {
    network.mark(new Map(choice.marks()));
    const holder = byId('choosing');
    if (choice.start === null && choice.end === null) {
      holder.replaceChildren(make('p', {class: 'quiet'}, 'Choose where a part of the network starts and where it ends: the command for it appears here.'));
      return;
    }
    const name = (number) => (number === null ? make('span', {class: 'quiet'}, 'not chosen yet') : link(number));
    const clear = make('button', {type: 'button'}, 'clear');
    clear.addEventListener('click', () => { choice.clear(); showChoice(); showDetail(); });
    const parts = [make('dl', {}, [
      make('dt', {class: 'start'}, 'start'), make('dd', {}, [name(choice.start)]),
      make('dt', {class: 'end'}, 'end'), make('dd', {}, [name(choice.end)])])];
    if (choice.lost) parts.push(make('p', {role: 'status'}, choice.lost));
    if (choice.start !== null && choice.end !== null) {
      const {submodel, config, asked} = choice.commands();
      const count = choice.between.size;
      parts.push(make('p', {role: 'status'}, `${count} ${count === 1 ? 'op' : 'ops'} from start to end`));
      if (submodel) parts.push(commandPart('cut them out:', 'command', submodel, count));
      else parts.push(make('p', {class: 'quiet', id: 'no-command'}, 'no command cuts them out: ' + choice.noSubmodel()));
      if (asked.length) {
        const names = asked.slice(0, 4).map((name) => shortened(name, 80)).join(', ') + (asked.length > 4 ? ` and ${asked.length - 4} more` : '');
        parts.push(make('p', {id: 'to-fill-in'}, [make('b', {}, 'Put a number for each ?'), ` (for a lone ? all dims, such as 1,64,56,56): the file does not tell the shape of ${names}. `
          + 'A page made with --om, --golden or --result has the shapes.']));
      }
      if (config) parts.push(commandPart('dump only them:', submodel ? 'config-command' : 'command', config, count));
      if (config && data.omJson) parts.push(make('p', {class: 'quiet', id: 'om-json'}, `${data.omJson} stands for the json of the om: atc --mode=1 --om=FILE.om --json=${data.omJson} makes it; a page made with --om names it.`));
      if (!config && data.config) parts.push(make('p', {}, 'None of these ops has a dump.'));
    }
    holder.replaceChildren(...parts, clear);
    addCopyButtons(holder);
  }

  function commandPart(words, id, command, count) {
    const block = commandBlock(command);
    for (const [name, value] of [['id', id], ['data-nodes', count], ['tabindex', 0]]) block.setAttribute(name, value);
    return make('div', {}, [make('span', {class: 'quiet'}, words), make('div', {class: 'row'}, [block])]);
  }

  // List what was found; of very much the part around one of them.
  function showMatches(wanted = 0) {
    const holder = byId('results');
    listed = wanted < MOST_RESULTS ? 0 : wanted - MOST_RESULTS / 2;
    const shown = matches.slice(listed, listed + MOST_RESULTS);
    holder.replaceChildren(...shown.map(([number, parameter], at) => {
      const op = ops[number];
      const about = parameter === null ? shortened(op.type, 60) : printable(op.parameters[parameter].join(': ').slice(0, 120));
      const option = make('div', {role: 'option', id: 'result-' + at, 'aria-selected': 'false', 'data-number': number}, [...verdictMark(op.verdict), make('span', {class: 'name'}, named(number)), ' ', make('small', {}, about)]);
      return option;
    }));
    const more = matches.length - shown.length;
    byId('found').textContent = `${matches.length} of ${ops.length} ops` + (more > 0 ? (listed ? `; ${shown.length} are listed, from the ${listed + 1}th on` : `; the first ${shown.length} are listed`) : '');
    activate(wanted - listed);
  }

  function activate(at) {
    const options = byId('results').children;
    for (const option of byId('results').querySelectorAll('[aria-selected=true]')) option.setAttribute('aria-selected', 'false');
    active = Math.max(0, Math.min(at, options.length - 1));
    if (!options.length) return byId('search').removeAttribute('aria-activedescendant');
    options[active].setAttribute('aria-selected', 'true');
    byId('search').setAttribute('aria-activedescendant', options[active].id);
    options[active].scrollIntoView({block: 'nearest'});
  }

  byId('search').addEventListener('input', (event) => {
    matches = searchOps(texts, event.target.value);
    showMatches();
  });
  byId('search').addEventListener('keydown', (event) => {
    const steps = {ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8};
    if (event.key in steps) activate(active + steps[event.key]);
    else if (event.key === 'Enter' && matches.length) select(matches[listed + active][0]);
    else return;
    event.preventDefault();
  });
  byId('results').addEventListener('click', (event) => {
    const option = event.target.closest('[role=option]');
    if (!option) return;
    activate([...byId('results').children].indexOf(option));
    select(Number(option.dataset.number));
  });
  byId('graph').addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const next = (step) => select(selected === null ? 0 : Math.max(0, Math.min(ops.length - 1, selected + step)));
    if (event.key === 'n') next(1);
    else if (event.key === 'p') next(-1);
    else if (event.key === 'u') network.foldAround();
    else if (event.key === 's' && selected !== null) choose(selected, 'start');
    else if (event.key === 'e' && selected !== null) choose(selected, 'end');
    else return;
    event.preventDefault();
  });
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && selected !== null) {
      const inside = byId('detail').contains(document.activeElement);
      select(null);
      if (inside) opener.focus({preventScroll: true});
    }
    const writing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName), held = event.ctrlKey || event.metaKey || event.altKey;
    if (event.key.toLowerCase() === 'f' && !writing && !held) {
      event.preventDefault();
      tools.go(event.shiftKey ? -1 : 1);
    }
    if (event.key === '/' && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      byId('search').focus();
    }
  });

  matches = searchOps(texts, '');
  showMatches();
  showChoice();
  byId('results').scrollTop = 0;
  window.addEventListener('popstate', follow);
  if (follow()) {
    showMatches(selected);
    requestAnimationFrame(() => activate(active));
  } else if (data.first !== null) {
    look(data.first);
    showMatches(data.first);
    // Heights of entries that were not in sight are guessed until now.
    requestAnimationFrame(() => activate(active));
  }
  else {
    showDetail();
    network.top();
  }
  if (byId('address').hidden) window.scrollTo(0, 0);
}

readData('network').then((data) => {
  startPage(data);
  ready();
}, (error) => {
  document.getElementById('plain').prepend(make('p', {role: 'alert'}, 'The drawing cannot be shown: ' + error.message));
  ready();
});
