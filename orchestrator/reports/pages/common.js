// What every page's script uses: elements, names, numbers, data.

// Make an element: make('td', {class: 'name', 'data-op': op}, 'text' or a list of texts and elements). Text is never markup.
function make(tag, attributes, content) {
  const svg = make.svg.has(tag);
  const element = svg ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  for (const name in attributes || {}) {
    if (attributes[name] !== null && attributes[name] !== undefined && attributes[name] !== false) element.setAttribute(name, attributes[name]);
  }
  if (content !== undefined && content !== null) element.append(...(Array.isArray(content) ? content : [content]));
  return element;
}
make.svg = new Set(['svg', 'g', 'path', 'rect', 'circle', 'line', 'polygon', 'polyline', 'text', 'tspan', 'defs', 'marker', 'ellipse']);

// A name as it is shown: control, direction-changing and invisible characters as escapes, as everywhere in goldwatch.
function printable(name) {
  return String(name).replace(/[\x00-\x1f\x7f-\x9f\u2028\u2029\p{Cf}\p{Default_Ignorable_Code_Point}\ud800-\udfff]/gu, (letter) => {
    let code = letter.codePointAt(0);
    if (code >= 0xdc80 && code <= 0xdcff) code -= 0xdc00;
    const [head, length] = code < 0x100 ? ['\\x', 2] : code < 0x10000 ? ['\\u', 4] : ['\\U', 8];
    return head + code.toString(16).padStart(length, '0');
  });
}

// A very long name: its middle is left out and counted, so that it cannot be read as another one.
function shortened(name, most) {
  const letters = printable(name);
  if (letters.length <= most) return letters;
  const half = Math.floor(most / 2);
  return letters.slice(0, half) + ' …[' + (letters.length - 2 * half) + ' characters]… ' + letters.slice(letters.length - half);
}

// For each of many names what is shown of it: at most so many letters, no two alike, as base/shortening.py makes them.
function shortenedAll(names, most) {
  const known = [...new Set(names)], found = new Map(known.map((name) => [name, middle(printable(name), most)]));
  const alike = () => {
    return [...grouped(known, (name) => found.get(name)).values()].filter((group) => group.length > 1).map((group) => group.filter((name) => found.get(name) !== name)).filter((group) => group.length);
  };
  const clashing = new Set(alike().flat());
  if (!clashing.size) return found;
  const heads = grouped(known.filter((name) => found.get(name) !== name), (name) => name.slice(0, Math.floor(most / 3)));
  for (const group of heads.values()) {
    if (!group.some((name) => clashing.has(name))) continue;
    const front = commonLength(group);
    for (const name of group) found.set(name, around(name, front, front + 1, most) || found.get(name));
  }
  for (const group of alike()) {
    const ordered = [...group].sort(), front = commonLength(ordered);
    const beside = ordered.map((name, at) => (at ? commonLength([ordered[at - 1], name]) : 0));
    ordered.forEach((name, at) => found.set(name, around(name, front, 1 + Math.max(beside[at], beside[at + 1] || 0), most) || found.get(name)));
  }
  for (const name of alike().flat()) {
    const tag = ' #' + (known.indexOf(name) + 1);
    found.set(name, middle(printable(name), most - tag.length) + tag);
  }
  return found;
}

function grouped(names, keyOf) {
  const groups = new Map();
  for (const name of names) {
    const key = keyOf(name);
    if (groups.has(key)) groups.get(key).push(name);
    else groups.set(key, [name]);
  }
  return groups;
}

function middle(letters, most) {
  const head = Math.floor(most / 3);
  return letters.length <= most ? letters : letters.slice(0, head) + '…' + letters.slice(letters.length - (most - head - 1));
}

// How many letters all of some names begin with.
function commonLength(names) {
  let length = 0;
  while (names.every((name) => length < name.length && name[length] === names[0][length])) length++;
  return length;
}

// A name of which the letters from first to last and the end are in sight; null where these take too much room.
function around(name, first, last, most) {
  const near = [/\/(?=[^/]*$)/, /[_.:-](?=[^_.:-]*$)/].map((mark) => name.slice(Math.max(0, first - 16), first + 1).search(mark)).find((at) => at >= 0);
  const mark = near === undefined ? first - 4 : Math.max(0, first - 16) + near, start = mark > 1 ? mark : 0;
  const word = name.slice(last, last + 8).search(/[^\p{L}\p{N}]/u), end = word < 0 ? last : last + word;
  const head = (start ? '…' : '') + printable(name.slice(start, end)), rest = printable(name.slice(end)), room = most - head.length - 1;
  if (rest.length <= room + 1) return head + rest;
  return room >= 6 ? head + '…' + rest.slice(rest.length - room) : null;
}

// A sentence about ops: of its longest names the middle is left out.
function sentenceText(sentence) {
  const text = printable(sentence);
  const found = shortenedAll((text.match(/\S+/g) || []).map(bareWord).filter((word) => word.length > LONGEST_WORD), LONGEST_WORD);
  return found.size ? text.replace(/\S+/g, (word) => word.replace(bareWord(word), (name) => found.get(name) || name)) : text;
}

// A word without the mark before it and the few behind it, of which a hostile name may consist.
function bareWord(word) {
  return word.slice(word[0] === '(' ? 1 : 0, -3) + word.slice(-3).replace(/[.,;:)]+$/, '');
}

// So many letters of a name are shown where it may take lines, and of one in a sentence.
const LONGEST_NAME = 400, LONGEST_WORD = 200;

// A name that prefers to go on in the next line behind one of / _ . : -
function breakable(letters) {
  return letters.split(/(?<=[/_.:-])(?=[^/_.:-])/).flatMap((part, at) => (at ? [make('wbr'), part] : [part]));
}

// A command to copy, whose options are not broken behind their dash.
function commandBlock(command) {
  const words = printable(command).split(/(\s+)/);
  return make('pre', {class: 'command'}, words.map((word) => (/^-[\w-]+$/.test(word) ? make('span', {class: 'option'}, word) : word)));
}

// A number with so many significant digits; texts ('NaN', 'Infinity') stay.
function digits(value, count) {
  if (value === null || value === undefined) return '';
  if (typeof value !== 'number') return value === 'Infinity' ? '∞' : value === '-Infinity' ? '−∞' : String(value);
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e15) return String(value);
  if (size >= 1e-3 && size < 1e6) return String(Number(value.toPrecision(count)));
  return Number(value.toPrecision(count)).toExponential().replace('e+', 'e');
}

// The order of verdicts, the worst first.
const URGENCY = {fail: 0, not_compared: 1, pass: 2, expected_absent: 3};

// A verdict as words.
function words(verdict) {
  return verdict.replace(/_/g, ' ');
}

// A shape of a drawing with a title, which a pointer shows.
function titled(shape, title) {
  const text = document.createElementNS('http://www.w3.org/2000/svg', 'title');
  text.textContent = title;
  shape.append(text);
  return shape;
}

// The words of a filter, in small letters: what is found has all of them.
function wordsOf(text) {
  return text.toLowerCase().split(/\s+/).filter(Boolean);
}

// The document of an element that shell.data_block() made.
async function readData(id) {
  const holder = document.getElementById(id);
  const found = JSON.parse(holder.textContent);
  if (holder.dataset.packed !== 'gzip') return found;
  if (typeof DecompressionStream === 'undefined') throw new Error('this browser cannot unpack the data (it is from before 2023)');
  const bytes = Uint8Array.from(atob(found), (letter) => letter.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return JSON.parse(await new Response(plain).text());
}

// The value of a colour token of base.css, for canvases.
function token(name) {
  return getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
}

// Call act(true) before the page is printed, or shown as it would be, and act(false) afterwards. Paper is light: see base.css.
function onPrint(act) {
  const tell = (printing) => {
    document.documentElement.toggleAttribute('data-print', printing);
    act(printing);
  };
  window.addEventListener('beforeprint', () => tell(true));
  window.addEventListener('afterprint', () => tell(false));
  matchMedia('print').addEventListener('change', (event) => tell(event.matches));
}

// Put text on the clipboard; a page that was opened from a file may not have the modern way.
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch (error) {
    const area = make('textarea', {class: 'offscreen'}, text);
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}

// A button "copy" behind each command; safe to call again for commands that came later.
function addCopyButtons(root) {
  for (const command of root.querySelectorAll('pre.command:not([data-copy])')) {
    command.dataset.copy = '1';
    const button = make('button', {type: 'button', class: 'copy', 'aria-label': 'copy the command'}, 'copy');
    button.addEventListener('click', async () => {
      button.textContent = (await copyText(command.textContent)) ? 'copied' : 'select it';
      setTimeout(() => { button.textContent = 'copy'; }, 1500);
    });
    command.after(button);
  }
}

// Tell that everything is drawn.
function ready() {
  document.documentElement.setAttribute('data-ready', '1');
}
