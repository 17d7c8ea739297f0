// What the pages of the service share: asking, logging in, names and sizes.

// What stands before the paths of the service: empty, or the path of its public URL.
const BASE = document.documentElement.dataset.base || '', API = BASE + '/api/v1';

class NeedsToken extends Error {}
class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

// Ask for a document, or send one.
async function ask(path, sent) {
  const headers = {'X-Goldwatch': '1'};
  const answer = await fetch(path, sent === undefined ? {headers} : {method: 'POST', headers: {...headers, 'Content-Type': 'application/json'}, body: JSON.stringify(sent)});
  if (answer.status === 401) throw new NeedsToken();
  const found = await answer.json();
  if (!answer.ok) throw new Refused(found.error.message, answer.status);
  return found;
}

// Run a page; one that needs the token asks for it first.
async function startPage(start) {
  try {
    await session();
    await start();
  } catch (error) {
    if (error instanceof NeedsToken) logIn();
    else document.querySelector('main').replaceChildren(make('p', {class: 'problem', role: 'alert'}, error.message + '.'));
    ready();
  }
}

// Who looks on: only with a token can one log out, and only one that may submit has buttons.
async function session() {
  const who = await ask(API + '/session'), button = document.getElementById('logout');
  document.documentElement.dataset.may = who.role === 'submit' && !who.read_only ? 'submit' : 'view';
  if (!who.name || !button) return;
  button.hidden = false;
  button.title = 'logged in as ' + who.name;
  button.addEventListener('click', async () => {
    try {
      await ask(BASE + '/logout', {});
      location.reload();
    } catch (error) { document.getElementById('connection').textContent = 'The service does not answer.'; }
  });
}

function logIn() {
  const input = make('input', {type: 'password', id: 'token', autocomplete: 'current-password', required: ''});
  const said = make('p', {role: 'alert', id: 'login-problem'});
  const form = make('form', {id: 'login'}, [make('h2', {}, 'Log in'), make('p', {}, 'The token stands in the file that the service was started with, or was given to you.'),
    make('div', {class: 'choices'}, [make('label', {}, ['token ', input]), make('button', {type: 'submit'}, 'log in')]), said]);
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    try {
      const answer = await fetch(BASE + '/login', {method: 'POST', headers: {'Content-Type': 'application/json', 'X-Goldwatch': '1'}, body: JSON.stringify({token: input.value})});
      if (answer.ok) { location.reload(); return; }
      said.textContent = (await answer.json()).error.message + '.';
    } catch (error) { said.textContent = 'The service does not answer.'; }
    input.select();
  });
  document.getElementById('connection').textContent = '';
  document.querySelector('main').replaceChildren(form);
  input.focus();
}

function nameOf(run) {
  return run ? run.path.split('/').slice(-2).join('/') : 'run';
}

function bytesText(size) {
  const units = ['B', 'KB', 'MB', 'GB', 'TB', 'PB'];
  let at = 0;
  while (size >= 1000 && at < units.length - 1) { size /= 1000; at++; }
  return digits(size, 3) + ' ' + units[at];
}

function ageText(seconds) {
  if (seconds === null) return '';
  for (const [size, unit] of [[86400, 'd'], [3600, 'h'], [60, 'min']]) if (seconds >= size) return Math.floor(seconds / size) + ' ' + unit;
  return Math.floor(seconds) + ' s';
}
